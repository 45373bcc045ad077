"""The verifier: valid programs have types, and each kind of mistake has its message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, final

import numpy as np
import pytest
from attrs import frozen
from hypothesis import given, settings
from typing_extensions import override

from tests.golden import Golden
from tests.ir.examples import (
    F32,
    F64,
    HERE,
    VEC,
    WEAK,
    Apply,
    Assorted,
    Choose,
    Custom,
    Rules,
    affine,
    applied,
    array,
    chain,
    double,
    nested,
    program,
    twice_each,
)
from tests.strategies import programs
from tinyjax.errors import MissingRuleError, TypingError, VerificationError
from tinyjax.ir import (
    ClosedJaxpr,
    ConcreteValue,
    Eqn,
    Jaxpr,
    JaxprType,
    Literal,
    Primitive,
    ShapedArray,
    Var,
    typecheck,
)
from tinyjax.ir.dtypes import BFLOAT16, BOOL, COMPLEX64, FLOAT0, FLOAT32, INT8, DType
from tinyjax.primitives.elementwise import Mul, add, mul, neg
from tinyjax.primitives.structure import ReduceSum

X, Y, Z = (Var(i, F64) for i in range(3))


def message(jaxpr: Jaxpr | ClosedJaxpr) -> str:
    """What the verifier says."""
    with pytest.raises(VerificationError) as info:
        typecheck(jaxpr)
    return str(info.value)


def test_the_type_of_a_program() -> None:
    jaxpr = program([F64, VEC], lambda ctx, x, v: [v, neg(ctx, x), Literal.of(1)])
    weak = ShapedArray((), np.int64, weak_type=True)
    assert typecheck(jaxpr) == JaxprType((F64, VEC), (VEC, F64, weak)) == jaxpr.type
    assert str(typecheck(jaxpr)) == "(f64[], f64[3]) -> (f64[3], f64[], ~i64[])"
    assert typecheck(Jaxpr((), (), ())) == JaxprType((), ())


def test_the_type_of_a_closed_program() -> None:
    jaxpr = program([VEC, F64], lambda ctx, v, x: [v])
    assert typecheck(ClosedJaxpr(jaxpr, (array([1, 2, 3], np.dtype(np.float64)),))) == JaxprType((F64,), (VEC,))


@given(programs(depth=2))
@settings(max_examples=30, deadline=None)
def test_staged_programs_are_valid(jaxpr: Jaxpr) -> None:
    assert typecheck(jaxpr) == jaxpr.type


def test_an_unbound_variable() -> None:
    jaxpr = Jaxpr((X,), (Eqn(add, (X, Var(7, F64)), (Y,), HERE),), (Y,))
    assert message(jaxpr).startswith("equation 0 of the program: reads c:f64[], which nothing binds\n")


def test_a_variable_that_is_bound_too_late() -> None:
    jaxpr = Jaxpr((X,), (Eqn(neg, (Z,), (Y,)), Eqn(neg, (X,), (Z,))), (Y,))
    assert "equation 0 of the program: reads c:f64[], which equation 1 binds later" in message(jaxpr)
    itself = Jaxpr((X,), (Eqn(neg, (Y,), (Y,)),), (Y,))
    assert "reads b:f64[], which is only bound by this equation itself" in message(itself)


def test_an_unbound_output() -> None:
    assert message(Jaxpr((X,), (), (Y,))).startswith("the outputs of the program: reads b:f64[], which nothing binds")
    assert message(Jaxpr((X,), (), (Var(-1, F64),))).startswith("the outputs of the program: reads b:f64[], which")


def test_a_variable_that_is_bound_twice() -> None:
    assert message(Jaxpr((X, X), (), ())).startswith(
        "the inputs of the program: binds a, variable number 0, which is bound already"
    )
    jaxpr = Jaxpr((X,), (Eqn(neg, (X,), (X,)),), (X,))
    assert "equation 0 of the program: binds a, variable number 0, which is bound already" in message(jaxpr)
    jaxpr = Jaxpr((X,), (Eqn(Apply("f", double()), (X,), (Y,)), Eqn(neg, (X,), (Y,))), (Y,))
    assert "equation 1 of the program: binds b, variable number 1, which is bound already" in message(jaxpr)


def test_wrong_numbering() -> None:
    jaxpr = Jaxpr((X,), (Eqn(neg, (X,), (Z,)),), (Z,))
    expected = "binds variable number 2, but bindings are numbered in order, and the next one is number 1"
    assert f"equation 0 of the program: {expected}" in message(jaxpr)
    assert "the inputs of the program: binds variable number 1, but" in message(Jaxpr((Y,), (), ()))
    assert "binds variable number -1, but" in message(Jaxpr((Var(-1, F64),), (), ()))


def test_a_variable_read_with_another_type() -> None:
    jaxpr = Jaxpr((X,), (Eqn(neg, (Var(0, F32),), (Var(1, F32),)),), ())
    assert "reads a as f32[], but a is bound as f64[]" in message(jaxpr)
    assert "the outputs of the program: reads a as ~f64[], but a is bound as f64[]" in message(
        Jaxpr((X,), (), (Var(0, WEAK),))
    )


@pytest.mark.parametrize(
    ("out", "found"),
    [(ShapedArray((3,), np.float64), "f64[3]"), (F32, "f32[]"), (WEAK, "~f64[]")],
)
def test_outputs_of_another_type(out: ShapedArray, found: str) -> None:
    jaxpr = Jaxpr((X,), (Eqn(mul, (X, X), (Var(1, out),)),), (Var(1, out),))
    assert f"equation 0 of the program: mul gives (f64[]), but its outputs are bound as ({found})" in message(jaxpr)


def test_another_number_of_outputs() -> None:
    two = Jaxpr((X,), (Eqn(mul, (X, X), (Y, Z)),), (Y,))
    assert "mul gives 1 outputs (f64[]), but 2 are bound" in message(two)
    none = Jaxpr((X,), (Eqn(mul, (X, X), ()),), ())
    assert "mul gives 1 outputs (f64[]), but 0 are bound" in message(none)


def test_operands_that_the_primitive_refuses() -> None:
    vec = Var(1, ShapedArray((3,), np.float32))
    jaxpr = Jaxpr((X, vec), (Eqn(add, (X, vec), (Z,)),), (Z,))
    text = message(jaxpr)
    assert (
        "add does not accept operands of types (f64[], f32[3]): add requires arguments to have the same dtypes" in text
    )
    too_few = Jaxpr((X,), (Eqn(ReduceSum((0,)), (), (Y,)),), ())
    assert "reduce_sum does not accept operands of types ()" in message(too_few)


def test_the_refusal_is_the_cause() -> None:
    with pytest.raises(VerificationError) as info:
        typecheck(Jaxpr((X,), (Eqn(ReduceSum((4,)), (X,), (Y,)),), ()))
    assert isinstance(info.value.__cause__, TypingError)


def test_a_missing_typing_rule_stays_one() -> None:
    @final
    @frozen
    class Untyped(Primitive):
        name: ClassVar[str] = "untyped"

    with pytest.raises(MissingRuleError, match="Abstract evaluation for 'untyped' not implemented"):
        typecheck(Jaxpr((X,), (Eqn(Untyped(), (X,), (Y,)),), ()))


@pytest.mark.parametrize(
    ("literal", "reason"),
    [
        (Literal(1.0, VEC), "the literal 1.0:f64[3] is not a scalar; only scalars can be literals"),
        (Literal(0.1, F32), "the literal 0.1 of type f32[] is not a Python number that f32 represents exactly"),
        (Literal(1e300, F32), "the literal 1e+300 of type f32[] is not"),
        (Literal(1, F64), "the literal 1 of type f64[] is not"),
        (Literal(1.0, ShapedArray((), np.int64)), "the literal 1.0 of type i64[] is not"),
        (Literal(True, ShapedArray((), np.int64)), "the literal True of type i64[] is not"),
        (Literal(1, ShapedArray((), BOOL)), "the literal 1 of type bool[] is not"),
        (Literal(300, ShapedArray((), INT8)), "the literal 300 of type i8[] is not a Python number that i8"),
        (Literal(2**70, ShapedArray((), np.int64)), f"the literal {2**70} of type i64[] is not"),
        (Literal(257.0, ShapedArray((), BFLOAT16)), "the literal 257.0 of type bf16[] is not"),
        (Literal(complex(np.nan, 0.1), ShapedArray((), COMPLEX64)), "the literal (nan+0.1j) of type c64[] is not"),
        (Literal(False, ShapedArray((), FLOAT0)), "the literal False of type float0[] is not"),
    ],
)
def test_literals_that_are_no_scalars_of_their_dtype(literal: Literal, reason: str) -> None:
    assert f"the outputs of the program: {reason}" in message(Jaxpr((), (), (literal,)))


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(float("nan"), FLOAT32), (-0.0, FLOAT32), (float("inf"), BFLOAT16), (complex(np.nan, np.inf), COMPLEX64)],
)
def test_literals_that_need_no_rounding(value: complex, dtype: DType) -> None:
    typecheck(Jaxpr((), (), (Literal(value, ShapedArray((), dtype)),)))


def test_parameters_that_are_no_values() -> None:
    @final
    @frozen
    class Unchecked(Primitive):
        axes: Sequence[int]
        name: ClassVar[str] = "unchecked"

        @override
        def __attrs_post_init__(self) -> None:
            """Accepts what it shouldn't."""

    jaxpr = Jaxpr((X,), (Eqn(Unchecked([0]), (X,), (Y,), HERE),), ())
    text = message(jaxpr)
    assert text == (
        "equation 0 of the program: parameter 'axes' is not an immutable, hashable value: [0]\n"
        "The equation comes from model.py:12 (loss)."
    )


