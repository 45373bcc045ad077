"""How the results of a program lie that is for a mesh with Explicit axes. Needs no jax at import."""

from __future__ import annotations

from collections.abc import Sequence

from tinyjax.caching import bounded
from tinyjax.ir.program import Jaxpr
from tinyjax.meshes import Mesh, NamedSharding, PartitionSpec, Sharding
from tinyjax.propagation.propagate import propagate
from tinyjax.propagation.specs import Open, lies_as, named_spec, partition_spec


@bounded(4096)
def explicit_results(
    jaxpr: Jaxpr, ins: tuple[NamedSharding, ...], asked: tuple[NamedSharding | None, ...], mesh: Mesh
) -> tuple[NamedSharding | None, ...]:
    """How results lie of which nothing is asked: as the program says along the Explicit axes of the mesh, or None.

    A ShardingTypeError if it has to say how one of them lies, and doesn't.
    """
    specs = [lies_as(sharding, aval.ndim, mesh) for sharding, aval in zip(ins, jaxpr.in_avals, strict=True)]
    outs: list[NamedSharding | None] = []
    for lies, said in zip(propagate(jaxpr, specs, mesh), asked, strict=True):
        if said is not None:
            outs.append(said)
        elif isinstance(lies, Open):
            if lies.error is not None:
                raise lies.error
            outs.append(None)
        else:
            outs.append(NamedSharding(mesh, partition_spec(lies, mesh)))
    return tuple(outs)


def explicit_types(
    jaxpr: Jaxpr, lie: Sequence[Sharding | None], asked: Sequence[Sharding | None]
) -> list[NamedSharding | None]:
    """How results lie along the Explicit axes of the mesh on which inputs `lie`, or as it is asked; None where that is
    left to XLA. Empty if there are no such axes."""
    mesh = next((s.mesh.abstract_mesh for s in lie if isinstance(s, NamedSharding) and s.mesh.explicit_axes), None)
    if mesh is None:
        return []
    whole = NamedSharding(mesh, PartitionSpec())
    specs = [
        lies_as(sharding if isinstance(sharding, NamedSharding) else whole, aval.ndim, mesh)
        for sharding, aval in zip(lie, jaxpr.in_avals, strict=True)
    ]
    found: list[NamedSharding | None] = []
    for lies, said in zip(propagate(jaxpr, specs, mesh), asked or (None,) * len(jaxpr.outvars), strict=True):
        if isinstance(said, NamedSharding):
            found.append(said.abstract)
        else:
            found.append(None if isinstance(lies, Open) else NamedSharding(mesh, named_spec(lies)))
    return found
