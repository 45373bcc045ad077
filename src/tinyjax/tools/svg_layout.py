"""Layered drawings of graphs: where nodes go, and how edges run, so that edges point down and few cross.

The usual four steps: layers by longest path; points where edges pass through layers; an order within each layer that
puts nodes near the middle of their neighbours; and coordinates that do the same exactly, without overlaps. Every step
is linear in nodes and edges, but for sorting: edges across many layers are cut, and drawn as two short ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, TypeAlias, final

from attrs import frozen

Point: TypeAlias = tuple[float, float]

#: Edges across more layers than this are cut.
_FAR: Final = 6
_SWEEPS: Final = 8
_GAP: Final = 18.0
_BETWEEN: Final = 34.0
#: The width of the channel that an edge has in a layer which it passes through.
_CHANNEL: Final = 8.0


@final
@frozen
class Layout:
    """The middle of each node's upper side, and for each edge the points that it runs through, from the node it leaves
    to the one it enters; () if it is cut. The drawing begins at 0, 0."""

    places: tuple[Point, ...]
    routes: tuple[tuple[Point, ...], ...]
    width: float
    height: float


def layered(sizes: Sequence[Point], edges: Sequence[tuple[int, int]]) -> Layout:
    """Lays out a graph. Nodes are numbered so that every edge goes from a lower to a higher number."""
    if not sizes:
        return Layout((), (), 0.0, 0.0)
    layer = _layers(len(sizes), edges)
    widths = [width for width, _ in sizes]
    chains: list[list[int]] = []
    for start, end in edges:
        chain: list[int] = []
        if layer[end] - layer[start] <= _FAR:
            passed = range(len(widths), len(widths) + layer[end] - layer[start] - 1)
            chain = [start, *passed, end]
            layer += range(layer[start] + 1, layer[end])
            widths += [_CHANNEL] * len(passed)
        chains.append(chain)
    above: list[list[int]] = [[] for _ in widths]
    below: list[list[int]] = [[] for _ in widths]
    for chain in chains:
        for upper, lower in pairwise(chain):
            below[upper].append(lower)
            above[lower].append(upper)
    rows: list[list[int]] = [[] for _ in range(max(layer) + 1)]
    for node, row in enumerate(layer):
        rows[row].append(node)
    _order(rows, above, below)
    xs = _coordinates(rows, widths, above, below)
    left = min(x - width / 2 for x, width in zip(xs, widths, strict=True))
    xs = [x - left for x in xs]
    tops: list[float] = []
    heights = [max((sizes[node][1] for node in row if node < len(sizes)), default=0.0) for row in rows]
    y = 0.0
    for height in heights:
        tops.append(y)
        y += height + _BETWEEN
    places = [(xs[node], tops[layer[node]]) for node in range(len(sizes))]
    routes: list[tuple[Point, ...]] = []
    for chain in chains:
        points: list[Point] = []
        for node in chain[:-1]:
            x, row = xs[node], layer[node]
            if node >= len(sizes):
                points += [(x, tops[row]), (x, tops[row] + heights[row])]
            else:
                points += [(x, tops[row] + sizes[node][1]), (x, tops[row] + heights[row])]
        routes.append((*points, places[chain[-1]]) if chain else ())
    width = max(x + width / 2 for x, width in zip(xs, widths, strict=True))
    return Layout(tuple(places), tuple(routes), width, y - _BETWEEN)


def _layers(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The longest path from a node without predecessors; these are just above what they lead to."""
    layer = [0] * count
    leads: list[list[int]] = [[] for _ in range(count)]
    entered = [False] * count
    for start, end in edges:
        leads[start].append(end)
        entered[end] = True
    for node in range(count):
        for end in leads[node]:
            layer[end] = max(layer[end], layer[node] + 1)
    for node in range(count):
        if not entered[node] and leads[node]:
            layer[node] = min(layer[end] for end in leads[node]) - 1
    return layer


def _order(rows: list[list[int]], above: Sequence[Sequence[int]], below: Sequence[Sequence[int]]) -> None:
    """Sorts each row by where its nodes' neighbours are, down and up in turn."""
    position = {node: float(place) for row in rows for place, node in enumerate(row)}
    for sweep in range(_SWEEPS):
        neighbours = below if sweep % 2 else above
        for row in reversed(rows) if sweep % 2 else rows:
            if len(row) > 1:
                key = {node: _mean([position[other] for other in neighbours[node]], position[node]) for node in row}
                row.sort(key=key.__getitem__)
                position.update({node: float(place) for place, node in enumerate(row)})


def _coordinates(
    rows: Sequence[Sequence[int]],
    widths: Sequence[float],
    above: Sequence[Sequence[int]],
    below: Sequence[Sequence[int]],
) -> list[float]:
    """The middles of the nodes: as near to the mean of their neighbours' as the order of the row and widths allow."""
    xs = [0.0] * len(widths)
    for row in rows:
        _place(row, widths, xs, [xs[node] for node in row])
    for sweep in range(_SWEEPS):
        for row in reversed(rows) if sweep % 2 else rows:
            wanted = [
                _mean(
                    [xs[other] for other in (below[node] if sweep % 2 else above[node])]
                    or [xs[other] for other in (above[node] if sweep % 2 else below[node])],
                    xs[node],
                )
                for node in row
            ]
            _place(row, widths, xs, wanted)
    return xs


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _place(row: Sequence[int], widths: Sequence[float], xs: list[float], wanted: Sequence[float]) -> None:
    """Gives the nodes of a row the coordinates nearest to the wanted ones, in least squares, that keep them apart.

    Less the least distances, the coordinates need only ascend: neighbours that would not are pooled at their mean.
    """
    shift = 0.0
    shifts: list[float] = []
    pools: list[tuple[float, int]] = []
    for place, node in enumerate(row):
        if place:
            shift += (widths[row[place - 1]] + widths[node]) / 2 + _GAP
        shifts.append(shift)
        total, count = wanted[place] - shift, 1
        while pools and pools[-1][0] / pools[-1][1] >= total / count:
            other, more = pools.pop()
            total, count = total + other, count + more
        pools.append((total, count))
    place = 0
    for total, count in pools:
        for _ in range(count):
            xs[row[place]] = total / count + shifts[place]
            place += 1
