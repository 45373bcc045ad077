"""How types and constants are written in StableHLO text. Constants are exact to the bit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from tinyjax.caching import bounded
from tinyjax.errors import AllocationError, LoweringError
from tinyjax.hlo.regular import is_repeated
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import (
    BFLOAT16,
    BOOL,
    CARRIERS,
    COMPLEX64,
    COMPLEX128,
    COMPLEXES,
    FLOAT0,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    FLOATS,
    INT8,
    INT16,
    INT32,
    INT64,
    KEYS,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    WIDE,
    DType,
    HostArray,
    Scalar,
    bits,
    real_dtype,
    short_name,
)
from tinyjax.ir.shapes import Shape


def _narrow_type(dtype: DType) -> str:
    """Such as f8E4M3FN for float8_e4m3fn, and ui4 for uint4."""
    name = dtype.name
    return f"f{name[5:].replace('_', '').upper()}" if dtype in FLOATS else name.replace("nt", "")


ELEMENT_TYPES: Final[dict[DType, str]] = {
    BOOL: "i1",
    INT8: "i8",
    INT16: "i16",
    INT32: "i32",
    INT64: "i64",
    UINT8: "ui8",
    UINT16: "ui16",
    UINT32: "ui32",
    UINT64: "ui64",
    FLOAT16: "f16",
    BFLOAT16: "bf16",
    FLOAT32: "f32",
    FLOAT64: "f64",
    COMPLEX64: "complex<f32>",
    COMPLEX128: "complex<f64>",
    FLOAT0: "i1",  # which holds nothing: so XLA removes what is made of it
    **{key: {4: "ui32", 8: "ui64", 16: "complex<f64>"}[key.itemsize] for key in KEYS},
    **{dtype: _narrow_type(dtype) for dtype in WIDE if bits(dtype) != 6},  # with which XLA ends the process
}
#: XLA counts bytes in signed integers of 64 bits.
_TOO_LARGE: Final = 2**63
#: Arrays of at most so many elements are written as numbers, others as their bytes.
READABLE_SIZE: Final = 16


@bounded(16384)
def tensor_text(shape: Shape, dtype: DType) -> str:
    """The type of arrays of this shape and dtype; a LoweringError for dtypes that have no elements to store, and an
    AllocationError for arrays of so many bytes that XLA would end the process.

    >>> tensor_text((3, 4), FLOAT32)
    'tensor<3x4xf32>'
    """
    element = ELEMENT_TYPES.get(dtype)
    if element is None and dtype in WIDE:
        raise LoweringError(
            f"XLA compiles nothing with arrays of dtype {short_name(dtype)}: convert them before, as on the host "
            "x.astype('float32')."
        )
    if element is None:
        raise LoweringError(f"StableHLO has no arrays of dtype {short_name(dtype)}: convert them before.")
    if math.prod(shape) * dtype.itemsize >= _TOO_LARGE:
        raise AllocationError(
            f"an array of shape {shape} and dtype {short_name(dtype)} has more bytes than XLA counts: check its sizes"
        )
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"


@bounded(16384)
def type_text(aval: ShapedArray) -> str:
    """The type of the arrays that an aval describes.

    >>> type_text(ShapedArray((), "bool"))
    'tensor<i1>'
    """
    return tensor_text(aval.shape, aval.dtype)


def _float_text(value: float, dtype: DType) -> str:
    if not math.isfinite(value):
        bits = np.asarray(value, dtype)
        return "0x" + bits.tobytes()[:: -1 if np.little_endian else 1].hex().upper()
    shortest = repr(value)
    # MLIR wants a point before the exponent.
    return shortest if "." in shortest else shortest.replace("e", ".0e")


def scalar_text(value: Scalar, dtype: DType) -> str:
    """A number of this dtype.

    >>> scalar_text(2.0, FLOAT32), scalar_text(1e-30, FLOAT64), scalar_text(float("inf"), FLOAT32)
    ('2.0', '1.0e-30', '0x7F800000')
    >>> scalar_text(1j, COMPLEX64), scalar_text(True, BOOL)
    ('(0.0, 1.0)', 'true')
    """
    if dtype in FLOATS:
        return _float_text(float(value.real), dtype)
    if dtype in COMPLEXES:
        part = real_dtype(dtype)
        return f"({_float_text(float(value.real), part)}, {_float_text(float(value.imag), part)})"
    if dtype == BOOL:
        return "true" if value else "false"
    if dtype in KEYS and dtype.itemsize == 16:
        upper, lower = divmod(int(value.real), 1 << 64)
        return f"(0x{lower:016X}, 0x{upper:016X})"
    return str(int(value.real))


def _nested_text(elements: Sequence[str], shape: Shape) -> str:
    """The elements in brackets, one pair for each axis."""
    for size in reversed(shape):
        elements = [f"[{', '.join(elements[i : i + size])}]" for i in range(0, len(elements), size)]
    return elements[0]


def dense_text(array: HostArray) -> str:
    """What stands between the angle brackets of `dense<...>`.

    >>> dense_text(np.array([[1, 2], [3, 4]])), dense_text(np.ones(100))
    ('[[1, 2], [3, 4]]', '1.0')
    """
    if array.dtype == FLOAT0 and array.size:
        return "false"  # for all of them
    opaque = array.dtype in KEYS and array.dtype.itemsize > 8  # whose parts are no numbers to be written down
    array = array.view(CARRIERS.get(array.dtype, array.dtype))
    dtype = array.dtype
    if array.size == 0:
        return ""
    if is_repeated(array) and not opaque:
        array = array.reshape(-1)[0].reshape(())
    readable = array.size <= READABLE_SIZE and not opaque
    if dtype == BOOL or (readable and bool(np.isfinite(array).all())):
        # Not bytes for booleans: whether those are bits or bytes differs between versions of MLIR.
        return _nested_text([scalar_text(x, dtype) for x in _scalars(array)], array.shape)
    return f'"0x{array.astype(dtype.newbyteorder("<"), order="C", copy=False).tobytes().hex().upper()}"'


def _scalars(array: HostArray) -> list[Scalar]:
    """The elements as Python scalars."""
    dtype = array.dtype
    if dtype in FLOATS:
        return list(array.astype(FLOAT64).ravel().tolist())
    return list(array.ravel().tolist())


def types_text(avals: Sequence[ShapedArray]) -> str:
    """A list of types in parentheses."""
    return f"({', '.join(map(type_text, avals))})"


def results_text(avals: Sequence[ShapedArray]) -> str:
    """The types of results, in parentheses unless there is one."""
    return type_text(avals[0]) if len(avals) == 1 else types_text(avals)


def regions_text(*regions: str) -> str:
    """Several regions of one operation, each from `LoweringContext.region`."""
    return f"({', '.join([region[1:-1] for region in regions])})"


def identifier(name: str) -> str:
    """The name with everything replaced that MLIR's symbols and XLA's module names don't allow.

    >>> identifier("<lambda>"), identifier("my-loss"), identifier("2x")
    ('_lambda_', 'my_loss', '_2x')
    """
    found = "".join(c if c.isascii() and (c.isalnum() or c in "_.") else "_" for c in name)
    return found if found[:1].isalpha() or found[:1] == "_" else f"_{found}"
