"""Programs as values: equality, hashing, immutability, copies."""

from __future__ import annotations

import copy
import pickle

import attrs
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
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
    Emit,
    Rules,
    affine,
    applied,
    array,
    bits,
    chain,
    double,
    everything,
    nested,
    program,
    twice_each,
)
from tinyjax.errors import InputError
from tinyjax.ir import ClosedJaxpr, Eqn, Jaxpr, JaxprType, Literal, NamedAxisEffect, ShapedArray, Var
from tinyjax.ir.dtypes import BFLOAT16, BOOL, COMPLEX128, FLOAT32, FLOAT64, INT32, INT64
from tinyjax.primitives.elementwise import mul, neg

X, Y = Var(0, F64), Var(1, F64)


def test_programs_are_equal_up_to_names_and_source_lines() -> None:
    one = program([F64], lambda ctx, x: [neg(ctx, neg(ctx, x))])
    other = program([F64], lambda ctx, renamed: [neg(ctx, neg(ctx, renamed))])
    assert one is not other
    assert one == other
    assert hash(one) == hash(other)
    located = attrs.evolve(one, eqns=tuple(attrs.evolve(eqn, source=None) for eqn in one.eqns))
    assert one.eqns[0].source == HERE
    assert located == one
    assert len({one, other, located}) == 1


def test_programs_differ_from_everything_else() -> None:
    assert double() != affine()
    assert double() != "{ lambda ; a:f64[]. let b:f64[] = mul 2.0 a in (b,) }"
    assert double() != ClosedJaxpr(double())
    assert ClosedJaxpr(double()) == ClosedJaxpr(double())
    assert ClosedJaxpr(affine(), (array([1, 2, 3], FLOAT64),)) != ClosedJaxpr(affine(), (array([1, 2, 4], FLOAT64),))


def test_parameters_are_compared_to_the_bit() -> None:
    def holding(parameter: object) -> Jaxpr:
        return Jaxpr((), (Eqn(Assorted(parameter), (), ()),), ())

    for one, other in ((1, 1.0), (1, True), (0.0, -0.0), ((1,), (1.0,)), (1 + 0j, 1), (0j, -0j), (double(), affine())):
        assert holding(one) != holding(other)
        assert holding(one) == holding(copy.copy(one))
    assert holding((double(), 2)) == holding((double(), 2))
    assert holding((double(), 2)) != holding((double(), 2, 2))
    assert holding(frozenset({1, "a"})) == holding(frozenset({"a", 1}))
    assert holding(array([1], FLOAT64)) == holding(array([1], FLOAT64))


def test_programs_within_records_are_compared() -> None:
    one, same, other = (
        program([F64], lambda ctx, x, r=rules: ctx.bind(Custom(r), x))
        for rules in (Rules(double(), (double(),)), Rules(double(), (double(),)), Rules(double(), (applied(double()),)))
    )
    assert one == same
    assert one != other


def test_equality_and_hashing_are_no_recursion() -> None:
    one, other = nested(5000), nested(5000)
    assert one == other
    assert hash(one) == hash(other)
    assert one.eqns[0] == other.eqns[0]
    assert nested(5000) != nested(4999)


def test_sharing_makes_equality_cheap() -> None:
    assert twice_each(300) == twice_each(300)


def test_long_programs_are_compared() -> None:
    assert chain(5000) == chain(5000)
    assert chain(5000) != chain(5001)


def test_effects_are_no_recursion_either() -> None:
    inner = program([F64], lambda ctx, x: [*ctx.bind(Emit("i"), x), x])
    for _ in range(5000):
        inner = applied(inner)
    assert inner.effects == {NamedAxisEffect("i")}
    assert inner.eqns[0].effects == inner.effects
    assert ClosedJaxpr(inner).effects == inner.effects
    assert affine().effects == frozenset()


@pytest.mark.parametrize("part", [double(), double().eqns[0], X, Literal.of(1.0), mul, F64, everything()])
def test_parts_are_immutable(part: Jaxpr | Eqn | Var | Literal | ShapedArray) -> None:
    fields = list(attrs.fields_dict(type(part))) or ["anything"]
    for name in fields:
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            setattr(part, name, None)
    assert not hasattr(part, "__dict__")


def test_programs_survive_copying_and_pickling() -> None:
    whole = everything()
    for copied in (copy.copy(whole), copy.deepcopy(whole), pickle.loads(pickle.dumps(whole))):
        assert copied == whole
        assert hash(copied) == hash(whole)
        assert str(copied) == str(whole)


