"""`print` in the function of a `shard_map` shows what each device has."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tinyjax as tj
from tinyjax import P, lax, random
from tinyjax.sharding import AbstractMesh

MESH = AbstractMesh((2, 2), ("i", "j"))
X = tj.numpy.arange(16.0).reshape(4, 4)


def blocks(x: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> dict[str, str]:
    """What is expected of an array that is divided along both axes."""
    return {f"i={i}, j={j}": str(x[2 * i : 2 * i + 2, 2 * j : 2 * j + 2]) for i in range(2) for j in range(2)}


def said(text: str) -> dict[str, str]:
    """What was printed of each place."""
    body = text.split("with these values\n")[1].rsplit(")", 1)[0]
    found = re.split(r"^((?:\w+=\d+(?:, )?)+|everywhere):\s", body, flags=re.MULTILINE)
    return {place: shown.strip() for place, shown in zip(found[1::2], found[2::2], strict=True)}


@pytest.mark.parametrize("tracked", [True, False])
def test_values_are_those_of_the_devices(tracked: bool) -> None:
    offset, seen = tj.numpy.asarray(2.0), list[str]()

    def f(x: tj.Array) -> tj.Array:
        y = x * offset + 1.0
        seen.extend(map(str, (x, y, lax.psum(y, "i"), lax.psum(y, ("i", "j")))))
        return y

    mapped = tj.shard_map(f, mesh=MESH, in_specs=P("i", "j"), out_specs=P("i", "j"), check_vma=tracked)
    y = np.asarray(mapped(X))
    assert said(seen[0]) == blocks(np.asarray(X))
    assert said(seen[1]) == blocks(y)
    columns = y[:2] + y[2:]
    over_i = {f"j={j}": str(columns[:, 2 * j : 2 * j + 2]) for j in range(2)}
    total = str(columns[:, :2] + columns[:, 2:])
    if tracked:
        assert said(seen[2]) == over_i
        assert said(seen[3]) == {"everywhere": total}
    else:  # nothing says what is the same
        assert said(seen[2]) == {f"i={i}, {place}": text for i in range(2) for place, text in over_i.items()}
        assert set(said(seen[3]).values()) == {total}


def test_within_derivatives_and_of_keys() -> None:
    seen: list[str] = []

    def f(x: tj.Array, key: tj.Array) -> tj.Array:
        seen.append(repr(random.fold_in(key, lax.axis_index("i"))))

        def g(y: tj.Array) -> tj.Array:
            seen.append(repr(y * 2.0))
            return (y * y).sum()

        return tj.grad(g)(x)

    key = random.key(3)
    tj.shard_map(f, mesh=MESH, in_specs=(P("i", "j"), P()), out_specs=P("i", "j"))(X, key)
    assert said(seen[0]) == {f"i={i}": str(random.fold_in(key, i)) for i in range(2)}
    assert all(text in seen[1] for text in blocks(2.0 * np.asarray(X)).values())


def test_effects_are_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[str] = []

    def f(x: tj.Array) -> tj.Array:
        tj.debug.print("once")
        seen.append(str(x + 1.0))
        return x

    tj.shard_map(f, mesh=AbstractMesh((1,), ("i",)), in_specs=P("i"), out_specs=P("i"))(X)
    assert capsys.readouterr().out == "once\n"
    assert said(seen[0]) == {"i=0": str(X + 1.0)}


def test_many_devices_are_abridged() -> None:
    seen: list[str] = []

    def f(x: tj.Array) -> tj.Array:
        seen.append(str(x))
        return x

    tj.shard_map(f, mesh=AbstractMesh((1024,), ("x",)), in_specs=P("x"), out_specs=P("x"))(tj.numpy.arange(1024))
    lines = seen[0].splitlines()
    assert lines[1:5] == [f"x={i}: [{i}]" for i in range(4)]
    assert lines[5] == "... and 1016 more ..."
    assert lines[6:] == [*(f"x={i}: [{i}]" for i in range(1020, 1023)), "x=1023: [1023])"]


def test_without_elements_the_type_is_shown() -> None:
    seen: list[str] = []

    def f(x: tj.Array) -> tj.Array:
        seen.append(repr(x))
        return x

    mapped = tj.shard_map(f, mesh=MESH, in_specs=P("i"), out_specs=P("i"))
    tj.jit(mapped)(X)
    tj.vmap(mapped)(X[None])
    tj.make_jaxpr(mapped)(X)
    assert seen == ["Tracer(f64[2,4]{V:i}, staging)"] * 3
    tj.grad(lambda x: mapped(x).sum())(X)
    assert "with these values\ni=0:" in seen[3]
