"""Random programs, and the parts that they are made of, for property tests.

`programs` grows a program by steps, each of which binds one primitive or a few on atoms that are there already. A test
of other primitives passes its own steps, or these and its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np
from hypothesis import strategies as st

from tinyjax.contexts.staging import StagingContext
from tinyjax.control.call import Call
from tinyjax.control.composite_call import Attribute, CompositeCall, Dictionary
from tinyjax.ir import Atom, DType, Jaxpr, Literal, Scalar, Shape, ShapedArray
from tinyjax.ir.dtypes import BOOL, FLOATS, INTEGERS, NUMERIC, SHORT_NAMES, SUPPORTED, WIDE, bits, integer_limits
from tinyjax.ir.literals import python_scalar
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.elementwise import add, mul, neg, sub
from tinyjax.primitives.structure import BroadcastInDim, ReduceSum, Transpose

#: Binds something on some of these atoms; returns the new ones.
Step: TypeAlias = Callable[[st.DrawFn, StagingContext, Sequence[Atom]], Sequence[Atom]]


def _in_order(dtypes: frozenset[DType]) -> list[DType]:
    """The same order in every process, so that examples can be reproduced."""
    return sorted(dtypes, key=SHORT_NAMES.__getitem__)


shapes: Final[st.SearchStrategy[Shape]] = st.lists(st.integers(0, 3), max_size=3).map(tuple)
#: The dtypes that NumPy and JAX compute with everywhere; those of a byte and less have tests of their own.
STANDARD: Final = _in_order(SUPPORTED - set(WIDE))
#: What XLA compiles: not floats of 6 bits.
_COMPILED: Final = SUPPORTED - {dtype for dtype in WIDE if bits(dtype) == 6}
numeric_dtypes: Final = st.sampled_from(_in_order(_COMPILED & NUMERIC))
dtypes: Final = st.sampled_from(_in_order(_COMPILED))


@st.composite
def avals(draw: st.DrawFn, dtypes: st.SearchStrategy[DType] = numeric_dtypes) -> ShapedArray:
    """Types of arrays; scalars may be weak."""
    shape = draw(shapes)
    return ShapedArray(shape, draw(dtypes), weak_type=shape == () and draw(st.booleans()))


def scalars(dtype: DType) -> st.SearchStrategy[Scalar]:
    """Python numbers that the dtype represents: infinities, nan and both zeros too."""
    if dtype == BOOL:
        return st.booleans()
    if dtype in INTEGERS:
        return st.integers(*integer_limits(dtype))
    return (st.floats() if dtype in FLOATS else st.complex_numbers()).map(lambda value: _rounded(value, dtype))


def _rounded(value: Scalar, dtype: DType) -> Scalar:
    with np.errstate(all="ignore"):
        return python_scalar(value, dtype)


@st.composite
def literals(draw: st.DrawFn, dtype: DType) -> Literal:
    """Literals of a dtype, weak or not."""
    weak = dtype != BOOL and draw(st.booleans())
    return Literal(draw(scalars(dtype)), ShapedArray((), dtype, weak))


def _operand(draw: st.DrawFn, atoms: Sequence[Atom]) -> Atom:
    return draw(st.sampled_from(list(atoms)))


def negation(draw: st.DrawFn, ctx: StagingContext, atoms: Sequence[Atom]) -> Sequence[Atom]:
    return ctx.bind(neg, _operand(draw, atoms))


def arithmetic(draw: st.DrawFn, ctx: StagingContext, atoms: Sequence[Atom]) -> Sequence[Atom]:
    """A binary operation on two atoms that go together, or on one and a literal."""
    x = _operand(draw, atoms)
    dtype, shape = x.aval.dtype, x.aval.shape
    fitting = [y for y in atoms if y.aval.dtype == dtype and (y.aval.shape == shape or () in (shape, y.aval.shape))]
    y = draw(st.one_of(st.sampled_from(fitting), literals(dtype)))
    operands = draw(st.permutations([x, y]))
    return ctx.bind(draw(st.sampled_from([add, sub, mul])), *operands)


def broadcasting(draw: st.DrawFn, ctx: StagingContext, atoms: Sequence[Atom]) -> Sequence[Atom]:
    """An operand with a new axis, or some."""
    x = _operand(draw, atoms)
    shape, dims = list(x.aval.shape), list(range(x.aval.ndim))
    for _ in range(draw(st.integers(1, 2))):
        at = draw(st.integers(0, len(shape)))
        shape.insert(at, draw(st.integers(0, 3)))
        dims = [dim + (dim >= at) for dim in dims]
    return ctx.bind(BroadcastInDim(tuple(shape), tuple(dims)), x)


def reduction(draw: st.DrawFn, ctx: StagingContext, atoms: Sequence[Atom]) -> Sequence[Atom]:
    x = _operand(draw, atoms)
    axes = draw(st.sets(st.sampled_from(range(x.aval.ndim)))) if x.aval.ndim else set()
    return ctx.bind(ReduceSum(tuple(sorted(axes))), x)


def permutation(draw: st.DrawFn, ctx: StagingContext, atoms: Sequence[Atom]) -> Sequence[Atom]:
    x = _operand(draw, atoms)
    return ctx.bind(Transpose(tuple(draw(st.permutations(range(x.aval.ndim))))), x)


STEPS: Final[tuple[Step, ...]] = (negation, arithmetic, broadcasting, reduction, permutation)


#: What a compiler is told of a named operation.
attributes: Final[st.SearchStrategy[tuple[tuple[str, Attribute], ...]]] = st.sampled_from(
    [
        (),
        (("k", 1),),
        (("k", True), ("x", -0.0)),
        (("k", (1.0, ("a", b"b"), ())), ("odd-key", np.dtype("float32"))),
        (("d", Dictionary((("a", Literal.of(np.float32(0.1))), ("e", Dictionary(()))))),),
        (("a", ConcreteValue.of(np.arange(3.0))), ("b", ConcreteValue.of(np.zeros((0, 2), bool)))),
    ]
)


@st.composite
def programs(
    draw: st.DrawFn,
    steps: Sequence[Step] = STEPS,
    in_avals: Sequence[ShapedArray] | None = None,
    max_eqns: int = 6,
    depth: int = 1,
    dtypes: st.SearchStrategy[DType] = numeric_dtypes,
) -> Jaxpr:
    """Valid programs: directed graphs of the steps' equations, with programs within them to the given depth.

    Some equations are read by none; outputs may repeat, and may be inputs or literals.
    """
    if in_avals is None:
        in_avals = draw(st.lists(avals(dtypes), min_size=1, max_size=3))
    ctx = StagingContext()
    atoms: list[Atom] = [ctx.argument(aval) for aval in in_avals]
    inner: list[Jaxpr] = []
    for _ in range(draw(st.integers(0, max_eqns)) if atoms else 0):
        if depth and draw(st.integers(0, 4)) == 0:
            atoms += _application(draw, ctx, atoms, inner, steps, depth - 1, dtypes)
        else:
            atoms += draw(st.sampled_from(list(steps)))(draw, ctx, atoms)
    outs: list[Atom] = draw(st.lists(st.sampled_from(atoms), max_size=3)) if atoms else []
    if draw(st.booleans()):
        outs.append(draw(dtypes.flatmap(literals)))
    return ctx.finish(outs).jaxpr


def _application(
    draw: st.DrawFn,
    ctx: StagingContext,
    atoms: Sequence[Atom],
    inner: list[Jaxpr],
    steps: Sequence[Step],
    depth: int,
    dtypes: st.SearchStrategy[DType],
) -> Sequence[Atom]:
    """A call of a new program, or of one that has been called before; some have names that a compiler may know."""
    again = [jaxpr for jaxpr in inner if all(any(a.aval == aval for a in atoms) for aval in jaxpr.in_avals)]
    new = draw(st.booleans())
    if again and not new:
        jaxpr = draw(st.sampled_from(again))
        operands = [draw(st.sampled_from([a for a in atoms if a.aval == aval])) for aval in jaxpr.in_avals]
    else:
        operands = draw(st.lists(st.sampled_from(list(atoms)), max_size=2))
        jaxpr = draw(programs(steps, [operand.aval for operand in operands], max_eqns=3, depth=depth, dtypes=dtypes))
        inner.append(jaxpr)
    label = draw(st.sampled_from(["f", "g", "<lambda>", "two words", "my.op"]))
    if "." in label:
        return ctx.bind(CompositeCall(label, jaxpr, draw(st.integers(0, 2)), draw(attributes)), *operands)
    return ctx.bind(Call(label, jaxpr), *operands)
