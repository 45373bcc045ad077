"""Pictures of how arrays lie on meshes: boxes of characters for terminals, tables for notebooks."""

from __future__ import annotations

import itertools
import math
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias, final

from attrs import field, frozen
from typing_extensions import override

from tinyjax.errors import InputError
from tinyjax.ir.immutable import Immutable
from tinyjax.ir.printing.display import Block, Note, Picture
from tinyjax.ir.printing.html import escape
from tinyjax.ir.printing.shown import Shown
from tinyjax.ir.shapes import Shape
from tinyjax.meshes.named import NamedSharding
from tinyjax.meshes.sharding import Sharding

#: Red, green and blue, from 0 to 1; more may follow.
Color: TypeAlias = tuple[float, ...]
#: From 0 to 1 to a colour.
ColorMap: TypeAlias = Callable[[float], Color]

#: At most so many grids are shown of an array that is divided along more than two axes.
_GRIDS: Final = 16
#: A character is so much taller than wide.
_TALL: Final = 2.5
_CELL: Final = "border:1px solid var(--line);padding:4px 12px;text-align:center"


@final
@frozen
class Cell:
    """A block of an array: where it is, and the numbers of the devices that have it."""

    index: tuple[slice, ...]
    numbers: tuple[int, ...]
    kind: str

    @property
    def label(self) -> str:
        """Every number."""
        if self.kind == "HOST":
            return "host"
        return f"{self.kind} {','.join(map(str, self.numbers))}"

    @property
    def short(self) -> str:
        """The same with runs of numbers in short."""
        runs: list[list[int]] = []
        for number in self.numbers:
            if runs and number == runs[-1][1] + 1:
                runs[-1][1] = number
            else:
                runs.append([number, number])
        return f"{self.kind} {','.join(str(a) if a == b else f'{a}-{b}' for a, b in runs)}"


@final
@frozen
class Grid:
    """The blocks along two axes of an array, the first of which goes down; `head` is where they are along others."""

    head: str
    rows: tuple[tuple[Cell, ...], ...]
    #: How long the two axes are; none goes down if that is None.
    down: int | None
    across: int


