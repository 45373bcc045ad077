"""Tables of rules: what a tool that works on programs does with each primitive.

A primitive's own rules are methods of its class. A tool (lowering, a cost model, any interpreter) keeps its rules in a
table of its own, so that anyone can add a tool without touching the primitives, and a primitive without touching the
tools.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, Generic, ParamSpec, TypeVar, cast, final

from typing_extensions import override

from tinyjax.errors import MissingRuleError
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import ClosedJaxpr, Jaxpr
from tinyjax.ir.traverse import nested_programs

Args = ParamSpec("Args")
R = TypeVar("R")
P = TypeVar("P", bound=Primitive)


@final
class RuleTable(Generic[Args, R]):
    """Rules by primitive class. A rule takes the primitive, then whatever the tool passes, and returns an R.

    A rule for a base class serves its subclasses; the nearest class wins. Rules that a table lacks are those of its
    `parent`. `kind` and `name` are for messages: what the rules do, and where a user finds the table.

    >>> from tinyjax.ir.aval import ShapedArray
    >>> from tinyjax.primitives.elementwise import MUL, Elementwise, Mul
    >>> flops: RuleTable[[ShapedArray], int] = RuleTable("Cost", name="flops")
    >>> @flops.register(Elementwise)
    ... def _(primitive: Elementwise, out: ShapedArray) -> int:
    ...     return out.size
    >>> flops.apply(MUL, ShapedArray((2, 3), "float32"))
    6
    >>> on_chip = RuleTable("Cost", name="on_chip", parent=flops)
    >>> on_chip[Mul] = lambda primitive, out: 0
    >>> on_chip.apply(MUL, ShapedArray((2, 3), "float32"))
    0
    """

    __slots__ = ("kind", "name", "own", "parent")

    def __init__(self, kind: str, *, name: str, parent: RuleTable[Args, R] | None = None) -> None:
        self.kind = kind
        self.name = name
        self.parent = parent
        self.own: dict[type[Primitive], Callable[Concatenate[Primitive, Args], R]] = {}

    def __setitem__(self, cls: type[P], rule: Callable[Concatenate[P, Args], R]) -> None:
        # A rule for P is no rule for every Primitive, but `apply` gives it none but instances of `cls`.
        self.own[cls] = cast("Callable[Concatenate[Primitive, Args], R]", rule)

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
        for base in cls.__mro__:
            table: RuleTable[Args, R] | None = self
            while table is not None:
                if base in table.own:
                    return table.own[base]
                table = table.parent
        return None

    def __contains__(self, cls: type[Primitive]) -> bool:
        return self.find(cls) is not None

    def apply(self, primitive: Primitive, *args: Args.args, **kwargs: Args.kwargs) -> R:
        """What the rule for the primitive returns; a MissingRuleError if there is none."""
        rule = self.find(type(primitive))
        if rule is None:
            raise self.missing_rule(type(primitive))
        return rule(primitive, *args, **kwargs)

    def missing_rule(self, cls: type[Primitive]) -> MissingRuleError:
        """The error that says that a class has no rule, and how to add one."""
        return MissingRuleError(
            f"{self.kind} rule for '{cls.name}' not implemented. To add it, decorate a function with "
            f"`@{self.name}.register({cls.__name__})`."
        )

    def missing(self, program: Jaxpr | ClosedJaxpr) -> dict[type[Primitive], int]:
        """The primitives that have no rule, and how many equations apply each.

        Looks into programs within the program too, and counts each of them once, however often it is applied.
        """
        counts: dict[type[Primitive], int] = {}
        for jaxpr in nested_programs(program.jaxpr if isinstance(program, ClosedJaxpr) else program):
            for eqn in jaxpr.eqns:
                cls = type(eqn.primitive)
                if cls in counts or self.find(cls) is None:
                    counts[cls] = counts.get(cls, 0) + 1
        return counts

    @override
    def __repr__(self) -> str:
        return f"<table of {self.kind.lower()} rules: {self.name}>"
