"""Tables of rules: what a tool that works on programs does with each primitive.

A primitive's own rules are methods of its class. A tool (lowering, a cost model, any interpreter) keeps its rules in a
table of its own, so that anyone can add a tool without touching the primitives, and a primitive without touching the
tools.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Concatenate, Final, Generic, ParamSpec, TypeAlias, TypeVar, cast, final
from weakref import WeakSet

from typing_extensions import override

from tinyjax.errors import MissingRuleError
from tinyjax.ir import contracts
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import ClosedJaxpr, Jaxpr, Literal
from tinyjax.ir.result_types import types_after_casts
from tinyjax.ir.value import ConcreteValue

Args = ParamSpec("Args")
R = TypeVar("R")
P = TypeVar("P", bound=Primitive)


_NO_ROOMS: Final[Mapping[str, Sequence[str]]] = MappingProxyType({})


@final
class RuleTable(Generic[Args, R]):
    """Rules by primitive class. A rule takes the primitive, then whatever the tool passes, and returns an R.

    A rule for a base class serves its subclasses; the nearest class wins. Rules that a table lacks are those of its
    `parent`. `kind` and `name` are for messages: what the rules do, and where a user finds the table.

    Rules may be in modules that are imported when a table is first asked for one of the classes that they are for.
    `rooms` names them, by the module of these classes; or the package that defines the classes says in `RULES`, by the
    name of the table, in which of its modules they are. A rule that was set before stays.

    >>> from tinyjax.ir.aval import ShapedArray
    >>> from tinyjax.primitives.elementwise import Elementwise, Mul, mul
    >>> flops: RuleTable[[ShapedArray], int] = RuleTable("Cost", name="flops")
    >>> @flops.register(Elementwise)
    ... def _(primitive: Elementwise, out: ShapedArray) -> int:
    ...     return out.size
    >>> flops.apply(mul, ShapedArray((2, 3), "float32"))
    6
    >>> on_chip = RuleTable("Cost", name="on_chip", parent=flops)
    >>> on_chip[Mul] = lambda primitive, out: 0
    >>> on_chip.apply(mul, ShapedArray((2, 3), "float32"))
    0
    """

    __slots__ = ("_asked", "kind", "name", "own", "parent", "reasons", "rooms")

    def __init__(
        self,
        kind: str,
        *,
        name: str,
        parent: RuleTable[Args, R] | None = None,
        rooms: Mapping[str, Sequence[str]] = _NO_ROOMS,
    ) -> None:
        self.kind: str = kind
        self.name: str = name
        self.parent: RuleTable[Args, R] | None = parent
        self.own: dict[type[Primitive], Callable[Concatenate[Primitive, Args], R]] = {}
        #: Why some classes have no rule, for messages.
        self.reasons: dict[type[Primitive], str] = {}
        self.rooms: Mapping[str, Sequence[str]] = rooms
        #: Classes for which what may have rules has been imported.
        self._asked: WeakSet[type[Primitive]] = WeakSet()

    def __setitem__(self, cls: type[P], rule: Callable[Concatenate[P, Args], R]) -> None:
        if not any(room in sys.modules for room in self._rooms_of(cls.__module__)):  # nor is it such a module that sets
            self._fill(cls)
        # A rule for P is no rule for every Primitive, but `apply` gives it none but instances of `cls`.
        self.own[cls] = cast("Callable[Concatenate[Primitive, Args], R]", rule)

    def __getitem__(self, cls: type[Primitive]) -> Callable[Concatenate[Primitive, Args], R]:
        """The rule for a class, as `find` finds it; a MissingRuleError if there is none."""
        rule = self.find(cls)
        if rule is None:
            raise self.missing_rule(cls)
        return rule

    def register(
        self, cls: type[P]
    ) -> Callable[[Callable[Concatenate[P, Args], R]], Callable[Concatenate[P, Args], R]]:
        """A decorator: the function is the rule for `cls`."""

        def decorate(rule: Callable[Concatenate[P, Args], R]) -> Callable[Concatenate[P, Args], R]:
            self[cls] = rule
            return rule

        return decorate

    def find(self, cls: type[Primitive]) -> Callable[Concatenate[Primitive, Args], R] | None:
        """The rule for a class: its own, or that of the nearest base class, here or in a parent table."""
        self._fill(cls)
        for base in cls.__mro__:
            table: RuleTable[Args, R] | None = self
            while table is not None:
                if base in table.own:
                    return table.own[base]
                table = table.parent
        return None

    def owner(self, cls: type[Primitive]) -> type[Primitive] | None:
        """The class that the rule for a class was registered for: its own, or the nearest base class. None: no rule."""
        self._fill(cls)
        for base in cls.__mro__:
            table: RuleTable[Args, R] | None = self
            while table is not None:
                if base in table.own:
                    return base
                table = table.parent
        return None

    def entry(self, cls: type[Primitive]) -> str | None:
        """Where that rule is, as one would write it: `table[class]`. None if there is none."""
        self._fill(cls)
        for base in cls.__mro__:
            table: RuleTable[Args, R] | None = self
            while table is not None:
                if base in table.own:
                    return f"{table.name}[{base.__name__}]"
                table = table.parent
        return None

    def __contains__(self, cls: type[Primitive]) -> bool:
        return self.find(cls) is not None

    def apply(self, primitive: Primitive, *args: Args.args, **kwargs: Args.kwargs) -> R:
        """What the rule for the primitive returns; a MissingRuleError if there is none."""
        return self[type(primitive)](primitive, *args, **kwargs)

    def missing_rule(self, cls: type[Primitive]) -> MissingRuleError:
        """The error that says that a class has no rule, why if that is known, and how to add one."""
        reason = self.reason(cls)
        return MissingRuleError(
            f"{self.kind} rule for '{cls.name}' not implemented{f': {reason}' if reason else ''}. To add it, decorate "
            f"a function with `@{self.name}.register({cls.__name__})`."
        )

    def missing(self, program: Jaxpr | ClosedJaxpr) -> dict[type[Primitive], int]:
        """The primitives that are lacking for running the program, and how many equations apply each.

        Looks into programs within the program as far as they are run: not into a rule for a derivative of the user's
        own, as that is for differentiation. Counts each once, however often it is applied. A primitive without a rule
        that others define (a Composite) counts as those.
        """
        return missing_primitives(program, lambda primitive, _: type(primitive) in self)

    def lacks(self, cls: type[Primitive], reason: str) -> None:
        """Notes why a class has no rule here, to be said where it is missed."""
        self.reasons[cls] = reason

    def reason(self, cls: type[Primitive]) -> str | None:
        """Why a class has no rule, if that was noted here or in a parent table."""
        for base in cls.__mro__:
            table: RuleTable[Args, R] | None = self
            while table is not None:
                if base in table.reasons:
                    return table.reasons[base]
                table = table.parent
        return None

    def _fill(self, cls: type[Primitive]) -> None:
        """Imports what has rules for a class, here or in a parent table, if it hasn't been asked for before."""
        if cls in self._asked:
            return
        tables = self._with_parents()
        rooms = [room for base in cls.__mro__ for table in tables for room in table._rooms_of(base.__module__)]  # noqa: SLF001
        before = [(table.own, dict(table.own)) for table in tables] if rooms else ()
        for room in rooms:
            import_module(room)
        for rules, set_before in before:
            rules.update(set_before)
        self._asked.add(cls)  # only now: another thread waits for the import, too

    def _with_parents(self) -> Sequence[RuleTable[Args, R]]:
        tables: list[RuleTable[Args, R]] = []
        table: RuleTable[Args, R] | None = self
        while table is not None:
            tables.append(table)
            table = table.parent
        return tables

    def _rooms_of(self, module: str) -> Sequence[str]:
        """The modules that may have rules for the classes of a module."""
        package = module.rpartition(".")[0]
        found = sys.modules.get(package)
        said: object = None if found is None else vars(found).get("RULES")
        room: str | None = said.get(self.name) if isinstance(said, Mapping) else None
        return self.rooms.get(module, ()) if room is None else (f"{package}.{room}",)

    @override
    def __repr__(self) -> str:
        return f"<table of {self.kind.lower()} rules: {self.name}>"


