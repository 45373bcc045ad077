"""Passes one after the other, and what each of them changed."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, final

from attrs import field, frozen
from typing_extensions import override

from tinyjax.collecting import collecting_seldom
from tinyjax.errors import InputError, TinyjaxError, VerificationError
from tinyjax.ir.holding import AnyProgram, ProgramT, as_closed, as_jaxpr, changed
from tinyjax.ir.printing.shown import Shown
from tinyjax.ir.program import ClosedJaxpr, Jaxpr
from tinyjax.ir.program_type import JaxprType
from tinyjax.ir.traverse import nested_programs
from tinyjax.ir.typecheck import typecheck
from tinyjax.ir.verify import verify
from tinyjax.transforms.arguments import function
from tinyjax.transforms.cse import cse
from tinyjax.transforms.dce import dce
from tinyjax.transforms.fold_constants import fold_constants
from tinyjax.transforms.hoist_constants import hoist_constants
from tinyjax.transforms.inline import inline, once_or_small
from tinyjax.transforms.simplify import simplify

if TYPE_CHECKING:
    from tinyjax.ir.printing.display import Block

Counts: TypeAlias = tuple[tuple[str, int], ...]


@final
@frozen(repr=False)
class Pass:
    """A pass with a name. It keeps the types of inputs and outputs.

    `closed` is for passes that make something of the constants of a closed program; others work on its jaxpr.
    """

    name: str
    jaxpr: Callable[[Jaxpr], Jaxpr]
    closed: Callable[[ClosedJaxpr], ClosedJaxpr] | None = None

    def __call__(self, program: ProgramT) -> ProgramT:
        function(f"the pass {self.name!r}", self.jaxpr)
        return changed(program, self.name, self.jaxpr, self.closed)

    @override
    def __repr__(self) -> str:
        return f"<pass {self.name}>"


@final
@frozen(repr=False)
class PassReport(Shown):
    """What a pass did to a program: how many equations of each primitive there were, and are.

    Equations of programs within the program count once for each distinct program. `changed` may be true although the
    counts are the same.
    """

    name: str
    before: Counts
    after: Counts
    changed: bool

    @property
    def size_before(self) -> int:
        """The number of equations before the pass."""
        return sum(count for _, count in self.before)

    @property
    def size_after(self) -> int:
        """The number of equations after the pass."""
        return sum(count for _, count in self.after)

    @property
    def differences(self) -> Counts:
        """By how many the equations of each primitive have become more (or fewer: negative)."""
        before, after = dict(self.before), dict(self.after)
        names = sorted(before.keys() | after.keys())
        found = [(name, after.get(name, 0) - before.get(name, 0)) for name in names]
        return tuple((name, difference) for name, difference in found if difference)

    @override
    def __str__(self) -> str:
        if not self.changed:
            return f"{self.name}: nothing"
        shown = self._spelled
        return f"{self.name}: {self.size_before} -> {self.size_after} equations" + (f" ({shown})" if shown else "")

    @property
    def _spelled(self) -> str:
        return ", ".join(f"{difference:+d} {name}" for name, difference in self.differences)

    @property
    def row(self) -> tuple[str, str, str, str]:
        """The pass, the equations before and after it, and what became more or fewer: a row of a table."""
        shown = (self._spelled or "others of the same primitives") if self.changed else "nothing"
        return self.name, f"{self.size_before}", f"{self.size_after}", shown

    @override
    def _blocks(self) -> Iterator[Block]:
        return _reports([self])


@final
class PassReports(Shown, tuple[PassReport, ...]):
    """What passes did, one after the other, shown as a table."""

    __slots__ = ()

    @override
    def _blocks(self) -> Iterator[Block]:
        return _reports(self)


def _reports(reports: Iterable[PassReport]) -> Iterator[Block]:
    from tinyjax.ir.printing.display import table

    return table(("pass", "before", "after", "what changed"), [report.row for report in reports])


def count_primitives(program: AnyProgram) -> Counts:
    """How many equations apply each primitive, by its name, also within the programs in a program, each once."""
    closed = as_closed(program, "count_primitives")
    verify(closed)
    return _counts(closed.jaxpr)


def _counts(jaxpr: Jaxpr) -> Counts:
    counts: Counter[str] = Counter()
    for nested in nested_programs(jaxpr):
        counts.update([eqn.primitive.name for eqn in nested.eqns])
    return tuple(sorted(counts.items()))


#: Also the constants of closed programs are known to, dropped by, or found by these.
_BUILT_IN: Final = (
    Pass("dce", dce, dce),
    Pass("fold_constants", fold_constants, fold_constants),
    Pass("hoist_constants", hoist_constants, hoist_constants),
)
AnyPass: TypeAlias = "Pass | Callable[[Jaxpr], Jaxpr] | tuple[str, Callable[[Jaxpr], Jaxpr]]"


def as_pass(given: AnyPass) -> Pass:
    """A pass with a name: that of the function, unless there is another one."""
    if isinstance(given, Pass):
        return given
    item: object = given
    pair = isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str) and callable(item[1])
    if not (pair or callable(item)):
        raise InputError(f"a pass is a function from programs to programs, maybe in a pair with a name, got {given!r}")
    if isinstance(given, tuple):
        return Pass(*given)
    for known in _BUILT_IN:
        if known.jaxpr in (given, getattr(given, "__wrapped__", None)):
            return known
    inner: object = given
    while isinstance(inner, partial):
        inner = inner.func
    return Pass(getattr(inner, "__name__", type(inner).__name__), given)


def _as_passes(given: Iterable[AnyPass]) -> tuple[Pass, ...]:
    if not isinstance(given, Iterable):
        raise InputError(f"a Pipeline takes a tuple or list of passes, not {given!r}")
    return tuple(map(as_pass, given))


@final
@frozen(repr=False)
class Pipeline(Shown):
    """Passes, to be run one after the other. A pipeline is itself a function from programs to programs.

    A pass is a function from a Jaxpr to a Jaxpr, maybe in a pair with a name; or a `Pass`.

    >>> from tinyjax.transforms import cse, dce
    >>> Pipeline([cse, dce]).names
    ('cse', 'dce')
    """

    passes: tuple[Pass, ...] = field(converter=_as_passes)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.passes)

    @override
    def _blocks(self) -> Iterator[Block]:
        from tinyjax.ir.printing.display import Note, table

        rows = [(f"{i}", each.name, _summary(each)) for i, each in enumerate(self.passes, 1)]
        yield from table(("", "pass", "what it does"), rows) if rows else (Note("a pipeline without passes"),)

    def __call__(self, program: ProgramT) -> ProgramT:
        for each in self.passes:
            program = each(program)
        return program

    def steps(self, program: ProgramT) -> Iterator[tuple[PassReport, ProgramT]]:
        """After each pass, what it did, and the program."""
        before = _counts(as_jaxpr(program, "a pipeline"))
        for each in self.passes:
            result = each(program)
            after = before if result is program else _counts(as_jaxpr(result, each.name))
            yield PassReport(each.name, before, after, result != program), result
            program, before = result, after

    @collecting_seldom
    def report(
        self, program: ProgramT, *, show: Callable[[str], object] | None = None, check: bool = False
    ) -> tuple[ProgramT, tuple[PassReport, ...]]:
        """The program after all passes, and what each of them did.

        `show`, say `print`, gets the program as it is given, and after each pass that changes it. With `check`, the
        verifier looks at each result that is another program, and an error says after which pass it is.
        """
        if show is not None:
            show(f"{program}\n")
        reports: list[PassReport] = []
        type_before = typecheck(as_closed(program, "report")) if check else None
        for report, result in self.steps(program):
            reports.append(report)
            if check and result is not program:
                _check(report.name, result, type_before)
            if show is not None:
                show(f"after {report}\n{result}\n" if report.changed else f"after {report}\n")
            program = result
        return program, PassReports(reports)


def _summary(each: Pass) -> str:
    """The first sentence of what is said of a pass where it is defined."""
    said = " ".join((inspect.getdoc(each.jaxpr) or "").partition("\n\n")[0].split())
    return said.partition(". ")[0].rstrip(".")


def _check(name: str, result: AnyProgram, type_before: JaxprType | None) -> None:
    try:
        found = typecheck(as_closed(result, name))
    except TinyjaxError as error:
        error.add_note(f"This is the program after the pass {name!r}.")
        raise
    if type_before is not None and found != type_before:
        raise VerificationError(f"the pass {name!r} changed the type of the program from {type_before} to {found}")


def _inline_some(jaxpr: Jaxpr) -> Jaxpr:
    """The program with what its calls do in their place, where that is small or called once."""
    return inline(jaxpr, once_or_small(jaxpr))


#: The passes of `optimize`.
OPTIMIZATION: Final = Pipeline(
    (("inline", _inline_some), fold_constants, simplify, hoist_constants, cse, dce),
)


def optimize(program: ProgramT) -> ProgramT:
    """The program after every pass but `rewrite`; none changes what it computes: `transforms.OPTIMIZATION`.

        { lambda ; a:f64[]. let b:f64[] = cos 0.0; c:f64[] = mul a b; d:f64[] = sin c; e:f64[] = sin a;
            f:f64[] = add d e in (f,) }
        { lambda ; a:f64[]. let b:f64[] = sin a; c:f64[] = add b b in (c,) }

    Calls are inlined where what they call is small, or called once. `OPTIMIZATION.report(program)` also tells what each
    pass did.
    """
    return OPTIMIZATION(program)