def test_parts_of_the_wrong_kind() -> None:
    # A type checker finds these; programs that came in some other way can have them all the same.
    for jaxpr, problem in (
        (malformed(invars=[X]), "the inputs of the program: invars is a list, not a tuple"),
        (malformed(eqns=[]), "the inputs of the program: eqns is a list, not a tuple"),
        (malformed(outvars=[]), "the inputs of the program: outvars is a list, not a tuple"),
        (malformed(invars=(F64,)), "the inputs of the program: binds ShapedArray(f64[]), which is not a Var"),
        (malformed(outvars=(2.0,)), "the outputs of the program: reads 2.0, which is neither a Var nor a Literal"),
        (malformed(eqns=(eqn(invars=[X]),)), "equation 0 of the program: invars is a list, not a tuple"),
        (malformed(eqns=(eqn(outvars=[Y]),)), "equation 0 of the program: outvars is a list, not a tuple"),
        (malformed(eqns=(eqn(primitive=Mul),)), "is not a primitive: an instance of a subclass of Primitive"),
    ):
        assert problem in message(jaxpr)


def malformed(**parts: object) -> Jaxpr:
    """A program with some parts replaced by anything at all."""
    jaxpr = Jaxpr((X,), (Eqn(neg, (X,), (Y,)),), (Y,))
    for name, part in parts.items():
        object.__setattr__(jaxpr, name, part)
    return jaxpr


