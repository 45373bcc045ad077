"""What all tests share: jax, the oracle, with 64-bit types on; golden files."""

from __future__ import annotations

import gc
import os
from itertools import count
from pathlib import Path
from typing import Final

# Read when jax first looks for devices: what is about several of them runs beside all else.
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count=8 {os.environ.get('XLA_FLAGS', '')}".strip()

import jax
import pytest
from hypothesis import settings

import tinyjax as tj
from tests.golden import golden
from tests.oracle import hurry
from tests.sampling import pytest_collection_modifyitems

__all__ = ["golden", "pytest_addoption", "pytest_collection_modifyitems"]

jax.config.update("jax_enable_x64", True)
hurry()

# The same examples in each run, so that a change fails for what it changed. `nox -s explore` looks for new ones.
settings.register_profile("explore", max_examples=500, deadline=None)
settings.register_profile("steady", derandomize=True, max_examples=60, deadline=None)
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


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Forgets what is compiled when there is much of it: a process runs thousands of tests."""
    if next(TESTS) % 50 == 49 and MAPPED.exists() and MAPPED.read_bytes().count(b"\n") > MANY:
        tj.clear_caches()
        jax.clear_caches()
        gc.collect()
