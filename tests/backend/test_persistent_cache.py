"""Compiled programs on disk: a later process compiles nothing, and nothing that is wrong with the files matters."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np
import pytest
from jax._src import compiler

import tinyjax as tj
from tests.backend.test_executor import X, Y, Z, numbers, on_device, product, value
from tinyjax import backend
from tinyjax.backend import CompilationCache, XlaExecutor
from tinyjax.backend.devices import default_device
from tinyjax.backend.persistence import program_key
from tinyjax.backend.store import StoreInfo
from tinyjax.contexts.devices import single_equation
from tinyjax.errors import CompilationCacheWarning, InputError
from tinyjax.ir.program import Eqn, Jaxpr
from tinyjax.primitives.elementwise import add

ARGS = (value([1.0, 2, 3]), value([4.0, 5, 6]))


def another_process(directory: Path, max_bytes: int = 2**30) -> XlaExecutor:
    """An executor that has compiled nothing, as in a new process."""
    return XlaExecutor(persistent=CompilationCache(directory, max_bytes))


def info(executor: XlaExecutor) -> StoreInfo:
    assert executor.persistent is not None
    return executor.persistent.info()


def files(directory: Path) -> list[Path]:
    return sorted(directory.iterdir())


def test_programs_are_compiled_by_the_first_one(tmp_path: Path) -> None:
    for expected in (StoreInfo(0, 1, 0), StoreInfo(1, 0, 0)):
        executor = another_process(tmp_path / "made" / "for it")
        for name in ("f", "g"):
            (out,) = executor(product(), ARGS, name)
            assert numbers(out) == [4, 10, 18]
        assert info(executor) == expected
    compiled = another_process(tmp_path / "made" / "for it").compile(product(), "<lambda>")
    fresh = XlaExecutor().compile(product(), "f")
    assert compiled.cost_analysis() == fresh.cost_analysis()
    assert compiled.memory_analysis().argument_size_in_bytes == fresh.memory_analysis().argument_size_in_bytes
    assert "HloModule" in compiled.as_text()
    assert len(files(tmp_path / "made" / "for it")) == 1


def test_what_decides_is_in_the_key(tmp_path: Path) -> None:
    first = another_process(tmp_path)
    first(product(), ARGS, "f")
    first(product(), ARGS, "f", (True, False))
    first(Jaxpr((X, Y), (Eqn(add, (X, Y), (Z,)),), (Z,)), ARGS, "f")
    first.compile(product(), "f", options=(("xla_cpu_enable_fast_math", True),))
    first.compile(product(), "f", options=(("xla_cpu_enable_fast_math", False),))
    assert info(first) == StoreInfo(0, 5, 0)
    assert len(files(tmp_path)) == 5


def test_the_key_depends_on_versions_and_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    device = default_device()

    def key(text: str = "module @f {\n}") -> str:
        options = compiler.get_compile_options(
            num_replicas=1, num_partitions=1, device_assignment=np.array([[device.id]]), backend=device.client
        )
        return program_key(text, device, options)

    plain = key()
    assert key() == plain
    assert key("module @g {\n}") == plain
    assert key("module @f {\n\n}") != plain
    monkeypatch.setattr("jaxlib.version.__version__", "0.0.1")
    assert key() != plain
    monkeypatch.undo()
    monkeypatch.setenv("XLA_FLAGS", f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_enable_fast_math=true")
    assert key() != plain


def test_donated_arguments_are_donated_by_what_was_read(tmp_path: Path) -> None:
    for expected in (StoreInfo(0, 1, 0), StoreInfo(1, 0, 0)):
        executor = another_process(tmp_path)
        x, y = on_device([1.0, 2, 3]), on_device([4.0, 5, 6])
        (out,) = executor(product(), (x, y), "f", (True, False))
        assert numbers(out) == [4, 10, 18]
        assert backend.is_deleted(x)
        assert not backend.is_deleted(y)
        assert info(executor) == expected


def damage(path: Path, content: bytes) -> bytes:
    """A checksum that is right, and something else behind it."""
    from tinyjax.backend import store

    return store._head(path.stem, content) + content


@pytest.mark.parametrize("kind", ["empty", "truncated", "flipped", "foreign", "another", "garbage", "folder"])
def test_damaged_files_are_misses(tmp_path: Path, kind: str) -> None:
    another_process(tmp_path)(product(), ARGS, "f")
    (path,) = files(tmp_path)
    content = path.read_bytes()
    flipped = content[:1000] + bytes([content[1000] ^ 1]) + content[1001:]
    head = 27 + 32
    changes = {
        "empty": b"",
        "truncated": content[:-1],
        "flipped": flipped,
        "foreign": b"\x80\x04N.",
        "another": content[:head] + content[head:][::-1],
        # What is intact, but not what XLA expects.
        "garbage": damage(path, b"not a program"),
    }
    if kind == "folder":
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes(changes[kind])
    executor = another_process(tmp_path)
    with pytest.warns(CompilationCacheWarning) as warned:
        (out,) = executor(product(), ARGS, "f")
    assert numbers(out) == [4, 10, 18]
    assert str(warned[0].message).endswith(("so the program is compiled again", "so it is compiled again"))
    assert info(executor).misses == 1
    assert info(executor).hits == 0
    if kind == "folder":
        return
    # What was damaged has been replaced.
    executor = another_process(tmp_path)
    executor(product(), ARGS, "f")
    assert info(executor) == StoreInfo(1, 0, 0)


def test_a_file_under_another_name_is_a_miss(tmp_path: Path) -> None:
    another_process(tmp_path)(product(), ARGS, "f")
    another_process(tmp_path)(single_equation(add, (X.aval, Y.aval)), ARGS, "f")
    one, two = files(tmp_path)
    for source, target in ((one, two), (two, one)):
        target.write_bytes(source.read_bytes())
        executor = another_process(tmp_path)
        with pytest.warns(CompilationCacheWarning, match="is damaged, so the program is compiled again"):
            outs = [executor(jaxpr, ARGS, "f")[0] for jaxpr in (product(), single_equation(add, (X.aval, Y.aval)))]
        assert list(map(numbers, outs)) == [[4, 10, 18], [5, 7, 9]]
        executor = another_process(tmp_path)
        for jaxpr in (product(), single_equation(add, (X.aval, Y.aval))):
            executor(jaxpr, ARGS, "f")
        assert info(executor) == StoreInfo(2, 0, 0)


def test_a_directory_that_can_not_be_made_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    executor = another_process(tmp_path / "file" / "below")
    with pytest.warns(CompilationCacheWarning, match="can't be kept in"):
        (out,) = executor(product(), ARGS, "f")
    assert numbers(out) == [4, 10, 18]
    with pytest.raises(OSError, match="below"):
        tj.enable_compilation_cache(tmp_path / "file" / "below")
    with pytest.raises(InputError, match="holds at least one byte, got max_bytes=0"):
        tj.enable_compilation_cache(tmp_path, max_bytes=0)
    assert backend.execute.persistent is None


def test_programs_that_call_python_are_not_kept(tmp_path: Path) -> None:
    jaxpr = tj.make_jaxpr(lambda x: tj.pure_callback(np.sin, x, x))(np.ones(3)).jaxpr
    executor = another_process(tmp_path / "cache")
    for _ in range(2):
        executor(jaxpr, (value([0.0, 0.0, 0.0]),), "f")
    assert info(executor) == StoreInfo(0, 0, 0)
    assert not (tmp_path / "cache").exists()


def test_the_size_is_bounded(tmp_path: Path) -> None:
    cache = CompilationCache(tmp_path, 1000)
    (tmp_path / "notes.txt").write_bytes(bytes(5000))
    abandoned = tmp_path / ".c.xla.0123456789abcdef.tmp"
    abandoned.write_bytes(bytes(10))
    now = time.time()
    os.utime(abandoned, (now - 7200, now - 7200))
    for age, key in ((3, "a"), (2, "b"), (1, "c")):
        cache.write(key, bytes(200))
        os.utime(tmp_path / f"{key}.xla", (now - 100 * age, now - 100 * age))
    assert cache.read("a") == bytes(200)  # and so it was used last
    cache.write("d", bytes(200))
    assert [file.name for file in files(tmp_path)] == ["a.xla", "c.xla", "d.xla", "notes.txt"]
    cache.write("e", bytes(2000))
    assert cache.read("e") is None
    cache.clear()
    assert [file.name for file in files(tmp_path)] == ["notes.txt"]


def test_threads_share_a_cache(tmp_path: Path) -> None:
    executors = [another_process(tmp_path) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        outs = list(pool.map(lambda executor: numbers(executor(product(), ARGS, "f")[0]), executors * 5))
    assert outs == [[4, 10, 18]] * 20
    assert sum(info(executor).hits + info(executor).misses for executor in executors) == 4
    assert len(files(tmp_path)) == 1


def test_enabling_and_disabling(tmp_path: Path) -> None:
    def f(x: tj.Array) -> tj.Array:
        return x * 7.25 + 1

    x = tj.numpy.ones(5)
    try:
        cache = tj.enable_compilation_cache(tmp_path)
        assert np.asarray(tj.jit(f)(x)).tolist() == [8.25] * 5
        assert cache.info() == StoreInfo(0, 1, 0)
        tj.clear_caches()
        assert np.asarray(tj.jit(f)(x)).tolist() == [8.25] * 5
        assert cache.info() == StoreInfo(1, 1, 0)
    finally:
        tj.disable_compilation_cache()
        tj.clear_caches()
    tj.jit(f)(x)
    assert cache.info() == StoreInfo(1, 1, 0)


SCRIPT = """
import sys
import numpy as np, tinyjax as tj
from jaxlib import _jax
from tinyjax import backend
if sys.argv[1:] == ["compile nothing"]:
    _jax.Client.compile_and_load = None
