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

from tests.ir.examples import (
    F32,
    F64,
    HERE,
    VEC,
    WEAK,
    Apply,
    Assorted,
    Flags,
    Mode,
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
from tests.strategies import programs
from tinyjax.errors import ParameterError
from tinyjax.ir import ClosedJaxpr, ConcreteValue, Eqn, Jaxpr, Literal, ShapedArray, Var, content_hash, typecheck
from tinyjax.ir.dtypes import FLOAT32, FLOAT64
from tinyjax.primitives.elementwise import ADD, MUL, NEG

GOLDEN = "05ce55e2a01ae4e49063f0df20008172a78287d27ea5346b3d3003963f94500a"
X, Y = Var(0, F64), Var(1, F64)


def test_the_hash_never_changes() -> None:
    typecheck(everything())
    assert content_hash(everything()) == GOLDEN


def test_the_hash_is_the_same_in_every_process() -> None:
    script = (
        "from tests.ir.examples import everything; from tinyjax.ir import content_hash as h; print(h(everything()))"
    )
    path = os.pathsep.join(sys.path)
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
        command = [sys.executable, "-c", script.replace("print", "import sys; sys.stdout.write")]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        assert done.stdout == GOLDEN


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
    plain, located = (Jaxpr((X,), (Eqn(NEG, (X,), (Y,), source),), (Y,)) for source in (None, HERE))
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
            Jaxpr((X,), (Eqn(MUL, (X, X), (Y,)),), (X,)),
            Jaxpr((X,), (Eqn(MUL, (X, X), (Y,)),), (Y,)),
            Jaxpr((X,), (Eqn(ADD, (X, X), (Y,)),), (Y,)),
            Jaxpr((X,), (Eqn(ADD, (X, Literal.of(2.0)), (Y,)),), (Y,)),
            Jaxpr((X,), (Eqn(ADD, (Literal.of(2.0), X), (Y,)),), (Y,)),
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
    parameters: list[object] = [None, True, 1, 1.0, 1 + 0j, "1", b"1", (1,), (1.0,), (True,), ((1,),), frozenset({1})]
    parameters += [0, 0.0, -0.0, False, complex(0.0, -0.0), "", b"", (), frozenset(), -1, 2**70, -(2**70)]
    parameters += ["None", "True", "float64", np.dtype("f8"), np.dtype("f4"), float, np.float64, VEC, F64, WEAK]
    parameters += [Mode.CLIP, Mode.FILL, Flags.LEFT, Flags(0), Flags.LEFT | Flags.RIGHT, Window((1,)), Window((2,))]
    parameters += [("ab", "c"), ("a", "bc"), ("a", ("b", "c")), (("a", "b"), "c"), ("a", "b", "c"), frozenset({1, 2})]
    parameters += [array([1.0], FLOAT64), array([1.0], FLOAT32), array([[1.0]], FLOAT64), array([-1.0], FLOAT64)]
    parameters += [frozenset({1.0}), frozenset({True}), affine(), double(), (double(),), ClosedJaxpr(double())]
    distinct([Jaxpr((), (Eqn(Assorted(parameter), (), ()),), ()) for parameter in parameters])


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
