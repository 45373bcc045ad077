"""What gathers, scatters and dynamic slices compile to computes what evaluation does."""

from __future__ import annotations

import numpy as np
import pytest

from tests.primitives.array_catalog import Case
from tests.primitives.array_checks import close, samples
from tests.primitives.test_gather import CLIP, FILL, gathers, scatters, slices
from tinyjax import jit, make_jaxpr
from tinyjax.hlo import lower
from tinyjax.ir.dtypes import HostArray
from tinyjax.primitives.gather import Gather, ScatterAdd
from tinyjax.primitives.windows import GatherDimensionNumbers, ScatterDimensionNumbers
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind

VECTOR = GatherDimensionNumbers((), (0,), (0,))


@pytest.mark.parametrize("cases", [gathers(), scatters(), slices()], ids=["gathers", "scatters", "slices"])
def test_compiled(cases: list[Case]) -> None:
    rng = np.random.default_rng(0)
    args = [samples(case.avals, rng) for case in cases]

    def all_of(arrays: list[list[Array]]) -> list[Array]:
        return [bind(case.primitive, *xs)[0] for case, xs in zip(cases, arrays, strict=True)]

    compiled = jit(all_of)([[as_array(x) for x in xs] for xs in args])
    for case, xs, got in zip(cases, args, compiled, strict=True):
        close(np.asarray(got), case.primitive.evaluate(*xs)[0], got.dtype)


def test_narrow_indices() -> None:
    """XLA compares positions with sizes in the dtype of the positions, which may be too narrow for the sizes."""
    x = np.arange(300.0)

    def taken(indices: Array) -> list[Array]:
        clipped = bind(Gather(VECTOR, (1,), CLIP), as_array(x), indices)[0]
        filled = bind(Gather(VECTOR, (1,), FILL), as_array(x), indices)[0]
        dims = ScatterDimensionNumbers.of(VECTOR)
        added = [bind(ScatterAdd(dims, mode), as_array(x), indices, clipped)[0] for mode in (CLIP, FILL)]
        return [clipped, filled, *added]

    for dtype in (np.uint64, np.int64, np.uint32, np.int8, np.uint8):
        limits = np.iinfo(dtype)
        indices: HostArray = np.array([[limits.max], [limits.min], [7]], dtype)
        for got, expected in zip(jit(taken)(as_array(indices)), taken(as_array(indices)), strict=True):
            np.testing.assert_array_equal(np.asarray(got), np.asarray(expected))


def test_complex_numbers_are_added_by_parts_on_gpus() -> None:
    def added(x: Array, indices: Array, updates: Array) -> Array:
        return bind(ScatterAdd(ScatterDimensionNumbers.of(VECTOR)), x, indices, updates)[0]

    program = make_jaxpr(added)(np.zeros(3, "complex128"), np.zeros((2, 1), int), np.zeros(2, "complex128"))
    assert lower(program).count("stablehlo.scatter") == 2  # the operation and its attribute
    text = lower(program, platform="cuda")
    assert text.count('"stablehlo.scatter"') == 2
    assert "complex" in text