def test_closed_programs() -> None:
    jaxpr = program([VEC, F64], lambda ctx, v, x: [v, x, neg(ctx, x)])
    closed = ClosedJaxpr(jaxpr, (array([1, 2, 3], FLOAT64),))
    assert closed.in_avals == (F64,)
    assert closed.out_avals == (VEC, F64, F64)
    assert closed.eqns == jaxpr.eqns
    assert jaxpr.in_avals == (VEC, F64)
    assert jaxpr.type == JaxprType((VEC, F64), (VEC, F64, F64))


def test_equations() -> None:
    eqn = Eqn(Assorted((1, 2)), (X,), (Y,))
    assert dict(eqn.params) == {"parameter": (1, 2)}
    assert not eqn.effects
    assert str(Eqn(neg, (X,), (Y,))) == "b:f64[] = neg a"
    assert Eqn(neg, (X,), (Y,), HERE) == Eqn(neg, (X,), (Y,))
    assert Eqn(Apply("f", double()), (X,), (Y,)) != Eqn(Choose((double(),)), (X,), (Y,))


@pytest.mark.parametrize(
    ("value", "dtype", "weak"),
    [(True, BOOL, False), (1, INT64, True), (1.0, FLOAT64, True), (1j, COMPLEX128, True)],
)
def test_literals_of_python_numbers_are_weak(value: complex, dtype: np.dtype[np.generic], weak: bool) -> None:
    literal = Literal.of(value)
    assert literal.aval == ShapedArray((), dtype, weak)
    assert literal.value == value
    assert type(literal.value) is type(value)


def test_literals_are_rounded_to_their_dtype() -> None:
    assert Literal.of(0.1, FLOAT32).value == float(np.float32(0.1))
    assert Literal.of(0.1, BFLOAT16).value == 0.10009765625
    assert Literal.of(2, FLOAT32).value == 2.0
    assert type(Literal.of(2, FLOAT32).value) is float
    assert Literal.of(2.0, INT32) == Literal(2, ShapedArray((), INT32))
    assert Literal.of(np.float32(0.5)) == Literal(0.5, F32)
    assert Literal.of(np.True_) == Literal.of(True)


def test_literals_are_compared_to_the_bit() -> None:
    nan = float("nan")
    assert Literal.of(nan) == Literal.of(float("nan"))
    assert hash(Literal.of(nan)) == hash(Literal.of(float("nan")))
    assert Literal.of(0.0) != Literal.of(-0.0)
    assert Literal.of(1) != Literal.of(1.0)
    assert Literal.of(1) != Literal.of(True)
    assert Literal(1.0, WEAK) != Literal(1.0, F64)
    assert Literal(bits(0x7FF8000000000001), F64) != Literal(bits(0x7FF8000000000000), F64)
    assert Literal.of(complex(nan, 0.0)) == Literal.of(complex(nan, 0.0))
    assert Literal.of(complex(0.0, -0.0)) != Literal.of(0j)


def test_a_closed_program_takes_in_arrays_of_all_kinds() -> None:
    x, y = Var(0, ShapedArray((2,), "float64")), Var(1, ShapedArray((), "float64"))
    program = Jaxpr((x, y), (), (x, y))
    mine = np.array([1.0, 2.0])
    closed = ClosedJaxpr(program, [mine, 3.0])
    mine[:] = 7
    assert closed == ClosedJaxpr(program, (tnp.array([1.0, 2.0]), tnp.asarray(3.0)))
    assert closed.consts[1].aval.weak_type
    assert [list(np.atleast_1d(np.asarray(out))) for out in tj.eval_jaxpr(closed, ())] == [[1.0, 2.0], [3.0]]
    with pytest.raises(InputError, match=r"constant 1 of a ClosedJaxpr is a str, 'three'\. Pass arrays with"):
        ClosedJaxpr(program, (mine, "three"))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="constant 0 of a ClosedJaxpr is a Tracer"):
        tj.make_jaxpr(lambda a: ClosedJaxpr(program, (a,)))(mine)


def test_what_jax_calls_otherwise_is_named_in_the_error() -> None:
    closed = ClosedJaxpr(affine(), (array([1, 2, 3], FLOAT64),))
    literal = double().eqns[0].invars[0]
    for part, name, said in (
        (closed, "literals", "the constants are `consts`"),
        (closed.jaxpr, "constvars", "constants feed the first inputs"),
        (closed.eqns[0], "source_info", "`source`"),
        (literal, "val", "`value`"),
    ):
        assert not hasattr(part, name)
        with pytest.raises(AttributeError, match=f"'{type(part).__name__}' object has no attribute '{name}': .*{said}"):
            getattr(part, name)
    with pytest.raises(AttributeError, match=r"'Jaxpr' object has no attribute 'nonsense'$"):
        getattr(closed.jaxpr, "nonsense")  # noqa: B009