@final
@frozen(repr=False)
class ShardingPicture(Immutable, Shown):
    """How an array of a shape lies on devices: a box for each block, with the devices that have it.

    Of more than two dimensions, those along which the array is divided are shown: the last two of them down and
    across, and a picture for each place along others. A sharding whose mesh has no devices is shown by places on the
    mesh.

    Raises:
      ShardingError: a ValueError, if an array of this shape can't lie so.

    >>> from tinyjax.meshes import Mesh, P
    >>> print(ShardingPicture((8, 6), NamedSharding(Mesh((2, 2), ("x", "y")), P("x"))))
    (8, 6) by P('x',) on Mesh('x': 2, 'y': 2): each device has (4, 6)
    <BLANKLINE>
    ┌───────────────┐
    │               │
    │  device 0,1   │
    │               │
    │               │
    ├───────────────┤
    │               │
    │  device 2,3   │
    │               │
    │               │
    └───────────────┘
    <BLANKLINE>
    replicated along 'y' (2): the devices of a box have the same
    """

    shape: Shape = field(converter=tuple[int, ...])
    sharding: Sharding

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.sharding, Sharding):
            raise InputError(f"a picture is of a sharding, such as NamedSharding(mesh, P('x')), not {self.sharding!r}")
        self.sharding.check(self.shape, "the array")

    @property
    def grids(self) -> list[Grid]:
        """What is drawn; of many, the first ones."""
        ndim = len(self.shape)
        blocks = self.sharding.blocks(ndim)
        shown = list(range(ndim)) if ndim <= 2 else [axis for axis in range(ndim) if blocks[axis] > 1]
        down, across = ([None, None, *shown])[-2:]
        others = shown[:-2]
        cells = self._cells()
        found: list[Grid] = []
        for place in itertools.islice(itertools.product(*[range(blocks[axis]) for axis in others]), _GRIDS):
            at = [0] * ndim
            for axis, block in zip(others, place, strict=True):
                at[axis] = block
            rows: list[tuple[Cell, ...]] = []
            for row in range(1 if down is None else blocks[down]):
                line: list[Cell] = []
                for column in range(1 if across is None else blocks[across]):
                    if down is not None:
                        at[down] = row
                    if across is not None:
                        at[across] = column
                    line.append(cells[tuple(at)])
                rows.append(tuple(line))
            head = "" if ndim <= 2 else self._head(rows[0][0].index, others, down, across)
            sizes = [None if axis is None else self.shape[axis] for axis in (down, across)]
            found.append(Grid(head, tuple(rows), sizes[0], sizes[1] or 1))
        return found

    def _cells(self) -> dict[tuple[int, ...], Cell]:
        sharding, ndim = self.sharding, len(self.shape)
        if sharding.has_devices:
            devices = sharding.flat_devices
            numbers, kind = [device.id for device in devices], devices[0].platform.upper()
        else:
            numbers, kind = list(range(sharding.num_devices)), "device"
        having: dict[tuple[int, ...], list[int]] = {}
        where: dict[tuple[int, ...], tuple[slice, ...]] = {}
        places: list[list[int]] = sharding.coordinates(ndim).tolist()
        for number, row, index in zip(numbers, places, sharding.indices(self.shape), strict=True):
            having.setdefault(tuple(row), []).append(number)
            where[tuple(row)] = index
        return {at: Cell(where[at], tuple(sorted(found)), kind) for at, found in having.items()}

    def _head(self, index: Sequence[slice], others: Sequence[int], down: int | None, across: int | None) -> str:
        parts = [index_text(index[axis]) if axis in others else ":" for axis in range(len(index))]
        said = [f"axis {axis} {way}" for axis, way in ((down, "down"), (across, "across")) if axis is not None]
        return f"[{', '.join(parts)}]{': ' if said else ''}{', '.join(said)}"

    @property
    def _left_out(self) -> int:
        blocks = [count for count in self.sharding.blocks(len(self.shape)) if count > 1]
        return max(0, math.prod(blocks[:-2]) - _GRIDS) if len(self.shape) > 2 else 0

    @property
    def title(self) -> str:
        """The shape, the sharding and what a device has, in a line."""
        own = self.sharding
        how = f"by {own.spec} on {own.mesh}" if isinstance(own, NamedSharding) else f"on {own.flat_devices[0]}"
        block = "all of it" if own.blocks(len(self.shape)) == (1,) * len(self.shape) else own.shard_shape(self.shape)
        return f"{self.shape} {how}: each device has {block}" if own.num_devices > 1 else f"{self.shape} {how}"

    @property
    def notes(self) -> list[str]:
        """What boxes don't say: along which axes of the mesh the devices have the same."""
        own, found = self.sharding, []
        if isinstance(own, NamedSharding):
            sizes = own.mesh.shape
            for names, said in (
                (own.replicated_axes, "replicated along {}: the devices of a box have the same"),
                (own.spec.unreduced, "unreduced along {}: the devices of a box have terms of a sum yet to be made"),
            ):
                axes = [
                    f"{name!r} ({sizes[name]})" for name in own.mesh.axis_names if name in names and sizes[name] > 1
                ]
                if axes:
                    found.append(said.format(" and ".join(axes)))
        if not own.has_devices and not found and own.num_devices > 1:
            found.append("numbers are places on the mesh, which has no devices yet")
        if self._left_out:
            found.append(f"({self._left_out:,} more pictures)")
        return found

    def drawn(
        self,
        *,
        scale: float = 1.0,
        min_width: int = 9,
        max_width: int = 80,
        colors: Callable[[int, int], Sequence[Sequence[str]]] | None = None,
        ascii_only: bool = False,
    ) -> str:
        """The boxes alone, as text. `colors` gives the escape sequence of each box of a grid."""
        drawings: list[str] = []
        for grid in self.grids:
            styles = None if colors is None else colors(len(grid.rows), len(grid.rows[0]))
            box = _boxes(grid, scale, min_width, max_width, styles, _ASCII if ascii_only else _LINES)
            drawings.append(f"{grid.head}\n{box}" if grid.head else box)
        return "\n\n".join(drawings)

    @override
    def _blocks(self) -> Iterator[Block]:
        yield Note(self.title)
        yield Picture("".join(map(_grid_html, self.grids)), self.drawn(ascii_only=not has_lines()))
        for note in self.notes:
            yield Note(note)

    @property
    def parts(self) -> list[str]:
        """What a notebook shows, as elements."""
        return [block.html for block in self._blocks()]


def index_text(index: slice) -> str:
    """A slice as it is written.

    >>> index_text(slice(2, 4)), index_text(slice(None))
    ('2:4', ':')
    """
    return ":" if index.start is None else f"{index.start}:{index.stop}"


#: Corners and edges: top, between, bottom, each with its left end, line, crossing, and right end; and the sides.
_LINES: Final = ("┌─┬┐", "├─┼┤", "└─┴┘", "│")
_ASCII: Final = ("+-++", "+-++", "+-++", "|")


