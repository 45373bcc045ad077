"""The type of a program."""

from __future__ import annotations

from typing import final

from attrs import frozen
from typing_extensions import override

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.type_lists import listed


@final
@frozen(cache_hash=True)
class JaxprType:
    """The type of a program: the types of its inputs and of its outputs."""

    in_types: tuple[ShapedArray, ...]
    out_types: tuple[ShapedArray, ...]

    @override
    def __str__(self) -> str:
        return f"{listed(self.in_types)} -> {listed(self.out_types)}"
