"""After each test, whatever happened in it, the library must be as it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax.tracing.concrete import ROOT, active_frame


@pytest.fixture(autouse=True)
def still_works() -> Iterator[None]:
    yield
    assert active_frame() is ROOT
    assert float(tj.jit(tj.grad(lambda x: tnp.sin(x) * x))(0.0)) == 0.0
