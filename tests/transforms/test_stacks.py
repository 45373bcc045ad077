"""Stacks of values, some of which are rows of stacks that are there."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.transforms.checks import run
from tinyjax import ShapedArray
from tinyjax.ir import Var
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.constant import Constant
from tinyjax.transforms.rebuild import Rebuilding
from tinyjax.transforms.stacks import Item, Row, Stacks

ROW = ShapedArray((2,), "float64")
#: Two stacks, and two values by themselves.
INPUTS = [Var(0, ROW.of_shape((9, 2))), Var(1, ROW.of_shape((7, 2))), Var(2, ROW), Var(3, ROW)]
SPELLED = [np.full(2, 40.0), np.full(2, 41.0)]

rows = st.builds(Row, st.just(INPUTS[0]), st.integers(0, 8)) | st.builds(Row, st.just(INPUTS[1]), st.integers(0, 6))
#: Values by number, of which the last two are spelled out.
alone = st.sampled_from([2, 3, 4, 5])


@st.composite
def steps(draw: st.DrawFn) -> list[Row]:
    """Rows of one stack, a step apart; the same one again and again if that is none."""
    stack = INPUTS[draw(st.integers(0, 1))]
    length, step = stack.aval.shape[0], draw(st.integers(-3, 3))
    first = draw(st.integers(0, length - 1))
    places = range(first, length if step > 0 else -1, step) if step else [first] * 12
    return [Row(stack, at) for at in islice(places, draw(st.integers(1, 12)))]


@st.composite
def by_turns(draw: st.DrawFn) -> list[Row]:
    turns = draw(st.lists(steps(), min_size=1, max_size=5))
    return [row for together in zip(*turns, strict=False) for row in together]


@given(st.lists(by_turns() | st.lists(rows | alone, min_size=1, max_size=4), min_size=1, max_size=4))
def test_stacks_have_these_rows(parts: Sequence[Sequence[Row | int]]) -> None:
    ctx = Rebuilding(INPUTS)
    stacks = Stacks(ctx)
    values: dict[int, Var] = {2: INPUTS[2], 3: INPUTS[3]}
    for i, elements in enumerate(SPELLED, 4):
        value = ConcreteValue.of(elements)
        (values[i],) = ctx.emit(Constant(value), (), [value.aval], None)
        stacks.note_known(values[i], value)
    wanted = [item for part in parts for item in part] * 2
    items: list[Item] = [values[item] if isinstance(item, int) else item for item in wanted]
    found = stacks.stacked(items, ROW)
    again = stacks.stacked(items, ROW)
    args = [
        np.arange(var.aval.size, dtype=np.float64).reshape(var.aval.shape) + 100 * i for i, var in enumerate(INPUTS)
    ]
    by_number = {2: args[2], 3: args[3], 4: SPELLED[0], 5: SPELLED[1]}
    expected = np.stack(
        [by_number[item] if isinstance(item, int) else args[item.stack.index][item.at] for item in wanted]
    )
    for result in run(ctx.finish([found, again]), args):
        np.testing.assert_array_equal(result, expected)
