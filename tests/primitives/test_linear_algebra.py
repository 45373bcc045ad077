"""Linear algebra: types, values, batching, derivatives to second order, compiled code; nan where jax has nan."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from _pytest.mark import ParameterSet
from jax.lax import linalg

import tinyjax as tj
from tests.primitives.array_catalog import aval
from tests.primitives.array_checks import (
    apply,
    check_batch,
    check_jvp,
    check_second_order,
    check_transpose,
    check_value,
    close,
)
from tests.primitives.matrix_catalog import EXAMPLES, Example, general
from tinyjax import hlo, lax
from tinyjax.errors import ShapeError, TinyjaxError, TypingError, UnsupportedError
from tinyjax.extend import as_array, bind
from tinyjax.interop.jax import from_jax, to_jax
from tinyjax.ir.dtypes import DType, HostArray
from tinyjax.ir.primitive import Primitive
from tinyjax.primitives import lapack
from tinyjax.primitives.determinants import Det
from tinyjax.primitives.factorizations import Geqp3, HouseholderProduct, Lu, LuPivotsToPermutation, Ormqr, Qr
from tinyjax.primitives.matrices import OfMatrices
from tinyjax.primitives.solutions import Stein
from tinyjax.primitives.spectral import Eig, Eigh, Hessenberg, Schur, Svd, Tridiagonal
from tinyjax.primitives.triangular import Cholesky, CholeskyUpdate, SymmetricProduct, TriangularSolve
from tinyjax.primitives.tridiagonal import TridiagonalSolve
from tinyjax.registered.first_order import FIRST_ORDER
from tinyjax.testing import check_laws

#: One of each primitive, and the others.
_FIRST = {example.case.primitive.name: example for example in reversed(EXAMPLES)}


def params(examples: Iterable[Example]) -> list[ParameterSet]:
    """With names; tests of all but one of each primitive take long."""
    return [
        pytest.param(
            example, id=f"{example.name}-{i}",
            marks=() if _FIRST[example.case.primitive.name] is example else pytest.mark.sweep,
        )
        for i, example in enumerate(examples)
    ]  # fmt: skip


BY_NAME = params(EXAMPLES)
#: On GPUs some are computed by the host.
_ON_HOST = (Eig, Schur, Hessenberg, Geqp3)


def operands(example: Example) -> list[HostArray]:
    return example.make(example.case.avals, np.random.default_rng(len(example.name)))


def test_all_of_them_are_here() -> None:
    named = {example.case.primitive.name for example in EXAMPLES}
    assert {cls.name for cls in FIRST_ORDER if issubclass(cls, OfMatrices)} == named | {"geqp3"}


@pytest.mark.sweep
@pytest.mark.parametrize("example", BY_NAME)
def test_values(example: Example) -> None:
    """Those of jax, of compiled code, and of batches."""
    primitive, args = example.case.primitive, operands(example)
    check_value(example.case, args)
    if primitive.name not in ("lu_pivots_to_permutation", "cholesky_update"):
        check_batch(primitive, example.case.avals, np.random.default_rng(1))
    outs = primitive.evaluate(*args)
    for got, expected in zip(tj.jit(lambda *xs: bind(primitive, *xs))(*args), outs, strict=True):
        close(got, expected, expected.dtype)


@pytest.mark.sweep
@pytest.mark.parametrize("example", params(e for e in EXAMPLES if e.order))
def test_derivatives(example: Example) -> None:
    rng = np.random.default_rng(len(example.name))
    args = operands(example)
    check_jvp(example.case, args, rng)
    check_transpose(example.case, args, rng)
    if example.order > 1:
        check_second_order(example.case, args, rng)


@pytest.mark.sweep
@pytest.mark.parametrize("example", BY_NAME)
def test_other_forms(example: Example) -> None:
    """Text, and programs of jax's, both ways."""
    primitive, args = example.case.primitive, operands(example)
    program = tj.make_jaxpr(lambda *xs: bind(primitive, *xs))(*args)
    assert tj.ir.parse(str(program.jaxpr)) == program.jaxpr
    for got, expected in zip(jax.tree.leaves(to_jax(program)(*args)), primitive.evaluate(*args), strict=True):
        close(np.asarray(got), expected, expected.dtype)
    traced = jax.make_jaxpr(lambda *xs: apply(example.case, *xs))(*args)
    try:
        imported = from_jax(traced)
    except UnsupportedError as error:  # rules of jax's own that close over values, or don't take empty matrices
        if primitive.name not in ("det", "pinv") or "custom_jvp_call: the rule of" not in str(error):
            raise
    else:
        found = tj.eval_jaxpr(imported.jaxpr, imported.consts, *args)
        for ours, theirs in zip(found, apply(example.case, *args), strict=True):
            close(ours, np.asarray(theirs), np.asarray(theirs).dtype)
    assert hlo.lower(program, platform="cuda")
    if example.order > 1:  # those of which one triangle is read have the derivatives for symmetric tangents
        one_sided = isinstance(primitive, Cholesky | Eigh)
        check_laws(program, args, skip=("finite_differences", "second_derivatives") if one_sided else ())


