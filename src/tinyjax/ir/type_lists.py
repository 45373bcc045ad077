"""Types of several values: whether they are those expected, and how messages list them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tinyjax.errors import TinyjaxError, TypingError
from tinyjax.ir.aval import ShapedArray


def all_match(found: Sequence[ShapedArray], expected: Sequence[ShapedArray]) -> bool:
    """Whether these are the same types one by one, weak or not."""
    # The first is for tuples of shared types, which are compared by identity.
    return found == expected or (len(found) == len(expected) and all(map(ShapedArray.matches, found, expected)))


def listed(avals: Iterable[ShapedArray]) -> str:
    """Types as messages show them: `(f64[3], i32[])`."""
    return f"({', '.join(map(str, avals))})"


def expect_types(
    said: str, expected: Sequence[ShapedArray], found: Sequence[ShapedArray], error: type[TinyjaxError] = TypingError
) -> None:
    """An error unless all types match: `said` is how it begins, up to the types expected, as in "f takes"."""
    if not all_match(found, expected):
        raise error(f"{said} {listed(expected)}, got {listed(found)}")