#: Tells whether there is a rule for a primitive with operands of these types.
Covers: TypeAlias = Callable[[Primitive, Sequence[ShapedArray]], bool]


def missing_primitives(program: Jaxpr | ClosedJaxpr, covers: Covers) -> dict[type[Primitive], int]:
    """What `RuleTable.missing` returns, for rules that may depend on the types of the operands."""
    survey = _Survey(covers)
    survey.pending.append(program.jaxpr if isinstance(program, ClosedJaxpr) else program)
    seen: set[Jaxpr] = set()
    while survey.pending:
        jaxpr = survey.pending.pop()
        if jaxpr not in seen:
            seen.add(jaxpr)
            for eqn in jaxpr.eqns:
                survey.visit(eqn.primitive, [atom.aval for atom in eqn.invars])
    return survey.counts


@final
class _Survey(Context[ShapedArray]):
    """Values are types; applying a primitive notes whether it is covered."""

    __slots__ = ("_covers", "counts", "pending")

    def __init__(self, covers: Covers) -> None:
        self._covers = covers
        self.counts: dict[type[Primitive], int] = {}
        self.pending: list[Jaxpr] = []

    def visit(self, primitive: Primitive, avals: Sequence[ShapedArray]) -> None:
        if not self._covers(primitive, avals):
            if contracts.expand(primitive, self, avals) is not None:
                return
            cls = type(primitive)
            self.counts[cls] = self.counts.get(cls, 0) + 1
        self.pending += primitive.applied_programs

    @override
    def bind(self, primitive: Primitive, *args: ShapedArray) -> tuple[ShapedArray, ...]:
        self.visit(primitive, args)
        return types_after_casts(primitive, args)

    @override
    def constant(self, value: ConcreteValue | Literal) -> ShapedArray:
        return value.aval

    @override
    def aval(self, value: ShapedArray) -> ShapedArray:
        return value
