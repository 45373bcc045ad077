"""The content hash: equal exactly for equal programs, here and in every other process."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.golden import Golden
from tests.ir.examples import (
    F32,
    F64,
    HERE,
    VEC,
    WEAK,
    Apply,
    Assorted,
    Window,
    affine,
    applied,
    array,
    bits,
    chain,
    double,
    everything,
    nested,
    twice_each,
)
from tests.ir.registered import parameters, shardings
from tests.strategies import STANDARD, programs
from tinyjax.errors import ParameterError
from tinyjax.ir import ClosedJaxpr, ConcreteValue, Eqn, Jaxpr, Literal, ShapedArray, Var, content_hash, typecheck
from tinyjax.ir.dtypes import FLOAT0, FLOAT32, FLOAT64
from tinyjax.primitives.contractions import DotGeneral, Precision
from tinyjax.primitives.elementwise import add, mul, neg
from tinyjax.primitives.gather import Gather
from tinyjax.primitives.windows import GatherDimensionNumbers, GatherScatterMode

X, Y = Var(0, F64), Var(1, F64)


def everything_twice() -> ClosedJaxpr:
    """A program with something of every kind in it, within another one."""
    closed = everything()
    return ClosedJaxpr(applied(closed.jaxpr), closed.consts)


def arrays() -> ClosedJaxpr:
    """A program with arrays of every dtype."""
    values = [np.arange(6).reshape(2, 3).astype(dtype) for dtype in sorted(STANDARD, key=str)]
    consts = tuple(map(ConcreteValue.of, [*values, np.zeros((2,), FLOAT0), np.array(1.5), np.zeros((0, 2))]))
    invars = tuple(Var(i, const.aval) for i, const in enumerate(consts))
    return ClosedJaxpr(Jaxpr(invars, (), invars), consts)


def gathered() -> Jaxpr:
    """A program with an enumeration, and records, of the library."""
    x, i, y = Var(0, ShapedArray((3, 4), FLOAT32)), Var(1, ShapedArray((2, 1), np.int32)), ShapedArray((2, 4), FLOAT32)
    dims = GatherDimensionNumbers((1,), (0,), (0,))
    gather = Gather(dims, (1, 4), GatherScatterMode.FILL_OR_DROP, fill_value=float("nan"))
    dot = DotGeneral((((1,), (1,)), ((), ())), Precision.HIGHEST)
    eqns = (Eqn(gather, (x, i), (Var(2, y),)), Eqn(dot, (Var(2, y), x), (Var(3, ShapedArray((2, 3), FLOAT32)),)))
    return Jaxpr((x, i), eqns, (Var(3, ShapedArray((2, 3), FLOAT32)),))


def hashes() -> str:
    """The content hashes of some programs, a line for each."""
    examples: dict[str, Jaxpr | ClosedJaxpr] = {
        "everything": everything(),
        "everything_twice": everything_twice(),
        "arrays": arrays(),
        "gathered": gathered(),
        "double": double(),
        "nested": nested(3),
        "twice_each": twice_each(5),
        "chain": chain(7),
        "parameters": parameters_in_one(),
    }
    for example in examples.values():
        typecheck(example)
    return "\n".join(f"{name} {content_hash(example)}" for name, example in examples.items())


def parameters_in_one() -> Jaxpr:
    """A program with parameters of every kind."""
    return Jaxpr((), tuple(Eqn(Assorted(parameter), (), ()) for parameter in parameters()), ())


def test_hashes_never_change(golden: Golden) -> None:
    golden("content_hashes", hashes())


@pytest.mark.sweep
def test_hashes_are_the_same_in_every_process() -> None:
    script = "import sys; from tests.ir.test_content import *; sys.stdout.write(hashes())"
    env = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == hashes()


@given(programs(depth=2))
@settings(max_examples=30, deadline=None)
def test_equal_programs_have_equal_hashes(jaxpr: Jaxpr) -> None:
    copy: Jaxpr = pickle.loads(pickle.dumps(jaxpr))
    assert copy is not jaxpr
    assert copy == jaxpr
    assert hash(copy) == hash(jaxpr)
    assert content_hash(copy) == content_hash(jaxpr)


@given(programs(depth=1, max_eqns=3), programs(depth=1, max_eqns=3))
@settings(max_examples=30, deadline=None)
def test_hashes_are_equal_only_for_equal_programs(a: Jaxpr, b: Jaxpr) -> None:
    assert (content_hash(a) == content_hash(b)) == (a == b)


@given(programs(depth=2, max_eqns=8).filter(lambda jaxpr: bool(jaxpr.eqns)), st.data())
@settings(max_examples=30, deadline=None)
def test_any_change_changes_the_hash(jaxpr: Jaxpr, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(jaxpr.eqns) - 1))
    eqn = jaxpr.eqns[at]
    changed = data.draw(
        st.sampled_from(
            [
                evolve(eqn, primitive=Apply("f", jaxpr)),
                evolve(eqn, invars=(*eqn.invars, Literal.of(1.0))),
                evolve(eqn, outvars=(*eqn.outvars, X)),
            ]
        )
    )
    other = evolve(jaxpr, eqns=(*jaxpr.eqns[:at], changed, *jaxpr.eqns[at + 1 :]))
    assert other != jaxpr
    assert content_hash(other) != content_hash(jaxpr)


def distinct(programs: list[Jaxpr]) -> None:
    """All of these are different values, and have different hashes and texts."""
    assert len({content_hash(jaxpr) for jaxpr in programs}) == len(programs)
    assert len({str(jaxpr) for jaxpr in programs}) == len(programs)
    assert len(set(programs)) == len(programs)


def test_source_lines_do_not_count() -> None:
    plain, located = (Jaxpr((X,), (Eqn(neg, (X,), (Y,), source),), (Y,)) for source in (None, HERE))
    assert plain == located
    assert content_hash(plain) == content_hash(located)


def test_fields_that_are_no_part_of_the_value_do_not_count() -> None:
    one, two = (Jaxpr((), (Eqn(Assorted(Window((1,), note=note)), (), ()),), ()) for note in ("one", "two"))
    assert one == two
    assert content_hash(one) == content_hash(two)
    assert str(one) == str(two)


def test_structure_counts() -> None:
    distinct(
        [
            Jaxpr((), (), ()),
            Jaxpr((X,), (), ()),
            Jaxpr((Var(0, F32),), (), ()),
            Jaxpr((Var(0, WEAK),), (), ()),
            Jaxpr((Var(0, VEC),), (), ()),
            Jaxpr((X,), (), (X,)),
            Jaxpr((X,), (), (X, X)),
            Jaxpr((X, Y), (), (X,)),
            Jaxpr((X, Y), (), (Y,)),
            Jaxpr((X,), (Eqn(mul, (X, X), (Y,)),), (X,)),
            Jaxpr((X,), (Eqn(mul, (X, X), (Y,)),), (Y,)),
            Jaxpr((X,), (Eqn(add, (X, X), (Y,)),), (Y,)),
            Jaxpr((X,), (Eqn(add, (X, Literal.of(2.0)), (Y,)),), (Y,)),
            Jaxpr((X,), (Eqn(add, (Literal.of(2.0), X), (Y,)),), (Y,)),
            double(),
            affine(),
            applied(double()),
            applied(double(), "g"),
            applied(applied(double())),
        ]
    )


def test_every_bit_of_a_literal_counts() -> None:
    values = [0.0, -0.0, 1.0, float("nan"), -float("nan"), bits(0x7FF8000000000001), 1, 0, True, False, 1 + 0j, 0j, -0j]
    literals = [Literal.of(value) for value in values]
    literals += [Literal.of(1.0, FLOAT32), Literal.of(1.0, FLOAT64), Literal(1.0, ShapedArray((), FLOAT32, True))]
    distinct([Jaxpr((), (), (literal,)) for literal in literals])


def test_every_bit_of_a_parameter_counts() -> None:
    distinct([Jaxpr((), (Eqn(Assorted(parameter), (), ()),), ()) for parameter in [*parameters(), *shardings()]])


def test_constants_count() -> None:
    jaxpr = affine()
    consts = [array([1, 2, 3], FLOAT64), array([1, 2, 4], FLOAT64), array([1, 2, 3], FLOAT32)]
    closed = [ClosedJaxpr(jaxpr, (const,)) for const in consts]
    hashes = {content_hash(jaxpr), content_hash(ClosedJaxpr(jaxpr)), *map(content_hash, closed)}
    assert len(hashes) == 5
    assert content_hash(ClosedJaxpr(jaxpr, (array([1, 2, 3], FLOAT64),))) == content_hash(closed[0])


def test_the_layout_of_an_array_in_memory_does_not_count() -> None:
    values = np.arange(6.0).reshape(2, 3)
    aval = ShapedArray((2, 3), np.float64)
    hashes = {
        content_hash(Jaxpr((), (Eqn(Assorted(ConcreteValue(data, aval)), (), ()),), ()))
        for data in (values, np.asfortranarray(values), np.repeat(values, 2, axis=1)[:, ::2])
    }
    assert len(hashes) == 1


def test_sets_are_hashed_in_no_order() -> None:
    one = Assorted(frozenset(["a", "b", (1, 2), 3]))
    two = Assorted(frozenset([3, (1, 2), "b", "a"]))
    assert content_hash(Jaxpr((), (Eqn(one, (), ()),), ())) == content_hash(Jaxpr((), (Eqn(two, (), ()),), ()))


def test_what_is_no_value_has_no_hash() -> None:
    jaxpr = Jaxpr((), (Eqn(Assorted(1), (), ()),), ())
    object.__setattr__(jaxpr.eqns[0].primitive, "parameter", [1])
    with pytest.raises(ParameterError, match=r"can't be hashed by content: \[1\] is no immutable value"):
        content_hash(jaxpr)


def test_deep_shared_and_long_programs() -> None:
    assert content_hash(nested(2000)) == content_hash(nested(2000))
    assert content_hash(nested(2000)) != content_hash(nested(2001))
    assert content_hash(twice_each(200)) == content_hash(twice_each(200))
    assert content_hash(chain(20_000)) == content_hash(chain(20_000))
