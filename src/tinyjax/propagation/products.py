"""How products of arrays and matrices lie: contractions, convolutions, linear algebra."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from tinyjax.primitives.contractions import DotGeneral
from tinyjax.primitives.convolution import ConvGeneralDilated
from tinyjax.primitives.fourier import Fft
from tinyjax.primitives.matrices import OfMatrices
from tinyjax.primitives.solutions import Solve
from tinyjax.primitives.triangular import TriangularSolve
from tinyjax.propagation.rules import RULES, without
from tinyjax.propagation.specs import Lies, Names, Site, Spec, divided


@RULES.register(DotGeneral)
def _(primitive: DotGeneral, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    (x, y), ((x_sum, y_sum), (x_batch, y_batch)) = operands, primitive.dimension_numbers
    for what, ours, theirs in (("batch", x_batch, y_batch), ("contracting", x_sum, y_sum)):
        for i, j in zip(ours, theirs, strict=True):
            if x[i] and y[j] and x[i] != y[j]:
                return [site.refuse(operands, f"the {what} axes {i} and {j} are divided differently")]
    for i, j in zip(x_sum, y_sum, strict=True):
        if x[i] and y[j]:
            why = f"the contracting axes {i} and {j} are divided, so the result may be a sum in several ways"
            return [evolve(site.refuse(operands, why), sums=tuple([name for at in x_sum for name in x[at]]))]
    batch = tuple([x[i] for i in x_batch])
    return [(*batch, *without(x, x_sum + x_batch), *without(y, y_sum + y_batch))]


@RULES.register(ConvGeneralDilated)
def _(primitive: ConvGeneralDilated, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    x, kernel = operands
    lhs, _, out = primitive.dimension_numbers
    if divided(kernel):
        return [site.refuse(operands, "the kernel is divided")]
    if x[lhs[1]]:
        return [site.refuse(operands, f"axis {lhs[1]} of the left operand, that of the features, is divided")]
    found: list[Names] = [()] * len(x)
    before = [0] * len(x)
    for ours, theirs in zip(lhs, out, strict=True):
        found[theirs], before[theirs] = x[ours], site.ins[0].shape[ours]
    return [site.resized(tuple(found), tuple(before), site.outs[0].shape, operands)]


def of_matrices(primitive: OfMatrices, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    """Divided along their batches only, and all in the same way."""
    ranks = type(primitive).ranks
    batches = [spec[: len(spec) - rank] for spec, rank in zip(operands, ranks, strict=False)]
    if any(divided(spec[len(batch) :]) for spec, batch in zip(operands, batches, strict=False)):
        return [site.refuse(operands, "axes of the matrices themselves are divided")] * len(site.outs)
    if any(batch != batches[0] for batch in batches):
        return [site.refuse(operands, "the batches are divided differently")] * len(site.outs)
    return [(*batches[0], *((),) * (out.ndim - len(batches[0]))) for out in site.outs]


@RULES.register(TriangularSolve)
def _(primitive: TriangularSolve, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    a, b = operands
    left, transposed = primitive.left_side, primitive.transpose_a
    if a[:-2] != b[:-2]:
        return [site.refuse(operands, "the batches are divided differently")]
    own, other = a[-2:], b[-2:]
    if own[left ^ transposed] or other[not left]:
        return [site.refuse(operands, "the axes of the unknowns are divided")]
    return [(*a[:-2], *((own[transposed], other[1]) if left else (other[0], own[not transposed])))]


@RULES.register(Solve)
def _(primitive: Solve, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    """Right sides are solved for by themselves."""
    a, b = operands
    if a[:-2] != b[:-2]:
        return [site.refuse(operands, "the batches are divided differently")]
    if divided(a[-2:]) or b[-2]:
        return [site.refuse(operands, "the axes of the unknowns are divided")]
    return [b]


@RULES.register(Fft)
def _(primitive: Fft, operands: Sequence[Spec], site: Site) -> Sequence[Lies]:
    if divided(operands[0][-len(primitive.fft_lengths) :]):
        return [site.refuse(operands, "axes that are transformed are divided")]
    return operands
