"""The directory of compiled programs: whom it may belong to, what it may hold, and what else may have become of it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import tinyjax as tj
from tinyjax.backend import CompilationCache
from tinyjax.backend.store import StoreInfo
from tinyjax.backend.trust import distrust
from tinyjax.errors import CompilationCacheWarning, InputError

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this system has no users")
is_root = hasattr(os, "geteuid") and os.geteuid() == 0
needs_root = pytest.mark.skipif(not is_root, reason="only root gives files away")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory that is the user's alone, and so is what is above it."""
    made = tmp_path / "above" / "cache"
    made.mkdir(parents=True, mode=0o700)
    assert distrust(made) is None
    return made


@pytest.fixture(autouse=True)
def _no_cache_afterwards() -> Iterator[None]:
    yield
    tj.disable_compilation_cache()


def open_to_all(directory: Path) -> Path:
    directory.chmod(0o777)
    return directory


def open_to_the_group(directory: Path) -> Path:
    directory.chmod(0o770)
    return directory


def open_with_sticky_bit(directory: Path) -> Path:
    directory.chmod(0o1777)
    return directory


def open_above(directory: Path) -> Path:
    directory.parent.chmod(0o777)
    return directory


def linked_to_one_that_is_open(directory: Path) -> Path:
    directory.chmod(0o777)
    link = directory.parent.parent / "link"
    link.symlink_to(directory)
    return link


def linked_from_one_that_is_open(directory: Path) -> Path:
    public = directory.parent.parent / "public"
    public.mkdir()
    public.chmod(0o777)
    (public / "link").symlink_to(directory)
    return public / "link"


def anothers(directory: Path) -> Path:
    os.chown(directory, 54321, -1)
    return directory


def anothers_above(directory: Path) -> Path:
    os.chown(directory.parent, 54321, -1)
    return directory


def anothers_link(directory: Path) -> Path:
    shared = directory.parent.parent / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (shared / "link").symlink_to(directory)
    os.chown(shared / "link", 54321, -1, follow_symlinks=False)
    return shared / "link"


UNSAFE = [open_to_all, open_to_the_group, open_with_sticky_bit, open_above, linked_to_one_that_is_open]
UNSAFE += [linked_from_one_that_is_open]
GIVEN_AWAY = [anothers, anothers_above, anothers_link]


@pytest.mark.parametrize("make", [*UNSAFE, *(pytest.param(make, marks=needs_root) for make in GIVEN_AWAY)])
def test_where_others_can_write(directory: Path, make: Callable[[Path], Path]) -> None:
    """A warning, and nothing is read or written; the program is compiled."""
    CompilationCache(directory).write("key", b"from before")
    path = make(directory)
    before = sorted(directory.iterdir())
    with pytest.warns(CompilationCacheWarning, match="others can write to|is another user's"):
        cache = tj.enable_compilation_cache(path)
    with pytest.warns(CompilationCacheWarning, match="aren't kept in .*, nor taken from there"):
        assert float(tj.jit(lambda x: x * 2.0 + len(make.__name__))(1.0)) == 2.0 + len(make.__name__)
    with pytest.warns(CompilationCacheWarning):
        assert cache.read("key") is None
    with pytest.warns(CompilationCacheWarning):
        cache.write("other", b"program")
    assert sorted(directory.iterdir()) == before
    assert cache.info().hits == 0
    assert cache.info().failures >= 4


def test_where_nobody_else_can(directory: Path) -> None:
    sticky = directory.parent.parent / "sticky"
    sticky.mkdir()
    sticky.chmod(0o1777)
    own = sticky / "own"
    own.mkdir(mode=0o700)
    link = sticky / "link"
    link.symlink_to("../sticky/own/.")
    readable = directory.parent / "readable"
    readable.mkdir(mode=0o755)
    deep = directory / "not" / "there" / "yet"
    for path in (own, link, readable, deep, directory / ".." / "cache"):
        CompilationCache(path).prepare()
        assert distrust(path) is None, path
        cache = CompilationCache(path)
        cache.write("key", b"program")
        assert cache.read("key") == b"program"
        assert cache.info() == StoreInfo(1, 0, 0)


def test_what_is_made_is_the_users_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        cache = CompilationCache(tmp_path / "a" / "b" / "c")
        cache.write("key", b"program")
    finally:
        os.umask(before)
    assert stat.S_IMODE(cache.directory.stat().st_mode) == 0o700
    assert stat.S_IMODE((cache.directory / "key.xla").stat().st_mode) == 0o600
    assert cache.read("key") == b"program"


