"""What HLO says of collectives, read from its text: another reader than the library's, to compare with."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Final, TypeAlias

import numpy as np

from tinyjax.sharding import Mesh

#: The kind, the axes, the bytes of results, and how often it runs (None: nobody knows).
Told: TypeAlias = tuple[str, tuple[str, ...], int, int | None]

BYTES: Final = {"pred": 1, "s8": 1, "u8": 1, "s16": 2, "u16": 2, "bf16": 2, "f16": 2, "s32": 4, "u32": 4, "f32": 4}
BYTES.update({"s64": 8, "u64": 8, "f64": 8, "c64": 8, "c128": 16})
KINDS: Final = "all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute"
_HEAD: Final = re.compile(r"^(ENTRY )?%?([\w.\-]+) (?:\(.*\) -> .* )?\{$")
_TOLD: Final = re.compile(rf"= (\S.*?) ({KINDS})(-start)?\(")


def told(text: str, mesh: Mesh) -> Counter[Told]:
    """All collectives of a module, once for each time that something calls the computation that they are in."""
    computations: dict[str, list[str]] = {}
    entry = name = ""
    for line in text.splitlines():
        head = _HEAD.match(line)
        if head:
            name = head[2]
            computations[name] = []
            entry = name if head[1] else entry
        elif name:
            computations[name].append(line)
    found: Counter[Told] = Counter()

    def visit(name: str, times: int | None) -> None:
        for line in computations[name]:
            match = _TOLD.search(line)
            if match:
                axes = along(line, mesh)
                if axes:
                    found[match[2], axes, nbytes(match[1]), times] += 1
            if " while(" in line:
                count = trips(line, computations)
                visit(called(line, "body"), None if times is None or count is None else times * count)
                visit(called(line, "condition"), None if times is None or count is None else times * (count + 1))
            else:
                for key in ("calls", "to_apply", "true_computation", "false_computation"):
                    if f"{key}=" in line and not match:
                        visit(called(line, key), times)
                branches = re.search(r"branch_computations=\{(.*?)\}", line)
                for branch in branches[1].split(", ") if branches else ():
                    visit(branch.lstrip("%"), times)

    visit(entry, 1)
    return found


def called(line: str, key: str) -> str:
    match = re.search(rf"{key}=%?([\w.\-]+)", line)
    assert match
    return match[1]


def trips(line: str, computations: dict[str, list[str]]) -> int | None:
    known = re.search(r'"known_trip_count":\{"n":"(\d+)"\}', line)
    if known:
        return int(known[1])
    # Before XLA has looked at it: the test compares a counter, from 0, with a constant.
    test = "\n".join(computations[called(line, "condition")])
    limits = re.findall(r"s32\[\] constant\((\d+)\)", test)
    return int(limits[0]) if len(limits) == 1 and "direction=LT" in test else None


def nbytes(types: str) -> int:
    return sum(
        BYTES[element] * math.prod([int(n) for n in dims.split(",") if n])
        for element, dims in re.findall(r"\b([a-z]+\d*)\[([\d,]*)\]", types)
    )


def along(line: str, mesh: Mesh) -> tuple[str, ...]:
    """The axes of the mesh in which the devices that tell each other something differ."""
    places = [tuple(place) for place in np.ndindex(*mesh.axis_sizes)]
    differ: set[int] = set()
    for group in device_groups(line, mesh.size):
        for device in group:
            differ |= {i for i, (a, b) in enumerate(zip(places[device], places[group[0]], strict=True)) if a != b}
    return tuple(name for i, name in enumerate(mesh.axis_names) if i in differ)


def device_groups(line: str, count: int) -> list[list[int]]:
    pairs = re.search(r"source_target_pairs=\{((?:\{\d+,\d+\},?)*)\}", line)
    if pairs:
        return [[int(a), int(b)] for a, b in re.findall(r"\{(\d+),(\d+)\}", pairs[1])]
    listed = re.search(r"replica_groups=\{(\{[\d,{}]*\})\}", line)
    if listed:
        return [[int(n) for n in group.split(",")] for group in re.findall(r"\{([\d,]+)\}", listed[1])]
    grid = re.search(r"replica_groups=\[(\d+),(\d+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", line)
    if grid:
        dims = [int(n) for n in grid[3].split(",")]
        numbers = np.arange(math.prod(dims)).reshape(dims)
        if grid[4]:
            numbers = numbers.transpose([int(n) for n in grid[4].split(",")])
        return [[int(n) for n in row] for row in numbers.reshape(int(grid[1]), int(grid[2]))]
    named = re.search(r"replica_groups=mesh\[(.*?)\](?:, device_ids=\((.*?)\))? \{(.*?)\}", line)
    if named:
        sizes = {name: int(size) for name, size in re.findall(r"'(\w+)'=(\d+)", named[1])}
        inside = re.findall(r"'(\w+)'(?::\((\d+)\)(\d+))?", named[3])
        assert not any(part for _, part, _ in inside), f"parts of axes: {line}"
        numbers = np.arange(math.prod(sizes.values()))
        order = re.match(r"\[([\d,]+)\](?:T\(([\d,]+)\))?", named[2] or "")
        if order:
            numbers = numbers.reshape([int(n) for n in order[1].split(",")])
            numbers = numbers.transpose([int(n) for n in order[2].split(",")] if order[2] else None)
        numbers = numbers.reshape(tuple(sizes.values()))
        last = [list(sizes).index(name) for name, _, _ in inside]
        numbers = np.moveaxis(numbers, last, range(-len(last), 0))
        return [[int(n) for n in row] for row in numbers.reshape(-1, math.prod([sizes[n] for n, _, _ in inside]))]
    assert "replica_groups={}" in line or "replica_groups" not in line, line
    return [list(range(count))]
