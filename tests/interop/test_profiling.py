"""Recordings of what runs: as jax makes them, of our programs."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
from tinyjax import profiler


def names_in(directory: Path) -> set[str]:
    """The names of what was recorded."""
    (found,) = directory.rglob("*.trace.json.gz")
    events: list[dict[str, Any]] = json.loads(gzip.decompress(found.read_bytes()))["traceEvents"]
    return {str(event.get("name")) for event in events}


def test_recordings_show_programs_and_blocks(tmp_path: Path) -> None:
    @profiler.annotate_function
    def prepared(n: int) -> Any:
        return prepared(n - 1) if n else np.ones((64, 64))  # blocks within blocks of one name

    with profiler.trace(tmp_path):
        for number in range(2):
            with profiler.StepTraceAnnotation("descent", step_num=number):
                tj.block_until_ready(tj.jit(lambda x: tj.numpy.sin(x @ x))(prepared(2)))
    names = names_in(tmp_path)
    assert {"descent", "prepared"} <= names
    assert any("dot" in name or "sine" in name for name in names)


def test_one_at_a_time(tmp_path: Path) -> None:
    with profiler.trace(tmp_path), pytest.raises(RuntimeError, match=r"[Pp]rofile"):
        profiler.start_trace(tmp_path)
    with pytest.raises(RuntimeError, match=r"[Pp]rofile"):
        profiler.stop_trace()


def test_blocks_end_with_errors() -> None:
    with pytest.raises(ValueError, match="lost"), profiler.TraceAnnotation("search", what="key"):
        raise ValueError("lost")


def test_memory(tmp_path: Path) -> None:
    profiler.save_device_memory_profile(tmp_path / "memory", "cpu")
    assert gzip.decompress((tmp_path / "memory").read_bytes())
