"""Checkpoints: what is saved is loaded, onto any mesh and by any number of processes, or is an error; and what was
saved before is there whenever a save is interrupted."""

from __future__ import annotations

import json
import random
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import tinyjax as tj
from tests.processes.running import Processes, run
from tinyjax import NamedSharding, P
from tinyjax.errors import FileFormatError, InputError, ShardingError
from tinyjax.ir.dtypes import FLOAT0, KEYS, MOVABLE, DType, short_name
from tinyjax.sharding import Mesh

DEVICES = np.array(tj.devices("cpu")[:8])
MESHES = {
    "rows": NamedSharding(Mesh(DEVICES, ("x",)), P("x")),
    "columns": NamedSharding(Mesh(DEVICES[:4], ("x",)), P(None, "x")),
    "blocks": NamedSharding(Mesh(DEVICES[::-1].reshape(4, 2), ("x", "y")), P("x", "y")),
    "partly": NamedSharding(Mesh(DEVICES.reshape(2, 4), ("x", "y")), P(None, "y")),
    "replicated": NamedSharding(Mesh(DEVICES[2:5], ("x",)), P()),
}
DTYPES: list[DType] = sorted([*MOVABLE, FLOAT0], key=short_name)
WHOLE = np.arange(128.0).reshape(8, 16)


class Pair(NamedTuple):
    left: Any
    right: Any


def same(x: Any, y: Any) -> bool:
    """Whether two arrays are the same, in each bit."""
    a, b = np.asarray(x), np.asarray(y)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def elements(dtype: DType) -> Any:
    """Some elements of any dtype."""
    if dtype == FLOAT0:
        return np.zeros((2, 3), dtype)
    if dtype in KEYS:
        return np.arange(6 * dtype.itemsize, dtype=np.uint8).view(dtype).reshape(2, 3)
    return (np.arange(6) % 2).astype(dtype).reshape(2, 3)


@pytest.mark.parametrize("dtype", DTYPES, ids=short_name)
def test_every_dtype(dtype: DType, tmp_path: Path) -> None:
    tree = [elements(dtype), elements(dtype)[0, 0], elements(dtype)[:, :0]]
    tj.checkpoints.save(tmp_path / "c", tree)
    for x, y in zip(tree, tj.checkpoints.load(tmp_path / "c"), strict=True):
        assert same(x, y)
        assert y.dtype == dtype


@pytest.mark.parametrize("to", [*MESHES, "host"])
@pytest.mark.parametrize("source", [*MESHES, "host"])
def test_from_any_mesh_to_any_mesh(source: str, to: str, tmp_path: Path) -> None:
    x = tj.device_put(WHOLE, MESHES[source]) if source in MESHES else tj.numpy.asarray(WHOLE)
    tj.checkpoints.save(tmp_path, {"x": x})
    sharding = MESHES.get(to)
    (y,) = tj.checkpoints.load(tmp_path, shardings=sharding).values()
    assert same(y, WHOLE)
    assert sharding is None or y.sharding == sharding
    # What several devices have is written once.
    assert sum(file.stat().st_size for file in tmp_path.rglob("*.parts")) == WHOLE.nbytes