def loss(x):
    y, _ = tj.lax.scan(lambda c, row: (tj.numpy.tanh(c + row), None), x[0], x)
    return (y * y).sum()
print(float(tj.jit(tj.grad(loss))(np.ones((4, 3))).sum()), float(tj.jit(loss)(np.ones((4, 3)))))
info = backend.execute.persistent.info()
print(info.hits, info.misses, info.failures)
"""


@pytest.mark.sweep
def test_processes(tmp_path: Path) -> None:
    """Two at once, and then one that compiles nothing."""
    path = os.pathsep.join(sys.path)
    env = {**os.environ, "TINYJAX_COMPILATION_CACHE_DIR": str(tmp_path), "PYTHONPATH": path}

    def start(seed: str, *args: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-W", "error", "-c", SCRIPT, *args]
        return subprocess.Popen(command, env={**env, "PYTHONHASHSEED": seed}, stdout=subprocess.PIPE, text=True)

    both = [start("1"), start("2")]
    outputs = [process.communicate()[0].splitlines() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    kept = len(files(tmp_path))
    assert kept >= 2
    last = start("3", "compile nothing")
    results, counts = last.communicate()[0].splitlines()
    assert last.returncode == 0
    assert counts == f"{kept} 0 0"
    assert [output[0] for output in outputs] == [results] * 2
    assert len(files(tmp_path)) == kept


def test_jax_is_left_alone(tmp_path: Path) -> None:
    before = jax.config.values["jax_compilation_cache_dir"]
    another_process(tmp_path)(product(), ARGS, "f")
    assert jax.config.values["jax_compilation_cache_dir"] == before
