"""Products of vectors, matrices and tensors, and einsum, against jax.numpy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinyjax.numpy as tnp
from tests.numpy.oracle import DTYPES, agree, check, close, numbers, weak
from tinyjax import grad, make_jaxpr, vmap
from tinyjax.errors import InputError, ShapeError
from tinyjax.ir.dtypes import HostArray

SHAPES = [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)),
          ((5, 2, 3), (5, 3, 4)), ((1, 2, 3), (5, 3, 4)), ((5, 1, 2, 3), (4, 3, 2)), ((3,), (2, 3, 4)),
          ((2, 4, 3), (3,)), ((1, 1, 2, 3), (1, 3, 1)), ((0, 3), (3, 2)), ((2, 0), (0, 2))]  # fmt: skip


@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_matmul(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    x, y = numbers("float32", *left), numbers("float32", *right, seed=1)
    check("matmul", x, y)
    agree(tnp.asarray(x) @ y, jnp.asarray(x) @ y)


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype: str) -> None:
    x, y, z = numbers(dtype, 2, 3), numbers(dtype, 3, 2, seed=1), numbers("float32", 3, 2)
    expected = jax.jit(lambda x, y, z: (x @ y, jnp.einsum("ij,jk->k", x, y), jnp.dot(x, z), jnp.vdot(x, y)))(x, y, z)
    agree((tnp.matmul(x, y), tnp.einsum("ij,jk->k", x, y), tnp.dot(x, z), tnp.vdot(x, y)), expected)


def test_weak_types() -> None:
    (x, jx), y = weak(2.0, 3), np.ones(3, np.float32)
    agree(tnp.dot(x, x), jnp.dot(jx, jx))
    agree(tnp.dot(x, y), jnp.dot(jx, y))
    agree(tnp.einsum("i->", x), jnp.einsum("i->", jx))


@pytest.mark.parametrize("shapes", [((3,), (3,)), ((), (2, 3)), ((2, 3), (4, 3, 2)), ((2, 3), (3,)), ((3,), (4, 3, 2))])
def test_dot_inner_outer_kron(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    x, y = numbers("float64", *shapes[0]), numbers("float64", *shapes[1], seed=1)
    check("dot", x, y)
    check("outer", x, y)
    check("kron", x, y)
    z = np.moveaxis(y, -2, -1) if y.ndim > 1 and x.ndim else y
    check("inner", x, z)


@pytest.mark.parametrize("axes", [0, 1, 2, (1, 0), ([0, 1], [1, 0]), ((-1,), (0,)), ((), ())])
def test_tensordot(axes: int) -> None:
    check("tensordot", numbers("float32", 3, 3), numbers("float32", 3, 3, seed=1), axes)


def test_vectors() -> None:
    x, y = numbers("complex64", 4, 3), numbers("complex64", 1, 3, seed=1)
    check("vecdot", x, y)
    check("vecdot", x.T, y.T, axis=0)
    agree(tnp.cross(x, y), jnp.cross(x, np.broadcast_to(y, x.shape)))
    check("cross", x, x[::-1], axisc=0)


@pytest.mark.filterwarnings("ignore:Support for 2-dimensional vectors:DeprecationWarning")
def test_cross_products_in_the_plane() -> None:
    """jax 0.11 says that it will drop them."""
    x, y = numbers("complex64", 4, 3), numbers("complex64", 1, 3, seed=1)
    agree(tnp.cross(x[:, :2], y[0, :2]), jnp.cross(x[:, :2], np.broadcast_to(y[0, :2], (4, 2))))
    check("cross", x.T[:2], x.T, axis=0)


def test_preferred_element_type_and_precision() -> None:
    x, y = numbers("float32", 2, 3), numbers("float32", 3, 2)
    agree(
        tnp.matmul(x, y, precision="highest", preferred_element_type="float64"),
        jnp.matmul(x, y, precision="highest", preferred_element_type="float64"),
        scale=1e7,
    )
    check("dot", 2, y, preferred_element_type="float64")
    agree(
        tnp.einsum("ij,jk", x, y, preferred_element_type="float64"),
        jnp.einsum("ij,jk", x, y, preferred_element_type="float64"),
        scale=1e7,
    )


EINSUMS = ["ij,jk->ik", "ij,jk", "ij,kj->ik", "ii", "ii->i", "ij->ji", "ij->", "ij,ij->", "ij,ij->ij", "i,j->ij",
           "ij,jk,kl->il", "ij,jk,kl,lm", "...i,...i->...", "i...->...", "ijk,jk->ik", "aab,ab->b", "ij,jj->i",
           "ab,bc,ca->", "a,a,a->a", "iij,jk->ik", ",ij->ij", "ab,cd->abcd", "abc,abc->c", "ij,kl->jl"]  # fmt: skip


@pytest.mark.parametrize("spec", EINSUMS)
def test_einsum(spec: str) -> None:
    ranks = [len(term.replace("...", "zz")) for term in spec.split("->", maxsplit=1)[0].split(",")]
    check("einsum", spec, *[numbers("float64", *[3] * rank, seed=i) for i, rank in enumerate(ranks)])


def _reference(spec: str, *operands: HostArray) -> HostArray:
    """NumPy's einsum."""
    return np.asarray(np.einsum(spec, *[x.astype(np.float64) for x in operands]))


