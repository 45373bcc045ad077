"""Functions of scalars, vectors or matrices as functions of arrays with more axes in front."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, SupportsIndex, TypeAlias

from tinyjax.arrays import shaping
from tinyjax.arrays.elementwise import broadcast_shapes
from tinyjax.arrays.shaping import canonical_axis, moveaxis
from tinyjax.deferred import VMAP
from tinyjax.errors import ChoiceError, InputError, ShapeError
from tinyjax.ir.shapes import Shape
from tinyjax.numpy.creation import asarray
from tinyjax.numpy.signatures import Nested
from tinyjax.tracebacks import filtered
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.transforms.arguments import function
from tinyjax.wrapping import wraps

#: The names of the last axes of each argument, or result.
_Names: TypeAlias = tuple[tuple[str, ...], ...]

_NAME: Final = r"\w+"
_AXES: Final = rf"\((?:{_NAME}(?:,{_NAME})*,?)?\)"
_LIST: Final = rf"(?:{_AXES}(?:,{_AXES})*)?"


def _parsed(signature: str) -> tuple[_Names, _Names]:
    text = re.sub(r"\s+", "", signature)
    if re.fullmatch(rf"{_LIST}->{_LIST}", text) is None or text.startswith("->") or text.endswith("->"):
        raise ChoiceError(f"vectorize: not a valid gufunc signature: {signature!r}. It is like '(m,n),(n)->(m)'")
    ins, outs = (tuple(tuple(re.findall(_NAME, axes)) for axes in re.findall(_AXES, side)) for side in text.split("->"))
    return ins, outs


def _check(what: str, shape: Shape, names: tuple[str, ...], sizes: dict[str, int], signature: str) -> Shape:
    """The shape without its last axes, whose sizes are noted."""
    if len(shape) < len(names):
        side = "output" if what.startswith("result") else "input"
        raise ShapeError(
            f"vectorize: {what}: {side} with shape {shape} does not have enough dimensions: {len(names)} axes in "
            f"signature {signature!r}"
        )
    at = len(shape) - len(names)
    for name, size in zip(names, shape[at:], strict=True):
        if (int(name) if name.isdigit() else sizes.setdefault(name, size)) != size:
            expected = int(name) if name.isdigit() else sizes[name]
            raise ShapeError(
                f"vectorize: inconsistent size for core dimension {name!r}: it is {size} in {what}, not {expected}, in "
                f"{signature!r}"
            )
    return shape[:at]


def vectorize(
    pyfunc: Callable[..., Any], *, excluded: Collection[int | str] = frozenset(), signature: str | None = None
) -> Callable[..., Any]:
    """A function of arrays with any number of axes in front, which are broadcast, from one of scalars.

    Or from one of arrays with as many axes as a `signature` says: "(m,n),(n)->(m)". Results too have those axes in
    front. Arguments that are `excluded`, by position or name, are passed on as they are.

    >>> import numpy as np
    >>> dot = vectorize(lambda x, y: (x * y).sum(), signature="(n),(n)->()")
    >>> dot(np.ones((2, 3)), np.arange(3.0))
    Array([3., 3.], dtype=float64)
    """
    if any(not isinstance(item, int | str) for item in excluded):
        raise InputError(
            f"vectorize can only exclude positions and names of arguments, integers and strings; got {excluded!r}"
        )
    if any(isinstance(item, int) and item < 0 for item in excluded):
        raise ChoiceError(f"vectorize: excluded={set(excluded)!r} contains negative numbers: positions are at least 0")
    parsed = None if signature is None else _parsed(signature)

    @filtered
    @wraps(pyfunc)
    def vectorized(*args: Any, **kwargs: Any) -> Any:
        fixed = {i: arg for i, arg in enumerate(args) if i in excluded or arg is None}
        named = [name for name in kwargs if name not in excluded]
        given = [arg for i, arg in enumerate(args) if i not in fixed] + [kwargs[name] for name in named]

        def call(*arrays: Array) -> Any:
            values, rest = iter(arrays), dict(kwargs)
            positional = [fixed[i] if i in fixed else next(values) for i in range(len(args))]
            rest.update({name: next(values) for name in named})
            return pyfunc(*positional, **rest)

        if parsed is not None and len(given) < len(parsed[0]):
            absent = {i for i, arg in fixed.items() if arg is None and i not in excluded}
            if absent:
                raise ChoiceError(f"vectorize: Cannot pass None at locations {absent!r} with signature={signature!r}")
        return _apply(call, [asarray(arg) for arg in given], parsed, signature or "")

    return vectorized


def _apply(
    function: Callable[..., Any], arrays: Sequence[Array], parsed: tuple[_Names, _Names] | None, signature: str
) -> Any:
    sizes: dict[str, int] = {}
    ins = ((),) * len(arrays) if parsed is None else parsed[0]
    if len(ins) != len(arrays):
        raise InputError(
            f"vectorize: wrong number of positional arguments: expected {len(ins)}, as in signature {signature!r}, got "
            f"{len(arrays)}"
        )
    fronts = [
        _check(f"argument {i}", x.shape, names, sizes, signature)
        for i, (x, names) in enumerate(zip(arrays, ins, strict=True))
    ]
    shape = broadcast_shapes(*fronts)

    def checked(*parts: Array) -> Any:
        found = function(*parts)
        results = tuple(found) if isinstance(found, list | tuple) else (found,)
        values, known = [asarray(x) for x in results], dict(sizes)
        if parsed is not None:
            outs = parsed[1]
            if isinstance(found, list | tuple) != (len(outs) > 1):
                wanted = "must be a tuple" if len(outs) > 1 else "must be one array"
                raise InputError(f"vectorize: output {wanted}, as in signature {signature!r}, got {found!r}")
            if len(outs) != len(results):
                raise InputError(
                    f"vectorize: wrong number of output arguments: expected {len(outs)}, as in signature "
                    f"{signature!r}, got {len(results)}"
                )
            for i, (x, names) in enumerate(zip(values, outs, strict=True)):
                if _check(f"result {i}", x.shape, names, known, signature) != ():
                    raise ShapeError(
                        f"vectorize: output shape {x.shape} does not match core dimensions {names} of result {i} in "
                        f"{signature!r}"
                    )
        return tuple(values) if isinstance(found, list | tuple) else values[0]

    mapped: Callable[..., Any] = checked
    single: list[int] = []  # axes of size 1 of all arrays, which nothing is mapped over
    flat = list(arrays)
    padded = [(1,) * (len(shape) - len(front)) + front for front in fronts]
    for axis in range(len(shape) - 1, -1, -1):
        axes = tuple(0 if front[axis] == shape[axis] != 1 else None for front in padded)
        if all(at is None for at in axes):
            single.insert(0, axis)
        else:
            mapped = VMAP.use(mapped, axes)
    for i, (x, front) in enumerate(zip(arrays, fronts, strict=True)):
        ones = tuple(at for at, size in enumerate(front) if size == 1 or shape[len(shape) - len(front) + at] != size)
        flat[i] = shaping.squeeze(x, ones) if ones else x
    found = mapped(*flat)
    if not single:
        return found
    return tuple(shaping.expand_dims(x, single) for x in found) if isinstance(found, tuple) else shaping.expand_dims(
        found, single)  # fmt: skip


def apply_along_axis(
    func1d: Callable[..., ArrayLike], axis: SupportsIndex, arr: Nested, *args: Any, **kwargs: Any
) -> Array:
    """What a function makes of each vector along an axis, whose place the axes of its results take.

    >>> import numpy as np
    >>> apply_along_axis(lambda v: v.sum(), 1, np.ones((2, 3)))
    Array([3., 3.], dtype=float64)
    """
    x = asarray(arr)
    function("apply_along_axis: func1d", func1d)
    at = canonical_axis(axis, x.ndim, "apply_along_axis")
    mapped: Callable[..., Any] = lambda v: asarray(func1d(v, *args, **kwargs))  # noqa: E731 (it is wrapped below)
    for _ in range(x.ndim - 1):
        mapped = VMAP.use(mapped, (0,))
    rows = moveaxis(x, at, -1)
    found: Array = mapped(rows)
    extra = found.ndim - (x.ndim - 1)
    return moveaxis(found, tuple(range(x.ndim - 1, found.ndim)), tuple(range(at, at + extra)))


def apply_over_axes(
    func: Callable[[Array, int], Array], a: Nested, axes: SupportsIndex | Sequence[SupportsIndex]
) -> Array:
    """A function of an array and an axis, applied for each of these axes in turn; axes that it takes away stay, with
    size 1.

    >>> import numpy as np
    >>> import tinyjax.numpy as tnp
    >>> apply_over_axes(tnp.sum, np.ones((2, 3)), (0, 1))
    Array([[6.]], dtype=float64)
    """
    x = asarray(a)
    function("apply_over_axes: func", func)
    for axis in axes if isinstance(axes, Sequence) else [axes]:
        at = canonical_axis(axis, x.ndim, "apply_over_axes")
        found = as_array(func(x, at))
        if found.ndim not in (x.ndim, x.ndim - 1):
            raise ShapeError("apply_over_axes: the function must keep the axes, or take away the one that it is given")
        x = shaping.expand_dims(found, at) if found.ndim == x.ndim - 1 else found
    return x
