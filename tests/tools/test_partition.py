"""Partition reports: lines, loops, gathers, memory, and what is wrong with arguments."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import NamedSharding, P, ShapedArray, lax, tools
from tinyjax.errors import InputError, ShardingError
from tinyjax.sharding import AbstractMesh, Mesh
from tinyjax.tools.partitioning import Collective, PartitionReport
from tinyjax.tools.partitioning.compiled import communications
from tinyjax.tools.partitioning.groups import along_groups, along_pairs
from tinyjax.tools.partitioning.hlo import _groups, _of_grid, read_module
from tinyjax.tools.partitioning.wire import Message
from tinyjax.tools.partitioning.written import Loops

MESH = AbstractMesh((4, 2), ("x", "y"))


def f32(*shape: int) -> ShapedArray:
    return ShapedArray(shape, "float32")


def report(function: Callable[..., Any], *args: ShapedArray, **options: Any) -> PartitionReport:
    return tools.partition(tj.make_jaxpr(function)(*args), MESH, **options)


def mapped(body: Callable[..., Any], ins: Any, outs: Any) -> Callable[..., Any]:
    return tj.shard_map(body, mesh=MESH, in_specs=ins, out_specs=outs)


def short(found: tuple[Collective, ...] | None) -> list[tuple[str, tuple[str, ...], int, str]]:
    return [(c.kind, c.axes, c.bytes, str(c.times)) for c in found or ()]


def line_of(function: Callable[..., Any], text: str) -> int:
    """The line of a function's source that has this text."""
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if text in line)


# Lines.


def two_layers(w: Any, v: Any, x: Any) -> Any:
    h = tnp.tanh(x @ w)
    y = h @ v
    return tnp.mean(y**2)


def test_lines_of_what_xla_adds() -> None:
    types, specs = (f32(16, 32), f32(32, 8), f32(24, 16)), (P(None, "y"), P("y"), P("x"))
    forward = report(two_layers, *types, shardings=specs)
    assert [(c.axes, c.source and c.source.line) for c in forward.collectives or ()] == [
        (("y",), line_of(two_layers, "h @ v")),
        (("x",), line_of(two_layers, "tnp.mean")),
    ]
    gradient = report(tj.grad(two_layers, argnums=(0, 1)), *types, shardings=specs)
    backward = [
        (c.source.line, c.axes)
        for c in gradient.collectives or ()
        if c.source is not None and "transpose" in c.source.transformations
    ]
    # Gradients of both weights are summed over the data, at the lines whose derivative they are.
    assert backward == [(line_of(two_layers, "h @ v"), ("x",))]
    (joined,) = [c.joined for c in gradient.collectives or () if c.joined]
    assert [(c.line, c.transformations) for c in joined if c] == [(line_of(two_layers, "x @ w"), ("transpose", "jvp"))]


def test_lines_of_what_the_program_says() -> None:
    def body(w: Any, x: Any) -> Any:
        whole = lax.all_gather(w, "x", tiled=True)
        y = tnp.sin(x @ whole)
        return lax.psum(tnp.sum(y), ("x", "y"))

    types = f32(16, 8), f32(8, 16)
    f = mapped(body, (P("x"), P(("x", "y"))), P())
    found = report(tj.grad(f), *types)
    assert found.collectives is not None
    for collectives in (found.written, found.collectives):
        said = {(c.kind, c.source and c.source.line, c.source and c.source.transformations[:1]) for c in collectives}
        assert said == {
            ("all-gather", line_of(body, "all_gather"), ("jvp",)),
            ("reduce-scatter", line_of(body, "all_gather"), ("transpose",)),
            ("all-reduce", line_of(body, "tnp.sin"), ("transpose",)),
        }
    assert "transpose of jvp of test_partition.py" in str(found)


def test_equal_functions_of_two_lines_are_told_apart() -> None:
    def body(x: Any) -> Any:
        total = tj.jit(lambda x: lax.psum(tnp.sin(x), "x"))(x)
        return total * tj.jit(lambda x: lax.psum(tnp.sin(x), "x"))(x * total)

    found = report(mapped(body, P("x"), P()), f32(8))
    lines = [c.source.line for c in found.collectives or () if c.source is not None]
    assert sorted(lines) == [line_of(body, "total ="), line_of(body, "return total")]


# Loops and branches.


