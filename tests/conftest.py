"""What all tests share: jax, the oracle, with 64-bit types on; golden files."""

from __future__ import annotations

import jax
import pytest

from tests.golden import golden

__all__ = ["golden", "pytest_addoption"]

jax.config.update("jax_enable_x64", True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files instead of comparing")
