"""`grad`, `value_and_grad`, `jvp`, `vjp`, `linearize`, `linear_transpose` against jax."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.api.matching import Make, assert_agree, assert_matches
from tests.api.nodes import Layer, Pair, Params, Scaled
from tinyjax import Array
from tinyjax.contexts import recording
from tinyjax.errors import InputError

X = np.array([0.3, -1.2, 2.0])
Y = np.array([1.5, 0.7, -0.4])
Z = np.array([0.3 + 1.0j, -1.2 - 0.5j])
any_grad: Callable[..., Any] = tj.grad  # with options that only the test knows


def _sum_of_products(np: ModuleType) -> Any:
    return lambda x, y: np.sum(np.sin(x) * y + x * x)


def _keyword(np: ModuleType) -> Any:
    return lambda x, *, scale=2.0, shift: np.sum(np.exp(x) * scale + shift)


def _nodes(np: ModuleType) -> Any:
    def f(layer: Any, pair: Any, scaled: Any, params: Any, nothing: None) -> Any:
        hidden = np.tanh(layer.weights @ X + layer.bias)
        return np.sum(hidden * pair.first) + pair.second * scaled.value * scaled.factor + np.sum(params["b"][0])

    return f


def _integers_alongside(np: ModuleType) -> Any:
    return lambda x, n, flag: np.sum(np.where(flag, x**n, x) * n)


def _mixed_dtypes(np: ModuleType) -> Any:
    def f(a: Any, b: Any, c: Any, d: Any) -> Any:
        return np.sum(a * b + np.asarray(c, np.float32) * a) * d

    return f


#: Name: function, arguments, keyword arguments, options of `grad`.
GRADIENTS: dict[str, tuple[Make, tuple[object, ...], dict[str, object], dict[str, Any]]] = {
    "weak scalar": (lambda np: lambda x: np.sin(x) * x**3, (0.7,), {}, {}),
    "array": (lambda np: lambda x: np.sum(np.sin(x) / (x * x + 1)), (X,), {}, {}),
    "first of two": (_sum_of_products, (X, Y), {}, {}),
    "second of two": (_sum_of_products, (X, Y), {}, {"argnums": 1}),
    "last by a negative number": (_sum_of_products, (X, Y), {}, {"argnums": -1}),
    "both": (_sum_of_products, (X, Y), {}, {"argnums": (0, 1)}),
    "both, swapped": (_sum_of_products, (X, Y), {}, {"argnums": (1, 0)}),
    "a tuple of one": (_sum_of_products, (X, Y), {}, {"argnums": (1,)}),
    "a list": (_sum_of_products, (X, Y), {}, {"argnums": [-2, -1]}),
    "broadcast scalar": (_sum_of_products, (0.5, Y), {}, {"argnums": (0, 1)}),
    "keywords": (_keyword, (X,), {"shift": 1.0}, {}),
    "keyword arrays": (_keyword, (X,), {"shift": Y, "scale": Y}, {}),
    "dict": (lambda np: lambda p: np.sum(p["w"] * p["b"]), ({"w": X, "b": Y},), {}, {}),
    "list and None": (lambda np: lambda p: np.sum(p[0] * p[1][0]), ([X, (Y, None)],), {}, {}),
    "nodes": (
        _nodes,
        (
            Layer(np.ones((2, 3)), np.zeros(2)),
            Pair(np.array([1.0, 2.0]), 3.0),
            Scaled(2.0, 10.0),
            Params(b=[X, None], a=1.0),
            None,
        ),
        {},
        {"argnums": (0, 1, 2, 3)},
    ),
    "None as the argument": (lambda np: lambda x, y: y * 2.0, (None, 1.0), {}, {}),
    "constant": (lambda np: lambda x: 3.0, (X,), {}, {}),
    "constant of another argument": (lambda np: lambda x, y: np.sum(y), (X, Y), {}, {}),
    "partly unused": (lambda np: lambda p: np.sum(p["used"]), ({"used": X, "unused": Y, "int": 1.0},), {}, {}),
    "the argument itself": (lambda np: lambda x: x, (0.7,), {}, {}),
    "integers alongside": (_integers_alongside, (X, 3, True), {}, {}),
    "integer arrays alongside": (_integers_alongside, (X, np.array([1, 2, 3]), np.array([True, False, True])), {}, {}),
    "allow_int": (_integers_alongside, (X, 3, True), {}, {"argnums": (0, 1, 2), "allow_int": True}),
    "allow_int in a tree": (
        lambda np: lambda p: np.sum(p["x"] * p["n"]),
        ({"x": X, "n": np.arange(3)},),
        {},
        {"allow_int": True},
    ),
    "float32": (lambda np: lambda x: np.sum(np.tanh(x) * 2.0), (X.astype(np.float32),), {}, {}),
    "float16": (lambda np: lambda x: np.sum(x * x), (X.astype(np.float16),), {}, {}),
    "bfloat16": (lambda np: lambda x: np.sum(x * x), (X.astype(ml_dtypes.bfloat16),), {}, {}),
    "mixed dtypes": (
        _mixed_dtypes,
        (X.astype(np.float32), Y, X.astype(ml_dtypes.bfloat16), 2.0),
        {},
        {"argnums": (0, 1, 2, 3)},
    ),
    "python float with float32": (
        lambda np: lambda x, w: np.sum(x * w),
        (X.astype(np.float32), 2.0),
        {},
        {"argnums": (0, 1)},
    ),
    "scalar of NumPy": (lambda np: lambda x: x * x, (np.float32(3.0),), {}, {}),
    "conversion to integers": (lambda np: lambda x: np.sum(x.astype(np.int32) * x), (X,), {}, {}),
    "comparison": (lambda np: lambda x: np.sum(np.where(x > 0, x * x, -x)), (X,), {}, {}),
    "complex argument": (lambda np: lambda z: np.sum(np.abs(z) ** 2), (Z,), {}, {}),
    "complex argument, real part": (lambda np: lambda z: np.sum(np.real(z * z)), (Z,), {}, {}),
    "complex argument, imaginary part": (lambda np: lambda z: np.sum(np.imag(z * z * z)), (Z,), {}, {}),
    "complex and real arguments": (
        lambda np: lambda z, x: np.sum(np.real(z * x) + np.imag(np.conj(z) * 2.0)),
        (Z, X[:2]),
        {},
        {"argnums": (0, 1)},
    ),
    "complex within": (lambda np: lambda x: np.sum(np.abs(np.exp(1j * x) + x)), (X,), {}, {}),
    "holomorphic": (lambda np: lambda z: np.sum(np.sin(z) * z), (Z,), {}, {"holomorphic": True}),
    "holomorphic complex64": (
        lambda np: lambda z: np.sum(z * z),
        (Z.astype(np.complex64),),
        {},
        {"holomorphic": True},
    ),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_grad(name: str) -> None:
    make, args, kwargs, options = GRADIENTS[name]
    assert_agree("value_and_grad", make, *args, kwargs=kwargs, **options)
    ours = any_grad(make(tnp), **options)(*args, **kwargs)
    assert_matches(ours, jax.grad(make(jnp), **options)(*args, **kwargs))


@pytest.mark.parametrize(
    "name", ["array", "both", "nodes", "allow_int", "mixed dtypes", "complex argument", "keywords"]
)
def test_jit_of_grad(name: str) -> None:
    make, args, kwargs, options = GRADIENTS[name]
    expected = jax.grad(make(jnp), **options)(*args, **kwargs)
    transformed = any_grad(make(tnp), **options)
    assert_matches(tj.jit(transformed)(*args, **kwargs), expected)
    inner = any_grad(tj.jit(make(tnp)), **options)
    assert_matches(inner(*args, **kwargs), expected)


# Auxiliary data.


def test_aux_of_every_kind() -> None:
    def f(x: Array) -> tuple[Array, dict[str, Any]]:
        return x * x, {"traced": x * 2.0, "outside": X, "text": "ok", "none": None, "number": 3}

    for run in (
        lambda: tj.grad(f, has_aux=True)(tnp.asarray(3.0)),
        lambda: tj.value_and_grad(f, has_aux=True)(tnp.asarray(3.0)),
    ):
        result = run()
        aux = result[1] if not isinstance(result[0], tuple) else result[0][1]
        assert float(aux["traced"]) == 6.0
        assert aux["outside"] is X
        assert (aux["text"], aux["none"], aux["number"]) == ("ok", None, 3)
    primal, tangent, aux = tj.jvp(f, (3.0,), (1.0,), has_aux=True)
    assert (float(primal), float(tangent), float(aux["traced"])) == (9.0, 6.0, 6.0)
    primal, push, aux = tj.linearize(f, 3.0, has_aux=True)
    assert (float(primal), float(push(1.0)), float(aux["traced"])) == (9.0, 6.0, 6.0)
    primal, pull_back, aux = tj.vjp(f, 3.0, has_aux=True)
    assert (float(primal), float(pull_back(tnp.asarray(1.0))[0]), float(aux["traced"])) == (9.0, 6.0, 6.0)


def test_aux_of_nested_derivatives_is_traced_further() -> None:
    def f(x: Any) -> Any:
        gradient, aux = tj.grad(lambda y: (y**3, y * y), has_aux=True)(x)
        return gradient + aux

    assert float(tj.grad(f)(2.0)) == 16.0
    assert float(tj.jit(tj.grad(f))(2.0)) == 16.0
    assert_matches(tj.vmap(f)(tnp.asarray(X)), jnp.asarray(4 * X * X))


# Forward mode.

JVPS: dict[str, tuple[Make, tuple[object, ...], tuple[object, ...]]] = {
    "scalar": (lambda np: lambda x: np.sin(x) * x, (0.7,), (2.0,)),
    "trees": (
        lambda np: lambda p, q: {"out": p["a"] * q[0], "same": p["a"], "const": 3.0},
        ({"a": X}, [Y]),
        ({"a": Y}, [X]),
    ),
    "integers": (lambda np: lambda x, n: (x * n, n + 1), (X, 3), (Y, np.zeros((), tj.float0))),
    "integer arrays": (lambda np: lambda n: n * n, (np.arange(3),), (np.zeros(3, tj.float0),)),
    "float32": (lambda np: np.exp, (X.astype(np.float32),), (Y.astype(np.float32),)),
    "complex": (lambda np: lambda z: (z * z, np.abs(z), np.real(z)), (Z,), (Z[::-1],)),
    "integer results": (lambda np: lambda x: (x > 0, np.floor(x), x.astype(np.int32)), (X,), (Y,)),
    "None": (lambda np: lambda x, n: (n, x), (X, None), (Y, None)),
    "layer": (lambda np: lambda layer: layer, (Layer(X, None),), (Layer(Y, None),)),
}


@pytest.mark.parametrize("name", JVPS)
def test_jvp(name: str) -> None:
    make, primals, tangents = JVPS[name]
    expected = jax.jvp(make(jnp), primals, tangents)
    assert_matches(tj.jvp(make(tnp), primals, tangents), expected)
    assert_matches(tj.jvp(tj.jit(make(tnp)), primals, tangents), expected)
    assert_matches(tj.jit(lambda p, t: tj.jvp(make(tnp), p, t))(primals, tangents), expected)


@pytest.mark.parametrize("name", ["scalar", "trees", "float32", "complex", "integers"])
def test_linearize(name: str) -> None:
    make, primals, tangents = JVPS[name]
    value, derivative = tj.linearize(make(tnp), *primals)
    assert_matches((value, derivative(*tangents)), jax.jvp(make(jnp), primals, tangents))
    assert_matches(tj.jit(derivative)(*tangents), jax.jvp(make(jnp), primals, tangents)[1])


def test_weak_tangents_take_the_dtype_of_the_primal() -> None:
    primal, tangent = tj.jvp(lambda x: x * x, (np.float32(3.0),), (1.0,))
    assert (str(primal.dtype), str(tangent.dtype)) == ("float32", "float32")
    assert str(tj.vjp(lambda x: x * x, np.float32(3.0))[1](1.0)[0].dtype) == "float32"


# Reverse mode.


def test_vjp_of_trees() -> None:
    def make(np: ModuleType) -> Any:
        return lambda p, x: {"y": np.tanh(p["w"] @ x + p["b"]), "x": x, "unused": None}

    params = {"w": np.arange(6.0).reshape(2, 3) / 10, "b": np.ones(2)}
    cotangent = {"y": np.array([1.0, -2.0]), "x": Y, "unused": None}
    value, pull_back = tj.vjp(make(tnp), params, X)
    expected, their_pull_back = jax.vjp(make(jnp), params, X)
    assert_matches(value, expected)
    assert_matches(pull_back(cotangent), their_pull_back(jax.tree.map(jnp.asarray, cotangent)))
    assert_matches(pull_back(cotangent), their_pull_back(jax.tree.map(jnp.asarray, cotangent)))


def test_vjp_of_integers_and_of_constants() -> None:
    def make(np: ModuleType) -> Any:
        return lambda x, n: (x * n, n * 2, 5.0)

    zero = np.zeros((), tj.float0)
    expected = jax.vjp(make(jnp), 2.0, 3)[1]((1.0, zero, 1.0))
    for anything in (zero, 7, np.float32(2.0), np.True_):  # of the right shape
        assert_matches(tj.vjp(make(tnp), 2.0, 3)[1]((1.0, anything, 1.0)), expected)
        assert_matches(tj.jit(lambda ct: tj.vjp(make(tnp), 2.0, 3)[1]((1.0, ct, 1.0)))(anything), expected)
    with pytest.raises(InputError, match=r"result\[1\] of <lambda> must have type float0\[\]"):
        tj.vjp(make(tnp), 2.0, 3)[1]((1.0, np.zeros(2), 1.0))


def test_zero_cotangents_stay_symbolic() -> None:
    """What no cotangent reaches costs nothing."""

    def f(p: dict[str, Any]) -> Array:
        return tnp.sum(p["used"])

    closed = tj.make_jaxpr(tj.grad(f))({"used": X, "unused": Y})
    assert {eqn.primitive.name for eqn in closed.eqns} <= {"reduce_sum", "broadcast_in_dim"}


def test_pull_back_is_linear_and_reusable() -> None:
    _, pull_back = tj.vjp(lambda x: tnp.sin(x) * x, tnp.asarray(X))
    one, two = pull_back(tnp.asarray(X))[0], pull_back(tnp.asarray(Y))[0]
    np.testing.assert_allclose(pull_back(tnp.asarray(2 * X + Y))[0], 2 * one + two)


def test_later_writes_to_the_argument_change_nothing() -> None:
    x = X.copy()
    value, pull_back = tj.vjp(lambda x: x * x, x)
    _, push = tj.linearize(lambda x: x * x, x)
    x[:] = 100.0
    np.testing.assert_array_equal(value, X * X)
    np.testing.assert_array_equal(pull_back(np.ones(3))[0], 2 * X)
    np.testing.assert_array_equal(push(np.ones(3)), 2 * X)
    y = Y.copy()
    (kept,) = tj.vjp(lambda x: x, X)[1](y)
    y[:] = 100.0
    np.testing.assert_array_equal(kept, Y)


# Derivatives as functions, transformed in turn.


def _outer_jit(f: Any) -> Any:
    return tj.jit(f)


def _outer_jvp(f: Any) -> Any:
    return lambda x: tj.jvp(f, (x,), (1.0,))[1]


def _outer_vmap(f: Any) -> Any:
    return lambda x: tnp.sum(tj.vmap(f)(x * tnp.arange(1.0, 3.0)))


def _outer_linearize(f: Any) -> Any:
    return lambda x: tj.linearize(f, x)[1](1.0)


def _outer_vjp(f: Any) -> Any:
    return lambda x: tj.vjp(f, x)[1](1.0)[0]


OUTER = {"jit": _outer_jit, "jvp": _outer_jvp, "vmap": _outer_vmap, "linearize": _outer_linearize, "vjp": _outer_vjp}


def _cube(x: Any) -> Any:
    return x**3


def test_pull_back_under_other_transformations() -> None:
    x = tnp.asarray(2.0)
    _, pull_back = tj.vjp(_cube, x)
    _, push = tj.linearize(_cube, x)
    functions: list[Callable[[Any], Any]] = [lambda t: pull_back(t)[0], push]
    for linear in functions:
        assert float(linear(1.0)) == 12.0
        assert float(tj.jit(linear)(1.0)) == 12.0
        assert float(tj.grad(linear)(1.0)) == 12.0
        assert float(tj.jvp(linear, (1.0,), (2.0,))[1]) == 24.0
        np.testing.assert_array_equal(tj.vmap(linear)(np.arange(3.0)), 12 * np.arange(3.0))
        np.testing.assert_array_equal(tj.jit(tj.vmap(tj.grad(linear)))(np.arange(3.0)), [12.0] * 3)
        assert float(tj.linear_transpose(linear, 1.0)(1.0)[0]) == 12.0


def test_second_order_through_pull_back() -> None:
    def first(x: Any) -> Any:
        return tj.vjp(_cube, x)[1](1.0)[0]

    def pushed(x: Any) -> Any:
        return tj.linearize(_cube, x)[1](1.0)

    for f in (first, pushed):
        assert float(f(2.0)) == 12.0
        transformed = [transformation(f) for name, transformation in OUTER.items() if name not in ("jit", "vmap")]
        for second in (tj.grad(f), tj.jit(tj.grad(f)), tj.grad(tj.jit(f)), *transformed):
            assert float(second(2.0)) == 12.0
            assert float(tj.grad(second)(2.0)) == 6.0
        np.testing.assert_array_equal(tj.vmap(tj.grad(f))(np.arange(3.0)), 6 * np.arange(3.0))


THEIRS = {
    "jit": jax.jit,
    "jvp": lambda f: lambda x: jax.jvp(f, (x,), (1.0,))[1],
    "vmap": lambda f: lambda x: jnp.sum(jax.vmap(f)(x * jnp.arange(1.0, 3.0))),
    "linearize": lambda f: lambda x: jax.linearize(f, x)[1](1.0),
    "vjp": lambda f: lambda x: jax.vjp(f, x)[1](1.0)[0],
}


@pytest.mark.parametrize("inner", OUTER)
@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.sweep
def test_closures_over_outer_tracers(outer: str, inner: str) -> None:
    """The inner function reads values of both transformations around it, and of none."""

    def make(np: ModuleType, table: dict[str, Any]) -> Any:
        def f(x: Any) -> Any:
            outside = np.sin(x)

            def g(y: Any) -> Any:
                between = outside * y

                def h(z: Any) -> Any:
                    return between * z * z * x + outside * y + np.cos(0.3)

                return table[inner](h)(y * 2.0) * between

            return table[outer](g)(x * x)

        return f

    ours, theirs = make(tnp, OUTER), make(jnp, THEIRS)
    oracle = jax.jit(lambda x, xs: [theirs(x), jax.grad(theirs)(x), jax.vmap(jax.grad(theirs))(xs)])  # compiled once
    expected = oracle(0.7, X)
    found = [ours(0.7), tj.grad(ours)(0.7), tj.vmap(tj.grad(ours))(tnp.asarray(X))]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    if "jit" not in (outer, inner):
        np.testing.assert_allclose(tj.jit(tj.grad(ours))(0.7), expected[1], rtol=1e-9)


def test_perturbations_are_not_confused() -> None:
    assert float(tj.grad(lambda x: x * tj.grad(lambda y: x + y)(2.0))(1.0)) == 1.0
    assert float(tj.jvp(lambda x: x * tj.jvp(lambda y: x + y, (2.0,), (1.0,))[1], (1.0,), (1.0,))[1]) == 1.0
    assert float(tj.grad(lambda x: tj.jvp(lambda y: x * y, (x,), (1.0,))[1])(3.0)) == 1.0
    assert float(tj.jvp(lambda x: tj.grad(lambda y: x * y * y)(x), (3.0,), (1.0,))[1]) == 12.0


# Transposition.


def test_linear_transpose() -> None:
    def make(np: ModuleType) -> Any:
        return lambda p, x: [2.0 * p["a"] - x, np.sum(x) + p["a"][0]]

    primals = ({"a": X}, Y)
    cotangents = [np.array([1.0, 2.0, 3.0]), 4.0]
    ours = tj.linear_transpose(make(tnp), *primals)(cotangents)
    assert_matches(ours, jax.linear_transpose(make(jnp), *primals)(cotangents))
    abstract = tj.tree.map(lambda x: tj.ShapedArray(x.shape, x.dtype), primals)
    assert_matches(
        tj.linear_transpose(make(tnp), *abstract)(cotangents), jax.linear_transpose(make(jnp), *primals)(cotangents)
    )


def test_linear_transpose_closes_over_tracers() -> None:
    def f(x: Any) -> Any:
        return tj.linear_transpose(lambda t: tnp.sin(x) * t, 1.0)(2.0)[0]

    np.testing.assert_allclose(f(0.3), 2 * np.sin(0.3))
    np.testing.assert_allclose(tj.grad(f)(0.3), 2 * np.cos(0.3))
    np.testing.assert_allclose(tj.vmap(f)(tnp.asarray(X)), 2 * np.sin(X))
    np.testing.assert_allclose(tj.jit(tj.grad(f))(0.3), 2 * np.cos(0.3))


def test_transposing_twice_is_the_identity() -> None:
    def f(x: Any) -> Any:
        return tnp.outer(x, Y)[:, 1:] * 2.0

    once = tj.linear_transpose(f, X)
    twice = tj.linear_transpose(lambda ct: once(ct)[0], f(X))
    np.testing.assert_allclose(twice(X)[0], f(X))


def test_functions_run_once() -> None:
    calls: list[object] = []

    def f(x: Any) -> Any:
        calls.append(x)
        return tnp.sum(x * x)

    def identity(x: Any) -> Any:
        calls.append(x)
        return x

    for run in (
        lambda: tj.grad(f)(X),
        lambda: tj.value_and_grad(f)(X),
        lambda: tj.jvp(f, (X,), (X,)),
        lambda: tj.linearize(f, X)[1](X),
        lambda: tj.vjp(f, X)[1](1.0),
        lambda: tj.linear_transpose(identity, X)(X),
    ):
        calls.clear()
        run()
        assert len(calls) == 1


def test_what_is_run_backwards_is_not_numbered_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a linear program was numbered")

    monkeypatch.setattr(recording, "renumber", refuse)
    gradient = tj.make_jaxpr(tj.grad(lambda x: tnp.sum(tnp.where(x > 0.0, tnp.sin(x) * x, x))))(X)
    assert [eqn.primitive.name for eqn in gradient.eqns].count("cos") == 1
    with pytest.raises(AssertionError, match="numbered"):
        tj.vjp(lambda x: tnp.sin(x) * x, 0.5)
