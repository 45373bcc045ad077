"""Laws of derivatives: forward mode, its linearization and its transposition are of one another, and of the program."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import compress

import numpy as np

from tinyjax.ir.dtypes import COMPLEXES, HostArray, real_dtype
from tinyjax.ir.primitive import BatchAxis
from tinyjax.ir.program import ClosedJaxpr
from tinyjax.ir.tangents import has_tangent
from tinyjax.testing.differences import BrokenError, close, differs_from_zero, same_bits
from tinyjax.testing.forms import valid
from tinyjax.testing.meaning import PASSES, SIZE
from tinyjax.testing.subjects import Subject, chosen, residuals_of, run, sample
from tinyjax.transforms.batch import batch
from tinyjax.transforms.jvp import jvp
from tinyjax.transforms.linearize import linearize
from tinyjax.transforms.transpose import transpose


def _can_move(program: ClosedJaxpr) -> list[bool]:
    """Which outputs have tangents."""
    return list(map(has_tangent, program.out_avals))


def _forced(program: ClosedJaxpr, moves: Sequence[bool]) -> ClosedJaxpr:
    """The differentiated program, with the tangents of all outputs that can have one."""
    return jvp(program, moves, force=[True] * len(program.out_avals)).jaxpr


def _tangents(subject: Subject, tangents: Sequence[HostArray]) -> list[HostArray]:
    """The tangents of the outputs that can have one."""
    derived = _forced(subject.program, subject.moves)
    return run(derived, [*subject.args, *tangents])[len(subject.program.out_avals) :]


def forward_mode(subject: Subject) -> None:
    """A differentiated program computes the same, and tangents that are linear; what has none has none."""
    program, moves = subject.program, subject.moves
    found = jvp(program, moves)
    valid(found.jaxpr, "the differentiated program")
    forced = _forced(program, moves)
    valid(forced, "the differentiated program with all tangents")
    if program.jaxpr.effects:
        return
    n = len(program.out_avals)
    one, other = subject.tangents(3), subject.tangents(4)
    outs = run(forced, [*subject.args, *one])
    close(outs[:n], subject.outs, "the outputs of the differentiated program", subject.rounding)
    sparse = run(found.jaxpr, [*subject.args, *one])
    kept = [mark for mark, can in zip(found.nonzero_out, _can_move(program), strict=True) if can]
    close(sparse[n:], chosen(outs[n:], kept), "the tangents, without those that are zero,", subject.rounding)
    for out, mark in zip(outs[n:], kept, strict=True):
        if not mark and differs_from_zero(out):
            raise BrokenError(f"a tangent that is said to be zero is {out}")
    both = [np.asarray(x + y).astype(x.dtype) for x, y in zip(one, other, strict=True)]
    sums = [np.asarray(x + y) for x, y in zip(outs[n:], _tangents(subject, other), strict=True)]
    close(_tangents(subject, both), sums, "the tangents of a sum", subject.rounding)
    for i in range(len(one)):
        marks = [False] * len(moves)
        marks[[at for at, move in enumerate(moves) if move][i]] = True
        alone = [t if j == i else np.zeros_like(t) for j, t in enumerate(one)]
        only = run(_forced(program, marks), [*subject.args, one[i]])[n:]
        close(
            only,
            _tangents(subject, alone),
            f"the tangents, if only input {marks.index(True)} moves,",
            subject.rounding,
        )


def finite_differences(subject: Subject) -> None:
    """Tangents are limits of quotients of differences. Where steps of several lengths disagree, nothing is said."""
    program = subject.program
    if program.jaxpr.effects or not any(subject.moves) or not any(_can_move(program)):
        return
    dtypes = {real_dtype(array.dtype) for array in (*subject.tangents(5), *subject.outs) if array.dtype.kind in "fc"}
    width = min((dtype.itemsize for dtype in dtypes), default=0)
    if width < 4 or any(aval.dtype.kind == "V" for aval in (*program.in_avals, *program.out_avals)):
        return  # too short for differences to say anything
    tangents = subject.tangents(5)
    found = _tangents(subject, tangents)
    epsilon = float(np.finfo(np.float64 if width == 8 else np.float32).eps)
    quotients = [_quotients(subject, tangents, epsilon ** (1 / 3) * factor) for factor in (1.0, 0.1, 4.0)]
    tolerance = 1e-5 if width == 8 else 3e-2
    largest = [np.max(np.abs(out), initial=0.0) for out in compress(subject.outs, _can_move(program))]
    for n, tangent in enumerate(found):
        if not epsilon ** (2 / 3) * largest[n] < tolerance:
            continue  # what rounding does to the outputs is more
        several = [each[n] for each in quotients]
        try:
            for other in several[1:]:
                close([other], several[:1], "the quotients", tolerance)
        except BrokenError:
            continue  # near a kink or a jump
        close([tangent], several[:1], f"the tangent of output {n} of those that move", tolerance)


def _quotients(subject: Subject, tangents: Sequence[HostArray], step: float) -> list[HostArray]:
    def moved(by: float) -> list[HostArray]:
        along = iter(tangents)
        return [
            np.asarray(arg + by * next(along)).astype(arg.dtype) if moves else arg
            for arg, moves in zip(subject.args, subject.moves, strict=True)
        ]

    above, below = (compress(run(subject.program, moved(by)), _can_move(subject.program)) for by in (step, -step))
    with np.errstate(all="ignore"):
        return [np.asarray((x - y) / (2 * step)).astype(x.dtype) for x, y in zip(above, below, strict=True)]


def _linear(subject: Subject) -> tuple[ClosedJaxpr, list[HostArray]]:
    """The linear part of the program, and its residuals."""
    found = linearize(subject.program, subject.moves)
    outs = run(found.primal, subject.args)
    return found.linear, residuals_of(found.residuals, outs[len(subject.program.out_avals) :], subject.args)


def linearization(subject: Subject) -> None:
    """The two parts of a linearization are forward mode."""
    program = subject.program
    found = linearize(program, subject.moves)
    valid(found.primal, "the first part of the linearization")
    valid(found.linear, "the linear part")
    if program.jaxpr.effects:
        return
    n = len(program.out_avals)
    outs = run(found.primal, subject.args)
    close(outs[:n], subject.outs, "the outputs of the first part", subject.rounding)
    tangents = subject.tangents(6)
    linear, residuals = _linear(subject)
    expected = chosen(run(jvp(program, subject.moves).jaxpr, [*subject.args, *tangents])[n:], [True] * n)
    close(run(linear, [*residuals, *tangents]), expected, "the tangents by the linear part", subject.rounding)


def _inner(xs: Sequence[HostArray], ys: Sequence[HostArray]) -> tuple[HostArray, float]:
    """The real part of the sum of products, without conjugation; and how large it could have been."""
    total, size = 0.0, 0.0
    for x, y in zip(xs, ys, strict=True):
        wide = np.complex128 if x.dtype in COMPLEXES else np.float64
        with np.errstate(all="ignore"):
            products = np.real(x.astype(wide) * y.astype(wide))
        total += float(products.sum())
        size += float(np.abs(products).sum())
    return np.asarray(total), size


def transposition(subject: Subject) -> None:
    """<ct, J v> = <Jᵀ ct, v>, and the transposed of the transposed is the linear program again."""
    linear, residuals = _linear(subject)
    n = len(residuals)
    count = len(linear.in_avals) - n
    marks = [False] * n + [True] * count
    if not count or not linear.out_avals:
        return
    back = transpose(linear, marks)
    valid(back.jaxpr, "the transposed linear part")
    cotangents = [sample(aval, subject.rng(7 + i)) for i, aval in enumerate(linear.out_avals)]
    tangents = subject.tangents(6)
    pushed = run(linear, [*residuals, *tangents])
    pulled = run(back.jaxpr, [*residuals, *cotangents])
    if not all(np.isfinite(array.astype(np.complex128)).all() for array in (*pushed, *pulled)):
        return
    (left, size), (right, other) = _inner(cotangents, pushed), _inner(pulled, tangents)
    allowed = subject.rounding
    if not abs(left - right) <= allowed * (1.0 + max(size, other)):
        raise BrokenError(f"<Jᵀ ct, v> is {right}, and <ct, J v> is {left}")
    kept = transpose(linear, marks, force=False)
    valid(kept.jaxpr, "the transposed linear part without zeros")
    same_bits(
        run(kept.jaxpr, [*residuals, *cotangents]),
        chosen(pulled, kept.nonzero_out),
        "the cotangents without those that are zero",
    )
    for cotangent, mark in zip(pulled, kept.nonzero_out, strict=True):
        if not mark and differs_from_zero(cotangent):
            raise BrokenError(f"a cotangent that is said to be zero is {cotangent}")
    again = transpose(back.jaxpr, [False] * n + [True] * len(cotangents), check=False)
    valid(again.jaxpr, "the linear part, transposed twice,")
    close(
        run(again.jaxpr, [*residuals, *tangents]),
        pushed,
        "the tangents by the linear part, transposed twice,",
        subject.rounding,
    )


def second_derivatives(subject: Subject) -> None:
    """The second derivative is symmetric in its directions, and the derivative of the first."""
    program, moves = subject.program, subject.moves
    once = _forced(program, moves)
    count = sum(moves)
    twice = _forced(once, [*moves, *[False] * count])
    valid(twice, "the second derivative")
    n, tangents = len(program.out_avals), sum(_can_move(program))
    u, v = subject.tangents(8), subject.tangents(9)

    def second(one: Sequence[HostArray], other: Sequence[HostArray]) -> list[HostArray]:
        return run(twice, [*subject.args, *one, *other])[n + 2 * tangents :]

    close(second(u, v), second(v, u), "the second derivative, with its directions exchanged,", subject.rounding)
    derived = Subject(once, [*subject.args, *u], subject.seed)
    finite_differences(derived)


def batches_of_derivatives(subject: Subject) -> None:
    """To map over directions is to differentiate along each."""
    program, moves = subject.program, subject.moves
    derived = _forced(program, moves)
    n = len(program.out_avals)
    rows = [subject.tangents(10 + i) for i in range(SIZE)]
    axes = [*[None] * len(moves), *[0] * sum(moves)]
    mapped = batch(derived, BatchAxis(SIZE), axes, [0] * len(derived.out_avals)).jaxpr
    valid(mapped, "forward mode, mapped over directions,")
    found = run(mapped, [*subject.args, *map(partial(np.stack, axis=0), zip(*rows, strict=True))])[n:]
    each = [_tangents(subject, row) for row in rows]
    close(
        found,
        [np.stack(outs) for outs in zip(*each, strict=True)],
        "the tangents, mapped over directions,",
        subject.rounding,
    )


def derivatives_after_passes(subject: Subject) -> None:
    """The derivative of what a pass makes of a program is that of the program."""
    forced = _forced(subject.program, subject.moves)
    args = [*subject.args, *subject.tangents(20)]
    expected = run(forced, args)
    for name, change in PASSES.items():
        changed = _forced(change(subject.program), subject.moves)
        valid(changed, f"the derivative after {name}")
        close(run(changed, args), expected, f"the outputs and their tangents after {name}", subject.rounding)
