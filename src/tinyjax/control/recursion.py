"""Rules that refer to the function whose derivative they are.

The rule of a custom_jvp function usually applies that function again, to get the value. A program can't contain itself,
so it contains an `Enclosing` equation instead: "the primitive that this rule belongs to". Whoever needs the rule puts
the primitive in its place, one level at a time.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from pathlib import PurePath
from typing import ClassVar, Final, NoReturn, Protocol, TypeVar, final

import attrs
from attrs import frozen
from typing_extensions import override

from tinyjax.caching import BoundedCache, register, remembered
from tinyjax.contexts.around import Around
from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.errors import MissingRuleError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.effects import Effect, Effects
from tinyjax.ir.interpret import interpret
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Jaxpr
from tinyjax.ir.shapes import Axes
from tinyjax.ir.traverse import programs_of, record_values
from tinyjax.ir.varying import axes_of

V = TypeVar("V")


@frozen
class Case:
    """A rule for when only the tangents, or cotangents, marked in `given` aren't zero: it takes no others."""

    given: tuple[bool, ...]
    jaxpr: Jaxpr


CaseT = TypeVar("CaseT", bound=Case)


class Given(Protocol):
    """What is about a case."""

    @property
    def given(self) -> tuple[bool, ...]: ...


GivenT = TypeVar("GivenT", bound=Given)


@final
@frozen
class Refusal:
    """What a rule raised when it was asked about a case, before anyone needed it."""

    given: tuple[bool, ...]
    error: str


#: What rules raised, without tracebacks. A program has the text only: it may come from a file.
_RAISED: Final[BoundedCache[Refusal, Exception]] = BoundedCache(256, "exceptions of derivative rules")
register(_RAISED)


def refusal_of(given: tuple[bool, ...], error: Exception) -> Refusal:
    """An exception, as a value."""
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    at = f" ({PurePath(step.tb_frame.f_code.co_filename).name}:{step.tb_lineno})" if step else ""
    text = str(error).partition("\n")[0]
    refusal = Refusal(given, f"{type(error).__name__}{': ' if text else ''}{text}{at}")
    error.__cause__ = error.__context__ = None
    _RAISED.put(refusal, error.with_traceback(None))
    return refusal


def refusal_for(refusal: Refusal, given: tuple[bool, ...]) -> Refusal:
    """The same exception about another case."""
    found, raised = attrs.evolve(refusal, given=given), _RAISED.get(refusal)
    if raised is not None:
        _RAISED.put(found, raised)
    return found


def in_general(cases: Sequence[GivenT] | None) -> GivenT | None:
    """The one for the case where nothing is known to be zero: of rules, it serves the other cases too; of what a rule
    raised when it was asked, no other case can stand for that one."""
    return next((case for case in cases or () if all(case.given)), None)


def refuse(name: str, refusal: Refusal, about: str = "") -> NoReturn:
    """Raises what the rule of a function raised when the function was staged: if the program comes from a file, which
    has the text only, as a MissingRuleError. `about` says which case it was asked about."""
    raised = _RAISED.get(refusal)
    if raised is not None:
        with suppress(Exception):  # a user's class
            raised = copy(raised)
        raised.add_note(f"A derivative rule of {name!r} raised this{about or ' when it was staged'}")
        raise raised
    raise MissingRuleError(
        f"a derivative rule of {name!r} raised {refusal.error} when the function was staged{about or '.'}"
    )


def case_for(
    name: str, given: tuple[bool, ...], cases: Sequence[CaseT] | None, refused: Sequence[Refusal] | None
) -> CaseT | None:
    """The rule for this case, if cases are told apart. If the user's rule raised an exception when it was asked about
    this one, that is raised."""
    found = next((case for case in cases or () if case.given == given), None)
    general = in_general(refused)
    if found is None and general is not None and not cases:
        refuse(name, general)
    refusal = next((refusal for refusal in refused or () if refusal.given == given), general)
    if found is None and refusal is not None:
        zeros = ", ".join(str(i) for i, mark in enumerate(given) if not mark)
        refuse(
            name,
            refusal,
            f" when it was asked about the case that is needed now: {f'number {zeros} is' if zeros else 'none is'} a "
            f"SymbolicZero among the {len(given)} tangents or cotangents. Let the rule handle it.",
        )
    return found


@final
@frozen
class JvpCase(Case):
    """The rule of a custom_jvp function for a case. It returns the results, and those of their tangents that are marked
    in `nonzero_out`."""

    nonzero_out: tuple[bool, ...]


@final
@frozen
class Backward(Case):
    """A program from residuals and cotangents to cotangents, for a case."""


