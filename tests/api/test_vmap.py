"""`vmap` against jax: axes as prefixes of trees, named axes, and every nesting with other transformations."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.api.matching import Make, assert_agree, assert_matches
from tests.api.nodes import Layer, Pair
from tinyjax import Array, lax

A = np.arange(6.0).reshape(2, 3) / 5
B = np.arange(24.0).reshape(2, 3, 4) / 7
V = np.array([1.0, -2.0, 0.5])


def _affine(np: ModuleType) -> Any:
    return lambda w, x: np.tanh(w @ x)


def _params(np: ModuleType) -> Any:
    return lambda p, x: {"y": p["w"] * x + p["b"][0], "x": x, "none": p["b"][1]}


def _many(np: ModuleType) -> Any:
    return lambda x: (x * 2.0, {"sum": np.sum(x), "outer": np.outer(x, x), "constant": np.ones(2)})


#: Name: function, arguments, keyword arguments, options of `vmap`.
CASES: dict[str, tuple[Make, tuple[object, ...], dict[str, object], dict[str, Any]]] = {
    "default": (lambda np: lambda x: np.sin(x) * 2.0, (A,), {}, {}),
    "second axis": (lambda np: lambda x: np.sum(x) * x, (A,), {}, {"in_axes": 1}),
    "last axis": (lambda np: lambda x: x * x[0, 0], (B,), {}, {"in_axes": -1}),
    "all axes": (lambda np: lambda x: x - np.max(x, axis=0), (B,), {}, {"in_axes": -2, "out_axes": -1}),
    "one argument": (_affine, (A, B[0]), {}, {"in_axes": (None, 1), "out_axes": 1}),
    "other argument": (_affine, (B, V), {}, {"in_axes": (2, None)}),
    "both arguments": (_affine, (np.swapaxes(B, 1, 2), A), {}, {"in_axes": (0, 0)}),
    "different axes": (lambda np: np.outer, (A, B[0].T), {}, {"in_axes": (1, -1)}),
    "list of axes": (lambda np: lambda x, y: x + y, (A, V), {}, {"in_axes": [1, 0]}),
    "tree of axes": (
        _params,
        ({"w": A, "b": [V, None]}, V[:2]),
        {},
        {"in_axes": ({"w": 1, "b": [0, None]}, None), "out_axes": {"y": 1, "x": None, "none": 0}},
    ),
    "prefix of a tree": (_params, ({"w": A.T, "b": [V, None]}, V), {}, {"in_axes": (0, 0), "out_axes": 0}),
    "prefix with None": (_params, ({"w": V, "b": [1.0, None]}, V), {}, {"in_axes": ({"w": 0, "b": None}, 0)}),
    "nodes": (
        lambda np: lambda layer, pair: layer.weights @ pair.first + layer.bias * pair.second,
        (Layer(A, V[:2]), Pair(B[0].T, 3.0)),
        {},
        {"in_axes": (Layer(None, None), Pair(0, None)), "out_axes": -1},
    ),
    "many results": (_many, (A,), {}, {"out_axes": (1, {"sum": 0, "outer": 2, "constant": 1})}),
    "negative out_axes": (_many, (A,), {}, {"out_axes": -1}),
    "unmapped results": (_many, (A,), {}, {"out_axes": (0, {"sum": 0, "outer": 0, "constant": None})}),
    "nothing mapped": (lambda np: lambda x: x * 2.0, (V,), {}, {"in_axes": None, "axis_size": 2}),
    "no arguments": (lambda np: lambda: np.arange(3), (), {}, {"axis_size": 2, "out_axes": 1}),
    "axis_size too": (lambda np: lambda x: x * 2.0, (A,), {}, {"axis_size": 2}),
    "keywords": (lambda np: lambda x, *, k: x * k, (V,), {"k": V}, {}),
    "keywords only": (lambda np: lambda *, k: k["a"] * 2.0, (), {"k": {"a": V}}, {}),
    "keywords beside None": (lambda np: lambda x, *, k: x * k, (2.0,), {"k": V}, {"in_axes": None}),
    "integers": (lambda np: lambda n, x: n * x, (np.arange(3), 2), {}, {"in_axes": (0, None)}),
    "bools": (lambda np: lambda m, x: np.where(m, x, -x), (np.array([True, False, True]), V), {}, {}),
    "float32": (lambda np: lambda x: x * 2.0, (A.astype(np.float32),), {}, {}),
    "identity": (lambda np: lambda x: x, (B,), {}, {"in_axes": 1, "out_axes": 2}),
    "empty batch": (lambda np: np.sin, (np.zeros((0, 3)),), {}, {}),
    "batch of one": (lambda np: np.sin, (np.zeros((1, 3)),), {}, {}),
}


@pytest.mark.parametrize("name", CASES)
def test_vmap(name: str) -> None:
    make, args, kwargs, options = CASES[name]
    assert_agree("vmap", make, *args, kwargs=kwargs, **options)


@pytest.mark.parametrize("name", ["one argument", "tree of axes", "many results", "keywords", "identity"])
def test_with_jit(name: str) -> None:
    make, args, kwargs, options = CASES[name]
    expected = jax.vmap(make(jnp), **options)(*args, **kwargs)
    assert_matches(tj.jit(tj.vmap(make(tnp), **options))(*args, **kwargs), expected)
    assert_matches(tj.vmap(tj.jit(make(tnp)), **options)(*args, **kwargs), expected)


def test_what_is_not_mapped_is_passed_as_it_is() -> None:
    """Python values stay what they are, so they can be static arguments, functions, anything."""
    seen: list[object] = []

    def f(x: Any, *others: Any, **named: Any) -> Any:
        seen.extend(others)
        return x * named["scale"]

    thing = object()
    mapped: Any = tj.vmap(f, in_axes=(0, None, None, None, None))
    mapped(V, 2, "text", thing, {"array": V}, scale=V)
    assert seen[:3] == [2, "text", thing]
    assert isinstance(seen[3], dict)
    assert isinstance(seen[3]["array"], Array)
    power = tj.jit(lambda x, n: x**n, static_argnums=1)
    assert_matches(tj.vmap(power, in_axes=(0, None))(V, 3), jnp.asarray(V**3))
    assert_matches(tj.vmap(tj.grad(power), in_axes=(0, None))(V, 3), jnp.asarray(3 * V**2))
    assert_matches(tj.vmap(lambda f, x: f(x), in_axes=(None, 0))(tnp.sin, V), jnp.sin(V))


# Nestings.


def test_nested() -> None:
    def make(vmap: Any) -> Any:
        return vmap(vmap(vmap(lambda x, y: x * y, (0, None)), (None, 0), 1), (0, 1), 2)

    ours, theirs = make(tj.vmap), make(jax.vmap)
    assert_matches(ours(A.T, B), theirs(A.T, B))
    assert_matches(tj.jit(ours)(A.T, B), theirs(A.T, B))


def test_closures_over_mapped_values_of_another_level() -> None:
    def make(vmap: Any, np: ModuleType) -> Any:
        def f(x: Any) -> Any:
            return vmap(lambda y: vmap(lambda z: x * y + z * x * V, out_axes=1)(V) * y)(np.sin(x) * V)

        return f

    ours, theirs = make(tj.vmap, tnp), make(jax.vmap, jnp)
    assert_matches(tj.vmap(ours)(V), jax.vmap(theirs)(V))
    assert_matches(tj.jit(tj.vmap(tj.jacfwd(ours)))(V), jax.vmap(jax.jacfwd(theirs))(V))


def test_per_example_gradients() -> None:
    def make(np: ModuleType) -> Any:
        def loss(p: Any, x: Any, y: Any) -> Any:
            return np.sum((np.tanh(p["w"] @ x + p["b"]) - y) ** 2)

        return loss

    params = {"w": A, "b": np.ones(2)}
    xs, ys = B[0].T, np.ones((4, 2))
    ours: Any = tj.vmap(tj.value_and_grad(make(tnp)), in_axes=(None, 0, 0))
    theirs: Any = jax.vmap(jax.value_and_grad(make(jnp)), in_axes=(None, 0, 0))
    assert_matches(ours(params, xs, ys), theirs(params, xs, ys))
    assert_matches(tj.jit(ours)(params, xs, ys), theirs(params, xs, ys))


def test_of_pull_backs_and_of_tangents() -> None:
    _, pull_back = tj.vjp(lambda x: tnp.sin(x) * x, V)
    _, their_pull_back = jax.vjp(lambda x: jnp.sin(x) * x, V)
    assert_matches(tj.vmap(pull_back)(tnp.eye(3)), jax.vmap(their_pull_back)(jnp.eye(3)))
    _, push = tj.linearize(lambda x: tnp.sin(x) * x, V)
    assert_matches(tj.vmap(push, in_axes=1, out_axes=1)(np.eye(3)), jax.vmap(their_pull_back)(jnp.eye(3))[0].T)


@pytest.mark.sweep
def test_differentiates_through() -> None:
    ours: Any = lambda x: tnp.sum(tj.vmap(lambda y: y * x, out_axes=1)(A) ** 2)  # noqa: E731
    theirs: Any = lambda x: jnp.sum(jax.vmap(lambda y: y * x, out_axes=1)(A) ** 2)  # noqa: E731
    assert_matches(tj.grad(ours)(V), jax.grad(theirs)(V))
    assert_matches(tj.hessian(ours)(V), jax.hessian(theirs)(V))
    assert_matches(tj.jvp(ours, (V,), (V,)), jax.jvp(theirs, (V,), (V,)))


def test_float0_passes_through() -> None:
    zeros = np.zeros(3, tj.float0)

    def double(n: Any) -> Any:
        return n * 2

    def ours_jvp(n: Any, t: Any) -> Any:
        return tj.jvp(double, (n,), (t,))

    ours = tj.vmap(ours_jvp, out_axes=(0, 0))
    theirs: Any = jax.vmap(lambda n, t: jax.jvp(double, (n,), (t,)))
    for run in (ours, tj.jit(ours)):
        assert_matches(run(np.arange(3), zeros), theirs(np.arange(3), zeros))

    def to_float(n: Any) -> Any:
        return n * 1.0

    assert tj.vmap(tj.grad(to_float, allow_int=True))(np.arange(3)).shape == (3,)


# Named axes.


def _psum(lax: Any, np: Any) -> Any:
    return lambda x: lax.psum(np.sin(x) * x, "i") * x


def _pmean(lax: Any, np: Any) -> Any:
    return lambda x: x - lax.pmean(x, "i")


def _extrema(lax: Any, np: Any) -> Any:
    return lambda x: lax.pmax(x, "i") - lax.pmin(x, "i") * x


def _index(lax: Any, np: Any) -> Any:
    return lambda x: (lax.axis_index("i"), x * lax.axis_index("i"), lax.axis_size("i"))


def _constants(lax: Any, np: Any) -> Any:
    return lambda x: (lax.psum(1, "i"), lax.psum(2.0, "i"), lax.pmean(3.0, "i"), lax.pmax(4.0, "i"))


def _tree(lax: Any, np: Any) -> Any:
    return lambda x: lax.psum({"a": x, "b": (x * x, 1.0)}, "i")


COLLECTIVES = {f.__name__: f for f in (_psum, _pmean, _extrema, _index, _constants, _tree)}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives(name: str) -> None:
    ours, theirs = COLLECTIVES[name](lax, tnp), COLLECTIVES[name](jax.lax, jnp)
    for axis in (0, -1):
        expected = jax.vmap(theirs, axis_name="i", out_axes=axis)(V)
        assert_matches(tj.vmap(ours, axis_name="i", out_axes=axis)(V), expected)
        assert_matches(tj.jit(tj.vmap(ours, axis_name="i", out_axes=axis))(V), expected)
    assert_matches(tj.vmap(tj.jit(ours), axis_name="i")(V), jax.vmap(theirs, axis_name="i")(V))
    assert_matches(
        tj.vmap(tj.vmap(ours), axis_name="i", in_axes=1)(A), jax.vmap(jax.vmap(theirs), axis_name="i", in_axes=1)(A)
    )
    assert_matches(
        tj.vmap(tj.vmap(ours, axis_name="i"), in_axes=1)(A), jax.vmap(jax.vmap(theirs, axis_name="i"), in_axes=1)(A)
    )


@pytest.mark.parametrize("inside", ["grad", "jvp", "vjp", "linearize", "jit.grad", "grad.jit"])
@pytest.mark.parametrize("name", ["_psum", "_pmean"])
@pytest.mark.sweep
def test_derivatives_of_collectives(name: str, inside: str) -> None:
    """Derivatives inside and outside of the mapped function."""

    def make(tj: Any, lax: Any, np: Any) -> Any:
        f = COLLECTIVES[name](lax, np)
        derivatives = {
            "grad": tj.grad(f),
            "jvp": lambda x: tj.jvp(f, (x,), (x,)),
            "vjp": lambda x: tj.vjp(f, x)[1](x),
            "linearize": lambda x: tj.linearize(f, x)[1](x),
            "jit.grad": tj.jit(tj.grad(f)),
            "grad.jit": tj.grad(tj.jit(f)),
        }
        return tj.vmap(derivatives[inside], axis_name="i")

    ours, theirs = make(tj, lax, tnp), make(jax, jax.lax, jnp)
    assert_matches(ours(V), theirs(V))
    assert_matches(tj.jit(ours)(V), theirs(V))
    assert_matches(tj.jacrev(ours)(V), jax.jacrev(theirs)(V))


def test_derivatives_that_are_the_same_for_every_element() -> None:
    """What isn't mapped still needs the axis: its transposed programs are run within it."""

    def make(tj: Any, lax: Any) -> Any:
        def f(x: Any) -> Any:
            _, pull_back = tj.vjp(lambda y: lax.psum(y, "i"), 1.0)
            _, push = tj.linearize(lambda y: lax.psum(y, "i"), 1.0)
            return pull_back(1.0)[0] + 10.0 * push(1.0) + x

        return tj.vmap(f, axis_name="i")

    assert_matches(make(tj, lax)(V), make(jax, jax.lax)(V))