def test_how_often() -> None:
    def body(x: Any) -> Any:
        def step(x: Any, _: None) -> Any:
            y, _ = lax.scan(lambda y, _: (lax.psum(tnp.sin(y), "x") + y, None), x, None, length=3)
            return y + lax.psum(tnp.cos(y), "y"), None

        x, _ = lax.scan(step, x, None, length=5)
        return lax.while_loop(lambda x: lax.pmax(x[0], ("x", "y")) < 9.0, lambda x: lax.psum(x * x, "x") + x, x)

    found = report(mapped(lambda x: body(x)[None], P(("x", "y")), P(("x", "y"))), f32(8))
    assert found.collectives is not None
    expected = {
        ("all-reduce", ("x",), 4, "15"),
        ("all-reduce", ("y",), 4, "5"),
        ("all-reduce", ("x", "y"), 4, "1 + n1"),
        ("all-reduce", ("x",), 4, "n1"),
    }
    assert {*short(found.written)} == expected
    assert {*short(found.collectives)} == expected
    (loop,) = found.loops
    assert loop.source is not None
    assert loop.source.line == line_of(body, "lax.while_loop")
    assert "n1: the iterations of the loop at test_partition.py" in str(found)


def test_branches_run_so_often_at_most() -> None:
    def body(p: Any, x: Any) -> Any:
        return lax.cond(p, lambda x: lax.psum(x, "x"), lambda x: lax.psum(tnp.sin(x), "x"), x)

    found = report(mapped(body, (P(), P("x")), P()), ShapedArray((), "bool"), f32(8))
    assert [c.conditional for c in found.written] == [True, True]
    assert found.collectives is not None
    assert [c.conditional for c in found.collectives] == [True, True]
    assert "≤ 1" in str(found)


def test_what_xla_leaves_out_is_said() -> None:
    def body(x: Any) -> Any:
        return lax.psum(x * 2.0, "x") + lax.psum(x * 2.0, "x")

    found = report(mapped(body, P("x"), P()), f32(8))
    assert len(found.written) == 2
    assert short(found.collectives) == short(found.written[:1])
    assert "of which XLA has joined, moved or left out 1" in str(found)
    alone = report(mapped(lambda x: lax.psum(x, "x"), P("x"), P()), f32(8))
    assert "these are what the program says within shard_map, and no others" in str(alone)


def test_nobody_to_tell() -> None:
    mesh = AbstractMesh((1, 2), ("one", "y"))
    f = tj.shard_map(lambda x: lax.psum(x, "one"), mesh=mesh, in_specs=P("one"), out_specs=P())
    found = tools.partition(tj.make_jaxpr(f)(f32(8)))
    assert (found.written, found.collectives) == ((), ())
    assert "no device tell another one anything" in str(found)


def test_what_nobody_reads_is_left_out() -> None:
    def body(x: Any) -> Any:
        _ = lax.psum(tnp.cos(x), "x")
        return lax.psum(x, "x")

    assert len(report(mapped(body, P("x"), P()), f32(8)).written) == 1


def test_complex_extremes_are_gathered() -> None:
    found = report(mapped(lambda x: lax.pmax(x, "x"), P("x"), P()), ShapedArray((8,), "complex64"))
    assert short(found.written) == short(found.collectives) == [("all-gather", ("x",), 64, "1")]


def test_bytes_on_links() -> None:
    def body(x: Any) -> Any:
        y = lax.psum(x, "x"), lax.all_gather(x, "x"), lax.psum_scatter(tnp.sin(x), "x", tiled=True)
        return (*y, lax.ppermute(x, "x", [(0, 1)]), lax.all_to_all(tnp.cos(x), "x", 0, 0, tiled=True))

    f = tj.shard_map(body, mesh=MESH, in_specs=P("x"), out_specs=P("x"), check_vma=False)
    found = report(f, f32(64), compile=False)
    assert [(c.kind, c.bytes, c.operand_bytes, c.link_bytes) for c in found.written] == [
        ("all-reduce", 64, 64, 96),
        ("all-gather", 256, 64, 192),
        ("reduce-scatter", 16, 64, 48),
        ("collective-permute", 64, 64, 64),
        ("all-to-all", 64, 64, 48),
    ]
    assert found.collectives is None
    assert found.memory is None
    assert found.peak_bytes is None


# What XLA gathers.


