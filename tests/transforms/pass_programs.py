"""Programs for the tests of passes: random ones with branches and loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hypothesis import strategies as st

from tests import strategies
from tinyjax import ShapedArray, ir
from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.control.cond import Cond
from tinyjax.control.loops import While
from tinyjax.control.scan import Scan
from tinyjax.ir import Atom, Jaxpr, Literal
from tinyjax.ir.dtypes import FLOAT64
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
