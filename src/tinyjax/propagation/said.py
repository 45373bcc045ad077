"""Programs that say of each value how it lies along Explicit axes: what is lowered."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from tinyjax.caching import bounded
from tinyjax.control.shard_map import ShardMap
from tinyjax.ir.dtypes import KEYS
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Literal, Var
from tinyjax.ir.shapes import as_axes, marked
from tinyjax.ir.traverse import map_programs, nested_programs, subjaxprs
from tinyjax.meshes.mesh import AbstractMesh, AxisType, Mesh
from tinyjax.meshes.named import NamedSharding
from tinyjax.meshes.spec import PartitionSpec
from tinyjax.primitives.gather import ScatterAdd
from tinyjax.primitives.resharding import ShardingConstraint
from tinyjax.primitives.structure import full
from tinyjax.propagation.carried import Crossing, crossing, said, stacked, told, unstacked
from tinyjax.propagation.control import PROGRAMS
from tinyjax.propagation.propagate import lies_of_variables, propagate
from tinyjax.propagation.sinking import sunk
from tinyjax.propagation.specs import (
    Lies,
    Names,
    Open,
    Site,
    Spec,
    divided,
    lies_as,
    lying,
    parts_of,
    pinned,
    replicated,
)
from tinyjax.propagation.summands import unreduced_of
from tinyjax.propagation.terms import LINEAR, Sums, alone, as_terms
from tinyjax.transforms.rebuild import Rebuilding


def with_what_is_known(
    jaxpr: Jaxpr, ins: Sequence[NamedSharding | None], outs: Sequence[NamedSharding | None]
) -> Jaxpr:
    """The program, in which a constraint says of each value how it lies, as far as it follows from how the inputs lie.
    Itself, if they are on no mesh with Explicit axes, and nothing in it is said to be a sum yet to be made."""
    for sharding in (*ins, *outs):
        if sharding is not None and sharding.mesh.explicit_axes:
            return _said(jaxpr, tuple(ins), tuple(outs), sharding.mesh)
    mesh = _mesh_of_sums(jaxpr)
    return jaxpr if mesh is None else _said(jaxpr, tuple(ins), tuple(outs), mesh)


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
    if whole:
        jaxpr = sunk(jaxpr, ins, mesh)
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
        return grown.bind(ShardingConstraint(pinned(parts_of(spec), mesh)), read(atom))[0]

    def read(atom: Atom) -> Atom:
        return env[atom.index] if isinstance(atom, Var) else atom

    def where(atom: Atom) -> Lies:
        return lies[atom.index] if isinstance(atom, Var) else replicated(atom.aval)

    def terms_of(atom: Atom, names: frozenset[str]) -> Atom:
        """The value as a sum along these axes, of which devices have the terms."""
        lie, there = where(atom), _index(atom) in held
        if there and not names.difference(unreduced_of(lie)):
            return read(atom)
        return as_terms(grown, read(atom), lie if there or isinstance(lie, Open) else parts_of(lie), names, mesh)

    def taken(atom: Atom, spec: PartitionSpec) -> Atom:
        """An operand of a shard_map that takes it as this specification says."""
        if not spec.unreduced:
            return made(atom)
        x, lie = terms_of(atom, spec.unreduced), where(atom)
        parts: Spec = replicated(atom.aval) if isinstance(lie, Open) else parts_of(lie)
        kept = [tuple([name for name in part if name not in spec.unreduced]) for part in parts]
        # XLA refuses to take terms of what no constraint says that it is a sum.
        return said(grown, x, lying(tuple(kept), marked((), as_axes(sorted(spec.unreduced)), ())), mesh)

    for eqn in jaxpr.eqns:
        operands = [where(atom) for atom in eqn.invars]
        primitive, cross = _within(eqn, operands, lies, mesh) if whole else (_within_a_part(eqn, lies, mesh), None)
        grown.cursor.source = eqn.source
        told_of = [unreduced_of(lies[var.index]) for var in eqn.outvars]
        linear = whole and type(primitive) in LINEAR and all(told_of)
        if cross is not None:
            args: tuple[Atom, ...] = tuple(
                [
                    made(atom) if stack is None else stacked(grown, terms_of(atom, frozenset(stack.names)), stack, mesh)
                    for atom, stack in zip(eqn.invars, cross.operands, strict=True)
                ]
            )
        elif isinstance(primitive, ShardingConstraint):
            args = (read(eqn.invars[0]),)
            terms = primitive.sharding.spec.unreduced
            there = unreduced_of(operands[0]) if _index(eqn.invars[0]) in held else ()
            if terms.difference(there) and eqn.outvars[0].index not in sums.made:
                lie = operands[0] if there or isinstance(operands[0], Open) else parts_of(operands[0])
                args = (as_terms(grown, args[0], lie, terms, mesh),)
            if terms:
                held.add(eqn.outvars[0].index)
        elif whole and isinstance(primitive, ShardMap) and any(spec.unreduced for spec in primitive.in_specs):
            # It takes terms as they are, and on a mesh without Explicit axes nobody makes the sum before.
            pairs = zip(eqn.invars, primitive.in_specs, strict=True)
            args = tuple([taken(atom, spec) for atom, spec in pairs])
            primitive = evolve(primitive, mesh=left)
        elif whole and all(told_of) and not linear and (mapped := _alone(eqn, operands, told_of, mesh)) is not None:
            inputs = [atom for atom in eqn.invars if not isinstance(atom, Literal)]
            each = zip(inputs, mapped.in_specs, strict=True)
            args = tuple([taken(atom, spec) for atom, spec in each])
            primitive = mapped
        else:
            divided_as = sums.operands.get(eqn.outvars[0].index) if eqn.outvars else None
            if divided_as is not None and isinstance(primitive, ScatterAdd):  # zeros may be called a sum
                args = (full(grown, eqn.invars[0].aval, 0), *map(made, eqn.invars[1:]))
            else:
                args = tuple(map(read if linear else made, eqn.invars))
            if divided_as is not None:
                parts = zip(args, operands, divided_as, strict=True)
                args = tuple([x if before == after else said(grown, x, after, mesh) for x, before, after in parts])
        outs: Sequence[Atom] = _applied(grown, eqn, args, primitive, cross)
        matters = whole and _divides(eqn, lies) and not isinstance(primitive, ShardingConstraint)
        gives_terms = type(primitive) in LINEAR or isinstance(primitive, ShardMap)
        for i, (out, var) in enumerate(zip(outs, eqn.outvars, strict=True)):
            spec = lies[var.index]
            if cross is not None and (stack := cross.results[i]) is not None:
                held.add(var.index)
                env.append(unstacked(grown, out, stack, mesh))
                continue
            if isinstance(spec, Open) or not matters or var.aval.dtype in KEYS or var.index in sums.bare:
                env.append(out)
                continue
            told: Atom = out
            if (terms := frozenset(unreduced_of(spec))) and not gives_terms:
                told = as_terms(grown, out, parts_of(spec), terms, mesh)
            if terms:
                held.add(var.index)
            env += grown.bind(ShardingConstraint(pinned(spec, mesh)), told)
    results: list[Atom] = []
    for i, atom in enumerate(jaxpr.outvars):
        sharding = asked[i] if i < len(asked) else None
        terms = frozenset() if sharding is None else sharding.spec.unreduced
        if sharding is None or not terms:
            results.append(made(atom))
        elif _index(atom) in held and not terms.difference(unreduced_of(where(atom))):
            results.append(read(atom))
        else:
            results += grown.bind(ShardingConstraint(NamedSharding(left, sharding.spec)), terms_of(atom, terms))
    return grown.finish(results)


def _index(atom: Atom) -> int | None:
    return atom.index if isinstance(atom, Var) else None


def _alone(eqn: Eqn, operands: Sequence[Lies], results: Sequence[Names], mesh: Mesh) -> ShardMap | None:
    if PROGRAMS.find(type(eqn.primitive)) is not None or any(atom.aval.dtype in KEYS for atom in eqn.invars):
        return None
    return alone(eqn, operands, results, mesh)


def _applied(
    ctx: Rebuilding, eqn: Eqn, args: tuple[Atom, ...], primitive: Primitive, cross: Crossing | None
) -> tuple[Atom, ...]:
    return ctx.again(eqn, args, primitive) if cross is None else ctx.bind(primitive, *args)


def _within(eqn: Eqn, operands: Sequence[Lies], lies: Sequence[Lies], mesh: Mesh) -> tuple[Primitive, Crossing | None]:
    """The primitive of an equation, whose programs say how values lie if there are sums yet to be made in them, and
    which operands and results are handed over as terms."""
    results = [lies[var.index] for var in eqn.outvars]
    if not (any(map(unreduced_of, operands)) or any(map(unreduced_of, results))) or isinstance(
        eqn.primitive, ShardingConstraint | ShardMap
    ):
        return _within_a_part(eqn, lies, mesh), None
    cross = crossing(eqn, operands, results)
    if cross is None:
        return _within_a_part(eqn, lies, mesh), None
    seen = _seen(eqn, operands, mesh)
    return told(
        eqn.primitive, cross, seen, lambda jaxpr, ins, asked: _telling(jaxpr, ins, mesh, asked, True), mesh
    ), cross


def _seen(eqn: Eqn, operands: Sequence[Lies], mesh: Mesh) -> dict[Jaxpr, Sequence[Lies]]:
    """How the inputs of the programs within an equation lie."""
    seen: dict[Jaxpr, Sequence[Lies]] = {}

    def run(jaxpr: Jaxpr, ins: Sequence[Lies]) -> list[Lies]:
        seen[jaxpr] = tuple(ins)
        return propagate(jaxpr, ins, mesh)

    program = PROGRAMS.find(type(eqn.primitive))
    if program is not None:
        program(eqn.primitive, operands, Site(mesh, eqn, ("",) * len(operands)), run)
    return seen


def _within_a_part(eqn: Eqn, lies: Sequence[Lies], mesh: Mesh) -> Primitive:
    """The primitive of an equation, whose programs say the same if there are sums yet to be made in them."""
    primitive = eqn.primitive
    program = PROGRAMS.find(type(primitive))
    if program is None or isinstance(primitive, ShardingConstraint | ShardMap):
        return primitive
    operands = [lies[atom.index] if isinstance(atom, Var) else replicated(atom.aval) for atom in eqn.invars]
    if not any(map(_makes_sums, subjaxprs(primitive))):
        return primitive
    seen = _seen(eqn, operands, mesh)
    return map_programs(
        primitive, lambda jaxpr: _telling(jaxpr, seen[jaxpr], mesh, (), False) if jaxpr in seen else jaxpr
    )


@bounded(1024)
def _mesh_of_sums(jaxpr: Jaxpr) -> Mesh | None:
    """The mesh between whose devices something in a program is a sum yet to be made, with these axes Explicit; None if
    there is no such sum."""
    found = [
        eqn.primitive.sharding
        for program in nested_programs(jaxpr)
        for eqn in program.eqns
        if isinstance(eqn.primitive, ShardingConstraint) and eqn.primitive.sharding.spec.unreduced
    ]
    names = {name for sharding in found for name in sharding.spec.unreduced}
    return found[0].mesh.update_axis_types(dict.fromkeys(names, AxisType.Explicit)) if found else None


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