@given(st.data())
@settings(max_examples=20, deadline=None)
def test_einsums_are_those_of_numpy(data: st.DataObject) -> None:
    names = "abcde"
    sizes = {name: data.draw(st.integers(1, 3)) for name in names}
    terms = data.draw(st.lists(st.text(names, min_size=0, max_size=3), min_size=1, max_size=3))
    used = sorted(set("".join(terms)))
    result = "".join(data.draw(st.permutations(used))[: data.draw(st.integers(0, len(used)))])
    spec = ",".join(terms) + "->" + result
    operands = [numbers("float64", *(sizes[name] for name in term), seed=i) for i, term in enumerate(terms)]
    close(np.asarray(tnp.einsum(spec, *operands)), _reference(spec, *operands), spec)


def test_einsum_with_lists_of_axes() -> None:
    x, y = numbers("float64", 2, 3), numbers("float64", 3, 4)
    check("einsum", x, [0, 1], y, [1, 2], [0, 2])
    check("einsum", x, [0, 1], y, [1, 2])
    check("einsum", x, [..., 1])


@pytest.mark.parametrize("optimize", [True, False, "greedy", [(0, 1), (0, 1)], [(0, 1, 2)]])
def test_the_order_of_an_einsum(optimize: bool) -> None:
    operands = [numbers("float64", 3, 3, seed=i) for i in range(3)]
    expected = _reference("ij,jk,kl->il", *operands)
    close(np.asarray(tnp.einsum("ij,jk,kl->il", *operands, optimize=optimize)), expected)


def test_einsum_path_is_the_cheap_one() -> None:
    x, y, z = np.zeros((100, 100)), np.zeros((100, 100)), np.zeros(100)
    path, _ = tnp.einsum_path("ij,jk,k->i", x, y, z)
    assert path[0] == (1, 2)
    jaxpr = make_jaxpr(lambda x, y, z: tnp.einsum("ij,jk,k->i", x, y, z))(x, y, z)
    assert [str(eqn.outvars[0].aval) for eqn in jaxpr.eqns] == ["f64[100]", "f64[100]"]


def test_axes_of_size_one_are_broadcast() -> None:
    x, y = numbers("float64", 1, 3), numbers("float64", 4, 3)
    close(np.asarray(tnp.einsum("ij,ij->ij", x, y)), _reference("ij,ij->ij", x, y))
    close(np.asarray(tnp.einsum("ij,ij->j", x, y)), _reference("ij,ij->j", x, y))


def test_matmul_repeats_nothing() -> None:
    jaxpr = make_jaxpr(lambda x, y: x @ y)(tnp.zeros((5, 1, 2, 3)), tnp.zeros((4, 3, 2)))
    assert "broadcast" not in str(jaxpr)