def test_trees(tmp_path: Path) -> None:
    tree = {"a": [np.ones(2), (3, None)], "b": {1: 2.5, 0: ()}, "n": tj.numpy.float32(1.0)}
    tj.checkpoints.save(tmp_path, tree)
    found = tj.checkpoints.load(tmp_path)
    assert tj.tree.structure(found) == tj.tree.structure(tree)
    assert found["a"][1][0].weak_type
    assert found["b"][1].dtype == np.float64
    tj.checkpoints.save(tmp_path, Pair({"w": np.ones(3)}, 1))
    with pytest.raises(InputError, match=r"nodes of the class .*Pair, .*load\(path, like=tree\)"):
        tj.checkpoints.load(tmp_path)
    rows = MESHES["replicated"]
    like = Pair({"w": tj.device_put(np.zeros(3), rows)}, 0)
    assert tj.checkpoints.load(tmp_path, like=like).left["w"].sharding == rows
    with pytest.raises(InputError, match=r"it has no leaf \.left\['v'\]; `like` has no leaf \.left\['w'\]"):
        tj.checkpoints.load(tmp_path, like=Pair({"v": np.zeros(3)}, 0))
    with pytest.raises(InputError, match=r"saved with shape \(3,\) and dtype f64, but in `like` it has shape \(4,\)"):
        tj.checkpoints.load(tmp_path, like=Pair({"w": np.zeros(4)}, 0))
    with pytest.raises(InputError, match=r"the leaf \['f'\] is no array"):
        tj.checkpoints.save(tmp_path, {"f": "text"})
    with pytest.raises(InputError, match="call save outside of jit"):
        tj.jit(lambda x: tj.checkpoints.save(tmp_path, [x]))(1.0)


def test_a_prefix_of_shardings(tmp_path: Path) -> None:
    tj.checkpoints.save(tmp_path, {"a": (WHOLE, WHOLE), "b": WHOLE})
    found = tj.checkpoints.load(tmp_path, shardings={"a": MESHES["rows"], "b": None})
    assert [x.sharding == MESHES["rows"] for x in (*found["a"], found["b"])] == [True, True, False]
    with pytest.raises(ShardingError, match=r"\['a'\]\[0\] of .* can't be divided equally by 3"):
        tj.checkpoints.load(tmp_path, shardings=NamedSharding(Mesh(DEVICES[:3], ("x",)), P("x")))