def eqn(**parts: object) -> Eqn:
    """An equation with some parts replaced by anything at all."""
    result = Eqn(neg, (X,), (Y,))
    for name, part in parts.items():
        object.__setattr__(result, name, part)
    return result


def test_constants_that_do_not_fit() -> None:
    jaxpr = program([VEC], lambda ctx, v: [v])
    const = array([1, 2, 3], np.dtype(np.float64))
    assert message(ClosedJaxpr(jaxpr, (const, const))) == "2 constants for a program with 1 inputs"
    for other, name in ((array([1, 2], np.dtype(np.float64)), "f64[2]"), (array([1, 2, 3], FLOAT32), "f32[3]")):
        assert message(ClosedJaxpr(jaxpr, (other,))) == (
            f"constant 0 of the program is {name}, but the input that it feeds is f64[3]"
        )
    lying = ConcreteValue(np.zeros(2), VEC)
    assert message(ClosedJaxpr(jaxpr, (lying,))) == "constant 0 of the program says that it is f64[3], but holds f64[2]"


def wrong() -> Jaxpr:
    """A program with one bad equation."""
    out = Var(2, F32)
    return Jaxpr((X,), (Eqn(neg, (X,), (Y,)), Eqn(mul, (Y, X), (out,), HERE)), (out,))


def test_messages(golden: Golden) -> None:
    golden("typecheck", message(wrong()))
    golden("typecheck_nested", message(applied(applied(wrong()))))


def test_mistakes_in_programs_within_tuples_and_records() -> None:
    for primitive in (Choose((double(), wrong())), Custom(Rules(double(), (wrong(),))), Assorted(((wrong(),),))):
        jaxpr = Jaxpr((X,), (Eqn(neg, (X,), (Y,)), Eqn(primitive, (X,), (Z,))), ())
        place = f"equation 1 of the program within {primitive.name}, equation 1 of the program: mul gives (f64[])"
        assert place in message(jaxpr)


def test_how_a_program_is_used_is_checked_by_its_holder() -> None:
    jaxpr = Jaxpr((X,), (Eqn(Apply("f", affine()), (X,), (Y,)),), (Y,))
    assert "apply does not accept operands of types (f64[]): f takes (f64[3]) -> (f64[3])" in message(jaxpr)


def test_long_programs_are_not_shown() -> None:
    jaxpr = chain(100)
    last = Eqn(neg, (Var(100, F64),), (Var(101, F32),), HERE)
    text = message(Jaxpr(jaxpr.invars, (*jaxpr.eqns, last), (Var(101, F32),)))
    assert text.splitlines() == [
        "equation 100 of the program: neg gives (f64[]), but its outputs are bound as (f32[])",
        "",
        "    cx:f32[] = neg cw",
        "",
        "The equation comes from model.py:12 (loss).",
    ]


def test_deep_and_long_programs() -> None:
    assert typecheck(nested(2000)) == JaxprType((F64,), (F64,))
    assert typecheck(twice_each(200)) == JaxprType((VEC,), (VEC,))
    assert typecheck(chain(20_000)) == JaxprType((F64,), (F64,))
    deep = wrong()
    for _ in range(2000):
        deep = Jaxpr((X,), (Eqn(Apply("f", deep), (X,), (Var(1, F32),)),), (Var(1, F32),))
    assert "equation 1 of the program within apply, equation 0 of another program within it" in message(deep)


def test_a_program_that_occurs_twice_is_checked_once() -> None:
    asked = 0

    @final
    @frozen
    class Counting(Primitive):
        name: ClassVar[str] = "counting"

        @override
        def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
            nonlocal asked
            asked += 1
            return avals

    inner = Jaxpr((X,), (Eqn(Counting(), (X,), (Y,)),), (Y,))
    typecheck(program([F64], lambda ctx, x: ctx.bind(Apply("g", inner), *ctx.bind(Apply("f", inner), x))))
    assert asked == 1
