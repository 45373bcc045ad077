"""`sparsify`, and derivatives with respect to sparse arrays: what the same functions give for dense ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.experimental.sparse as theirs
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import errors, lax
from tinyjax.experimental import sparse
from tinyjax.experimental.sparse import BCOO, sparsify
from tinyjax.primitives.special import Erfc

DENSE = np.array([[0.0, 2.0, 0.0], [3.0, 0.0, -4.0]])
ONES = np.ones((2, 3))


def is_sparse(x: object) -> bool:
    return isinstance(x, sparse.JAXSparse)


def check(found: Any, wanted: Any) -> None:
    got, right = tj.tree.leaves(found, is_leaf=is_sparse), tj.tree.leaves(wanted)
    for x, y in zip(got, right, strict=True):
        dense = np.asarray(sparse.todense(x))
        assert (dense.shape, dense.dtype) == (y.shape, y.dtype)
        np.testing.assert_allclose(dense, y, rtol=1e-6)


#: Functions of a matrix, and whether all that they return stays sparse.
FUNCTIONS: list[tuple[Callable[[Any], Any], bool]] = [
    (lambda m: m.sum(0), True),
    (lambda m: m.sum(), False),
    (lambda m: m[0], True),
    (lambda m: m[:, 1:], True),
    (lambda m: m[::-1, -1], True),
    (lambda m: m[tnp.asarray([1, 0, 1])], True),
    (lambda m: lax.dynamic_slice(m, (tnp.asarray(1), tnp.asarray(0)), (1, 2)), True),
    (lambda m: m.reshape(3, 2), True),
    (lambda m: m + m * 3.0, True),
    (lambda m: (m * m, m - m, -m, m / 2.0, 2.0 * m, m**2, m**3), True),
    (lambda m: (tnp.sin(m), tnp.abs(m), tnp.sqrt(m * m), tnp.expm1(m), lax.sign(m), tnp.tanh(m), tnp.floor(m)), True),
    (lambda m: m.astype(np.int32), True),
    (lambda m: (tnp.imag(m * 1j), lax.bessel_i1e(m)), True),
    (lambda m: lax.conv_general_dilated(m[:1, None], m[1:, None], (1,), "SAME"), True),
    (lambda m: (tnp.real(m), tnp.conj(m + 0j * m)), True),
    (lax.stop_gradient, True),
    (lambda m: tnp.concatenate([m, m], axis=1), True),
    (lambda m: tnp.stack([m, m]), True),
    (lambda m: tnp.split(m, 3, axis=1), True),
    (lambda m: tnp.expand_dims(m, 0), True),
    (lambda m: m @ m.T, True),
    (lambda m: m @ np.arange(3.0), False),
    (lambda m: np.arange(2.0) @ m, False),
    (lambda m: tnp.einsum("ij,kj->ik", m, ONES), False),
    (lambda m: m + ONES, False),
    (lambda m: (m - ONES, ONES - m), False),
    (lambda m: m * ONES[0], True),
    (lambda m: tnp.exp(sparse.todense(m)), False),
    (tj.jit(lambda m: m * m), True),
    (tj.checkpoint(tnp.sin), True),
    (lambda m: lax.cond(m.sum() > 0, lambda m: m * 2.0, lambda m: -m, m), True),
    (lambda m: lax.fori_loop(0, 3, lambda i, m: m * 2.0, m), True),
    (lambda m: lax.while_loop(lambda m: m.sum() < 50, lambda m: m * 2.0, m), True),
    (lambda m: lax.scan(lambda c, _: (c * 2.0, c.sum()), m, None, length=3), False),
    (lambda m: tnp.log1p(tnp.abs(m)), True),
]


@pytest.mark.parametrize(("f", "kept"), FUNCTIONS)
def test_functions_of_sparse_arrays(f: Callable[[Any], Any], kept: bool) -> None:
    """Also with duplicates and padding, and compiled."""
    wanted = f(tnp.asarray(DENSE))
    data = np.array([1.0, 1.0, 3.0, -4.0, 0.0])
    indices = np.array([[0, 1], [0, 1], [1, 0], [1, 2], [2, 3]])
    for mat in (BCOO.fromdense(DENSE), BCOO((data, indices), shape=(2, 3))):
        found = sparsify(f)(mat)
        check(found, wanted)
        assert not kept or all(map(is_sparse, tj.tree.leaves(found, is_leaf=is_sparse)))
        check(tj.jit(sparsify(f))(mat), wanted)


def test_transformed() -> None:
    mat = BCOO.fromdense(DENSE)

    def f(m: Any, v: Any) -> Any:
        return tnp.sum(tnp.sin(m) @ v)

    g, v = sparsify(f), np.arange(3.0)
    found, wanted = sparse.grad(g, argnums=(0, 1))(mat, v), tj.grad(f, (0, 1))(DENSE, v)
    np.testing.assert_allclose(found[0].data, np.asarray(wanted[0])[DENSE != 0])
    np.testing.assert_allclose(found[1], wanted[1])
    np.testing.assert_allclose(tj.vmap(g, (None, 0))(mat, np.stack([v, 2 * v])), [f(DENSE, v), f(DENSE, 2 * v)])
    several = BCOO.fromdense(np.stack([DENSE, 2 * DENSE]), n_batch=1)
    np.testing.assert_allclose(tj.vmap(g, (0, None))(several, v), [f(DENSE, v), f(2 * DENSE, v)])
    check(
        sparsify(lambda ms: lax.scan(lambda c, m: (c + m.sum(), m * 2.0), 0.0, ms))(several),
        lax.scan(lambda c, m: (c + m.sum(), m * 2.0), 0.0, np.stack([DENSE, 2 * DENSE])),
    )
    assert sparsify(lambda m, *, power: m**power)(mat, power=2).nse == 3


def test_errors_say_what_to_do() -> None:
    mat = BCOO.fromdense(DENSE)
    with pytest.raises(errors.MissingRuleError, match=r"Sparse rule for 'exp'.*todense"):
        sparsify(tnp.exp)(mat)
    with pytest.raises(errors.UnsupportedError, match="division by a sparse"):
        sparsify(lambda m: 1.0 / m)(mat)
    with pytest.raises(errors.UnsupportedError, match="power -1"):
        sparsify(lambda m: lax.integer_pow(m, -1))(mat)
    with pytest.raises(errors.InputError, match="in one branch or iteration"):
        sparsify(lambda m: lax.cond(True, lambda m: m, sparse.todense, m))(mat)
    with pytest.raises(errors.InputError, match="no batch dimension"):
        sparsify(lambda m: lax.scan(lambda c, row: (c, row), 0.0, m))(mat)


def test_rules_can_be_added() -> None:
    with pytest.raises(errors.MissingRuleError, match="erfc"):
        sparsify(lax.erfc)(BCOO.fromdense(DENSE))

    @sparse.sparse_rule(Erfc)
    def _(primitive: Erfc, x: BCOO) -> tj.Array:
        return lax.erfc(x.todense())

    try:
        found = sparsify(lambda m: lax.erfc(m) @ np.ones(3))(BCOO.fromdense(DENSE))
        check(found, lax.erfc(DENSE) @ np.ones(3))
    finally:
        del sparse.SPARSE_RULES.own[Erfc]


KEEPING_ZEROS = ["abs", "asin", "asinh", "atan", "atanh", "bessel_i1e", "cbrt", "erf", "erf_inv", "expm1", "log1p"]
KEEPING_ZEROS += ["sin", "sinh", "sqrt", "square", "tan", "tanh"]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "complex64"])
@pytest.mark.parametrize("name", KEEPING_ZEROS)
def test_functions_that_keep_zeros_are_of_the_stored_elements(name: str, dtype: str) -> None:
    dense = (DENSE / 8).astype(np.dtype(dtype))
    function: Any = getattr(lax, name)
    if dtype == "complex64" and name in ("bessel_i1e", "cbrt", "erf", "erf_inv"):
        with pytest.raises(errors.TypingError, match="it accepts"):
            sparsify(function)(BCOO.fromdense(dense))
        return
    found = sparsify(function)(BCOO.fromdense(dense))
    assert isinstance(found, BCOO)
    assert found.nse == np.count_nonzero(dense)
    np.testing.assert_allclose(found.todense(), function(dense), rtol=1e-6)


@pytest.mark.sweep
@pytest.mark.parametrize("derivative", ["jacfwd", "jacrev", "grad", "value_and_grad"])
def test_derivatives_are_those_of_jax(derivative: str) -> None:
    value = np.arange(3.0)

    def f(m: Any, v: Any) -> Any:
        out = (m * 2.0) @ v
        return out.sum() if "grad" in derivative else out

    with jax.enable_x64(True):
        for argnums in (0, 1, (0, 1)):
            ours, other = (getattr(module, derivative)(f, argnums=argnums) for module in (sparse, theirs))
            found = ours(BCOO.fromdense(DENSE), value)
            wanted = other(theirs.BCOO.fromdense(jax.numpy.asarray(DENSE)), jax.numpy.asarray(value))
            for x, y in zip(tj.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
                np.testing.assert_allclose(x, y)


def test_derivatives_with_auxiliary_results() -> None:
    mat = BCOO.fromdense(DENSE)
    found, aux = sparse.grad(lambda m: (m.sum(), "aux"), has_aux=True)(mat)
    assert aux == "aux"
    np.testing.assert_array_equal(found.data, np.ones(3))
    tree = sparse.grad(lambda p: (p["m"] @ p["v"]).sum())({"m": mat, "v": np.ones(3)})
    assert is_sparse(tree["m"])
    np.testing.assert_allclose(tree["v"], DENSE.sum(0))
