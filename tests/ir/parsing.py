"""What the tests of the parser share."""

from __future__ import annotations

from typing import Final

import pytest

from tests.ir.examples import Apply, Assorted, Choose, Custom, Emit, Flags, Mode, Rules, Window
from tinyjax import ir
from tinyjax.ir import ParseError, Registry

#: The library's classes and those of the examples.
EXAMPLES: Final = ir.STANDARD.extended(Apply, Assorted, Choose, Custom, Emit, Flags, Mode, Rules, Window)


def refusal(text: str, registry: Registry = EXAMPLES) -> ParseError:
    """The error for a text."""
    with pytest.raises(ParseError) as caught:
        ir.parse(text, registry)
    return caught.value