def test_what_was_tampered_with_is_an_error(tmp_path: Path) -> None:
    good = tmp_path / "good"
    tj.checkpoints.save(good, {"x": WHOLE, "y": WHOLE[:, 3]})
    (file,) = good.rglob("*.parts")
    inner = file.relative_to(good)

    def copied() -> Path:
        bad = tmp_path / "bad"
        shutil.rmtree(bad, ignore_errors=True)
        shutil.copytree(good, bad)
        return bad

    def refused(words: str) -> None:
        with pytest.raises(FileFormatError, match=words):
            tj.checkpoints.load(tmp_path / "bad")

    content = file.read_bytes()
    for at in (0, 500, len(content) - 1):
        changed = bytearray(content)
        changed[at] ^= 1
        (copied() / inner).write_bytes(changed)
        refused("is damaged")
    (copied() / inner).write_bytes(content[:-1])
    refused("is truncated")
    (copied() / inner).unlink()
    refused("can't be read")
    manifest = (good / "manifest.json").read_text()
    (copied() / "manifest.json").unlink()
    refused("has no checkpoint")
    (copied() / "manifest.json").write_text(manifest[: len(manifest) // 2])
    refused("no manifest")
    (copied() / "manifest.json").write_text(manifest.replace('"y"', '"z"').replace("'y'", "'z'"))
    refused("changed after it had been written")
    for key, value in {"format": "tinyjax checkpoint 9", "folder": "../..", "arrays": 3}.items():
        from tinyjax.checkpoints import manifest as module

        forged = {k: v for k, v in json.loads(manifest).items() if k != "sha256"} | {key: value}
        (copied() / "manifest.json").write_text(json.dumps({**forged, "sha256": module._hash_of(forged)}))
        refused("can't be read")


def test_a_save_that_fails_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tj.checkpoints.save(tmp_path, {"x": WHOLE})
    for name in ("fsync", "replace"):
        with monkeypatch.context() as patched:

            def full(*_: object) -> None:
                raise OSError("no space left")

            patched.setattr(f"os.{name}", full)
            with pytest.raises(OSError, match="no space left"):
                tj.checkpoints.save(tmp_path, {"x": -WHOLE})
        assert same(tj.checkpoints.load(tmp_path)["x"], WHOLE)
    tj.checkpoints.save(tmp_path, {"x": -WHOLE})
    assert same(tj.checkpoints.load(tmp_path)["x"], -WHOLE)
    assert len(list(tmp_path.iterdir())) == 2  # nothing is left of what failed


def test_saves_and_loads_at_once(tmp_path: Path) -> None:
    """None takes away what another one writes or reads."""

    def saves(k: int) -> None:
        for step in range(4):
            tj.checkpoints.save(tmp_path, {"x": np.full((64, 64), 10 * k + step), "same": 10 * k + step})

    def loads() -> None:
        for _ in range(12):
            found = tj.checkpoints.load(tmp_path)
            assert same(found["x"], np.full((64, 64), int(found["same"])))

    saves(0)
    with ThreadPoolExecutor(4) as pool:
        for done in [*[pool.submit(saves, k) for k in range(3)], pool.submit(loads)]:
            done.result()
    interrupted = tmp_path / ".manifest.json.0123456789abcdef.tmp"
    interrupted.touch()
    tj.checkpoints.save(tmp_path, {"x": 1})
    newest = json.loads((tmp_path / "manifest.json").read_text())["folder"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifest.json", newest]


SAVING = """
    rows, everywhere = begin()
    whole = np.arange(64.0).reshape(16, 4)
    x, w = spread(whole, rows), spread(whole, everywhere)
    step = 0
    while True:
        tj.checkpoints.save(sys.argv[0] + ".saved", {"x": x + float(step), "w": w, "step": step})
        say(f"saved {step}")
        step += 1
        if FOREVER is False and step == 2:
            break
"""


@pytest.mark.sweep
def test_processes_save_and_others_load(tmp_path: Path) -> None:
    for ended in run(SAVING.replace("FOREVER", "False"), 2, tmp_path, devices=2).values():
        assert ended.code == 0, ended.err
    path = tmp_path / "script.py.saved"
    assert [file.name for file in sorted(path.rglob("*.parts"))] == ["0.parts", "1.parts"]
    whole = np.arange(64.0).reshape(16, 4)
    assert sum(file.stat().st_size for file in path.rglob("*.parts")) == 2 * whole.nbytes + 8
    found = tj.checkpoints.load(path, shardings={"x": MESHES["rows"], "w": None, "step": None})
    assert found["step"] == 1
    assert same(found["x"], whole + 1.0)
    assert same(found["w"], whole)
    script = """
        rows, everywhere = begin()
        found = tj.checkpoints.load(PATH, shardings={"x": rows, "w": everywhere, "step": None})
        whole = np.arange(64.0).reshape(16, 4)
        np.testing.assert_array_equal(tj.process_allgather(found["x"], tiled=True), whole + 1.0)
        np.testing.assert_array_equal(found["w"], whole)
        try:
            tj.checkpoints.save(PATH, {"mine": np.float64(ME)})
        except tj.errors.DisagreementError as error:
            say(error)
    """
    for ended in run(script.replace("PATH", repr(str(path))), 4, tmp_path).values():
        assert ended.code == 0, ended.err
        assert "['mine'] isn't spread over processes" in ended.out
    assert tj.checkpoints.load(path)["step"] == 1


@pytest.mark.sweep
@pytest.mark.parametrize("victim", [0, 1])
def test_a_save_that_is_killed_loses_nothing(victim: int, tmp_path: Path) -> None:
    path = tmp_path / "script.py.saved"
    random.seed(victim)
    for _ in range(2):
        with Processes(SAVING.replace("FOREVER", "True"), 2, tmp_path) as processes:
            processes.until(victim, "saved 2")
            time.sleep(random.random() * 0.2)
            last = processes.said(victim).strip().splitlines()[-1]
            processes.signal(victim, signal.SIGKILL)
            other = processes.ended([1 - victim])[1 - victim]
        assert other.code == 1, other.err
        assert f"process {victim} is gone" in other.error, other.err
        found = tj.checkpoints.load(path)
        assert found["step"] >= int(last.split()[1])
        assert same(found["x"], np.arange(64.0).reshape(16, 4) + float(found["step"]))
