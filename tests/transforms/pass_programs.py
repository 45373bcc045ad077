"""Programs for the tests of passes: random ones with branches and loops, and what passes must keep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from hypothesis import strategies as st

from tests import strategies
from tests.transforms.checks import assert_close, numbers, run
from tinyjax import ShapedArray, ir, transforms
from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.control.cond import Cond
from tinyjax.control.loops import While
from tinyjax.control.scan import Scan
from tinyjax.ir import Atom, HostArray, Jaxpr, Literal
from tinyjax.ir.dtypes import FLOAT64, INEXACT
from tinyjax.primitives.comparison import gt, lt
from tinyjax.primitives.conversion import convert
from tinyjax.primitives.elementwise import add, mul, sub
from tinyjax.primitives.trigonometric import sin

F64: Final = ShapedArray((), "float64")
INDEX: Final = ShapedArray((), "int32")


def _literal(value: float) -> Literal:
    return Literal(value, F64)


def sine(draw: st.DrawFn, ctx: StagingContext, atoms: Sequence[Atom]) -> Sequence[Atom]:
    return ctx.bind(sin, draw(st.sampled_from(list(atoms))))


def repeated(draw: st.DrawFn, ctx: StagingContext, atoms: Sequence[Atom]) -> Sequence[Atom]:
    """The same thing twice, and things that algebra does without."""
    x = draw(st.sampled_from(list(atoms)))
    number = _literal(draw(st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.0])))
    primitive = draw(st.sampled_from([add, mul, sub]))
    operands = draw(st.sampled_from([(x, number), (number, x), (x, x)]))
    return [*ctx.bind(primitive, *operands), *ctx.bind(primitive, *operands)]


_INNER: Final = (*strategies.STEPS, sine, repeated)


def _body(draw: st.DrawFn, in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray]) -> Jaxpr:
    """A program of these types, each of whose outputs is of the type of some input."""

    def grow(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        atoms: list[Atom] = [*ins]
        for _ in range(draw(st.integers(0, 4)) if atoms else 0):
            atoms += draw(st.sampled_from(_INNER))(draw, ctx, atoms)
        return [draw(st.sampled_from([atom for atom in atoms if atom.aval == aval])) for aval in out_avals]

    return stage(in_avals, grow)


def branching(draw: st.DrawFn, ctx: StagingContext, atoms: Sequence[Atom]) -> Sequence[Atom]:
    operands = draw(st.lists(st.sampled_from(list(atoms)), min_size=1, max_size=3))
    avals = [operand.aval for operand in operands]
    outs = draw(st.lists(st.sampled_from(avals), min_size=1, max_size=2))
    branches = tuple(_body(draw, avals, outs) for _ in range(2))
    scalars = [atom for atom in atoms if atom.aval == F64]
    index: Atom = Literal(draw(st.integers(0, 1)), INDEX)
    if scalars and draw(st.integers(0, 3)) > 0:
        index = convert(ctx, gt(ctx, draw(st.sampled_from(scalars)), _literal(0.0)), INDEX.dtype)
    return ctx.bind(Cond(branches), index, *operands)


def scanning(draw: st.DrawFn, ctx: StagingContext, atoms: Sequence[Atom]) -> Sequence[Atom]:
    arrays = [atom for atom in atoms if atom.aval.shape]
    xs = draw(st.lists(st.sampled_from(arrays), max_size=1)) if arrays else []
    length = xs[0].aval.shape[0] if xs else draw(st.integers(0, 3))
    consts = draw(st.lists(st.sampled_from(list(atoms)), max_size=2))
    carry = draw(st.lists(st.sampled_from(list(atoms)), min_size=1, max_size=3))
    rows = [ShapedArray(x.aval.shape[1:], x.aval.dtype) for x in xs]
    avals = [*(atom.aval for atom in (*consts, *carry)), *rows]
    ys = draw(st.lists(st.sampled_from(avals), max_size=2))
    body = _body(draw, avals, [*(atom.aval for atom in carry), *ys])
    loop = Scan(body, length, draw(st.booleans()), len(consts), len(carry))
    return ctx.bind(loop, *consts, *carry, *xs)


def looping(draw: st.DrawFn, ctx: StagingContext, atoms: Sequence[Atom]) -> Sequence[Atom]:
    """A while loop that counts to a number."""
    consts = draw(st.lists(st.sampled_from(list(atoms)), max_size=2))
    carry = draw(st.lists(st.sampled_from(list(atoms)), min_size=1, max_size=2))
    limit = float(draw(st.integers(0, 2)))
    avals = [atom.aval for atom in (*consts, *carry)]
    inner = _body(draw, avals, [atom.aval for atom in carry])
    n = len(consts)

    def step(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        return [add(ctx, ins[n], _literal(1.0)), *ir.interpret(ctx, inner, [*ins[:n], *ins[n + 1 :]])]

    body = stage([*avals[:n], F64, *avals[n:]], step)
    cond = stage([F64, *avals[n:]], lambda ctx, ins: [lt(ctx, ins[0], _literal(limit))])
    return ctx.bind(While(cond, 0, body, n), *consts, _literal(0.0), *carry)


def programs(steps: Sequence[strategies.Step]) -> st.SearchStrategy[Jaxpr]:
    avals = st.sampled_from([F64, F64, ShapedArray((2,), "float64"), ShapedArray((3, 2), "float64")])
    return st.lists(avals, min_size=1, max_size=3).flatmap(
        lambda ins: strategies.programs(steps, ins, max_eqns=7, depth=2, dtypes=st.just(FLOAT64))
    )


#: Programs that can be differentiated in both modes, and in forward mode.
REVERSIBLE: Final = programs((*_INNER, branching, scanning))
FORWARD: Final = programs((*_INNER, branching, scanning, looping, looping))


def same_bits(found: Sequence[HostArray], expected: Sequence[HostArray]) -> None:
    """Equal to the bit, but that any nan is as good as another."""
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        wide, known = (array.astype(np.complex128 if one.dtype.kind == "c" else one.dtype) for array in (one, other))
        if one.dtype in INEXACT:
            np.testing.assert_array_equal(np.isnan(wide), np.isnan(known))
            for part in (np.real, np.imag):
                a, b = (part(np.where(np.isnan(array), 0, array)) for array in (wide, known))
                np.testing.assert_array_equal(a, b)
                np.testing.assert_array_equal(np.signbit(a), np.signbit(b))
        else:
            np.testing.assert_array_equal(one, other)


def check_kept(change: Callable[[Jaxpr], Jaxpr], j: Jaxpr, *, reverse: bool) -> Jaxpr:
    """The program after a pass, which must be valid and have the type, the values and the derivatives that it had."""
    result = change(j)
    assert ir.typecheck(result) == j.type
    args = numbers(j.in_avals)
    with np.errstate(all="ignore"):
        same_bits(run(result, args), run(j, args))
        before, after = (transforms.jvp(program, force=(True,) * len(j.outvars)).jaxpr for program in (j, result))
        ir.typecheck(after)
        tangents = numbers(before.in_avals[len(args) :], seed=1)
        assert_close(run(after, [*args, *tangents]), run(before, [*args, *tangents]))
        if reverse:
            assert_close(gradient(result, args), gradient(j, args))
    return result


def gradient(j: Jaxpr, args: Sequence[HostArray]) -> list[HostArray]:
    """The cotangents of the inputs, for random cotangents of all outputs."""
    lin = transforms.linearize(j)
    outs = run(lin.primal, args)
    computed = iter(outs[len(j.outvars) :])
    residuals = [next(computed) if res.input is None else args[res.input] for res in lin.residuals]
    n = len(residuals)
    backward = transforms.transpose(lin.linear, [False] * n + [True] * (len(lin.linear.invars) - n)).jaxpr
    return run(backward, [*residuals, *numbers(backward.in_avals[n:], seed=2)])
