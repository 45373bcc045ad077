"""Asking a rule in advance about every choice of tangents, or cotangents, that are known to be zero."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from pathlib import PurePath
from typing import Final, Generic, TypeVar, final

from attrs import frozen

from tinyjax.control.recursion import Refusal

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
    """Asks a rule about these cases, in advance: it needn't know them all. If it knows none, its first exception is
    raised."""
    given, found = list[tuple[bool, ...]](), list[T]()
    refused: list[Refusal] = []
    first: Exception | None = None
    for case in cases:
        try:
            found.append(rule(case))
        except Exception as error:  # noqa: BLE001 (whatever a user's rule raises)
            refused.append(Refusal(case, _described(error)))
            first = first or error
        else:
            given.append(case)
    if first is not None and not found:
        raise first
    return Asked(tuple(given), tuple(found), tuple(refused))


def _described(error: Exception) -> str:
    """The exception, in one line, and the line that raised it."""
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    at = f" ({PurePath(step.tb_frame.f_code.co_filename).name}:{step.tb_lineno})" if step else ""
    text = str(error).partition("\n")[0]
    return f"{type(error).__name__}{': ' if text else ''}{text}{at}"
