"""Programs that say of each value how it lies along Explicit axes: what is lowered."""

from __future__ import annotations

from collections.abc import Sequence

from tinyjax.caching import bounded
from tinyjax.ir.dtypes import KEYS
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Literal, Var
from tinyjax.meshes.mesh import AbstractMesh, Mesh
from tinyjax.meshes.named import NamedSharding
from tinyjax.primitives.resharding import ShardingConstraint
from tinyjax.propagation.propagate import lies_of_variables
from tinyjax.propagation.specs import Lies, Open, divided, lies_as, partition_spec, replicated
from tinyjax.transforms.rebuild import Rebuilding


def with_what_is_known(
    jaxpr: Jaxpr, ins: Sequence[NamedSharding | None], outs: Sequence[NamedSharding | None]
) -> Jaxpr:
    """The program, in which a constraint says of each value how it lies, as far as it follows from how the inputs lie.
    Itself, if they are on no mesh with Explicit axes."""
    for sharding in (*ins, *outs):
        if sharding is not None and sharding.mesh.explicit_axes:
            return _said(jaxpr, tuple(ins), sharding.mesh)
    return jaxpr


@bounded(256)
def _said(jaxpr: Jaxpr, ins: tuple[NamedSharding | None, ...], mesh: Mesh) -> Jaxpr:
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
    lies = lies_of_variables(jaxpr, known, mesh)
    left = AbstractMesh(mesh.axis_sizes, mesh.axis_names)
    grown = Rebuilding(jaxpr.invars, jaxpr.names)
    env: list[Atom] = list(grown.invars)

    def read(atom: Atom) -> Atom:
        return env[atom.index] if isinstance(atom, Var) else atom

    for eqn in jaxpr.eqns:
        outs = grown.again(eqn, tuple(map(read, eqn.invars)))
        matters = _divides(eqn, lies) and not isinstance(eqn.primitive, ShardingConstraint)
        grown.cursor.source = eqn.source
        for out, var in zip(outs, eqn.outvars, strict=True):
            spec = lies[var.index]
            if matters and not isinstance(spec, Open) and var.aval.dtype not in KEYS:
                sharding = NamedSharding(left, partition_spec(spec, mesh))
                env += grown.bind(ShardingConstraint(sharding), out)
            else:
                env.append(out)
    return grown.finish(list(map(read, jaxpr.outvars)))


def _divides(eqn: Eqn, lies: Sequence[Lies]) -> bool:
    """Whether an operand or a result is divided."""
    found = [lies[atom.index] for atom in (*eqn.invars, *eqn.outvars) if not isinstance(atom, Literal)]
    return any(not isinstance(each, Open) and divided(each) for each in found)
