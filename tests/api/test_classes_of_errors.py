"""What jax raises for a mistake is caught by the same name of Python here."""

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
from tinyjax.errors import ChoiceError, DeletedBufferError, DonationError, UnexpectedTracedError

Mistake = Callable[[ModuleType, ModuleType], object]
#: What JAX raises for an array that was given up before: it is both here.
GIVEN_UP = RuntimeError if jax.__version_info__ >= (0, 11) else ValueError


def donated_twice(m: ModuleType, n: ModuleType) -> object:
    x = m.device_put(n.arange(4.0), m.devices()[0])
    return m.jit(lambda a, b: a + b, donate_argnums=0)(x, x)


def deleted(m: ModuleType, n: ModuleType) -> object:
    x = m.device_put(n.arange(4.0), m.devices()[0])
    x.delete()
    return x + 1


def given_up_before(m: ModuleType, n: ModuleType) -> object:
    x, f = m.device_put(n.arange(4.0), m.devices()[0]), m.jit(lambda a: a + 1, donate_argnums=0)
    f(x)
    return f(x)


def closed_over(m: ModuleType, n: ModuleType) -> object:
    def f(x: Any) -> Any:
        g = m.custom_jvp(lambda y: x + y)
        g.defjvp(lambda primals, tangents: (g(x), 2 * primals[0]))
        return g(1.0)

    return m.grad(f)(3.0)


def hidden_in_a_function(m: ModuleType, n: ModuleType) -> object:
    def f(x: Any) -> Any:
        g = m.custom_jvp(lambda h, x: h(x), nondiff_argnums=(0,))
        g.defjvp(lambda h, primals, tangents: (g(h, primals[0]), 2.0 * tangents[0]))
        return g(lambda y: x + y, x)

    return m.jvp(f, (2.0,), (1.0,))


def swapped_zeros(m: ModuleType, n: ModuleType) -> object:
    f = m.custom_vjp(lambda x, y, z: (x, y, z))
    f.defvjp(lambda x, y, z: (f(x.value, y.value, z.value), None), lambda _, g: (g[1], g[0], g[2]), symbolic_zeros=True)
    return m.grad(lambda x, y, z: f(x, y, z)[2].sum())(n.ones(1), n.ones(2), n.ones(3))


def own_exception(m: ModuleType, n: ModuleType) -> object:
    def bwd(_: object, g: Any) -> Any:
        if type(g[0]).__name__ != "SymbolicZero":
            raise KeyError("mine")
        return 0.0, 1.0

    f = m.custom_vjp(lambda x, y: (x, y))
    f.defvjp(lambda x, y: (f(x.value, y.value), None), bwd, symbolic_zeros=True)
    m.grad(lambda x, y: f(x, y)[1])(3.0, 2.0)  # which the rule can do
    return m.grad(lambda x, y: f(x, y)[0])(3.0, 2.0)


MISTAKES: dict[str, tuple[Mistake, type[Exception], type[Exception]]] = {
    "donated twice": (donated_twice, RuntimeError, DonationError),
    "deleted": (deleted, RuntimeError, DeletedBufferError),
    "given up before": (given_up_before, GIVEN_UP, DeletedBufferError),
    "closed over": (closed_over, jax.errors.UnexpectedTracerError, UnexpectedTracedError),
    "hidden in a function": (hidden_in_a_function, jax.errors.UnexpectedTracerError, UnexpectedTracedError),
    "no device": (lambda m, n: m.device_put(n.arange(3), 1), ValueError, ChoiceError),
    "swapped zeros": (swapped_zeros, ValueError, ValueError),
    "the rule's own": (own_exception, KeyError, KeyError),
    "NumPy's": (lambda m, n: n.zeros(3, dtype=np.arange(3)), TypeError, TypeError),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_as_in_jax(name: str) -> None:
    mistake, theirs, ours = MISTAKES[name]
    with pytest.raises(theirs):
        mistake(jax, jnp)
    with pytest.raises(ours) as found:
        mistake(tj, tnp)
    if theirs is jax.errors.UnexpectedTracerError:
        theirs = tj.errors.UnexpectedTracerError
    assert isinstance(found.value, theirs)


def prefixes(m: ModuleType, box: Callable[..., Any]) -> list[Any]:
    def product(d: object, y: Any) -> Any:
        return m.tree.leaves(d)[0] * y

    f, zero = m.custom_vjp(product), m.custom_vjp(product)
    f.defvjp(lambda d, y: (product(d, y), (d, y)), lambda r, g: (r[1] * g, m.tree.leaves(r[0])[0] * g))
    zero.defvjp(lambda d, y: (product(d, y), None), lambda r, g: (None, g))
    return [m.grad(each, argnums=(0, 1))(box(2.0, 4.0), 3.0) for each in (f, zero)]


@pytest.mark.parametrize("box", [lambda *x: x, lambda *x: {"a": x[0]}, lambda *x: [x]])
def test_one_cotangent_stands_for_each_leaf_of_an_argument(box: Callable[..., Any]) -> None:
    """As in jax, where a rule returns a prefix of its arguments."""
    theirs, ours = [[np.asarray(leaf) for leaf in jax.tree.leaves(prefixes(m, box))] for m in (jax, tj)]
    np.testing.assert_array_equal(ours, theirs)