def test_derivatives_and_batching() -> None:
    x, y = numbers("float64", 2, 3), numbers("float64", 3, 2)
    agree(
        grad(lambda x: tnp.einsum("ij,ji->i", x, y).sum())(x),
        jax.grad(lambda x: jnp.einsum("ij,ji->i", x, y).sum())(x),
    )
    agree(vmap(tnp.dot, in_axes=(0, 1))(x, y), jax.vmap(jnp.dot, in_axes=(0, 1))(x, y))


@pytest.mark.parametrize(
    ("name", "shapes", "message"),
    [
        ("matmul", ((2, 3), (2, 3)), r"the last axis of f64\[2,3\] must have the size of axis -2 of f64\[2,3\]"),
        ("matmul", ((2, 3), ()), r"needs operands with at least one axis, got f64\[2,3\] and f64\[\]"),
        ("matmul", ((4, 2, 3), (5, 3, 2)), "the batch axes .* can't be broadcast together"),
        ("dot", ((2, 3), (2, 3)), "differ in size"),
        ("vecdot", ((3,), (2,)), "differ in size along axis -1"),
        ("cross", ((4,), (3,)), r"vectors of size 2 or 3, got f64\[4\]"),
    ],
)
def test_errors(name: str, shapes: tuple[tuple[int, ...], tuple[int, ...]], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        getattr(tnp, name)(np.zeros(shapes[0]), np.zeros(shapes[1]))


def test_tensordot_errors() -> None:
    x = np.zeros((2, 3))
    with pytest.raises(ShapeError, match="3 axes can't be summed over"):
        tnp.tensordot(x, x, 3)
    with pytest.raises(ShapeError, match="as many axes of one array as of the other"):
        tnp.tensordot(x, x, ([0], [0, 1]))
    with pytest.raises(ShapeError, match="duplicate value in 'axis'"):
        tnp.tensordot(x, x, ([0, 0], [0, 0]))
    with pytest.raises(ShapeError, match=r"axes \(1,\) of f64\[2,3\] and \(0,\) of f64\[2,3\] differ in size"):
        tnp.tensordot(x, x, 1)


def test_einsum_errors() -> None:
    x = np.zeros((2, 3))
    with pytest.raises(ShapeError, match=r"einsum: 'ij,jk->ik' doesn't go with operands of shapes \(2, 3\), \(2, 3\)"):
        tnp.einsum("ij,jk->ik", x, x)
    with pytest.raises(ShapeError, match="doesn't go with"):
        tnp.einsum("ijk->ik", x)
    with pytest.raises(ShapeError, match=r"are both 'i', and differ in size|doesn't go with"):
        tnp.einsum("ii", x)
    with pytest.raises(InputError, match="at least one operand"):
        tnp.einsum("ij")
    with pytest.raises(InputError, match="a list of its axes"):
        tnp.einsum(x, x)


@pytest.mark.parametrize("matrices", [(3, 4), (2, 3, 4), (1, 3, 4), (0, 4)])
@pytest.mark.parametrize("vectors", [(4,), (2, 4), (1, 4), (5, 2, 4), (0, 4)])
@pytest.mark.parametrize("dtype", ["float32", "complex64", "int32"])
def test_matrices_and_vectors(matrices: tuple[int, ...], vectors: tuple[int, ...], dtype: str) -> None:
    if 0 in vectors[:-1] and len(matrices) == 3 and matrices[0] == 2:
        pytest.skip("2 and 0 don't go together")
    m, v = numbers(dtype, *matrices), numbers(dtype, *vectors, seed=1)
    check("matvec", m, v)
    check("vecmat", v, np.swapaxes(m, -1, -2))


def test_one_matrix_and_many_vectors_are_one_product() -> None:
    m, v = np.ones((3, 4)), np.ones((5, 4))
    for program in (make_jaxpr(tnp.matvec)(m, v), make_jaxpr(tnp.vecmat)(v, m.T), make_jaxpr(tnp.vecmat)(v[0], m.T)):
        assert {eqn.primitive.name for eqn in program.jaxpr.eqns} <= {"dot_general", "transpose"}
