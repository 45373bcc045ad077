"""Discrete Fourier transforms over the last axes: of one, two or three of them, as XLA has them.

Their values come from SciPy, imported when the first one is computed.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import ClassVar, TypeVar, final

from attrs import frozen
from typing_extensions import override

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import COMPLEXES, FLOAT32, FLOAT64, DType, HostArray, complex_dtype, real_dtype
from tinyjax.ir.primitive import BatchAxis, UndefPrimal, Zero
from tinyjax.ir.shapes import Shape
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives.complex import conj
from tinyjax.primitives.elementwise import check_dtype, mul, scale
from tinyjax.primitives.slicing import concatenate
from tinyjax.primitives.structure import (
    Linear,
    broadcast_in_dim,
    check_arity,
    check_elements,
    full,
    move_axis,
    shape_error,
)

V = TypeVar("V")
_REAL = frozenset({FLOAT32, FLOAT64})


class FftType(enum.Enum):
    """The transform, and the one that undoes it, of complex numbers; and the same where one side is real numbers, of
    which half of the other is left out, as it would be the conjugates of the rest."""

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


@final
@frozen
class Fft(Linear):
    """The discrete Fourier transform of this type over the last axes, which have these lengths.

    The lengths are those of the real numbers, where one side is real: on the other side the last axis has n // 2 + 1
    elements.
    """

    fft_type: FftType
    fft_lengths: Shape
    name: ClassVar[str] = "fft"
    plain: ClassVar[bool] = True

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 1)
        (x,), kind, lengths = avals, self.fft_type, self.fft_lengths
        check_dtype(f"{self.name} of type {kind.name}", x.dtype, _REAL if kind is FftType.RFFT else COMPLEXES)
        if not 1 <= len(lengths) <= 3:
            raise shape_error(self.name, f"fft_lengths has a length for each of 1 to 3 axes, got {lengths}")
        given, made = self._sides()
        if min(lengths) < (0 if given == made else 1):
            raise shape_error(self.name, f"a length in fft_lengths={lengths} is too small for {kind.name}")
        if x.shape[-len(lengths) :] != given:
            what = "" if kind is FftType.FFT else f", of which {kind.name} takes {given}"
            raise shape_error(
                self.name, f"the last axes of {x} don't have the sizes that fft_lengths={lengths} says{what}"
            )
        return (array_type(x.shape[: x.ndim - len(lengths)] + made, self._made_of(x.dtype)),)

    def _sides(self) -> tuple[Shape, Shape]:
        """The sizes of the last axes of the operand, and of the result."""
        lengths = self.fft_lengths
        half = (*lengths[:-1], lengths[-1] // 2 + 1)
        return {FftType.RFFT: (lengths, half), FftType.IRFFT: (half, lengths)}.get(self.fft_type, (lengths, lengths))

    def _made_of(self, dtype: DType) -> DType:
        if self.fft_type is FftType.RFFT:
            return complex_dtype(dtype)
        return real_dtype(dtype) if self.fft_type is FftType.IRFFT else dtype

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        from scipy import fft

        (x,), lengths = args, self.fft_lengths
        if 0 in lengths:
            return (x,)
        axes = tuple(range(-len(lengths), 0))
        match self.fft_type:
            case FftType.FFT:
                return (fft.fftn(x, axes=axes),)
            case FftType.IFFT:
                return (fft.ifftn(x, axes=axes),)
            case FftType.RFFT:
                return (fft.rfftn(x, axes=axes),)
            case FftType.IRFFT:
                return (fft.irfftn(x, lengths, axes),)

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        (x,), at = args, axes[0] or 0
        if ctx.aval(x).ndim - 1 < len(self.fft_lengths):
            check_elements(self, [ctx.aval(x)], axes)
        if at > ctx.aval(x).ndim - 1 - len(self.fft_lengths):
            x, at = move_axis(ctx, x, at, 0), 0
        return ctx.bind(self, x), [at]

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        (ct,), (x,) = cotangents, args
        if isinstance(ct, Zero) or not isinstance(x, UndefPrimal):
            return [None]
        size = math.prod(self.fft_lengths)
        if self.fft_type is FftType.RFFT:
            halves = mul(ctx, conj(ctx, ct), self._weights(ctx, ctx.aval(ct), (1.0, 0.5)))
            return [scale(ctx, fft(ctx, halves, FftType.IRFFT, self.fft_lengths), size)]
        if self.fft_type is FftType.IRFFT:
            whole = fft(ctx, ct, FftType.RFFT, self.fft_lengths)
            return [conj(ctx, mul(ctx, whole, self._weights(ctx, ctx.aval(whole), (1 / size, 2 / size))))]
        return ctx.bind(self, ct)

    def _weights(self, ctx: Context[V], aval: ShapedArray, weights: tuple[float, float]) -> V:
        """For each element along the last axis of a half: the first weight if it stands for one of the whole, as what
        is its own conjugate does, else the second, as it stands for two."""
        once, twice = weights
        n, half = self.fft_lengths[-1], aval.shape[-1]
        ends = 1 if n % 2 or half == 1 else 2
        runs = [(1, once), (half - ends, twice), (ends - 1, once)]
        parts = [full(ctx, array_type((size,), aval.dtype, aval.weak_type), k) for size, k in runs if size]
        row = parts[0] if len(parts) == 1 else concatenate(ctx, parts, 0)
        return broadcast_in_dim(ctx, row, aval.shape, (aval.ndim - 1,))


def fft(ctx: Context[V], x: V, fft_type: FftType, fft_lengths: Shape) -> V:
    """The discrete Fourier transform of this type over the last axes, which have these lengths."""
    return ctx.bind(Fft(fft_type, fft_lengths), x)[0]