DIFFERENT = np.array([[4.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, -2.0]])
BAD: dict[str, HostArray] = {
    "indefinite": DIFFERENT,
    "singular": np.ones((3, 3)),
    "zero": np.zeros((3, 3)),
    "nan": np.where(np.eye(3) > 0, np.nan, DIFFERENT),
    "infinite": np.where(np.eye(3) > 0, np.inf, DIFFERENT),
    "one of two": np.stack([np.eye(3), np.full((3, 3), np.nan)]),
}
SOLVERS: dict[str, tuple[Callable[..., object], Callable[..., object]]] = {
    "cholesky": (lax.linalg.cholesky, linalg.cholesky),
    "lu": (lax.linalg.lu, linalg.lu),
    "solve": (
        lambda x: lax.linalg.triangular_solve(x, x, left_side=True),
        lambda x: linalg.triangular_solve(x, x, left_side=True),
    ),
    "eigh": (lambda x: lax.linalg.eigh(x)[1], lambda x: linalg.eigh(x)[1]),
    "eig": (lambda x: lax.linalg.eig(x)[0], lambda x: linalg.eig(x)[0]),
    "svd": (lambda x: lax.linalg.svd(x, compute_uv=False), lambda x: linalg.svd(x, compute_uv=False)),
    "schur": (lambda x: lax.linalg.schur(x)[0], lambda x: linalg.schur(x)[0]),
    "hessenberg": (lax.linalg.hessenberg, linalg.hessenberg),
    "qr": (lax.linalg.qr, linalg.qr),
    "tridiagonal": (lambda x: lax.linalg.tridiagonal(x)[1], lambda x: linalg.tridiagonal(x)[1]),
    "tridiagonal_solve": (
        lambda x: lax.linalg.tridiagonal_solve(x[..., 0, :], x[..., 1, :], x[..., 2, :], x),
        lambda x: linalg.tridiagonal_solve(x[..., 0, :], x[..., 1, :], x[..., 2, :], x),
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", pytest.param("complex128", marks=pytest.mark.sweep)])
@pytest.mark.parametrize("name", SOLVERS)
def test_bad_matrices(name: str, dtype: str) -> None:
    """nan, infinities and zeros are where jax has them, computed by the host and compiled."""
    ours, theirs = SOLVERS[name]
    for matrix in BAD.values():
        x = matrix.astype(dtype)
        expected = jax.tree.leaves(jax.jit(theirs)(x))
        for found in (ours(x), tj.jit(ours)(x)):
            for got, want in zip(jax.tree.leaves(found), expected, strict=True):
                np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
                finite = np.isfinite(want)
                np.testing.assert_allclose(np.asarray(got)[finite], np.asarray(want)[finite], 1e-4, 1e-5)


@pytest.mark.parametrize(
    ("primitive", "types", "error", "message"),
    [
        (Cholesky(), "float32[2,3]", ShapeError, "cholesky: the operand must be a square matrix"),
        (Cholesky(), "float32[3]", ShapeError, "cholesky: an operand of at least 2 axes is needed"),
        (Cholesky(), "int32[2,2]", TypingError, "cholesky does not accept i32 operands"),
        (Eigh(), "float16[2,2]", TypingError, "Unsupported dtype float16: eigh accepts f32"),
        (Cholesky(), "float16[2,2]", UnsupportedError, "cholesky accepts f32, f64, complex numbers. Convert"),
        (TriangularSolve(True), "float32[2,2] float64[2,2]", TypingError, "the same dtypes"),
        (TriangularSolve(True), "float32[2,2] float32[3,2]", ShapeError, "2 unknowns for 3 equations"),
        (TriangularSolve(), "float32[4,2,2] float32[3,2]", ShapeError, "the axes of batches differ"),
        (CholeskyUpdate(), "float32[2,2] float32[3]", ShapeError, "a vector of the same size"),
        (SymmetricProduct(), "float32[2,3] float32[3,3]", ShapeError, "shapes .m, n. and .m, m."),
        (LuPivotsToPermutation(1), "int32[2]", ShapeError, "at least the number of pivots, 2"),
        (HouseholderProduct(), "float32[2,3] float32[2]", ShapeError, "at least as many rows as columns"),
        (HouseholderProduct(), "float32[3,1] float32[2]", ShapeError, "2 reflections of a matrix with 1 columns"),
        (Ormqr(), "float32[3,2] float32[2] float32[2,2]", ShapeError, "must have 3 rows"),
        (Geqp3(), "float32[3,2] int64[2]", TypingError, "needs indices of int32"),
        (Geqp3(), "float32[3,2] int32[3]", ShapeError, "an index for each of 2 columns"),
        (Eigh(subset_by_index=(0, 1)), "float32[2,2]", UnsupportedError, "all 2 are computed. Slice the result"),
        (Svd(subset_by_index=(1, 2)), "float32[2,3]", UnsupportedError, "subset_by_index"),
        (Schur(True, True), "float32[2,2]", UnsupportedError, "sort_eig_vals"),
        (Hessenberg(), "float32[0,0]", ShapeError, "at least one row"),
        (Tridiagonal(), "float32[0,0]", ShapeError, "at least one row"),
        (TridiagonalSolve(), "float32[2] float32[2] float32[2] float32[3,1]", ShapeError, "each of the 3 rows of b"),
    ],
)
def test_errors(primitive: Primitive, types: str, error: type[TinyjaxError], message: str) -> None:
    with pytest.raises(error, match=message):
        primitive.type_of(*map(aval, types.split()))


def test_derivatives_of_exchanged_columns() -> None:
    """Of matrices with more columns than rows, where jax takes the others for those that there were: A P = Q R."""
    x, t = general([aval("complex128[2,2,3]")] * 2, np.random.default_rng(2))
    (q, r, order), (tq, tr, _) = tj.jvp(lambda x: lax.linalg.qr(x, pivoting=True), (x,), (t,))
    assert np.any(np.sort(order, -1) != order)
    expected = np.take_along_axis(t, np.asarray(order)[:, None], -1)
    np.testing.assert_allclose(np.asarray(tq) @ r + np.asarray(q) @ tr, expected)


def test_derivatives_that_are_not_there() -> None:
    x = np.arange(6.0).reshape(3, 2)
    with pytest.raises(UnsupportedError, match="write full_matrices=False"):
        tj.jvp(lax.linalg.svd, (x,), (x,))
    with pytest.raises(UnsupportedError, match="enable_eigvec_derivs=True"):
        tj.jvp(lax.linalg.eig, (x[:2],), (x[:2],))
    for function in (lax.linalg.svd, lax.linalg.eig):  # what is wrong anyway comes first
        with pytest.raises(ShapeError, match="at least 2 axes"):
            tj.jvp(function, (x[0],), (x[0],))


def test_columns_that_come_first() -> None:
    """Where some columns are fixed, the host does by steps what LAPACK does at once."""
    rng = np.random.default_rng(0)
    for types in ("float64[4,3]", "complex64[3,4]", "float32[2,3,3]", "float64[2,4]"):
        (x,) = general([aval(types)], rng)
        for fixed in ([0, 0, 0, 0], [0, 1, 0, 0], [1, 0, 1, 0], [1, 1, 1, 1]):
            first = np.broadcast_to(np.array(fixed[: x.shape[-1]], np.int32), (*x.shape[:-2], x.shape[-1]))
            compiled = tj.jit(lambda a, p: bind(Geqp3(), a, p))(x, first)
            host = bind(Geqp3(), as_array(x), as_array(first))
            np.testing.assert_array_equal(np.sort(host[1]), np.sort(compiled[1]))
            if sum(fixed) < 2:
                for got, expected in zip(host, compiled, strict=True):
                    close(got, np.asarray(expected), np.asarray(expected).dtype)


def test_derivatives_that_jax_has_not() -> None:
    """By finite differences."""
    rng = np.random.default_rng(0)
    r, w = np.triu(rng.normal(size=(3, 3))) + 3 * np.eye(3), rng.normal(size=3)
    check_laws(tj.make_jaxpr(lambda r, w: lax.linalg.cholesky_update(tj.numpy.triu(r), w))(r, w), (r, w))
    a, c = rng.normal(size=(2, 3)), np.eye(2)
    check_laws(tj.make_jaxpr(lambda a, c: lax.linalg.symmetric_product(a, c, alpha=2.0, beta=0.5))(a, c), (a, c))


@pytest.mark.parametrize("example", BY_NAME)
def test_lowering_for_gpus(example: Example) -> None:
    """No GPU runs it here; it calls the libraries that it should, or the host."""
    primitive, avals = example.case.primitive, example.case.avals
    text = hlo.lower(tj.make_jaxpr(lambda *xs: bind(primitive, *xs))(*avals), platform="cuda")
    assert "lapack_" not in text
    if isinstance(primitive, _ON_HOST) or (isinstance(primitive, Qr) and primitive.pivoting):
        assert "xla_ffi_python_gpu_callback" in text or 0 in avals[0].shape
    elif isinstance(primitive, Det) and avals[0].shape[-1] in (2, 3):
        assert "custom_call" not in text  # which are sums of products
    elif not isinstance(primitive, TriangularSolve | SymmetricProduct | Lu | Stein) and 0 not in avals[0].shape:
        assert "@cu" in text


@pytest.mark.parametrize("dtype", ["float32", pytest.param("complex128", marks=pytest.mark.sweep)])
def test_equations_next_to_singular_ones_have_finite_solutions(dtype: str) -> None:
    """As JAX has them, where the matrix isn't zero."""
    b = np.array([[3.0], [-40.0], [5.0], [2.0]], dtype)
    for diagonal in (np.zeros(4, dtype), np.ones(4, dtype), np.array([1, 0, 1, 1], dtype)):
        solve = functools.partial(tj.lax.linalg.tridiagonal_solve, perturb_singular=True)
        for f in (solve, tj.jit(solve)):
            x = np.asarray(f(diagonal, diagonal, diagonal, b))
            assert np.isfinite(x).all()
            if diagonal.any():
                diagonals = (jnp.asarray(diagonal),) * 3
                expected = linalg.tridiagonal_solve(*diagonals, jnp.asarray(b), perturb_singular=True)
                np.testing.assert_allclose(np.abs(x), np.abs(expected), 1e-2)  # pivots are moved either way


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_solutions_are_those_of_getrs(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is called for one right side only, as it hands small matrices to other threads, and waits for them."""
    getrs = lapack.routine("getrs", np.dtype(dtype))
    called: list[str] = []
    routine = lapack.routine

    def noted(name: str, dtype: DType) -> lapack.Routine:
        called.append(name)
        return routine(name, dtype)

    monkeypatch.setattr(lapack, "routine", noted)
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 4, 7, 8, 17, 33, 64, 130):
        for columns in (1, 2, 3, n, 2 * n + 1):
            for kind in ("regular", "singular", "zero", "nan", "infinite", "graded"):
                a, b = (rng.normal(size=(n, k)) + 1j * rng.normal(size=(n, k)) for k in (n, columns))
                a, b = (x.astype(dtype) if dtype.startswith("c") else x.real.astype(dtype) for x in (a, b))
                if kind == "singular":
                    a[:, -1] = a[:, 0]
                elif kind == "graded":
                    a *= 10.0 ** np.linspace(-8, 8, n, dtype=np.float32)
                elif kind != "regular":
                    (b if kind == "infinite" else a)[:] = {"zero": 0, "nan": np.nan, "infinite": np.inf}[kind]
                factors, pivots = lapack.lu(a)
                expected, _ = getrs(factors, pivots, b)
                for right in (b, np.asfortranarray(b)):
                    called.clear()
                    found = lapack.solve_by_factors(factors, pivots, right)
                    # Not to the bit: with several threads getrs divides columns, and kernels treat the last ones apart.
                    finite = np.isfinite(expected)
                    np.testing.assert_array_equal(np.isfinite(found), finite)
                    error, size = np.abs(found[finite] - expected[finite]), np.abs(expected[finite]).max(initial=0.0)
                    assert np.all(error <= 100 * np.finfo(dtype).eps * size)
                    assert ("getrs" in called) == (columns == 1)
