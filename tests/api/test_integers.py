"""Whatever has an exact integer in it is an integer, wherever a function takes one; and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, final

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.errors import TinyjaxError
from tinyjax.primitives.structure import BroadcastInDim, Transpose

#: A call whose integers went through a function of the test.
Call: TypeAlias = Callable[[Callable[[int], Any]], object]

V, X = np.arange(6.0), np.arange(24.0).reshape(2, 3, 4)
PAIR = (1.0, 2.0)


def product(a: Any, b: Any) -> Any:
    return a * b


CALLS: dict[str, Call] = {
    "lax.split": lambda i: lax.split(V, (i(2), i(4)), i(0)),
    "lax.reshape": lambda i: lax.reshape(V, (i(2), i(3))),
    "lax.broadcast": lambda i: lax.broadcast(V, (i(2),)),
    "lax.broadcast_in_dim": lambda i: lax.broadcast_in_dim(V, (i(2), i(6)), (i(1),)),
    "lax.broadcast_to_rank": lambda i: lax.broadcast_to_rank(V, i(3)),
    "lax.broadcasted_iota": lambda i: lax.broadcasted_iota(np.int32, (i(2), i(3)), i(1)),
    "lax.iota": lambda i: lax.iota(np.int32, i(3)),
    "lax.transpose": lambda i: lax.transpose(X, (i(1), i(0), i(2))),
    "lax.squeeze": lambda i: lax.squeeze(X[:1], (i(0),)),
    "lax.expand_dims": lambda i: lax.expand_dims(X, (i(0), i(-1))),
    "lax.rev": lambda i: lax.rev(X, (i(0), i(-1))),
    "lax.slice": lambda i: lax.slice(V, (i(1),), (i(5),), (i(2),)),
    "lax.slice_in_dim": lambda i: lax.slice_in_dim(X, i(1), i(-1), i(1), i(2)),
    "lax.index_in_dim": lambda i: lax.index_in_dim(X, i(-1), i(2)),
    "lax.dynamic_slice": lambda i: lax.dynamic_slice(V, (1,), (i(2),)),
    "lax.dynamic_slice_in_dim": lambda i: lax.dynamic_slice_in_dim(X, 1, i(2), i(1)),
    "lax.pad": lambda i: lax.pad(V, 0.0, ((i(1), i(-2), i(1)),)),
    "lax.concatenate": lambda i: lax.concatenate([X, X], i(1)),
    "lax.collapse": lambda i: lax.collapse(X, i(0), i(2)),
    "lax.sort": lambda i: lax.sort((V, V), dimension=i(0), num_keys=i(2)),
    "lax.top_k": lambda i: lax.top_k(V, i(2)),
    "lax.argmax": lambda i: lax.argmax(X, i(1), np.int32),
    "lax.reduce_sum": lambda i: lax.reduce_sum(X, (i(0), i(2))),
    "lax.reduce_max": lambda i: lax.reduce_max(X, i(-1)),
    "lax.cumsum": lambda i: lax.cumsum(X, i(1)),
    "lax.integer_pow": lambda i: lax.integer_pow(X, i(3)),
    "lax.reduce_precision": lambda i: lax.reduce_precision(X, i(5), i(3)),
    "lax.full": lambda i: lax.full((i(2), i(3)), 1.0),
    "lax.dot_general": lambda i: lax.dot_general(X, X, (((i(2),), (i(2),)), ((i(0),), (i(0),)))),
    "lax.scan": lambda i: lax.scan(lambda c, _: (c + 1.0, None), 0.0, None, length=i(4), unroll=i(2))[0],
    "lax.map": lambda i: lax.map(lambda c: c + 1.0, V, batch_size=i(2)),
    "lax.associative_scan": lambda i: lax.associative_scan(lambda a, b: a + b, X, axis=i(-2)),
    "numpy.zeros": lambda i: tnp.zeros((i(2), i(3))),
    "numpy.ones": lambda i: tnp.ones(i(2)),
    "numpy.eye": lambda i: tnp.eye(i(3), i(4), i(1)),
    "numpy.tril": lambda i: tnp.tril(X, i(-1)),
    "numpy.diag": lambda i: tnp.diag(V, i(1)),
    "numpy.linspace": lambda i: tnp.linspace(V, V + 1.0, i(5), axis=i(1)),
    "numpy.reshape": lambda i: tnp.reshape(V, (i(2), i(-1))),
    "numpy.sum": lambda i: tnp.sum(X, axis=(i(0), i(-1))),
    "numpy.argsort": lambda i: tnp.argsort(X, axis=i(1)),
    "numpy.stack": lambda i: tnp.stack([V, V], axis=i(1)),
    "numpy.moveaxis": lambda i: tnp.moveaxis(X, i(0), i(-1)),
    "numpy.roll": lambda i: tnp.roll(X, i(-2), i(1)),
    "numpy.rot90": lambda i: tnp.rot90(X, i(3)),
    "numpy.tile": lambda i: tnp.tile(V, (i(2), i(1))),
    "numpy.split": lambda i: tnp.split(V, i(2)),
    "numpy.tensordot": lambda i: (tnp.tensordot(X, X, axes=i(3)), tnp.tensordot(X, X, axes=((i(0),), (i(-3),)))),
    "numpy.diff": lambda i: tnp.diff(X, i(2), axis=i(1)),
    "numpy.nonzero": lambda i: tnp.nonzero(V, size=i(3)),
    "numpy.round": lambda i: tnp.round(V, i(-1)),
    "numpy.take": lambda i: tnp.take(X, 1, axis=i(2)),
    "numpy.trace": lambda i: tnp.trace(X, i(-1), i(1), i(2)),
    "Array.reshape": lambda i: tnp.asarray(V).reshape(i(2), i(3)),
    "Array.transpose": lambda i: tnp.asarray(X).transpose(i(2), i(0), i(1)),
    "Array.sum": lambda i: tnp.asarray(X).sum(i(1)),
    "vmap": lambda i: tj.vmap(lambda a: a * 2.0, in_axes=i(1), out_axes=i(-1))(X),
    "vmap, each": lambda i: tj.vmap(product, in_axes=(i(1), None))(X, 2.0),
    "vmap, size": lambda i: tj.vmap(lambda: tnp.ones(2), axis_size=i(3))(),
    "grad": lambda i: tj.grad(product, argnums=i(1))(*PAIR),
    "grad, several": lambda i: tj.grad(product, argnums=(i(1), i(0)))(*PAIR),
    "jacfwd": lambda i: tj.jacfwd(product, argnums=i(-1))(*PAIR),
    "jit": lambda i: tj.jit(product, static_argnums=i(1))(1.0, 2),
    "checkpoint": lambda i: tj.checkpoint(product, static_argnums=i(1))(1.0, 2),
    "make_jaxpr": lambda i: tj.make_jaxpr(product, static_argnums=(i(1),))(1.0, 2).jaxpr.eqns[0].invars[1].aval.shape,
    "a primitive": lambda i: (Transpose((i(1), i(0))) == Transpose((1, 0))) * V,
    "a primitive, nested": lambda i: (BroadcastInDim((i(1), i(0)), (i(1),)) == BroadcastInDim((1, 0), (1,))) * V,
}


@final
class Index:
    """Has an integer, and says so in the way that Python asks for it."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


def unsigned(value: int) -> object:
    """The narrowest one, in which arithmetic would overflow."""
    return np.uint8(value) if value >= 0 else np.int8(value)


INTEGERS: dict[str, Callable[[int], Any]] = {
    "np.int64": np.int64, "narrow": unsigned, "array": np.asarray, "index": Index, "tinyjax": tnp.asarray,
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_every_kind_of_integer(name: str) -> None:
    call = CALLS[name]
    expected = tj.tree.leaves(call(int))
    for kind, make in INTEGERS.items():
        if name.startswith("a primitive") and kind in ("array", "index", "tinyjax"):
            continue
        found = tj.tree.leaves(call(make))
        assert len(found) == len(expected)
        for ours, theirs in zip(found, expected, strict=True):
            assert np.asarray(ours).dtype == np.asarray(theirs).dtype
            np.testing.assert_array_equal(ours, theirs, err_msg=kind)


@pytest.mark.parametrize("name", [name for name in CALLS if not name.startswith("a primitive")])
def test_nothing_else_is_an_integer(name: str) -> None:
    for make in (float, str, np.float64):
        with pytest.raises((TinyjaxError, TypeError)) as caught:
            CALLS[name](make)
        assert isinstance(caught.value, TypeError)
