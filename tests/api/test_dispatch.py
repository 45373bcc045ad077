"""Calls of compiled functions whose signature has been met before: the short way gives what the long way gives."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.api.jit import Jitted
from tinyjax.errors import ConcretizationError, DeletedBufferError
from tinyjax.tracing.concrete import ConcreteArray


def raises(kind: type[Exception], message: str) -> Any:
    return pytest.raises(kind, match=re.escape(message))


def counted(f: Callable[..., Any]) -> tuple[Callable[..., Any], list[int]]:
    """f, and how often it has been traced."""
    traces: list[int] = []

    def g(*args: Any, **kwargs: Any) -> Any:
        traces.append(1)
        return f(*args, **kwargs)

    return g, traces


def ready(f: Callable[..., Any]) -> int:
    """How many kinds of calls a compiled function is prepared for; arrays of NumPy's are known by two keys."""
    assert isinstance(f, Jitted)
    return len(set(map(id, f._calls.entries.values())))


ARGUMENTS = {
    "arrays": (tnp.arange(3.0), tnp.arange(3.0)),
    "NumPy": (np.arange(3.0), np.arange(3.0)),
    "mixed": (tnp.arange(3.0), np.arange(3.0)),
    "scalars": (2.0, 3),
    "jax": (jnp.arange(3.0), 2.0),
    "trees": ({"a": tnp.arange(2.0), "b": (1, np.float32(2))}, [tnp.ones(()), None]),
    "nothing": (),
}


@pytest.mark.parametrize("args", ARGUMENTS.values(), ids=ARGUMENTS)
def test_again(args: tuple[Any, ...]) -> None:
    """Results of the second and third call, also from results of the first."""

    def f(*args: Any) -> Any:
        return tj.tree.map(lambda x: x * 2 + tnp.ones(()), args), 1.0

    g, traces = counted(f)
    compiled = tj.jit(g)
    expected = compiled(*args)
    for _ in range(2):
        found = compiled(*args)
        leaves, structure = tj.tree.flatten(found)
        others, other = tj.tree.flatten(expected)
        assert structure == other
        for x, y in zip(leaves, others, strict=True):
            assert type(x) is ConcreteArray
            assert x.aval == y.aval
            np.testing.assert_array_equal(np.asarray(x), np.asarray(y))
    assert len(traces) == 1
    assert ready(compiled) == 1


def test_other_signatures() -> None:
    """A call is ready for its own signature only: shapes, dtypes, weak types, trees, names."""
    compiled = tj.jit(lambda x, y=None: (x + 1, y))
    x = tnp.arange(3.0)
    for _ in range(2):
        assert compiled(x)[0].aval == tj.ShapedArray((3,), "float64")
        assert compiled(tnp.arange(2.0))[0].aval == tj.ShapedArray((2,), "float64")
        assert compiled(x.astype("float32"))[0].aval == tj.ShapedArray((3,), "float32")
        assert compiled(1.0)[0].aval == tj.ShapedArray((), "float64", weak_type=True)
        assert compiled(np.float64(1.0))[0].aval == tj.ShapedArray((), "float64")
        assert compiled(x, x)[1].aval == x.aval
        assert compiled(x, y=x)[1].aval == x.aval
        assert compiled(y=x, x=x)[1].aval == x.aval
        assert set(compiled({"a": 1}["a"], {"b": x})[1]) == {"b"}
    assert ready(compiled) == 9


def test_more_signatures_than_are_kept() -> None:
    g, traces = counted(lambda x: x + 1)
    compiled = tj.jit(g)
    limit = compiled._calls.limit = 8
    for _ in range(2):
        for n in range(20):
            assert compiled(tnp.zeros(n)).shape == (n,)
            assert 0 < ready(compiled) <= limit
    assert len(traces) == 20


def test_within_transformations() -> None:
    """A call that is ready goes the long way where something is being traced, and the short one again afterwards."""
    compiled = tj.jit(lambda x: tnp.sin(x) * x)
    x = tnp.linspace(0.1, 0.9, 3)
    value = compiled(x)
    np.testing.assert_allclose(np.asarray(tj.vmap(compiled)(x)), np.asarray(value))
    expected = jax.vmap(jax.grad(lambda x: jnp.sin(x) * x))(np.asarray(x))
    np.testing.assert_allclose(np.asarray(tj.vmap(tj.grad(compiled))(x)), expected)
    assert [str(eqn.primitive.name) for eqn in tj.make_jaxpr(lambda: compiled(x))().eqns] == ["call"]
    with_watch = tj.watch(compiled)(x)
    assert "Call.evaluate_with" in str(with_watch)
    np.testing.assert_array_equal(np.asarray(compiled(x)), np.asarray(value))


