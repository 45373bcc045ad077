"""Lowered primitives at nan, infinities, signed zeros, ties, positions out of range, and the ends of integer dtypes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

import tinyjax.numpy as tnp
from tests.extremes import check_classes, combinations
from tests.hlo.programs import run, side_by_side
from tests.primitives.catalog import ELEMENTWISE, Entry, check_close, compiled
from tinyjax import Array, ArrayLike, jit, lax
from tinyjax.contexts.devices import single_equation
from tinyjax.ir.dtypes import (
    BFLOAT16,
    BOOL,
    COMPLEX64,
    COMPLEXES,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT32,
    INT64,
    SHORT_NAMES,
    UINT8,
    UINT64,
    DType,
    HostArray,
)
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives.arithmetic import Div, Rem, div, rem
from tinyjax.primitives.conversion import ConvertElementType
from tinyjax.primitives.cumulative import CumLogSumExp, CumMax, CumMin, CumProd, CumSum
from tinyjax.primitives.reductions import ArgMax, ArgMin, ReduceMax, ReduceMin, ReduceProd
from tinyjax.primitives.selection import select_n
from tinyjax.primitives.sorting import Sort
from tinyjax.primitives.structure import ReduceSum
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind

FLOAT_DTYPES = (FLOAT16, BFLOAT16, FLOAT32, FLOAT64)
NAN, INF = np.nan, np.inf
ROWS = [
    [1, 3, 2, 3, 1],
    [NAN, 1, NAN, 2, 0],
    [1, INF, NAN, -INF, NAN],
    [-INF, -INF, -INF, -INF, -INF],
    [INF, INF, 0, -INF, INF],
    [-0.0, 0.0, -0.0, 0.0, -0.0],
    [0.0, -0.0, 0.0, -0.0, 0.0],
]


def check(primitive: Primitive, *args: HostArray, ulps: float = 4) -> None:
    """Compares what the lowered primitive computes with its evaluation."""
    results = run(single_equation(primitive, tuple(array_type(x.shape, x.dtype) for x in args)), *args)
    with np.errstate(all="ignore"):
        expected = primitive.evaluate(*args)
    for got, want in zip(results, expected, strict=True):
        check_close(got, want, ulps)


REDUCTIONS = [
    ArgMax((1,), INT32),
    ArgMin((1,), INT64),
    ReduceMax((1,)),
    ReduceMin((1,)),
    ReduceSum((1,)),
    ReduceProd((1,)),
    CumMax(1),
    CumMin(1, True),
    CumSum(1),
    CumProd(1, True),
    CumLogSumExp(1),
    CumLogSumExp(1, True),
]


@pytest.mark.parametrize("primitive", REDUCTIONS, ids=lambda p: f"{p.name}{'-reverse' * getattr(p, 'reverse', False)}")
@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT32], ids=SHORT_NAMES.__getitem__)
def test_reductions(primitive: Primitive, dtype: DType) -> None:
    check(primitive, np.asarray(ROWS).astype(dtype))


@pytest.mark.parametrize("dtype", FLOAT_DTYPES, ids=SHORT_NAMES.__getitem__)
@pytest.mark.parametrize("shape", [(5000,), (2500, 2)], ids=str)
def test_extremes_of_many(shape: tuple[int, ...], dtype: DType) -> None:
    rng = np.random.default_rng(0)
    some_nan = rng.choice([0.0, -0.0, 1, -1, NAN], shape, p=[0.3, 0.3, 0.195, 0.195, 0.01]).astype(dtype)
    for primitive, worst in ((ReduceMax, -1), (ReduceMin, 1)):
        zeros = np.where(rng.random(shape[-1]) < 0.5, worst, rng.choice([0.0, -0.0], shape)).astype(dtype)
        infinite = rng.choice([1.0, 2, INF, -INF], shape, p=[0.5, 0.4, 0.05, 0.05]).astype(dtype)
        for operand in (some_nan, zeros, infinite, rng.random(shape).astype(dtype)):
            for axis in range(len(shape)):
                reduction = primitive((axis,))
                (got,) = run(single_equation(reduction, (array_type(shape, dtype),)), operand)
                with np.errstate(invalid="ignore"):
                    (want,) = reduction.evaluate(operand)
                check_classes(reduction.name, [got], np.atleast_1d(got), np.atleast_1d(want))


@pytest.mark.parametrize("dtype", FLOAT_DTYPES, ids=SHORT_NAMES.__getitem__)
def test_sorting_puts_nan_last_and_does_not_order_zeros(dtype: DType) -> None:
    values = np.asarray([NAN, 1, -0.0, INF, 0.0, -NAN, -INF, -0.0, -1, 1]).astype(dtype)
    order = np.arange(values.size, dtype=INT32)
    jaxpr = single_equation(Sort(0), (array_type(values.shape, dtype), array_type(order.shape, INT32)))
    got, positions = run(jaxpr, values, order)
    assert positions.tolist() == [6, 8, 2, 4, 7, 1, 9, 3, 0, 5]
    assert got.tobytes() == values[positions].tobytes()


def test_sorting_complex_numbers() -> None:
    parts = [NAN, 1, -0.0, 0.0, INF, -INF]
    values = np.asarray([complex(re, im) for re in parts for im in parts], COMPLEX64)
    (got,) = run(single_equation(Sort(0), (array_type(values.shape, COMPLEX64),)), values)
    (expected,) = Sort(0).evaluate(values)
    np.testing.assert_array_equal(got.real, expected.real)
    np.testing.assert_array_equal(got.imag, expected.imag)


def test_sums_of_half_precision_are_exact() -> None:
    for primitive in (ReduceSum((0,)), CumSum(0), CumSum(0, True)):
        check(primitive, np.ones(1000).astype(BFLOAT16), ulps=0)
        check(primitive, np.ones(4000).astype(FLOAT16), ulps=0)


@pytest.mark.parametrize("dtype", [INT8, UINT8, INT32, UINT64, BOOL], ids=SHORT_NAMES.__getitem__)
def test_conversions_of_floats_saturate(dtype: DType) -> None:
    values = np.asarray([0.5, -0.5, 1.9, -1.9, 127.5, 128, -129, 300, 3e9, -3e9, 1e20, INF, -INF, NAN, -0.0], FLOAT32)
    check(ConvertElementType(dtype), values)


#: Functions of complex numbers that multiply parts: where such a product over- or underflows, they may differ.
PRODUCTS = {"mul", "div", "integer_pow", "pow", "atan2", "rsqrt", "exp2", "square"}
#: How large what should be zero may be: π is rounded, and so are the zeros of others.
ROUNDED = {"pow": 8.0, "lgamma": 8.0, "rsqrt": 2.0, "igammac": 2.0}
SAMPLED = (BFLOAT16, FLOAT32, COMPLEX64, INT8, UINT64, BOOL)


def classes_agree(entry: Entry, dtypes: Sequence[DType]) -> None:
    name = entry.primitive.name
    operands = [combinations(entry.operands(dt), dt not in COMPLEXES or name not in PRODUCTS) for dt in dtypes]
    if name == "polygamma":  # whose orders are small: factorials of others overflow
        small = [np.isin(n.astype(np.float64), [0, 1, 2, 0.5, -2.5, NAN, INF]) for n, _ in operands]
        operands = [(n[where], x[where]) for (n, x), where in zip(operands, small, strict=True)]
    applications = [(entry.primitive, [array_type(x.shape, x.dtype) for x in xs]) for xs in operands]
    results = run(side_by_side(applications), *itertools.chain(*operands))
    for xs, got in zip(operands, results, strict=True):
        with np.errstate(all="ignore"):
            (want,) = entry.primitive.evaluate(*xs)
        check_classes(entry.name, xs, got, want, ROUNDED.get(name, 0))


@pytest.mark.sweep
@pytest.mark.parametrize("entry", compiled(ELEMENTWISE))
def test_elementwise(entry: Entry) -> None:
    classes_agree(entry, [dtype for dtype in entry.dtypes if dtype in SAMPLED])


@pytest.mark.sweep
@pytest.mark.parametrize("entry", ELEMENTWISE, ids=[entry.name for entry in ELEMENTWISE])
def test_elementwise_of_all_dtypes(entry: Entry) -> None:
    classes_agree(entry, entry.dtypes)


def test_selectors_out_of_range() -> None:
    cases = [np.full(6, i, FLOAT32) for i in range(3)]
    check(select_n, np.asarray([-5, -1, 0, 1, 2, 77], INT32), *cases)
    for which in (-3, 1, 99):
        check(select_n, np.asarray(which, INT32), *cases)
    check(select_n, np.asarray([0, 1, 2, 200, 255, 3], UINT8), *cases)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", [INT8, INT32, UINT8, UINT64])
@pytest.mark.parametrize("primitive", [div, rem])
def test_integers_that_are_divided_by_constants(primitive: Div | Rem, dtype: DType) -> None:
    """XLA's compiler divides constants itself, and the process ends where one is divided by zero."""
    shape, last = (3,), int(tnp.iinfo(dtype).max)

    def full(value: int) -> Array:
        return lax.full(shape, value, dtype)

    def f(x: ArrayLike) -> list[Array]:
        zero = lax.sub(x, x)
        divisors = [full(0), zero, lax.mul(x, full(0)), lax.full((), 0, dtype), full(7), np.array([0, 1, 3], dtype)]
        return [bind(primitive, as_array(y), as_array(d))[0] for y in (x, full(last), full(0)) for d in divisors]

    x = np.array([5, 0, last], dtype)
    for got, want in zip(jit(f)(x), f(x), strict=True):
        assert np.asarray(got).tolist() == np.asarray(want).tolist()
