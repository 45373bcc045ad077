"""Lists that were taken apart, put together again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from tinyjax.ir.primitive import Split

T = TypeVar("T")
R = TypeVar("R")


def merged(marks: Iterable[bool], marked: Iterable[T], others: Iterable[R]) -> list[T | R]:
    """For each mark the next of `marked` if it is set, and the next of `others` if not."""
    first, second = iter(marked), iter(others)
    return [next(first) if mark else next(second) for mark in marks]


def sourced(positions: Iterable[int | None], given: Sequence[T] | Mapping[int, T], made: Iterable[R]) -> list[T | R]:
    """The items of `given` at these positions, and where there is None, the next of `made`: as residuals are listed."""
    rest = iter(made)
    return [next(rest) if at is None else given[at] for at in positions]


def completed(fixed: Mapping[int, T], rest: Iterable[R], count: int) -> list[T | R]:
    """So many items, those that are `fixed` at their positions among them, the `rest` in order at the others."""
    found = iter(rest)
    return [fixed[i] if i in fixed else next(found) for i in range(count)]


def staged_operands(split: Split, args: Sequence[T], unknown: Sequence[T], made: Iterable[R]) -> list[T | R]:
    """The operands of `split.staged`: the residuals, some of them arguments, some `made` by the known part, and the
    arguments that are `unknown`."""
    inputs = [*sourced(split.residuals, args, made), *unknown]
    return inputs if split.order is None else [inputs[i] for i in split.order]