def test_static_arguments() -> None:
    g, traces = counted(lambda x, n, flag=False: x * n if flag else x + n)
    compiled = tj.jit(g, static_argnums=1, static_argnames="flag")
    x = tnp.arange(3.0)
    for _ in range(2):
        np.testing.assert_array_equal(np.asarray(compiled(x, 2)), [2, 3, 4])
        np.testing.assert_array_equal(np.asarray(compiled(x, 3)), [3, 4, 5])
        np.testing.assert_array_equal(np.asarray(compiled(x, 3, flag=True)), [0, 3, 6])
    assert len(traces) == 3


def test_closures() -> None:
    """Arrays that a function closes over are passed on; those of a transformation keep a call from becoming ready."""
    table = np.arange(5.0)
    compiled = tj.jit(lambda i: tnp.asarray(table)[i])
    assert [float(compiled(i)) for i in (1, 2, 3)] == [1, 2, 3]

    def outer(x: Any) -> Any:
        inner: Callable[[Any], Any] = tj.jit(lambda y: x * y)
        first = inner(2.0)
        assert ready(inner) == 0
        return first + inner(3.0)

    assert float(tj.grad(outer)(1.0)) == 5.0


def test_host_arrays_are_read_at_each_call() -> None:
    compiled = tj.jit(lambda x: x + 1)
    x = np.zeros(3)
    first = compiled(x)
    x[:] = 5
    np.testing.assert_array_equal(np.asarray(compiled(x)), [6, 6, 6])
    np.testing.assert_array_equal(np.asarray(first), [1, 1, 1])
    zeros = [float(1 / compiled(z)) for z in (-1.0 - 1e-300, -1.0)]
    assert zeros == [float("inf"), float("inf")]
    signs = tj.jit(lambda x: 1 / x)
    assert [float(signs(z)) for z in (0.0, -0.0, 0.0, -0.0)] == [np.inf, -np.inf, np.inf, -np.inf]


def test_donation() -> None:
    compiled = tj.jit(lambda x: x + 1, donate_argnums=0)
    x = compiled(tnp.arange(3.0))
    y = compiled(x)
    assert ready(compiled) == 1
    assert x.is_deleted()
    with raises(DeletedBufferError, "was used after it had been donated"):
        compiled(x)
    np.testing.assert_array_equal(np.asarray(compiled(y)), [3, 4, 5])


def test_deleted_arguments() -> None:
    compiled = tj.jit(lambda x, y: x + y)
    x, y = (tj.device_put(tnp.ones(3)) for _ in range(2))
    compiled(x, y)
    compiled(x, y)
    y.delete()
    with raises(DeletedBufferError, "argument 1 of '<lambda>': the array f64[3] on"):
        compiled(x, y)
    np.testing.assert_array_equal(np.asarray(compiled(x, x)), [2, 2, 2])


def test_where_elements_are_in_memory() -> None:
    on_host, on_device = tnp.ones(5), tj.device_put(np.ones(5))
    for x in (on_host, on_device):
        same, other = lax.convert_element_type(x, np.float64), lax.convert_element_type(x, np.float32)
        assert same.unsafe_buffer_pointer() == x.unsafe_buffer_pointer() != 0
        assert other.unsafe_buffer_pointer() != x.unsafe_buffer_pointer()
    on_device.delete()
    with raises(DeletedBufferError, "the array f64[5]"):
        on_device.unsafe_buffer_pointer()
    with raises(ConcretizationError, "can't be asked where it is in memory"):
        tj.jit(lambda x: x.unsafe_buffer_pointer())(1.0)


def test_bad_arguments() -> None:
    """The message is that of a first call."""
    compiled = tj.jit(lambda x: x["a"] + 1)
    compiled({"a": 1.0})
    with raises(tj.TinyjaxError, "argument x['a'] of <lambda>: 'no number' of type str is not an array"):
        compiled({"a": "no number"})


def test_errors_of_a_tree_are_its_own() -> None:
    """A node that can't be put together again says so itself."""

    class Node:
        pass

    def rebuild(aux: object, children: object) -> NoReturn:
        raise AttributeError("this node can't be rebuilt")

    jax.tree_util.register_pytree_node(Node, lambda node: ((1.0,), None), rebuild)
    fine: list[bool] = [True]

    def f(x: tj.Array) -> Any:
        return Node()

    compiled = tj.jit(f)
    for _ in range(2):
        with pytest.raises(AttributeError, match="can't be rebuilt"):
            compiled(tnp.ones(3))
    assert fine


def test_integers_with_tangents_without_bits() -> None:
    """Arguments of dtype float0 are never passed to a program, so such calls go the long way."""
    compiled = tj.jit(lambda x, t: x)
    zero = tj.jvp(lambda x: x, (1,), (np.zeros((), tj.float0),))[1]
    for _ in range(2):
        assert int(compiled(3, zero)) == 3
    assert ready(compiled) == 0