@final
@frozen
class VjpCase(Case):
    """The rules of a custom_vjp function for a case: `jaxpr` is `fwd`; `bwd` and `returned` as in `CustomVjp`, and more
    programs like `bwd`, for when some of the cotangents are known to be zero. Those that the rule refused are not
    there; if that is so of `bwd`, it is the sum of the others, which nobody runs."""

    bwd: Jaxpr
    returned: tuple[bool, ...]
    special: tuple[Backward, ...]
    refused: tuple[Refusal, ...] | None = None


@frozen
class WithRules(Primitive):
    """A primitive some of whose programs are rules, in which `Enclosing` may stand for the primitive itself."""

    @property
    @abstractmethod
    def rules(self) -> Mapping[str, Jaxpr]:
        """These programs, by the names of their fields."""

    @property
    def cases(self) -> tuple[Jaxpr, ...]:
        """More rules, for when some tangents are known to be zero: the programs in the field `special`."""
        return ()

    @property
    def captured(self) -> int:
        """How many of the first operands of the primitive, and inputs of its rules, are values they close over."""
        return 0


@final
@frozen
class Recursion(Effect):
    """The equation refers to a primitive whose rule it is a part of: see `Enclosing.level`."""

    level: int
    droppable: ClassVar[bool] = True


@final
@frozen
class Enclosing(Primitive):
    """Stands, within a rule, for a primitive that this rule is a part of: for the innermost one with level 0, for the
    next one with level 1, and so on. It takes the same operands."""

    function_name: str
    level: int
    out_avals: tuple[ShapedArray, ...]
    name: ClassVar[str] = "enclosing"

    @property
    @override
    def effects(self) -> Effects:
        return frozenset({Recursion(self.level)})

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return self.out_avals

    @override
    def varying(self, found: Sequence[Axes], types: Sequence[ShapedArray]) -> tuple[Sequence[Axes], Sequence[Axes]]:
        return found, axes_of(types)


def is_open(effects: Effects) -> bool:
    """Whether a program with these effects refers to primitives outside of it."""
    return any(isinstance(effect, Recursion) for effect in effects)


def outside_of_rule(effects: Effects) -> Effects:
    """What the references in a rule mean for the primitive that it belongs to."""
    return frozenset(Recursion(e.level - 1) for e in effects if isinstance(e, Recursion) and e.level > 0)


def refers_to_itself(primitive: Primitive) -> bool:
    """Whether a rule of a primitive refers to the primitive."""
    rules = (*primitive.rules.values(), *primitive.cases) if isinstance(primitive, WithRules) else ()
    return any(Recursion(0) in rule.effects for rule in rules)


@remembered
def closed_rule(primitive: WithRules, rule: Jaxpr) -> Jaxpr:
    """A rule of a primitive, with the primitive in the place of the references to it."""
    return _close(rule, primitive, 0)


def _close(jaxpr: Jaxpr, primitive: Primitive, level: int) -> Jaxpr:
    if Recursion(level) not in jaxpr.effects:
        return jaxpr
    return stage(jaxpr.in_avals, lambda ctx, ins: interpret(_Closing(ctx, primitive, level), jaxpr, ins))


@final
class _Closing(Around[Atom]):
    """Staging, but with a primitive in the place of the references to it."""

    __slots__ = ("_level", "_primitive")

    def __init__(self, parent: StagingContext, primitive: Primitive, level: int) -> None:
        super().__init__(parent)
        self._primitive = primitive
        self._level = level

    @override
    def bind(self, primitive: Primitive, *args: Atom) -> tuple[Atom, ...]:
        if Recursion(self._level) not in primitive.effects:
            return self.inner.bind(primitive, *args)
        if isinstance(primitive, Enclosing):
            return self.inner.bind(self._primitive, *args)
        return self.inner.bind(self._within(primitive, self._level), *args)

    def _within(self, record: Primitive, level: int) -> Primitive:
        """The primitive with references in its programs replaced; in its rules, they are one level further out."""
        rules = {*record.rules, "special"} if isinstance(record, WithRules) else set()
        changed = {
            name: self._replaced(value, level + (name in rules))
            for name, value in record_values(record)
            if any(programs_of(value))
        }
        return attrs.evolve(record, **changed)

    def _replaced(self, value: object, level: int) -> object:
        if isinstance(value, Jaxpr):
            return _close(value, self._primitive, level)
        if isinstance(value, Primitive):
            return self._within(value, level)
        if isinstance(value, Case):
            replaced = {name: self._replaced(item, level) for name, item in record_values(value)}
            make: Callable[..., Case] = type(value)
            return make(**replaced)
        if isinstance(value, tuple):
            return tuple(self._replaced(item, level) for item in value)
        return value
