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
from tinyjax.meshes import AxisType, Device, Mesh, NamedSharding
from tinyjax.meshes import PartitionSpec as P

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


def shardings() -> list[object]:
    """Meshes and how arrays lie on them."""
    auto, manual = AxisType.Auto, AxisType.Manual
    mesh, placed = Mesh((4, 2), ("x", "a b'")), Mesh([[Device("cpu", 1)], [Device("gpu")]], ("x", "y"))
    found: list[object] = [mesh, Mesh((2, 4), ("x", "a b'")), Mesh((4, 2), ("x", "y")), Mesh((), ()), placed]
    found += [Mesh((4, 2), ("x", "y"), (auto, manual)), Mesh((4,), "x", manual), placed.abstract_mesh, auto, manual]
    found += [P(), P(None), P("x"), P("x", None), P(("x", "y")), P(P.UNCONSTRAINED, "x"), P("x", unreduced={"y", "a"})]
    found += [P(unreduced={"y"}), P(None, "x", reduced={"y"}), P.UNCONSTRAINED, Device("cpu", 1)]
    found += [NamedSharding(mesh, P("x")), NamedSharding(mesh, P("x", None)), NamedSharding(placed, P("x"))]
    return [*found, NamedSharding(mesh, P("x"), memory_kind="pinned_host")]
