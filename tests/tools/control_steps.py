"""Steps for `tests.strategies.programs` that bind branches and loops; and programs run with every variable seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from hypothesis import strategies as st

from tests.strategies import STEPS, Step, programs
from tinyjax.contexts.evaluation import EvalContext
from tinyjax.contexts.staging import StagingContext
from tinyjax.control.call import Call
from tinyjax.control.cond import Cond
from tinyjax.control.loops import While
from tinyjax.control.scan import Scan
from tinyjax.ir import Atom, ConcreteValue, Jaxpr, Literal, ShapedArray, Var
from tinyjax.ir.dtypes import FLOAT32, INT32
from tinyjax.ir.primitive import Primitive
from tinyjax.primitives.bitwise import logical_and
from tinyjax.primitives.comparison import lt
from tinyjax.primitives.constant import Constant
from tinyjax.primitives.elementwise import add, mul, sub

VECTOR: Final = ShapedArray((2,), FLOAT32)
SCALAR: Final = ShapedArray((), INT32)
#: The inputs of generated programs.
IN_AVALS: Final = (VECTOR, VECTOR, SCALAR, SCALAR)
EVALUATION: Final = EvalContext()


def _vectors(atoms: Sequence[Atom]) -> list[Atom]:
    return [atom for atom in atoms if atom.aval == VECTOR]


def _integers(atoms: Sequence[Atom]) -> list[Atom]:
    return [atom for atom in atoms if atom.aval == SCALAR]


def integer_arithmetic(draw: st.DrawFn, ctx: StagingContext, atoms: Sequence[Atom]) -> Sequence[Atom]:
    x, y = (draw(st.sampled_from([*_integers(atoms), Literal.of(draw(st.integers(0, 2)), INT32)])) for _ in range(2))
    return ctx.bind(draw(st.sampled_from([add, sub, mul])), x, y)


def constants(draw: st.DrawFn, ctx: StagingContext, atoms: Sequence[Atom]) -> Sequence[Atom]:
    value = ConcreteValue.of(np.array([1.0, draw(st.sampled_from([1.0, 2.0]))], np.float32))
    return ctx.bind(Constant(value))


def _block(draw: st.DrawFn, in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray]) -> Jaxpr:
    """A small program of a given type: equations at random, and outputs among what has the right type."""
    ctx = StagingContext()
    atoms: list[Atom] = [ctx.argument(aval) for aval in in_avals]
    for _ in range(draw(st.integers(0, 3))):
        atoms += draw(st.sampled_from([*STEPS[:2], integer_arithmetic]))(draw, ctx, atoms)
    outs: list[Atom] = []
    for aval in out_avals:
        fitting = [atom for atom in atoms if atom.aval == aval]
        ones = ConcreteValue.of(np.ones(2, np.float32))
        known = Literal.of(0, INT32) if aval == SCALAR else ctx.bind(Constant(ones))[0]
        outs.append(draw(st.sampled_from([*fitting, *fitting, known])))
    return ctx.finish(outs).jaxpr


def branching(draw: st.DrawFn, ctx: StagingContext, atoms: Sequence[Atom]) -> Sequence[Atom]:
    ins = [*draw(st.permutations(_vectors(atoms)))[:2], *draw(st.permutations(_integers(atoms)))[:1]]
    branches = tuple(_block(draw, [x.aval for x in ins], (VECTOR, SCALAR)) for _ in range(2))
    index = draw(st.sampled_from([*_integers(atoms), Literal.of(draw(st.integers(0, 1)), INT32)]))
    return ctx.bind(Cond(branches), index, *ins)


def scanning(draw: st.DrawFn, ctx: StagingContext, atoms: Sequence[Atom]) -> Sequence[Atom]:
    """A scan with two carries of one type, so that they can change places, and one that counts."""
    vector, count = _vectors(atoms), _integers(atoms)
    ins = [draw(st.sampled_from(vector)) for _ in range(3)] + [draw(st.sampled_from(count))]
    body = _block(draw, [x.aval for x in ins], (VECTOR, VECTOR, SCALAR, SCALAR))
    return ctx.bind(Scan(body, draw(st.integers(0, 3)), draw(st.booleans()), 1, 3), *ins)[:3]


def looping(draw: st.DrawFn, ctx: StagingContext, atoms: Sequence[Atom]) -> Sequence[Atom]:
    """A while that goes round at most three times: the counter goes up to an integer, and to 3 at most."""
    vector, count = _vectors(atoms), _integers(atoms)
    limit = draw(st.sampled_from([*count, Literal.of(draw(st.integers(0, 2)), INT32)]))
    carry = [draw(st.sampled_from(vector)), draw(st.sampled_from(vector))]
    test = StagingContext()
    bound, i, _, _ = (test.argument(aval) for aval in (SCALAR, SCALAR, VECTOR, VECTOR))
    (below,) = test.bind(lt, i, bound)
    (early,) = test.bind(lt, i, Literal.of(3, INT32))
    going = logical_and(test, early, below)
    body = _block(draw, [VECTOR, SCALAR, VECTOR, VECTOR], (VECTOR, VECTOR))
    step = StagingContext()
    ins: list[Atom] = [step.argument(aval) for aval in body.in_avals]
    (following,) = step.bind(add, ins[1], Literal.of(1, INT32))
    outs = step.bind(Call("body", body), *ins)
    loop = While(test.finish([going]).jaxpr, 1, step.finish([following, *outs]).jaxpr, 1)
    return ctx.bind(loop, limit, draw(st.sampled_from(vector)), Literal.of(0, INT32), *carry)


CONTROL_STEPS: Final[tuple[Step, ...]] = (
    *STEPS[:2],
    integer_arithmetic,
    constants,
    branching,
    branching,
    scanning,
    scanning,
    looping,
    looping,
)


def control_programs(max_eqns: int = 6) -> st.SearchStrategy[Jaxpr]:
    """Programs with branches and loops, of inputs of the types IN_AVALS."""
    return programs(CONTROL_STEPS, IN_AVALS, max_eqns=max_eqns, depth=0, dtypes=st.just(FLOAT32))


@st.composite
def inputs(draw: st.DrawFn) -> list[ConcreteValue]:
    """Values for these inputs: few different ones, so that predicates go both ways."""
    floats = st.sampled_from([-1.5, 0.0, 1.0, 2.5])
    vectors = [np.array([draw(floats), draw(floats)], np.float32) for _ in range(2)]
    integers = [np.array(draw(st.integers(0, 2)), np.int32) for _ in range(2)]
    return [ConcreteValue.of(array) for array in (*vectors, *integers)]


def run_all(jaxpr: Jaxpr, args: Sequence[ConcreteValue]) -> list[ConcreteValue]:
    """The values of all variables, in the order of `Var.index`."""
    env = list(args)
    for eqn in jaxpr.eqns:
        env += bind(eqn.primitive, [value(env, atom) for atom in eqn.invars])
    return env


def value(env: Sequence[ConcreteValue], atom: Atom) -> ConcreteValue:
    return env[atom.index] if isinstance(atom, Var) else EVALUATION.constant(atom)


def bind(primitive: Primitive, args: Sequence[ConcreteValue]) -> Sequence[ConcreteValue]:
    """The results of a primitive. Indices of conditionals are clamped, as compiled programs do it."""
    with np.errstate(all="ignore"):
        return EVALUATION.bind(primitive, *args)