def test_entries_that_others_could_write(directory: Path) -> None:
    cache = CompilationCache(directory)
    cache.write("key", b"program")
    path = directory / "key.xla"
    path.chmod(0o666)
    with pytest.warns(
        CompilationCacheWarning, match=r"others can write to .*key.xla, so the program is compiled again"
    ):
        assert cache.read("key") is None
    cache.write("key", b"program")
    assert cache.read("key") == b"program"
    path.unlink()
    os.mkfifo(path)
    with pytest.warns(CompilationCacheWarning, match="is no file"):
        assert cache.read("key") is None  # without waiting


@needs_root
def test_entries_of_others(directory: Path) -> None:
    cache = CompilationCache(directory)
    cache.write("key", b"program")
    os.chown(directory / "key.xla", 54321, -1)
    with pytest.warns(CompilationCacheWarning, match=r"key.xla is another user's"):
        assert cache.read("key") is None


def test_links_in_a_circle(directory: Path) -> None:
    (directory / "a").symlink_to(directory / "b")
    (directory / "b").symlink_to(directory / "a")
    assert "a link to itself" in str(distrust(directory / "a"))


def test_the_environment_names_a_user_who_does_not_exist() -> None:
    code = "import tinyjax as tj; print(float(tj.jit(lambda x: x * 2.0)(3.0)))"
    environment = {**os.environ, "TINYJAX_COMPILATION_CACHE_DIR": "~nosuchuser/x"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (0, "6.0\n"), done.stderr
    assert (
        done.stderr.count("CompilationCacheWarning: TINYJAX_COMPILATION_CACHE_DIR: the directory '~nosuchuser/x'") == 1
    )
    with pytest.raises(InputError, match="~nosuchuser/x"):
        CompilationCache("~nosuchuser/x")


def test_a_directory_that_became_a_file(directory: Path) -> None:
    cache = CompilationCache(directory)
    directory.rmdir()
    cache.clear()
    directory.write_bytes(b"notes")
    cache.clear()
    assert cache.read("key") is None
    with pytest.warns(CompilationCacheWarning, match="can't be kept"):
        cache.write("key", b"program")
    assert directory.read_bytes() == b"notes"


@pytest.mark.parametrize("away", [-7200, 7200, 10**9])
def test_abandoned_temporaries_are_removed_whatever_their_date(directory: Path, away: int) -> None:
    cache = CompilationCache(directory)
    old, fresh = directory / ".a.xla.0123456789abcdef.tmp", directory / ".b.xla.0123456789abcdef.tmp"
    for path in (old, fresh):
        path.write_bytes(bytes(10))
    os.utime(old, (time.time() + away,) * 2)
    cache.write("key", b"program")
    assert sorted(path.name for path in directory.iterdir()) == [fresh.name, "key.xla"]


def test_entries_with_a_date_in_the_future_go_first(directory: Path) -> None:
    cache = CompilationCache(directory, 1000)
    for i, key in enumerate("abc"):
        cache.write(key, bytes(200))
        when = time.time() + (10**8 if key == "b" else i - 100)
        os.utime(directory / f"{key}.xla", (when, when))
    cache.write("d", bytes(300))
    assert sorted(path.name for path in directory.iterdir()) == ["a.xla", "c.xla", "d.xla"]


@pytest.mark.sweep
def test_processes_keep_within_the_limit_together(directory: Path) -> None:
    code = """
import sys
from tinyjax.backend.store import CompilationCache
cache = CompilationCache(sys.argv[1], 20000)
for i in range(60):
    cache.write(f"{sys.argv[2]}-{i}", bytes(1000 + 13 * i))
"""
    writers = [subprocess.Popen([sys.executable, "-c", code, str(directory), str(i)]) for i in range(4)]
    most = 0
    while any(writer.poll() is None for writer in writers):
        sizes = 0
        with suppress(FileNotFoundError), os.scandir(directory) as entries:  # it changes while we look
            sizes = sum([entry.stat().st_size for entry in entries])
        most = max(most, sizes)
        time.sleep(0.001)
    assert [writer.returncode for writer in writers] == [0] * 4
    assert 10000 < sum(path.stat().st_size for path in directory.iterdir()) <= 20000
    # What is counted while files come and go may have met one of them twice, under both its names.
    assert most <= 22000
    assert not list(directory.glob("*.tmp"))


def test_a_writer_that_never_ends_holds_nobody_up(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    monkeypatch.setattr("tinyjax.backend.store._PATIENCE", 0.05)
    holder = os.open(directory, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    cache = CompilationCache(directory)
    cache.write("key", b"program")
    os.close(holder)
    assert cache.read("key") is None
    cache.write("key", b"program")
    assert cache.read("key") == b"program"


def test_a_cache_that_is_trusted_says_nothing(directory: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache = tj.enable_compilation_cache(directory)
        np.testing.assert_array_equal(tj.jit(lambda x: x * 3.5)(np.ones(2)), [3.5, 3.5])
    assert cache.info() == StoreInfo(0, 1, 0)
