"""Asking a rule in advance about every choice of tangents, or cotangents, that are known to be zero."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Final, Generic, TypeVar, final

from attrs import frozen

from tinyjax.control.recursion import Refusal, refusal_of

T = TypeVar("T")
#: Up to how many choices rules are asked about in advance: of arguments, times those of results.
MAX_CASES: Final = 256


def choices(count: int) -> list[tuple[bool, ...]]:
    """Which of so many values may be other than zero, all of them first; not none of them, if there are any."""
    return [given for given in product((True, False), repeat=count) if any(given) or not count]


@final
@frozen(eq=False)
class Asked(Generic[T]):
    """What came of asking a rule about every case: what it gave, and what it raised."""

    given: tuple[tuple[bool, ...], ...]
    found: tuple[T, ...]
    refused: tuple[Refusal, ...]


def ask(cases: Sequence[tuple[bool, ...]], rule: Callable[[tuple[bool, ...]], T]) -> Asked[T]:
    """Asks a rule about these cases, in advance: it needn't know any. What it raises is for those who need the case."""
    given, found = list[tuple[bool, ...]](), list[T]()
    refused: list[Refusal] = []
    for case in cases:
        try:
            found.append(rule(case))
        except (RecursionError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 (whatever a user's rule raises)
            refused.append(refusal_of(case, error))
        else:
            given.append(case)
    return Asked(tuple(given), tuple(found), tuple(refused))
