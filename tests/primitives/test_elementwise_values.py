"""Elementwise primitives agree with jax in their values and derivatives, edge cases included."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.primitives.apply import evaluated, pushed
from tests.primitives.catalog import CASES, ELEMENTWISE, Entry, case_name, check_close, compiled, tangents
from tinyjax.ir.dtypes import COMPLEXES, FLOATS, INT8, INT64, UINT8, DType, HostArray
from tinyjax.ir.primitive import Primitive
from tinyjax.primitives import arithmetic, bitwise, exponential, rounding, selection
from tinyjax.primitives.conversion import ConvertElementType
from tinyjax.primitives.elementwise import Stepwise

INEXACT = FLOATS | COMPLEXES
Answers: TypeAlias = Mapping[str, tuple[jax.Array, Sequence[jax.Array]]]


def answers(
    entry: Entry, operands: Mapping[str, Sequence[HostArray]], directions: Mapping[str, Sequence[HostArray]]
) -> Answers:
    """What jax says: for each dtype the value, and its tangent for the tangent of each operand alone."""
    differentiated = {case_name(dtype): entry.smooth(dtype) for dtype in entry.dtypes}

    def with_respect_to(i: int, xs: Sequence[jax.Array]) -> Callable[[jax.Array], jax.Array]:
        return lambda x: entry.oracle(*xs[:i], x, *xs[i + 1 :])

    def everything(
        operands: Mapping[str, Sequence[jax.Array]], directions: Mapping[str, Sequence[jax.Array]]
    ) -> Answers:
        found: dict[str, tuple[jax.Array, Sequence[jax.Array]]] = {}
        for name, xs in operands.items():
            y, ts = entry.oracle(*xs), directions[name]
            parts: list[jax.Array] = []
            if y.dtype in INEXACT:
                parts = [jax.jvp(with_respect_to(i, xs), (xs[i],), (ts[i],))[1] for i in differentiated[name]]
            found[name] = y, parts
        return found

    # Without this option XLA may keep more digits than a dtype has from one operation to the next.
    compiled = jax.jit(everything, compiler_options={"xla_allow_excess_precision": False})
    found: Answers = compiled(operands, directions)
    return found


def directions_for(entry: Entry, dtype: DType, size: int) -> list[HostArray]:
    dtypes = entry.operands(dtype)
    return [tangents(dt, size, i) if dt in INEXACT else np.zeros(size, dt) for i, dt in enumerate(dtypes)]


def check_signs_of_zeros(actual: HostArray, expected: HostArray) -> None:
    if actual.dtype in FLOATS:
        with np.errstate(invalid="ignore"):  # signalling nans
            zero = (actual == 0) & (expected == 0)
        np.testing.assert_array_equal(np.signbit(actual[zero]), np.signbit(expected[zero]))


@pytest.mark.parametrize("entry", compiled(ELEMENTWISE))
def test_agrees_with_jax_in_values_and_derivatives(entry: Entry) -> None:
    samples = {case_name(dtype): entry.samples(dtype) for dtype in entry.dtypes}
    directions = {
        case_name(dtype): directions_for(entry, dtype, len(samples[case_name(dtype)][0])) for dtype in entry.dtypes
    }
    expected = answers(entry, samples, directions)
    for dtype in entry.dtypes:
        xs, ts = samples[case_name(dtype)], directions[case_name(dtype)]
        value, parts = expected[case_name(dtype)]
        actual = evaluated(entry.primitive, xs)
        check_close(actual, np.asarray(value), entry.ulps, entry.scale)
        if len(xs) == 1:  # with two operands, XLA's choice among zeros is arbitrary
            check_signs_of_zeros(actual, np.asarray(value))
        for i, part in zip(entry.smooth(dtype), parts, strict=False):
            moving = [t if k == i else None for k, t in enumerate(ts)]
            _, tangent = pushed(entry.primitive, xs, moving)
            check_close(tangent, np.asarray(part), entry.ulps, entry.scale)


SEVERAL = [
    entry
    for entry in ELEMENTWISE
    if not isinstance(entry.primitive, Stepwise) and any(len(entry.smooth(dtype)) > 1 for dtype in entry.dtypes)
]


@pytest.mark.parametrize("entry", SEVERAL, ids=case_name)
def test_tangents_of_all_operands_add_up(entry: Entry) -> None:
    for dtype in entry.dtypes:
        smooth = entry.smooth(dtype)
        if len(smooth) < 2:
            continue
        xs = entry.samples(dtype)
        ts = [t if i in smooth else None for i, t in enumerate(directions_for(entry, dtype, len(xs[0])))]
        _, total = pushed(entry.primitive, xs, ts)
        alone = [pushed(entry.primitive, xs, [t if k == i else None for k, t in enumerate(ts)])[1] for i in smooth]
        with np.errstate(all="ignore"):
            expected = np.sum(np.stack(alone), axis=0, dtype=total.dtype)
        check_close(total, np.asarray(expected), 4, 2)


@pytest.mark.parametrize("entry", ELEMENTWISE, ids=case_name)
def test_evaluation_gives_the_dtype_that_typing_promises(entry: Entry) -> None:
    for dtype in entry.dtypes:
        xs = entry.samples(dtype)
        with np.errstate(all="ignore"):
            (array,) = entry.primitive.evaluate(*xs)
            (scalar,) = entry.primitive.evaluate(*[np.asarray(x[0]) for x in xs])
        assert isinstance(array, np.ndarray)
        assert isinstance(scalar, np.ndarray)
        assert array.dtype == scalar.dtype == evaluated(entry.primitive, xs).dtype
        assert array.shape == xs[0].shape
        assert scalar.shape == ()


@st.composite
def arrays_of_any_shape(draw: st.DrawFn) -> tuple[Entry, list[HostArray], list[HostArray]]:
    """An entry, operands of one shape (or scalars where jax takes them) from its domain, and their tangents."""
    entry, dtype = draw(st.sampled_from(CASES))
    shape = draw(st.sampled_from([(), (0,), (3,), (2, 3), (1, 0, 2), (2, 1, 2)]))
    size, samples = math.prod(shape), entry.samples(dtype)
    picked = draw(st.lists(st.integers(0, len(samples[0]) - 1), min_size=size, max_size=size))
    may_mix = entry.primitive.name not in ("select_n", "clamp")
    operands = [x[picked].reshape(shape) for x in samples]
    operands = [x.reshape(-1)[0] if may_mix and size and draw(st.booleans()) else x for x in map(np.asarray, operands)]
    operands = [np.asarray(x) for x in operands]
    return entry, operands, [np.ones_like(x) for x in operands]


@pytest.mark.sweep
@given(arrays_of_any_shape())
@settings(max_examples=25, deadline=None)
def test_any_shapes_agree_with_jax(case: tuple[Entry, list[HostArray], list[HostArray]]) -> None:
    entry, xs, ts = case
    check_close(
        evaluated(entry.primitive, xs), np.asarray(entry.oracle(*map(jnp.asarray, xs))), entry.ulps, entry.scale
    )
    moving = [t if t.dtype in INEXACT and i not in entry.no_rule else None for i, t in enumerate(ts)]
    if any(t is not None for t in moving):
        value, tangent = pushed(entry.primitive, xs, moving)
        assert tangent.shape == value.shape
        assert value.dtype == tangent.dtype or value.dtype not in INEXACT


@pytest.mark.parametrize(
    ("primitive", "xs", "value"),
    [
        (arithmetic.div, ([7, -7, 7, -128, 5, 0], [2, 2, -2, -1, 0, 0]), [3, -3, -3, -128, -1, -1]),
        (arithmetic.rem, ([7, -7, 7, -128, 5, 0], [2, 2, -2, -1, 0, 0]), [1, -1, 1, 0, 5, 0]),
        (bitwise.shift_left, ([1, 1, 1], [7, 8, -1]), [-128, 0, 0]),
        (bitwise.shift_right_arithmetic, ([-128, -128, 64], [7, 8, -1]), [-1, -1, 0]),
        (bitwise.shift_right_logical, ([-128, -128, 64], [7, 8, -1]), [1, 0, 0]),
        (selection.select_n, ([-1, 0, 1, 2, 3], [10] * 5, [20] * 5, [30] * 5), [10, 10, 20, 30, 30]),
        (arithmetic.IntegerPow(3), ([6],), [-40]),
    ],
    ids=lambda p: p.name if isinstance(p, Primitive) else "",
)
def test_integers_behave_as_on_xla(primitive: Primitive, xs: Sequence[Sequence[int]], value: list[int]) -> None:
    assert evaluated(primitive, [np.asarray(x, INT8) for x in xs]).tolist() == value


@pytest.mark.parametrize(
    ("primitive", "xs", "derivative"),
    [
        (arithmetic.max_, (2.0, 2.0), 0.5),
        (arithmetic.min_, (2.0, 2.0), 0.5),
        (arithmetic.abs_, (0.0,), 1.0),
        (exponential.sqrt, (0.0,), math.inf),
        (exponential.pow_, (0.0, 2.0), 0.0),
        (rounding.floor, (0.5,), 0.0),
        (rounding.sign, (0.0,), 0.0),
        (arithmetic.IntegerPow(0), (0.0,), 0.0),
    ],
    ids=lambda p: p.name if isinstance(p, Primitive) else "",
)
def test_derivatives_at_special_points(primitive: Primitive, xs: Sequence[float], derivative: float) -> None:
    operands = [np.asarray(x) for x in xs]
    _, tangent = pushed(primitive, operands, [np.asarray(1.0), *[None] * (len(xs) - 1)])
    assert tangent.item() == derivative


def test_float_to_integer_conversion_saturates() -> None:
    x = np.asarray([math.nan, math.inf, -math.inf, 300.0, -300.0, -3.7])
    assert evaluated(ConvertElementType(INT8), [x]).tolist() == [0, 127, -128, 127, -128, -3]
    assert evaluated(ConvertElementType(UINT8), [x]).tolist() == [0, 255, 0, 255, 0, 0]
    assert evaluated(ConvertElementType(INT64), [np.asarray(1e30)]).item() == 2**63 - 1


def test_scipy_is_imported_only_when_a_special_function_is_computed() -> None:
    program = (
        "import sys, numpy as np\n"
        "from tinyjax.primitives.special import erf\n"
        "before = 'scipy' in sys.modules\n"
        "erf.evaluate(np.asarray(1.0))\n"
        "print(before, 'scipy' in sys.modules)\n"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["False", "True"]
