"""What XLA's errors become."""

from __future__ import annotations

from typing import Final

from tinyjax.errors import AllocationError, XlaError

#: How XLA says that there isn't memory.
_EXHAUSTED: Final = "RESOURCE_EXHAUSTED"


def refusal(said: str, error: BaseException) -> XlaError:
    """The error for what XLA has refused: an AllocationError for want of memory."""
    if _EXHAUSTED in str(error):
        return AllocationError(f"{said}\nThere isn't memory for it: check the sizes of its arguments and results.")
    return XlaError(said)
