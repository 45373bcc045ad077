"""What functions take that aren't told otherwise, where a block says so."""

from __future__ import annotations

from typing import Final, final

from attrs import frozen

from tinyjax.ir.dtypes import DType
from tinyjax.primitives.contractions import DotPrecision


@final
@frozen
class Defaults:
    """How products are computed that don't say so themselves, and the dtype of keys that are made of integers or of
    words; None: as outside of all blocks."""

    precision: DotPrecision = None
    keys: DType | None = None


#: As outside of all blocks.
PLAIN: Final = Defaults()
