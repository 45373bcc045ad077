"""What is wrong with a primitive and its operands, where one of its rules failed by an error of Python's or NumPy's.

Making a primitive checks only that its parameters are values, and rules rely on what `type_of` refuses. So the places
that call rules ask here before they pass on an error that isn't ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from inspect import signature
from typing import Final, NoReturn

from tinyjax.errors import MissingRuleError, ParameterError, TinyjaxError, TypingError, UnsupportedError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.declared import refuse_misfits
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.result_types import unspread

#: So much of one parameter is shown.
_WIDTH: Final = 80


def refuse_mistakes(error: Exception, primitive: Primitive, avals: Iterable[ShapedArray]) -> None:
    """Raises what is wrong with a primitive or with the types that it is applied to, if anything is. Errors of ours
    say it already, unless they say that there is no such rule."""
    if not isinstance(error, TinyjaxError) or isinstance(error, UnsupportedError | MissingRuleError):
        refuse_misfits(primitive)
        with suppress(MissingRuleError):
            _ = unspread(primitive, tuple(avals))


def refuse_untyped(error: Exception, primitive: Primitive, avals: Sequence[ShapedArray]) -> NoReturn:
    """Raises what is wrong where `type_of` failed. Those of the library's own primitives fail by parameters, or by the
    number of operands; what another one raises is left alone."""
    refuse_misfits(primitive)
    if not primitive.built_in:
        raise error
    operands = ", ".join(map(str, avals))
    try:
        _ = signature(primitive.type_of).bind(*avals)
    except TypeError as wrong:
        raise TypingError(
            f"the primitive {primitive.name!r} was applied to {len(avals)} operands, ({operands}), but takes another "
            f"number: {wrong}"
        ) from error
    shown = ", ".join(f"{name}={repr(value)[:_WIDTH]}" for name, value in primitive.params.items())
    raise ParameterError(
        f"the primitive {primitive.name!r} doesn't take ({operands})" + (f" with {shown}" if shown else "")
    ) from error
