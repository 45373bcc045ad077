"""Programs that are made by hand: whoever is given one that doesn't typecheck says so, and each is checked once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Final, final

import numpy as np
import pytest
from attrs import frozen
from typing_extensions import override

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import hlo, ir, transforms
from tinyjax.contexts.evaluation import EvalContext
from tinyjax.contexts.staging import StagingContext
from tinyjax.control.call import Call
from tinyjax.errors import VerificationError
from tinyjax.ir import ClosedJaxpr, ConcreteValue, Eqn, Jaxpr, Literal, Primitive, ShapedArray, Var
from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.primitive import BatchAxis
from tinyjax.primitives.elementwise import add, mul
from tinyjax.primitives.trigonometric import sin

F64 = ShapedArray((), "float64")
VEC = ShapedArray((3,), "float64")
A, B, C = (Var(i, F64) for i in range(3))
PAIR, TRIPLE = Var(0, ShapedArray((2,), "float64")), Var(1, VEC)

#: What is wrong, and where.
BAD: Final[dict[str, tuple[Jaxpr, str]]] = {
    "binds again": (Jaxpr((A,), (Eqn(add, (A, A), (A,)),), (A,)), "equation 0 of the program: binds"),
    "unbound": (Jaxpr((A,), (Eqn(sin, (A,), (B,)), Eqn(sin, (Var(7, F64),), (C,))), (C,)), "equation 1 of the program"),
    "another type": (Jaxpr((A,), (Eqn(sin, (A,), (Var(1, VEC),)),), ()), "equation 0 of the program: sin gives"),
    "operands": (Jaxpr((A,), (Eqn(mul, (PAIR, TRIPLE), (C,)),), (C,)), "equation 0 of the program: reads"),
    "operands of other shapes": (
        Jaxpr((PAIR, TRIPLE), (Eqn(mul, (PAIR, TRIPLE), (C,)),), (C,)),
        "equation 0 of the program: mul does not accept operands of types (f64[2], f64[3])",
    ),
    "too few operands": (Jaxpr((A,), (Eqn(mul, (A,), (B,)),), (B,)), "equation 0 of the program: mul does not accept"),
    "too many results": (
        Jaxpr((A,), (Eqn(sin, (A,), (B, C)),), (B,)),
        "equation 0 of the program: sin gives 1 output",
    ),
    "literal": (Jaxpr((A,), (Eqn(add, (A, Literal(1, F64)), (B,)),), (B,)), "equation 0 of the program: the literal"),
    "output": (Jaxpr((A,), (), (B,)), "the outputs of the program"),
    "within": (
        Jaxpr((A,), (Eqn(Call("f", Jaxpr((A,), (Eqn(sin, (A,), (A,)),), (A,))), (A,), (B,)),), (B,)),
        "equation 0 of the program within call",
    ),
}


def zeros(jaxpr: Jaxpr) -> list[HostArray]:
    return [np.zeros(var.aval.shape) for var in jaxpr.invars]


ONE = ConcreteValue.of(np.float64(1.0))
#: Everything that takes a program.
ENTRIES: Final[dict[str, Callable[[Jaxpr], object]]] = {
    "eval_jaxpr": lambda jaxpr: tj.eval_jaxpr(jaxpr, (), *zeros(jaxpr)),
    "eval_jaxpr of a closed program": lambda jaxpr: tj.eval_jaxpr(ClosedJaxpr(jaxpr, zeros(jaxpr)[:1]), ()),
    "interpret": lambda jaxpr: ir.interpret(EvalContext(), jaxpr, [ONE] * len(jaxpr.invars)),
    "lower": hlo.lower,
    "batch": lambda jaxpr: transforms.batch(jaxpr, BatchAxis(2), [0] * len(jaxpr.invars)),
    "checkify": transforms.checkify,
    "count_primitives": transforms.count_primitives,
    "cse": transforms.cse,
    "cse of a closed program": lambda jaxpr: transforms.cse(ClosedJaxpr(jaxpr)),
    "dce": transforms.dce,
    "dce of a closed program": lambda jaxpr: transforms.dce(ClosedJaxpr(jaxpr)),
    "fold_constants": transforms.fold_constants,
    "hoist_constants": transforms.hoist_constants,
    "inline": transforms.inline,
    "jvp": transforms.jvp,
    "linearize": transforms.linearize,
    "once_or_small": transforms.once_or_small,
    "optimize": transforms.optimize,
    "partial_eval": lambda jaxpr: transforms.partial_eval(jaxpr, [True] * len(jaxpr.invars)),
    "prune": lambda jaxpr: transforms.prune(jaxpr, [True] * len(jaxpr.outvars)),
    "repeats": transforms.repeats,
    "reroll": transforms.reroll,
    "rewrite": lambda jaxpr: transforms.rewrite(jaxpr, transforms.EXACT_RULES),
    "simplify": transforms.simplify,
    "transpose": lambda jaxpr: transforms.transpose(jaxpr, [True] * len(jaxpr.invars)),
    "unroll": transforms.unroll,
}


def test_every_transformation_is_among_the_entries() -> None:
    functions = {name for name in dir(transforms) if name.islower()} - {"pattern", "variables"}
    assert functions <= ENTRIES.keys()


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES.keys())
@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_a_malformed_program_is_refused(bad: tuple[Jaxpr, str], entry: Callable[[Jaxpr], object]) -> None:
    jaxpr, message = bad
    for _ in range(2):  # it isn't taken for a checked one the second time
        with pytest.raises(VerificationError) as info:
            entry(Jaxpr(jaxpr.invars, jaxpr.eqns, jaxpr.outvars))
        assert message in str(info.value).splitlines()[0]


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES.keys())
def test_what_is_no_program_at_all_is_refused(entry: Callable[[Jaxpr], object]) -> None:
    listed: Sequence[object] = [A]
    with pytest.raises(VerificationError, match="is a list, not a tuple"):
        entry(Jaxpr((A,), (), listed))  # type: ignore[arg-type]


@final
@frozen
class Counting(Primitive):
    """The identity; it counts how often it is asked for its types."""

    name: ClassVar[str] = "counting"
    asked: ClassVar[list[int]] = [0]

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        self.asked[0] += 1
        return avals

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        return args


def by_hand() -> Jaxpr:
    return Jaxpr((A,), (Eqn(Counting(), (A,), (B,)),), (B,))


def test_a_program_is_checked_once() -> None:
    """And so is one that equals it."""
    first, second = by_hand(), by_hand()
    Counting.asked[0] = 0
    transforms.cse(first)
    assert Counting.asked[0] == 1
    for program in (first, second, second, by_hand()):
        transforms.cse(program)
        transforms.dce(program)
        transforms.count_primitives(ClosedJaxpr(program))
    assert Counting.asked[0] == 1


def test_what_was_traced_or_transformed_is_not_checked() -> None:
    traced = tj.make_jaxpr(lambda x: tnp.sin(x) * tj.jit(tnp.cos)(x))(1.0).jaxpr
    known = StagingContext()
    known.argument(F64)
    for program in (
        traced,
        transforms.jvp(traced).jaxpr,
        transforms.batch(traced, BatchAxis(2), [0]).jaxpr,
        transforms.linearize(traced).linear,
        transforms.optimize(traced),
        transforms.dce(traced),
        ir.parse(str(traced)),
        known.finish([]).jaxpr,
    ):
        assert program.well_typed
        ir.typecheck(program)
    assert not Jaxpr(traced.invars, traced.eqns, traced.outvars).well_typed


@final
@frozen
class Untyped(Primitive):
    """The identity, without types."""

    name: ClassVar[str] = "untyped"

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        return args


def test_what_cannot_be_typed_runs_as_it_is() -> None:
    jaxpr = Jaxpr((A,), (Eqn(Untyped(), (A,), (B,)),), (B,))
    for _ in range(2):
        assert [float(out) for out in tj.eval_jaxpr(jaxpr, (), 2.0)] == [2.0]
    assert not jaxpr.well_typed


def test_constants_must_fit() -> None:
    program = tj.make_jaxpr(lambda x, y: x * y)(VEC, VEC).jaxpr
    with pytest.raises(VerificationError, match=r"constant 0 of the program is f32\[3\], but the input .* is f64\[3\]"):
        transforms.fold_constants(ClosedJaxpr(program, [np.ones(3, np.float32)]))
