"""Programs that say of each value how it lies along Explicit axes: what is lowered."""

from __future__ import annotations

from collections.abc import Sequence

from tinyjax.caching import bounded
from tinyjax.control.shard_map import ShardMap
from tinyjax.ir.dtypes import KEYS
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Literal, Var
from tinyjax.ir.traverse import map_programs, nested_programs, subjaxprs
from tinyjax.meshes.mesh import AbstractMesh, Mesh
from tinyjax.meshes.named import NamedSharding
from tinyjax.primitives.resharding import ShardingConstraint
from tinyjax.propagation.control import PROGRAMS
from tinyjax.propagation.propagate import lies_of_variables, propagate
from tinyjax.propagation.specs import Lies, Open, Site, divided, lies_as, partition_spec, parts_of, replicated
from tinyjax.propagation.terms import LINEAR, Sums, as_terms, unreduced_of
from tinyjax.transforms.rebuild import Rebuilding


def with_what_is_known(
    jaxpr: Jaxpr, ins: Sequence[NamedSharding | None], outs: Sequence[NamedSharding | None]
) -> Jaxpr:
    """The program, in which a constraint says of each value how it lies, as far as it follows from how the inputs lie.
    Itself, if they are on no mesh with Explicit axes."""
    for sharding in (*ins, *outs):
        if sharding is not None and sharding.mesh.explicit_axes:
            return _said(jaxpr, tuple(ins), tuple(outs), sharding.mesh)
    return jaxpr


@bounded(256)
def _said(
    jaxpr: Jaxpr, ins: tuple[NamedSharding | None, ...], outs: tuple[NamedSharding | None, ...], mesh: Mesh
) -> Jaxpr:
    """{ lambda ; a:f64[8]. let b:f64[8] = sin a in (b,) }
    { lambda ; a:f64[8]. let
        b:f64[8] = sin a
        c:f64[8] = sharding_constraint[sharding=NamedSharding(mesh=Mesh('x': 4), spec=P('x',))] b
      in (c,) }
    """
    known = [
        replicated(aval) if sharding is None else lies_as(sharding, aval.ndim, mesh)
        for aval, sharding in zip(jaxpr.in_avals, ins or (None,) * len(jaxpr.invars), strict=True)
    ]
    return _telling(jaxpr, known, mesh, outs, True)


