"""What all tests share: jax, the oracle, with 64-bit types on; golden files."""

from __future__ import annotations

import gc

import jax
import pytest
from hypothesis import settings

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


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files instead of comparing")
