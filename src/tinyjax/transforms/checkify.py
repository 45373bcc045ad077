"""Checks as results: a program that may fail becomes one that returns what is wrong.

{ lambda ; a:f64[] b:i32[]. let check[failures=(check('negative'),)] b; c:f64[] = sqrt a in (c,) }
{ lambda ; a:f64[] b:i32[]. let c:f64[] = sqrt a in (c, b) }

What is added to the results is the number of the first failure, 0 if there is none, and what the messages show.
Programs within programs are transformed on their own, and what they return is joined to what was found before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Generic, TypeAlias, TypeVar, final, overload

from attrs import frozen
from typing_extensions import override

from tinyjax.caching import remembered
from tinyjax.contexts.devices import single_equation
from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.errors import InputError
from tinyjax.ir import contracts
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import INEXACT, INT32
from tinyjax.ir.holding import AnyProgram, HoldsProgram, as_closed
from tinyjax.ir.interpret import interpret
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.printing.shown import Record
from tinyjax.ir.program import Atom, ClosedJaxpr, Jaxpr, Literal
from tinyjax.ir.rules import RuleTable
from tinyjax.ir.source import SourceCursor
from tinyjax.ir.value import ConcreteValue
from tinyjax.ir.verify import verify
from tinyjax.primitives.checks import NUMBER, Check, CheckEffect, FailedCheck, Failure, Mapped, slots
from tinyjax.primitives.comparison import eq
from tinyjax.primitives.conversion import convert, stop_gradient
from tinyjax.primitives.elementwise import add
from tinyjax.primitives.selection import select
from tinyjax.primitives.structure import constant_like, full
from tinyjax.transforms.forms import Form

V = TypeVar("V")

#: Kinds of failures that are looked for.
Kinds: TypeAlias = frozenset[type[Failure]]
#: The number of a failure, then what the messages show: None, where no message that may be meant shows it.
Found: TypeAlias = Sequence[Atom | None]


@final
@frozen(repr=False)
class Checked(Record, Generic[Form]):
    """A program that returns, after its results, the number of the first failure, and what the messages of `failures`
    show. Without failures it returns its results only."""

    jaxpr: Form
    failures: tuple[Failure, ...]


@overload
def checkify(program: Jaxpr, kinds: Iterable[type[Failure]] = ...) -> Checked[Jaxpr]: ...
@overload
def checkify(program: ClosedJaxpr | HoldsProgram, kinds: Iterable[type[Failure]] = ...) -> Checked[ClosedJaxpr]: ...
def checkify(
    program: AnyProgram, kinds: Iterable[type[Failure]] = (FailedCheck,)
) -> Checked[Jaxpr] | Checked[ClosedJaxpr]:
    """The program with what is wrong as further results, and without checks of its own.

    { lambda ; a:f64[] b:i32[]. let check[failures=(check('negative'),)] b; c:f64[] = sqrt a in (c,) }
    { lambda ; a:f64[] b:i32[]. let c:f64[] = sqrt a in (c, b) }

    `kinds` says what is looked for: conditions of the user's (`FailedCheck`), and what is checked wherever it may
    happen, `NanResult`, `DivisionByZero` and `OutOfBounds`. The results stay as they are, whatever is wrong.

    >>> import tinyjax as tj
    >>> from tinyjax.primitives.checks import DivisionByZero
    >>> checked = checkify(tj.make_jaxpr(lambda x, y: x / y)(1.0, 2.0), [DivisionByZero])
    >>> print(*checked.failures, *tj.eval_jaxpr(checked.jaxpr, (), 1.0, 0.0))
    division_by_zero inf 1
    """
    chosen = _chosen(kinds)
    if not isinstance(program, Jaxpr):
        closed = as_closed(program, "checkify")
        verify(closed)
        found = checked(closed.jaxpr, chosen)
        return Checked(ClosedJaxpr(found.jaxpr.named_like(closed.jaxpr), closed.consts), found.failures)
    verify(program)
    found = checked(program, chosen)
    return Checked(found.jaxpr.named_like(program), found.failures)


def _chosen(kinds: object) -> Kinds:
    listed = list(kinds) if isinstance(kinds, Iterable) else [kinds]
    found = [kind for kind in listed if isinstance(kind, type) and issubclass(kind, Failure)]
    if len(found) < len(listed):
        raise InputError(f"checkify: kinds are classes of failures, not {kinds!r}")
    return frozenset(found)


@remembered
def checked(jaxpr: Jaxpr, kinds: Kinds) -> Checked[Jaxpr]:
    """The same, for a program that typechecks."""
    if kinds <= {FailedCheck} and CheckEffect() not in jaxpr.effects:
        return Checked(jaxpr, ())
    failures: tuple[Failure, ...] = ()

    def run(parent: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        nonlocal failures
        ctx = CheckContext(parent, kinds)
        outs = interpret(ctx, jaxpr, ins)
        failures = tuple(ctx.failures)
        return [*outs, *results(parent, ctx.found, failures)]

    program = stage(jaxpr.in_avals, run)
    return Checked(program if failures or CheckEffect() in jaxpr.effects else jaxpr, failures)


#: Where the classes are for which `added_checks` has rules.
_ROOMS: Final[Mapping[str, Sequence[str]]] = {
    f"tinyjax.primitives.{module}": ("tinyjax.transforms.added_checks",)
    for module in (
        *("arithmetic", "collectives", "contractions", "cumulative", "dynamic", "elementwise", "fourier", "gather"),
        *("incomplete", "matrices", "reduce_window", "reductions", "scatter", "structure"),
    )
}
#: What checks a primitive, and applies it, on the context's parent. Without a rule there is nothing to check.
CHECKING: Final[RuleTable[[CheckContext, Sequence[Atom]], Sequence[Atom]]] = RuleTable(
    "Checking", name="tinyjax.transforms.CHECKING", rooms=_ROOMS
)


@final
class CheckContext(Context[Atom]):
    """Stages equations, and notes what may be wrong: `failures`, and which of them was `found` first."""

    __slots__ = ("cursor", "failures", "found", "kinds", "parent")

    def __init__(self, parent: StagingContext, kinds: Kinds) -> None:
        self.parent: Final = parent
        self.cursor: SourceCursor = parent.cursor
        self.kinds: Final = kinds
        self.failures: list[Failure] = []
        self.found: Found = ()

    @override
    def bind(self, primitive: Primitive, *args: Atom) -> tuple[Atom, ...]:
        rule = CHECKING.find(type(primitive))
        if rule is not None:
            return tuple(rule(primitive, self, args))
        if CheckEffect() in primitive.effects:
            outs = contracts.expand(primitive, self, args)
            if outs is None:
                raise CHECKING.missing_rule(type(primitive))
            return tuple(outs)
        return self.parent.bind(primitive, *args)

    @override
    def constant(self, value: ConcreteValue | Literal) -> Atom:
        return self.parent.constant(value)

    @override
    def aval(self, value: Atom) -> ShapedArray:
        return value.aval

    @override
    def holds(self, value: object) -> bool:
        return self.parent.holds(value)

    def within(self, jaxpr: Jaxpr) -> Checked[Jaxpr]:
        """A program within this one, with what is wrong there among its results."""
        return checked(jaxpr, self.kinds)

    def fail(self, wrong: Atom, failure: Failure, shown: Sequence[Atom] = ()) -> None:
        """Notes something that is wrong where the scalar `wrong` is true."""
        self.note((failure,), [convert(self.parent, wrong, INT32), *shown])

    def note(self, failures: Sequence[Failure], found: Found) -> None:
        """Notes what was found of these failures."""
        before = tuple(self.failures)
        self.failures += failures
        after = renumbered(self.parent, failures, found, self.failures, len(before))
        if before:
            after = first_of(self.parent, renumbered(self.parent, before, self.found, self.failures, 0), after)
        self.found = [x if x is None or x.aval.dtype not in INEXACT else stop_gradient(self.parent, x) for x in after]

    def absorb(self, outs: Sequence[Atom], failures: Sequence[Failure]) -> Sequence[Atom]:
        """The results of a program that `within` made, without what it returned of failures, which is noted."""
        if not failures:
            return outs
        n = len(outs) - num_found(failures)
        self.note(failures, outs[n:])
        return outs[:n]


def found_types(failures: Sequence[Failure]) -> list[ShapedArray]:
    """The types of a number, and of what the messages show."""
    return [NUMBER, *(aval for types in slots(failures) for aval in types)]


def num_found(failures: Sequence[Failure]) -> int:
    return len(found_types(failures)) if failures else 0


def renumbered(
    ctx: StagingContext, failures: Sequence[Failure], found: Found, among: Sequence[Failure], offset: int
) -> Found:
    """What was found, as a number among other failures, of which these begin at `offset`."""
    number, *shown = found
    assert number is not None
    if offset:
        zero = eq(ctx, number, constant_like(ctx, number, 0))
        number = select(ctx, zero, number, add(ctx, number, constant_like(ctx, number, offset)))
    rest = iter(shown)
    given = {types: [next(rest) for _ in types] for types in slots(failures)}
    return [number, *(x for types in slots(among) for x in given.get(types, [None] * len(types)))]


def first_of(ctx: StagingContext, first: Found, second: Found) -> Found:
    """What was found first, both being numbers among the same failures."""
    assert first[0] is not None
    none = eq(ctx, first[0], constant_like(ctx, first[0], 0))
    return [x if y is None else y if x is None else select(ctx, none, y, x) for x, y in zip(first, second, strict=True)]


def results(ctx: StagingContext, found: Found, failures: Sequence[Failure]) -> list[Atom]:
    """What was found as results of a program, each of which is there."""
    if not failures:
        return []
    return [full(ctx, aval, 0) if x is None else x for x, aval in zip(found, found_types(failures), strict=True)]


@CHECKING.register(Check)
def _check(primitive: Check, ctx: CheckContext, args: Sequence[Atom]) -> Sequence[Atom]:
    """What the user checks is where it is written, unless it is an error that comes from somewhere else."""
    number, *shown = args
    for i, failure in enumerate(primitive.failures, 1):
        if not looked_for(failure, ctx.kinds):
            is_it = eq(ctx.parent, number, constant_like(ctx.parent, number, i))
            number = select(ctx.parent, is_it, constant_like(ctx.parent, number, 0), number)
    if any(looked_for(failure, ctx.kinds) for failure in primitive.failures):
        source = ctx.cursor.source
        ctx.note([failure.at(source) for failure in primitive.failures], [number, *shown])
    return []


def looked_for(failure: Failure, kinds: Kinds) -> bool:
    """Whether a failure that the user reports is to be noted: what was found elsewhere is his to report, too."""
    if FailedCheck in kinds:
        return True
    return (
        any(looked_for(one, kinds) for one in failure.failures)
        if isinstance(failure, Mapped)
        else type(failure) in kinds
    )


def noted_after(ctx: Context[V], primitive: Primitive, args: Sequence[V]) -> Sequence[V]:
    """Applies a primitive that holds programs, whose checks come after it: for a context in which more of it is run
    than counts, as it is for a batch."""
    part = checked(single_equation(primitive, tuple(map(ctx.aval, args))), frozenset([FailedCheck]))
    outs = interpret(ctx, part.jaxpr, args)
    n = len(outs) - num_found(part.failures)
    if part.failures:
        ctx.bind(Check(part.failures), *outs[n:])
    return outs[:n]
