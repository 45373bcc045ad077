"""Gather, the scatters, and dynamic slices: everything that their classes say, against jax."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from tests.primitives.array_catalog import Case, Reference, aval, case
from tests.primitives.array_checks import EVAL, check_all, check_batch, check_value, samples
from tinyjax.contexts.evaluation import single_equation
from tinyjax.contexts.transposition import transpose
from tinyjax.errors import LinearityError, ShapeError, TinyjaxError, TypingError, UnsupportedError
from tinyjax.ir.primitive import Primitive, UndefPrimal
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.dynamic import DynamicSlice, DynamicUpdateSlice
from tinyjax.primitives.gather import Gather, ScatterAdd, Scattering
from tinyjax.primitives.scatter import Scatter, ScatterMax, ScatterMin, ScatterMul
from tinyjax.primitives.windows import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers

CLIP, FILL, PROMISE = GatherScatterMode.CLIP, GatherScatterMode.FILL_OR_DROP, GatherScatterMode.PROMISE_IN_BOUNDS
_JAX_SCATTERS: dict[type[Scattering], Callable[..., jax.Array]] = {
    Scatter: lax.scatter,
    ScatterAdd: lax.scatter_add,
    ScatterMul: lax.scatter_mul,
    ScatterMin: lax.scatter_min,
    ScatterMax: lax.scatter_max,
}
#: Rows of a matrix, elements of one, boxes of one, and rows of a stack of matrices, each from its own.
ROWS = GatherDimensionNumbers((1,), (0,), (0,))
ROWS_LAST = GatherDimensionNumbers((0,), (0,), (0,))
ELEMENTS = GatherDimensionNumbers((), (0, 1), (1, 0))
BOXES = GatherDimensionNumbers((0, 2), (), (0, 1))
STACKED = GatherDimensionNumbers((1,), (1,), (1,), (0,), (0,))


def taking(primitive: Gather) -> Reference:
    dims = primitive.dimension_numbers
    theirs = lax.GatherDimensionNumbers(
        dims.offset_dims,
        dims.collapsed_slice_dims,
        dims.start_index_map,
        dims.operand_batching_dims,
        dims.start_indices_batching_dims,
    )
    return lambda x, i: lax.gather(
        x,
        i,
        theirs,
        primitive.slice_sizes,
        mode=lax.GatherScatterMode[primitive.mode.name],
        fill_value=primitive.fill_value,
        unique_indices=primitive.unique_indices,
    )


def writing(primitive: Scattering) -> Reference:
    dims = primitive.dimension_numbers
    theirs = lax.ScatterDimensionNumbers(
        dims.update_window_dims,
        dims.inserted_window_dims,
        dims.scatter_dims_to_operand_dims,
        dims.operand_batching_dims,
        dims.scatter_indices_batching_dims,
    )
    function = _JAX_SCATTERS[type(primitive)]
    return lambda x, i, u: function(
        x,
        i,
        u,
        theirs,
        mode=lax.GatherScatterMode[primitive.mode.name],
        unique_indices=primitive.unique_indices,
    )


def gathers() -> list[Case]:
    table: list[tuple[str, Gather, str]] = [
        ("rows", Gather(ROWS, (1, 3)), "float32[4,3] int32[5,1]"),
        ("part-of-rows", Gather(ROWS, (1, 2), CLIP), "float64[4,3] int64[5,1]"),
        ("rows-last", Gather(ROWS_LAST, (1, 3), FILL), "float32[2,3] int32[4,1]"),
        ("fill", Gather(ROWS, (1, 3), FILL, -1.5), "float64[2,3] int32[2,2,1]"),
        ("fill-int", Gather(ROWS, (1, 3), FILL), "int8[2,3] uint8[4,1]"),
        ("fill-uint", Gather(ROWS, (1, 3), FILL), "uint16[2,3] int8[4,1]"),
        ("fill-bool", Gather(ROWS, (1, 3), FILL), "bool[2,3] int32[4,1]"),
        ("fill-complex", Gather(ROWS, (1, 3), FILL), "complex64[2,3] int32[4,1]"),
        ("elements", Gather(ELEMENTS, (1, 1)), "float32[3,4] int32[6,2]"),
        ("boxes", Gather(BOXES, (2, 3), CLIP), "float64[4,5] int32[3,2]"),
        ("boxes-fill", Gather(BOXES, (2, 3), FILL), "bfloat16[4,5] int32[3,2]"),
        ("one-box", Gather(GatherDimensionNumbers((0, 1), (), (1, 0)), (2, 2), CLIP), "float32[3,3] int32[2]"),
        ("stacked", Gather(STACKED, (1, 1, 2), CLIP), "float32[3,4,2] int32[3,1]"),
        ("nothing", Gather(ROWS, (1, 3)), "float32[0,3] int32[0,1]"),
        ("no-index", Gather(GatherDimensionNumbers((1,), (), ()), (2,)), "float32[3] int32[2,0]"),
        ("scalar", Gather(GatherDimensionNumbers((), (), ()), ()), "float32[] int32[2,0]"),
        ("weak", Gather(ROWS, (1, 2)), "~float64[2,2] int32[1,1]"),
    ]
    return [case(name, primitive, types, taking(primitive), (0,) * (types[0] not in "iub")) for name, primitive, types in table]  # fmt: skip


def scatters() -> list[Case]:
    rows, elements, boxes, stacked = map(ScatterDimensionNumbers.of, (ROWS, ELEMENTS, BOXES, STACKED))
    none = ScatterDimensionNumbers((1,), (), ())
    table: list[tuple[str, Scattering, str, tuple[int, ...]]] = [
        ("rows", ScatterAdd(rows), "float32[4,3] int32[5,1] float32[5,3]", (0, 2)),
        ("clip", ScatterAdd(rows, CLIP), "float64[4,3] int32[5,1] float64[5,2]", (0, 2)),
        ("promise", ScatterAdd(rows, PROMISE), "float64[4,3] int64[2,2,1] float64[2,3,2]"[:0] or
         "float64[4,3] int64[5,1] float64[5,3]", (0, 2)),
        ("elements", ScatterAdd(elements), "float32[3,4] int32[6,2] float32[6]", (0, 2)),
        ("boxes", ScatterAdd(boxes), "float64[4,5] int32[3,2] float64[2,3,3]", (0, 2)),
        ("stacked", ScatterAdd(stacked), "float32[3,4,2] int32[3,1] float32[3,2]", (0, 2)),
        ("bf16", ScatterAdd(elements), "bfloat16[3,2] int32[6,2] bfloat16[6]", (0, 2)),
        ("complex", ScatterAdd(rows), "complex64[2,2] uint8[4,1] complex64[4,2]", (0, 2)),
        ("int", ScatterAdd(rows), "int8[2,2] int8[4,1] int8[4,2]", ()),
        ("no-index", ScatterAdd(none), "float32[3] int32[2,0] float32[2,3]", (0, 2)),
        ("nothing", ScatterAdd(rows), "float32[2,3] int32[0,1] float32[0,3]", (0, 2)),
        ("weak", ScatterAdd(rows), "~float64[2,2] int32[1,1] float64[1,2]", (0, 2)),
        ("rows", Scatter(rows), "float32[4,3] int32[5,1] float32[5,3]", ()),
        ("clip", Scatter(rows, CLIP), "float64[4,3] int32[5,1] float64[5,2]", ()),
        ("elements", Scatter(elements), "float64[3,2] int32[9,2] float64[9]", ()),
        ("boxes", Scatter(boxes), "float64[4,5] int32[3,2] float64[2,3,3]", ()),
        ("stacked", Scatter(stacked), "float32[3,4,2] int32[3,1] float32[3,2]", ()),
        ("unique", Scatter(rows, unique_indices=True), "float64[4,3] int32[1,1] float64[1,2]", (0, 2)),
        ("stacked-unique", Scatter(stacked, CLIP, unique_indices=True),
         "float32[3,4,2] int32[3,1] float32[3,2]", (0, 2)),
        ("bool", Scatter(rows), "bool[4,3] int32[5,1] bool[5,3]", ()),
        ("weak", Scatter(rows), "~float64[2,2] int32[1,1] float64[1,2]", ()),
        ("unique", ScatterMul(rows, unique_indices=True), "float64[4,3] int32[1,1] float64[1,2]", ()),
        ("int", ScatterMul(elements), "int16[3,2] int32[9,2] int16[9]", ()),
        ("rows", ScatterMin(rows), "float64[3,2] int32[6,1] float64[6,2]", ()),
        ("elements", ScatterMin(elements), "float32[3,2] int32[9,2] float32[9]", ()),
        ("bool", ScatterMin(rows), "bool[3,2] int32[6,1] bool[6,2]", ()),
        ("rows", ScatterMax(rows), "float64[3,2] int32[6,1] float64[6,2]", ()),
        ("stacked", ScatterMax(stacked), "float64[3,4,2] int32[3,1] float64[3,2]", ()),
        ("boxes", ScatterMax(boxes), "float64[4,5] int32[3,2] float64[2,3,3]", ()),
        ("uint", ScatterMax(elements), "uint8[3,2] int64[9,2] uint8[9]", ()),
    ]  # fmt: skip
    return [case(name, primitive, types, writing(primitive), linear) for name, primitive, types, linear in table]


def slices() -> list[Case]:
    def taken(sizes: tuple[int, ...]) -> Reference:
        return lambda x, *starts: lax.dynamic_slice(x, starts, sizes, allow_negative_indices=False)

    def written(x: jax.Array, update: jax.Array, *starts: jax.Array) -> jax.Array:
        return lax.dynamic_update_slice(x, update, starts, allow_negative_indices=False)

    return [
        case("box", DynamicSlice((2, 3)), "float32[4,5] int32[] int32[]", taken((2, 3)), (0,)),
        case("whole", DynamicSlice((2,)), "float64[2] int64[]", taken((2,)), (0,)),
        case("empty", DynamicSlice((0, 2)), "float64[2,2] int64[] int64[]", taken((0, 2)), (0,)),
        case("scalar", DynamicSlice(()), "float64[]", lambda x: lax.dynamic_slice(x, (), ()), (0,)),
        case("uint", DynamicSlice((2,)), "int32[5] uint8[]", taken((2,))),
        case("weak", DynamicSlice((2,)), "~float64[5] int32[]", taken((2,)), (0,)),
        case("box", DynamicUpdateSlice(), "float32[4,5] float32[2,3] int32[] int32[]", written, (0, 1)),
        case("empty", DynamicUpdateSlice(), "float32[4] float32[0] int32[]", written, (0, 1)),
        case("int", DynamicUpdateSlice(), "int8[4] int8[2] uint8[]", written),
        case("weak", DynamicUpdateSlice(), "~float64[5] ~float64[2] int32[]", written, (0, 1)),
        case("mixed-weak", DynamicUpdateSlice(), "~float64[5] float64[2] ~int64[]", written, (0, 1)),
        case("all-weak", DynamicUpdateSlice(), "~float64[3] ~float64[2] ~int64[]", written, (0, 1)),
    ]


@pytest.mark.parametrize("example", [*gathers(), *scatters(), *slices()], ids=lambda example: example.name)
def test_catalog(example: Case) -> None:
    check_all(example)
