"""What types say within shard_map, by JAX's names, and how arguments lie there; sums yet to be made as operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
from tinyjax import Array, P, lax
from tinyjax.errors import InputError, ShardingError, TypingError
from tinyjax.sharding import AxisType, ManualAxisType, Mesh, NamedSharding

tnp = tj.numpy
TYPES = {
    "explicit": (AxisType.Explicit,) * 2,
    "auto": (AxisType.Auto,) * 2,
    "mixed": (AxisType.Explicit, AxisType.Auto),
}
X = np.arange(64.0).reshape(8, 8)
SUM = P(unreduced={"x"})


def mesh_of(types: tuple[AxisType, ...] = TYPES["explicit"]) -> Mesh:
    return tj.make_mesh((2, 2), ("x", "y"), types)


@pytest.mark.parametrize("names", [{}, {"varying": {"x"}}, {"varying": {"x"}, "unreduced": {"y"}}, {"reduced": {"x"}}])
def test_the_type_along_manual_axes_is_jaxs(names: dict[str, set[str]]) -> None:
    of_jax: Callable[..., jax.sharding.ManualAxisType] = jax.sharding.ManualAxisType
    ours, theirs = ManualAxisType(**names), of_jax(**names)
    for found, wanted in ((ours, theirs), (ours.to_ct_mat(), theirs.to_ct_mat())):
        assert (found.varying, found.unreduced, found.reduced) == (wanted.varying, wanted.unreduced, wanted.reduced)
    assert (ours.empty, ours.vur) == (theirs.empty, theirs.vur)
    mesh = mesh_of((AxisType.Manual, AxisType.Manual))
    assert ours.invarying(mesh) == {"x", "y"} - theirs.vur
    assert {ours, ours.update(varying=ours.varying), ManualAxisType(**names)} == {ours}
    struct = tj.ShapeDtypeStruct((4,), "f32", manual_axis_type=ours)
    assert struct.mat == struct.aval.mat == tj.typeof(struct).mat == ours
    assert tj.eval_shape(lambda x: -x, tj.ShapedArray((4,), "f32", varying=("x",))).mat.varying == {"x"}


def test_bad_types_along_manual_axes() -> None:
    with pytest.raises(TypingError, match="says one thing along an axis, but two along 'x'"):
        ManualAxisType(varying={"x"}, reduced={"x"})
    bad: Any = {"x"}
    with pytest.raises(InputError, match=r"manual_axis_type is sharding.ManualAxisType\(varying=\{'x'\}\)"):
        tj.ShapeDtypeStruct((4,), "f32", manual_axis_type=bad)


@pytest.mark.sweep
@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("axes", [{"x"}, {"y"}])
@pytest.mark.parametrize("spec", [("x", "y"), ("y", "x"), (("x", "y"), None), (None, "x")])
def test_types_within_are_jaxs(jit: bool, kind: str, axes: set[str], spec: tuple[Any, ...]) -> None:
    """Of an argument and of what is computed from it, where some axes of the mesh are left; and how results lie."""
    if kind == "mixed" and not jit:
        pytest.skip("jax 0.10 says nothing of Explicit axes there, as it does within jit")
    part = P(*[name if name in axes else None for name in spec])
    types = TYPES[kind]

    def run(m: Any, mesh: Any, made: Any) -> list[object]:
        seen: list[object] = []
        own = m.P(*part.partitions)

        def noted(x: Any) -> Any:
            found = m.typeof(x)
            lies = found.sharding
            seen.append((found.shape, lies.spec.partitions, [t.name for t in lies.mesh.axis_types], found.mat.varying))
            return x

        def f(x: Any) -> Any:
            return noted(noted(x) * 2).T

        turned = m.P(*(*own, None, None)[1::-1])
        mapped = m.shard_map(f, mesh=mesh, in_specs=own, out_specs=turned, axis_names=axes)
        with m.set_mesh(mesh):
            out = (m.jit(mapped) if jit else mapped)(m.device_put(X, made))
        np.testing.assert_array_equal(np.asarray(out), 2 * X.T)
        if kind == "explicit":
            seen.append(out.sharding.spec.partitions)
        return seen

    theirs = jax.make_mesh((2, 2), ("x", "y"), tuple(jax.sharding.AxisType[t.name] for t in types))
    wanted = run(jax, theirs, jax.NamedSharding(theirs, jax.P(*spec)))
    mesh = mesh_of(types)
    assert run(tj, mesh, NamedSharding(mesh, P(*spec))) == wanted


def test_where_no_axis_is_left_the_type_says_all() -> None:
    seen: list[object] = []

    def f(x: Array) -> Array:
        seen.append(tj.typeof(x))
        return x

    tj.shard_map(f, mesh=mesh_of(), in_specs=P("x"), out_specs=P("x"))(tnp.asarray(X))
    (found,) = seen
    assert isinstance(found, tj.ShapeDtypeStruct)
    assert found == tj.ShapedArray((4, 8), "f64", varying=("x",))
    assert isinstance(found.sharding, NamedSharding)
    assert found.sharding.mesh.are_all_axes_manual
    assert str(found) == "f64[4,8]{V:x}"


@pytest.mark.parametrize("jit", [False, True])
def test_nested_maps_divide_as_arguments_lie(jit: bool) -> None:
    """Without in_specs, along an Explicit axis that the outer one has left."""

    def inner(x: Array) -> Array:
        assert tj.typeof(x).mat.varying == {"x", "y"}
        return x * 3

    def outer(x: Array) -> Array:
        return tj.shard_map(inner, out_specs=P(None, "y"), axis_names={"y"})(x)

    mesh = mesh_of()
    with tj.set_mesh(mesh):
        f = tj.shard_map(outer, out_specs=P("x"), axis_names={"x"})
        out = (tj.jit(f) if jit else f)(tj.device_put(X, P("x", "y")))
    np.testing.assert_array_equal(out, 3 * X)
    assert isinstance(out.sharding, NamedSharding)
    assert out.sharding.spec == P("x", "y")


#: What is the same on all devices before it is taken as a sum: of constants XLA knows least.
OPERANDS: dict[str, Callable[[Array], Array]] = {
    "argument": lambda x: x,
    "computed": lambda x: 2 * x - x,
    "ones": lambda x: tnp.ones(8),
    "iota": lambda x: tnp.arange(8.0) + 1,
    "closed over": lambda x: tnp.asarray(X[0]),
    "divided": lambda x: tj.reshard(x, P("x")),
    "a sum": lambda x: tj.reshard(x, SUM),
}
ROUNDS: dict[str, Callable[[Callable[[Array], Array]], Callable[[Array], Array]]] = {
    "eager": lambda f: f,
    "jit": tj.jit,
    "twice": lambda f: tj.jit(tj.jit(f)),
    "scan": lambda f: tj.jit(lambda x: lax.scan(lambda c, _: (c + f(x), None), tnp.zeros(8), length=1)[0]),
    "cond": lambda f: tj.jit(lambda x: lax.cond(x[0] < 9, f, f, x)),
}


@pytest.mark.parametrize("around", ROUNDS)
@pytest.mark.parametrize("name", OPERANDS)
def test_what_is_taken_as_a_sum_is_the_sum(name: str, around: str) -> None:
    """The sum of what devices get is the value, wherever it comes from."""
    mesh, made = mesh_of(), OPERANDS[name]
    x = np.arange(8.0) + 1
    total = tj.shard_map(lambda a: lax.psum(a, "x"), mesh=mesh, in_specs=SUM, out_specs=P())
    with tj.set_mesh(mesh):
        found = ROUNDS[around](lambda a: total(made(a)))(tj.device_put(x, P()))
        np.testing.assert_array_equal(found, made(tj.device_put(x, P())))


@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("outer", [False, True])
def test_gradients_by_what_is_reduced(inner: bool, outer: bool) -> None:
    """The cotangent of the result is a constant, and a sum yet to be made."""
    mesh = mesh_of()
    with tj.set_mesh(mesh):
        x = tj.device_put(X[0], P(reduced={"x"}))
        square = tj.shard_map(lambda a: a * a, out_specs=P(reduced={"x"}))
        square = tj.jit(square) if inner else square
        gradient = tj.grad(lambda a: square(a).sum())
        found = (tj.jit(gradient) if outer else gradient)(x)
        assert isinstance(found.sharding, NamedSharding)
        assert found.sharding.spec == P(None, unreduced={"x"})
        np.testing.assert_array_equal(tj.reshard(found, P()), 2 * X[0])


@pytest.mark.parametrize("jit", [False, True])
def test_without_in_specs_sums_are_taken_as_they_lie(jit: bool) -> None:
    mesh = mesh_of()
    with tj.set_mesh(mesh):

        def f(a: Array, b: Array) -> Array:
            assert (tj.typeof(a).mat.unreduced, tj.typeof(b).mat.reduced) == (frozenset("x"), frozenset("x"))
            return a * b

        args = tj.device_put(X[0], SUM), tj.device_put(X[1], P(reduced={"x"}))
        mapped = tj.shard_map(f, out_specs=SUM)
        found = (tj.jit(mapped) if jit else mapped)(*args)
        np.testing.assert_array_equal(tj.reshard(found, P()), X[0] * X[1])
        with pytest.raises(ShardingError, match="unreduced can only be used where all axes of the mesh are manual"):
            tj.shard_map(lambda a: a, out_specs=SUM, axis_names={"x"})(args[0])


def test_jax_has_the_same_sums() -> None:
    mesh = jax.make_mesh((2, 2), ("x", "y"))
    with jax.set_mesh(mesh):
        total = jax.jit(
            jax.shard_map(lambda a: jax.lax.psum(a, "x"), in_specs=jax.P(unreduced={"x"}), out_specs=jax.P())
        )
        made = jax.device_put(jnp.ones(8), jax.P())
        np.testing.assert_array_equal(np.asarray(total(jax.reshard(made, jax.P(unreduced={"x"})))), np.ones(8))


BIASED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "operator": lambda w, b, x: x @ w + b,
    "where": lambda w, b, x: tnp.where(x > 0.0, x @ w, b),
    "mapped": lambda w, b, x: tj.vmap(lambda x: x @ w + b)(x),
    "mapped, of lax": lambda w, b, x: tj.vmap(lambda x: lax.mul(x @ w, b))(x),
    "mapped, a part": lambda w, b, x: tj.vmap(lambda x: tnp.maximum(x @ w, b[0]))(x),
    "function": lambda w, b, x: tj.jit(lambda x, b: x * b[None])(x @ w, b),
    "loop": lambda w, b, x: lax.scan(lambda h, _: (tnp.tanh(h @ w) + b, None), x, None, length=3)[0],
}


@pytest.mark.sweep
@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("name", BIASED)
def test_devices_add_up_what_is_asked_for_and_not_its_repetitions(name: str, within: bool) -> None:
    """What all devices have is repeated for the rows of each: of its gradient, they send each other its own size."""
    mesh = tj.make_mesh((4,), ("x",))
    specs = (P(), P(), P("x"))
    w, b, x = np.linspace(-1.0, 1.0, 16).reshape(4, 4), np.linspace(0.1, 1.0, 4), np.linspace(-1.0, 1.0, 64)
    args = (w, b, x.reshape(16, 4))

    def loss(w: Any, b: Any, x: Any) -> Any:
        return lax.pmean(tnp.mean(BIASED[name](w, b, x) ** 2), "x")

    if within:
        f = tj.shard_map(tj.grad(loss, argnums=(0, 1)), mesh=mesh, in_specs=specs, out_specs=(P(), P()))
    else:
        f = tj.grad(tj.shard_map(loss, mesh=mesh, in_specs=specs, out_specs=P()), argnums=(0, 1))
    report = tj.tools.partition(tj.make_jaxpr(f)(*args), mesh, specs)
    assert {c.bytes for c in report.written} <= {8, b.nbytes, w.nbytes}
    expected = tj.grad(lambda w, b, x: tnp.mean(BIASED[name](w, b, x) ** 2), argnums=(0, 1))(*args)
    for found, wanted in zip(tj.jit(f)(*args), expected, strict=True):
        np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-12, atol=1e-14)


COLLECTIVES: dict[str, Callable[[Any], Any]] = {
    "psum": lambda x: lax.psum(x, "one"),
    "pmax": lambda x: lax.psum(x * lax.pmax(lax.stop_gradient(x), "one"), "one"),
    "all_gather": lambda x: lax.pmean(lax.all_gather(x, "one", tiled=True), "one"),
    "all_gather, untiled": lambda x: lax.pmean(lax.all_gather(x, "one"), "one")[0],
    "psum_scatter": lambda x: lax.pmean(lax.psum_scatter(x, "one", tiled=True), "one"),
    "all_to_all": lambda x: lax.pmean(lax.all_to_all(x, "one", 0, 1, tiled=True), "one"),
    "ppermute": lambda x: lax.pmean(lax.ppermute(x, "one", [(0, 0)]), "one"),
    "ppermute, of nothing": lambda x: lax.pmean(lax.ppermute(x, "one", []), "one"),
    "axis_index": lambda x: lax.pmean(x * (1.0 + lax.axis_index("one")), "one"),
}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_a_device_by_itself_where_an_axis_is_left_to_xla(name: str) -> None:
    """Of such a sum, XLA's partitioner stops with an error; JAX's programs, too."""
    mesh = tj.make_mesh((1, 4), ("one", "x"), (AxisType.Auto,) * 2)

    def loss(w: Any, x: Any) -> Any:
        def local(w: Any, x: Any) -> Any:
            return COLLECTIVES[name](tnp.tanh(lax.with_sharding_constraint(x @ w, P(None, "x"))) * x)

        specs = (P(), P("one"))
        return tnp.sum(tj.shard_map(local, mesh=mesh, in_specs=specs, out_specs=P(), axis_names={"one"})(w, x) ** 2)

    w = tj.device_put(np.linspace(-1.0, 1.0, 64).reshape(8, 8), NamedSharding(mesh, P(None, "x")))
    f = tj.value_and_grad(loss, argnums=(0, 1))
    found, expected = tj.jit(f)(w, X / 64.0), f(np.asarray(w), X / 64.0)
    for ours, wanted in zip(tj.tree.leaves(found), tj.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(np.asarray(ours), np.asarray(wanted), rtol=1e-12, atol=1e-12)
