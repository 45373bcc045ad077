"""The least that must be kept: against all sets, on small graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from tinyjax.transforms.minimal_cut import minimal_cut

Operands = Mapping[int, Sequence[int] | None]


def follows(value: int, kept: frozenset[int], operands: Operands) -> bool:
    made_of = operands[value]
    return value in kept or (made_of is not None and all(follows(each, kept, operands) for each in made_of))


@st.composite
def graphs(draw: st.DrawFn) -> tuple[dict[int, int], dict[int, list[int] | None], list[int]]:
    count = draw(st.integers(1, 7))
    costs = {i: draw(st.integers(0, 4)) for i in range(count)}
    operands: dict[int, list[int] | None] = {}
    for i in range(count):
        made_of = st.lists(st.integers(0, i - 1), max_size=3) if i else st.just([])
        operands[i] = draw(st.none() | made_of)
    return costs, operands, draw(st.lists(st.integers(0, count - 1), min_size=1, unique=True))


@given(graphs())
def test_nothing_less_is_enough(graph: tuple[dict[int, int], dict[int, list[int] | None], list[int]]) -> None:
    costs, operands, wanted = graph
    found = minimal_cut(costs, operands, wanted)
    assert all(follows(each, found, operands) for each in wanted)
    sets = (frozenset(each) for size in range(len(costs) + 1) for each in combinations(costs, size))
    enough = [each for each in sets if all(follows(value, each, operands) for value in wanted)]
    assert sum(costs[each] for each in found) == min(sum(costs[each] for each in kept) for kept in enough)


def test_what_is_wanted_is_kept_where_nothing_else_costs_less() -> None:
    assert minimal_cut({0: 4, 1: 4, 2: 4}, {0: None, 1: [0], 2: [1]}, [2]) == {2}


def test_a_long_way_has_no_recursion() -> None:
    count = 3000
    costs = dict.fromkeys(range(count), 5)
    assert minimal_cut(costs | {7: 1}, {i: [i - 1] if i else None for i in range(count)}, [count - 1]) == {7}
