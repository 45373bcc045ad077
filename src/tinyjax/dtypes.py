"""What there is to ask of dtypes, under the names of `jax.dtypes`."""

from __future__ import annotations

from typing import Literal, overload

import numpy as np
import numpy.typing as npt

from tinyjax.arrays import promotion
from tinyjax.errors import ChoiceError, InputError
from tinyjax.errors import TypingError as TypePromotionError
from tinyjax.ir.dtypes import INTEGERS, KEYS, DType, bits, float0
from tinyjax.numpy import bfloat16, finfo, iinfo
from tinyjax.numpy import issubdtype as _issubdtype
from tinyjax.numpy.key_kinds import extended, prng_key
from tinyjax.numpy.typed import type_of
from tinyjax.primitives.conversion import array_dtype
from tinyjax.tracebacks import filter_package
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array

__all__ = [
    "TypePromotionError",
    "bfloat16",
    "canonicalize_dtype",
    "extended",
    "finfo",
    "float0",
    "iinfo",
    "issubdtype",
    "itemsize_bits",
    "prng_key",
    "result_type",
    "scalar_type_of",
]


def canonicalize_dtype(dtype: npt.DTypeLike, allow_extended_dtype: bool = False) -> DType:
    """The dtype that is named. Nothing is truncated: 64 bits stay 64. Dtypes of keys are a ChoiceError unless they are
    allowed.

    >>> canonicalize_dtype(float)
    dtype('float64')
    """
    if isinstance(dtype, np.dtype) and dtype in KEYS:
        if allow_extended_dtype:
            return dtype
        raise ChoiceError("canonicalize_dtype: a dtype of keys is none of numbers; allow_extended_dtype=True takes it")
    return array_dtype(dtype)


def issubdtype(a: npt.DTypeLike, b: npt.DTypeLike) -> bool:
    """Whether a dtype is another, or of a kind of dtypes: `numpy.issubdtype`, with the names that arguments have here.

    >>> issubdtype(bfloat16, prng_key), issubdtype(a="int4", b="int4")
    (False, True)
    """
    return _issubdtype(a, b)


def itemsize_bits(dtype: npt.DTypeLike) -> int:
    """How many bits an element has; those of `int4` are 4.

    >>> itemsize_bits("int4"), itemsize_bits("bool")
    (4, 8)
    """
    given: object = dtype
    if given is None:
        raise ChoiceError("itemsize_bits: None is no dtype. Name one, such as 'float32'.")
    found = array_dtype(dtype)
    return 8 if found.kind == "b" else bits(found)


@overload
def result_type(*args: ArrayLike | npt.DTypeLike, return_weak_type_flag: Literal[False] = False) -> DType: ...
@overload
def result_type(*args: ArrayLike | npt.DTypeLike, return_weak_type_flag: Literal[True]) -> tuple[DType, bool]: ...
@overload
def result_type(*args: ArrayLike | npt.DTypeLike, return_weak_type_flag: bool) -> DType | tuple[DType, bool]: ...
def result_type(*args: ArrayLike | npt.DTypeLike, return_weak_type_flag: bool = False) -> DType | tuple[DType, bool]:
    """The dtype that arrays, scalars and dtypes are promoted to; if asked for with whether the result is weakly typed.

    >>> result_type(1.0, "float32"), result_type(1.0, 2, return_weak_type_flag=True)
    (dtype('float32'), (dtype('float64'), True))
    """
    if not args:
        raise InputError("result_type needs at least one array or dtype")
    dtype, weak_type = promotion.result_type(map(type_of, args))
    return (dtype, weak_type) if return_weak_type_flag else dtype


def scalar_type_of(x: ArrayLike) -> type[bool] | type[int] | type[float] | type[complex]:
    """Python's type for the numbers of an array.

    >>> import numpy as np
    >>> scalar_type_of(np.ones(2, "int8"))
    <class 'int'>
    """
    dtype = (x if isinstance(x, Array) else as_array(x)).aval.dtype
    if dtype.kind == "b":
        return bool
    if dtype in INTEGERS:
        return int
    return complex if dtype.kind == "c" else float


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)


filter_package(__name__, __all__)
