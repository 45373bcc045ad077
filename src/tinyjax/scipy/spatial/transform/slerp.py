"""What goes evenly from each of several rotations to the next one."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, final  # Any: what a tree is made of

from attrs import frozen

import tinyjax.numpy as tnp
from tinyjax.errors import InputError, ShapeError
from tinyjax.scipy.spatial.transform.rotations import Rotation
from tinyjax.tracebacks import filter_class
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tree.nodes import register_pytree_node_class


@filter_class
@final
@frozen(eq=False)
class Slerp:
    """Rotations at times between those at given times, about a fixed axis from each to the next, and evenly. Made by
    `Slerp.init(times, rotations)`, and called with a time, or several.

    Attributes:
      times: the given times, which rise.
      timedelta: the differences between them.
      rotations: those at these times, but the last one.
      rotvecs: what leads from each to the next.

    >>> import numpy as np
    >>> turn = Slerp.init(
    ...     np.array([0.0, 2.0]), Rotation.from_euler("z", np.array([[0.0], [90.0]]), degrees=True)
    ... )
    >>> tnp.rad2deg(turn(1.0).magnitude()).round(6)
    Array(45., dtype=float64)
    """

    times: Array
    timedelta: Array
    rotations: Rotation
    rotvecs: Array

    def __attrs_post_init__(self) -> None:
        _register()

    @classmethod
    def init(cls, times: ArrayLike, rotations: Rotation) -> Slerp:
        """From rotations at as many times.

        Raises:
          InputError: these aren't rotations.
          ShapeError: there are less than two, or there isn't a time for each.
        """
        if not isinstance(rotations, Rotation):
            raise InputError(f"`rotations` must be a `Rotation` instance, got {type(rotations).__name__}")
        if rotations.single or len(rotations) == 1:
            raise ShapeError("`rotations` must be a sequence of at least 2 rotations.")
        at = tnp.asarray(times, dtype=rotations.quat.dtype)
        if at.ndim != 1:
            raise ShapeError(f"Expected times to be specified in a 1 dimensional array, got {at.ndim} dimensions.")
        if at.shape[0] != len(rotations):
            raise ShapeError(
                "Expected number of rotations to be equal to number of timestamps given, got "
                f"{len(rotations)} rotations and {at.shape[0]} timestamps."
            )
        start = rotations[:-1]
        return cls(at, tnp.diff(at), start, (start.inv() * rotations[1:]).as_rotvec())

    def __call__(self, times: ArrayLike) -> Rotation:
        """The rotation at a time, or those at several; before the first and after the last time it goes on.

        Raises:
          ShapeError: times aren't a number or a vector.
        """
        at = tnp.asarray(times, dtype=self.times.dtype)
        if at.ndim > 1:
            raise ShapeError(f"`times` must be at most 1-dimensional, got {at.aval}")
        last = self.timedelta.shape[0] - 1
        place = tnp.clip(tnp.searchsorted(self.times, at) - 1, 0, last)
        share = (at - self.times[place]) / self.timedelta[place]
        return self.rotations[place] * Rotation.from_rotvec(self.rotvecs[place] * share[..., None])

    def tree_flatten(self) -> tuple[tuple[Array, Array, Rotation, Array], None]:
        """Its arrays and rotations."""
        return (self.times, self.timedelta, self.rotations, self.rotvecs), None

    @classmethod
    def tree_unflatten(cls, aux_data: None, children: Iterable[Any]) -> Slerp:
        """One of these."""
        return cls(*children)


@functools.cache
def _register() -> None:
    """At the first one, so that importing this imports nothing of JAX."""
    register_pytree_node_class(Slerp)