def lying(x: Any, *parts: Any) -> Any:
    return lax.with_sharding_constraint(x, NamedSharding(MESH, P(*parts)))


#: Programs of an array, how it lies, and what XLA gathers: whether it is divided again.
GATHERS: dict[str, tuple[Callable[[Any], Any], ShapedArray, P, list[bool]]] = {
    "swapped": (lambda x: tnp.exp(lying(tnp.sin(x), "y", "x")), f32(64, 64), P("x", "y"), []),
    "other order": (lambda x: tnp.exp(lying(tnp.sin(x), ("y", "x"))), f32(64, 64), P(("x", "y")), []),
    "other axis": (lambda x: lying(tnp.reshape(x, (4096,)), "x"), f32(64, 64), P(None, "x"), []),
    "uneven": (lambda x: lying(tnp.reshape(x, (6, 8)), None, "x"), f32(16, 3), P("x"), [False, True]),
    "three axes": (lambda x: tnp.exp(lying(tnp.sin(x), None, "y", "x")), f32(16, 16, 16), P(("x", "y")), [True]),
    "cumulative": (lambda x: tnp.cumsum(x, axis=0), f32(64, 64), P("x"), [False]),
    "reversed": (lambda x: tnp.flip(x, axis=0), f32(64, 64), P("x"), []),
    "asked for": (lambda x: tnp.exp(lying(tnp.sin(x))), f32(64, 64), P("x"), []),
    "asked for at once": (lambda x: tnp.exp(lying(x)), f32(64, 64), P("x"), []),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "three axes" else (pytest.mark.sweep,)) for name in GATHERS]
)
def test_gathers(name: str) -> None:
    function, aval, spec, expected = GATHERS[name]
    found = report(function, aval, shardings=spec)
    assert [gather.rematerialised for gather in found.gathers] == expected
    text = str(found)
    assert ("rematerialised: XLA gathers these in whole" in text) == (True in expected)
    assert ("gathered: XLA puts these together" in text) == (False in expected)
    assert all(g.source is not None and g.source.file == __file__ for g in found.gathers)


def test_a_result_that_is_asked_for_in_whole_is_no_unwanted_gather() -> None:
    found = report(tnp.exp, f32(64, 64), shardings=P("x"), out_shardings=P())
    assert short(found.collectives) == [("all-gather", ("x",), 16384, "1")]
    assert not found.gathers
    assert [placed.name for placed in found.replicated] == ["0"]


@pytest.mark.sweep
def test_what_is_computed_twice_is_gathered_once() -> None:
    """A derivative makes the heads again rather than keep them; they are the same, and have been gathered already."""

    def attention(w: Any, x: Any) -> Any:
        q, k, v = (part.reshape(4, 8, 4, 4) for part in tnp.split(x @ w, 3, -1))
        scores = tj.nn.softmax(tnp.einsum("bshd,bthd->bhst", q, k), -1)
        return tnp.sum(tnp.einsum("bhst,bthd->bshd", scores, v) ** 2)

    found = report(tj.grad(attention), f32(16, 48), f32(4, 8, 16), shardings=(P(), P("x", "y")))
    assert [gather.type for gather in found.gathers] == ["f32[1,8,4,4]"] * 2  # keys and values


@pytest.mark.sweep
def test_rematerialised_is_what_xla_warns_of() -> None:
    """XLA only logs it: where it does, and nowhere else, a report says so."""
    code = (
        "import sys; from tests.tools.test_partition import GATHERS, report\n"
        "for name, (f, aval, spec, _) in GATHERS.items():\n"
        "    print('case', name, file=sys.stderr, flush=True); report(f, aval, shardings=spec)"
    )
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "1", "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    logged = {part.partition("\n")[0]: "Involuntary full" in part for part in done.stderr.split("case ")[1:]}
    assert logged == {name: True in expected for name, (_, _, _, expected) in GATHERS.items()}


# Memory.


