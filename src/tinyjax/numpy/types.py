"""What there is to ask of dtypes, and of arrays' types."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, SupportsIndex

import numpy as np
import numpy.typing as npt

from tinyjax.arrays import promotion
from tinyjax.arrays.shaping import canonical_axes
from tinyjax.backend import DeviceLike
from tinyjax.caching import bounded
from tinyjax.errors import InputError, TypingError
from tinyjax.ir.dtypes import (
    BFLOAT16,
    BOOL,
    COMPLEXES,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    FLOATS,
    INTEGERS,
    KEYS,
    NUMERIC,
    SIGNED,
    UNSIGNED,
    WIDE,
    DType,
    all_numbers,
    bits,
    finite_limits,
    integer_limits,
    real_dtype,
)
from tinyjax.ir.shapes import Shape
from tinyjax.lax.types_said import described
from tinyjax.numpy.creation import asarray
from tinyjax.numpy.key_kinds import KINDS, prng_key
from tinyjax.numpy.limits import FloatInfo, IntInfo
from tinyjax.numpy.signatures import Casting, HasDType, Nested
from tinyjax.numpy.typed import is_array, type_of
from tinyjax.primitives.conversion import array_dtype
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array


def astype(
    x: ArrayLike, dtype: npt.DTypeLike | None, /, *, copy: bool = False, device: DeviceLike | None = None
) -> Array:
    """The elements converted to a dtype; None is float64."""
    return as_array(x).astype(dtype, copy, device)


def result_type(*args: ArrayLike | npt.DTypeLike) -> DType:
    """The dtype that arrays, scalars and dtypes are promoted to. If all are weakly typed, it is that of Python's
    numbers of their kind.

    >>> result_type("int32", "float32"), result_type(np.float32(1), 2.0)
    (dtype('float32'), dtype('float32'))
    """
    if not args:
        raise InputError("result_type needs at least one array or dtype")
    dtype, weak = promotion.result_type(map(type_of, args))
    return promotion.widest(dtype) if weak else dtype


def promote_types(a: npt.DTypeLike, b: npt.DTypeLike) -> DType:
    """The dtype that two dtypes are promoted to."""
    return result_type(a, b)


def can_cast(from_: npt.DTypeLike | Array, to: npt.DTypeLike, casting: Casting = "safe") -> bool:
    """Whether every value of one dtype exists in the other; or, for other rules of casting than "safe", less."""
    return np.can_cast(from_.aval.dtype if isinstance(from_, Array) else from_, to, casting)


def issubdtype(arg1: npt.DTypeLike, arg2: npt.DTypeLike) -> bool:
    """Whether a dtype is another, or of a kind of dtypes such as `floating`, which bfloat16 is too. Keys' dtypes are of
    the kind `tinyjax.dtypes.prng_key`."""
    if isinstance(arg1, np.dtype) and arg1 in KEYS:
        return arg1 == arg2 if isinstance(arg2, np.dtype) else np.issubdtype(prng_key, arg2)
    extended = _extended(arg1)
    if extended is None or extended == _extended(arg2):
        return extended is not None or (_extended(arg2) is None and np.issubdtype(arg1, arg2))
    kind = np.floating if extended in FLOATS else np.signedinteger if extended in SIGNED else np.unsignedinteger
    return _extended(arg2) is None and np.issubdtype(kind, arg2)


def _extended(x: npt.DTypeLike) -> DType | None:
    """The dtype, if it is one that NumPy has from elsewhere."""
    if isinstance(x, type) and (not issubclass(x, np.generic) or x in _ABSTRACT):
        return None
    try:
        found = array_dtype(x)
    except (InputError, TypingError):
        return None
    return found if found in WIDE or found == BFLOAT16 else None


#: Kinds of dtypes, which NumPy takes for dtypes itself, and warns.
_ABSTRACT: Final = frozenset(
    {np.generic, np.number, np.integer, np.signedinteger, np.unsignedinteger, np.inexact, np.floating}
    | {np.complexfloating, np.flexible, np.character, *KINDS}
)


_KINDS: Final[dict[str, frozenset[DType]]] = {
    "bool": frozenset({BOOL}),
    "signed integer": SIGNED,
    "unsigned integer": UNSIGNED,
    "integral": INTEGERS,
    "real floating": FLOATS,
    "complex floating": COMPLEXES,
    "numeric": NUMERIC,
}


def isdtype(dtype: npt.DTypeLike, kind: npt.DTypeLike | tuple[npt.DTypeLike, ...]) -> bool:
    """Whether a dtype is another, or of a kind: "bool", "signed integer", "unsigned integer", "integral", "real
    floating", "complex floating" or "numeric"; or any of several."""
    return any(_is_of_kind(array_dtype(dtype), entry) for entry in (kind if isinstance(kind, tuple) else (kind,)))


