"""Traced functions: records that are called like the function, keep its trees and names, and are programs."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from attrs.exceptions import FrozenInstanceError

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.api.matching import assert_matches
from tinyjax import ShapedArray, ir
from tinyjax.errors import InputError, StaticArgumentError, TreeError

X = np.array([1.0, 2.0, 3.0])
PARAMS = {"w": X, "b": 0.5}


def model(params: Any, x: Any, power: int = 2, *, scale: Any = 1.0) -> Any:
    y = tnp.sum(params["w"] * x**power) + params["b"]
    return {"loss": scale * y, "parts": (y, None)}


def loss(params: Any, x: Any) -> Any:
    return tnp.sum(tnp.sin(params["w"] * x)) + params["b"]


def plainly(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return tj.trace(f)(*args, **kwargs)


def jitted(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return tj.jit(f).trace(*args, **kwargs)


BOTH = pytest.mark.parametrize("trace", [plainly, jitted])


@BOTH
def test_a_traced_function_is_called_like_the_function(trace: Callable[..., Any]) -> None:
    traced = trace(model, PARAMS, X, scale=2.0)
    other = {"w": 3 * X, "b": 1.0}
    assert_matches(traced(other, 2 * X, scale=3.0), model(other, 2 * X, scale=3.0))
    # By name or position, as the function takes them.
    assert_matches(traced(x=2 * X, scale=3.0, params=other), model(other, 2 * X, scale=3.0))
    assert inspect.signature(traced) == inspect.signature(model)
    assert traced.__name__ == traced.fun_name == "model"
    assert traced.out_info["loss"] == ShapedArray((), "f64")
    assert traced.out_tree == tj.tree.structure(model(PARAMS, X))
    assert traced.in_tree == tj.tree.structure(((PARAMS, X), {"scale": 1.0}))
    assert traced.input_names == ("params['b']", "params['w']", "x", "scale")
    assert (tuple(tj.tree.leaves(traced.in_avals)), traced.eqns) == (traced.jaxpr.in_avals, traced.jaxpr.eqns)
    assert isinstance(traced.jaxpr, tj.ClosedJaxpr)
    ir.typecheck(traced.jaxpr)


@BOTH
def test_types_will_do(trace: Callable[..., Any]) -> None:
    traced = trace(loss, {"w": ShapedArray((3,), "f32"), "b": ShapedArray((), "f32")}, ShapedArray((3,), "f32"))
    x = X.astype(np.float32)
    params = {"w": x, "b": np.float32(2)}
    assert_matches(traced(params, x), loss(params, x))


@BOTH
def test_in_every_transformation(trace: Callable[..., Any]) -> None:
    traced = trace(loss, PARAMS, X)
    grad: Callable[..., Any] = tj.grad
    for transform in (
        grad,
        tj.value_and_grad,
        tj.jit,
        tj.hessian,
        tj.checkpoint,
        lambda f: tj.jit(grad(f)),
        lambda f: grad(tj.jit(f)),
        lambda f: lambda p, x: tj.jvp(f, (p, x), (p, x)),
        lambda f: lambda p, x: tj.vjp(f, p, x)[1](1.0),
        lambda f: lambda p, x: tj.linearize(f, p, x)[1](p, x),
        lambda f: lambda p, x: tj.vmap(f, in_axes=(None, 0))(p, tnp.stack([x, 2 * x])),
        lambda f: lambda p, x: tj.vmap(grad(f), in_axes=(None, 0))(p, tnp.stack([x, 2 * x])),
        lambda f: lambda p, x: tj.lax.scan(lambda c, _: (c + f(p, x), c), 0.0, None, 3),
    ):
        assert_matches(transform(traced)(PARAMS, 2 * X), transform(loss)(PARAMS, 2 * X))
    assert tj.make_jaxpr(tj.grad(traced))(PARAMS, X).in_avals == traced.jaxpr.in_avals
    shape = tj.eval_shape(traced, PARAMS, X)
    assert shape == ShapedArray((), "f64")


def test_what_comes_from_jit_is_one_call() -> None:
    inner = tj.make_jaxpr(jitted(loss, PARAMS, X))(PARAMS, X)
    assert [eqn.primitive.name for eqn in inner.eqns] == ["call"]
    assert tj.make_jaxpr(plainly(loss, PARAMS, X))(PARAMS, X) == tj.make_jaxpr(loss)(PARAMS, X)


@BOTH
def test_compared_by_value(trace: Callable[..., Any]) -> None:
    def other(weights: Any, y: Any) -> Any:
        return tnp.sum(tnp.sin(weights["w"] * y)) + weights["b"]

    x, y = trace(loss, PARAMS, X), trace(other, PARAMS, X)
    assert x == y
    assert hash(x) == hash(y)
    assert (x.input_names[2], y.input_names[2]) == ("x", "y")
    assert x != trace(loss, {"w": X, "b": X}, X)
    assert x != trace(lambda p, x: (loss(p, x),), PARAMS, X)
    assert x != trace(lambda p, x: loss(p, x) * 2.0, PARAMS, X)
    assert plainly(loss, PARAMS, X) != jitted(loss, PARAMS, X)
    with pytest.raises(FrozenInstanceError):
        x.fun_name = "other"


def test_with_the_arguments_at_once() -> None:
    assert tj.trace(loss, PARAMS, X) == tj.trace(loss)(PARAMS, X)
    assert tj.trace(model, PARAMS, X, 3, static_argnums=2) == tj.trace(model, static_argnums=2)(PARAMS, X, 3)
    assert tj.trace(lambda x: x, x=1.0) == tj.trace(lambda x: x)(x=1.0)
    assert float(tj.trace(lambda: 2.0)()()) == 2.0


@BOTH
def test_copies_are_equal(trace: Callable[..., Any]) -> None:
    traced = trace(loss, PARAMS, X)
    assert copy.deepcopy(traced) is traced
    again = pickle.loads(pickle.dumps(traced))
    assert again == traced
    assert again.input_names == traced.input_names
    assert_matches(again(PARAMS, X), traced(PARAMS, X))


def test_static_arguments_belong_to_it() -> None:
    for traced in (
        tj.trace(model, static_argnums=2)(PARAMS, X, 3),
        tj.jit(model, static_argnums=2).trace(PARAMS, X, 3),
    ):
        assert_matches(traced(PARAMS, 2 * X, 3), model(PARAMS, 2 * X, 3))
        with pytest.raises(StaticArgumentError, match="traced model: the static arguments are part of the program"):
            traced(PARAMS, X, 4)
    named = tj.trace(model, static_argnames="power")(PARAMS, X, power=3)
    assert_matches(named(PARAMS, X, power=3), model(PARAMS, X, 3))
    assert named.input_names == ("params['b']", "params['w']", "x")
    assert named != tj.trace(model, static_argnames="power")(PARAMS, X, power=4)


def test_lower() -> None:
    table = X.copy()

    def f(x: Any, n: int) -> Any:
        return x * n + table, 2.0

    jit = tj.jit(f, static_argnums=1, donate_argnums=0)
    traced = jit.trace(X, 3)
    assert traced.lower().as_text() == jit.lower(X, 3).as_text()
    x = tj.device_put(tnp.asarray(X))
    np.testing.assert_array_equal(traced.lower().compile()(x)[0], X * 3 + table)
    assert x.is_deleted()
    plain = tj.trace(f, static_argnums=1)(X, 3)
    assert_matches(plain.lower().compile()(X), f(X, 3))
    assert_matches(plain(X, 3), f(X, 3))
    table[:] = 0.0  # what it closes over is as it was
    np.testing.assert_array_equal(plain(X, 3)[0], X * 3 + X)


@BOTH
def test_leaves_of_dtype_float0(trace: Callable[..., Any]) -> None:
    zero = np.zeros((2,), tj.float0)
    traced = trace(lambda x, t: (t, 2.0 * x, {"t": t}), 1.0, zero)
    assert traced.input_names == ("x",)
    assert traced.out_info[0] == ShapedArray((2,), tj.float0)
    first, y, last = traced(3.0, zero)
    assert float(y) == 6.0
    assert first.dtype == last["t"].dtype == tj.float0
    assert traced.lower().compile()(3.0, zero)[1] == 6.0


@BOTH
def test_another_program_in_its_place(trace: Callable[..., Any]) -> None:
    traced = trace(lambda p, x: {"y": p["w"] * x * 1.0, "z": 0.0 * p["b"]}, PARAMS, X)
    simpler = traced.with_program(tj.transforms.simplify(traced.jaxpr))
    assert len(simpler.eqns) < len(traced.eqns)
    assert simpler.input_names == traced.input_names == simpler.jaxpr.input_names
    assert_matches(simpler(PARAMS, 2 * X), traced(PARAMS, 2 * X))
    with pytest.raises(InputError, match=r"must take .* but takes \(f64\[\]\) and returns \(f64\[\]\)"):
        traced.with_program(tj.make_jaxpr(lambda x: x)(np.float64(1.0)))


@BOTH
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda f: f(PARAMS, X[:2]), InputError, r"loss: argument x must be f64\[3\], as it was traced for, got f64"),
        (lambda f: f({"w": X, "b": 1}, X), InputError, r"argument params\['b'\] must be ~f64\[\]"),
        (lambda f: f({"w": X}, X), TreeError, r"traced loss: the arguments that it was traced for and the arguments"),
        (lambda f: f(PARAMS), TreeError, "must have the same structure"),
        (lambda f: f(PARAMS, "text"), InputError, "argument x of loss: 'text' of type str is not an array"),
    ],
)  # fmt: skip
def test_errors(trace: Callable[..., Any], call: Callable[[Any], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(trace(loss, PARAMS, X))


def test_values_of_other_transformations() -> None:
    with pytest.raises(InputError, match="trace: the function closes over"):
        tj.grad(lambda x: tj.trace(lambda y: x * y)(1.0)(1.0))(2.0)
    number: Any = 3
    with pytest.raises(InputError, match="trace needs a function to transform, got 3"):
        tj.trace(number)


def test_what_shows_it() -> None:
    traced = tj.trace(loss)(PARAMS, X)
    assert repr(traced) == "<traced loss(params['b']: ~f64[], params['w']: f64[3], x: f64[3]), 4 equations>"
    assert str(traced) == str(traced.jaxpr)
    assert "<" in traced._repr_html_()


def test_compiled_records_equal_compiled_records() -> None:
    def f(p: Any, x: Any) -> Any:
        return p["w"] * x

    def g(q: Any, y: Any) -> Any:
        return q["w"] * y

    compiled, plain = tj.jit(f).trace({"w": 1.0}, 2.0), tj.trace(f, {"w": 1.0}, 2.0)
    assert compiled.jaxpr == plain.jaxpr
    assert compiled != plain
    assert compiled == tj.jit(g).trace({"w": 1.0}, 2.0)
    assert plain == tj.trace(g, {"w": 1.0}, 2.0)
    assert hash(plain) == hash(tj.trace(g, {"w": 1.0}, 2.0))


def test_types_of_results_and_other_platforms() -> None:
    f = tj.jit(lambda x, n: {"a": x * 2, "b": n}, static_argnums=1)
    assert f.eval_shape(tj.ShapedArray((3,), "int8"), 2.0) == tj.eval_shape(lambda x: f(x, 2.0), np.ones(3, "int8"))
    traced = tj.jit(tj.numpy.sin).trace(np.float32(1.0))
    assert traced.lower(lowering_platforms=["cpu"]).compile()(np.float32(0.0)) == 0.0
    elsewhere = traced.lower(lowering_platforms=("tpu",))
    assert "stablehlo" in elsewhere.as_text()
    with pytest.raises(InputError, match="was lowered for tpu, and is compiled for"):
        elsewhere.compile()
    with pytest.raises(InputError, match=r"one platform, got lowering_platforms=\('cpu', 'cuda'\)"):
        traced.lower(lowering_platforms=("cpu", "cuda"))
