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


#: Of the cases of these files one in so many belongs to every run, at least one of each test; the others belong to the
#: session for what takes long.
SAMPLED: Final = {
    "tests/api/test_compositions.py": 4,
    "tests/api/test_integers.py": 2,
    "tests/api/test_linear_call.py": 2,
    "tests/api/test_mesh_of_one.py": 2,
    "tests/api/test_placed_where_said.py": 2,
    "tests/control/test_checkpoint.py": 2,
    "tests/control/test_cond.py": 4,
    "tests/control/test_custom_in_loops.py": 2,
    "tests/control/test_custom_jvp.py": 2,
    "tests/control/test_custom_vjp.py": 2,
    "tests/control/test_forward_pass.py": 2,
    "tests/control/test_loops.py": 4,
    "tests/control/test_mapped_cond.py": 2,
    "tests/control/test_pruned_rules.py": 3,
    "tests/control/test_refusing_rules.py": 2,
    "tests/control/test_scan.py": 7,
    "tests/control/test_shard_map.py": 2,
    "tests/hlo/test_values.py": 3,
    "tests/interop/test_equal_rules.py": 2,
    "tests/interop/test_float0.py": 2,
    "tests/interop/test_from_jax.py": 2,
    "tests/interop/test_of_jax.py": 2,
    "tests/interop/test_to_jax.py": 2,
    "tests/ir/test_parser_jax.py": 2,
    "tests/lax/test_functions.py": 3,
    "tests/lax/test_windows.py": 2,
    "tests/nn/test_nn.py": 2,
    "tests/numpy/test_array_api.py": 2,
    "tests/numpy/test_elementwise.py": 3,
    "tests/numpy/test_indexing.py": 3,
    "tests/numpy/test_linalg.py": 2,
    "tests/numpy/test_manipulation.py": 3,
    "tests/numpy/test_products.py": 3,
    "tests/numpy/test_reductions.py": 4,
    "tests/numpy/test_sets.py": 2,
    "tests/numpy/test_special_values.py": 2,
    "tests/primitives/test_cumulative.py": 3,
    "tests/primitives/test_elementwise_values.py": 3,
    "tests/primitives/test_gather.py": 2,
    "tests/primitives/test_laws.py": 5,
    "tests/primitives/test_shaping.py": 2,
    "tests/primitives/test_slicing.py": 2,
    "tests/scipy/test_sparse.py": 3,
    "tests/test_scale.py": 2,
    "tests/tracing/test_operators.py": 2,
    "tests/transforms/test_guarded_steps.py": 3,
    "tests/transforms/test_penalties.py": 2,
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        name, bracket, _ = item.nodeid.partition("[")
        if bracket and item.nodeid.partition("::")[0] in SAMPLED:
            cases.setdefault(name, []).append(item)
    for name, found in cases.items():
        file = name.partition("::")[0]
        places = [crc32(item.nodeid.removeprefix(f"{file}::").encode()) for item in found]
        kept = [item for item, place in zip(found, places, strict=True) if not place % SAMPLED[file]]
        if not any(item.get_closest_marker("sweep") is None for item in kept):
            kept = [item for item in found if item.get_closest_marker("sweep") is None][:1]
        for item in found:
            if item not in kept:
                item.add_marker(pytest.mark.sweep)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Forgets what is compiled when there is much of it: a process runs thousands of tests."""
    if next(TESTS) % 50 == 49 and MAPPED.exists() and MAPPED.read_bytes().count(b"\n") > MANY:
        tj.clear_caches()
        jax.clear_caches()
        gc.collect()
