"""`jacfwd`, `jacrev`, `hessian` against jax."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.api.matching import Make, assert_agree, assert_matches
from tests.api.nodes import Pair
from tinyjax.errors import InputError

X = np.array([0.3, -1.2, 2.0])
W = np.arange(6.0).reshape(2, 3) / 5
any_jacobian: dict[str, Callable[..., Any]] = {"jacfwd": tj.jacfwd, "jacrev": tj.jacrev, "hessian": tj.hessian}


def _affine(np: ModuleType) -> Any:
    return lambda w, x: np.tanh(w @ x)


def _trees(np: ModuleType) -> Any:
    return lambda p, y: {"a": np.sin(p["x"]) * y, "b": [np.outer(p["x"], p["x"]), p["s"] * y], "none": None}


CASES: dict[str, tuple[Make, tuple[object, ...], dict[str, object], dict[str, Any]]] = {
    "scalar": (lambda np: lambda x: np.sin(x) * x, (0.7,), {}, {}),
    "vector": (lambda np: lambda x: np.sin(x) * x[0], (X,), {}, {}),
    "matrix": (_affine, (W, X), {}, {}),
    "second": (_affine, (W, X), {}, {"argnums": 1}),
    "both": (_affine, (W, X), {}, {"argnums": (0, 1)}),
    "last": (_affine, (W, X), {}, {"argnums": -1}),
    "trees": (_trees, ({"x": X, "s": 2.0}, 3.0), {}, {"argnums": (0, 1)}),
    "namedtuple": (lambda np: lambda p: Pair(p.first * p.second, p.first), (Pair(X, 2.0),), {}, {}),
    "aux": (lambda np: lambda x: (x * x, {"aux": np.sin(x)}), (X,), {}, {"has_aux": True}),
    "keywords": (lambda np: lambda x, *, k: x * k, (X,), {"k": 3.0}, {}),
    "constant": (lambda np: lambda x: np.ones(2), (X,), {}, {}),
    "float32": (lambda np: lambda x: x * x, (X.astype(np.float32),), {}, {}),
    "empty": (lambda np: lambda x: np.sum(x) * np.ones(2), (np.zeros(0),), {}, {}),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("transformation", ["jacfwd", "jacrev"])
def test_jacobians(transformation: str, name: str) -> None:
    make, args, kwargs, options = CASES[name]
    assert_agree(transformation, make, *args, kwargs=kwargs, **options)


@pytest.mark.parametrize("name", ["scalar", "vector", "both", "trees", "aux", "namedtuple", "float32"])
def test_hessian(name: str) -> None:
    make, args, kwargs, options = CASES[name]
    assert_agree("hessian", make, *args, kwargs=kwargs, **options)


HOLOMORPHIC: Make = lambda np: lambda z: np.sin(z) * z  # noqa: E731


@pytest.mark.parametrize("transformation", ["jacfwd", "jacrev", "hessian"])
def test_holomorphic(transformation: str) -> None:
    assert_agree(transformation, HOLOMORPHIC, np.array([0.3 + 1.0j, -1.0 - 0.5j]), holomorphic=True)


def test_complex_results_of_real_arguments() -> None:
    assert_agree("jacfwd", lambda np: lambda x: np.exp(1j * x), X)


def test_complex_arguments_of_real_results() -> None:
    assert_agree("jacrev", lambda np: lambda z: np.abs(z) ** 2, np.array([0.3 + 1.0j, -1.0 - 0.5j]))


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint16"])
def test_integers(dtype: str) -> None:
    """Their derivatives, of results and by arguments, are zeros of their own dtype."""
    n = np.arange(3).astype(dtype)
    assert_agree("jacrev", lambda np: lambda x, n: (x * n, x[0] * n[1:]), X, n, argnums=(0, 1), allow_int=True)
    assert_agree("jacrev", lambda np: lambda d: d["x"] * d["n"], {"x": X, "n": n[1]}, allow_int=True)
    assert_agree("jacfwd", lambda np: lambda x: {"x": x * x, "n": x.astype(dtype)}, X)
    assert_agree("jacfwd", lambda np: lambda d: (d["x"][:2] * d["s"]).astype(dtype), {"x": X, "s": 2.0})


def test_booleans() -> None:
    (found,) = tj.jacfwd(lambda x: [x[:2] > 0.0])(X)
    assert (found.shape, found.dtype, found.any()) == ((2, 3), bool, False)


def test_under_other_transformations() -> None:
    def f(x: Any) -> Any:
        return tnp.sin(x) * x[0]

    def g(x: Any) -> Any:
        return jnp.sin(x) * x[0]

    batch = np.stack([X, 2 * X])
    for name in ("jacfwd", "jacrev"):
        ours, theirs = any_jacobian[name](f), getattr(jax, name)(g)
        assert_matches(tj.jit(ours)(X), jax.jit(theirs)(X))
        assert_matches(tj.vmap(ours)(batch), jax.jit(jax.vmap(theirs))(batch))
        assert_matches(
            tj.grad(lambda x, ours=ours: tnp.sum(ours(x) ** 2))(X),
            jax.jit(jax.grad(lambda x, theirs=theirs: jnp.sum(theirs(x) ** 2)))(X),
        )
    assert_matches(tj.jacrev(tj.jacfwd(tj.jit(f)))(X), jax.jit(jax.jacrev(jax.jacfwd(g)))(X))


@pytest.mark.parametrize("transformation", ["jacfwd", "jacrev"])
def test_errors(transformation: str) -> None:
    jacobian = any_jacobian[transformation]
    with pytest.raises(InputError, match=rf"{transformation} of .*test_jacobians.py:\d+\) needs .*; n is i64\[3\]"):
        jacobian(lambda n: n * 1.0)(np.arange(3))
    if transformation == "jacrev":
        with pytest.raises(InputError, match=r"needs floating-point results; it returned i32\[3\]"):
            jacobian(lambda x: x.astype(np.int32))(X)
    with pytest.raises(InputError, match=r"argnums \(0, -1\) names an argument twice"):
        jacobian(lambda x: x, argnums=(0, -1))(X)
    with pytest.raises(InputError, match=r"argnums 1 is out of range: the call has 1 positional arguments"):
        jacobian(lambda x: x, argnums=1)(X)
    with pytest.raises(InputError, match="holomorphic=True needs complex arguments; x is"):
        jacobian(lambda x: x, holomorphic=True)(X)
