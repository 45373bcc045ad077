"""The lowering rules of Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence

from tinyjax.hlo.context import SSA, LoweringContext
from tinyjax.hlo.rules.shapes import numbers, rearranged
from tinyjax.hlo.tables import GPU_RULES, RULES
from tinyjax.ir.aval import ShapedArray
from tinyjax.primitives.fourier import Fft, FftType, fft
from tinyjax.primitives.structure import move_axis


@RULES.register(Fft)
def _fft(primitive: Fft, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]) -> Sequence[SSA]:
    (x,), (out,), lengths = args, types, primitive.fft_lengths
    if 0 in lengths:
        return (x,)
    operation = f"stablehlo.fft {x.name}, type = {primitive.fft_type.name}, length = {numbers(lengths)}"
    return (rearranged(ctx, operation, x, out),)


@GPU_RULES.register(Fft)
def _fft_on_gpu(
    primitive: Fft, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]
) -> Sequence[SSA]:
    """cuFFT takes the operand of an IRFFT to be symmetric along all axes. Only the last one need be, as it is in NumPy:
    so the others are transformed apart."""
    (x,), lengths = args, primitive.fft_lengths
    if primitive.fft_type is not FftType.IRFFT or len(lengths) == 1:
        return _fft(primitive, ctx, args, types)
    first = x.aval.ndim - len(lengths)
    x = move_axis(ctx, x, x.aval.ndim - 1, first)
    x = move_axis(ctx, fft(ctx, x, FftType.IFFT, lengths[:-1]), first, x.aval.ndim - 1)
    return (fft(ctx, x, FftType.IRFFT, lengths[-1:]),)
