"""`tinyjax.export`: functions that another process reads back, with their trees and all derivatives."""

from __future__ import annotations

import io
import subprocess
import sys
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import ir
from tinyjax.checkpoints.trees import rebuilt
from tinyjax.errors import FileFormatError, InputError, ParameterError, TreeError
from tinyjax.export import (
    Exported,
    deserialize,
    export,
    register_namedtuple_serialization,
    register_pytree_node_serialization,
)

X: Final = np.array([0.5, -1.0, 2.0], np.float32)


class Pair(NamedTuple):
    a: Any
    b: Any


def layer(p: Any, x: Any, *, scale: Any = 2.0) -> Any:
    return {"y": tnp.tanh(p["w"] * x) * scale, "parts": (x, [p["b"], None])}


ARGS: Final = ({"w": X, "b": np.float32(1.0)}, X)


def again(exported: Exported[..., Any]) -> Exported[..., Any]:
    return deserialize(exported.serialize())


def close(found: Any, expected: Any) -> None:
    ours, there = tj.tree.flatten(found), tj.tree.flatten(expected)
    assert ours[1] == there[1]
    for one, other in zip(ours[0], there[0], strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-4, atol=1e-5)


def test_there_and_back() -> None:
    exported = export(tj.jit(layer))(*ARGS, scale=3.0)
    read = again(exported)
    assert read.traced == exported.traced
    assert (read.fun_name, read.platforms) == (exported.fun_name, exported.platforms) == ("layer", ("cpu",))
    assert read.in_tree == exported.in_tree
    assert read.out_tree == exported.out_tree
    assert repr(read) == repr(exported)
    assert "p['w']: f32[3]" in repr(read)
    assert again(read).serialize() == read.serialize() == exported.serialize(), "the same bytes each time"
    expected = layer(*ARGS, scale=3.0)
    close(exported.call(*ARGS, scale=3.0), expected)
    close(read.call(*ARGS, scale=3.0), expected)
    close(tj.jit(read.call)(*ARGS, scale=3.0), expected)


def test_every_transformation_applies() -> None:
    read = again(export(tj.jit(layer))(*ARGS, scale=3.0))

    def total(f: Any) -> Any:
        return lambda w: f({"w": w, "b": ARGS[0]["b"]}, X, scale=3.0)["y"].sum()

    changes: list[Any] = [tj.grad, lambda f: tj.grad(lambda w: tj.grad(f)(w).sum()), tj.jacfwd, tj.hessian]
    for change in changes:
        close(change(total(read.call))(X), change(total(layer))(X))
    stacked = tj.tree.map(lambda x: np.stack([x, x + 1]), (*ARGS, np.float64(3.0)))
    close(*(tj.vmap(lambda p, x, s, f=f: f(p, x, scale=s))(*stacked) for f in (read.call, layer)))
    assert read.has_vjp()
    assert tj.tools.cost_of(read).total == tj.tools.cost_of(export(tj.jit(layer))(*ARGS, scale=3.0)).total


def test_the_platform_is_that_of_jax() -> None:
    assert tj.export.default_export_platform() == jax.export.default_export_platform()
    assert export(tj.jit(tnp.sin))(1.0).platforms == (tj.export.default_export_platform(),)


def test_the_derivative_is_exported_as_in_jax() -> None:
    def f(m: Any) -> Any:
        return m.jit(lambda x, i, *, k: {"y": m.numpy.sin(x["a"]) * k, "i": i + 1})

    x, i = np.ones(3, "float32"), np.arange(2, dtype="int32")
    ours, theirs = tj.export.export(f(tj)), jax.export.export(f(jax))
    mine, other = ours({"a": x}, i, k=np.float32(2.0)).vjp(), theirs({"a": x}, i, k=np.float32(2.0)).vjp()
    assert (mine.in_tree, mine.out_tree, mine.nr_devices) == (other.in_tree, other.out_tree, other.nr_devices)
    infos = [leaf.aval for leaf in tj.tree.leaves(mine.traced.args_info)]
    assert [(a.shape, a.dtype) for a in infos] == [(a.shape, a.dtype) for a in other.in_avals]
    given = x, i, np.float32(2.0), np.zeros(2, tj.float0), x
    read = deserialize(mine.serialize())
    for found, right in zip(read.call(*given), other.call(*given), strict=True):
        assert found.dtype == right.dtype
        if found.dtype != tj.float0:
            close(found, right)
    second = export(tj.jit(tnp.sin))(2.0).vjp().vjp()
    close(second.call(2.0, 1.0, 3.0), jax.export.export(jax.jit(jnp.sin))(2.0).vjp().vjp().call(2.0, 1.0, 3.0))


