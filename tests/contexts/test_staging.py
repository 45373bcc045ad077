"""`StagingContext` and `stage`."""

from __future__ import annotations

import numpy as np
import pytest

from tinyjax.contexts.evaluation import EvalContext
from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.errors import TypingError
from tinyjax.ir import Atom, ConcreteValue, Literal, ShapedArray, SourceInfo, Var, typecheck
from tinyjax.primitives.elementwise import add, mul, neg
from tinyjax.primitives.trigonometric import sin

F64 = ShapedArray((), "float64")
F32 = ShapedArray((), "float32")
VECTOR = ShapedArray((3,), "float64")


def test_equations_are_recorded_in_order() -> None:
    ctx = StagingContext()
    x, y = ctx.argument(F64), ctx.argument(F64)
    (z,) = ctx.bind(mul, x, y)
    (w,) = ctx.bind(add, z, ctx.constant(Literal.of(1.0)))
    staged = ctx.finish([w, x])
    assert str(staged.jaxpr) == (
        "{ lambda ; a:f64[] b:f64[]. let\n    c:f64[] = mul a b\n    d:f64[] = add c 1.0\n  in (d, a) }"
    )
    assert staged.captured == ()
    assert ctx.aval(z) == F64


def test_values_from_outside_become_leading_inputs() -> None:
    """However late they turn up; and the program is numbered in the order of bindings."""
    ctx = StagingContext()
    x = ctx.argument(VECTOR)
    (y,) = ctx.bind(neg, x)
    array = ConcreteValue.of(np.arange(3.0))
    (z,) = ctx.bind(add, y, ctx.constant(array))
    (w,) = ctx.bind(add, z, ctx.constant(ConcreteValue.of(np.ones(3))))
    staged = ctx.finish([ctx.bind(add, w, ctx.constant(array))[0]])
    typecheck(staged.jaxpr)
    assert [var.index for var in staged.jaxpr.invars] == [0, 1, 2]
    assert staged.captured == (ConcreteValue.of(np.arange(3.0)), ConcreteValue.of(np.ones(3)))
    assert len(staged.jaxpr.invars) == 3, "each array once"


@pytest.mark.parametrize("made", [(), ("argument",), ("captured",), ("argument", "captured"), ("captured", "argument")])
@pytest.mark.parametrize("bound", [0, 1, 2])
def test_a_context_holds_what_it_made(made: tuple[str, ...], bound: int) -> None:
    ctx = StagingContext()
    own: list[Atom] = [ctx.argument(F64) if each == "argument" else ctx.leading(F64) for each in made]
    for _ in range(bound if own else 0):
        own += ctx.bind(neg, own[-1])
    assert ctx.holds(Literal.of(1.0))
    assert all(map(ctx.holds, own))
    assert not ctx.holds(Var(len(own), F64)), "a variable of another program"
    assert not ctx.holds(1.0)


def test_captured_arrays_are_copies() -> None:
    ctx = StagingContext()
    data = np.arange(3.0)
    ctx.constant(ConcreteValue.of(data))
    data[:] = 7.0
    (captured,) = ctx.finish([]).captured
    assert isinstance(captured, ConcreteValue)
    np.testing.assert_array_equal(captured, np.arange(3.0))


def test_the_same_elements_with_another_type_are_another_input() -> None:
    ctx = StagingContext()
    data = np.arange(3.0)
    weak = ShapedArray((3,), "float64", weak_type=True)
    one = ctx.constant(ConcreteValue(data, VECTOR))
    assert ctx.constant(ConcreteValue(data, weak)) != one
    assert [str(aval) for aval in ctx.finish([]).jaxpr.in_avals] == ["f64[3]", "~f64[3]"]


def test_many_arrays_that_are_freed_at_once_are_told_apart() -> None:
    """Identity counts while the context is alive, so memory must not be used again for another array."""
    ctx = StagingContext()
    for i in range(100):
        ctx.constant(ConcreteValue.of(np.full(3, float(i))))
    assert len(ctx.finish([]).captured) == 100


@pytest.mark.parametrize(
    ("value", "text"), [(2.0, "2.0"), (np.float32(2), "2.0:f32[]"), (np.int8(3), "3:i8[]"), (True, "True")]
)
def test_scalars_are_literals(value: float, text: str) -> None:
    ctx = StagingContext()
    atom = ctx.constant(ConcreteValue.of(value))
    assert isinstance(atom, Literal)
    assert f"({text},)" in str(ctx.finish([atom]).jaxpr)


def test_ill_typed_equations_are_refused_and_not_recorded() -> None:
    ctx = StagingContext()
    x, y = ctx.argument(F64), ctx.argument(F32)
    with pytest.raises(TypingError, match=r"add requires arguments to have the same dtypes; got f64\[\], f32\[\]"):
        ctx.bind(add, x, y)
    jaxpr = ctx.finish(ctx.bind(neg, x)).jaxpr
    assert [eqn.primitive for eqn in jaxpr.eqns] == [neg]
    typecheck(jaxpr)


def test_origins() -> None:
    ctx = StagingContext()
    x, y = ctx.argument(F64), ctx.argument(VECTOR)
    ctx.cursor.source = SourceInfo("model.py", 3, "f")
    (z,) = ctx.bind(sin, x)
    constant = ctx.constant(ConcreteValue.of(np.ones(3)))
    assert ctx.origin(x).input == 0
    assert ctx.origin(y).input == 1
    assert (ctx.origin(z).what, str(ctx.origin(z).source)) == ("the result of 'sin'", "model.py:3 (f)")
    assert ctx.origin(constant).what == "a value from outside the function"
    assert ctx.origin(Literal.of(1.0)).what == "a literal"
    assert ctx.origin(x).context is ctx


def test_sources() -> None:
    """The line of the user's code, unless an interpretation says which equation it is at."""
    ctx = StagingContext()
    x = ctx.argument(F64)
    ctx.bind(neg, x)
    ctx.cursor.source = SourceInfo("model.py", 3, "f")
    ctx.bind(neg, x)
    first, second = ctx.finish([]).jaxpr.eqns
    assert first.source is not None
    assert first.source.file == __file__
    assert str(second.source) == "model.py:3 (f)"


def test_a_shared_cursor_says_where_the_user_is() -> None:
    """Other threads write to it, and may leave what they wrote."""
    cursor = EvalContext().cursor
    cursor.source = SourceInfo("another_thread.py", 1, "g")
    found = cursor.current()
    assert found is not None
    assert found.file == __file__


def test_stage_spells_constants_out() -> None:
    array = ConcreteValue.of(np.arange(3.0))
    jaxpr = stage([VECTOR], lambda ctx, ins: ctx.bind(add, ctx.bind(neg, *ins)[0], ctx.constant(array)))
    typecheck(jaxpr)
    assert [eqn.primitive.name for eqn in jaxpr.eqns] == ["constant", "neg", "add"]
    assert jaxpr.in_avals == (VECTOR,)
    again = stage([VECTOR], lambda ctx, ins: ctx.bind(add, ctx.bind(neg, *ins)[0], ctx.constant(array)))
    assert again == jaxpr


def test_nothing() -> None:
    jaxpr = StagingContext().finish([]).jaxpr
    assert (jaxpr.invars, jaxpr.eqns, jaxpr.outvars) == ((), (), ())
    assert Var(0, F64) == Var(0, F64)
