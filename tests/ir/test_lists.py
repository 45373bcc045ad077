"""Lists that are taken apart and put together again: of tangents, of types, of anything."""

from __future__ import annotations

from itertools import compress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyjax.errors import InputError, TinyjaxError, TypingError
from tinyjax.ir import ShapedArray
from tinyjax.ir.merging import completed, merged, sourced, staged_operands
from tinyjax.ir.primitive import Split, UndefPrimal, Zero
from tinyjax.ir.tangents import (
    cotangents_of,
    has_tangent,
    known_operands,
    linear_marks,
    nonzero_marks,
    spread_marks,
    tangent_avals,
    with_zeros,
    without_zeros,
)
from tinyjax.ir.type_lists import all_match, expect_types
from tinyjax.primitives.elementwise import add

SHAPES, DTYPES = st.sampled_from([(), (2,), (2, 3)]), st.sampled_from(["f64", "f32", "i32", "bool", "c64"])
AVALS = st.builds(ShapedArray, SHAPES, DTYPES)
MARKED = st.lists(st.tuples(AVALS, st.booleans(), st.booleans()))


@given(st.lists(st.tuples(st.booleans(), st.integers())))
def test_merging_undoes_dividing(marked: list[tuple[bool, int]]) -> None:
    marks, items = [mark for mark, _ in marked], [item for _, item in marked]
    others = [not mark for mark in marks]
    assert merged(marks, compress(items, marks), compress(items, others)) == items
    fixed = {i: item for i, (mark, item) in enumerate(marked) if mark}
    assert completed(fixed, compress(items, others), len(items)) == items
    positions = [i if mark else None for i, mark in enumerate(marks)]
    assert sourced(positions, items, compress(items, others)) == items
    assert sourced(positions, fixed, compress(items, others)) == items


@given(MARKED)
def test_zeros_come_back(marked: list[tuple[ShapedArray, bool, bool]]) -> None:
    avals = [aval for aval, _, _ in marked]
    tangents = [i if has_tangent(aval) and mark else Zero(aval.tangent) for i, (aval, mark, _) in enumerate(marked)]
    assert with_zeros(without_zeros(tangents), nonzero_marks(tangents), avals) == tangents
    possible = [mark for aval, mark, _ in marked if has_tangent(aval)]
    assert spread_marks(possible, avals) == nonzero_marks(tangents)
    assert len(tangent_avals(avals)) == len(possible)


@given(MARKED)
def test_cotangents_are_those_of_linear_operands(marked: list[tuple[ShapedArray, bool, bool]]) -> None:
    args = [UndefPrimal(aval) if linear else i for i, (aval, _, linear) in enumerate(marked)]
    wanted = [
        None if not linear else i if mark else Zero(aval.tangent) for i, (aval, mark, linear) in enumerate(marked)
    ]
    nonzero = [mark for _, mark, linear in marked if linear]
    assert cotangents_of(args, [ct for ct in wanted if isinstance(ct, int)], nonzero) == wanted
    assert linear_marks(args) == tuple(linear for _, _, linear in marked)
    assert known_operands(args) == [i for i, (_, _, linear) in enumerate(marked) if not linear]


def test_operands_of_a_staged_part_come_in_its_order() -> None:
    plain = Split(add, add, (True,), (2, None, 0))
    assert staged_operands(plain, "abc", "bc", "r") == ["c", "r", "a", "b", "c"]
    ordered = Split(add, add, (True,), (2, None), order=(2, 0, 1))
    assert staged_operands(ordered, "abc", "b", "r") == ["b", "c", "r"]


@pytest.mark.parametrize("error", [TypingError, InputError])
def test_types_that_differ(error: type[TinyjaxError]) -> None:
    weak, strong, other = ShapedArray((), "f64", True), ShapedArray((), "f64"), ShapedArray((3,), "i32")
    assert all_match([weak, other], (strong, other))
    expect_types("f takes", [strong, other], (weak, other), error)
    for found, said in (((strong,), r"\(f64\[\]\)"), ((other, weak), r"\(i32\[3\], ~f64\[\]\)"), ((), r"\(\)")):
        with pytest.raises(error, match=rf"^f takes \(f64\[\], i32\[3\]\), got {said}$"):
            expect_types("f takes", [strong, other], found, error)
