"""Partial evaluation: what is known is computed on the parent now, what isn't is staged for later."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Generic, TypeAlias, TypeVar, final

from attrs import frozen
from typing_extensions import override

from tinyjax.contexts.rebuilding import Known, apply_known, computed, rebuild
from tinyjax.contexts.recording import Tape
from tinyjax.contexts.staging import StagingContext
from tinyjax.ir import contracts
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.merging import merged, staged_operands
from tinyjax.ir.primitive import Primitive, Split
from tinyjax.ir.program import Atom, Jaxpr, Literal
from tinyjax.ir.roles import Customised, Foreign, Origin
from tinyjax.ir.slots import made_by_slots
from tinyjax.ir.source import SourceCursor
from tinyjax.ir.value import ConcreteValue

V = TypeVar("V")


@final
@made_by_slots
@frozen
class Unknown:
    """A value that the staged program will compute."""

    atom: Atom


Partial: TypeAlias = Known[V] | Unknown


@final
@frozen
class Unfinished(Generic[V]):
    """The staged program, as it was recorded, and what the parent knows of what feeds its first inputs."""

    tape: Tape
    known: tuple[Known[V], ...]

    @property
    def residuals(self) -> tuple[V, ...]:
        """The values of the parent that feed its first inputs."""
        return tuple([known.value for known in self.known])

    @cached_property
    def jaxpr(self) -> Jaxpr:
        """The staged program."""
        return self.tape.numbered()


@final
class PartialEvalContext(Context[Partial[V]]):
    """Runs equations whose inputs are all known on the parent, and stages the others.

    A known value that the staged program reads becomes a residual: an input of it, one for each distinct value. What
    costs next to nothing to make of something smaller is made again there (`contexts/rebuilding.py`).
    """

    __slots__ = ("_inputs", "_rebuilt", "_residuals", "cursor", "parent", "staged")

    def __init__(self, parent: Context[V]) -> None:
        self.parent: Context[V] = parent
        self.cursor: SourceCursor = parent.cursor.private()
        self.staged: StagingContext = StagingContext(self.cursor)
        self._residuals: list[Known[V]] = []
        self._rebuilt: list[V] = []  # what `_inputs` identifies by id must not be freed meanwhile
        self._inputs: dict[int, Atom] = {}

    def unknown(self, aval: ShapedArray) -> Unknown:
        """A new unknown input."""
        return Unknown(self.staged.argument(aval))

    @override
    def bind(self, primitive: Primitive, *args: Partial[V]) -> tuple[Partial[V], ...]:
        known = [arg for arg in args if isinstance(arg, Known)]
        if len(known) == len(args):
            return apply_known(self.parent, primitive, known)
        if known:
            cls = type(primitive)  # most have neither rule
            if cls.partial_eval is not Primitive.partial_eval:
                unknown = tuple([isinstance(arg, Unknown) for arg in args])
                if primitive.built_in:
                    split = primitive.partial_eval(unknown)
                else:
                    split = contracts.partial_eval(primitive, unknown, list(map(self.aval, args)))
                if split is not None:
                    return self._bind_split(split, args, [arg.value for arg in known])
            if cls.expand is not Primitive.expand and not self._stays_whole(primitive, args):
                expanded = contracts.expand(primitive, self, args)
                if expanded is not None:
                    return tuple(expanded)
        outs = self.staged.bind(
            primitive, *[arg.atom if isinstance(arg, Unknown) else self.instantiate(arg) for arg in args]
        )
        return (Unknown(outs[0]),) if len(outs) == 1 else tuple(map(Unknown, outs))

    def _stays_whole(self, primitive: Primitive, args: Sequence[Partial[V]]) -> bool:
        """Whether a primitive with a transpose is linear in what is unknown: derivatives of what it is made of may
        be others than its own."""
        unknown = tuple([i for i, arg in enumerate(args) if isinstance(arg, Unknown)])
        return type(primitive).transpose is not Primitive.transpose and unknown in primitive.linear_in(len(args))

    def _bind_split(self, split: Split, args: Sequence[Partial[V]], known: Sequence[V]) -> tuple[Partial[V], ...]:
        if split.known_inputs is not None:
            known = [arg.value for arg in map(args.__getitem__, split.known_inputs) if isinstance(arg, Known)]
        outs = self.parent.bind(split.known, *known)
        num_known = split.unknown_out.count(False)
        unknown = [arg for arg in args if isinstance(arg, Unknown)]
        operands = staged_operands(split, args, unknown, map(computed, outs[num_known:]))
        staged = self.staged.bind(split.staged, *map(self.instantiate, operands))
        return tuple(merged(split.unknown_out, map(Unknown, staged), map(computed, outs)))

    def instantiate(self, value: Partial[V]) -> Atom:
        """The atom that stands for a value in the staged program."""
        if isinstance(value, Unknown):
            return value.atom
        if value.literal is not None:
            return value.literal
        found = self._inputs.get(id(value.value))
        if found is None:
            found, rebuilt = rebuild(value, self._inputs, self._hand_over, self.staged.bind)
            self._rebuilt += rebuilt
        return found

    def _hand_over(self, value: Known[V]) -> Atom:
        self._residuals.append(value)
        return self.staged.leading(self.parent.aval(value.value))

    def finish(self, outs: Sequence[Atom]) -> Unfinished[V]:
        """The staged program with these outputs, and its residuals."""
        return Unfinished(self.staged.tape(outs), tuple(self._residuals))

    @override
    def constant(self, value: ConcreteValue | Literal) -> Known[V]:
        made = self.parent.constant(value)  # which staging spells out if it is a number
        return Known(made, value if isinstance(value, Literal) else made if isinstance(made, Literal) else None)

    @override
    def aval(self, value: Partial[V]) -> ShapedArray:
        return value.atom.aval if isinstance(value, Unknown) else self.parent.aval(value.value)

    @override
    def holds(self, value: object) -> bool:
        if isinstance(value, Unknown):
            return self.staged.holds(value.atom)
        return isinstance(value, Known) and self.parent.holds(value.value)

    @override
    def lift(self, value: Foreign) -> Known[V]:
        return Known(value.into(self.parent))

    @override
    def concrete(self, value: Partial[V]) -> ConcreteValue | None:
        return None if isinstance(value, Unknown) else self.parent.concrete(value.value)

    @override
    def carries_tangent(self, value: Partial[V]) -> bool:
        return isinstance(value, Known) and self.parent.carries_tangent(value.value)

    @override
    def call_custom(self, function: Customised, args: Sequence[Partial[V]]) -> Sequence[Partial[V]] | None:
        known = [arg.value for arg in args if isinstance(arg, Known)]
        outs = self.parent.call_custom(function, known) if len(known) == len(args) else None
        return None if outs is None else list(map(Known, outs))

    @override
    def origin(self, value: Partial[V]) -> Origin:
        return self.staged.origin(value.atom) if isinstance(value, Unknown) else self.parent.origin(value.value)

    @property
    @override
    def label(self) -> str:
        return "partial evaluation"

    @override
    def rule_of(self, primitive: Primitive, args: Sequence[Partial[V]]) -> str:
        unknown = sum(isinstance(arg, Unknown) for arg in args)
        return "partial_eval" if 0 < unknown < len(args) else "type_of" if unknown else ""

    @override
    def shown(self, value: Partial[V]) -> str:
        return self.parent.shown(value.value) if isinstance(value, Known) else f"unknown {value.atom.aval}"
