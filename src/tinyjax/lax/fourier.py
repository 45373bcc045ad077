"""Discrete Fourier transforms over the last axes, however many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, SupportsIndex, TypeAlias

from tinyjax.arrays.elementwise import convert, inexact_dtype
from tinyjax.arrays.shaping import integers, transpose
from tinyjax.errors import ChoiceError, ShapeError
from tinyjax.ir.dtypes import COMPLEX64, COMPLEX128, COMPLEXES, FLOAT32, FLOAT64
from tinyjax.ir.result_types import made_once
from tinyjax.ir.shapes import Shape
from tinyjax.primitives import fourier
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind

FftType: TypeAlias = fourier.FftType

#: How many axes one equation transforms at most.
_MOST: Final = 3


def fft(x: ArrayLike, fft_type: FftType | str, fft_lengths: SupportsIndex | Sequence[SupportsIndex]) -> Array:
    """The discrete Fourier transform over the last axes, one for each of `fft_lengths`, which are their sizes; one
    integer is that of the last.
    `fft_type` is a `FftType` or its name in lower or upper case: "fft", and "ifft", which undoes it, take and give
    complex numbers; "rfft" takes real ones and leaves out the second half of the result along the last axis, which
    would be the conjugates of the first; and "irfft" undoes that: the last of `fft_lengths` is the size n of its
    result, and n // 2 + 1 that of the operand. Only "ifft" and "irfft" divide, by the number of elements. Real and
    integer operands become complex where complex ones are taken.

    Raises:
      ShapeError: `fft_lengths` aren't the sizes of the last axes.
      ChoiceError: the operand of "rfft" isn't of float32 or float64, or there is no such type.

    >>> import numpy as np
    >>> fft(np.array([1.0, 2.0, 0.0, 0.0]), "fft", 4)
    Array([ 3.+0.j,  1.-2.j, -1.+0.j,  1.+2.j], dtype=complex128)
    >>> fft(np.array([3.0, 1.0 - 2j, -1.0]), FftType.IRFFT, 4)
    Array([1., 2., 0., 0.], dtype=float64)
    """
    kind, lengths, operand = _fft_type(fft_type), integers(fft_lengths, "fft: a length in fft_lengths"), as_array(x)
    dtype = inexact_dtype(operand.aval.dtype)
    if kind is FftType.RFFT:
        if dtype in COMPLEXES:
            raise ChoiceError(
                f"only real valued inputs supported for rfft, got {operand.aval}; write fft, or take real(x)"
            )
        if dtype not in (FLOAT32, FLOAT64):
            raise ChoiceError(
                f"RFFT input must be float32 or float64, got {dtype.name}: convert it by "
                "lax.convert_element_type(x, 'float32') first"
            )
    elif dtype not in COMPLEXES:
        dtype = COMPLEX128 if dtype == FLOAT64 else COMPLEX64
    _check_sizes(kind, operand.aval.shape, lengths)
    return _transformed(convert(operand, dtype), kind, lengths)


def _fft_type(given: object) -> FftType:
    if isinstance(given, FftType):
        return given
    known = FftType.__members__
    # What it is may also be JAX's enumeration: its members have these names.
    name = given.upper() if isinstance(given, str) else str(getattr(given, "name", ""))
    if name not in known:
        raise ChoiceError(f"fft: fft_type is one of {', '.join(known)}, or FftType of that name, got {given!r}")
    return known[name]


def _check_sizes(kind: FftType, shape: Shape, lengths: Shape) -> None:
    """In the caller's terms, before the work is divided."""
    what = f"{kind.name} input shape {shape}"
    if len(lengths) > len(shape):
        raise ShapeError(f"{what} must have at least as many input dimensions as fft_lengths {lengths}.")
    last = shape[len(shape) - len(lengths) :]
    if kind is FftType.IRFFT and lengths:
        if last[:-1] != lengths[:-1]:
            raise ShapeError(
                f"{what} minor dimensions must be equal to all except the last fft_length, got fft_lengths={lengths}"
            )
        if last[-1] != lengths[-1] // 2 + 1:
            raise ShapeError(f"{what} has {last[-1]} elements along its last axis, where fft_lengths={lengths} takes "
                             f"{lengths[-1] // 2 + 1}: n // 2 + 1 for the last length n")  # fmt: skip
    elif last != lengths:
        raise ShapeError(f"{what} minor dimensions must be equal to fft_lengths {lengths}")


def _transformed(x: Array, kind: FftType, lengths: Shape) -> Array:
    if len(lengths) <= _MOST:
        return bind(made_once(fourier.Fft, kind, lengths), x)[0] if lengths else x
    # The last few, and before or after that the others: of complex numbers either way.
    few = 2 if len(lengths) == _MOST + 1 else _MOST
    own, others = lengths[-few:], lengths[:-few]
    if kind is FftType.IRFFT:
        return _transformed(_moved(x, FftType.IFFT, others, few), kind, own)
    back = FftType.IFFT if kind is FftType.IFFT else FftType.FFT
    return _moved(_transformed(x, kind, own), back, others, few)


def _moved(x: Array, kind: FftType, lengths: Shape, after: int) -> Array:
    """Transforms the axes that come before the last few."""
    ndim = x.aval.ndim
    first, last = ndim - after - len(lengths), ndim - after
    batch, own, others = range(first), range(first, last), range(last, ndim)
    found = _transformed(transpose(x, (*batch, *others, *own)), kind, lengths)
    return transpose(found, (*batch, *range(first + after, ndim), *range(first, first + after)))
