"""What a partition report consists of."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, final

from attrs import frozen

from tinyjax.ir.source import SourceInfo
from tinyjax.meshes import PartitionSpec
from tinyjax.tools.cost.records import Times

Kind: TypeAlias = Literal[
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "collective-permute",
    "collective-broadcast",
    "ragged-all-to-all",
]
KINDS: Final[tuple[Kind, ...]] = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "collective-permute",
    "collective-broadcast",
    "ragged-all-to-all",
)


@final
@frozen
class Collective:
    """Something that devices tell each other: `kind`, as in HLO, along `axes` of the mesh.

    `bytes` are those of its results on each device, each time, and `types` their types; `operand_bytes` are those of
    its operands: an all-gather has larger results, a reduce-scatter larger operands. `times` says how often it runs,
    `conditional` that it is in a branch, and runs so often at most. `size` devices take part in each group; `whole`
    says that these are all along the axes, and not a part.

    `source` is the line that it is from: in a derivative, that of what is derived. If XLA has joined several to one,
    the others' lines are in `joined`. `name` is the primitive, or the instruction of HLO. `written`: the program says
    it itself, within `shard_map`; otherwise XLA has added it.
    """

    kind: Kind
    axes: tuple[str, ...]
    bytes: int
    operand_bytes: int
    types: tuple[str, ...]
    times: Times
    conditional: bool
    size: int
    whole: bool
    source: SourceInfo | None
    name: str
    written: bool
    joined: tuple[SourceInfo | None, ...] = ()

    @property
    def link_bytes(self) -> int:
        """What each device sends, each time, if the devices of a group form a ring."""
        others = self.size - 1
        if self.kind == "all-reduce":
            return 2 * self.bytes * others // self.size
        if self.kind in ("collective-permute", "collective-broadcast"):
            return self.bytes
        return max(self.bytes, self.operand_bytes) * others // self.size


@final
@frozen
class Placed:
    """An input, a result, or a residual: how it lies, and the bytes of it that each device has.

    `replicated` are the axes of the mesh along which devices have the same. `spec` is None where it can't be said in
    the names of whole axes.
    """

    name: str
    type: str
    spec: PartitionSpec | None
    bytes: int
    whole_bytes: int
    replicated: tuple[str, ...]
    source: SourceInfo | None = None

    @property
    def is_replicated(self) -> bool:
        """Whether each device has all of it."""
        return self.bytes == self.whole_bytes


@final
@frozen
class Gather:
    """An array that XLA puts together on devices, though nothing in the program says so.

    `rematerialised`: afterwards each device takes a part of the whole again, by its own number: the array was to be
    divided differently, and XLA found no better way. Otherwise the line computes with it. `bytes` are those of the
    whole on each device.
    """

    rematerialised: bool
    axes: tuple[str, ...]
    type: str
    bytes: int
    times: Times
    source: SourceInfo | None
    name: str


@final
@frozen
class Memory:
    """Bytes on each device while the compiled program runs, as XLA says it."""

    arguments: int
    results: int
    temporary: int
    aliased: int

    @property
    def peak(self) -> int:
        """What is needed at most: all of these, but arguments that give their memory to results count once."""
        return self.arguments + self.results + self.temporary - self.aliased


@final
@frozen
class OpenLoop:
    """A loop of which it isn't known how often it runs: `name` stands for that number."""

    name: str
    source: SourceInfo | None
