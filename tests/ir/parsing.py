"""What the tests of the parser share."""

from __future__ import annotations

from typing import Final

import pytest

from tests.ir.examples import Apply, Assorted, Choose, Custom, Emit, Flags, Mode, Rules, Window
from tinyjax import ir
from tinyjax.ir import ClosedJaxpr, Jaxpr, ParseError, Registry

#: The library's classes and those of the examples.
EXAMPLES: Final = ir.STANDARD.extended(Apply, Assorted, Choose, Custom, Emit, Flags, Mode, Rules, Window)


def check_round_trip(program: Jaxpr | ClosedJaxpr, registry: Registry = ir.STANDARD) -> None:
    """Its text, read back, is the program itself, with the same hash; and valid."""
    jaxpr = program.jaxpr if isinstance(program, ClosedJaxpr) else program
    back = ir.parse(str(program), registry)
    assert back == jaxpr
    assert hash(back) == hash(jaxpr)
    assert str(back) == str(jaxpr)
    ir.typecheck(back)
    if isinstance(program, ClosedJaxpr):
        closed = ir.parse_closed(ir.format_closed(program), registry)
        assert closed == program
        assert ir.parse_closed(str(program), registry, consts=program.consts) == program


def refusal(text: str, registry: Registry = EXAMPLES) -> ParseError:
    """The error for a text."""
    with pytest.raises(ParseError) as caught:
        ir.parse(text, registry)
    return caught.value
