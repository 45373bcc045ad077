"""The type of a program."""

from __future__ import annotations

from typing import final

from attrs import frozen
from typing_extensions import override

from tinyjax.ir.aval import ShapedArray


@final
@frozen(cache_hash=True)
class JaxprType:
    """The type of a program: the types of its inputs and of its outputs."""

    in_types: tuple[ShapedArray, ...]
    out_types: tuple[ShapedArray, ...]

    @override
    def __str__(self) -> str:
        ins, outs = (", ".join(map(str, types)) for types in (self.in_types, self.out_types))
        return f"({ins}) -> ({outs})"
