"""Every primitive of the catalogs, in a program of its own, obeys the laws of programs."""

from __future__ import annotations

import numpy as np
import pytest

from tests.primitives.array_catalog import CASES, Case
from tests.primitives.catalog import ELEMENTWISE, Entry, case_name
from tinyjax.contexts.devices import single_equation
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import COMPLEXES, FLOAT64, HostArray
from tinyjax.testing import LAWS, check_laws

#: They are compared with what XLA computes in tests/hlo.
UNCOMPILED = ["compilation"]
DERIVATIVES = LAWS[LAWS.index("jvp") :]
#: What has another derivative than its own on purpose, as in jax; and one that rounds isn't linear.
APART = {
    "stop_gradient": ("finite_differences", "second_derivatives"),
    "bitcast_convert_type": ("finite_differences", "second_derivatives"),
    "reduce_precision": DERIVATIVES,
}


@pytest.mark.parametrize("example", CASES, ids=lambda example: example.name)
def test_arrays(example: Case) -> None:
    report = check_laws(single_equation(example.primitive, example.avals), skip=UNCOMPILED)
    assert not report.skipped


def inner(entry: Entry) -> list[HostArray]:
    """Three numbers for each operand, inside of its domain."""
    dtype = FLOAT64 if FLOAT64 in entry.dtypes else entry.dtypes[-1]
    found = []
    for i, operand in enumerate(entry.operands(dtype)):
        domain = entry.domain(i)
        low, high = max(domain.low, -2.0), min(domain.high, 3.0)
        numbers = low + (high - low) * (np.array([0.21, 0.42, 0.73]) + 0.08 * i)
        found.append((numbers * (1 + 0.1j) if operand in COMPLEXES else numbers).astype(operand))
    return found


@pytest.mark.parametrize("entry", ELEMENTWISE, ids=case_name)
def test_elementwise(entry: Entry) -> None:
    args = inner(entry)
    avals = tuple([ShapedArray(arg.shape, arg.dtype) for arg in args])
    dtype = FLOAT64 if FLOAT64 in entry.dtypes else entry.dtypes[-1]
    apart = APART.get(entry.primitive.name, ()) if entry.smooth(dtype) else DERIVATIVES
    check_laws(single_equation(entry.primitive, avals), args, skip=[*UNCOMPILED, *apart])
