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

    def read(atom: Atom) -> Atom:
        return env[atom.index] if isinstance(atom, Var) else atom

    def where(atom: Atom) -> Lies:
        return lies[atom.index] if isinstance(atom, Var) else replicated(atom.aval)

    for eqn in jaxpr.eqns:
        operands, primitive = [where(atom) for atom in eqn.invars], _within(eqn, lies, mesh)
        args = tuple(map(read, eqn.invars))
        grown.cursor.source = eqn.source
        if isinstance(primitive, ShardingConstraint):
            terms = primitive.sharding.spec.unreduced
            if terms.difference(unreduced_of(operands[0])) and eqn.outvars[0].index not in sums.made:
                args = (as_terms(grown, args[0], operands[0], terms, mesh),)
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
            env += grown.bind(ShardingConstraint(NamedSharding(left, partition_spec(spec, mesh))), told)
    results = list(map(read, jaxpr.outvars))
    for i, (sharding, atom) in enumerate(zip(asked, jaxpr.outvars, strict=False)):
        terms = frozenset() if sharding is None else sharding.spec.unreduced
        if sharding is not None and terms.difference(unreduced_of(where(atom))):
            told = as_terms(grown, results[i], where(atom), terms, mesh)
            (results[i],) = grown.bind(ShardingConstraint(NamedSharding(left, sharding.spec)), told)
    return grown.finish(results)


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
