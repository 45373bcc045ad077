"""The bits of elements as those of another dtype, or in the other order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from tinyjax.arrays.arithmetic import imag, real
from tinyjax.arrays.elementwise import apply, astype, constant_like
from tinyjax.arrays.shaping import concatenate, expand_dims, reshape
from tinyjax.errors import ShapeError
from tinyjax.ir.dtypes import BOOL, COMPLEXES, UINT8, DType, bits, real_dtype
from tinyjax.primitives.comparison import ne
from tinyjax.primitives.complex import complex_
from tinyjax.primitives.conversion import BitcastConvertType
from tinyjax.primitives.shaping import Rev

if TYPE_CHECKING:
    from tinyjax.tracing.array import Array

#: The number of bytes of what is converted at once: of complex numbers, their parts.
_UNSIGNED: Final = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}


def view(x: Array, dtype: DType) -> Array:
    """The same bytes as elements of another dtype; the last axis is longer or shorter where its size differs."""
    x = astype(x, x.aval.dtype)
    own = x.aval.dtype
    if dtype == own:
        return x
    if own == BOOL:
        return view(astype(x, UINT8), dtype)
    if dtype == BOOL:
        byte = view(x, UINT8)
        return apply(ne, byte, constant_like(byte, 0))
    if own in COMPLEXES:
        parts = concatenate([expand_dims(real(x), x.aval.ndim), expand_dims(imag(x), x.aval.ndim)], x.aval.ndim)
        shape = x.aval.shape
        if dtype.itemsize == own.itemsize and dtype not in COMPLEXES:
            return reshape(_bits(parts, dtype), shape)
        _check_axes(x, dtype)
        return view(reshape(parts, (*shape[:-1], 2 * shape[-1])), dtype)
    if dtype in COMPLEXES:
        part = real_dtype(dtype)
        if own.itemsize == dtype.itemsize:
            parts = _bits(x, part)
        else:
            _check_axes(x, dtype)
            flat = view(x, part)
            shape = flat.aval.shape
            if shape[-1] % 2:
                raise _unfit(x, dtype)
            parts = reshape(flat, (*shape[:-1], shape[-1] // 2, 2))
        return apply(complex_, parts[..., 0], parts[..., 1])
    old, new = bits(own), bits(dtype)
    if old == new:
        return _bits(x, dtype)
    _check_axes(x, dtype)
    shape = x.aval.shape
    if new < old:
        return reshape(_bits(x, dtype), (*shape[:-1], shape[-1] * (old // new)))
    ratio = new // old
    if shape[-1] % ratio:
        raise _unfit(x, dtype)
    return _bits(reshape(x, (*shape[:-1], shape[-1] // ratio, ratio)), dtype)


def byteswap(x: Array) -> Array:
    """The bytes of each element, or of both parts of a complex one, in the other order."""
    dtype = x.aval.dtype
    if dtype in COMPLEXES:
        return apply(complex_, byteswap(real(x)), byteswap(imag(x)))
    if dtype.itemsize == 1:
        return x
    (turned,) = x._bind(Rev((x.aval.ndim,)), _bits(astype(x, dtype), UINT8))
    return _bits(turned, dtype)


def _bits(x: Array, dtype: DType) -> Array:
    return x if x.aval.dtype == dtype else x._bind(BitcastConvertType(dtype), x)[0]


def _check_axes(x: Array, dtype: DType) -> None:
    if not x.aval.shape:
        raise _unfit(x, dtype)


def _unfit(x: Array, dtype: DType) -> ShapeError:
    return ShapeError(f"view: the bytes along the last axis of {x.aval} don't make elements of {dtype.name}")