def test_rules_of_its_own_go_with_it() -> None:
    @tj.custom_vjp
    def f(x: Any) -> Any:
        return tnp.sin(x)

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * 10.0 * x,))
    read = again(export(tj.jit(f))(2.0))
    close(tj.grad(read.call)(2.0), 20.0)


def test_static_arguments_are_part_of_it() -> None:
    def f(x: Any, n: int, *, mode: str) -> Any:
        return x**n if mode == "power" else x

    read = again(export(tj.jit(f, static_argnums=1, static_argnames="mode"))(X, 3, mode="power"))
    close(read.call(X), X**3)
    with pytest.raises(InputError):
        read.call(X[:2])


def test_types_are_enough_and_functions_are_jitted() -> None:
    exported = export(layer)(*tj.tree.map(lambda x: tj.ShapeDtypeStruct(np.shape(x), x.dtype), ARGS))
    close(again(exported).call(*ARGS), layer(*ARGS))


def test_tangents_of_integers() -> None:
    zeros = np.zeros(3, jax.dtypes.float0)

    def f(t: Any, x: Any) -> Any:
        return t, x * 2

    read = again(export(tj.jit(f))(zeros, X))
    t, y = read.call(zeros, X)
    assert np.asarray(t).dtype == zeros.dtype
    close(y, X * 2)


def test_how_results_lie_goes_with_it() -> None:
    mesh = tj.make_mesh((1,), ("x",))
    lies = tj.NamedSharding(mesh, tj.P("x"))
    exported = export(tj.jit(lambda x: x * 2, in_shardings=lies, out_shardings=lies))(X)
    assert "sharding_constraint" in str(exported)
    close(again(exported).call(X), X * 2)


def test_modules() -> None:
    exported = export(tj.jit(tnp.sin), platforms=("cpu", "cuda"))(X)
    assert again(exported).platforms == ("cpu", "cuda")
    for platform in (None, "cpu", "cuda"):
        assert "stablehlo.sine" in exported.mlir_module(platform)
    assert b"StableHLO" in exported.mlir_module_serialized


def test_the_program_is_a_file_of_its_own() -> None:
    exported = export(tj.jit(layer))(*ARGS)
    assert ir.load(io.BytesIO(bytes(exported.serialize()))) == exported.closed_jaxpr
    simpler = tj.transforms.simplify(exported)
    assert isinstance(simpler, Exported)
    close(again(simpler).call(*ARGS), layer(*ARGS))


def test_it_says_what_that_of_jax_says() -> None:
    ours = export(tj.jit(lambda p, x: {"y": tnp.sin(p["w"]) * x}))({"w": X}, X)
    theirs = jax.export.export(jax.jit(lambda p, x: {"y": jax.numpy.sin(p["w"]) * x}))({"w": X}, X)
    assert ours.fun_name == theirs.fun_name
    assert str(ours.in_tree) == str(theirs.in_tree)
    assert str(ours.out_tree) == str(theirs.out_tree)
    assert ours.platforms == theirs.platforms
    for own, other in ((ours.in_avals, theirs.in_avals), (ours.out_avals, theirs.out_avals)):
        assert [(a.shape, a.dtype) for a in own] == [(a.shape, a.dtype) for a in other]
    missing = {name for name in dir(theirs) if not name.startswith("_")} - set(dir(ours))
    assert missing <= {
        "calling_convention_version", "disabled_safety_checks", "in_shardings_hlo", "in_shardings_jax",
        "module_kept_var_idx", "nr_devices", "ordered_effects", "out_shardings_hlo", "out_shardings_jax",
        "unordered_effects", "uses_global_constants", "vjp",
    } | {name for name in missing if "sharding" in name}  # fmt: skip


@pytest.mark.sweep
def test_another_process_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "f.bin"
    path.write_bytes(export(tj.jit(lambda x: {"y": x * x}))(3.0).serialize())
    code = (
        "import sys, tinyjax as tj; from tinyjax.export import deserialize;"
        "f = deserialize(open(sys.argv[1], 'rb').read()); print(float(tj.grad(lambda x: f.call(x)['y'])(3.0)))"
    )
    found = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert found.stdout == "6.0\n"


