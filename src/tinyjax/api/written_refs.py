"""What is done with what a Ref holds at a place that was written in JAX's way: `b[0,:][c]`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from tinyjax import lax
from tinyjax.api.make_jaxpr import make_jaxpr
from tinyjax.errors import ShapeError, TypingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.text.written import Computed, Index, Span
from tinyjax.tracing.array import Array

#: Along an axis a position, an array of positions, or a start and a size.
Chosen: TypeAlias = int | Array | tuple[int | Array, int]


def at_ref_program(name: str, indices: Sequence[Index], avals: Sequence[ShapedArray]) -> Jaxpr:
    """The program of `get`, `swap` or `addupdate` at these indices, each of what the one before gives: of what the Ref
    holds, of the value to be written if one is, and of the operands in the indices. It returns what is there, or what
    the Ref holds then."""

    def read(x: Array, *operands: Array) -> Array:
        given = iter(operands)
        for index in indices:
            for chosen in _steps(x, index, given):
                x = _taken(x, chosen)
        return x

    def written(x: Array, value: Array, *operands: Array) -> Array:
        given = iter(operands)
        held = x
        path: list[tuple[Array, list[Chosen]]] = []
        for index in indices:
            for chosen in _steps(held, index, given):
                path.append((held, chosen))
                held = _taken(held, chosen)
        _check_written(held, value)
        if name == "addupdate" and path and _at_arrays(path[-1][1]):  # which may have a position twice
            around, chosen = path.pop()
            new = around.at[_key(chosen)].add(value)
        else:
            new = held + value if name == "addupdate" else value
        for around, chosen in reversed(path):
            new = _put(around, chosen, new)
        return new

    return make_jaxpr(read if name == "get" else written)(*avals).jaxpr


def _check_written(held: Array, value: Array) -> None:
    if (held.shape, held.dtype) != (value.shape, value.dtype):
        raise TypingError(f"a value of type {value.aval} is written to a place of a Ref that holds {held.aval}")


def _steps(x: Array, index: Index, given: Iterator[Array]) -> list[list[Chosen]]:
    """What is chosen along each axis: first windows at computed places, if there are arrays of positions, too."""
    if index is None:
        return []
    if len(index) != x.ndim:
        raise ShapeError(f"an index of a Ref has one entry for each axis: {len(index)} for {x.aval}")
    chosen = [_along(size, entry, given) for size, entry in zip(x.shape, index, strict=True)]
    if not _at_arrays(chosen) or not any(isinstance(each, tuple) and isinstance(each[0], Array) for each in chosen):
        return [chosen]
    windows: list[Chosen] = []
    rest: list[Chosen] = []
    for size, each in zip(x.shape, chosen, strict=True):
        moved = isinstance(each, tuple) and isinstance(each[0], Array)
        windows.append(each if moved else (0, size))
        rest.append((0, each[1]) if isinstance(each, tuple) and moved else each)
    return [windows, rest]


def _along(size: int, entry: int | Span | Computed, given: Iterator[Array]) -> Chosen:
    if isinstance(entry, int):  # one that is outside is moved, as computed ones are
        return min(max(entry + size if entry < 0 else entry, 0), size - 1)
    if isinstance(entry, Computed):
        return next(given) if entry.size is None else (next(given), entry.size)
    stop = size if entry.stop is None else entry.stop
    if not 0 <= entry.start <= stop <= size:
        raise ShapeError(f"{entry.start}:{stop} is no part of an axis of size {size}")
    return entry.start, stop - entry.start


def _at_arrays(chosen: Sequence[Chosen]) -> bool:
    return any(isinstance(each, Array) and each.ndim > 0 for each in chosen)


def _key(chosen: Sequence[Chosen]) -> tuple[int | Array | slice, ...]:
    """The index of NumPy's."""
    return tuple([slice(each[0], each[0] + each[1]) if isinstance(each, tuple) else each for each in chosen])


def _window(chosen: Sequence[Chosen]) -> tuple[list[int | Array], list[int], list[int]]:
    """Starts and sizes, and the axes that a position leaves out."""
    starts = [each[0] if isinstance(each, tuple) else each for each in chosen]
    sizes = [each[1] if isinstance(each, tuple) else 1 for each in chosen]
    return starts, sizes, [i for i, each in enumerate(chosen) if not isinstance(each, tuple)]


def _taken(x: Array, chosen: Sequence[Chosen]) -> Array:
    if _at_arrays(chosen):
        return x[_key(chosen)]
    starts, sizes, dropped = _window(chosen)
    known = [start for start in starts if isinstance(start, int)]
    if len(known) < len(starts):
        return lax.squeeze(lax.dynamic_slice(x, starts, sizes), dropped)
    ends = [start + size for start, size in zip(known, sizes, strict=True)]
    return lax.squeeze(lax.slice(x, known, ends), dropped)


def _put(x: Array, chosen: Sequence[Chosen], value: Array) -> Array:
    if _at_arrays(chosen):
        return x.at[_key(chosen)].set(value)
    starts, _, dropped = _window(chosen)
    return lax.dynamic_update_slice(x, lax.expand_dims(value, dropped), starts)
