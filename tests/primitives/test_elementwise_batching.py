"""Mapping an elementwise primitive is applying it to each element, for every choice of mapped axes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.primitives.apply import batched, evaluated, looped
from tests.primitives.catalog import CASES, ELEMENTWISE, Entry, case_name, check_close, check_same
from tinyjax.contexts.batching import BatchContext, Batched
from tinyjax.contexts.staging import StagingContext
from tinyjax.ir.dtypes import FLOAT16, FLOAT32, FLOAT64, INT32, UINT8, UINT32, DType, HostArray
from tinyjax.ir.primitive import BatchAxis
from tinyjax.ir.shapes import Shape
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.conversion import BitcastConvertType
from tinyjax.primitives.elementwise import add

SIZE = 3


def operands_of(entry: Entry, dtype: DType, shapes: Sequence[Shape]) -> list[HostArray]:
    """Operands of these shapes, filled with the entry's samples."""
    samples = entry.samples(dtype)
    picks = np.random.default_rng(0).integers(0, len(samples[0]), 64)
    return [np.resize(x[picks], shape) for x, shape in zip(samples, shapes, strict=True)]


def with_axis(shape: Shape, at: int | None) -> Shape:
    return shape if at is None else (*shape[:at], SIZE, *shape[at:])


def choices(arity: int) -> Iterator[tuple[tuple[Shape, ...], tuple[int | None, ...]]]:
    """Every mix of scalars and arrays, with every choice of mapped axes of which there is at least one."""
    for shapes in itertools.product([(), (2,)], repeat=arity):
        options: list[list[int | None]] = [[None, *range(len(shape) + 1)] for shape in shapes]
        for axes in itertools.product(*options):
            if any(at is not None for at in axes):
                yield shapes, axes


def check_mapped(entry: Entry, xs: Sequence[HostArray], axes: Sequence[int | None]) -> None:
    out, axis = batched(entry.primitive, xs, axes, SIZE)
    assert axis is not None
    expected = looped(entry.primitive, xs, axes, SIZE)
    check_same(np.moveaxis(out, axis, 0), expected)


@pytest.mark.parametrize("entry", ELEMENTWISE, ids=case_name)
def test_every_choice_of_axes(entry: Entry) -> None:
    dtype = FLOAT32 if FLOAT32 in entry.dtypes else entry.dtypes[0]
    for shapes, axes in choices(entry.arity):
        xs = operands_of(entry, dtype, list(map(with_axis, shapes, axes)))
        check_mapped(entry, xs, axes)


@st.composite
def mapped_operands(draw: st.DrawFn) -> tuple[Entry, list[HostArray], list[int | None]]:
    entry, dtype = draw(st.sampled_from(CASES))
    shape = draw(st.sampled_from([(), (0,), (2, 3), (1, 2, 2)]))
    shapes = [draw(st.sampled_from([(), shape])) for _ in range(entry.arity)]
    axes = [draw(st.sampled_from([None, *range(len(s) + 1)])) for s in shapes]
    if all(at is None for at in axes):
        axes[0] = len(shapes[0])
    return entry, operands_of(entry, dtype, list(map(with_axis, shapes, axes))), axes


@given(mapped_operands())
@settings(max_examples=100, deadline=None)
def test_every_dtype_and_shape(case: tuple[Entry, list[HostArray], list[int | None]]) -> None:
    check_mapped(*case)


@pytest.mark.sweep
@given(mapped_operands())
@settings(max_examples=12, deadline=None)
def test_agrees_with_vmap(case: tuple[Entry, list[HostArray], list[int | None]]) -> None:
    entry, xs, axes = case
    ranks = {x.ndim - (at is not None) for x, at in zip(xs, axes, strict=True)}
    if entry.primitive.name in ("select_n", "clamp") and len(ranks) > 1:
        return  # jax doesn't mix scalars and arrays there
    out, axis = batched(entry.primitive, xs, axes, SIZE)
    assert axis is not None
    expected = jax.vmap(entry.oracle, in_axes=axes)(*map(jnp.asarray, xs))
    check_close(np.moveaxis(out, axis, 0), np.asarray(expected), entry.ulps, entry.scale)


@pytest.mark.parametrize(
    ("old", "new", "shape"),
    [(FLOAT64, FLOAT16, (2,)), (UINT8, UINT32, (2, 4)), (UINT32, UINT8, ()), (UINT8, INT32, (4,))],
)
def test_bitcasting_to_another_width(old: DType, new: DType, shape: Shape) -> None:
    primitive = BitcastConvertType(new)
    rng = np.random.default_rng(0)
    for at in range(len(shape) + 1):
        x = rng.integers(0, 100, with_axis(shape, at)).astype(old)
        out, axis = batched(primitive, [x], [at], SIZE)
        assert axis is not None
        assert np.moveaxis(out, axis, 0).tobytes() == looped(primitive, [x], [at], SIZE).tobytes()
        if at == 0:
            expected = jax.vmap(lambda x: jax.lax.bitcast_convert_type(x, new))(jnp.asarray(x))
            np.testing.assert_array_equal(np.moveaxis(out, axis, 0), np.asarray(expected))


def test_nothing_is_moved_where_the_axes_line_up() -> None:
    inner = StagingContext()
    ctx = BatchContext(inner, BatchAxis(SIZE))
    x = inner.argument(ConcreteValue.of(np.ones((2, SIZE))).aval)
    y = inner.argument(ConcreteValue.of(np.ones(())).aval)
    (out,) = ctx.bind(add, Batched(x, 1), Batched(y, None))
    assert out.axis == 1
    assert [eqn.primitive for eqn in inner.finish([out.value]).jaxpr.eqns] == [add]


def test_unmapped_operands_give_an_unmapped_result() -> None:
    out, axis = batched(add, [np.ones(2), np.ones(2)], [None, None], SIZE)
    assert axis is None
    assert out.tolist() == evaluated(add, [np.ones(2), np.ones(2)]).tolist()
