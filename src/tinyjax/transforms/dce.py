"""Removal of what nothing reads: equations, and within calls, branches and loops also results, operands and carries."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress, count
from typing import Final, Generic, final, overload

from attrs import frozen

from tinyjax.caching import remembered
from tinyjax.ir.effects import must_stay
from tinyjax.ir.holding import AnyProgram, HoldsProgram, ProgramT, as_closed, changed
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.printing.shown import Record
from tinyjax.ir.program import Atom, ClosedJaxpr, Eqn, Jaxpr, Var
from tinyjax.ir.rules import RuleTable
from tinyjax.ir.traverse import holds_programs, map_programs
from tinyjax.ir.verify import verify
from tinyjax.transforms.arguments import marks as marks_each
from tinyjax.transforms.forms import Form
from tinyjax.transforms.rebuild import Rebuilding, count_vars, read


@final
@frozen(repr=False)
class PrunedProgram(Record, Generic[Form]):
    """A program without what some of its outputs don't need.

    `jaxpr` takes the inputs marked in `used_inputs`, and returns the outputs that were asked for.
    """

    jaxpr: Form
    used_inputs: tuple[bool, ...]


@final
@frozen
class PrunedPrimitive:
    """What can stand in the place of a primitive some of whose outputs nothing reads.

    `primitive` takes the operands marked in `used_inputs`, and returns the outputs marked in `outputs`: at least those
    that are read.
    """

    primitive: Primitive
    used_inputs: tuple[bool, ...]
    outputs: tuple[bool, ...]


#: How primitives with programs do without some of their outputs. A rule takes the primitive, then which outputs are
#: read. Without a rule, all outputs and operands stay, and the programs are cleaned up within.
PRUNING: Final[RuleTable[[tuple[bool, ...]], PrunedPrimitive]] = RuleTable("Pruning", name="tinyjax.transforms.PRUNING")


def dce(program: ProgramT) -> ProgramT:
    """The program without the equations that no output depends on. The inputs stay; so do equations with effects.

        { lambda ; a:f64[]. let b:f64[] = sin a; c:f64[] = cos a in (c,) }
        { lambda ; a:f64[]. let b:f64[] = cos a in (b,) }

    It looks into programs within the program: results that nothing reads and operands that nothing needs disappear from
    calls and branches, and so do carries that only serve themselves from loops. A program that is called several times
    is called in as many versions as different results of it are read. A closed program also loses constants.
    """
    return changed(program, "dce", _cleaned, _closed)


def _cleaned(jaxpr: Jaxpr) -> Jaxpr:
    return swept(jaxpr, (True,) * len(jaxpr.outvars), (True,) * len(jaxpr.invars)).jaxpr


def _closed(program: ClosedJaxpr) -> ClosedJaxpr:
    n = len(program.consts)
    keep = tuple(i >= n for i in range(len(program.jaxpr.invars)))
    found = swept(program.jaxpr, (True,) * len(program.jaxpr.outvars), keep)
    if found.jaxpr is program.jaxpr:
        return program
    used = found.used_inputs
    return ClosedJaxpr(found.jaxpr, tuple(compress(program.consts, used)))


@overload
def prune(
    jaxpr: Jaxpr, used_outputs: Sequence[bool], keep_inputs: Sequence[bool] | None = None
) -> PrunedProgram[Jaxpr]: ...
@overload
def prune(
    jaxpr: ClosedJaxpr | HoldsProgram, used_outputs: Sequence[bool], keep_inputs: Sequence[bool] | None = None
) -> PrunedProgram[ClosedJaxpr]: ...
def prune(
    jaxpr: AnyProgram, used_outputs: Sequence[bool], keep_inputs: Sequence[bool] | None = None
) -> PrunedProgram[Jaxpr] | PrunedProgram[ClosedJaxpr]:
    """The part of a program that the marked outputs need.

        { lambda ; a:f64[] b:f64[]. let c:f64[] = sin a; d:f64[] = cos b in (c, d) }        # only d is used
        { lambda ; a:f64[]. let b:f64[] = cos a in (b,) }

    Inputs that it doesn't need disappear, but for those marked in `keep_inputs`, and so do constants of a closed
    program; effects stay.
    """
    if not isinstance(jaxpr, Jaxpr):
        closed = as_closed(jaxpr, "prune")
        verify(closed)
        n, m = len(closed.consts), len(closed.in_avals)
        marks = (
            (False,) * m if keep_inputs is None else marks_each("prune: keep_inputs", keep_inputs, m, "inputs", closed)
        )
        pruned = prune(closed.jaxpr, used_outputs, (*[False] * n, *marks))
        consts = tuple(compress(closed.consts, pruned.used_inputs))
        named = pruned.jaxpr.named_by(closed.jaxpr.names_at(list(compress(count(), pruned.used_inputs))))
        return PrunedProgram(ClosedJaxpr(named, consts), pruned.used_inputs[n:])
    verify(jaxpr)
    used = marks_each("prune: used_outputs", used_outputs, len(jaxpr.outvars), "outputs")
    keep = (False,) * len(jaxpr.invars) if keep_inputs is None else keep_inputs
    found = _prune(jaxpr, used, marks_each("prune: keep_inputs", keep, len(jaxpr.invars), "inputs", jaxpr))
    # What is remembered may be that of an equal program: nothing has changed then either.
    return PrunedProgram(jaxpr, found.used_inputs) if found.jaxpr == jaxpr else found


@remembered
def _prune(jaxpr: Jaxpr, used: tuple[bool, ...], keep: tuple[bool, ...]) -> PrunedProgram:
    return swept(jaxpr, used, keep)


def swept(jaxpr: Jaxpr, used: tuple[bool, ...], keep: tuple[bool, ...]) -> PrunedProgram:
    """What `prune` says, at once."""
    live = bytearray(count_vars(jaxpr))
    for atom, mark in zip(jaxpr.outvars, used, strict=True):
        if mark and isinstance(atom, Var):
            live[atom.index] = 1
    kept = read_equations(jaxpr.eqns, live)
    used_inputs = tuple([mark or live[i] == 1 for i, mark in enumerate(keep)])
    if kept is jaxpr.eqns and all(used) and all(used_inputs):
        return PrunedProgram(jaxpr, used_inputs)
    outs = [atom for atom, mark in zip(jaxpr.outvars, used, strict=True) if mark]
    return PrunedProgram(_rebuilt(jaxpr, used_inputs, kept, outs), used_inputs)


def read_equations(eqns: Sequence[Eqn], live: bytearray) -> Sequence[Eqn]:
    """Those of these equations that variables depend on which are `live`, by their numbers, or that have effects; what
    they read is live afterwards. They bind the same variables as before, but for results of programs that nothing
    reads. The very same equations, if nothing changes."""
    kept: list[Eqn] = []  # the last one first
    changed = False
    for eqn in reversed(eqns):
        for out in eqn.outvars:
            if live[out.index]:
                break
        else:
            if not must_stay(eqn.primitive.effects):
                changed = True
                continue
        found = _read_part(eqn, live) if holds_programs(eqn.primitive) else eqn
        changed = changed or found is not eqn
        kept.append(found)
        for atom in found.invars:
            if isinstance(atom, Var):
                live[atom.index] = 1
    return kept[::-1] if changed else eqns


def _read_part(eqn: Eqn, live: bytearray) -> Eqn:
    """What is left of an equation with programs; itself, if that is all."""
    pruned = _pruned(eqn.primitive, tuple([live[out.index] == 1 for out in eqn.outvars]), len(eqn.invars))
    if pruned.primitive is eqn.primitive:
        return eqn
    ins, outs = compress(eqn.invars, pruned.used_inputs), compress(eqn.outvars, pruned.outputs)
    return Eqn(pruned.primitive, tuple(ins), tuple(outs), eqn.source)


def _pruned(primitive: Primitive, read: tuple[bool, ...], num_operands: int) -> PrunedPrimitive:
    rule = PRUNING.find(type(primitive))
    if rule is not None:
        return rule(primitive, read)
    cleaned = map_programs(primitive, cleaned_up)
    return PrunedPrimitive(cleaned, (True,) * num_operands, (True,) * len(read))


def cleaned_up(jaxpr: Jaxpr) -> Jaxpr:
    """`dce` of a program within another one, remembered."""
    return prune(jaxpr, (True,) * len(jaxpr.outvars), (True,) * len(jaxpr.invars)).jaxpr


def _rebuilt(jaxpr: Jaxpr, used_inputs: Sequence[bool], eqns: Sequence[Eqn], outs: Sequence[Atom]) -> Jaxpr:
    """The program of these inputs, equations and outputs."""
    inputs = [var for var, mark in zip(jaxpr.invars, used_inputs, strict=True) if mark]
    new = [var if var.index == i else Var(i, var.aval) for i, var in enumerate(inputs)]
    ctx = Rebuilding(new, jaxpr.names_at([var.index for var in inputs]))
    env: dict[int, Atom] = {old.index: var for old, var in zip(inputs, new, strict=True)}
    for eqn in eqns:
        results = ctx.again(eqn, read(env, eqn.invars))
        for old, var in zip(eqn.outvars, results, strict=True):
            env[old.index] = var
    return ctx.finish(read(env, outs))
