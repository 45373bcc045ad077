"""Calls where the CPU is one device, as it is for most: the other tests divide it into eight, and ways to a launch that
ask nothing about places are for one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent


@pytest.mark.parametrize("name", ["prepared/test_jitted.py", "backend/test_dispatcher.py"])
def test_the_same_on_one_device(name: str) -> None:
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=1"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(TESTS / name)]
    done = subprocess.run(
        command, env={**os.environ, "XLA_FLAGS": flags}, cwd=TESTS.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:]
