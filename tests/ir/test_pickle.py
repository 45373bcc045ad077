"""Values of the IR, and arrays, can be pickled and copied; no hash is carried over to another process."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
from hypothesis import given, settings

import tinyjax as tj
from tests.ir.examples import (
    F64,
    HERE,
    VEC,
    Apply,
    Assorted,
    Custom,
    Rules,
    Window,
    affine,
    applied,
    array,
    chain,
    double,
    everything,
    nested,
    twice_each,
)
from tests.ir.registered import parameters, shardings
from tests.strategies import programs
from tinyjax.control.call import Call
from tinyjax.control.custom_derivatives import MappedCustom
from tinyjax.errors import DeletedBufferError
from tinyjax.ir import (
    BatchAxis,
    ClosedJaxpr,
    ConcreteValue,
    Eqn,
    Jaxpr,
    JaxprType,
    Literal,
    NamedAxisEffect,
    ShapedArray,
    SourceInfo,
    Var,
    subjaxprs,
)
from tinyjax.ir.dtypes import BFLOAT16, BOOL, COMPLEX64, FLOAT0, FLOAT32, FLOAT64
from tinyjax.primitives.elementwise import add, neg
from tinyjax.primitives.structure import ReduceSum

X, Y = Var(0, F64), Var(1, F64)


def mapped_custom() -> Jaxpr:
    """A program whose primitive holds a primitive that holds programs."""

    @tj.custom_jvp
    def cube(x: tj.Array) -> tj.Array:
        return x**3

    cube.defjvps(lambda t, out, x: 3 * x * x * t)
    jaxpr = tj.make_jaxpr(tj.vmap(cube))(np.ones(3)).jaxpr
    assert isinstance(jaxpr.eqns[0].primitive, MappedCustom)
    return jaxpr


def values() -> list[object]:
    """Instances of every class of the IR."""
    assorted = [Jaxpr((), (Eqn(Assorted(parameter), (), ()),), ()) for parameter in [*parameters(), *shardings()]]
    return [
        F64,
        VEC,
        ShapedArray((2, 3), BFLOAT16),
        ShapedArray((), FLOAT0),
        X,
        Literal.of(float("nan")),
        Literal.of(-0.0),
        Literal.of(1 + 2j),
        HERE,
        SourceInfo("a.py", 1, "f", ("jvp",)),
        NamedAxisEffect("i"),
        BatchAxis(3, "i"),
        JaxprType((F64,), (VEC,)),
        add,
        ReduceSum((0, 1)),
        Call("f", affine()),
        Custom(Rules(affine(), (double(), applied(double())))),
        Apply("f", nested(3)),
        *assorted,
        Eqn(neg, (X,), (Y,), HERE),
        Eqn(Apply("f", double()), (X,), (Y,)),
        double(),
        everything().jaxpr,
        everything(),
        mapped_custom(),
        ClosedJaxpr(affine(), (array([1, 2, 3], FLOAT64),)),
        array([1.5, float("nan")], FLOAT32),
        array([1.5], BFLOAT16),
        array([], BOOL),
        array([[1j]], COMPLEX64),
    ]


@pytest.mark.parametrize("value", values(), ids=lambda value: type(value).__name__)
def test_values_survive(value: object) -> None:
    for protocol in range(1, pickle.HIGHEST_PROTOCOL + 1):  # number 0 is text, in which all nans are the same
        found: object = pickle.loads(pickle.dumps(value, protocol))
        assert type(found) is type(value)
        assert found == value
        assert hash(found) == hash(value)
        assert str(found) == str(value)
    for found in (copy.copy(value), copy.deepcopy(value), pickle.loads(cloudpickle.dumps(value))):
        assert found == value
        assert hash(found) == hash(value)


@given(programs(depth=2))
@settings(max_examples=40, deadline=None)
def test_any_program_survives(jaxpr: Jaxpr) -> None:
    found = pickle.loads(pickle.dumps(jaxpr))
    assert found is not jaxpr
    assert found == jaxpr
    assert str(found) == str(jaxpr)
    assert copy.deepcopy(jaxpr) == jaxpr


def test_source_lines_survive() -> None:
    here, there = (Jaxpr((X,), (Eqn(neg, (X,), (Y,), SourceInfo(name, 1, "f")),), (Y,)) for name in "ab")
    jaxpr = Jaxpr((X,), (Eqn(Apply("f", here), (X,), (Y,)), Eqn(Apply("f", there), (X,), (Var(2, F64),), HERE)), (Y,))
    found: Jaxpr = pickle.loads(pickle.dumps(jaxpr))
    assert [eqn.source for eqn in found.eqns] == [None, HERE]
    inner = [program.eqns[0].source for eqn in found.eqns for program in subjaxprs(eqn.primitive)]
    assert [str(source) for source in inner] == ["a:1 (f)", "b:1 (f)"]


def test_fields_that_are_no_part_of_a_value_survive() -> None:
    found: Assorted = pickle.loads(pickle.dumps(Assorted((Window((1,), note="remark"), double()))))
    assert isinstance(found.parameter, tuple)
    assert found.parameter[0].note == "remark"


def test_deep_shared_and_long_programs_survive() -> None:
    for jaxpr in (nested(1200), twice_each(200), chain(5000)):
        for value in (jaxpr, ClosedJaxpr(jaxpr), jaxpr.eqns[-1], jaxpr.eqns[-1].primitive):
            found: object = pickle.loads(pickle.dumps(value))
            assert found == value
        assert copy.deepcopy(jaxpr) is jaxpr


def test_malformed_programs_survive() -> None:
    """They can be sent to who finds out what is wrong."""
    for jaxpr in (
        Jaxpr((Y,), (), (X,)),
        Jaxpr((X,), (Eqn(Apply("f", Jaxpr((Y,), (), ())), (), ()),), (Y, Literal.of(2))),
    ):
        assert pickle.loads(pickle.dumps(jaxpr)) == jaxpr


def test_functions_of_modules_survive_pickle_and_others_cloudpickle() -> None:
    named = tj.make_jaxpr(lambda x: tj.pure_callback(np.sin, x, x))(1.0)
    assert pickle.loads(pickle.dumps(named)) == named
    anonymous = tj.make_jaxpr(lambda x: tj.pure_callback(lambda v: v + 1, x, x))(1.0)
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(anonymous)
    found: ClosedJaxpr = pickle.loads(cloudpickle.dumps(anonymous))
    assert [float(out) for out in tj.eval_jaxpr(found.jaxpr, found.consts, 1.0)] == [2.0]
    assert copy.deepcopy(anonymous) == anonymous


@tj.jit
def doubled(x: tj.ArrayLike) -> tj.Array:
    return tj.numpy.asarray(x) * 2.0


def test_jitted_functions_survive_after_calls_too() -> None:
    """As JAX's: by cloudpickle whatever they close over, and by pickle if a module has them."""
    factor = tj.device_put(np.array([1.0, 3.0]))
    inner = tj.jit(lambda x, n: factor * x**n, static_argnames="n")
    outer = tj.jit(lambda tree: inner(tree["x"], n=2) + doubled(tree["x"]), donate_argnums=0)
    given = {"x": np.array([1.0, 2.0])}
    expected = [outer(given) for _ in range(3)]  # prepared from the second on
    found = pickle.loads(cloudpickle.dumps(outer))
    for _ in range(3):
        np.testing.assert_array_equal(found(given), expected[0])
    kept: Any = copy.deepcopy(inner)
    np.testing.assert_array_equal(kept(2.0, n=1), [2.0, 6.0])
    doubled(1.0)
    assert pickle.loads(pickle.dumps(doubled)) is doubled
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(inner)


