"""The equations of a program that is being read: each is typed, and converted where JAX's have another meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypeAlias, final

import numpy as np
from attrs import field, frozen

from tinyjax.errors import ParameterError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import FLOAT0
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Var
from tinyjax.ir.result_types import result_types
from tinyjax.ir.source import SourceInfo
from tinyjax.ir.text.lexer import Tokens
from tinyjax.ir.text.refs import Place
from tinyjax.ir.text.registry import Registry
from tinyjax.ir.text.scope import Scope
from tinyjax.ir.text.values_parser import guarded
from tinyjax.ir.text.written import Last
from tinyjax.ir.type_lists import listed
from tinyjax.ir.value import ConcreteValue

Types: TypeAlias = tuple[ShapedArray, ...]
#: Where a result is bound, its name and its type.
Binder: TypeAlias = tuple[int, str, ShapedArray]


@final
@frozen
class Head:
    """A primitive as it was written at a place of the text. `spelled` is all of it, or empty if that is no key;
    `places` are those of the parameters."""

    name: str
    params: Mapping[str, object]
    spelled: str
    at: int
    places: Mapping[str, int] = field(factory=dict)


@final
@frozen(eq=False)
class Known:
    """What has been found already: primitives, by their text and the types of operands and results; conversions."""

    primitives: dict[tuple[str, Types, Types], Primitive] = field(factory=dict)
    conversions: dict[tuple[str, Types], tuple[tuple[Primitive, ...], ...]] = field(factory=dict)


@final
class Body:
    """The equations of one program."""

    __slots__ = ("_known", "_registry", "_tokens", "eqns", "scope")

    def __init__(self, tokens: Tokens, scope: Scope, registry: Registry, known: Known) -> None:
        self._tokens = tokens
        self._registry = registry
        self._known = known
        self.scope: Scope = scope
        self.eqns: list[Eqn] = []

    def atom(self, what: str = "") -> Atom:
        """The operand that the text has here, or the output if there is no word for it. JAX's literals of dtype float0
        are constants."""
        tokens = self._tokens
        if tokens.kind != "void":
            return self.scope.atom(what) if what else self.scope.output()
        at, value = tokens.start, ConcreteValue.of(np.zeros((), FLOAT0))
        tokens.advance()
        constant = guarded(tokens, at, lambda: self._registry.read("constant", {"value": value}, (), (value.aval,)))
        return self._bind(constant, (), [value.aval], at)[0]

    def append(self, head: Head, binders: Sequence[Binder], operands: tuple[Atom, ...], first: int) -> tuple[Atom, ...]:
        """Adds the equation that begins at `first`, and gives its results; a ParseError unless they have the types
        declared."""
        tokens, registry, known = self._tokens, self._registry, self._known.primitives
        operands = self._converted(head.name, operands, first)
        ins = tuple([atom.aval for atom in operands])
        outs = tuple([aval for _, _, aval in binders])
        primitive = known.get((head.spelled, ins, outs)) if head.spelled else None
        if primitive is None:
            expansion = guarded(tokens, head.at, lambda: registry.expansion(head.name, head.params, ins, outs))
            if expansion is not None:
                self._check_types(head.name, expansion.out_avals, ins, outs, first)
                results = self._inlined(expansion, operands, first)
                for (at, variable, _), atom in zip(binders, results, strict=True):
                    self.scope.call(variable, atom, at)
                return results
            read = guarded(tokens, head.at, lambda: self._read(head, ins, outs))
            found = guarded(tokens, head.at, lambda: result_types(read, ins))
            self._check_types(head.name, found, ins, outs, first)
            primitive = read
            if head.spelled:
                known[head.spelled, ins, outs] = primitive
        variables = tuple([self.scope.define(variable, aval, at) for at, variable, aval in binders])
        self.eqns.append(Eqn(primitive, operands, variables, self._source(first)))
        return variables

    def append_with_refs(
        self,
        head: Head,
        binders: Sequence[Binder],
        operands: tuple[Atom, ...],
        refs: Mapping[int, str],
        first: int,
    ) -> None:
        """The same for an equation of which these operands are Refs."""
        registry = self._registry
        found = guarded(
            self._tokens,
            head.at,
            lambda: registry.with_values(head.name, head.params, refs, len(operands), len(binders)),
        )
        wanted = [(first, "", operands[x.operand].aval) if isinstance(x, Last) else binders[x] for x in found.results]
        given = tuple([operands[i] for i in found.operands])
        results = self.append(
            Head(found.name or head.name, found.params, "", head.at, head.places), wanted, given, first
        )
        for result, atom in zip(found.results, results, strict=True):
            if isinstance(result, Last):
                self.scope.store(refs[result.operand], atom)

    def read_ref(self, place: Place, binder: Binder, first: int) -> None:
        """A variable that is bound to what is at a place."""
        self._at(place, "get", (), [binder], first)

    def write_ref(self, place: Place, value: Atom, first: int, *, adding: bool = False) -> None:
        """A value is written at a place, or added to what is there."""
        held = self.scope.held(place.name).aval
        self.scope.store(
            place.name,
            self._at(place, "addupdate" if adding else "swap", (value,), [(first, "", held)], first),
        )

    def _at(self, place: Place, name: str, values: tuple[Atom, ...], binders: Sequence[Binder], first: int) -> Atom:
        head = Head(name, {"indices": place.indices}, "", first)
        return self.append(head, binders, (self.scope.held(place.name), *values, *place.operands), first)[0]

    def _read(self, head: Head, ins: Types, outs: Types) -> Primitive:
        try:
            return self._registry.read(head.name, head.params, ins, outs)
        except ParameterError as error:
            self._tokens.fail(str(error), head.places.get(error.parameter or "", head.at), error)

    def _converted(self, name: str, operands: tuple[Atom, ...], first: int) -> tuple[Atom, ...]:
        """The operands, with the conversions that programs written elsewhere leave out."""
        known = self._known.conversions
        types = tuple([atom.aval for atom in operands])
        steps = known.get((name, types))
        if steps is None:
            steps = known[name, types] = tuple(map(tuple, self._registry.conversions(name, types)))
        if not any(steps):
            return operands
        converted: list[Atom] = []
        for operand, primitives in zip(operands, steps, strict=True):
            atom = operand
            for primitive in primitives:
                (aval,) = guarded(self._tokens, first, partial(result_types, primitive, (atom.aval,)))
                atom = self._bind(primitive, (atom,), [aval], first)[0]
            converted.append(atom)
        return tuple(converted)

    def _inlined(self, jaxpr: Jaxpr, operands: Sequence[Atom], first: int) -> tuple[Atom, ...]:
        """The results of a program, whose equations are added to those of this one."""
        found: list[Atom] = list(operands)

        def read(atom: Atom) -> Atom:
            return found[atom.index] if isinstance(atom, Var) else atom

        for eqn in jaxpr.eqns:
            ins = tuple(map(read, eqn.invars))
            found += self._bind(eqn.primitive, ins, [var.aval for var in eqn.outvars], first)
        return tuple(map(read, jaxpr.outvars))

    def _bind(
        self, primitive: Primitive, operands: tuple[Atom, ...], avals: Sequence[ShapedArray], first: int
    ) -> tuple[Var, ...]:
        """An equation that the text doesn't have."""
        results = tuple([self.scope.define("", aval, first) for aval in avals])
        self.eqns.append(Eqn(primitive, operands, results, self._source(first)))
        return results

    def _check_types(self, name: str, found: Sequence[ShapedArray], ins: Types, outs: Types, first: int) -> None:
        """A ParseError unless results of these types are what is declared."""
        if tuple(found) != outs:
            self._tokens.fail(
                f"{name} gives {listed(found)} for operands {listed(ins)}, but its results are declared as "
                f"{listed(outs)}",
                first,
            )

    def _source(self, at: int) -> SourceInfo | None:
        """The line of the file, if the text is that of one."""
        file = self._tokens.file
        return None if file is None else SourceInfo(file, self._tokens.line(at), "")
