"""How the results of compiled programs lie. Imports jax: to be imported at first need."""

from __future__ import annotations

from collections.abc import Sequence

import jax
from jax._src.sharding_impls import parse_flatten_op_sharding
from jaxlib import _jax
from jaxlib.xla_client import HloSharding

from tinyjax.backend.layouts import Layout
from tinyjax.backend.shardings import spec_of
from tinyjax.ir.aval import ShapedArray
from tinyjax.meshes import NamedSharding, PartitionSpec


class UnnamedError(Exception):
    """XLA has a result as no axes of the mesh divide it, or as terms of a sum. `spec`: how it is to lie instead."""

    def __init__(self, result: int, spec: PartitionSpec) -> None:
        super().__init__(result, spec)
        self.result: int = result
        self.spec: PartitionSpec = spec


def is_open(sharding: NamedSharding | None) -> bool:
    """Whether XLA chooses how a result lies, at least in part."""
    return sharding is None or sharding.spec.open


def chosen_by_xla(
    loaded: _jax.LoadedExecutable,
    layout: Layout,
    mesh: jax.sharding.Mesh | jax.sharding.AbstractMesh,
    out_avals: Sequence[ShapedArray],
    in_shardings: Sequence[NamedSharding],
    in_avals: Sequence[ShapedArray] = (),
) -> tuple[NamedSharding, ...]:
    """How the results lie: as it was asked for, else as XLA has chosen, spelled as for an argument that lies alike.

    `mesh` is that of the layout as jax's. An UnnamedError if one can't be said in its names.
    """
    bind = layout.bound if layout.devices is not None else NamedSharding.update
    if not any(map(is_open, layout.outs)):
        return tuple([bind(sharding) for sharding in layout.outs if sharding is not None])
    said = loaded.get_output_shardings()
    replicated = bind(NamedSharding(layout.mesh, PartitionSpec()))
    found: list[NamedSharding] = []
    for i, (aval, asked) in enumerate(zip(out_avals, layout.outs, strict=True)):
        if asked is not None and not is_open(asked):
            found.append(bind(asked))
        elif said is None:  # of one device it says nothing
            beside = (s for s, x in zip(in_shardings, in_avals, strict=False) if s.spec and x.ndim == aval.ndim)
            found.append(next((s for s in beside if s.mesh.size == 1 and not s.mesh.explicit_axes), replicated))
        else:
            try:
                (spec,) = parse_flatten_op_sharding(HloSharding.from_proto(said[i]), mesh)
            except Exception as error:  # of several kinds, some of them private
                raise UnnamedError(i, PartitionSpec()) from error
            # Nobody has said that it may be a sum that somebody else makes. For jax 0.11 that is a part more.
            if spec.unreduced or len(spec) > aval.ndim:
                raise UnnamedError(i, PartitionSpec(*spec_of(spec).partitions[: aval.ndim]))
            whole = replicated if asked is None else bind(asked).padded(aval.ndim)
            chosen = whole.with_spec(_with_asked(spec_of(spec), asked)).padded(aval.ndim)
            alike = [] if chosen.mesh.explicit_axes else [s for s in in_shardings if not s.mesh.explicit_axes]
            fitting = (s for s in alike if len(s.spec.partitions) <= aval.ndim)
            found.append(next((s for s in fitting if s.is_equivalent_to(chosen, aval.ndim)), chosen))
    return tuple(found)


def _with_asked(spec: PartitionSpec, asked: NamedSharding | None) -> PartitionSpec:
    """What XLA says, with the axes that it was asked for: of those of size 1 it says nothing."""
    said = () if asked is None else asked.spec.names
    if asked is None or {*said} <= {*spec.names}:
        return spec
    ndim = max(len(spec), len(asked.spec))
    pairs = zip(*[(*each.axes, *((),) * ndim)[:ndim] for each in (asked.spec, spec)], strict=True)
    return spec.update([(*first, *[name for name in others if name not in said]) for first, others in pairs])
