"""Sequence alignment for the structural diff: near-linear in the lengths, and exact while the differences are few.

`align` finds a longest common subsequence with Myers' algorithm as long as there are at most `_EDITS` insertions and
deletions. Beyond, it goes by what occurs once on both sides (patience diff) and aligns what is in between.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Final, TypeAlias

#: Positions in both sequences, ascending in both.
Pairs: TypeAlias = list[tuple[int, int]]

#: How many insertions and deletions are searched for before an approximation is good enough.
_EDITS: Final = 64
#: How often a stretch is divided at what occurs once.
_DIVISIONS: Final = 8


def align(a: Sequence[Hashable], b: Sequence[Hashable]) -> Pairs:
    """Pairs of positions with equal keys, in order on both sides: as many as there can be, or nearly.

    >>> align("abcd", "axbd")
    [(0, 0), (1, 2), (3, 3)]
    """
    done: Pairs = []
    stack: list[tuple[int, int, int, int, int]] = [(0, len(a), 0, len(b), _DIVISIONS)]
    while stack:
        low, high, left, right, divisions = stack.pop()
        while low < high and left < right and a[low] == b[left]:
            done.append((low, left))
            low, left = low + 1, left + 1
        while low < high and left < right and a[high - 1] == b[right - 1]:
            high, right = high - 1, right - 1
            done.append((high, right))
        if low == high or left == right:
            continue
        x, y = a[low:high], b[left:right]
        found = myers(x, y)
        if found is None and set(x).isdisjoint(y):
            continue
        if found is None:
            found = _anchors(x, y, once=True) if divisions else []
            if not found:
                found = _anchors(x, y, once=False)
            else:
                stack += [
                    (low + start, low + end, left + first, left + last, divisions - 1)
                    for start, end, first, last in stretches(found, len(x), len(y))
                ]
        done += [(low + i, left + j) for i, j in found]
    return sorted(done)


def stretches(pairs: Pairs, a: int, b: int) -> list[tuple[int, int, int, int]]:
    """What lies between pairs of positions in sequences of lengths a and b: from and to in a, from and to in b."""
    ends = [*pairs, (a, b)]
    starts = [(0, 0), *((i + 1, j + 1) for i, j in pairs)]
    return [(i, j, k, m) for (i, k), (j, m) in zip(starts, ends, strict=True) if i < j and k < m]


def myers(a: Sequence[Hashable], b: Sequence[Hashable]) -> Pairs | None:
    """A longest common subsequence, or None if there are more than `_EDITS` differences."""
    n, m = len(a), len(b)
    if abs(n - m) > _EDITS:
        return None
    reached = {1: 0}  # by diagonal: how far into a
    trace: list[dict[int, int]] = []
    for edits in range(min(_EDITS, n + m) + 1):
        trace.append(dict(reached))
        for diagonal in range(-edits, edits + 1, 2):
            down = diagonal == -edits or (
                diagonal != edits and reached.get(diagonal - 1, -1) < reached.get(diagonal + 1, -1)
            )
            i = reached[diagonal + 1] if down else reached[diagonal - 1] + 1
            j = i - diagonal
            while 0 <= j < m and i < n and a[i] == b[j]:
                i, j = i + 1, j + 1
            reached[diagonal] = i
            if i >= n and j >= m:
                return _walk_back(trace, n, m)
    return None


def _walk_back(trace: Sequence[dict[int, int]], n: int, m: int) -> Pairs:
    pairs: Pairs = []
    i, j = n, m
    for edits in range(len(trace) - 1, -1, -1):
        reached = trace[edits]
        diagonal = i - j
        down = diagonal == -edits or (
            diagonal != edits and reached.get(diagonal - 1, -1) < reached.get(diagonal + 1, -1)
        )
        before = diagonal + 1 if down else diagonal - 1
        start = reached[before] if edits else 0
        stop = start if down or not edits else start + 1
        while i > stop:
            i, j = i - 1, j - 1
            pairs.append((i, j))
        if edits:
            i, j = start, start - before
    return pairs[::-1]


def _anchors(a: Sequence[Hashable], b: Sequence[Hashable], once: bool) -> Pairs:
    """A longest ascending choice among the keys that occur once on both sides. Not `once`: the first of those in a with
    the first in b, the second with the second, and so on."""
    occurrences = Counter(a), Counter(b)
    seen: Counter[Hashable] = Counter()
    places: dict[tuple[Hashable, int], int] = {}
    for j, key in enumerate(b):
        places[key, seen[key]] = j
        seen[key] += 1
    seen.clear()
    candidates: Pairs = []
    for i, key in enumerate(a):
        if not once or (occurrences[0][key] == 1 and occurrences[1][key] == 1):
            place = places.get((key, seen[key]))
            if place is not None:
                candidates.append((i, place))
        seen[key] += 1
    return _ascending(candidates)


def _ascending(pairs: Pairs) -> Pairs:
    """A longest subsequence that ascends on the right, of pairs that ascend on the left."""
    tails: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for number, (_, j) in enumerate(pairs):
        length = bisect_left(tails, j)
        before.append(ends[length - 1] if length else -1)
        if length == len(tails):
            tails.append(j)
            ends.append(number)
        else:
            tails[length], ends[length] = j, number
    chosen: Pairs = []
    at = ends[-1] if ends else -1
    while at >= 0:
        chosen.append(pairs[at])
        at = before[at]
    return chosen[::-1]
