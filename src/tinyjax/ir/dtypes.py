"""Element types: NumPy's, with the extended floats of ml_dtypes, their short names and their kinds."""

from __future__ import annotations

import math
import re
from typing import Any, Final, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tinyjax.errors import ChoiceError, InputError

DType: TypeAlias = np.dtype[np.generic]
#: Its dtype is known to its primitive, not to the type checker, to which np.generic would have no operators.
HostArray: TypeAlias = npt.NDArray[Any]
Scalar: TypeAlias = bool | int | float | complex


def _dtype(kind: npt.DTypeLike) -> DType:
    return np.dtype(kind)


BOOL: Final = _dtype(np.bool_)
INT8, INT16, INT32, INT64 = (_dtype(t) for t in (np.int8, np.int16, np.int32, np.int64))
UINT8, UINT16, UINT32, UINT64 = (_dtype(t) for t in (np.uint8, np.uint16, np.uint32, np.uint64))
FLOAT16, FLOAT32, FLOAT64 = (_dtype(t) for t in (np.float16, np.float32, np.float64))
BFLOAT16: Final = _dtype(ml_dtypes.bfloat16)
COMPLEX64, COMPLEX128 = _dtype(np.complex64), _dtype(np.complex128)
FLOAT4: Final = _dtype(ml_dtypes.float4_e2m1fn)
#: The floats of 8 bits and fewer, and the integers of 4 and 2. One more is one more here: its name says the rest.
NARROW_FLOATS: Final = tuple(
    _dtype(kind)
    for kind in (
        ml_dtypes.float8_e3m4,
        ml_dtypes.float8_e4m3,
        ml_dtypes.float8_e4m3b11fnuz,
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e4m3fnuz,
        ml_dtypes.float8_e5m2,
        ml_dtypes.float8_e5m2fnuz,
        ml_dtypes.float8_e8m0fnu,
        ml_dtypes.float6_e2m3fn,
        ml_dtypes.float6_e3m2fn,
        FLOAT4,
    )
)
NARROW_SIGNED: Final = tuple(_dtype(kind) for kind in (ml_dtypes.int4, ml_dtypes.int2))
NARROW_UNSIGNED: Final = tuple(_dtype(kind) for kind in (ml_dtypes.uint4, ml_dtypes.uint2))
#: What all numbers of a narrow dtype are exact in, and are computed with on the host.
WIDE: Final[dict[DType, DType]] = {
    **dict.fromkeys(NARROW_FLOATS, FLOAT32),
    **dict.fromkeys(NARROW_SIGNED, INT8),
    **dict.fromkeys(NARROW_UNSIGNED, UINT8),
}
#: The type of tangents of values that have none, such as integers: no bits at all. The same dtype as JAX's.
FLOAT0: Final = _dtype([("float0", np.void, 0)])
float0: Final = FLOAT0  # its name in JAX
#: How keys of random numbers are made and used: JAX's names, the tags that dtypes have, and a key's words of 32 bits.
_GENERATORS: Final = (
    ("threefry2x32", "fry", 2),
    ("rbg", "rbg", 4),
    ("unsafe_rbg", "urbg", 4),
    ("threefry4x32", "fry4", 4),
    ("philox2x32", "phx2", 1),
    ("philox4x32", "phx4", 2),
)
#: The dtypes of keys, with the names. Nothing is known of keys but what primitives on them say.
KEY_NAMES: Final[dict[DType, str]] = {_dtype([(tag, np.uint32, (n,))]): name for name, tag, n in _GENERATORS}
KEYS: Final = frozenset(KEY_NAMES)
#: Those of Threefry, which keys are unless they are asked to be others.
KEY: Final = next(iter(KEY_NAMES))
#: Numbers of as many bits: as such keys are moved about where there are only numbers.
CARRIERS: Final[dict[DType, DType]] = {
    dtype: {4: UINT32, 8: UINT64, 16: COMPLEX128}[dtype.itemsize] for dtype in KEY_NAMES
}

SIGNED: Final = frozenset({INT8, INT16, INT32, INT64, *NARROW_SIGNED})
UNSIGNED: Final = frozenset({UINT8, UINT16, UINT32, UINT64, *NARROW_UNSIGNED})
INTEGERS: Final = SIGNED | UNSIGNED
FLOATS: Final = frozenset({FLOAT16, BFLOAT16, FLOAT32, FLOAT64, *NARROW_FLOATS})
COMPLEXES: Final = frozenset({COMPLEX64, COMPLEX128})
INEXACT: Final = FLOATS | COMPLEXES
NUMERIC: Final = INTEGERS | INEXACT
SUPPORTED: Final = NUMERIC | {BOOL}
#: What can be moved about, chosen from and compared, if not computed with.
MOVABLE: Final = SUPPORTED | KEYS

