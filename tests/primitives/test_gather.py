"""Gather, the scatters, and dynamic slices: everything that their classes say, against jax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from tests.primitives.array_catalog import Case, Reference, aval, case
from tests.primitives.array_checks import EVAL, check_all, check_batch, check_value, samples
from tinyjax.contexts.devices import single_equation
from tinyjax.contexts.transposition import transpose
from tinyjax.errors import InputError, LinearityError, ShapeError, TinyjaxError, TypingError, UnsupportedError
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
        ("part-of-rows", Gather(ROWS, (1, 2), CLIP), "int32[4,3] int64[5,1]"),
        ("rows-last", Gather(ROWS_LAST, (1, 3), FILL), "float32[2,3] int32[4,1]"),
        ("fill", Gather(ROWS, (1, 3), FILL, -1.5), "float64[2,3] int32[2,2,1]"),
        ("fill-int", Gather(ROWS, (1, 3), FILL), "int8[2,3] uint8[4,1]"),
        ("fill-uint", Gather(ROWS, (1, 3), FILL), "uint16[2,3] int8[4,1]"),
        ("fill-bool", Gather(ROWS, (1, 3), FILL), "bool[2,3] int32[4,1]"),
        ("fill-complex", Gather(ROWS, (1, 3), FILL), "complex64[2,3] int32[4,1]"),
        ("elements", Gather(ELEMENTS, (1, 1)), "uint8[3,4] int32[6,2]"),
        ("boxes", Gather(BOXES, (2, 3), CLIP), "int64[4,5] int32[3,2]"),
        ("boxes-fill", Gather(BOXES, (2, 3), FILL), "bfloat16[4,5] int32[3,2]"),
        ("one-box", Gather(GatherDimensionNumbers((0, 1), (), (1, 0)), (2, 2), CLIP), "float32[3,3] int32[2]"),
        ("stacked", Gather(STACKED, (1, 1, 2), CLIP), "float32[3,4,2] int32[3,1]"),
        ("nothing", Gather(ROWS, (1, 3)), "float32[0,3] int32[0,1]"),
        ("no-index", Gather(GatherDimensionNumbers((1,), (), ()), (2,)), "float32[3] int32[2,0]"),
        ("scalar", Gather(GatherDimensionNumbers((), (), ()), ()), "int32[] int32[2,0]"),
        ("weak", Gather(ROWS, (1, 2)), "~float64[2,2] int32[1,1]"),
    ]
    linear = [types[0] in "~fc" or types.startswith("bf") for _, _, types in table]
    return [
        case(name, primitive, types, taking(primitive), (0,) * flag)
        for (name, primitive, types), flag in zip(table, linear, strict=True)
    ]


def scatters() -> list[Case]:
    rows, elements, boxes, stacked = map(ScatterDimensionNumbers.of, (ROWS, ELEMENTS, BOXES, STACKED))
    none = ScatterDimensionNumbers((1,), (), ())
    table: list[tuple[str, Scattering, str, tuple[int, ...]]] = [
        ("rows", ScatterAdd(rows), "float32[4,3] int32[5,1] float32[5,3]", (0, 2)),
        ("clip", ScatterAdd(rows, CLIP), "float64[4,3] int32[5,1] float64[5,2]", (0, 2)),
        ("promise", ScatterAdd(rows, PROMISE), "float64[4,3] int64[5,1] float64[5,3]", (0, 2)),
        ("elements", ScatterAdd(elements), "uint32[3,4] int32[6,2] uint32[6]", ()),
        ("boxes", ScatterAdd(boxes), "float64[4,5] int32[3,2] float64[2,3,3]", (0, 2)),
        ("stacked", ScatterAdd(stacked), "float32[3,4,2] int32[3,1] float32[3,2]", (0, 2)),
        ("bf16", ScatterAdd(elements), "bfloat16[3,2] int32[6,2] bfloat16[6]", (0, 2)),
        ("complex", ScatterAdd(rows), "complex64[2,2] uint8[4,1] complex64[4,2]", (0, 2)),
        ("int", ScatterAdd(rows), "int8[2,2] int8[4,1] int8[4,2]", ()),
        ("no-index", ScatterAdd(none), "float32[3] int32[2,0] float32[2,3]", (0, 2)),
        ("nothing", ScatterAdd(rows), "float32[2,3] int32[0,1] float32[0,3]", (0, 2)),
        ("weak", ScatterAdd(rows), "~float64[2,2] int32[1,1] float64[1,2]", (0, 2)),
        ("rows", Scatter(rows), "float32[4,3] int32[5,1] float32[5,3]", ()),
        ("clip", Scatter(rows, CLIP), "int32[4,3] int32[5,1] int32[5,2]", ()),
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
        ("rows", ScatterMax(rows), "int32[3,2] int32[6,1] int32[6,2]", ()),
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


def check_prepared(primitive: Primitive, *args: Any) -> None:
    """What is looked up once for the types does the same, each time."""
    avals = [ConcreteValue.of(arg).aval for arg in args]
    function, (expected,) = primitive.host_function(*avals), primitive.evaluate(*args)
    for _ in range(2):
        found = function(*args)
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("example", gathers(), ids=lambda example: example.name)
def test_prepared(example: Case) -> None:
    for seed in range(3):
        check_prepared(example.primitive, *samples(example.avals, np.random.default_rng(seed)))


@pytest.mark.parametrize("example", [*gathers(), *scatters(), *slices()], ids=lambda example: example.name)
@pytest.mark.sweep
def test_catalog(example: Case) -> None:
    check_all(example)


@pytest.mark.sweep
@settings(max_examples=15, deadline=None)
@given(st.data())
def test_any_gather_and_scatter(data: st.DataObject) -> None:
    """Random dimension numbers, and what they become when axes are mapped."""
    ndim = data.draw(st.integers(1, 3))
    shape = [data.draw(st.integers(1, 3)) for _ in range(ndim)]
    kinds = [data.draw(st.sampled_from(["window", "window", "collapsed", "batching"])) for _ in range(ndim)]
    axes = {kind: [i for i in range(ndim) if kinds[i] == kind] for kind in ("window", "collapsed", "batching")}
    paired = data.draw(st.permutations(axes["batching"]))
    free = data.draw(st.lists(st.integers(1, 2), max_size=1))
    batch: list[int | None] = data.draw(st.permutations([*paired, *[None] * len(free)]))
    sizes = [data.draw(st.integers(1, shape[i])) if kinds[i] == "window" else 1 for i in range(ndim)]
    indexed = [i for i in range(ndim) if kinds[i] != "batching"]
    start_map = data.draw(st.permutations(indexed))[: data.draw(st.integers(0, len(indexed)))]
    result_ndim = len(batch) + len(axes["window"])
    offsets = sorted(data.draw(st.permutations(range(result_ndim)))[: len(axes["window"])])
    places = [batch.index(i) for i in axes["batching"]]
    dims = GatherDimensionNumbers(offsets, axes["collapsed"], start_map, axes["batching"], places)
    lengths = [free[0] if i is None else shape[i] for i in batch]
    x, i = (f"float64[{','.join(map(str, sizes_of))}]" for sizes_of in (shape, [*lengths, len(start_map)]))
    i = i.replace("float64", "int32")
    mode = data.draw(st.sampled_from([CLIP, FILL]))
    primitive = Gather(dims, tuple(sizes), mode, 0.5 if mode is FILL else None)
    rng = np.random.default_rng(0)
    example = case("", primitive, f"{x} {i}", taking(primitive))
    check_value(example, samples(example.avals, rng))
    check_batch(primitive, example.avals, rng)
    check_prepared(primitive, *samples(example.avals, rng))
    (taken,) = primitive.type_of(*example.avals)
    scatter = ScatterAdd(ScatterDimensionNumbers.of(dims), mode)
    check_batch(scatter, (*example.avals, taken), rng)
    arrays = [ConcreteValue.of(array) for array in samples((*example.avals, taken), rng)]
    linear = attrs.evolve(primitive, fill_value=0) if mode is FILL else primitive
    forward = np.asarray(EVAL.bind(linear, *arrays[:2])[0])
    zeros = ConcreteValue.of(np.zeros(shape))
    backward = np.asarray(EVAL.bind(scatter, zeros, *arrays[1:])[0])
    left, right = np.vdot(forward, np.asarray(arrays[2])), np.vdot(backward, np.asarray(arrays[0]))
    assert abs(left - right) < 1e-9


def test_indices_beyond_all_integers() -> None:
    """Indices are compared, not converted first, which could wrap around."""
    x = ConcreteValue.of(np.arange(300.0))
    vector = GatherDimensionNumbers((), (0,), (0,))
    for dtype in (np.uint64, np.int64, np.uint32, np.int8, np.uint8):
        limits = np.iinfo(dtype)
        indices = ConcreteValue.of(np.array([[limits.max], [limits.min]], dtype))
        (clipped,) = EVAL.bind(Gather(vector, (1,), CLIP), x, indices)
        assert np.asarray(clipped).tolist() == [min(limits.max, 299), 0]
        (filled,) = EVAL.bind(Gather(vector, (1,), FILL, -1.0), x, indices)
        expected = [limits.max if limits.max < 300 else -1, 0 if limits.min == 0 else -1]
        assert np.asarray(filled).tolist() == expected


def test_windows_that_reach_beyond_are_dropped_whole() -> None:
    dims = ScatterDimensionNumbers((0,), (), (0,))
    args = [ConcreteValue.of(array) for array in (np.zeros(4), np.array([3]), np.ones(2))]
    assert np.asarray(EVAL.bind(ScatterAdd(dims), *args)[0]).tolist() == [0, 0, 0, 0]
    assert np.asarray(EVAL.bind(ScatterAdd(dims, CLIP), *args)[0]).tolist() == [0, 0, 1, 1]


def test_fill_values_are_told_apart() -> None:
    a, b, c = (Gather(ROWS, (1, 1), FILL, value) for value in (0.0, -0.0, 0))
    assert len({a, b, c}) == 3
    assert Gather(ROWS, (1, 1), FILL, float("nan")) == Gather(ROWS, (1, 1), FILL, float("nan"))


@pytest.mark.parametrize(
    ("primitive", "types", "wrong", "message"),
    [
        (Gather(ROWS, (1, 3)), "float32[4,3] int32[5,1]", 1, "not in the indices"),
        (ScatterAdd(ScatterDimensionNumbers.of(ROWS)), "float32[4,3] int32[5,1] float32[5,3]", 1, "not in the indices"),
        (ScatterMul(ScatterDimensionNumbers.of(ROWS)), "float32[4,3] int32[5,1] float32[5,3]", 1, "not in the indices"),
        (DynamicSlice((2,)), "float32[3] int32[]", 1, "not linear in the starts"),
        (DynamicUpdateSlice(), "float32[3] float32[2] int32[]", 2, "not linear in the starts"),
    ],
)
def test_not_linear(primitive: Primitive, types: str, wrong: int, message: str) -> None:
    avals = tuple(map(aval, types.split()))
    jaxpr: Jaxpr = single_equation(primitive, avals)
    args: list[ConcreteValue | UndefPrimal] = [ConcreteValue.of(np.zeros(a.shape, a.dtype)) for a in avals]
    args[wrong] = UndefPrimal(avals[wrong])
    cts = [ConcreteValue.of(np.ones(out.shape, out.dtype)) for out in jaxpr.out_avals]
    with pytest.raises(LinearityError, match=message):
        transpose(EVAL, jaxpr, args, cts)


def test_what_jax_does_not_differentiate_either() -> None:
    rows = ScatterDimensionNumbers.of(ROWS)
    avals = aval("float32[4,3]"), aval("int32[5,1]"), aval("float32[5,3]")
    args: list[ConcreteValue | UndefPrimal] = [ConcreteValue.of(np.zeros(a.shape, a.dtype)) for a in avals]
    ct = ConcreteValue.of(np.ones((4, 3), np.float32))
    args[2] = UndefPrimal(avals[2])
    for primitive in (Scatter(rows), ScatterMul(rows)):
        with pytest.raises(UnsupportedError, match=r"only .*unique_indices=True"):
            transpose(EVAL, single_equation(primitive, avals), args, [ct])
    with pytest.raises(NotImplementedError, match=r"Transpose rule .*for 'scatter_max' not implemented"):
        transpose(EVAL, single_equation(ScatterMax(rows), avals), args, [ct])


def _dims(*fields: Sequence[int]) -> GatherDimensionNumbers:
    return GatherDimensionNumbers(*fields)


_X = "float32[4,3] int32[5,1]"


@pytest.mark.parametrize(
    ("primitive", "types", "error", "message"),
    [
        (Gather(ROWS, (1, 3)), "float32[4,3]", TypingError, "takes 2 operands, got 1"),
        (Gather(ROWS, (1, 3)), "float32[4,3] float32[5,1]", TypingError, "integer dtype, got f32"),
        (Gather(ROWS, (1, 3)), "float32[4,3] int32[]", ShapeError, "at least one axis"),
        (Gather(ROWS, (1, 3)), "float32[4,3] int32[5,2]", ShapeError, "must have an entry for each entry"),
        (Gather(ROWS, (1, 4)), _X, ShapeError, r"slice_sizes \(1, 4\) are larger than the operand f32\[4,3\]"),
        (Gather(ROWS, (2, 3)), _X, ShapeError, "must be 1 for collapsed_slice_dims"),
        (Gather(ROWS, (1,)), _X, ShapeError, "a size for each axis"),
        (Gather(ROWS, (1, -1)), _X, ShapeError, "a size for each axis"),
        (Gather(_dims((2,), (0,), (0,)), (1, 3)), _X, ShapeError, "offset_dims must be distinct axes of 2"),
        (Gather(_dims((1, 0), (), (0,)), (1, 3)), _X, ShapeError, "offset_dims must be in ascending order"),
        (Gather(_dims((1,), (2,), (0,)), (1, 3)), _X, ShapeError, "collapsed_slice_dims must be distinct"),
        (Gather(_dims((1,), (0,), (-1,)), (1, 3)), _X, ShapeError, "start_index_map must be distinct"),
        (Gather(_dims((), (0,), (0,)), (1, 3)), _X, ShapeError, "each axis of the operand"),
        (Gather(_dims((1,), (0,), (1,), (0,), (0,)), (1, 3)), _X, ShapeError, "must be disjoint"),
        (Gather(_dims((1,), (), (1,), (0,), (0,)), (1, 3)), _X, ShapeError, "must have the same sizes"),
        (Gather(STACKED, (2, 1, 2)), "float32[3,4,2] int32[3,1]", ShapeError, "at most 1 for operand_batching_dims"),
        (ScatterAdd(ScatterDimensionNumbers.of(ROWS)), f"{_X} float32[5,4]", ShapeError, "larger than the operand"),
        (ScatterAdd(ScatterDimensionNumbers.of(ROWS)), f"{_X} float32[4,3]", ShapeError, r"the shape \(5, 3\)"),
        (ScatterAdd(ScatterDimensionNumbers.of(ROWS)), f"{_X} float32[5]", ShapeError, "must have 2 axes"),
        (ScatterAdd(ScatterDimensionNumbers.of(ROWS)), f"{_X} float64[5,3]", TypingError, "the same dtypes"),
        (ScatterAdd(ScatterDimensionNumbers.of(ROWS)), "bool[4,3] int32[5,1] bool[5,3]", TypingError, "accept bool"),
        (Scatter(ScatterDimensionNumbers((1,), (0,), (2,))), f"{_X} float32[5,3]", ShapeError, "scatter_dims_to_op"),
        (DynamicSlice((2,)), "", TypingError, "needs an operand"),
        (DynamicSlice((2,)), "float32[3]", ShapeError, "a start for each axis"),
        (DynamicSlice((4,)), "float32[3] int32[]", ShapeError, "not larger"),
        (DynamicSlice((2,)), "float32[3] int32[1]", ShapeError, "must be scalars"),
        (DynamicSlice((2,)), "float32[3] float32[]", TypingError, "one integer dtype"),
        (DynamicSlice((1, 1)), "float32[3,3] int32[] int64[]", TypingError, "one integer dtype"),
        (DynamicUpdateSlice(), "float32[3]", TypingError, "an operand and an update"),
        (DynamicUpdateSlice(), "float32[3] float64[3] int32[]", TypingError, "the same dtypes"),
        (DynamicUpdateSlice(), "float32[3] float32[4] int32[]", ShapeError, "not be larger"),
        (DynamicUpdateSlice(), "float32[3] float32[] int32[]", ShapeError, "as many axes"),
    ],
)
def test_errors(primitive: Primitive, types: str, error: type[TinyjaxError], message: str) -> None:
    with pytest.raises(error, match=message):
        primitive.type_of(*map(aval, types.split()))


@pytest.mark.parametrize("numbers", [GatherDimensionNumbers, ScatterDimensionNumbers])
@pytest.mark.parametrize("wrong", [(1.0,), (1.5,), ("1",), (None,), 1, None, ((0,),), (np.float64(1.0),)])
def test_dimension_numbers_are_integers(numbers: Any, wrong: Any) -> None:
    right = [(0,), (1,), (0,), (2,), (3,)]
    assert numbers(*[list(map(np.int32, axes)) for axes in right]) == numbers(*right)
    for i in range(5):
        with pytest.raises(InputError, match="dimension numbers are tuples of integers, the numbers of axes; got"):
            numbers(*[wrong if i == j else axes for j, axes in enumerate(right)])