def test_what_cant_be_written() -> None:
    exported = export(tj.jit(lambda p: p.a))(Pair(X, X))
    close(exported.call(Pair(X, X)), X)
    with pytest.raises(
        InputError,
        match=r"the arguments have nodes of tests.test_export.Pair, and nobody has said how these are written",
    ):
        exported.serialize()
    called = export(tj.jit(lambda x: tj.pure_callback(np.sin, x.aval, x)))(X)
    with pytest.raises(ParameterError, match="function of this process"):
        called.serialize()


@dataclass
class Scaled:
    """A node that knows more than its children, and takes no others."""

    parts: Any
    by: Any
    unit: str

    def __post_init__(self) -> None:
        assert self.unit in ("m", "km"), "never made of what is no unit"


class Ordered(NamedTuple):
    first: Any
    second: Any


def scaled_nodes() -> None:
    tj.tree.register_dataclass(Scaled, ["parts", "by"], ["unit"])
    register_pytree_node_serialization(
        Scaled,
        serialized_name="tests.Scaled",
        serialize_auxdata=lambda aux: "".join(aux).encode(),
        deserialize_auxdata=lambda data: (data.decode(),),
    )
    register_namedtuple_serialization(Ordered, serialized_name="tests.Ordered")


scaled_nodes()


def test_classes_of_ones_own() -> None:
    def f(p: Any, *, extra: Any) -> Any:
        doubled = tj.tree.map(lambda x: 2 * x, p)
        return Ordered(doubled, OrderedDict([("z", extra), ("a", [None, Scaled(extra, (), "km")])])), {3: p.by}

    args, extra = (Scaled({"w": X, "b": Ordered(X, 1.0)}, X * 3, "m"),), OrderedDict([("b", X), ("a", 2.0)])
    exported = export(tj.jit(f))(*args, extra=extra)
    read = again(exported)
    assert (read.in_tree, read.out_tree) == (exported.in_tree, exported.out_tree)
    close(read.call(*args, extra=extra), f(*args, extra=extra))
    close(tj.grad(lambda p: read.call(p, extra=extra)[0].first.by.sum())(*args).by, X * 0 + 2)
    with pytest.raises(TypeError, match="differ"):
        read.call(Scaled(args[0].parts, X, "km"), extra=extra)


def test_checkpoints_know_them_too(tmp_path: Path) -> None:
    saved = OrderedDict([("z", Scaled([X], Ordered(X, X + 1), "km")), ("a", None)])
    tj.checkpoints.save(tmp_path, saved)
    close(tj.checkpoints.load(tmp_path), saved)
    tj.checkpoints.save(tmp_path, {"p": Pair(X, X), "q": {"b": X, "a": X}})
    with pytest.raises(InputError, match=r"nodes of the class tests.test_export.Pair.*like=tree"):
        tj.checkpoints.load(tmp_path)
    close(tj.checkpoints.load(tmp_path, like={"p": Pair(X, X), "q": {"b": X, "a": X}})["p"], Pair(X, X))


@pytest.mark.parametrize(
    "content",
    [1, [], {}, {"list": 3}, {"dict": [["b", 0], ["a", 0]]}, {"dict": [[0]]}, {"node": ["tests.Scaled", "!", []]}],
)
def test_structures_that_are_none(content: Any) -> None:
    with pytest.raises(FileFormatError, match="its tree"):
        rebuilt(content)


@pytest.mark.sweep
def test_classes_that_arent_known_where_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(export(lambda p: p.first)(Ordered(X, 1.0)).serialize())
    read = f"import tinyjax.export as e; e.deserialize(open({str(tmp_path / 'f')!r}, 'rb').read())"
    classes = (
        "import collections; from tinyjax.export import *; "
        "register_namedtuple_serialization(collections.namedtuple('Ordered', {}), serialized_name='tests.Ordered'); "
    )
    for before, message in (
        ("", "was written as 'tests.Ordered', which isn't known in this process: say which it is by tinyjax.export."),
        (classes.format("['second', 'first']"), "was written with the fields ['first', 'second'], but here it has ["),
        (classes.format("['first', 'second']"), ""),
    ):
        run = subprocess.run([sys.executable, "-c", before + read], capture_output=True, text=True, check=False)
        assert message in run.stderr
        assert (run.returncode == 0) == (not message), run.stderr


