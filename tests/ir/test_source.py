"""Where in the user's code an equation came from."""

from __future__ import annotations

import inspect

from tests.ir.examples import F64
from tinyjax.contexts.staging import StagingContext
from tinyjax.ir import Eqn, SourceInfo
from tinyjax.ir.source import SourceCursor, is_internal, user_frame, user_source
from tinyjax.primitives import elementwise
from tinyjax.primitives.elementwise import neg


def here() -> int:
    """The line of the caller."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def test_the_line_that_is_being_run() -> None:
    source, line = user_source(), here()
    assert source == SourceInfo(__file__, line, "test_the_line_that_is_being_run")
    assert str(source) == f"{__file__}:{line} (test_the_line_that_is_being_run)"


def test_the_frames_of_the_library_are_skipped() -> None:
    assert is_internal(elementwise.neg.__code__)
    assert not is_internal(here.__code__)
    frame = user_frame()
    assert frame is not None
    assert frame.f_code.co_name == "test_the_frames_of_the_library_are_skipped"


def test_equations_know_the_line_that_made_them() -> None:
    ctx = StagingContext()
    x = ctx.argument(F64)
    y, first = neg(ctx, x), here()
    z, second = neg(ctx, y), here()
    eqns = ctx.finish([z]).jaxpr.eqns
    assert [eqn.source and eqn.source.line for eqn in eqns] == [first, second]
    assert {eqn.source and eqn.source.file for eqn in eqns} == {__file__}


def test_a_cursor_decides_if_it_is_set() -> None:
    ctx = StagingContext()
    elsewhere = SourceInfo("model.py", 3, "f")
    ctx.cursor.source = elsewhere
    y = neg(ctx, ctx.argument(F64))
    (eqn,) = ctx.finish([y]).jaxpr.eqns
    assert isinstance(eqn, Eqn)
    assert eqn.source == elsewhere


def test_a_line_is_looked_up_once() -> None:
    cursor = SourceCursor()
    found = [cursor.current() for _ in range(3)]
    assert found[0] is found[1] is found[2]
    assert found[0] is not None
    assert found[0].function.startswith("test_a_line_is_looked_up_once")
