"""What passes are made of: growing a program out of another one, and going through programs within programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias, final

import numpy as np
from typing_extensions import override

from tinyjax.contexts.casts import cast_operands
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import KEYS
from tinyjax.ir.effects import must_stay
from tinyjax.ir.literals import python_scalar
from tinyjax.ir.naming import InputNames
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from tinyjax.ir.program_value import well_typed
from tinyjax.ir.result_types import result_types
from tinyjax.ir.source import SourceCursor, SourceInfo
from tinyjax.ir.traverse import holds_programs, map_programs
from tinyjax.ir.value import ConcreteValue
from tinyjax.ir.varying import UnevenError
from tinyjax.primitives.constant import Constant
from tinyjax.primitives.conversion import convert

#: Tells programs apart that are equal but come from different lines of user code.
Key: TypeAlias = tuple[int, Jaxpr]


def key_of(jaxpr: Jaxpr) -> Key:
    """What a pass remembers its result for a program by."""
    return jaxpr.lines, jaxpr


@final
class Rebuilding(Context[Atom]):
    """A program that grows out of another one: its equations are taken over as they are where nothing changes.
    `first` is the number of the first variable that it binds, where lower ones are taken.

    As a context it is like staging. What is bound is attributed to the line of `cursor.source`.
    """

    __slots__ = ("_names", "_next", "cursor", "eqns", "invars")

    def __init__(self, invars: Sequence[Var], names: InputNames | None = None, first: int | None = None) -> None:
        self._names = names
        self.cursor: SourceCursor = SourceCursor()
        self.invars: tuple[Var, ...] = tuple(invars)
        self.eqns: list[Eqn] = []
        self._next = len(self.invars) if first is None else first

    @property
    def num_vars(self) -> int:
        """How many variables are bound so far."""
        return self._next

    def emit(
        self, primitive: Primitive, ins: tuple[Atom, ...], avals: Sequence[ShapedArray], source: SourceInfo | None
    ) -> tuple[Var, ...]:
        """A new equation, whose outputs have these types."""
        at = self._next
        outs = tuple([Var(i, aval) for i, aval in enumerate(avals, at)])
        self._next = at + len(outs)
        self.eqns.append(Eqn(primitive, ins, outs, source))
        return outs

    def again(self, eqn: Eqn, ins: tuple[Atom, ...], primitive: Primitive | None = None) -> tuple[Var, ...]:
        """An equation of the old program, with these operands, which are of the same types; maybe another primitive."""
        outs = eqn.outvars
        at = self._next
        self._next = at + len(outs)
        if primitive is None:
            primitive = eqn.primitive
        if not outs or (outs[0].index == at and outs[-1].index == self._next - 1):
            if primitive is eqn.primitive and ins == eqn.invars:
                self.eqns.append(eqn)
                return outs
        elif len(outs) == 1:  # as it nearly always is
            outs = (Var(at, outs[0].aval),)
        else:
            outs = tuple([Var(i, var.aval) for i, var in enumerate(outs, at)])
        self.eqns.append(Eqn(primitive, ins, outs, eqn.source))
        return outs

    def kept(self, eqns: Sequence[Eqn]) -> list[Var]:
        """The first equations of the old program, as they are; and what they bind."""
        self.eqns += eqns
        outs = [out for eqn in eqns for out in eqn.outvars]
        self._next += len(outs)
        return outs

    def rename(self, var: Var) -> Var:
        """Has the last equation bind this variable in the place of its only result, which has the same type."""
        last = self.eqns.pop()
        self.eqns.append(Eqn(last.primitive, last.invars, (var,), last.source))
        return var

    def applied(self, jaxpr: Jaxpr, ins: Sequence[Atom], source: SourceInfo | None = None) -> tuple[Atom, ...]:
        """The results of a program for these operands, whose equations come here; from this line, if they name none."""
        env = list(ins)
        for eqn in jaxpr.eqns:
            avals = [out.aval for out in eqn.outvars]
            env += self.emit(eqn.primitive, read(env, eqn.invars), avals, eqn.source or source)
        return read(env, jaxpr.outvars)

    def converted(self, atom: Atom, aval: ShapedArray) -> Atom:
        """An atom as weak as this type, which is its own but for that."""
        return atom if atom.aval == aval else convert(self, atom, aval.dtype, aval.weak_type)

    def finish(self, outs: Sequence[Atom]) -> Jaxpr:
        """The program that has grown, with these outputs."""
        return well_typed(Jaxpr(self.invars, tuple(self.eqns), tuple(outs), names=self._names))

    @override
    def bind(self, primitive: Primitive, *args: Atom) -> tuple[Var, ...]:
        try:
            avals = result_types(primitive, [arg.aval for arg in args])
        except UnevenError as uneven:
            return self.bind(primitive, *cast_operands(self, args, uneven.wanted))
        return self.emit(primitive, args, avals, self.cursor.source)

    @override
    def constant(self, value: ConcreteValue | Literal) -> Atom:
        return constant_atom(self, value)

    @override
    def aval(self, value: Atom) -> ShapedArray:
        return value.aval


def constant_atom(ctx: Context[Atom], value: ConcreteValue | Literal) -> Atom:
    """A value in a program: a literal if it is a number, or else, of keys too, what a `constant` equation gives."""
    if isinstance(value, Literal):
        return value
    if value.aval.shape == () and value.aval.dtype not in KEYS:
        return literal_of(value)
    return ctx.bind(Constant(value.frozen_copy()))[0]


def literal_of(value: ConcreteValue) -> Literal:
    """The literal for a number, of the same type."""
    return Literal(python_scalar(np.asarray(value.data).reshape(1)[0], value.aval.dtype), value.aval)


def read(env: Sequence[Atom] | Mapping[int, Atom], atoms: Sequence[Atom]) -> tuple[Atom, ...]:
    """What these atoms of an old program are in a new one."""
    return tuple([env[atom.index] if type(atom) is Var else atom for atom in atoms])


def rewritten(
    jaxpr: Jaxpr, change: Callable[[Rebuilding, Eqn, Callable[[Atom], Atom]], Sequence[Atom] | None]
) -> Jaxpr:
    """The program with other equations in the place of some, and without what nothing reads any more.

    `change` is given what grows, an equation of the old program, and what its variables are in the new one; it says
    what the equation's results are there, or None if it stays as it is.
    """
    ctx = Rebuilding(jaxpr.invars, jaxpr.names)
    env: list[Atom] = list(jaxpr.invars)
    different = False

    def now(atom: Atom) -> Atom:
        return env[atom.index] if isinstance(atom, Var) else atom

    for eqn in jaxpr.eqns:
        ctx.cursor.source = eqn.source
        found = change(ctx, eqn, now)
        if found is None:
            env += ctx.again(eqn, tuple(map(now, eqn.invars)))
        else:
            different = True
            env += found
    return without_unread(ctx.finish(read(env, jaxpr.outvars))) if different else jaxpr


def count_vars(jaxpr: Jaxpr) -> int:
    """How many variables a program binds."""
    for eqn in reversed(jaxpr.eqns):
        if eqn.outvars:
            return eqn.outvars[-1].index + 1
    return len(jaxpr.invars)


def count_reads(jaxpr: Jaxpr) -> list[int]:
    """How often each variable is read, by equations and by the outputs."""
    reads = [0] * count_vars(jaxpr)
    for eqn in jaxpr.eqns:
        for atom in eqn.invars:
            if isinstance(atom, Var):
                reads[atom.index] += 1
    for atom in jaxpr.outvars:
        if isinstance(atom, Var):
            reads[atom.index] += 1
    return reads


def without_unread(jaxpr: Jaxpr) -> Jaxpr:
    """The program without the equations that nothing reads, leaving the programs within as they are."""
    live = bytearray(count_vars(jaxpr))
    for atom in jaxpr.outvars:
        if isinstance(atom, Var):
            live[atom.index] = 1
    kept: list[Eqn] = []
    for eqn in reversed(jaxpr.eqns):
        if any(live[out.index] for out in eqn.outvars) or must_stay(eqn.primitive.effects):
            kept.append(eqn)
            for atom in eqn.invars:
                if isinstance(atom, Var):
                    live[atom.index] = 1
    if len(kept) == len(jaxpr.eqns):
        return jaxpr
    ctx = Rebuilding(jaxpr.invars)
    env: dict[int, Atom] = dict(enumerate(jaxpr.invars))
    for eqn in reversed(kept):
        ins = read(env, eqn.invars)
        for old, new in zip(eqn.outvars, ctx.again(eqn, ins), strict=True):
            env[old.index] = new
    return ctx.finish(read(env, jaxpr.outvars))


def bottom_up(jaxpr: Jaxpr, change: Callable[[Jaxpr], Jaxpr], before: Callable[[Jaxpr], Jaxpr] | None = None) -> Jaxpr:
    """`change` of a program after the programs within it, at every depth, have been replaced by `change` of them.

    `before` is applied to each program when it is met, before those within it. Both must keep the types of inputs and
    outputs. Each distinct program is changed once, however often it occurs.
    """
    if before is not None:
        jaxpr = before(jaxpr)
    done: dict[Key, Jaxpr] = {}
    path: list[tuple[Jaxpr, Key | None, Iterator[Jaxpr]]] = [(jaxpr, None, iter(jaxpr.inner))]
    while True:
        program, key, children = path[-1]
        for child in children:
            found = key_of(child)
            if found not in done:
                inner = child if before is None else before(child)
                path.append((inner, found, iter(inner.inner)))
                break
        else:
            path.pop()
            result = change(_with_changed(program, done)).named_like(program)
            if key is None:
                return result
            done[key] = result


def _with_changed(jaxpr: Jaxpr, done: dict[Key, Jaxpr]) -> Jaxpr:
    """The program with others in the place of those within it."""
    if all(done[key_of(program)] is program for program in jaxpr.inner):
        return jaxpr
    now: dict[int, Primitive] = {}  # by the identity of primitives, of which a program has few
    for primitive in {id(eqn.primitive): eqn.primitive for eqn in jaxpr.eqns}.values():
        if holds_programs(primitive):
            found = map_programs(primitive, lambda program: done[key_of(program)])
            if found is not primitive:
                now[id(primitive)] = found
    if not now:
        return jaxpr
    eqns = [
        Eqn(now[id(eqn.primitive)], eqn.invars, eqn.outvars, eqn.source) if id(eqn.primitive) in now else eqn
        for eqn in jaxpr.eqns
    ]
    return well_typed(Jaxpr(jaxpr.invars, tuple(eqns), jaxpr.outvars, names=jaxpr.names))


def on_closed(program: ClosedJaxpr, change: Callable[[Jaxpr], Jaxpr]) -> ClosedJaxpr:
    """A closed program, changed by what keeps the inputs."""
    jaxpr = change(program.jaxpr)
    return program if jaxpr is program.jaxpr else ClosedJaxpr(jaxpr.named_like(program.jaxpr), program.consts)
