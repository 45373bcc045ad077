"""The least that must be kept, so that all that is wanted follows from it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

#: Where everything comes from that can't be made of something else, and where what is wanted goes.
_SOURCE: Final = -1
_SINK: Final = -2
#: How much more may flow from one node to another.
_Capacities: TypeAlias = dict[int, dict[int, int]]


def minimal_cut(
    costs: Mapping[int, int], operands: Mapping[int, Sequence[int] | None], wanted: Iterable[int]
) -> frozenset[int]:
    """Of values that cost so much to keep, those which cost least together, and from which all that is wanted can be
    made: each of its operands (None: it can't be made). Of several such sets, the nearest to what is wanted.

    >>> sorted(minimal_cut({1: 8, 2: 8, 3: 8}, {1: None, 2: [1], 3: [1]}, [2, 3]))
    [1]
    """
    capacities: _Capacities = {_SOURCE: {}, _SINK: {}}
    everything = sum(costs.values()) + 1

    def edge(start: int, end: int, capacity: int) -> None:
        capacities.setdefault(start, {})[end] = capacity
        capacities.setdefault(end, {}).setdefault(start, 0)

    for value, cost in costs.items():
        edge(2 * value, 2 * value + 1, cost)
        made_of = operands[value]
        for operand in [] if made_of is None else made_of:
            edge(2 * operand + 1, 2 * value, everything)
        if made_of is None:
            edge(_SOURCE, 2 * value, everything)
    for value in wanted:
        edge(2 * value + 1, _SINK, everything)
    while _augment(capacities):
        pass
    near = _reaching(capacities)
    return frozenset(value for value in costs if 2 * value + 1 in near and 2 * value not in near)


def _augment(capacities: _Capacities) -> bool:
    """Lets more flow along one of the shortest ways, if there is one."""
    before: dict[int, int] = {_SOURCE: _SOURCE}
    todo = deque([_SOURCE])
    while todo and _SINK not in before:
        node = todo.popleft()
        for other, capacity in capacities[node].items():
            if capacity and other not in before:
                before[other] = node
                todo.append(other)
    if _SINK not in before:
        return False
    way: list[tuple[int, int]] = []
    node = _SINK
    while node != _SOURCE:
        way.append((before[node], node))
        node = before[node]
    flow = min(capacities[start][end] for start, end in way)
    for start, end in way:
        capacities[start][end] -= flow
        capacities[end][start] += flow
    return True


def _reaching(capacities: _Capacities) -> frozenset[int]:
    """The nodes from which more could flow to the sink."""
    found = {_SINK}
    todo = [_SINK]
    while todo:
        node = todo.pop()
        for other in capacities[node]:
            if other not in found and capacities[other][node]:
                found.add(other)
                todo.append(other)
    return frozenset(found)
