"""The base of interpreters that users write: rules for the primitives they care about, on any parent context.

An interpreter says what its values are made of, and has a table of rules. Programs within programs (calls, branches,
loops, functions with derivatives of their own) are taken care of in `control`, once for all interpreters.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import Concatenate, Final, Generic, ParamSpec, Self, TypeAlias, TypeVar, cast, final

from attrs import frozen
from typing_extensions import override

from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.errors import InputError
from tinyjax.interpreters.hidden import Hidden, staged
from tinyjax.ir import contracts
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.interpret import interpret
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal
from tinyjax.ir.roles import Foreign, Origin
from tinyjax.ir.rules import RuleTable, missing_primitives
from tinyjax.ir.source import SourceCursor, is_ours
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.conversion import convert
from tinyjax.stack import with_room

W = TypeVar("W")
S = TypeVar("S")
Args = ParamSpec("Args")
R = TypeVar("R")


@final
@frozen
class Form(Generic[S]):
    """What is known of a value without its parts: its structure, and the types of the parts."""

    structure: S
    avals: tuple[ShapedArray, ...]


@final
@frozen
class Wanted(Generic[S]):
    """The structure that a result is to have, and the types of its parts if these matter too."""

    structure: S
    avals: tuple[ShapedArray, ...] | None = None


@final
@frozen
class Transformed(Generic[S]):
    """A program in which every value is replaced by its parts, and the forms of its results."""

    jaxpr: Jaxpr
    outs: tuple[Form[S], ...]


class RuleContext(Context[W], Generic[W, S]):
    """An interpretation of programs on a parent context, by a table of rules.

    A value W consists of values of the parent, its parts, and of a structure S that is known when the program is
    transformed (None if all values have the same one). A subclass sets `rules`, and says how values are taken apart and
    put together, what stands for a constant, and which part is the ordinary result of the program.

    Where the structure may differ from branch to branch, or from one iteration to the next, `join` and `widen` are
    needed too; where a part's axes aren't those of the value, or the structure has axes, `element` and `stacked`.
    """

    __slots__ = ("cursor", "parent", "transformed")

    rules: Rules[W, S]

    def __init__(self, parent: Context[Hidden]) -> None:
        self.parent: Context[Hidden] = parent
        self.cursor: SourceCursor = parent.cursor
        #: What has been transformed so far, so that a program that is called twice is transformed once.
        self.transformed: dict[Hashable, Transformed[S]] = {}

    @abstractmethod
    def flatten(self, value: W, /) -> tuple[Sequence[Hidden], S]:
        """The parts of a value, and its structure."""

    @abstractmethod
    def unflatten(self, structure: S, parts: Sequence[Hidden], /) -> W:
        """The value of this structure that has these parts."""

    @abstractmethod
    def pure(self, value: Hidden, /) -> W:
        """The value that stands for one of the parent, such as a constant."""

    @abstractmethod
    def primal(self, value: W, /) -> Hidden:
        """The parent's value that the program itself has here: it decides which branch is taken."""

    def over(self, parent: Context[Hidden]) -> Self:
        """The same interpreter on another parent. Override it if there is more to an interpreter than its parent."""
        return type(self)(parent)

    def _within(self, parent: Context[Hidden]) -> Self:
        """The same interpreter, for a program within this one."""
        inner = self.over(parent)
        inner.transformed = self.transformed
        return inner

    def join(self, first: S, second: S, /) -> S:
        """A structure that values of either structure can be given."""
        if first == second:
            return first
        raise InputError(
            f"{type(self).__name__}: a value has structure {first!r} in one branch or iteration and {second!r} in "
            "another. Define `join` and `widen` to say what both can become."
        )

    def widen(self, value: W, structure: S, /) -> W:
        """The value, in a structure that `join` returned."""
        raise InputError(f"{type(self).__name__} has no method `widen` to give {value!r} the structure {structure!r}")

    def element(self, structure: S, /) -> S:
        """The structure of an element, along the leading axis, of a value that a loop goes over."""
        return structure

    def stacked(self, structure: S, length: int, /) -> S:
        """The structure of a new array of `length` such elements."""
        return structure

    @override
    def bind(self, primitive: Primitive, *args: W) -> tuple[W, ...]:
        return contracts.bind_by(self.rules, primitive, self, args, self, args)

    @override
    def constant(self, value: ConcreteValue | Literal) -> W:
        return self.pure(self.parent.constant(value))

    @override
    def aval(self, value: W) -> ShapedArray:
        return self.parent.aval(self.primal(value))

    @override
    def lift(self, value: Foreign) -> W:
        return self.pure(value.into(self.parent))

    @override
    def concrete(self, value: W) -> ConcreteValue | None:
        return self.parent.concrete(self.primal(value))

    @override
    def carries_tangent(self, value: W) -> bool:
        return self.parent.carries_tangent(self.primal(value))

    @override
    def origin(self, value: W) -> Origin:
        return self.parent.origin(self.primal(value))

    # Transforming programs: what the rules for control flow are made of.

    def form(self, value: W) -> Form[S]:
        """The structure of a value, and the types of its parts."""
        parts, structure = self.flatten(value)
        return Form(structure, tuple(map(self.parent.aval, parts)))

    def parts(self, values: Sequence[W]) -> list[Hidden]:
        """The parts of several values, one after the other."""
        return [part for value in values for part in self.flatten(value)[0]]

    def assemble(self, forms: Sequence[Form[S]], parts: Sequence[Hidden]) -> list[W]:
        """The values of these forms, from their parts."""
        rest = iter(parts)
        return [self.unflatten(form.structure, [next(rest) for _ in form.avals]) for form in forms]

    def widened(self, value: W, structure: S) -> W:
        """The value in this structure; the value itself if it has it already."""
        return value if self.flatten(value)[1] == structure else self.widen(value, structure)

    def transform(
        self, jaxpr: Jaxpr, ins: Sequence[Form[S]], outs: Sequence[Wanted[S] | None] | None = None
    ) -> Transformed[S]:
        """The program that does to the parts of its inputs what this interpreter does to values of these forms.

        `outs` asks for results of certain structures; None: as they are.
        """
        try:
            key = (jaxpr, jaxpr.lines, tuple(ins), None if outs is None else tuple(outs))
            known = self.transformed.get(key)
        except TypeError:  # a structure that can't be hashed
            return self._transform(jaxpr, ins, outs)
        if known is None:
            known = self.transformed[key] = self._transform(jaxpr, ins, outs)
        return known

    def _transform(
        self, jaxpr: Jaxpr, ins: Sequence[Form[S]], outs: Sequence[Wanted[S] | None] | None
    ) -> Transformed[S]:
        found: list[Form[S]] = []

        def run(parent: Context[Hidden], parts: list[Hidden]) -> Sequence[Hidden]:
            inner = self._within(parent)
            results = interpret(inner, jaxpr, inner.assemble(ins, parts))
            flat: list[Hidden] = []
            for result, wanted in zip(results, outs or [None] * len(results), strict=True):
                pieces, structure = inner.settled(result, wanted)
                found.append(Form(structure, tuple(map(parent.aval, pieces))))
                flat += pieces
            return flat

        program = with_room(lambda: staged([aval for form in ins for aval in form.avals], run))
        return Transformed(program, tuple(found))

    def settled(self, value: W, wanted: Wanted[S] | None) -> tuple[Sequence[Hidden], S]:
        """The parts of a value and its structure, as is wanted."""
        parts, structure = self.flatten(value if wanted is None else self.widened(value, wanted.structure))
        if wanted is None or wanted.avals is None:
            return parts, structure
        typed = zip(parts, wanted.avals, strict=True)
        return [self._weakened(part, aval) for part, aval in typed], structure

    def _weakened(self, part: Hidden, aval: ShapedArray) -> Hidden:
        """A part, as weakly typed as is wanted."""
        found = self.parent.aval(part)
        return convert(self.parent, part, found.dtype, aval.weak_type) if found.weak_type != aval.weak_type else part

    def decision(self, jaxpr: Jaxpr, ins: Sequence[Form[S]]) -> Jaxpr:
        """The program for values of these forms that returns the primals of the results, to decide something by."""

        def run(parent: Context[Hidden], parts: list[Hidden]) -> Sequence[Hidden]:
            inner = self._within(parent)
            return list(map(inner.primal, interpret(inner, jaxpr, inner.assemble(ins, parts))))

        return with_room(lambda: staged([aval for form in ins for aval in form.avals], run))

    def rebind(self, make: Callable[[Jaxpr], Primitive], jaxpr: Jaxpr, args: Sequence[W]) -> list[W]:
        """Applies on the parent the primitive that `make` returns for the transformed program."""
        transformed = self.transform(jaxpr, list(map(self.form, args)))
        return self.assemble(transformed.outs, self.parent.bind(make(transformed.jaxpr), *self.parts(args)))

    @classmethod
    def missing(cls, program: Jaxpr | ClosedJaxpr) -> dict[type[Primitive], int]:
        """The primitives that are lacking for running a program here, and how many equations apply each.

        As `RuleTable.missing`, for the rules of this interpreter.
        """
        return missing_primitives(program, cls.covers)

    @classmethod
    def covers(cls, primitive: Primitive, avals: Sequence[ShapedArray]) -> bool:
        """Whether there is a rule for a primitive with operands of these types."""
        return type(primitive) in cls.rules