def test_registrations_that_cant_be() -> None:
    how: Any = {"serialize_auxdata": bytes, "deserialize_auxdata": bytes}
    wrong: Any
    name: Any
    for wrong, name, message in (
        (float, "x", "float.* isn't a node of trees: first tinyjax.tree.register_pytree_node it"),
        (3, "x", "3 isn't a node of trees"),
        (Pair, 3, "serialized_name must be a string, got 3"),
        (dict, "x", "how dict is written down is known already"),
        (Scaled, "x", "how Scaled is written down is known already as 'tests.Scaled'"),
        (Pair, "tests.Scaled", "'tests.Scaled' is what Scaled is called: take another"),
    ):
        with pytest.raises(TreeError, match=message):
            register_pytree_node_serialization(wrong, serialized_name=name, **how)
    wrong = None
    with pytest.raises(TreeError, match="deserialize_auxdata must be a function, got None"):
        register_pytree_node_serialization(
            Pair, serialized_name="x", serialize_auxdata=bytes, deserialize_auxdata=wrong
        )
    with pytest.raises(TreeError, match=r"takes a named tuple's class, got .*Scaled"):
        register_namedtuple_serialization(Scaled, serialized_name="x")


def test_what_is_no_exported_function() -> None:
    blob = export(tj.jit(layer))(*ARGS).serialize()
    stream = io.BytesIO()
    ir.save(stream, tj.make_jaxpr(tnp.sin)(X))
    for bad, message in (
        (b"", "truncated, damaged"),
        (blob[:100], "truncated, damaged"),
        (stream.getvalue(), "it is no exported function; a program alone is read by ir.load"),
        (blob.replace(b'"fun_name"', b'"fun_nome"'), "damaged|doesn't say what its function takes"),
        (blob.replace(b'"version": 1', b'"version": 7'), "damaged|another version of tinyjax"),
    ):
        with pytest.raises(FileFormatError, match=message):
            deserialize(bad)
    text: Any = "f"
    with pytest.raises(InputError, match="takes the bytes that serialize returned, got str"):
        deserialize(text)


def test_how_arguments_lie_is_kept() -> None:
    """The shardings of types, and those that `jit` was told, are those that JAX's artifact has."""

    def found(j: Any) -> list[Any]:
        place, p, export = j.sharding.NamedSharding, j.sharding.PartitionSpec, j.export.export
        mesh, flat = j.sharding.Mesh(j.devices()[:4], ("a",)), j.ShapeDtypeStruct((32,), "int32")
        auto = (j.sharding.AxisType.Auto,)  # JAX 0.11 asks for the mesh's own
        whole = j.sharding.AbstractMesh((4,), ("a",), axis_types=auto)
        typed = j.ShapeDtypeStruct((32,), "int32", sharding=place(whole, p("a")))
        told = j.jit(lambda x: 2 * x, in_shardings=place(mesh, p("a")), out_shardings=place(mesh, p()))
        both = j.jit(lambda x, y: (x + 1, y))
        exported = [export(j.jit(lambda x: x.T))(typed), export(both)(flat, typed), export(both)(flat, flat)]
        exported += [export(told)(flat), j.export.deserialize(export(told)(flat).serialize())]
        lie = [(each.nr_devices, each.in_shardings_jax(mesh)) for each in exported]
        lie += [(each.nr_devices, each.out_shardings_jax(mesh)) for each in exported[3:]]
        return [(count, [each and tuple(each.spec) for each in shardings]) for count, shardings in lie]

    assert found(tj) == found(jax)


def test_an_artifact_moves_what_lies_otherwise() -> None:
    mesh, other = tj.make_mesh((4,), ("a",)), tj.make_mesh((2, 2), ("b", "c"), devices=tj.devices()[4:8])
    place = tj.NamedSharding(tj.sharding.AbstractMesh((4,), ("a",)), tj.P("a"))
    exported = export(tj.jit(lambda x: x + 1.0))(tj.ShapeDtypeStruct((8,), "float32", sharding=place))
    x = np.arange(8.0, dtype="float32")
    (lies,) = exported.in_shardings_jax(mesh)
    assert lies == tj.NamedSharding(mesh, tj.P("a"))
    for given in (tj.NamedSharding(mesh, tj.P("a")), tj.NamedSharding(other, tj.P("b"))):
        result = exported.call(tj.device_put(x, given))
        np.testing.assert_array_equal(result, x + 1.0)
        assert [shard.device for shard in result.addressable_shards] == list(given.mesh.devices.flat)
        assert [shard.index for shard in result.addressable_shards] == [(slice(i, i + 2),) for i in range(0, 8, 2)]
    assert exported.in_shardings_jax() == (place,)
