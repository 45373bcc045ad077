"""`axis_index_groups`: held to what each group does by itself, and what is sent to what JAX's programs send."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
from tests.tools.hlo_text import Told, told
from tinyjax import P, lax, tools
from tinyjax.errors import AxisNameError, LoweringError, ShapeError
from tinyjax.interop.jax import from_jax, to_jax
from tinyjax.ir import parse_closed
from tinyjax.primitives.exchanges import AllGather, AllToAll, ReduceScatter
from tinyjax.sharding import AbstractMesh, Mesh
from tinyjax.tools.partitioning import Collective

EVEN = ((0, 3), (2, 1), (5, 4))
UNEVEN = [[0, 3, 5], [1], [4, 2]]
X = np.random.default_rng(0).normal(size=(6, 2, 4, 6))
MESHES = pytest.mark.parametrize("devices", [False, pytest.param(True, marks=pytest.mark.sweep)])
Function = Callable[..., Any]


def alone(f: Function, groups: Any) -> Any:
    """Each group by itself."""
    found: dict[int, Any] = {}
    for group in groups:
        outs = tj.vmap(lambda a: f(a, "i", None), axis_name="i")(X[list(group)])
        found.update(zip(group, np.asarray(outs), strict=True))
    return np.stack([found[i] for i in range(len(X))])


FUNCTIONS: dict[str, Function] = {
    "psum": lambda a, name, groups: lax.psum(a, name, axis_index_groups=groups),
    "pmean": lambda a, name, groups: lax.pmean(a, name, axis_index_groups=groups),
    "pmax": lambda a, name, groups: lax.pmax(a, name, axis_index_groups=groups),
    "pmin": lambda a, name, groups: lax.pmin(a, name, axis_index_groups=groups),
    "all_gather": lambda a, name, groups: lax.all_gather(a, name, axis=1, axis_index_groups=groups),
    "gather_tiled": lambda a, name, groups: lax.all_gather(a, name, axis=2, tiled=True, axis_index_groups=groups),
    "psum_scatter": lambda a, name, groups: lax.psum_scatter(a, name, axis_index_groups=groups),
    "scatter_tiled": lambda a, name, groups: lax.psum_scatter(
        a, name, scatter_dimension=1, tiled=True, axis_index_groups=groups
    ),
    "all_to_all": lambda a, name, groups: lax.all_to_all(a, name, 0, 2, axis_index_groups=groups),
    "exchange_tiled": lambda a, name, groups: lax.all_to_all(a, name, 1, 2, tiled=True, axis_index_groups=groups),
    "back": lambda a, name, groups: lax.all_to_all(a, name, 2, 0, tiled=True, axis_index_groups=groups),
}


@pytest.mark.sweep
@MESHES
@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_group_by_itself(name: str, devices: bool) -> None:
    f = FUNCTIONS[name]
    cases = [EVEN, UNEVEN] if name in ("psum", "pmax", "pmin") else [EVEN]
    mesh = Mesh(tj.devices("cpu")[:6], "x") if devices else AbstractMesh((6,), "x")
    for groups in cases:
        expected = alone(f, groups)

        def one(a: Any, groups: Any = groups) -> Any:
            return f(a[0], "x", groups)[None]

        mapped = tj.vmap(lambda a, groups=groups: f(a, "i", groups), axis_name="i")
        np.testing.assert_allclose(mapped(X), expected, rtol=2.0**-40)
        for check_vma in (True, False):
            divided = tj.jit(tj.shard_map(one, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=check_vma))
            np.testing.assert_allclose(divided(X), expected, rtol=2.0**-40)
            weights = np.random.default_rng(1).normal(size=expected.shape)
            found = tj.grad(lambda a, divided=divided, w=weights: (divided(a) * w).sum())(X)
            wanted = tj.grad(lambda a, mapped=mapped, w=weights: (mapped(a) * w).sum())(X)
            np.testing.assert_allclose(found, wanted, rtol=2.0**-40, atol=1e-14)


def test_groups_that_are_wrong() -> None:
    def on(f: Function, groups: Any) -> Any:
        return tj.vmap(lambda a: f(a, "i", groups), axis_name="i")(X)

    for groups in ([[0, 1]], [[0, 1, 2], [2, 3, 4, 5]], [[0, 1, 2, 3, 4, 6]], []):
        with pytest.raises(AxisNameError, match="axis_index_groups has each of the 6 numbers along 'i' once"):
            on(FUNCTIONS["psum"], groups)
    for name in ("pmean", "all_gather", "psum_scatter", "all_to_all"):
        with pytest.raises(ShapeError, match="the groups of axis_index_groups have the same size"):
            on(FUNCTIONS[name], UNEVEN)
    with pytest.raises(ShapeError, match="the axis of size 2 that is divided has the 3 elements"):
        on(FUNCTIONS["psum_scatter"], [[0, 1, 2], [3, 4, 5]])


GRID, PAIRS = AbstractMesh((2, 4), ("a", "x")), ((0, 2), (3, 1))
#: What is sent along one axis of two, in pairs of devices, as JAX's functions and ours.
SENT: dict[str, Function] = {
    "psum": lambda m, a, groups: m.psum(a, "x", axis_index_groups=groups),
    "pmax": lambda m, a, groups: m.pmax(a, "x", axis_index_groups=groups),
    "all_gather": lambda m, a, groups: m.all_gather(a, "x", axis=1, tiled=True, axis_index_groups=groups),
    "psum_scatter": lambda m, a, groups: m.psum_scatter(
        a, "x", scatter_dimension=1, tiled=True, axis_index_groups=groups
    ),
    "all_to_all": lambda m, a, groups: m.all_to_all(a, "x", 1, 2, tiled=True, axis_index_groups=groups),
}
ALWAYS = ("psum",)


def counted(found: tuple[Collective, ...]) -> Counter[Told]:
    return Counter((c.kind, c.axes, c.bytes, c.times.fixed) for c in found)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in ALWAYS else (pytest.mark.sweep,)) for name in SENT]
)
def test_what_is_sent_is_what_jax_sends(name: str) -> None:
    x, f, spec = np.random.default_rng(2).normal(size=(8, 4, 2)).astype(np.float32), SENT[name], ("a", "x")
    axis_types = (jax.sharding.AxisType.Auto,) * 2
    theirs = jax.jit(
        jax.shard_map(
            lambda a: f(jax.lax, a, PAIRS),
            mesh=jax.make_mesh((2, 4), ("a", "x"), axis_types=axis_types),
            in_specs=jax.P(spec),
            out_specs=jax.P(spec),
            check_vma=False,
        )
    )
    expected = np.asarray(jax.block_until_ready(theirs(x)))
    on_devices = tj.shard_map(
        lambda a: f(lax, a, PAIRS), mesh=Mesh(np.array(tj.devices("cpu")[:8]).reshape(2, 4), ("a", "x")),
        in_specs=P(spec), out_specs=P(spec),
    )  # fmt: skip
    ours = tj.jit(on_devices)
    np.testing.assert_allclose(np.asarray(ours(x)), expected, rtol=2.0**-12)
    text = ours.lower(x).compile().as_text() or ""
    assert told(text, GRID) == told(theirs.lower(x).compile().as_text() or "", GRID)
    report = tools.partition(tj.make_jaxpr(on_devices)(x), GRID, (P(spec),))
    assert report.collectives is not None
    assert counted(report.collectives) == counted(report.written) == told(text, GRID)
    assert all(not c.whole and c.size == 2 for c in report.written)


def test_groups_of_several_sizes_are_one_reduction() -> None:
    def f(a: Any) -> Any:
        return lax.psum(a, "x", axis_index_groups=[[3], [0, 2, 1]])

    mesh = Mesh(np.array(tj.devices("cpu")[:8]).reshape(2, 4), ("a", "x"))
    mapped = tj.shard_map(f, mesh=mesh, in_specs=P(("a", "x")), out_specs=P(("a", "x")))
    x = np.arange(8.0)
    np.testing.assert_array_equal(tj.jit(mapped)(x), [3.0, 3.0, 3.0, 3.0, 15.0, 15.0, 15.0, 7.0])
    report = tools.partition(tj.make_jaxpr(mapped)(x), GRID, (P(("a", "x")),))
    assert report.collectives is not None
    assert counted(report.collectives) == counted(report.written) == Counter({("all-reduce", ("x",), 8, 1): 1})


@pytest.mark.parametrize(("axis_names", "name"), [({"x"}, "x"), ({"a", "x"}, ("x", "a"))])
@pytest.mark.parametrize("kind", ["psum", "all_gather"])
def test_of_some_axes_and_of_several(axis_names: set[str], name: Any, kind: str) -> None:
    """Partly manual, and groups across two axes: on the host as on devices."""
    groups = [[0, 2], [3, 1]] if name == "x" else [[0, 7, 2, 4], [1, 3, 6, 5]]
    kinds: dict[str, Function] = {
        "psum": lambda a: lax.psum(a, name, axis_index_groups=groups),
        "all_gather": lambda a: lax.all_gather(a, name, axis_index_groups=groups, tiled=True),
    }
    x, found = np.random.default_rng(3).normal(size=(8, 3)), []
    for mesh in (GRID, Mesh(np.array(tj.devices("cpu")[:8]).reshape(2, 4), ("a", "x"))):
        f = tj.shard_map(kinds[kind], mesh=mesh, in_specs=P(name), out_specs=P(name), axis_names=axis_names)
        f = tj.jit(f)
        weights = np.random.default_rng(4).normal(size=f(x).shape)
        found.append([np.asarray(f(x)), np.asarray(tj.grad(lambda a, f=f, w=weights: (f(a) * w).sum())(x))])
    for on_host, on_devices in zip(*found, strict=True):
        np.testing.assert_allclose(on_devices, on_host, rtol=2.0**-40, atol=1e-14)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_over_another_axis_and_in_programs(name: str) -> None:
    """A batch of what is mapped, tangents, and a program that is printed, read, and mapped then."""
    f, xs = FUNCTIONS[name], np.stack([X, X[::-1] + 1.0], 3)

    def one(a: Any) -> Any:
        return f(a, "i", EVEN)

    mapped = tj.vmap(one, axis_name="i")
    expected = np.stack([np.asarray(mapped(xs[..., k, :])) for k in range(2)], 1)
    inner = tj.vmap(tj.vmap(one, in_axes=2, out_axes=0), axis_name="i")
    np.testing.assert_allclose(inner(xs), expected, rtol=2.0**-40)
    outer = tj.vmap(mapped, in_axes=3, out_axes=1)
    np.testing.assert_allclose(outer(xs), expected, rtol=2.0**-40)
    if name not in ("pmax", "pmin"):
        np.testing.assert_allclose(tj.jvp(mapped, (X,), (X,))[1], mapped(X), rtol=2.0**-40)
    programs = []
    tj.vmap(lambda a: programs.append(tj.make_jaxpr(one)(a)), axis_name="i")(X)
    again = parse_closed(str(programs[0]))
    assert again == programs[0]
    read = tj.vmap(lambda a: tj.eval_jaxpr(again.jaxpr, again.consts, a)[0], axis_name="i")
    np.testing.assert_allclose(read(X), mapped(X), rtol=2.0**-40)


def test_axes_that_no_equation_can_name_together() -> None:
    groups = [[0, 5], [1, 3], [2, 4]]
    for name in ("psum", "pmax", "all_gather", "scatter_tiled", "exchange_tiled"):
        f = {**FUNCTIONS, "scatter_tiled": FUNCTIONS["back"]}[name]
        found = tj.vmap(tj.vmap(lambda a, f=f: f(a, ("i", "j"), groups), axis_name="j"), axis_name="i")
        both = found(X.reshape(2, 3, *X.shape[1:]))
        np.testing.assert_allclose(np.asarray(both).reshape(6, *both.shape[2:]), alone(f, groups), rtol=2.0**-40)


def test_what_is_the_same_for_all() -> None:
    for groups, sizes in ((EVEN, [2] * 6), (UNEVEN, [3, 1, 2, 3, 2, 3])):
        found = tj.vmap(lambda _, g=groups: lax.psum(np.float64(1.0), "i", axis_index_groups=g), axis_name="i")
        np.testing.assert_array_equal(found(np.arange(6)), sizes)
    tj.vmap(lambda _: [0.0] * int(lax.psum(1, "i", axis_index_groups=EVEN)), axis_name="i")(np.arange(6))


@pytest.mark.sweep
def test_programs_from_jax_and_for_jax() -> None:
    mesh = jax.make_mesh((4,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    x = np.random.default_rng(5).normal(size=(8, 4, 2)).astype(np.float32)
    for f in SENT.values():
        theirs = jax.jit(
            jax.shard_map(
                lambda a, f=f: f(jax.lax, a, PAIRS), mesh=mesh, in_specs=jax.P("x"), out_specs=jax.P("x"),
                check_vma=False,
            )
        )  # fmt: skip
        expected = np.asarray(jax.block_until_ready(theirs(x)))
        program = from_jax(jax.make_jaxpr(theirs)(x))
        np.testing.assert_allclose(np.asarray(tj.eval_jaxpr(program.jaxpr, program.consts, x)[0]), expected, rtol=1e-5)
        for check_vma in (True, False):
            ours = tj.shard_map(
                lambda a, f=f: f(lax, a, PAIRS), mesh=AbstractMesh((4,), "x"), in_specs=P("x"), out_specs=P("x"),
                check_vma=check_vma,
            )  # fmt: skip
            back = jax.jit(to_jax(tj.make_jaxpr(ours)(x)))
            np.testing.assert_allclose(jax.block_until_ready(back(x)), expected, rtol=1e-5)


@pytest.mark.sweep
@MESHES
def test_extremes_have_derivatives(devices: bool) -> None:
    """That of the maximum over all of an array, where several devices have it, too."""
    mesh = Mesh(tj.devices("cpu")[:4], "x") if devices else AbstractMesh((4,), "x")
    x = np.array([[1.0, 5.0], [5.0, 2.0], [0.0, 5.0], [3.0, -1.0]])
    kinds: tuple[tuple[Function, Function], ...] = ((lax.pmax, tj.numpy.max), (lax.pmin, tj.numpy.min))
    for among, along in kinds:
        for check_vma in (True, False):
            f = tj.shard_map(
                lambda a, among=among: among(a * a[:, :1], "x"), mesh=mesh, in_specs=P("x"), out_specs=P(None),
                check_vma=check_vma,
            )  # fmt: skip
            weights = np.array([[2.0, 3.0]])

            def alone(a: Any, along: Function = along, weights: Any = weights) -> Any:
                return (along(a * a[:, :1], 0) * weights).sum()

            found = tj.grad(lambda a, f=f, w=weights: (tj.jit(f)(a) * w).sum())(x)
            np.testing.assert_allclose(found, tj.grad(alone)(x), rtol=2.0**-40)
            moved = tj.jvp(tj.jit(f), (x,), (x,))[1]
            np.testing.assert_allclose((moved * weights).sum(), tj.jvp(alone, (x,), (x,))[1], rtol=2.0**-40)


def test_programs_whose_groups_are_wrong() -> None:
    aval = tj.ir.ShapedArray((4, 4), "float32")
    for groups in (((0, 0),), ((0, 2),), ((0, 1), ())):
        with pytest.raises(AxisNameError, match="axis_index_groups has each number from 0 once"):
            AllGather("i", 2, 0, groups).type_of(aval)
    for primitive in (AllGather("i", 3, 0, PAIRS), ReduceScatter("i", 4, 0, PAIRS), AllToAll("i", 4, 0, 1, PAIRS)):
        with pytest.raises(ShapeError, match=r"each group of axis_index_groups has [34] elements here"):
            primitive.type_of(aval)
    programs = []
    tj.vmap(
        lambda a: programs.append(tj.make_jaxpr(lambda b: FUNCTIONS["psum"](b, "i", EVEN))(a)), axis_name="i"
    )(X)  # fmt: skip
    (program,) = programs

    def again(a: Any) -> Any:
        return tj.eval_jaxpr(program.jaxpr, program.consts, a)

    with pytest.raises(AxisNameError, match="staged with axis_index_groups of 6 elements; here there are 4"):
        tj.vmap(again, axis_name="i")(X[:4])
    mesh = AbstractMesh((4,), "i")
    mapped = tj.shard_map(lambda a: again(a[0]), mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=False)
    with pytest.raises(LoweringError, match="axis_index_groups of 6 elements are along i, which have 4"):
        tj.jit(mapped).lower(X[:4]).as_text()