SHORT_NAMES: Final[dict[DType, str]] = {
    BOOL: "bool",
    INT8: "i8",
    INT16: "i16",
    INT32: "i32",
    INT64: "i64",
    UINT8: "u8",
    UINT16: "u16",
    UINT32: "u32",
    UINT64: "u64",
    FLOAT16: "f16",
    BFLOAT16: "bf16",
    FLOAT32: "f32",
    FLOAT64: "f64",
    COMPLEX64: "c64",
    COMPLEX128: "c128",
    FLOAT0: "float0",
    **{dtype: f"key<{dtype.names[0]}>" for dtype in KEY_NAMES if dtype.names},
    **{dtype: re.sub("[a-z]+", lambda word: word[0][0], dtype.name, count=1) for dtype in WIDE},  # such as f8_e4m3fn
}
#: The words for dtypes where they are parameters: NumPy's, but for those that have no name there.
WORDS: Final[dict[DType, str]] = {dtype: name if dtype.names else dtype.name for dtype, name in SHORT_NAMES.items()}
#: The same the other way round.
_BY_SHORT_NAME: Final = {name: dtype for dtype, name in SHORT_NAMES.items()}
#: Those which NumPy has for other dtypes.
_OF_NUMPY: Final = frozenset({"bool", "i8", "i4", "i2", "u8", "u4", "u2"})
#: The dtype that a Python scalar has when nothing else decides.
PYTHON_DTYPES: Final[dict[type, DType]] = {bool: BOOL, int: INT64, float: FLOAT64, complex: COMPLEX128}
_REAL_OF: Final = {COMPLEX64: FLOAT32, COMPLEX128: FLOAT64}
_COMPLEX_OF: Final = {FLOAT32: COMPLEX64, FLOAT64: COMPLEX128}


def as_dtype(dtype: npt.DTypeLike) -> DType:
    """The dtype named by a dtype, a scalar type, a string or a Python type.

    A string is read as NumPy does, or as programs are printed where NumPy has no such dtype: "f32", "bf16", "i32".
    (NumPy counts bytes, so "i8" is int64 here, and "u8" uint64; see `printed_dtype`.) What names none is an InputError.

    >>> as_dtype("float32"), as_dtype("bf16")
    (dtype('float32'), dtype(bfloat16))
    """
    if type(dtype) is str and dtype in _BY_SHORT_NAME:
        return _BY_SHORT_NAME[dtype] if dtype not in _OF_NUMPY else np.dtype(dtype)
    if hasattr(dtype, "__array__") and not isinstance(dtype, type | np.generic):
        raise ChoiceError(f"an array was given as a dtype, {dtype!r}: write x.dtype for the dtype of an array x")
    try:
        return np.dtype(dtype)
    except (TypeError, ValueError):
        raise InputError(f"{dtype!r} is not a dtype, such as 'float32' or int") from None


def printed_dtype(dtype: npt.DTypeLike) -> DType:
    """The same, where every name that programs are printed with counts: "i8" is int8.

    >>> printed_dtype("i8"), printed_dtype("int8"), printed_dtype("i4")
    (dtype('int8'), dtype('int8'), dtype(int4))
    """
    found = _BY_SHORT_NAME.get(dtype) if type(dtype) is str else None
    return np.dtype(dtype) if found is None else found


def short_name(dtype: DType) -> str:
    """The name used in printed programs.

    >>> short_name(FLOAT64), short_name(BFLOAT16)
    ('f64', 'bf16')
    """
    return SHORT_NAMES.get(dtype) or dtype.name


def names_of(dtypes: frozenset[DType]) -> str:
    """A set of dtypes for a message: short names, and families that are whole.

    >>> names_of(FLOATS | {INT32})
    'i32, floats'
    """
    families = {"bool": {BOOL}, "signed integers": SIGNED, "unsigned integers": UNSIGNED}
    families |= {"floats": FLOATS, "complex numbers": COMPLEXES}
    whole = {name: members for name, members in families.items() if members <= dtypes}
    others = dtypes.difference(*whole.values())
    single = sorted(others, key=lambda dtype: (dtype.kind, dtype.itemsize, dtype.name))
    return ", ".join([*map(short_name, single), *whole])


def bits(dtype: DType) -> int:
    """How many bits a number has: in memory narrow ones take a byte each.

    >>> bits(FLOAT64), bits(as_dtype("int4"))
    (64, 4)
    """
    return int(re.sub(r"\D*(\d+).*", r"\1", dtype.name)) if dtype in WIDE else 8 * dtype.itemsize


def integer_limits(dtype: DType) -> tuple[int, int]:
    """The least integer of a dtype, and the greatest.

    >>> integer_limits(INT8), integer_limits(as_dtype("uint4"))
    ((-128, 127), (0, 15))
    """
    values = 1 << bits(dtype)
    return (-(values >> 1), (values >> 1) - 1) if dtype in SIGNED else (0, values - 1)


def all_numbers(dtype: DType) -> HostArray:
    """Every number of a narrow dtype, in order of their bits.

    >>> all_numbers(as_dtype("float4_e2m1fn"))[:8].tolist()
    [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
    """
    patterns: HostArray = np.arange(1 << bits(dtype)).astype(UINT8)
    return patterns.astype(dtype) if dtype in INTEGERS else patterns.view(dtype)


def finite_limits(dtype: DType) -> tuple[float, float]:
    """The least number of a narrow float, and the greatest."""
    numbers: HostArray = all_numbers(dtype).astype(FLOAT64)
    finite: HostArray = numbers[np.isfinite(numbers)]
    return float(np.min(finite)), float(np.max(finite))


def real_dtype(dtype: DType) -> DType:
    """The dtype of the real part: float64 for complex128, and every other dtype itself."""
    return _REAL_OF.get(dtype, dtype)


def complex_dtype(dtype: DType) -> DType:
    """The complex dtype whose parts are `dtype`; a KeyError for those that have none."""
    return _COMPLEX_OF[dtype]


def numbers_of(array: HostArray) -> HostArray:
    """The words of keys, along a new last axis; other arrays as they are."""
    names = array.dtype.names
    words: HostArray = array[names[0]] if names else array
    return words


def may_be_key(x: Scalar) -> bool:
    """Whether a number can stand in the key of a cache: not -0.0, which equals 0.0, nor what may have it as a part."""
    return not isinstance(x, complex) and (x != 0 or math.copysign(1.0, x) > 0.0)
