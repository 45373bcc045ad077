"""The part of opt_einsum that tinyjax uses. The package has no types of its own that mypy would read."""

from collections.abc import Sequence
from typing import Literal

from opt_einsum.contract import PathInfo

def contract_path(
    subscripts: str,
    *operands: tuple[int, ...],
    optimize: bool | str | Sequence[tuple[int, ...]] = True,
    shapes: Literal[True],
) -> tuple[list[tuple[int, ...]], PathInfo]: ...
