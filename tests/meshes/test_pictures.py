"""Pictures of shardings: in the terminal as JAX draws them, in notebooks, and for more dimensions and fewer devices."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from typing import Any

import jax
import numpy as np
import pytest
from typing_extensions import override

import tinyjax as tj
from tests.tools.test_display import Balanced
from tinyjax import NamedSharding, P, tools
from tinyjax.errors import InputError, ShardingError, UnsupportedError
from tinyjax.sharding import AbstractMesh, AxisType, Mesh, Sharding, SingleDeviceSharding

DEVICES = np.array(jax.devices("cpu")[:8])


def printed(what: Any, *args: object, **options: object) -> str:
    with redirect_stdout(io.StringIO()) as out:
        what(*args, **options)
    return out.getvalue()


SPECS = [(), ("x",), ("y",), (("x", "y"),), (("y", "x"),), ("x", "y"), ("y", "x"), (None, "y"), (None, ("x", "y"))]


@pytest.mark.parametrize("shape", [(8,), (24,), (8, 8), (16, 40), (40, 16), (128, 10000), (1000, 8)])
@pytest.mark.parametrize("sizes", [(1, 1), (4, 2), (2, 2), (8, 1)])
def test_jax_draws_the_same(sizes: tuple[int, int], shape: tuple[int, ...]) -> None:
    devices = DEVICES[: sizes[0] * sizes[1]].reshape(sizes)
    mesh, theirs = Mesh(devices, ("x", "y")), jax.sharding.Mesh(devices, ("x", "y"))
    for spec in SPECS:
        ours = NamedSharding(mesh, P(*spec))
        if len(spec) <= len(shape) and all(
            size % count == 0 for size, count in zip(shape, ours.blocks(2), strict=False)
        ):
            for options in ({}, {"scale": 3.0}, {"min_width": 15, "max_width": 70}):
                drawn = printed(tj.debug.visualize_sharding, shape, ours, **options)
                sharding = jax.sharding.NamedSharding(theirs, jax.sharding.PartitionSpec(*spec))
                expected = printed(jax.debug.visualize_sharding, shape, sharding, **options)
                width = max(map(len, expected.splitlines()))
                if "┬" in expected and width == options.get("max_width", 80):  # where labels get lost
                    assert max(map(len, drawn.splitlines())) <= width
                else:
                    assert drawn == expected


def test_arrays() -> None:
    mesh = Mesh(DEVICES.reshape(4, 2), ("x", "y"))
    sharding = NamedSharding(mesh, P("x", "y"))
    x = tj.device_put(np.ones((8, 8)), sharding)
    assert printed(tj.debug.visualize_array_sharding, x) == printed(tj.debug.visualize_sharding, (8, 8), sharding)
    one = tj.device_put(np.ones(3), tj.devices("cpu")[2])
    assert printed(tj.debug.visualize_array_sharding, one) == "┌───────┐\n│ CPU 2 │\n└───────┘\n"
    assert "│ host  │" in printed(tj.debug.visualize_array_sharding, np.ones(3))
    found: list[Sharding] = []
    tj.debug.inspect_array_sharding({"a": x, "b": [x]}, callback=found.append)
    assert found == [sharding, sharding]
    f = tj.jit(lambda x: (tj.debug.visualize_array_sharding(x), x + 1)[1])
    assert printed(f, np.ones(3)).startswith("f64[3] is being traced")
    with pytest.raises(UnsupportedError, match=r"how f64\[3\] lies isn't known while it is being traced"):
        tj.jit(lambda x: (tj.debug.inspect_array_sharding(x, callback=print), x)[1])(np.ones(3))


class Terminal(io.StringIO):
    @override
    def isatty(self) -> bool:
        return True


def test_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    sharding = NamedSharding(AbstractMesh((2, 2), ("x", "y")), P("x", "y"))
    plain = printed(tj.debug.visualize_sharding, (8, 8), sharding)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with redirect_stdout(Terminal()) as out:
        tj.debug.visualize_sharding((8, 8), sharding)
    colored = out.getvalue()
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == plain
    assert len(set(re.findall(r"48;2;[0-9;]*m", colored))) == 4
    with redirect_stdout(Terminal()) as out:
        tj.debug.visualize_sharding((8, 8), sharding, color_map=lambda at: (at, 0.0, 0.0, 1.0))
    assert len(set(re.findall(r"48;2;[0-9]*;0;0m", out.getvalue()))) == 4
    with redirect_stdout(Terminal()) as out:
        tj.debug.visualize_sharding((8, 8), sharding, use_color=False)
    assert out.getvalue() == plain
    monkeypatch.setenv("NO_COLOR", "1")
    with redirect_stdout(Terminal()) as out:
        tj.debug.visualize_sharding((8, 8), sharding)
    assert out.getvalue() == plain
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)
    with redirect_stdout(narrow):
        tj.debug.visualize_sharding((8,), NamedSharding(AbstractMesh((2,), "x"), P("x")))
    narrow.seek(0)
    assert narrow.read() == "+--------+--------+\n|device 0|device 1|\n+--------+--------+\n"


def test_labels_that_are_too_long() -> None:
    mesh = AbstractMesh((4, 64), ("x", "y"))
    text = printed(tj.debug.visualize_sharding, (8, 8), NamedSharding(mesh, P("x")))
    assert " device 0-63 " in text
    text = printed(tj.debug.visualize_sharding, (8, 128), NamedSharding(mesh, P(None, "y")))
    assert max(map(len, text.splitlines())) < 64 * 6
    assert {
        int(number)
        for number in re.findall(
            r"\d+", tools.sharding_picture((64,), NamedSharding(mesh, P("y"))).drawn(max_width=1000)
        )
    } == {*range(256)}


def test_more_dimensions() -> None:
    mesh = AbstractMesh((2, 2, 2), ("x", "y", "z"))
    picture = tools.sharding_picture((4, 5, 6, 8), NamedSharding(mesh, P("x", None, "y", "z")))
    assert [grid.head for grid in picture.grids] == [
        "[0:2, :, :, :]: axis 2 down, axis 3 across",
        "[2:4, :, :, :]: axis 2 down, axis 3 across",
    ]
    numbers = [[[cell.numbers for cell in row] for row in grid.rows] for grid in picture.grids]
    assert numbers == [[[(0,), (1,)], [(2,), (3,)]], [[(4,), (5,)], [(6,), (7,)]]]
    one = tools.sharding_picture((4, 5, 8, 8), NamedSharding(mesh, P(None, None, ("z", "x"))))
    assert [grid.head for grid in one.grids] == ["[:, :, :, :]: axis 2 across"]
    assert [[cell.numbers for cell in row] for row in one.grids[0].rows] == [[(0, 2), (4, 6), (1, 3), (5, 7)]]
    assert "replicated along 'y' (2)" in str(one)
    many = tools.sharding_picture(
        (32, 2, 2), NamedSharding(AbstractMesh((32, 2, 2), ("x", "y", "z")), P("x", "y", "z"))
    )
    assert "(16 more pictures)" in str(many)
    assert "(4, 5, 6, 8) by P()" in str(tools.sharding_picture((4, 5, 6, 8), NamedSharding(mesh, P())))
    scalar = tools.sharding_picture((), NamedSharding(mesh, P()))
    assert "│device 0,1,2,3,4,5,6,7 │" in str(scalar)
    assert tools.sharding_picture((0, 2), NamedSharding(mesh, P(None, "x"))).grids[0].across == 2


@pytest.mark.parametrize("shape", [(), (8,), (8, 8), (8, 4, 2), (2, 8, 4, 2)])
def test_every_device_has_its_block(shape: tuple[int, ...]) -> None:
    """The law: what a box says of its devices is where they have elements."""
    mesh = Mesh(DEVICES.reshape(2, 2, 2), ("x", "y", "z"))
    for parts in [(), ("x",), ("y", "z"), (None, ("z", "y")), ("x", "y", "z"), (None, "x", "y", "z")]:
        if len(parts) > len(shape):
            continue
        sharding = NamedSharding(mesh, P(*parts))
        cells = [cell for grid in tools.sharding_picture(shape, sharding).grids for row in grid.rows for cell in row]
        found = {number: cell.index for cell in cells for number in cell.numbers}
        assert found == {device.id: index for device, index in sharding.devices_indices_map(shape).items()}
        assert sum(len(cell.numbers) for cell in cells) == 8


def test_it_is_a_value_that_shows_itself() -> None:
    mesh = Mesh(DEVICES.reshape(4, 2), ("x", "y"))
    explicit = Mesh(DEVICES.reshape(4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    sharding = NamedSharding(explicit, P("x", unreduced={"y"}))
    picture = tools.sharding_picture((8, 8), sharding)
    assert picture == tools.sharding_picture((8, 8), sharding)
    assert "unreduced along 'y' (2)" in repr(picture)
    x = tj.device_put(np.arange(64.0).reshape(8, 8), NamedSharding(mesh, P("x", "y")))
    shown: list[tuple[Any, list[str]]] = [
        (picture, ["CPU 0,1", "CPU 6,7"]),
        (x, ["f64[8,8]", "63.", "CPU 0", "CPU 7"]),
        (mesh, ["cpu:0", "cpu:7", "y = 0"]),
        (mesh.abstract_mesh, ["no devices yet"]),
        (AbstractMesh((4, 2, 1024), ("a", "b", "c")), ["…", "7168"]),
        (AbstractMesh((1024, 2), ("a", "b")), ["(824 more rows)"]),
        (AbstractMesh((), ()), ["Mesh()"]),
        (NamedSharding(mesh, P(None, "x")), ["not divided", "'x' (4)", "'y' (2)"]),
        (SingleDeviceSharding(tj.devices("cpu")[0]), ["SingleDeviceSharding"]),
    ]
    for what, texts in shown:
        found = Balanced(what._repr_html_())
        assert not found.open
        for text in texts:
            assert text in " ".join(found.text)
    assert "object at" not in "".join(repr(what) for what, _ in shown)


def test_errors() -> None:
    sharding = NamedSharding(AbstractMesh((4,), "x"), P("x"))
    with pytest.raises(ShardingError, match="axis 0 of size 6 can't be divided equally by 4"):
        tj.debug.visualize_sharding((6,), sharding)
    with pytest.raises(InputError, match="a picture of a shape needs a sharding"):
        tools.sharding_picture((6,))
    wrong: Any = P("x")
    with pytest.raises(InputError, match="a picture is of a sharding"):
        tj.debug.visualize_sharding((6,), wrong)
