"""What all tests share: jax, the oracle, with 64-bit types on; golden files."""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Final
from zlib import crc32

# Read when jax first looks for devices: what is about several of them runs beside all else.
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count=8 {os.environ.get('XLA_FLAGS', '')}".strip()

import jax
import pytest
from hypothesis import settings

import tinyjax as tj
from tests.golden import golden

__all__ = ["golden", "pytest_addoption"]

jax.config.update("jax_enable_x64", True)

# The same examples in each run, so that a change fails for what it changed. `nox -s explore` looks for new ones.
settings.register_profile("explore", max_examples=500)
settings.register_profile("steady", derandomize=True)
settings.load_profile("steady")

# What jax and the tests keep is looked through by each full collection of garbage: thousands of tests pay for it.
gc.freeze()
gc.set_threshold(100_000, 50, 100)

#: Linux ends a process that maps more than 65,530 pieces of memory; each compiled program is eight or more of them.
MAPPED: Final = Path("/proc/self/maps")
MANY: Final = 20_000
TESTS: Final = count()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files instead of comparing")


#: Of the cases of these files one in so many belongs to every run, the others to the session for what takes long.
SAMPLED: Final = {
    "tests/api/test_compositions.py": 4,
    "tests/control/test_cond.py": 2,
    "tests/control/test_loops.py": 2,
    "tests/control/test_scan.py": 3,
    "tests/hlo/test_values.py": 2,
    "tests/lax/test_functions.py": 2,
    "tests/numpy/test_elementwise.py": 2,
    "tests/numpy/test_reductions.py": 2,
    "tests/primitives/test_cumulative.py": 3,
    "tests/primitives/test_elementwise_values.py": 2,
    "tests/primitives/test_gather.py": 2,
    "tests/primitives/test_laws.py": 4,
    "tests/tracing/test_operators.py": 2,
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    for item in items:
        file, _, case = item.nodeid.partition("::")
        if "[" in case and crc32(case.encode()) % SAMPLED.get(file, 1):
            item.add_marker(pytest.mark.sweep)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Forgets what is compiled when there is much of it: a process runs thousands of tests."""
    if next(TESTS) % 50 == 49 and MAPPED.exists() and MAPPED.read_bytes().count(b"\n") > MANY:
        tj.clear_caches()
        jax.clear_caches()
        gc.collect()
