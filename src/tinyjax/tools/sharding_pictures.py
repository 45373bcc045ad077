"""How arrays lie on meshes, as pictures that show themselves."""

from __future__ import annotations

from collections.abc import Sequence

from tinyjax.errors import InputError
from tinyjax.meshes.pictures import ShardingPicture
from tinyjax.meshes.sharding import Sharding
from tinyjax.tracing.array import Array


def sharding_picture(what: Array | Sequence[int], sharding: Sharding | None = None) -> ShardingPicture:
    """How an array lies on devices, or how one of a shape would lie: boxes of characters in a terminal, a table of
    colours in a notebook. `debug.visualize_sharding` prints the same.

    Args:
      what: the array; or a shape.
      sharding: how it lies; None for an array that lies somewhere.

    Raises:
      ShardingError: a ValueError, if an array of this shape can't lie so.
      InputError: a TypeError, for a shape without a sharding.

    >>> from tinyjax.sharding import AbstractMesh, NamedSharding, PartitionSpec
    >>> picture = sharding_picture(
    ...     (8,), NamedSharding(AbstractMesh((2, 2), ("x", "y")), PartitionSpec("x"))
    ... )
    >>> picture
    (8,) by P('x',) on Mesh('x': 2, 'y': 2): each device has (4,)
    <BLANKLINE>
    ┌──────────┬──────────┐
    │device 0,1│device 2,3│
    └──────────┴──────────┘
    <BLANKLINE>
    replicated along 'y' (2): the devices of a box have the same
    """
    if sharding is None:
        if not isinstance(what, Array):
            raise InputError(
                "a picture of a shape needs a sharding: sharding_picture((8, 6), NamedSharding(mesh, P('x')))"
            )
        return ShardingPicture(what.shape, what.sharding)
    return ShardingPicture(what.shape if isinstance(what, Array) else what, sharding)