def expansion(eqn: Eqn) -> Jaxpr | None:
    """What a primitive that is defined by others stands for, as a program; None if it isn't."""
    defined = True

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        nonlocal defined
        outs = contracts.expand(eqn.primitive, ctx, ins)
        defined = outs is not None
        return outs or ()

    jaxpr = stage([atom.aval for atom in eqn.invars], run)
    return jaxpr if defined else None


@final
class Expansions:
    """The same, made once for each primitive and types of operands."""

    __slots__ = ("_made",)

    def __init__(self) -> None:
        self._made: dict[tuple[Primitive, tuple[ShapedArray, ...]], Jaxpr | None] = {}

    def of(self, eqn: Eqn) -> Jaxpr | None:
        key = eqn.primitive, tuple(atom.aval for atom in eqn.invars)
        if key not in self._made:
            self._made[key] = expansion(eqn)
        return self._made[key]


#: A table of rules of an interpreter with values W of structure S: the primitive, the interpreter, and the operands.
Rules: TypeAlias = RuleTable[[RuleContext[W, S], Sequence[W]], Sequence[W]]

#: The rules for primitives that hold programs, which every table made by `rule_table` falls back on.
CONTROL: Final[Rules[Hidden, Hidden]] = RuleTable("Interpretation", name="tinyjax.interpreters.CONTROL")


def rule_table(kind: str, *, name: str) -> RuleTable[Args, R]:
    """A table of rules that has those for control flow already. Annotate what it is assigned to, as `Rules[W, S]`.

    `kind` and `name` are for messages, as in RuleTable.
    """
    # The rules for control flow are typed for values and structures that they know nothing about, so they fit all.
    return RuleTable(kind, name=name, parent=cast("RuleTable[Args, R]", CONTROL))


def overridden(rules: RuleTable[Args, R], cls: type[Primitive], method: str) -> bool:
    """Whether a class says something else, with this method, than the base class does whose rule would be used: a
    user's primitive that changes the derivative of one of ours isn't what a rule for ours is about."""
    if is_ours(cls):
        return False
    owner = rules.owner(cls)
    if owner is None:
        return False
    before = cls.__mro__[: cls.__mro__.index(owner)]
    return any(method in vars(base) and not is_ours(base) for base in before)


def register_all(
    rules: RuleTable[Args, R],
    rule: Callable[Concatenate[Primitive, Args], R],
    classes: tuple[type[Primitive], ...],
) -> None:
    """Makes one function the rule for several classes."""
    for cls in classes:
        rules[cls] = rule
