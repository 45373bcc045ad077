"""What the types of values within `shard_map` are asked about the axes of its mesh: see `ir.varying`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Protocol, final

from attrs import evolve, field, frozen

from tinyjax.deferred import ON_NO_MESH
from tinyjax.ir.shapes import Axes, Shape, as_axes, marked

if TYPE_CHECKING:
    from tinyjax.ir.aval import ShapedArray
    from tinyjax.meshes.named import NamedSharding


class WithManualAxes(Protocol):
    """A mesh."""

    @property
    def manual_axes(self) -> tuple[str, ...]: ...


def _as_names(names: AbstractSet[str]) -> frozenset[str]:
    return frozenset(as_axes(names))


@final
@frozen(kw_only=True)
class ManualAxisType:
    """What the type of a value within `shard_map` says along axes of its mesh: each device has its own, a term of a sum
    yet to be made, or the result of one. Source: JAX.

    Raises:
      TypingError: a TypeError, where it says two things along an axis.

    >>> ManualAxisType(varying={"x"}, unreduced={"y"}).to_ct_mat().reduced
    frozenset({'y'})
    """

    varying: frozenset[str] = field(default=frozenset(), converter=_as_names)
    unreduced: frozenset[str] = field(default=frozenset(), converter=_as_names)
    reduced: frozenset[str] = field(default=frozenset(), converter=_as_names)

    def __attrs_post_init__(self) -> None:
        marked(as_axes(self.varying), as_axes(self.unreduced), as_axes(self.reduced))

    @property
    def vur(self) -> frozenset[str]:
        """All axes of which it says something."""
        return self.varying | self.unreduced | self.reduced

    @property
    def empty(self) -> bool:
        """Whether it says nothing."""
        return not self.vur

    def invarying(self, mesh: WithManualAxes) -> frozenset[str]:
        """The Manual axes of a mesh of which it says nothing: all devices along them have the same."""
        return frozenset(mesh.manual_axes) - self.vur

    def to_ct_mat(self) -> ManualAxisType:
        """The same of cotangents: what is reduced is unreduced there, and the other way round."""
        return evolve(self, unreduced=self.reduced, reduced=self.unreduced)

    def update(
        self,
        *,
        varying: AbstractSet[str] | None = None,
        unreduced: AbstractSet[str] | None = None,
        reduced: AbstractSet[str] | None = None,
    ) -> ManualAxisType:
        """The same but for what is given."""
        return ManualAxisType(
            varying=self.varying if varying is None else varying,
            unreduced=self.unreduced if unreduced is None else unreduced,
            reduced=self.reduced if reduced is None else reduced,
        )


class AlongAxes:
    """A type of arrays that says something along axes of a mesh."""

    __slots__ = ()

    shape: Shape
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
    def sharding(self) -> NamedSharding:
        """That of an array on no mesh: none of its axes is divided."""
        return ON_NO_MESH.use(len(self.shape))

    @property
    def manual_axis_type(self) -> ManualAxisType:
        """All that it says, by JAX's names."""
        return ManualAxisType(
            varying=frozenset(self.varying), unreduced=frozenset(self.unreduced), reduced=frozenset(self.reduced)
        )

    @property
    def mat(self) -> ManualAxisType:
        """`manual_axis_type`, short."""
        return self.manual_axis_type

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
