"""The registry of the primitives in `examples`, and parameters of every kind."""

from __future__ import annotations

from typing import Final

import numpy as np

import tinyjax as tj
from tests.ir.examples import (
    F64,
    VEC,
    WEAK,
    Apply,
    Assorted,
    Choose,
    Custom,
    Emit,
    Flags,
    Mode,
    Rules,
    Window,
    affine,
    array,
    bits,
    double,
)
from tinyjax.ir import ClosedJaxpr
from tinyjax.ir.dtypes import FLOAT32, FLOAT64

REGISTRY: Final = tj.ir.STANDARD.extended(Apply, Assorted, Choose, Custom, Emit, Flags, Mode, Rules, Window)


def parameters() -> list[object]:
    """No two of them are the same."""
    found: list[object] = [None, True, 1, 1.0, 1 + 0j, "1", b"1", (1,), (1.0,), (True,), ((1,),), frozenset({1})]
    found += [0, 0.0, -0.0, False, complex(0.0, -0.0), "", b"", (), frozenset(), -1, 2**70, -(2**70), 2**63, -(2**63)]
    found += ["None", "True", "float64", np.dtype("f8"), np.dtype("f4"), float, np.float64, VEC, F64, WEAK]
    found += [float("nan"), -float("nan"), bits(0x7FF8000000000001), float("inf"), complex(float("nan"), -0.0)]
    found += [Mode.CLIP, Mode.FILL, Flags.LEFT, Flags(0), Flags.LEFT | Flags.RIGHT, Window((1,)), Window((2,))]
    found += [("ab", "c"), ("a", "bc"), ("a", ("b", "c")), (("a", "b"), "c"), ("a", "b", "c"), frozenset({1, 2})]
    found += [array([1.0], FLOAT64), array([1.0], FLOAT32), array([[1.0]], FLOAT64), array([-1.0], FLOAT64)]
    found += [frozenset({1.0}), frozenset({True}), affine(), double(), (double(),), ClosedJaxpr(double())]
    found += ["zażółć\n\0\U0001f600", "\ud800", "\udcff", b"\x00\xff"]
    return found
