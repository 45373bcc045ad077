"""A rule that has been applied, and how a breach of its contract is told."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn, SupportsIndex, TypeVar, final

import numpy as np
from attrs import frozen

from tinyjax.errors import ContractError, MissingRuleError, TinyjaxError, TypingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.primitive import Primitive, UndefPrimal, Zero
from tinyjax.ir.result_types import result_types
from tinyjax.ir.source import is_internal
from tinyjax.ir.type_lists import listed

if TYPE_CHECKING:
    from tinyjax.ir.context import Context

V = TypeVar("V")


@final
@frozen
class AppliedRule:
    """A rule of a primitive, applied to operands of these types. `how` says more of that.

    The rule is the method of this name, or a `function` in a table, of which `name` is the entry.
    """

    primitive: Primitive
    name: str
    avals: tuple[ShapedArray, ...]
    how: str = ""
    function: object = None

    def fail(self, came: str, expected: str) -> NoReturn:
        if self.function is None:
            where = place(getattr(type(self.primitive), self.name, None))
            what = f"`{self.name}` of the primitive {self.primitive.name!r}{where}"
        else:
            what = f"the rule `{self.name}`{place(self.function)} for the primitive {self.primitive.name!r}"
        raise ContractError(f"{what} {came}; expected {expected}. The operands are {listed(self.avals)}{self.how}.")

    def types(self) -> tuple[ShapedArray, ...] | None:
        """What `type_of` says of the operands; None if the primitive doesn't have it."""
        try:
            return result_types(self.primitive, self.avals)
        except MissingRuleError:
            return None

    def explain(self, error: Exception) -> None:
        """Says of an exception which rule it came from; a TypingError if the rule was given a wrong number."""
        where = place(type(self.primitive).type_of)
        if isinstance(error, TypeError):
            try:
                inspect.signature(self.primitive.type_of).bind(*self.avals)
            except TypeError:
                raise TypingError(
                    f"the primitive {self.primitive.name!r} was applied to {len(self.avals)} operands, "
                    f"{listed(self.avals)}, but its `type_of`{where} takes another number: {error}"
                ) from None
        error.add_note(
            f"This came from `{self.name}` of the primitive {self.primitive.name!r}{where}, for operands "
            f"{listed(self.avals)}. To refuse operands, raise tinyjax.errors.TypingError with a reason."
        )

    def pair(self, found: object, of: str) -> tuple[object, object]:
        if not isinstance(found, tuple | list) or len(found) != 2:
            self.fail(f"returned {shown(found)}", f"a pair: {of}")
        return found[0], found[1]

    def sequence(self, found: object, of: str, spelled: str = "") -> Sequence[V]:
        if not isinstance(found, Sequence) or isinstance(found, str | bytes):
            self.fail(f"returned {shown(found)} for {of}", f"a sequence of them{spelled and f', such as {spelled}'}")
        return found

    def count(
        self, found: Sequence[object], expected: Sequence[object] | None, of: str = "outputs", meaning: str = ""
    ) -> None:
        if expected is not None and len(found) != len(expected):
            self.fail(f"returned {len(found)} {of}", f"{len(expected)}{f', {meaning}' if meaning else ''}")

    def expect(self, what: str, found: ShapedArray, expected: ShapedArray) -> None:
        if not found.matches(expected):
            self.fail(f"returned {what}, of type {found}", str(expected))

    def aval(self, ctx: Context[V], what: str, value: V) -> ShapedArray:
        """The type of a value of the context."""
        found: object = None
        if not isinstance(value, Zero | UndefPrimal) and value is not None and ctx.holds(value):
            try:
                found = ctx.aval(value)
            except (AttributeError, TypeError, ValueError, LookupError):
                found = None
        if not isinstance(found, ShapedArray):
            self.fail(f"returned {shown(value)} as {what}", "a value of the context, such as `ctx.bind` returns")
        return found

    def place(self, i: int, found: object, aval: ShapedArray) -> int | None:
        """The position of the mapped axis in an output."""
        if found is None:
            return None
        if not isinstance(found, SupportsIndex):
            self.fail(f"returned {shown(found)} as the position of the mapped axis in output {i}", "an int, or None")
        at = operator.index(found)
        if not 0 <= at < aval.ndim:
            self.fail(
                f"returned {at} as the position of the mapped axis in output {i}, {aval}",
                f"a position from 0 to {aval.ndim - 1}, or None if it isn't mapped" if aval.ndim else "None",
            )
        return at

    def array(self, i: int, found: object) -> HostArray:
        """An output of `evaluate` as an array."""
        if not isinstance(found, np.ndarray | bool | int | float | complex) and not hasattr(found, "__array__"):
            self.fail(f"returned {shown(found)} as output {i}", "a NumPy array")
        return np.asarray(found)

    def match(self, i: int, found: HostArray, expected: ShapedArray) -> None:
        if found.shape != expected.shape or found.dtype != expected.dtype:
            came = f"returned an array of shape {found.shape} and dtype {found.dtype} as output {i}"
            self.fail(came, f"{expected}, as `type_of` says")

    def of_part(self, name: str, part: Primitive, avals: Sequence[ShapedArray]) -> Sequence[ShapedArray]:
        """The types that a part of a Split returns."""
        with self._applying(name, avals):
            return result_types(part, avals)

    @contextmanager
    def _applying(self, name: str, avals: Sequence[ShapedArray]) -> Iterator[None]:
        try:
            yield
        except (ContractError, MissingRuleError):
            raise
        except (TinyjaxError, TypeError, ValueError, LookupError) as error:
            self.fail(f"gave as `{name}` what doesn't accept {listed(avals)} ({error})", "a primitive that does")


def place(rule: object) -> str:
    """Where a user wrote a function, to be put behind its name; nothing for the library's own."""
    code = getattr(inspect.unwrap(rule) if callable(rule) else rule, "__code__", None)
    return "" if code is None or is_internal(code) else f" ({code.co_filename}:{code.co_firstlineno})"


def shown(found: object) -> str:
    """What something is, briefly."""
    if found is None:
        return "None"
    if isinstance(found, np.ndarray):
        return f"a NumPy array of shape {found.shape} and dtype {found.dtype}"
    if isinstance(found, bool | int | float | complex | str):
        return f"{found!r}, a Python {type(found).__name__}"
    if isinstance(found, Sequence):
        return f"a {type(found).__name__} of {len(found)} entries"
    aval = getattr(found, "aval", None)
    of = f" of type {aval}" if isinstance(aval, ShapedArray) else ""
    name = type(found).__name__
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}{of}"
