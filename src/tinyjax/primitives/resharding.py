"""How a value lies on a mesh, said within a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar, final

from attrs import evolve, frozen
from typing_extensions import override

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.primitive import BatchAxis, UndefPrimal, Zero
from tinyjax.meshes import NamedSharding
from tinyjax.meshes.spec import UNCONSTRAINED
from tinyjax.primitives.structure import Linear, check_arity

V = TypeVar("V")


@final
@frozen
class ShardingConstraint(Linear):
    """The operand, which lies on the mesh as `sharding` says; XLA moves what lies otherwise. So do tangents and
    cotangents, which are unreduced where it is reduced, and the other way round. Axes of the mesh along which devices
    are a `shard_map`'s own must not be named.

    >>> from tinyjax.meshes import AbstractMesh, PartitionSpec
    >>> constraint = ShardingConstraint(NamedSharding(AbstractMesh((4,), ("x",)), PartitionSpec("x")))
    >>> print(*constraint.type_of(ShapedArray((8, 2), "float32")))
    f32[8,2]
    """

    sharding: NamedSharding
    name: ClassVar[str] = "sharding_constraint"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 1)
        self.sharding.check(avals[0].shape, f"{self.name}: the operand {avals[0]}")
        return avals

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        return args

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        """The batch is divided along the mesh axes that `vmap` was given for it, or else as XLA likes."""
        (at,), parts = axes, [*self.sharding.spec.partitions]
        if at is None:
            return ctx.bind(self, *args), axes
        parts += [None] * (at - len(parts))
        parts.insert(at, axis.spmd or UNCONSTRAINED)
        sharding = self.sharding.with_spec(self.sharding.spec.update(parts))
        return ctx.bind(evolve(self, sharding=sharding), *args), axes

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        (ct,) = cotangents
        dual = evolve(self, sharding=self.sharding.with_spec(self.sharding.spec.dual))
        return [ct] if isinstance(ct, Zero) else ctx.bind(dual, ct)
