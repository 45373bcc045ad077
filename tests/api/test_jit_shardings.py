"""`in_shardings` and `out_shardings` of `jit`, compared with JAX's."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.meshes.cases import jax_sharding
from tinyjax import NamedSharding, P
from tinyjax.errors import DonationWarning, InputError, ReplicationWarning, ShardingError, TreeError
from tinyjax.meshes import AbstractMesh, AxisType, Mesh

MESH = Mesh(np.array(tj.devices("cpu"), object).reshape(4, 2), ("x", "y"))
A = np.arange(48.0).reshape(8, 6)
B = np.linspace(-1.0, 1.0, 24).reshape(6, 4)
IN = [(P("x"), P(None, "y")), (P("x", "y"), P("y")), (P(), P("y", "x")), (P(("x", "y")), P())]
OUT = [P(), P("x"), P("y", "x"), P(None, "x"), None]


def on(spec: P | None) -> Any:
    return None if spec is None else NamedSharding(MESH, spec)


def of_jax(spec: P | None) -> Any:
    return None if spec is None else jax_sharding(NamedSharding(MESH, spec))


def product(x: Any, y: Any) -> Any:
    return x @ y


@pytest.mark.parametrize("ins", IN, ids=str)
@pytest.mark.parametrize("out", OUT, ids=str)
def test_arguments_and_results_lie_as_it_is_said(ins: tuple[P, P], out: P | None) -> None:
    ours = tj.jit(product, in_shardings=tuple(map(on, ins)), out_shardings=on(out))
    theirs = jax.jit(product, in_shardings=tuple(map(of_jax, ins)), out_shardings=of_jax(out))
    expected = jax.block_until_ready(theirs(A, B))  # or its exchanges might meet ours on the threads of the CPU
    x, y = (tj.device_put(value, on(spec)) for value, spec in zip((A, B), ins, strict=True))
    for args in ((A, B), (A, B), (x, y), (x, y), (x, B), (tnp.asarray(A), y)):
        found = ours(*args)
        np.testing.assert_allclose(np.asarray(found), A @ B, rtol=1e-12)
        assert found.devices() == set(tj.devices("cpu"))
        if out is not None:
            assert found.sharding.is_equivalent_to(on(out), 2)
            where = {shard.device.id: shard.index for shard in found.addressable_shards}
            assert where == {shard.device.id: shard.index for shard in expected.addressable_shards}


def test_prefixes_of_trees() -> None:
    def f(p: Any, x: Any) -> Any:
        return {"h": x @ p["w"], "p": (p["b"], p["w"])}

    shardings = ({"w": on(P("y")), "b": None}, on(P("x")))
    g = tj.jit(f, in_shardings=shardings, out_shardings={"h": on(P("x")), "p": on(P())})
    found: Any = g({"w": B, "b": np.float64(2.0)}, A)
    np.testing.assert_allclose(np.asarray(found["h"]), A @ B, rtol=1e-12)
    assert found["h"].sharding == on(P("x"))
    assert [leaf.sharding for leaf in found["p"]] == [on(P())] * 2
    assert tj.jit(product, in_shardings=on(P()))(A, B).is_fully_replicated
    lists: Any = [on(P("x")), None]
    np.testing.assert_allclose(np.asarray(tj.jit(product, in_shardings=lists)(A, B)), A @ B, rtol=1e-12)


def test_static_captured_and_donated_arguments() -> None:
    w = tj.device_put(B, on(P("y")))
    f = tj.jit(lambda n, x: (x @ w) * n, static_argnums=0, in_shardings=(on(P("x")),), donate_argnums=1)
    for first in (True, False, False):
        x = tj.device_put(A, on(P("x")))
        with pytest.warns(DonationWarning, match="argument x of") if first else nullcontext():
            y = f(3, x)
        np.testing.assert_allclose(np.asarray(y), 3 * (A @ B), rtol=1e-12)
        assert not x.is_deleted()  # no result is of its size


def test_transformed() -> None:
    f = tj.jit(lambda x: tnp.sum(tnp.sin(x) ** 2), in_shardings=on(P("x", "y")))
    x = tj.device_put(A, on(P("x", "y")))
    np.testing.assert_allclose(np.asarray(tj.grad(f)(x)), np.sin(2 * A), rtol=1e-9, atol=1e-12)
    assert tj.grad(f)(x).sharding == on(P("x", "y"))
    outer = tj.jit(tj.grad(f), in_shardings=on(P("x", "y")), out_shardings=on(P("y")))
    np.testing.assert_allclose(np.asarray(outer(A)), np.sin(2 * A), rtol=1e-9, atol=1e-12)
    assert outer(A).sharding == on(P("y"))
    np.testing.assert_allclose(np.asarray(tj.vmap(f)(np.stack([A, A]))), [np.sum(np.sin(A) ** 2)] * 2, rtol=1e-9)


def test_lowered_and_compiled() -> None:
    f = tj.jit(product, in_shardings=(on(P("x")), None), out_shardings=on(P("x")))
    lowered = f.lower(A, tj.device_put(B, on(P("y"))))
    text = lowered.as_text()
    assert 'sdy.mesh @mesh = <["x"=4, "y"=2]>' in text
    assert '%arg1: tensor<6x4xf64> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}' in text
    compiled = lowered.compile()
    assert compiled.input_shardings[0] == (on(P("x")), on(P("y")))
    assert compiled.output_shardings == on(P("x"))
    assert "num_partitions=8" in compiled.as_text()
    np.testing.assert_allclose(np.asarray(compiled(A, B)), A @ B, rtol=1e-12)
    assert compiled.memory_analysis().argument_size_in_bytes == 2 * 6 * 8 + 3 * 4 * 8
    one = tj.jit(product).lower(A, B).compile()
    assert one.output_shardings.is_fully_replicated


def test_a_mesh_of_1024_devices_that_arent_there() -> None:
    mesh = AbstractMesh((64, 16), ("data", "model"))
    x, w = tj.ShapedArray((4096, 512), "float32"), tj.ShapedArray((512, 2048), "float32")
    shardings = (NamedSharding(mesh, P("data")), NamedSharding(mesh, P(None, "model")))
    f = tj.jit(lambda x, w: tnp.sum((x @ w) ** 2, axis=1), in_shardings=shardings)
    compiled = f.lower(x, w).compile()
    assert "num_partitions=1024" in compiled.as_text()
    assert compiled.output_shardings == NamedSharding(mesh, P("data"))
    assert compiled.memory_analysis().argument_size_in_bytes == 64 * 512 * 4 + 512 * 128 * 4
    with pytest.raises(ShardingError, match="it can be looked at, but not run"):
        compiled(np.zeros((4096, 512), "f4"), np.zeros((512, 2048), "f4"))
    with pytest.raises(ShardingError, match=r"is for 1024 devices, but there are \d+"):
        f(np.zeros((4096, 512), "f4"), np.zeros((512, 2048), "f4"))


def test_a_mesh_without_devices_takes_the_first_ones() -> None:
    sharding = NamedSharding(AbstractMesh((4,), ("z",)), P("z"))
    found = tj.jit(lambda x: x * 2.0, in_shardings=sharding, out_shardings=sharding)(A)
    assert found.devices() == set(tj.devices()[:4])
    np.testing.assert_array_equal(np.asarray(found), A * 2.0)


def test_mistakes_are_named() -> None:
    with pytest.raises(ShardingError, match=r"in_shardings is P\('x',\), .* Write NamedSharding\(mesh, P\('x',\)\)"):
        tj.jit(product, in_shardings=(P("x"), None))(A, B)
    with pytest.raises(InputError, match="has 'x' in it"):
        tj.jit(product, out_shardings="x")
    with pytest.raises(TreeError, match="jit: in_shardings"):
        tj.jit(product, in_shardings=(on(P()),))(A, B)
    with pytest.raises(InputError, match="by position, so none can be given by name: y"):
        tj.jit(product, in_shardings=(on(P()), None))(A, y=B)
    with pytest.raises(ShardingError, match=r"argument y of 'product' has the shape \(6, 4\), whose axis 0 of size 6"):
        tj.jit(product, in_shardings=(None, on(P("x"))))(A, B)
    with pytest.raises(ShardingError, match=r"result 0 of 'product' has the shape \(8, 4\), whose axis 1 of size 4"):
        tj.jit(product, out_shardings=on(P(None, ("x", "y"))))(A, B)
    with pytest.raises(ShardingError, match=r"argument x of 'product' lies as .* but in_shardings says"):
        tj.jit(product, in_shardings=(on(P("x")), None))(tj.device_put(A, on(P(None, "y"))), B)
    with pytest.raises(ShardingError, match="jit: in_shardings says how arrays lie"):
        tj.jit(product, in_shardings=(on(P(P.UNCONSTRAINED)), None))(A, B)


def test_specifications_are_about_the_mesh_in_force() -> None:
    f = tj.jit(product, in_shardings=(P("x"), None), out_shardings=P("y"))
    for mesh in (MESH, tj.make_mesh((2, 2), ("x", "y"), (AxisType.Auto,) * 2), MESH):
        with tj.set_mesh(mesh):
            for found in (f(A, B), f(A, B), tj.jit(lambda x, y: f(x, y) + 0.0)(A, B)):
                np.testing.assert_allclose(np.asarray(found), A @ B, rtol=1e-12)
                assert found.sharding.is_equivalent_to(NamedSharding(mesh, P("y")), 2)
            assert f.lower(A, B).compile().input_shardings[0][0].spec == P("x")
            assert tj.grad(lambda x: f(x, B).sum())(A).sharding.is_equivalent_to(NamedSharding(mesh, P("x")), 2)
    with tj.set_mesh(MESH), pytest.raises(ShardingError, match="the mesh has no axis 'z'"):
        tj.jit(product, out_shardings=P("z"))(A, B)


def test_a_warning_of_what_every_device_has() -> None:
    f = tj.jit(product, in_shardings=(on(P("x")), None), out_shardings=on(P()), warn_replicated=192)
    with pytest.warns(ReplicationWarning) as seen:
        f(A, B)
    texts = [str(entry.message) for entry in seen]
    assert [text.partition(", is replicated")[0] for text in texts] == [
        "argument y of 'product', f64[6,4]",
        "result 0 of 'product', f64[8,4]",
    ]
    assert "each of 8 devices has all of its 192 bytes" in texts[0]
    f(A, B)
    with pytest.warns(ReplicationWarning) as again:
        f.lower(A, B).compile()
    assert [str(entry.message) for entry in again] == texts
    for quiet in (tj.jit(product, in_shardings=on(P()), warn_replicated=10_000), tj.jit(product, in_shardings=on(P()))):
        quiet(A, B)
    tj.jit(product, warn_replicated=0)(A, B)
    with pytest.raises(InputError, match="warn_replicated is a number of bytes, not '1k'"):
        tj.jit(product, warn_replicated="1k")  # type: ignore[call-overload]


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "operator": lambda x: x * 2.0,
    "function": lambda x: tnp.sin(x).T,
    "gradient": tj.grad(lambda x: (x * x).sum()),
    "jit": tj.jit(lambda x: x * 3.0),
    "jit of a gradient": tj.jit(tj.grad(lambda x: (x * x).sum())),
    "a mapped function": tj.vmap(lambda x: x * 2.0),
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_lie_on_the_mesh_of_the_arguments(name: str) -> None:
    """Of its names and kinds of axes, whatever was run before on these devices with arrays that are divided alike."""
    auto, explicit = AxisType.Auto, AxisType.Explicit
    every = list(itertools.product((auto, explicit), repeat=2))
    meshes = [
        *[(tj.make_mesh((2, 2), ("x", "y"), kinds), P("x", "y")) for kinds in every],
        *[(tj.make_mesh((2, 2), ("a", "b"), kinds), P("a", "b")) for kinds in every],
        *[(tj.make_mesh((2, 2, 1), ("a", "b", "c"), (kind,) * 3), P("a", "b")) for kind in (auto, explicit)],
    ]
    x, f = np.arange(16.0).reshape(4, 4), FUNCTIONS[name]
    for mesh, spec in [*meshes, *reversed(meshes)]:
        found = f(tj.device_put(x, NamedSharding(mesh, spec)))
        assert found.sharding.mesh == mesh
        np.testing.assert_allclose(np.asarray(found), np.asarray(f(x)), rtol=2.0**-40)


def test_what_a_function_is_told_of_its_arguments_may_be_said_of_another_mesh() -> None:
    one, other = tj.make_mesh((4,), ("x",)), tj.make_mesh((4,), ("y",))
    f = tj.jit(lambda x: x * 2.0, in_shardings=NamedSharding(one, P("x")))
    for mesh, name in ((one, "x"), (other, "y"), (one, "x"), (other, "y")):
        found = f(tj.device_put(np.arange(8.0), NamedSharding(mesh, P(name))))
        assert found.sharding.mesh == one


@pytest.mark.sweep
@pytest.mark.parametrize("name", FUNCTIONS)
def test_types_of_results_are_those_for_the_types_of_the_arguments(name: str) -> None:
    """Whatever was run before on arrays of other types that lie on the devices alike."""
    mesh, f = tj.make_mesh((2, 2, 1), ("x", "y", "z")), FUNCTIONS[name]
    plain = [P(), P(reduced={"x"}), P("z"), P(None, "z"), P(reduced={"x", "y"})]
    halves = [P("x"), P("x", "z"), P(("x", "z")), P("x", reduced={"y"}), P("x", None)]
    with tj.set_mesh(mesh):
        for specs in (plain, halves):
            arrays = [tj.device_put(np.ones((4, 4)), spec) for spec in specs]
            types = []
            for array in arrays:
                tj.clear_caches()
                types.append(str(tj.typeof(f(array))))
            for array, found in [*zip(arrays, types, strict=True), *reversed([*zip(arrays, types, strict=True)])]:
                assert str(tj.typeof(f(array))) == found
            assert len(set(types)) == 4 + (specs is plain)