def _is_of_kind(dtype: DType, kind: npt.DTypeLike) -> bool:
    return dtype in _KINDS[kind] if isinstance(kind, str) and kind in _KINDS else dtype == array_dtype(kind)


# Limits.


_EXPONENT_BITS: Final = {FLOAT16: 5, BFLOAT16: 8, FLOAT32: 8, FLOAT64: 11}


def _dtype_or_its_own(x: npt.DTypeLike | Array) -> DType:
    return x.aval.dtype if isinstance(x, Array) else array_dtype(x.dtype if isinstance(x, np.ndarray) else x)


def finfo(dtype: npt.DTypeLike | Array) -> FloatInfo:
    """The limits of a float dtype, or of the parts of a complex one, or of that of an array.

    >>> finfo("float16").max, finfo("bfloat16").eps
    (65504.0, 0.0078125)
    """
    return _info(real_dtype(_dtype_or_its_own(dtype)))


@bounded(64)
def _info(found: DType) -> FloatInfo:
    if found in WIDE and found in FLOATS:
        return _narrow_info(found)
    if found not in _EXPONENT_BITS:
        raise InputError(f"finfo is for float and complex dtypes, got {found.name}")
    nexp = _EXPONENT_BITS[found]
    nmant, lowest = bits(found) - nexp - 1, 2 - (1 << (nexp - 1))
    largest = math.ldexp(2.0 - 2.0**-nmant, 1 - lowest)
    smallest = 2.0**lowest, 2.0 ** (lowest - nmant)
    return FloatInfo(found, bits(found), nmant, nexp, largest, -largest, 2.0**-nmant, *smallest)


def _narrow_info(dtype: DType) -> FloatInfo:
    """The same for floats of a byte and less, of all their numbers."""
    numbers = all_numbers(dtype).astype(np.float64)
    positive = np.sort(numbers[np.isfinite(numbers) & (numbers > 0)])
    eps, least, (lowest, largest) = float(positive[positive > 1][0]) - 1, float(positive[0]), finite_limits(dtype)
    nmant = -math.frexp(eps)[1] + 1
    nexp = bits(dtype) - nmant - (lowest < 0)
    return FloatInfo(dtype, bits(dtype), nmant, nexp, largest, lowest, eps, math.ldexp(least, nmant), least)


def iinfo(int_type: npt.DTypeLike | Array) -> IntInfo:
    """The limits of an integer dtype, or of that of an array.

    >>> iinfo("int8").max
    127
    """
    found = _dtype_or_its_own(int_type)
    if found not in INTEGERS:
        raise InputError(f"iinfo is for integer dtypes, got {found.name}")
    least, greatest = integer_limits(found)
    return IntInfo(found, bits(found), greatest, least)


# Shapes.


def shape(a: Nested | None) -> Shape:
    """The sizes of the axes; of None, for what isn't given, none, as in NumPy."""
    if a is None:
        return ()
    said = described(a)
    return asarray(a).aval.shape if said is None else said.shape


def ndim(a: Nested | None) -> int:
    """The number of axes."""
    return len(shape(a))


def size(a: Nested | None, axis: SupportsIndex | Iterable[SupportsIndex] | None = None) -> int:
    """The number of elements, in all or along these axes."""
    sizes = shape(a)
    return math.prod(sizes[i] for i in canonical_axes(axis, len(sizes), "size"))


def iscomplexobj(x: Nested | HasDType | None) -> bool:
    """Whether the dtype is complex: of an array, or of what has one, such as `complex64` itself; None has none."""
    if isinstance(x, Array):  # at once: asking a protocol takes ten times as long
        return x.aval.dtype in COMPLEXES
    if isinstance(x, HasDType) and isinstance(x.dtype, np.dtype):
        return x.dtype in COMPLEXES
    return x is not None and asarray(x).aval.dtype in COMPLEXES


def isrealobj(x: Nested | HasDType | None) -> bool:
    """Whether the dtype isn't complex."""
    return not iscomplexobj(x)


def isscalar(element: object) -> bool:
    """Whether it is a scalar: Python's, NumPy's, or an array without axes, also one that `__jax_array__` gives."""
    if isinstance(element, Array | np.ndarray):
        return element.shape == ()
    if is_array(element):
        return as_array(element).aval.shape == ()
    return isinstance(element, bool | int | float | complex | np.generic)