def has_lines() -> bool:
    """Whether the terminal can show the characters of boxes."""
    try:
        "".join(_LINES).encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _boxes(
    grid: Grid,
    scale: float,
    min_width: int,
    max_width: int,
    styles: Sequence[Sequence[str]] | None,
    lines: tuple[str, str, str, str],
) -> str:
    """A grid in characters, in about the proportions of the array."""
    tall = int(10 * scale)
    ratio = (grid.across if grid.down is not None else 1) / max(grid.down if grid.down is not None else grid.across, 1)
    count = len(grid.rows[0])
    width = min(max(int(int(tall * ratio) * _TALL / count), min_width), max_width) - 2
    room = max((max_width - count - 1) // count, 4)
    height = 1 if grid.down is None else int(tall / len(grid.rows))
    widths = [min(max(width, *(len(_label(row[i], room)[0]) for row in grid.rows)), room) for i in range(count)]
    above, below = max((height - 2) // 2, 0), max(height - 2 - (height - 2) // 2, 0)
    out = [_edge(lines[0], widths)]
    for number, row in enumerate(grid.rows):
        texts = [_label(cell, wide) for cell, wide in zip(row, widths, strict=True)]
        deep = max(map(len, texts))
        cells = [
            [
                *[""] * (above + (deep - len(text)) // 2),
                *text,
                *[""] * (below + deep - len(text) - (deep - len(text)) // 2),
            ]
            for text in texts
        ]
        for line in range(above + deep + below):
            shown = [
                _colored(_centred(cell[line], wide, width), None if styles is None else styles[number][i])
                for i, (cell, wide) in enumerate(zip(cells, widths, strict=True))
            ]
            out.append(lines[3] + lines[3].join(shown) + lines[3])
        out.append(_edge(lines[1] if number + 1 < len(grid.rows) else lines[2], widths))
    return "\n".join(out)


def _centred(text: str, wide: int, width: int) -> str:
    own = max(width, len(text))
    left = (wide - own) // 2 + (own - len(text)) // 2
    return f"{' ' * left}{text}".ljust(wide)


def _label(cell: Cell, room: int) -> list[str]:
    """The devices of a box, in lines of at most so many characters."""
    for text in (cell.label, cell.short):
        if len(text) <= room:
            return [text]
    return textwrap.wrap(cell.short.replace(",", ", "), room) or [""]


def _edge(line: str, widths: Sequence[int]) -> str:
    return line[0] + line[2].join(line[1] * width for width in widths) + line[3]


def _colored(text: str, style: str | None) -> str:
    return text if style is None else f"{style}{text}\x1b[0m"


def terminal_colors(color_map: ColorMap | None) -> Callable[[int, int], Sequence[Sequence[str]]]:
    """The escape sequences for the boxes of a grid: neighbours differ."""

    def colors(down: int, across: int) -> Sequence[Sequence[str]]:
        return [
            [_escape_sequence(_color(row * across + i, down * across, color_map)) for i in range(across)]
            for row in range(down)
        ]

    return colors


def _color(number: int, count: int, color_map: ColorMap | None) -> Color:
    if color_map is not None:
        at = number * (count // 2 + (count % 2 == 0)) % count
        return color_map(at / max(count - 1, 1))
    from colorsys import hls_to_rgb

    return hls_to_rgb(_hue(number), 0.78, 0.6)


def _hue(number: int) -> float:
    """Hues far from each other, however many: multiples of the golden ratio."""
    return (0.58 + number * 0.6180339887) % 1.0


def _escape_sequence(color: Color) -> str:
    red, green, blue = (int(255 * part) for part in color[:3])
    text = "30" if red * 0.299 + green * 0.587 + blue * 0.114 > 140 else "97"
    return f"\x1b[{text};48;2;{red};{green};{blue}m"


def _grid_html(grid: Grid) -> str:
    number = 0
    lines = [f"<p>{escape(grid.head)}</p>" if grid.head else "", "<table><tbody>"]
    for row in grid.rows:
        lines.append("<tr>")
        for cell in row:
            color = f"background:hsl({360 * _hue(number):.0f} 65% 55% / .3)"
            where = f"[{', '.join(map(index_text, cell.index))}]"
            label = escape(cell.label if len(cell.label) <= 40 else cell.short)
            lines.append(f'<td style="{_CELL};{color}" title="{escape(where)}">{label}</td>')
            number += 1
        lines.append("</tr>")
    return "".join([*lines, "</tbody></table>"])