def test_bytes_on_each_device() -> None:
    types, specs = (f32(16, 32), f32(32, 8), f32(24, 16)), (P(None, "y"), P("y"), P("x"))
    found = report(two_layers, *types, shardings=specs)
    assert [placed.bytes for placed in found.inputs] == [16 * 16 * 4, 16 * 8 * 4, 6 * 16 * 4]
    assert [placed.replicated for placed in found.inputs] == [("x",), ("x",), ("y",)]
    # tanh's result, by x and y, of which its derivative is computed again; the last product, by x.
    assert found.residuals.owner == "gradient"
    assert found.residuals.placed is not None
    kept = sorted((placed.whole_bytes, placed.bytes) for placed in found.residuals.placed)
    assert kept == [(24 * 8 * 4, 6 * 8 * 4), (24 * 32 * 4, 6 * 16 * 4)]
    gradient = report(tj.grad(two_layers, argnums=(0, 1)), *types, shardings=specs)
    assert gradient.residuals.owner == "program"
    assert gradient.residual_bytes == found.residual_bytes
    shardings = tuple(NamedSharding(MESH, spec) for spec in specs)
    stats = tj.jit(two_layers, in_shardings=shardings).lower(*types).compile().memory_analysis()
    assert found.peak_bytes == stats.argument_size_in_bytes + stats.output_size_in_bytes + stats.temp_size_in_bytes
    assert found.memory is not None
    assert found.memory.arguments == found.input_bytes


