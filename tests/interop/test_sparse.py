"""Sparse matrices of JAX, whose operations are primitives of their own there: as functions of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import sparse

import tinyjax as tj
from tinyjax.interop.jax import of_jax

RNG = np.random.default_rng(0)
A = np.where(RNG.random((5, 4)) < 0.5, RNG.normal(size=(5, 4)), 0.0)
ROW, COLUMN = np.nonzero(A)
DATA = A[ROW, COLUMN]
INDICES = np.stack([ROW, COLUMN], 1).astype(np.int32)
STARTS = np.searchsorted(ROW, np.arange(6)).astype(np.int32)
V, M = RNG.normal(size=4), RNG.normal(size=(4, 3))


def bcoo(data: Any) -> Any:
    return sparse.BCOO((data, jnp.asarray(INDICES)), shape=A.shape)


def bcsr(data: Any) -> Any:
    return sparse.BCSR((data, jnp.asarray(INDICES[:, 1]), jnp.asarray(STARTS)), shape=A.shape)


def csr(data: Any) -> Any:
    return sparse.CSR((data, jnp.asarray(INDICES[:, 1]), jnp.asarray(STARTS)), shape=A.shape)


def coo(data: Any) -> Any:
    return sparse.COO((data, jnp.asarray(INDICES[:, 0]), jnp.asarray(INDICES[:, 1])), shape=A.shape)


#: Functions of the elements that aren't zero.
FUNCTIONS: Final[dict[str, Callable[[Any], Any]]] = {
    "bcoo @ vector": lambda d: bcoo(d) @ V,
    "bcoo @ matrix": lambda d: bcoo(d) @ M,
    "vector @ bcoo": lambda d: jnp.asarray(A[:, 0]) @ bcoo(d),
    "bcsr @ vector": lambda d: bcsr(d) @ V,
    "bcsr @ matrix": lambda d: bcsr(d) @ M,
    "csr @ vector": lambda d: csr(d) @ V,
    "csr @ matrix": lambda d: csr(d) @ M,
    "coo @ vector": lambda d: coo(d) @ V,
    "coo @ matrix": lambda d: coo(d) @ M,
    "dense": lambda d: bcoo(d).todense(),
    "dense csr": lambda d: csr(d).todense(),
    "transposed": lambda d: bcoo(d).T @ A[:, 1],
    "sum": lambda d: bcoo(d).sum(0).todense(),
    "product": lambda d: (bcoo(d) * jnp.asarray(A + 1.0)).todense(),
    "slice": lambda d: bcoo(d)[1:3].todense(),
    "sorted": lambda d: sparse.bcoo_sort_indices(bcoo(d).T).data,
    "concatenated": lambda d: sparse.bcoo_concatenate([bcoo(d), bcoo(2.0 * d)], dimension=0).todense(),
    "sparsified": lambda d: sparse.sparsify(lambda m, v: jnp.sin(3.0 * (m @ v)))(bcoo(d), V),
    "elements of a product": lambda d: sparse.bcoo_dot_general_sampled(
        jnp.outer(d, d), jnp.ones((len(DATA), 4)), jnp.asarray(INDICES), dimension_numbers=(((1,), (0,)), ((), ()))
    ),
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.sweep) if i % 4 else name
                                  for i, name in enumerate(FUNCTIONS)])  # fmt: skip
def test_functions_of_sparse_matrices(name: str) -> None:
    f = FUNCTIONS[name]
    ours, tangent = of_jax(f), np.cos(DATA)
    expected, derived = jax.jit(lambda d: jax.jvp(f, (d,), (tangent,)))(DATA)
    gradient = jax.jit(jax.grad(lambda d: (f(d) ** 2).sum()))(DATA)
    for found in (ours(DATA), tj.jit(ours)(DATA), tj.vmap(ours)(DATA[None])[0]):
        np.testing.assert_allclose(found, expected, rtol=2.0**-40, atol=2.0**-40)
    np.testing.assert_allclose(tj.jvp(ours, (DATA,), (tangent,))[1], derived, rtol=2.0**-40, atol=2.0**-40)
    for of in (tj.grad, lambda h: tj.jit(tj.grad(h))):
        found = of(lambda d: (ours(d) ** 2).sum())(DATA)
        np.testing.assert_allclose(found, gradient, rtol=2.0**-40, atol=2.0**-40)


def test_batches_of_elements() -> None:
    f = of_jax(lambda d: bcoo(d) @ V)
    batch = np.stack([DATA, 2.0 * DATA])
    np.testing.assert_allclose(tj.vmap(f)(batch), np.stack([A @ V, 2.0 * A @ V]), rtol=2.0**-40)
