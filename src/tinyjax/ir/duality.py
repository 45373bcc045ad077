"""What the types of values within `shard_map` are asked about the axes of its mesh: see `ir.varying`."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from tinyjax.ir.shapes import Axes, marked

if TYPE_CHECKING:
    from tinyjax.ir.aval import ShapedArray


class AlongAxes:
    """A type that says something along axes of a mesh."""

    __slots__ = ()

    varying: Axes
    unreduced: Axes
    reduced: Axes

    def all_axes(self) -> Axes:
        """What it says along all of them, as the rules of `ir.varying` take it."""
        return marked(self.varying, self.unreduced, self.reduced) if self.unreduced or self.reduced else self.varying

    @property
    def vma(self) -> frozenset[str]:
        """`varying` by its name in JAX: the manual axes of a mesh along which the value varies."""
        return frozenset(self.varying)

    @property
    @abstractmethod
    def tangent(self) -> ShapedArray:
        """The type of tangents."""

    @property
    def cotangent(self) -> ShapedArray:
        """The type of cotangents: that of tangents, but that of what all devices have they may have terms each, and
        the other way round."""
        tangent = self.tangent
        if not (self.unreduced or self.reduced):
            return tangent
        return tangent.varying_over(marked(self.varying, self.reduced, self.unreduced))
