"""jaxtyping's annotations on our arrays, checked while functions run: concrete, and under every transformation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from beartype import beartype
from jaxtyping import Bool, Complex, Float, Int, Num, Shaped, TypeCheckError, jaxtyped

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import Array, lax

X = tnp.asarray(np.arange(12.0).reshape(3, 4))
W = tnp.asarray(np.arange(4.0))

KINDS: dict[str, tuple[Any, ...]] = {
    "bool": (Bool, Shaped),
    "int8": (Int, Num, Shaped),
    "int64": (Int, Num, Shaped),
    "float16": (Float, Num, Shaped),
    "bfloat16": (Float, Num, Shaped),
    "float32": (Float, Num, Shaped),
    "complex64": (Complex, Num, Shaped),
}


def fits(x: object, annotation: Any) -> bool:  # jaxtyping's own classes, which type checkers don't see
    return isinstance(x, annotation)


@pytest.mark.parametrize("dtype", KINDS)
def test_dtypes_and_shapes(dtype: str) -> None:
    def look(x: Array) -> Array:
        for kind in (Bool, Int, Float, Complex, Num, Shaped):
            assert fits(x, kind[Array, "2 3"]) == (kind in KINDS[dtype])
            assert not fits(x, kind[Array, "2"])
        assert fits(x, Shaped[Array, "..."])
        assert fits(x, Shaped[Array, "n m"])
        assert not fits(x, Shaped[Array, "n n"])
        return x

    array = tnp.zeros((2, 3), dtype)
    look(array)
    tj.jit(look)(array)
    tj.vmap(look)(tnp.zeros((5, 2, 3), dtype))
    assert not fits(np.asarray(array), Shaped[Array, "..."])


@jaxtyped(typechecker=beartype)
def apply(x: Float[Array, "n d"], w: Float[Array, "d"]) -> Float[Array, "n"]:
    return x @ w


@jaxtyped(typechecker=beartype)
def wrong(x: Float[Array, "n d"]) -> Float[Array, "n"]:
    return tnp.sum(x, axis=0)


def total(x: Array, w: Array) -> Array:
    return tnp.sum(apply(x, w))


RUNS: dict[str, Callable[[Array, Array], object]] = {
    "eager": apply,
    "jit": tj.jit(apply),
    "grad": tj.grad(total, argnums=(0, 1)),
    "jit of grad": tj.jit(tj.grad(total)),
    "hessian": tj.hessian(total, argnums=1),
    "vmap": lambda x, w: tj.vmap(apply, in_axes=(0, None))(tnp.stack([x, x]), w),
    "jit of vmap of grad": lambda x, w: tj.jit(tj.vmap(tj.grad(total), in_axes=(0, None)))(tnp.stack([x, x]), w),
    "jvp": lambda x, w: tj.jvp(apply, (x, w), (x, w)),
    "make_jaxpr": tj.make_jaxpr(apply),
    "checkpoint": tj.checkpoint(apply),
    "scan": lambda x, w: lax.scan(lambda c, _: (c, apply(x, c)), w, None, length=2),
    "cond": lambda x, w: lax.cond(True, apply, lambda x, w: x[:, 0], x, w),
}


@pytest.mark.parametrize("name", RUNS)
def test_functions_under_transformations(name: str) -> None:
    RUNS[name](X, W)
    with pytest.raises(TypeCheckError):
        RUNS[name](X, W[:3])
    with pytest.raises(TypeCheckError):
        RUNS[name](X.astype("float32")[:, :2], W)


@pytest.mark.parametrize("transform", [lambda f: f, tj.jit, tj.vmap, tj.make_jaxpr])
def test_results(transform: Callable[[Callable[..., Array]], Callable[..., object]]) -> None:
    with pytest.raises(TypeCheckError):
        transform(wrong)(tnp.stack([X, X]) if transform is tj.vmap else X)


def test_names_of_axes() -> None:
    @jaxtyped(typechecker=beartype)
    def outer(x: Float[Array, "n"], y: Float[Array, "m"]) -> Float[Array, "n m"]:
        return x[:, None] * y

    assert outer(W, X[0]).shape == (4, 4)
    assert tj.eval_shape(outer, W, tj.ShapedArray((7,), "float32")).shape == (4, 7)
