"""Where JAX refuses arguments, so do we, with an error of the same built-in class: what `except ValueError` caught it
still catches."""

import importlib
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
from tinyjax import errors
from tinyjax.errors import TinyjaxError

BUILT_IN = (IndexError, NotImplementedError, TypeError, ValueError, OverflowError)

#: Calls that JAX refuses, of functions of these two modules: `jax` and `jax.numpy`, or ours.
CALLS: list[Callable[[Any, Any], object]] = [
    lambda j, m: m.array(None),
    lambda j, m: m.array([0.0, None]),
    lambda j, m: m.asarray(np.ma.masked_array([1, 2], [True, False])),
    lambda j, m: m.hypot(m.ones(2, "complex64"), 1),
    lambda j, m: m.clip(m.ones(2, "complex64")),
    lambda j, m: m.clip(m.ones(2), 1j),
    lambda j, m: m.arange(1j, 5),
    lambda j, m: m.sum(m.ones(3), where=m.array([1, 0, 1])),
    lambda j, m: m.any(m.ones(3), where=m.array([1, 0, 1])),
    lambda j, m: m.max(m.ones(3), where=m.array([1, 0, 1]), initial=0),
    lambda j, m: m.mean(m.ones(3), where=m.array([1, 0, 1])),
    lambda j, m: m.sum(m.ones((2, 2)), axis=(0, 0)),
    lambda j, m: m.var(m.ones(2, complex), dtype="float32"),
    lambda j, m: m.std(m.ones(2, complex), dtype="float32"),
    lambda j, m: m.std(m.ones(2), dtype="int32"),
    lambda j, m: m.nanvar(m.ones(2, complex), dtype="float32"),
    lambda j, m: m.sum(m.ones((2, 2)), initial=m.ones((2, 2))),
    lambda j, m: m.cov(m.ones((2, 2)), dtype="int32"),
    lambda j, m: m.cumulative_sum(m.ones((2, 2))),
    lambda j, m: m.interp(m.ones(2), m.ones(2), m.ones(3)),
    lambda j, m: m.r_["directive", m.ones(2)],
    lambda j, m: m.ravel_multi_index((m.array([5]), m.array([0])), (2, 3)),
    lambda j, m: j.jit(lambda x: m.ravel_multi_index((x, x), (2, 3)))(m.array([1])),
    lambda j, m: m.choose(5, [1, 2]),
    lambda j, m: m.take(m.ones(3), 1.5),
    lambda j, m: m.take(m.ones(3), 1, mode="unknown"),
    lambda j, m: m.take_along_axis(m.ones((2, 2)), m.ones((2, 1)), 1),
    lambda j, m: m.take_along_axis(m.ones((2, 2)), m.ones(2, int), 1),
    lambda j, m: m.put_along_axis(m.ones((2, 2)), m.ones((2, 1), int), 1.0, 1),
    lambda j, m: m.put(m.ones(2), 0, 1.0),
    lambda j, m: m.quantile(m.ones(2, complex), 0.5),
    lambda j, m: m.gcd(m.ones(2), 1),
    lambda j, m: m.lcm(m.ones(2), 1),
    lambda j, m: m.ldexp(m.ones(2), 1.5),
    lambda j, m: m.bincount(m.ones(2)),
    lambda j, m: m.concatenate([]),
    lambda j, m: m.stack([]),
    lambda j, m: m.select([], []),
    lambda j, m: m.reshape(m.ones(4), (3,)),
    lambda j, m: m.squeeze(m.ones((2, 2)), 0),
    lambda j, m: m.expand_dims(m.ones(2), 5),
    lambda j, m: m.argmax(m.ones(0)),
    lambda j, m: m.max(m.ones(0)),
    lambda j, m: m.linspace(0, 1, -1),
    lambda j, m: m.zeros(1.5),
    lambda j, m: m.zeros((2,), "unknown"),
    lambda j, m: m.array([[1, 2], [3]]),
    lambda j, m: m.pad(m.ones(2), -1),
    lambda j, m: m.pad(m.ones(2), 1, mode="unknown"),
    lambda j, m: m.linalg.pinv(m.eye(2), rtol=1.0, rcond=1.0),
    lambda j, m: m.linalg.matrix_rank(m.eye(2), rtol=1.0, tol=1.0),
    lambda j, m: m.linalg.inv(m.ones((2, 3))),
    lambda j, m: m.linalg.norm(m.ones((2, 3)), "unknown"),
    lambda j, m: m.fft.fft(m.ones(2), n=0),
    lambda j, m: m.fft.fft(m.ones(2), norm="unknown"),
    lambda j, m: m.fft.rfft(m.ones(2, complex)),
    lambda j, m: m.matmul(1, m.ones(2)),
    lambda j, m: m.matmul(m.ones((2, 3)), m.ones((2, 3))),
    lambda j, m: m.vectorize(lambda x, y: x, signature="(k),(k)->(k)")(m.ones(2)),
    lambda j, m: m.vectorize(lambda x: (x, x), signature="()->(),(),()")(m.ones(2)),
    lambda j, m: m.vectorize(lambda x: x, signature="()->(),()")(m.ones(2)),
    lambda j, m: m.vectorize(lambda x, y: x, signature="(n,m),(m,k)->(n,k)")(m.ones(2), m.ones(2)),
    lambda j, m: m.vectorize(lambda x: x, excluded={1.0}),
    lambda j, m: m.vectorize(lambda x: x, excluded={-1}),
    lambda j, m: m.vectorize(lambda x, y: x, signature="(k),(k)->(k)")(m.ones(2), None),
    lambda j, m: m.vectorize(lambda x: x, signature="(n)->(n,n)")(m.ones(2)),
    lambda j, m: m.vectorize(lambda x: x, signature="(n->(n,n)")(m.ones(2)),
    lambda j, m: m.vectorize(lambda x, y: x, signature="(n),(n)->()")(m.ones(2), m.ones(3)),
    lambda j, m: j.jit(lambda x, i: x[i])(m.ones(0), 0),
    lambda j, m: m.ones(2)[0, 0],
    lambda j, m: m.ones(2)[..., ...],
    lambda j, m: m.ones(2)[[0]],
    lambda j, m: m.ones(2)[1.0],
    lambda j, m: m.ones(2)["a"],
    lambda j, m: m.ones(2)[m.ones(3, bool)],
    lambda j, m: j.jit(lambda x, i: x[:i])(m.ones(3), 1),
    lambda j, m: j.lax.index_in_dim(m.ones(3), 5),
    lambda j, m: j.lax.scan(lambda c, x: (c, x), 0, None),
    lambda j, m: j.lax.scan(lambda c, x: (c, x), 0, m.ones(2), length=3),
    lambda j, m: j.lax.scan(lambda c, x: (c, x), 0, 1.0),
    lambda j, m: j.lax.scan(lambda c, x: c, 0.0, m.ones(2)),
    lambda j, m: j.lax.scan(lambda c, x: ((c, c), x), 0, m.ones(2)),
    lambda j, m: j.lax.while_loop(lambda c: c, lambda c: c + 1, 0),
    lambda j, m: j.lax.while_loop(lambda c: c < 3, lambda c: (c, c), 0),
    lambda j, m: j.lax.cond(None, lambda: 1, lambda: 2),
    lambda j, m: j.lax.cond(True, lambda: 1, lambda: 2.0),
    lambda j, m: j.lax.switch(1.0, [lambda: 1, lambda: 2]),
    lambda j, m: j.lax.switch(0, []),
    lambda j, m: j.lax.fori_loop(0, 3, 1, 0),
    lambda j, m: j.lax.fori_loop(0, 3, lambda i, c: c, 0, unroll=-1),
    lambda j, m: j.grad(lambda x: j.lax.while_loop(lambda c: c < 3, lambda c: c * 2, x))(1.0),
    lambda j, m: j.grad(solved_without_transpose(j))(m.ones(2)),
    lambda j, m: j.lax.gather(m.ones(3), m.ones((1, 1)), j.lax.GatherDimensionNumbers((), (0,), (0,)), (1,)),
    lambda j, m: j.lax.associative_scan(lambda a, b: a + b, m.ones((2, 3)), axis=5),
    lambda j, m: j.lax.reduce(m.ones(3), 0.0, j.lax.add, (0, 0)),
    lambda j, m: j.lax.top_k(m.ones(3), 4),
    lambda j, m: j.lax.sort([]),
    lambda j, m: j.lax.dot_general(m.ones((2, 3)), m.ones((3, 2)), (((5,), (0,)), ((), ()))),
    lambda j, m: j.lax.slice(m.ones((2, 3)), (0, 0), (3, 3)),
    lambda j, m: special(j).expi(m.ones(2, complex)),
    lambda j, m: special(j).polygamma(1, m.ones(2, complex)),
    lambda j, m: j.grad(lambda x: x)(1),
    lambda j, m: j.grad(lambda x: x)(m.ones(2)),
    lambda j, m: j.grad(lambda x: x, argnums=3)(1.0),
    lambda j, m: j.jvp(lambda x: x, (m.ones(2),), (m.ones(3),)),
    lambda j, m: j.vjp(lambda x: x, m.ones(2))[1](m.ones(3)),
    lambda j, m: j.vmap(lambda x: x)(1.0),
    lambda j, m: j.vmap(lambda x, y: x)(m.ones(2), m.ones(3)),
    lambda j, m: j.vmap(lambda x: x, out_axes=None)(m.ones(2)),
    lambda j, m: j.jit(lambda x: x, static_argnums=0)([1]),
    lambda j, m: j.jit(lambda x: x)("a"),
    lambda j, m: j.random.normal(j.random.key(0), (2,), "int32"),
    lambda j, m: j.random.choice(j.random.key(0), 5, (9,), replace=False),
    lambda j, m: j.random.key(1.5),
    lambda j, m: j.random.normal(j.random.split(j.random.key(0))),
]


