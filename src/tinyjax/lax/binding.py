"""Strict application: no promotion, but Python scalars take the dtype of their neighbours; no broadcasting, but
operands of elementwise functions with the same number of axes are repeated along axes of size 1."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, SupportsIndex, TypeGuard, TypeVar

from tinyjax.arrays.elementwise import broadcast, convert
from tinyjax.arrays.promotion import result_type
from tinyjax.arrays.shaping import integers
from tinyjax.errors import AxisNameError, InputError, ShapeError
from tinyjax.ir.dtypes import COMPLEXES, FLOATS, INTEGERS, DType
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.shapes import Axes
from tinyjax.lax.signatures import AxisName
from tinyjax.primitives.accuracy import AccuracyMode, Accurate, Tolerance
from tinyjax.primitives.casts import casts
from tinyjax.primitives.contractions import DimensionNumbers
from tinyjax.primitives.window_shapes import Padding
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind

T = TypeVar("T")
_KINDS: Final = (INTEGERS, FLOATS, COMPLEXES)


def operands(*values: ArrayLike) -> list[Array]:
    """The values as arrays. Weakly typed scalars take the dtype of the others, unless they would lose their kind."""
    arrays = [as_array(value) for value in values]
    dtypes = {array.aval.dtype for array in arrays}
    if len(dtypes) <= 1:
        return arrays
    strong = {array.aval.dtype for array in arrays if not array.aval.weak_type}
    if len(strong) > 1:
        return arrays
    weak_type = not strong
    dtype = result_type(array.aval for array in arrays)[0] if weak_type else strong.pop()
    return [convert(array, dtype, weak_type) if _adapts(array, dtype) else array for array in arrays]


def _adapts(x: Array, dtype: DType) -> bool:
    aval = x.aval
    return aval.weak_type and aval.shape == () and any(aval.dtype in kind and dtype in kind for kind in _KINDS)


def strict(primitive: Primitive, *values: ArrayLike) -> Array:
    """Applies a primitive with one result."""
    return bind(primitive, *operands(*values))[0]


def accurate(primitive: Accurate, x: ArrayLike, accuracy: object) -> Array:
    """Applies an elementary function, as exact as this. JAX's own objects that say so are taken, too."""
    if accuracy is None:
        return strict(primitive, x)
    if not isinstance(accuracy, Tolerance | AccuracyMode):
        named = type(accuracy).__name__
        if named == "AccuracyMode":
            accuracy = AccuracyMode[str(getattr(accuracy, "name", ""))]
        elif named == "Tolerance":
            accuracy = Tolerance(*(getattr(accuracy, field, 0) for field in ("atol", "rtol", "ulps")))
        else:
            raise InputError(f"{primitive.name}: accuracy is a lax.Tolerance or a lax.AccuracyMode, got {accuracy!r}")
    return strict(primitive.within(accuracy), x)


def strict_pair(primitive: Primitive, x: ArrayLike, y: ArrayLike) -> Array:
    """Applies an elementwise primitive to two operands, of which each is repeated along axes of size 1."""
    return bind_pair(primitive, *operands(x, y))


def bind_pair(primitive: Primitive, x: Array, y: Array) -> Array:
    """The same, with operands whose dtypes are left as they are."""
    left, right = x.aval.shape, y.aval.shape
    if (
        (left != right or x.aval.axes != y.aval.axes)
        and len(left) == len(right)
        and all(m == n or 1 in (m, n) for m, n in zip(left, right, strict=True))
    ):
        x, y = broadcast(x, y)
    return bind(primitive, x, y)[0]


def varied(x: Array, axes: Axes) -> Array:
    """x as a value that varies along these axes of a mesh, or whatever else they say; itself if it is such a one."""
    for kind in casts(x.aval.axes, axes):
        (x,) = bind(kind, x)
    return x


def axes_tuple(axes: SupportsIndex | Sequence[SupportsIndex], ndim: int) -> tuple[int, ...]:
    """One axis or several; negative ones count from the end. Those that aren't there stay as they are written."""
    listed = integers(axes, "an axis")
    return tuple(axis + ndim if -ndim <= axis < 0 else axis for axis in listed)


def axis_names(axis_name: AxisName) -> tuple[str, ...]:
    """One name or several."""
    names = (axis_name,) if isinstance(axis_name, str) else sequence("axis_name", axis_name)
    if isinstance(axis_name, set | frozenset) or not all(isinstance(name, str) for name in names):
        raise InputError(f"axis_name is the name of a mapped axis, or several names, not {axis_name!r}")
    if twice := [name for name in names if names.count(name) > 1]:
        raise AxisNameError(f"axis_name names each axis once, but {twice[0]!r} is there twice in {axis_name!r}")
    return names


def is_many(given: object) -> TypeGuard[Iterable[object]]:
    """Whether something is several values: arrays with an axis are, strings aren't."""
    return isinstance(given, Iterable) and not isinstance(given, str) and getattr(given, "shape", None) != ()


def sequence(what: str, values: Iterable[T], size: int | None = None) -> tuple[T, ...]:
    """What must be several values, such as a list, or so many; an InputError if it is one, or another number."""
    given: object = values
    if not is_many(given):
        raise InputError(f"{what} is a sequence, such as a tuple, not {given!r}")
    found = tuple(values)
    if size is not None and len(found) != size:
        raise InputError(f"{what} has {size} parts, got {len(found)}")
    return found


def padding_pairs(name: str, padding: Iterable[Sequence[SupportsIndex]]) -> Padding:
    """Pairs of numbers, one for each axis."""
    return number_pairs(f"{name}: the padding argument", padding, "a string, or a pair of numbers for each axis")


def number_pairs(
    what: str, pairs: Iterable[Sequence[SupportsIndex]], of: str = "a sequence of pairs of integers"
) -> tuple[tuple[int, int], ...]:
    """What must be pairs of integers; a ShapeError that says so."""
    if is_many(pairs):
        found = [integers(pair, what) for pair in pairs]
        if all(len(pair) == 2 for pair in found):
            return tuple((first, second) for first, second in found)
    raise ShapeError(f"{what} is {of}, got {pairs!r}")


def dimension_pairs(name: str, given: Sequence[Sequence[Sequence[int]]]) -> DimensionNumbers:
    """((axes of lhs, of rhs), (axes of lhs, of rhs)), such as `dot_general` has them: summed over, and batch axes."""
    pairs = sequence(f"{name}: dimension_numbers", given)
    found = [[integers(axes, f"{name}: an axis") for axes in sequence(f"{name}: a pair of axes", p)] for p in pairs]
    if [len(pair) for pair in found] != [2, 2]:
        raise ShapeError(f"{name}: dimension_numbers has a pair of pairs of axes, got {given}")
    return (found[0][0], found[0][1]), (found[1][0], found[1][1])