def _telling(
    jaxpr: Jaxpr, ins: Sequence[Lies], mesh: Mesh, asked: Sequence[NamedSharding | None], whole: bool
) -> Jaxpr:
    """The same for inputs that lie so, and results of which this is asked. If it isn't a `whole` program, it only says
    what is a sum yet to be made where it is asked to: how the inputs lie XLA doesn't know there."""
    lies = lies_of_variables(jaxpr, ins, mesh)
    left = AbstractMesh(mesh.axis_sizes, mesh.axis_names)
    sums = Sums(jaxpr, lies)
    grown = Rebuilding(jaxpr.invars, jaxpr.names)
    env: list[Atom] = list(grown.invars)
    #: Of which values devices have terms, and XLA has been told so.
    held = {i for i, var in enumerate(jaxpr.invars) if whole and unreduced_of(lies[i]) and var.aval.dtype not in KEYS}

    def made(atom: Atom) -> Atom:
        """The value as one of which devices have no terms: to be read by what knows of none."""
        spec = where(atom)
        if not isinstance(atom, Var) or atom.index not in held or isinstance(spec, Open):
            return read(atom)
        kept = partition_spec(parts_of(spec), mesh)
        return grown.bind(ShardingConstraint(NamedSharding(left, kept)), read(atom))[0]

    def read(atom: Atom) -> Atom:
        return env[atom.index] if isinstance(atom, Var) else atom

    def where(atom: Atom) -> Lies:
        return lies[atom.index] if isinstance(atom, Var) else replicated(atom.aval)

    for eqn in jaxpr.eqns:
        operands, primitive = [where(atom) for atom in eqn.invars], _within(eqn, lies, mesh)
        grown.cursor.source = eqn.source
        told_of = [unreduced_of(lies[var.index]) for var in eqn.outvars]
        linear = whole and type(primitive) in LINEAR and all(told_of)
        if isinstance(primitive, ShardingConstraint):
            args: tuple[Atom, ...] = (read(eqn.invars[0]),)
            terms = primitive.sharding.spec.unreduced
            there = unreduced_of(operands[0]) if _index(eqn.invars[0]) in held else ()
            if terms.difference(there) and eqn.outvars[0].index not in sums.made:
                lie = operands[0] if there or isinstance(operands[0], Open) else parts_of(operands[0])
                args = (as_terms(grown, args[0], lie, terms, mesh),)
            if terms:
                held.add(eqn.outvars[0].index)
        else:
            args = tuple(map(read if linear else made, eqn.invars))
        outs = grown.again(eqn, args, primitive)
        matters = whole and _divides(eqn, lies) and not isinstance(primitive, ShardingConstraint)
        for out, var in zip(outs, eqn.outvars, strict=True):
            spec = lies[var.index]
            if isinstance(spec, Open) or not matters or var.aval.dtype in KEYS or var.index in sums.bare:
                env.append(out)
                continue
            told: Atom = out
            if (terms := frozenset(unreduced_of(spec))) and type(primitive) not in LINEAR:
                told = as_terms(grown, out, parts_of(spec), terms, mesh)
            if terms:
                held.add(var.index)
            env += grown.bind(ShardingConstraint(NamedSharding(left, partition_spec(spec, mesh))), told)
    results: list[Atom] = []
    for i, atom in enumerate(jaxpr.outvars):
        sharding = asked[i] if i < len(asked) else None
        terms = frozenset() if sharding is None else sharding.spec.unreduced
        if sharding is None or not terms:
            results.append(made(atom))
        elif _index(atom) in held and not terms.difference(unreduced_of(where(atom))):
            results.append(read(atom))
        else:
            lie = where(atom)
            lie = lie if _index(atom) in held or isinstance(lie, Open) else parts_of(lie)
            told = as_terms(grown, read(atom), lie, terms, mesh)
            results += grown.bind(ShardingConstraint(NamedSharding(left, sharding.spec)), told)
    return grown.finish(results)


def _index(atom: Atom) -> int | None:
    return atom.index if isinstance(atom, Var) else None


def _within(eqn: Eqn, lies: Sequence[Lies], mesh: Mesh) -> Primitive:
    """The primitive of an equation, whose programs say the same if there are sums yet to be made in them."""
    primitive = eqn.primitive
    program = PROGRAMS.find(type(primitive))
    if program is None or isinstance(primitive, ShardingConstraint | ShardMap):
        return primitive
    operands = [lies[atom.index] if isinstance(atom, Var) else replicated(atom.aval) for atom in eqn.invars]
    if not any(map(_makes_sums, subjaxprs(primitive))):
        return primitive
    seen: dict[Jaxpr, Sequence[Lies]] = {}

    def run(jaxpr: Jaxpr, ins: Sequence[Lies]) -> list[Lies]:
        seen[jaxpr] = tuple(ins)
        return propagate(jaxpr, ins, mesh)

    program(primitive, operands, Site(mesh, eqn, ("",) * len(operands)), run)
    return map_programs(
        primitive, lambda jaxpr: _telling(jaxpr, seen[jaxpr], mesh, (), False) if jaxpr in seen else jaxpr
    )


@bounded(1024)
def _makes_sums(jaxpr: Jaxpr) -> bool:
    return any(
        isinstance(eqn.primitive, ShardingConstraint) and eqn.primitive.sharding.spec.unreduced
        for program in nested_programs(jaxpr)
        for eqn in program.eqns
    )


def _divides(eqn: Eqn, lies: Sequence[Lies]) -> bool:
    """Whether an operand or a result is divided."""
    found = [lies[atom.index] for atom in (*eqn.invars, *eqn.outvars) if not isinstance(atom, Literal)]
    return any(not isinstance(each, Open) and divided(each) for each in found)
