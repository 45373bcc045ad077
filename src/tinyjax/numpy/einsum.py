"""einsum: opt_einsum chooses the order, `dot_general` contracts two arrays at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy.typing as npt

from tinyjax.arrays.elementwise import astype, promote, user_dtype
from tinyjax.arrays.intake import refuse_out
from tinyjax.arrays.products import PrecisionLike, contract
from tinyjax.arrays.shaping import diagonal, squeeze, transpose
from tinyjax.caching import bounded
from tinyjax.errors import InputError, ShapeError
from tinyjax.ir.dtypes import BOOL
from tinyjax.ir.shapes import Shape
from tinyjax.lax.explicit import computed
from tinyjax.lax.layouts import OutSharding
from tinyjax.numpy.signatures import Optimize, Sublist
from tinyjax.primitives.reductions import ReduceOr
from tinyjax.primitives.structure import ReduceSum
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind
from tinyjax.transforms.arguments import flag

if TYPE_CHECKING:
    from opt_einsum.contract import PathInfo

_Step: TypeAlias = tuple[tuple[int, ...], str]
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def einsum(
    subscripts: str | ArrayLike,
    /,
    *operands: ArrayLike | Sublist,
    out: None = None,
    optimize: Optimize = "auto",
    precision: PrecisionLike = None,
    preferred_element_type: npt.DTypeLike | None = None,
    out_sharding: OutSharding = None,
) -> Array:
    """Sums of products over named axes: `einsum("ij,jk->ik", x, y)`, or `einsum(x, [0, 1], y, [1, 2], [0, 2])`.

    >>> from tinyjax.numpy import asarray
    >>> einsum("i,i", asarray([1.0, 2.0]), asarray([3.0, 4.0]))
    Array(11., dtype=float64)
    """
    refuse_out("einsum", out)
    spec, given = (subscripts, operands) if isinstance(subscripts, str) else _named((subscripts, *operands))
    if not given:
        raise InputError("einsum needs at least one operand")
    order = optimize if isinstance(optimize, bool | str) else _order(optimize)

    def run(*named: Array) -> Array:
        arrays = list(promote(*named))
        for places, step in _steps(spec, tuple(x.aval.shape for x in arrays), order):
            inputs, result = step.split("->")
            terms = [(arrays.pop(place), names) for place, names in zip(places, inputs.split(","), strict=True)]
            if list(places) == sorted(places, reverse=True):  # so that the last ones are removed first
                terms.reverse()
            arrays.append(_contract(terms, result, precision, preferred_element_type))
        chosen = user_dtype(preferred_element_type)
        return arrays[0] if chosen is None else astype(arrays[0], chosen)

    return computed(run, list(map(as_array, given)), out_sharding)


def einsum_path(
    subscripts: str | ArrayLike, /, *operands: ArrayLike | Sublist, optimize: Optimize = "auto"
) -> tuple[list[tuple[int, ...]], PathInfo]:
    """The order in which einsum contracts, and what it costs."""
    spec, given = (subscripts, operands) if isinstance(subscripts, str) else _named((subscripts, *operands))
    shapes = [as_array(x).aval.shape for x in given]
    return _path(spec, shapes, optimize)


def _path(spec: str, shapes: Sequence[Shape], optimize: Optimize) -> tuple[list[tuple[int, ...]], PathInfo]:
    import opt_einsum  # at first need, because it takes a while

    return opt_einsum.contract_path(spec, *shapes, optimize=optimize, shapes=True)


def _named(arguments: tuple[ArrayLike | Sublist, ...]) -> tuple[str, tuple[ArrayLike | Sublist, ...]]:
    """Operands that alternate with lists of axes, as a string and the operands."""
    paired = len(arguments) - len(arguments) % 2
    names = [_letters(axes) for axes in arguments[1:paired:2]]
    result = "->" + _letters(arguments[-1]) if len(arguments) % 2 else ""
    return ",".join(names) + result, arguments[0:paired:2]


def _letters(axes: object) -> str:
    if not isinstance(axes, list | tuple):
        raise InputError(f"einsum takes a string and operands, or operands each with a list of its axes, got {axes!r}")
    return "".join("..." if axis is Ellipsis else _LETTERS[axis] for axis in axes)


def _order(optimize: object) -> bool | tuple[tuple[int, ...], ...]:
    """Which operands are multiplied at each step; or whether an order is looked for, which 1, 0 and None say, too."""
    if optimize is None:
        return False
    return tuple(optimize) if isinstance(optimize, Sequence) else flag("einsum: optimize", optimize)


@bounded(1024)
def _steps(spec: str, shapes: tuple[Shape, ...], optimize: bool | str | tuple[tuple[int, ...], ...]) -> list[_Step]:
    """For each contraction, which operands it takes, and their and its axes. Its result comes last in the list."""
    try:
        _, info = _path(spec, shapes, optimize)
    except (ValueError, TypeError, KeyError) as error:
        listed = ", ".join(map(str, shapes))
        raise ShapeError(f"einsum: {spec!r} doesn't go with operands of shapes {listed}: {error}") from None
    return [(places, step) for places, _, step, *_ in info.contraction_list]


def _contract(
    terms: list[tuple[Array, str]], result: str, precision: PrecisionLike, preferred: npt.DTypeLike | None
) -> Array:
    """The product of some operands, from left to right, with these axes."""
    x, names = terms[0]
    for i, (y, other) in enumerate(terms[1:], start=2):
        later = "".join(rest for _, rest in terms[i:])
        x, names = _product(x, names, y, other, result, later, precision, preferred)
    x, names = _reduced(x, names, result)
    return transpose(x, tuple(names.index(name) for name in result))


def _reduced(x: Array, names: str, kept: str) -> tuple[Array, str]:
    """x with every name once: the diagonal of those that repeat, the sum over those that aren't kept."""
    for name in names:
        while names.count(name) > 1:
            first = names.index(name)
            second = names.index(name, first + 1)
            sizes = x.aval.shape[first], x.aval.shape[second]
            if sizes[0] != sizes[1]:
                raise ShapeError(f"einsum: axes {first} and {second} of {x.aval} are both {name!r}, and differ in size")
            x = diagonal(x, 0, first, second)
            names = names[:first] + names[first + 1 : second] + names[second + 1 :] + name
    axes = tuple(i for i, name in enumerate(names) if name not in kept)
    if axes:
        (x,) = bind(ReduceOr(axes) if x.aval.dtype == BOOL else ReduceSum(axes), x)
    return x, "".join(name for name in names if name in kept)


