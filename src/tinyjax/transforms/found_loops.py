"""What rerolling has found in a program: loops, and what looks alike but stayed as it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, final

from attrs import frozen
from typing_extensions import override

from tinyjax.ir.printing.shown import Shown
from tinyjax.ir.program import ClosedJaxpr
from tinyjax.ir.source import SourceInfo
from tinyjax.transforms.near_repeats import Stopped

if TYPE_CHECKING:
    from tinyjax.ir.printing import display


@final
@frozen
class Repeat:
    """A run of equal blocks that became a loop.

    It begins at the line `source`, and `last` is the line of the last block: of `count` blocks of `period` equations.
    What each hands to the next takes `carried` bytes; `stacked` bytes are what differs from block to block, `results`
    what is stacked of results, and `shared` what is the same for all.
    """

    source: SourceInfo | None
    last: SourceInfo | None
    count: int
    period: int
    carried: int
    stacked: int
    results: int
    shared: int
    reverse: bool

    @property
    def row(self) -> tuple[str, ...]:
        """What a table says of it."""
        numbers = (self.count, self.period, self.carried, self.stacked, self.results, self.shared)
        return str(self.source or ""), *(f"{number:,}" for number in numbers)


@final
@frozen(repr=False)
class Repeats(Shown):
    """What `reroll` made of a program: loops, and what looks alike but stayed as it is. It shows itself."""

    program: ClosedJaxpr
    found: tuple[Repeat, ...]
    stopped: tuple[Stopped, ...]

    @override
    def _blocks(self) -> Iterator[display.Block]:
        from tinyjax.ir.printing.display import Note, table

        head = ("loop at", "blocks", "equations", "carried", "stacked", "results", "shared")
        yield from table(head, [each.row for each in self.found], numbers=1) if self.found else [Note("no loops")]
        if self.stopped:
            rows = [(str(each.source or ""), str(each.count), str(each.period), each.why) for each in self.stopped]
            yield from table(("no loop at", "blocks", "equations", "why"), rows)