def test_names_of_several_axes() -> None:
    def make(lax: Any) -> Any:
        return lambda x: (
            lax.psum(x, "i"),
            lax.psum(x, "j"),
            lax.psum(x, ("i", "j")),
            lax.axis_index("i") + 10 * lax.axis_index("j"),
            lax.psum(lax.axis_index("i"), "j"),
        )

    ours: Any = tj.vmap(tj.vmap(make(lax), axis_name="i"), axis_name="j")
    theirs: Any = jax.vmap(jax.vmap(make(jax.lax), axis_name="i"), axis_name="j")
    assert_matches(ours(A), theirs(A))
    assert_matches(tj.jit(ours)(A), theirs(A))


def test_inner_name_hides_the_outer_one() -> None:
    def make(vmap: Any, lax: Any) -> Any:
        inner = vmap(lambda x, y: lax.psum(x, "i") + y, in_axes=(0, None), axis_name="i")
        return vmap(lambda row: inner(row, lax.psum(row[0], "i")), axis_name="i")

    assert_matches(make(tj.vmap, lax)(A), make(jax.vmap, jax.lax)(A))


def test_jitted_function_that_names_an_axis_is_traced_for_each_size() -> None:
    @tj.jit
    def mean(x: Array) -> Array:
        return lax.psum(x, "i") / lax.psum(1, "i")

    mapped: Any = tj.vmap(mean, axis_name="i")
    np.testing.assert_allclose(mapped(np.arange(2.0)), [0.5, 0.5])
    np.testing.assert_allclose(mapped(np.arange(4.0)), [1.5] * 4)
    with pytest.raises(NameError, match="unbound axis name: 'i'"):
        mean(tnp.asarray(1.0))


def test_what_is_not_mapped_is_computed_once() -> None:
    closed = tj.make_jaxpr(tj.vmap(lambda x: x * tnp.sin(tnp.asarray(V))))(V)
    (sine,) = [eqn for eqn in closed.eqns if eqn.primitive.name == "sin"]
    assert sine.outvars[0].aval.shape == (3,)
