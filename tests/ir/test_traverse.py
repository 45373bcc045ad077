"""The programs within a program."""

from __future__ import annotations

from tests.ir.examples import (
    F64,
    Apply,
    Assorted,
    Choose,
    Custom,
    Rules,
    affine,
    applied,
    array,
    double,
    everything,
    nested,
    program,
    twice_each,
)
from tinyjax.ir import ClosedJaxpr, nested_programs, subjaxprs
from tinyjax.ir.dtypes import FLOAT64
from tinyjax.primitives.elementwise import mul
from tinyjax.primitives.structure import BroadcastInDim


def test_the_programs_that_a_primitive_holds() -> None:
    assert subjaxprs(mul) == ()
    assert subjaxprs(BroadcastInDim((2,), ())) == ()
    assert subjaxprs(Apply("f", double())) == (double(),)
    assert subjaxprs(Choose((double(), affine(), double()))) == (double(), affine(), double())
    assert subjaxprs(Custom(Rules(affine(), (double(),)))) == (affine(), double())
    assert subjaxprs(Assorted((1, ((double(),), "x"), frozenset({affine()})))) == (double(), affine())
    assert subjaxprs(Assorted(ClosedJaxpr(affine(), (array([1, 2, 3], FLOAT64),)))) == (affine(),)
    assert subjaxprs(Assorted(Apply("f", double()))) == (double(),)
    assert subjaxprs(Apply("f", applied(double()))) == (applied(double()),)


def test_inner_programs_come_first_and_each_comes_once() -> None:
    inner = applied(double())
    whole = program([F64], lambda ctx, x: ctx.bind(Choose((inner, double(), applied(double(), "g"))), x))
    assert nested_programs(whole) == [double(), inner, applied(double(), "g"), whole]
    assert nested_programs(double()) == [double()]


def test_programs_that_are_equal_count_as_one() -> None:
    whole = program([F64], lambda ctx, x: ctx.bind(Choose((double(), double())), x))
    assert len(nested_programs(whole)) == 2


def test_every_program_comes_after_those_within_it() -> None:
    order = nested_programs(everything().jaxpr)
    for place, jaxpr in enumerate(order):
        for eqn in jaxpr.eqns:
            assert all(child in order[:place] for child in subjaxprs(eqn.primitive))


def test_depth_and_sharing() -> None:
    assert len(nested_programs(nested(3000))) == 3001
    assert len(nested_programs(twice_each(200))) == 201