def test_residuals_within_shard_map() -> None:
    def loss(w: Any, x: Any) -> Any:
        return lax.pmean(tnp.mean(tnp.sin(x @ w)), "x")

    types, specs = (f32(16, 16), f32(64, 16)), (P(), P("x"))
    outside = report(tj.grad(mapped(loss, specs, P())), *types, shardings=specs)
    inside = report(mapped(tj.grad(loss), specs, P()), *types, shardings=specs)
    forward = report(mapped(lambda x: lax.pmean(tnp.mean(tnp.sin(x)), "x"), P("x"), P()), types[1])
    cosine = 16 * 16 * 4  # of what each device has; and a number
    assert [(r.residual_bytes or 0) // 8 * 8 for r in (outside, inside, forward)] == [cosine] * 3
    assert [r.residuals.owner for r in (outside, inside, forward)] == ["program", "program", "gradient"]
    assert inside.live is not None
    assert inside.live > 2 * 16 * 16 * 4


def test_without_a_derivative() -> None:
    found = report(mapped(lambda x: lax.linalg.hessenberg(x)[0], P("x"), P("x")), f32(8, 4, 4), compile=False)
    assert found.residual_bytes is None
    assert "not known: Differentiation rule for 'hessenberg' not implemented" in str(found)


# Ways to ask.


def test_a_line_where_only_what_reads_it_has_one() -> None:
    types, specs = (f32(8, 8), f32(8, 8)), (P("x"), P("y"))
    found = report(lambda x, y: tnp.concatenate([x, y]), *types, shardings=specs)
    assert found.collectives
    assert all(c.source is not None and c.source.file == __file__ for c in found.collectives)


def test_axes_that_are_left_to_xla() -> None:
    f = tj.shard_map(lambda x: lax.psum(tnp.sin(x), "x"), mesh=MESH, in_specs=P("x"), out_specs=P(), axis_names={"x"})
    found = report(f, f32(8, 8), shardings=P("x", "y"))
    assert [c.types for c in found.written] == [("f32[2,8]",)]
    assert found.collectives is not None
    assert [(c.types, c.axes, c.written) for c in found.collectives] == [(("f32[2,4]",), ("x",), True)]


def test_what_jit_has_lowered() -> None:
    table = tnp.arange(16.0, dtype="float32")
    sharding = NamedSharding(MESH, P("x"))
    lowered = tj.jit(lambda x: tnp.sum(x * table), in_shardings=sharding).lower(f32(64, 16))
    found = tools.partition(lowered)
    assert short(found.collectives) == [("all-reduce", ("x",), 4, "1")]
    assert [placed.name for placed in found.inputs] == ["constant 0", "x"]
    with pytest.raises(InputError, match="what jit has lowered says itself"):
        tools.partition(lowered, MESH)


def test_a_mesh_with_devices() -> None:
    mesh = Mesh(np.array(tj.devices("cpu")[:8]).reshape(4, 2), ("x", "y"))
    closed = tj.make_jaxpr(tnp.sum)(f32(64))
    found = tools.partition(closed, mesh, P("x"))
    assert short(found.collectives) == [("all-reduce", ("x",), 4, "1")]
    assert found.mesh.placed is None
    assert short(tools.partition(closed, shardings=NamedSharding(mesh, P("y"))).collectives) == [
        ("all-reduce", ("y",), 4, "1")
    ]


def test_many_devices_and_three_axes() -> None:
    mesh = AbstractMesh((16, 8, 8), ("a", "b", "c"))
    closed = tj.make_jaxpr(lambda w, x: tnp.sum(x @ w))(f32(256, 64), f32(128, 256))
    found = tools.partition(closed, mesh, [P("b", "c"), P("a", "b")])
    assert {(c.kind, c.axes, c.whole, c.size) for c in found.collectives or ()} == {
        ("all-reduce", ("b",), True, 8),
        ("all-reduce", ("a",), True, 16),
        ("all-reduce", ("c",), True, 8),
    }
    assert found.input_bytes == (256 * 64 // 64 + 128 * 256 // 128) * 4


def test_as_json() -> None:
    found = report(two_layers, f32(16, 32), f32(32, 8), f32(24, 16), shardings=(P(None, "y"), P("y"), P("x")))
    plain = json.loads(found.to_json())
    assert plain["mesh"] == {"x": 4, "y": 2}
    first, _ = plain["collectives"]
    assert (first["kind"], first["axes"], first["bytes"], first["times"]) == ("all-reduce", ["y"], 192, 1)
    assert first["source"]["function"] == "two_layers"
    assert plain["residual_bytes"] == found.residual_bytes
    assert plain["inputs"][0]["spec"] == "P(None, 'y')"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, r"nothing says which mesh. Give one: tinyjax.sharding.AbstractMesh\(\(4, 2\), \('x', 'y'\)\)"),
        ({"shardings": P("x")}, r"shardings says P\('x',\), but not of which mesh"),
        ({"mesh": MESH, "shardings": [P("x"), P()]}, "shardings has 2 entries for 1 arrays: f32"),
        ({"mesh": MESH, "shardings": ["x"]}, "shardings has 'x'; write a PartitionSpec"),
    ],
)
def test_what_is_wrong(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        tools.partition(tj.make_jaxpr(tnp.sin)(f32(8)), **given)


def test_what_cannot_lie_so() -> None:
    with pytest.raises(ShardingError, match="axis 0 of size 6 can't be divided equally by 4"):
        report(tnp.sin, f32(6), shardings=P("x"))
    with pytest.raises(ShardingError, match="the mesh has no axis 'z'"):
        report(tnp.sin, f32(8), shardings=P("z"))
    here = AbstractMesh((2,), ("x",))
    by_hand = tj.make_jaxpr(mapped(tnp.sin, P("x"), P("x")))(f32(8))
    with pytest.raises(ShardingError, match=r"is for the 8 devices of .*, and can't run on the 2 of Mesh\('x': 2\)"):
        tools.partition(by_hand, here, compile=False)


# Files of modules.


def encoded(field: int, value: int | bytes) -> bytes:
    """A field as protocol buffers write it."""

    def varint(n: int) -> bytes:
        return bytes([n & 127 | 128]) + varint(n >> 7) if n > 127 else bytes([n])

    if isinstance(value, int):
        return varint(field << 3) + varint(value)
    return varint(field << 3 | 2) + varint(len(value)) + value


def test_groups_in_each_spelling() -> None:
    def axis(size: int) -> bytes:
        return encoded(1, encoded(1, b"name") + encoded(2, size))

    expected = [[0, 4], [1, 5], [2, 6], [3, 7]]
    grid = encoded(1, 4) + encoded(2, 2) + encoded(3, bytes([2, 4])) + encoded(4, bytes([1, 0]))
    rows = b"".join(encoded(1, encoded(1, bytes(row))) for row in expected)
    old = b"".join(encoded(49, encoded(1, bytes(row))) for row in expected)
    whole = encoded(1, axis(2) + axis(4)) + encoded(2, encoded(1, 0))
    part = encoded(1, axis(8)) + encoded(2, encoded(1, 0) + encoded(2, encoded(1, 1) + encoded(2, 2)))
    turned = encoded(1, axis(4) + axis(2) + encoded(3, encoded(1, bytes([2, 4])) + encoded(2, bytes([1, 0]))))
    turned += encoded(2, encoded(1, 1))
    for message in (
        encoded(92, grid),
        encoded(87, rows),
        encoded(87, encoded(2, grid)),
        old,
        encoded(93, whole),
        encoded(93, encoded(1, axis(2) + axis(4)) + encoded(2, encoded(1, 0) + encoded(1, 0))),
        encoded(93, part),
        encoded(93, turned),
    ):
        found = _groups(Message(message))
        assert found is not None
        assert sorted(map(sorted, found.tolist())) == expected, message
    everyone = _groups(Message(encoded(2, b"all-reduce")))
    assert everyone is not None
    assert everyone.size == 0
    for unknown in (encoded(95, b"new"), encoded(92, grid + encoded(7, 1)), encoded(93, whole + encoded(9, 1))):
        assert _groups(Message(unknown)) is None


def shape(*dims: int, element: int = 11) -> bytes:
    return encoded(2, element) + encoded(3, bytes(dims))


def pair(*shapes: bytes) -> bytes:
    return encoded(2, 13) + b"".join(encoded(4, part) for part in shapes)


def instruction(number: int, opcode: str, result: bytes, *more: bytes, operands: tuple[int, ...] = ()) -> bytes:
    head = encoded(1, f"{opcode}.{number}".encode()) + encoded(2, opcode.encode()) + encoded(3, result)
    return encoded(2, head + encoded(35, number) + encoded(36, bytes(operands)) + b"".join(more))


def test_what_is_started_and_ended_counts_once() -> None:
    """As GPUs do it."""
    four, flag = shape(4), shape(element=8)
    grid = encoded(92, encoded(1, 2) + encoded(2, 4) + encoded(3, bytes([4, 2])) + encoded(4, bytes([1, 0])))
    path = encoded(52, encoded(1, 0) + encoded(2, 1))
    inner = encoded(1, b"inner") + encoded(5, 1) + encoded(6, 11)
    inner += instruction(10, "parameter", four)
    inner += instruction(11, "reduce-scatter", shape(1), grid, operands=(10,))
    entry = encoded(1, b"entry") + encoded(5, 2) + encoded(6, 29)
    entry += instruction(20, "parameter", four)
    entry += instruction(21, "all-gather-start", pair(four, shape(16)), grid, operands=(20,))
    entry += instruction(22, "all-gather-done", shape(16), operands=(21,))
    entry += instruction(23, "collective-permute-start", pair(four, four, flag, flag), path, operands=(20,))
    entry += instruction(24, "collective-permute-done", four, operands=(23,))
    entry += instruction(25, "all-reduce-start", pair(four, shape(2)), grid, operands=(20, 20))
    entry += instruction(26, "all-reduce-done", pair(four, shape(2)), operands=(25,))
    entry += instruction(27, "async-start", pair(pair(four), shape(1), flag), encoded(38, 1), operands=(20,))
    entry += instruction(28, "async-update", pair(pair(four), shape(1), flag), encoded(38, 1), operands=(27,))
    entry += instruction(29, "async-done", shape(1), encoded(38, 1), operands=(28,))
    module = read_module(encoded(1, b"m") + encoded(3, inner) + encoded(3, entry) + encoded(6, 2))
    found = [c.collective for c in communications(module, MESH, (), Loops())]
    assert [(c.kind, c.axes, c.bytes, c.operand_bytes) for c in found] == [
        ("all-gather", ("x",), 64, 16),
        ("collective-permute", ("y",), 16, 16),
        ("all-reduce", ("x",), 24, 32),
        ("reduce-scatter", ("x",), 4, 16),
    ]


def test_axes_of_groups() -> None:
    mesh = AbstractMesh((2, 4, 1), ("a", "b", "c"))
    assert along_groups(mesh, np.zeros((0, 0), np.int64)) == along_groups(mesh, _of_grid(1, 8, [8], []))
    assert along_groups(mesh, _of_grid(1, 8, [8], [])).axes == ("a", "b")
    assert along_groups(mesh, _of_grid(2, 4, [8], [])).axes == ("b",)
    half = along_groups(mesh, _of_grid(4, 2, [8], []))
    assert (half.axes, half.whole, half.size) == (("b",), False, 2)
    assert along_groups(mesh, _of_grid(4, 2, [2, 4], [1, 0])).axes == ("a",)
    assert along_pairs(mesh, np.array([[0, 1], [4, 5]])).axes == ("b",)
    assert along_pairs(mesh, np.zeros((0, 2), np.int64)).axes == ()


def test_what_is_no_module() -> None:
    with pytest.raises(InputError, match="no message of protocol buffers: it has a field of kind 3"):
        read_module(bytes([11]))