def _product(
    x: Array,
    x_names: str,
    y: Array,
    y_names: str,
    result: str,
    later: str,
    precision: PrecisionLike,
    preferred: npt.DTypeLike | None,
) -> tuple[Array, str]:
    """The product of two arrays, summed over the names that neither the result has nor what comes later."""
    kept = result + later
    x, x_names = _reduced(x, x_names, kept + y_names)
    y, y_names = _reduced(y, y_names, kept + x_names)
    # An axis of size 1 is broadcast: the other operand has the axis alone.
    sizes = dict(zip(x_names, x.aval.shape, strict=True)), dict(zip(y_names, y.aval.shape, strict=True))
    x, x_names = _without_ones(x, x_names, sizes[1])
    y, y_names = _without_ones(y, y_names, sizes[0])
    shared = [name for name in x_names if name in y_names]
    batch = [name for name in shared if name in kept]
    summed = [name for name in shared if name not in kept]
    sums = tuple(map(x_names.index, summed)), tuple(map(y_names.index, summed))
    batches = tuple(map(x_names.index, batch)), tuple(map(y_names.index, batch))
    of_x, of_y = ("".join(name for name in names if name not in shared) for names in (x_names, y_names))
    first = "".join(batch)
    if first + of_y + of_x == result != first + of_x + of_y:  # nothing has to be transposed the other way round
        given = (precision[1], precision[0]) if isinstance(precision, tuple) else precision
        return contract(y, x, (sums[::-1], batches[::-1]), given, preferred), result
    return contract(x, y, (sums, batches), precision, preferred), first + of_x + of_y


def _without_ones(x: Array, names: str, others: dict[str, int]) -> tuple[Array, str]:
    shape = x.aval.shape
    dropped = [i for i, name in enumerate(names) if shape[i] == 1 and others.get(name, 1) != 1]
    return squeeze(x, dropped), "".join(name for i, name in enumerate(names) if i not in dropped)
