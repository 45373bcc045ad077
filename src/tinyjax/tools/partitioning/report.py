"""The report of what a program does on the devices of a mesh."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from os.path import basename
from typing import Any, final

from attrs import asdict, evolve, frozen
from typing_extensions import override

from tinyjax.ir.printing.display import Block, Note, table
from tinyjax.ir.printing.shown import Shown
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.source import SourceInfo
from tinyjax.meshes import Mesh
from tinyjax.tools.cost.records import Times
from tinyjax.tools.partitioning.records import Collective, Gather, Memory, OpenLoop, Placed
from tinyjax.tools.partitioning.residuals import Kept


@final
@frozen(eq=False, repr=False)
class PartitionReport(Shown):
    """What a program does on the devices of a mesh, before it runs.

    `collectives` are what XLA's partitioned module has devices tell each other; None if it wasn't compiled. `written`
    are those that the program says itself, within `shard_map`: exact, and known without XLA, which may run one for
    several that are alike, move one out of a loop, leave one out whose result it knows, or, on CPUs, add numbers of 16
    bits as wider ones. Where a `shard_map` leaves axes of the mesh to XLA, `written` has what the program sees, which
    XLA divides further. `gathers` are arrays that XLA puts together though nothing in the program says so.

    `inputs`, `results` and `residuals` say how arrays lie, and the bytes of them on each device. `memory` is what XLA
    says that a run takes on each device; `live` the most that is alive at once in what a `shard_map` of the program
    runs on each, if every equation puts its results in new memory. `loops` are those of which nobody knows how often
    they run.
    """

    jaxpr: Jaxpr
    mesh: Mesh
    collectives: tuple[Collective, ...] | None
    written: tuple[Collective, ...]
    gathers: tuple[Gather, ...]
    inputs: tuple[Placed, ...]
    results: tuple[Placed, ...]
    residuals: Kept
    memory: Memory | None
    live: int | None
    loops: tuple[OpenLoop, ...]

    @property
    def input_bytes(self) -> int:
        """The bytes of inputs on each device."""
        return sum(placed.bytes for placed in self.inputs)

    @property
    def result_bytes(self) -> int:
        """The bytes of results on each device."""
        return sum(placed.bytes for placed in self.results)

    @property
    def residual_bytes(self) -> int | None:
        """The bytes of residuals on each device, those left out that are inputs; None if it isn't known."""
        placed = self.residuals.placed
        return None if placed is None else sum(residual.bytes for residual in placed)

    @property
    def peak_bytes(self) -> int | None:
        """The most that a device needs while the program runs, as XLA says it; None if it wasn't compiled."""
        return None if self.memory is None else self.memory.peak

    @property
    def replicated(self) -> tuple[Placed, ...]:
        """The inputs and results of which each of several devices has all."""
        return tuple([p for p in (*self.inputs, *self.results) if p.is_replicated and self.mesh.size > 1])

    def as_dict(self) -> dict[str, Any]:
        """All of it but the program as dictionaries, lists, texts and numbers, for JSON."""
        fields = asdict(self, recurse=False)
        plain: dict[str, Any] = _plain({name: value for name, value in fields.items() if name != "jaxpr"})
        plain["mesh"] = dict(self.mesh.shape_tuple)
        for name in ("input_bytes", "result_bytes", "residual_bytes", "peak_bytes"):
            plain[name] = getattr(self, name)
        return plain

    def to_json(self) -> str:
        """The same as text."""
        return json.dumps(self.as_dict(), indent=2)

    @override
    def _blocks(self) -> Iterator[Block]:
        yield Note(f"{self.mesh}: {self.mesh.size:,} devices")
        if self.collectives is not None:
            if self.collectives:
                yield Note("what devices tell each other, in XLA's partitioned module; bytes are those of results:")
                yield from _collectives(self.collectives)
            else:
                yield Note("XLA's partitioned module has no device tell another one anything")
        if self.written:
            yield Note(self._compared())
            if not self._as_written():
                yield from _collectives(self.written)
        for rematerialised, head in _HEADS.items():
            found = [gather for gather in self.gathers if gather.rematerialised == rematerialised]
            if found:
                yield Note(head)
                rows = [(g.type, ", ".join(g.axes), f"{g.bytes:,}", str(g.times), place_text(g.source)) for g in found]
                yield from table(("array", "axes", "bytes", "times", "line"), rows)
        yield from _arrays(self)
        yield Note("\n".join(self._totals()))

    def _as_written(self) -> bool:
        """Whether XLA runs what the program says, and nothing less or more."""
        return self.collectives is not None and _counted(self.collectives) == _counted(self.written)

    def _compared(self) -> str:
        if self.collectives is None:
            return "what the program says within shard_map:"
        if self._as_written():
            return "these are what the program says within shard_map, and no others"
        left_out = sum((_counted(self.written) - _counted(c for c in self.collectives if c.written)).values())
        less = f", of which XLA has joined, moved or left out {left_out}" if left_out else ""
        return f"what the program says within shard_map{less}:"

    def _totals(self) -> Iterator[str]:
        yield f"bytes on each device: inputs {self.input_bytes:,}, results {self.result_bytes:,}"
        owner = "" if self.residuals.owner == "program" else " of grad of this program"
        known = self.residual_bytes
        yield f"residuals{owner}: " + (
            f"not known: {self.residuals.why}" if known is None else f"{known:,} bytes on each device"
        )
        if self.memory is not None:
            memory = self.memory
            yield f"peak: {memory.peak:,} bytes on each device, of which XLA's temporary ones {memory.temporary:,}"
        if self.live is not None:
            yield f"alive at once within shard_map, without fusion: {self.live:,} bytes on each device"
        if self.replicated:
            names = ", ".join(f"{placed.name} ({placed.bytes:,} bytes)" for placed in self.replicated[:8])
            more = len(self.replicated) - 8
            yield f"the same on every device: {names}" + (f", and {more} more" if more > 0 else "")
        for loop in self.loops:
            yield f"{loop.name}: the iterations of the loop at {place_text(loop.source)}, not known"
        if any(c.conditional for c in (*(self.collectives or ()), *self.written)):
            yield "≤: in a branch, so often at most"