def special(j: ModuleType) -> Any:
    return importlib.import_module(f"{j.__name__}.scipy.special")


def solved_without_transpose(j: ModuleType) -> Callable[[Any], Any]:
    return lambda b: j.lax.custom_linear_solve(lambda x: 2.0 * x, b, lambda _, y: y / 2).sum()


def refused(call: Callable[[Any, Any], object], j: ModuleType, m: ModuleType) -> Exception:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception) as found:  # noqa: PT011 (of which class it is, is the question)
            call(j, m)
    error: Exception = found.value
    return error


@pytest.mark.parametrize("call", CALLS, ids=range(len(CALLS)))
def test_errors_are_of_the_classes_that_jax_raises(call: Callable[[Any, Any], object]) -> None:
    theirs = refused(call, jax, jax.numpy)
    ours = refused(call, tj, tj.numpy)
    assert isinstance(ours, TinyjaxError)
    for kind in BUILT_IN:
        assert not isinstance(theirs, kind) or isinstance(ours, kind), f"jax: {theirs!r}\nours: {ours!r}"


@pytest.mark.parametrize(
    ("call", "phrase"),
    [
        (lambda m: m.sum(m.ones(3), where=m.array([1, 0, 1])), "where must be None or a boolean array"),
        (lambda m: m.sum(m.ones((2, 2)), axis=(0, 0)), r"duplicate value in 'axis': \(0, 0\)"),
        (lambda m: m.sum(m.ones((2, 2)), initial=m.ones((2, 2))), "initial value must be a scalar. Got array of shape"),
        (lambda m: m.interp(1.0, m.ones(2), m.ones(3)), "xp and fp must be one-dimensional arrays of equal size"),
        (lambda m: m.r_["directive", m.ones(2)], "could not understand directive 'directive'"),
        (lambda m: m.ravel_multi_index((m.array([5]), m.array([0])), (2, 3)), "^invalid entry in coordinates array"),
        (lambda m: m.cumulative_sum(m.ones((2, 2))), "The input array has rank 2, however axis was not set"),
        (lambda m: m.ones((2, 3))[0, 0, 0], "Too many indices: array is 2-dimensional, but 3 were indexed"),
        (lambda m: m.ones(2)[[0]], r"Using a non-tuple sequence for multidimensional indexing is not allowed.*arr\["),
        (lambda m: m.ones(2)[1.0], "Indexer must have integer or boolean type, got indexer with type float"),
        (lambda m: m.ones(2)[m.ones(3, bool)], "boolean index did not match shape of indexed array"),
        (lambda m: m.take(m.ones(2), 0, mode="unknown"), "[Ii]nvalid mode 'unknown'"),
    ],
)
def test_phrases_that_programs_may_look_for(call: Callable[[Any], object], phrase: str) -> None:
    for m, kind in [(jax.numpy, Exception), (tj.numpy, TinyjaxError)]:
        with pytest.raises(kind, match=phrase):
            call(m)


def test_dtype_errors_are_both() -> None:
    assert issubclass(errors.DtypeError, ValueError)
    assert issubclass(errors.DtypeError, errors.TypingError)