def test_arrays_survive() -> None:
    for data in (np.arange(6.0).reshape(2, 3), np.ones(2, BFLOAT16), np.array(3), np.zeros(2, FLOAT0)):
        host = tj.numpy.asarray(data) if data.dtype != FLOAT0 else data
        arrays = [host] if data.dtype == FLOAT0 else [host, tj.device_put(data), tj.jit(lambda x: x + x)(data)]
        for x in arrays:
            for y in (
                pickle.loads(pickle.dumps(x)),
                pickle.loads(cloudpickle.dumps(x)),
                copy.copy(x),
                copy.deepcopy(x),
            ):
                assert type(y) is type(x)
                assert np.asarray(y).dtype == np.asarray(x).dtype
                np.testing.assert_array_equal(np.asarray(y), np.asarray(x))
    weak = tj.numpy.asarray(2.0)
    found = pickle.loads(pickle.dumps(weak))
    assert found.aval == weak.aval


def test_arrays_in_programs_can_not_be_written_to() -> None:
    found: ClosedJaxpr = pickle.loads(pickle.dumps(everything()))
    assert not np.asarray(found.consts[0].data).flags.writeable


def test_the_array_that_a_value_was_made_of_stays_writeable() -> None:
    data = np.ones(3)
    mine, value = pickle.loads(pickle.dumps((data, ConcreteValue.of(data))))
    mine[0] = 2.0
    assert np.asarray(value).tolist() == [1.0, 1.0, 1.0]
    value = ConcreteValue.of(data)
    copied = copy.deepcopy(value)
    data[0] = 3.0
    assert np.asarray(copied).tolist() == [1.0, 1.0, 1.0]


def test_a_donated_array_has_nothing_to_pickle() -> None:
    x = tj.device_put(tj.numpy.ones(3))
    x.delete()
    with pytest.raises(DeletedBufferError, match="donated or deleted"):
        pickle.dumps(x)


@pytest.mark.sweep
def test_hashes_are_those_of_the_process(tmp_path: Path) -> None:
    """A hash that is cached depends on PYTHONHASHSEED. What was pickled with its hash known must still be found in sets
    of what is made here."""
    write = (
        "import pickle, sys, cloudpickle; from tests.ir.test_pickle import *\n"
        "made = values()\n"
        "[hash(v) for v in made]; [v.lines for v in made if isinstance(v, Jaxpr)]\n"
        "open(sys.argv[1], 'wb').write(pickle.dumps((pickle.dumps(made), cloudpickle.dumps(made))))\n"
    )
    read = (
        "import pickle, sys; from tests.ir.test_pickle import *\n"
        "pickled = pickle.loads(open(sys.argv[1], 'rb').read())\n"
        "found = [value for part in pickled for value in pickle.loads(part)]\n"
        "made = values()\n"
        "for v, w in zip(found, made * 2, strict=True):\n"
        "    assert v == w and hash(v) == hash(w) and v in {w} and w in {v}, v\n"
        "    if isinstance(v, Jaxpr): assert v.lines == w.lines and v.effects == w.effects\n"
        "    if isinstance(v, Eqn | Jaxpr): pickle.dumps(v)\n"
    )
    for seed, script in (("1", write), ("2", read)):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", script, str(tmp_path / "values")]
        done = subprocess.run(command, env=env, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
