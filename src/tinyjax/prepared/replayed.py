"""Functions that are made of several primitives, within transformations: what one has done is done again.

Such a function depends on nothing but the types of its operands and on small other arguments. So where it was traced
before, nothing has to be promoted, broadcast or looked up: its primitives are applied to the operands, one after
the other, in the same context and from the same line of user code as if it were called. Nobody sees a difference:
programs have the same equations.

It is called as it is, where anything is in doubt: if operands belong to several transformations, if somebody
watches, if a mesh or another default is in force, and if it does more than apply primitives without programs
and effects to what depends on its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

import numpy as np
from attrs import frozen

from tinyjax.caching import PlainCache, register
from tinyjax.contexts.literals import literal_value
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.interpret import interpret
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Literal, Var
from tinyjax.ir.program_value import well_typed
from tinyjax.ir.traverse import holds_programs
from tinyjax.ir.value import ConcreteValue
from tinyjax.prepared.stored_array import StoredArray

if TYPE_CHECKING:
    from tinyjax.prepared.functions import FunctionProgram, Stager
    from tinyjax.prepared.straight import Assemble
    from tinyjax.tracing.core import TraceFrame, Tracer

V = TypeVar("V")

#: Arguments other than arrays that a function may depend on: what can be told apart by type and value.
STATIC: Final = frozenset({int, bool, str, type(None), type})


def are_integers(xs: object) -> bool:
    return isinstance(xs, tuple) and all(type(x) is int for x in xs)


@final
@frozen(eq=False)
class Replay:
    """What a function does with operands of certain types: a program whose first inputs are numbers, and these. Their
    uses are inputs, not literals, so that a context is given them as it is if the function is called."""

    jaxpr: Jaxpr
    numbers: tuple[ConcreteValue, ...]
    #: What puts the results together; None if it returns an array alone.
    assemble: Assemble | None
    #: Whether something in it depends on no operand, and so belongs to the innermost context that interprets constants.
    has_constants: bool


@final
@frozen(eq=False)
class _Met:
    """A function that was called with operands of these types: what it does, if it has been looked at and can be
    replayed. `kept` is what the key identifies."""

    kept: tuple[object, ...]
    replay: Replay | None = None
    looked_at: bool = False


_MET: Final[PlainCache[tuple[object, ...], _Met]] = PlainCache(8192, "prepared.replayed")
register(_MET)


def replayed(
    frame: TraceFrame[V],
    traced: type[Tracer[V]],
    stage: Stager,
    function: Callable[..., object],
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
) -> Any:  # what the function returns
    """The result of a function in a transformation in progress; None if it has to be called: it is called at first, as
    that costs less than to look what it does."""
    if frame.watcher is not None or frame.mesh is not None or frame.defaults is not None:
        return None
    key: list[object] = [function, *kwargs]
    kept: list[ShapedArray] = []
    values: list[V] = []
    for arg in (*args, *kwargs.values()):
        cls = type(arg)
        if cls in STATIC or isinstance(arg, np.dtype) or (cls is tuple and are_integers(arg)):
            key.append(cls)
            key.append(arg)
        elif isinstance(arg, StoredArray):
            number = arg.host
            if number is None or number.shape:
                return None
            key.append(id(arg.aval))
            key.append(number.tobytes())
            kept.append(arg.aval)
        elif isinstance(arg, traced):
            if arg.frame is not frame:
                return None
            key.append(id(arg.aval))
            kept.append(arg.aval)
            values.append(arg.value)
        else:
            return None
    if not values:
        return None
    known = tuple(key)
    met = _MET.entries.get(known)
    if met is None:
        _MET.put(known, _Met((function, *kept)))
        return None
    if not met.looked_at:
        program = stage(function, args, kwargs)
        met = _Met(met.kept, None if program is None else replay_of(program), True)
        _MET.entries[known] = met
    replay = met.replay
    if replay is None or (replay.has_constants and frame.base is not frame):
        return None
    context = frame.context
    position = context.cursor.position
    source = position.source
    if source is None:
        position.source = position.user_line()
    try:
        outs = interpret(context, replay.jaxpr, [*map(context.constant, replay.numbers), *values])
    finally:
        position.source = source
    return frame.wrap(outs[0]) if replay.assemble is None else replay.assemble(list(map(frame.wrap, outs)))


def replay_of(program: FunctionProgram) -> Replay | None:
    """How a program is applied again; None if that could make a difference."""
    jaxpr = program.jaxpr
    if program.captured or any(aval.axes for aval in jaxpr.in_avals):
        return None
    if any(isinstance(out, Literal) for out in jaxpr.outvars):
        return None
    depends = {var.index for var in jaxpr.invars}
    has_constants = False
    literals: dict[Literal, Var] = {}
    for eqn in jaxpr.eqns:
        primitive = eqn.primitive
        if not primitive.built_in or primitive.effects or holds_programs(primitive):
            return None
        if any(isinstance(atom, Var) and atom.index in depends for atom in eqn.invars):
            depends.update([var.index for var in eqn.outvars])
        else:
            has_constants = True
        for atom in eqn.invars:
            if isinstance(atom, Literal) and atom not in literals:
                literals[atom] = Var(len(literals), atom.aval)
    n = len(literals)

    def bound(var: Var) -> Var:
        return Var(n + var.index, var.aval)

    def read(atom: Atom) -> Var:
        return literals[atom] if isinstance(atom, Literal) else bound(atom)

    # Without lines: all of it comes from the one that calls the function.
    eqns = [Eqn(eqn.primitive, tuple(map(read, eqn.invars)), tuple(map(bound, eqn.outvars))) for eqn in jaxpr.eqns]
    invars = (*literals.values(), *map(bound, jaxpr.invars))
    numbered = well_typed(Jaxpr(invars, tuple(eqns), tuple(map(read, jaxpr.outvars))))
    return Replay(numbered, tuple(map(literal_value, literals)), program.assemble, has_constants)