_HEADS = {
    True: "rematerialised: XLA gathers these in whole, and each device takes another part of them afterwards. "
    "The line wants them divided differently than they are:",
    False: "gathered: XLA puts these together for the line, and nothing in the program says so:",
}


def place_text(source: SourceInfo | None) -> str:
    """A line, with the transformations that what is from it went through."""
    return "(no line)" if source is None else str(evolve(source, file=basename(source.file)))


def _counted(found: Iterator[Collective] | Sequence[Collective]) -> Counter[tuple[object, ...]]:
    return Counter((c.kind, c.axes, c.bytes, c.times) for c in found)


def _often(times: Times, conditional: bool) -> str:
    return f"≤ {times}" if conditional else str(times)


def _collectives(found: Sequence[Collective]) -> Iterator[Block]:
    rows = [
        (
            f"{c.kind} {', '.join(c.types[:3])}{f', ... ({len(c.types)})' if len(c.types) > 3 else ''}",
            ", ".join(c.axes) + ("" if c.whole else f" ({c.size} devices of it)"),
            f"{c.bytes:,}",
            _often(c.times, c.conditional),
            "program" if c.written else "XLA",
            "; ".join(map(place_text, (c.source, *c.joined))),
        )
        for c in found
    ]
    yield from table(("collective", "axes", "bytes", "times", "by", "line"), rows)


def _arrays(report: PartitionReport) -> Iterator[Block]:
    kinds = [("input", report.inputs), ("result", report.results), ("residual", report.residuals.placed or ())]
    rows = [
        (
            f"{kind} {placed.name}".strip() if kind != "residual" else f"residual of {place_text(placed.source)}",
            placed.type,
            "" if placed.spec is None else str(placed.spec),
            ", ".join(placed.replicated),
            f"{placed.bytes:,}",
            f"{placed.whole_bytes:,}",
        )
        for kind, listed in kinds
        for placed in listed
    ]
    if rows:
        yield from table(("array", "type", "lies as", "the same along", "bytes", "of"), rows, numbers=4)


def _plain(value: object) -> Any:
    """What JSON can say of a value of a report."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Times):
        return str(value) if value.per_iteration else value.fixed
    if isinstance(value, SourceInfo):
        return {"file": value.file, "line": value.line, "function": value.function, "by": list(value.transformations)}
    if isinstance(value, Collective | Gather | Placed | Memory | OpenLoop | Kept):
        return _plain(asdict(value, recurse=False))
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
