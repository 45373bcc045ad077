"""Rotations as objects: trees of one array of quaternions."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Sequence
from typing import final

import numpy.typing as npt
from attrs import frozen

import tinyjax.numpy as tnp
from tinyjax import random as sampling
from tinyjax.arrays.basic_indexing import Index
from tinyjax.arrays.elementwise import promote, promote_inexact
from tinyjax.errors import ChoiceError, InputError, ShapeError
from tinyjax.scipy.spatial.transform import quaternions
from tinyjax.tracebacks import filter_class
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tree.nodes import register_pytree_node_class


@filter_class
@final
@frozen(eq=False)
class Rotation:
    """A rotation of space, or several: quaternions (x, y, z, w) of length 1 along the last axis.

    Made by `from_quat`, `from_matrix`, `from_rotvec`, `from_mrp`, `from_euler`, `identity` or `random`; `p * q` does q
    first. It is a tree, so that functions under `jit`, `grad` and `vmap` take it.

    Attributes:
      quat: the quaternions.

    >>> import numpy as np
    >>> turn = Rotation.from_euler("z", 90.0, degrees=True)
    >>> turn.apply(np.array([2.0, 0.0, 0.0])).round(6)
    Array([0., 2., 0.], dtype=float64)
    >>> (turn * turn).magnitude()
    Array(3.14159265, dtype=float64)
    """

    quat: Array

    def __attrs_post_init__(self) -> None:
        _register()

    @classmethod
    def concatenate(cls, rotations: Sequence[Rotation]) -> Rotation:
        """Several of several."""
        return cls(tnp.concatenate([rotation.quat for rotation in rotations]))

    @classmethod
    def from_euler(cls, seq: str, angles: ArrayLike, degrees: bool = False) -> Rotation:
        """Of angles, along the last axis, about up to three coordinate axes, which `seq` names: "xyz" are those of
        space, and "XYZ" those of what is rotated.

        Raises:
          ChoiceError: `seq` is something else, or names an axis twice in a row.
          ShapeError: there isn't an angle for each axis.
        """
        axes, intrinsic = _axes(seq)
        given = _angles(angles, degrees)
        if not given.ndim or (len(axes) == 1 and given.shape != (1,) and given.ndim == 1):
            given = given[..., None]
        if given.shape[-1] != len(axes):
            raise ShapeError(f"from_euler: {seq!r} wants {len(axes)} angles along the last axis, got {given.aval}")
        return cls(quaternions.from_euler(axes, given, intrinsic))

    @classmethod
    def from_matrix(cls, matrix: ArrayLike) -> Rotation:
        """Of rotation matrices."""
        (found,) = promote_inexact(tnp.asarray(matrix))
        if found.shape[-2:] != (3, 3):
            raise ShapeError(f"from_matrix: rotation matrices have shape (..., 3, 3), got {found.aval}")
        return cls(quaternions.from_matrix(found))

    @classmethod
    def from_mrp(cls, mrp: ArrayLike) -> Rotation:
        """Of modified Rodrigues parameters: the axis, times the tangent of a quarter of the angle."""
        return cls(quaternions.from_mrp(_vectors("from_mrp", mrp, 3)))

    @classmethod
    def from_quat(cls, quat: ArrayLike) -> Rotation:
        """Of quaternions, which are scaled to length 1."""
        return cls(quaternions.normalized(_vectors("from_quat", quat, 4)))

    @classmethod
    def from_rotvec(cls, rotvec: ArrayLike, degrees: bool = False) -> Rotation:
        """Of vectors along the axis, as long as the angle."""
        found = _vectors("from_rotvec", rotvec, 3)
        return cls(quaternions.from_rotvec(tnp.deg2rad(found) if degrees else found))

    @classmethod
    def identity(cls, num: int | None = None, dtype: npt.DTypeLike = float) -> Rotation:
        """That does nothing, or `num` of them."""
        quat = tnp.asarray([0.0, 0.0, 0.0, 1.0], dtype=dtype)
        return cls(quat if num is None else tnp.broadcast_to(quat, (num, 4)))

    @classmethod
    def random(cls, random_key: ArrayLike, num: int | None = None) -> Rotation:
        """Each as likely as any other; `num` of them. JAX has a method of this name that isn't implemented."""
        return cls(quaternions.normalized(sampling.normal(random_key, (4,) if num is None else (num, 4))))

    def __getitem__(self, indexer: Index) -> Rotation:
        """Some of several."""
        if self.single:
            raise InputError("Single rotation is not subscriptable.")
        return Rotation(self.quat[indexer])

    def __len__(self) -> int:
        """How many there are."""
        if self.single:
            raise InputError("Single rotation has no len().")
        return self.quat.shape[0]

    def __mul__(self, other: Rotation) -> Rotation:
        """The other one first, and then this."""
        first, second = promote(self.quat, other.quat)
        return Rotation.from_quat(quaternions.product(first, second))

    def apply(self, vectors: ArrayLike, inverse: bool = False) -> Array:
        """What becomes of vectors; or what became these, if `inverse`."""
        matrix, x = promote(self.as_matrix(), tnp.asarray(vectors))
        if not x.ndim or x.shape[-1] != 3:
            raise ShapeError(f"apply: vectors have 3 elements along the last axis, got {x.aval}")
        return ((matrix.mT if inverse else matrix) @ x[..., None])[..., 0]

    def as_euler(self, seq: str, degrees: bool = False) -> Array:
        """Angles about three coordinate axes, as `from_euler` takes them, from -pi to pi. Where they aren't unique the
        one of the last axis is 0.

        Raises:
          ChoiceError: `seq` doesn't name three axes, each another than the one before.
        """
        axes, intrinsic = _axes(seq)
        if len(axes) != 3:
            raise ChoiceError(f"Expected 3 axes, got {seq}.")
        found = quaternions.to_euler(self.quat, axes, not intrinsic)
        return tnp.rad2deg(found) if degrees else found

    def as_matrix(self) -> Array:
        """Rotation matrices."""
        return quaternions.to_matrix(self.quat)

    def as_mrp(self) -> Array:
        """Modified Rodrigues parameters."""
        return quaternions.to_mrp(self.quat)

    def as_rotvec(self, degrees: bool = False) -> Array:
        """Vectors along the axis, as long as the angle."""
        found = quaternions.to_rotvec(self.quat)
        return tnp.rad2deg(found) if degrees else found

    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Array:
        """Quaternions (x, y, z, w), or (w, x, y, z) with `scalar_first`. Of two opposite ones, which mean the same
        rotation, `canonical` takes the one with positive w."""
        found = quaternions.canonical(self.quat) if canonical else self.quat
        return tnp.roll(found, 1, -1) if scalar_first else found

    def inv(self) -> Rotation:
        """The rotation back."""
        return Rotation(quaternions.conjugate(self.quat))

    def magnitude(self) -> Array:
        """The angle, from 0 to pi."""
        sine = quaternions.norm(self.quat[..., :3])[..., 0]
        return 2 * tnp.arctan2(sine, tnp.abs(self.quat[..., 3]))

    def mean(self, weights: ArrayLike | None = None) -> Rotation:
        """The rotation to which the squared distances of these are least, times weights.

        Raises:
          ShapeError: there isn't a weight for each.
        """
        shares = tnp.ones(len(self), self.quat.dtype) if weights is None else tnp.asarray(weights, self.quat.dtype)
        if shares.ndim != 1:
            raise ShapeError(f"Expected `weights` to be 1 dimensional, got {shares.aval}")
        if shares.shape[0] != len(self):
            raise ShapeError(
                "Expected `weights` to have number of values equal to number of rotations, got "
                f"{shares.shape[0]} values and {len(self)} rotations."
            )
        _, vectors = tnp.linalg.eigh((shares * self.quat.mT) @ self.quat)
        return Rotation(vectors[:, -1])

    @property
    def single(self) -> bool:
        """Whether it is one rotation, and not several."""
        return self.quat.ndim == 1

    def tree_flatten(self) -> tuple[tuple[Array], None]:
        """Its array."""
        return (self.quat,), None

    @classmethod
    def tree_unflatten(cls, aux_data: None, children: Iterable[Array]) -> Rotation:
        """A rotation with this array."""
        (quat,) = children
        return cls(quat)


@functools.cache
def _register() -> None:
    """At the first rotation, so that importing this imports nothing of JAX."""
    register_pytree_node_class(Rotation)


def _angles(angles: ArrayLike, degrees: bool) -> Array:
    (found,) = promote_inexact(tnp.asarray(angles))
    return tnp.deg2rad(found) if degrees else found


def _vectors(name: str, x: ArrayLike, size: int) -> Array:
    (found,) = promote_inexact(tnp.asarray(x))
    if not found.ndim or found.shape[-1] != size:
        raise ShapeError(f"{name}: there are {size} numbers along the last axis, got {found.aval}")
    return found


def _axes(seq: str) -> tuple[tuple[int, ...], bool]:
    """The axes that are named, and whether they rotate too."""
    given: object = seq
    if not isinstance(given, str):
        raise ChoiceError(f"seq is a string that names axes, such as 'xyz', got {given!r}")
    if not 1 <= len(seq) <= 3:
        raise ChoiceError(f"Expected axis specification to be a non-empty string of upto 3 characters, got {seq}")
    intrinsic = set(seq) <= set("XYZ")
    if not intrinsic and not set(seq) <= set("xyz"):
        raise ChoiceError(f"Expected axes from `seq` to be from ['x', 'y', 'z'] or ['X', 'Y', 'Z'], got {seq}")
    if any(first == second for first, second in itertools.pairwise(seq)):
        raise ChoiceError(f"Expected consecutive axes to be different, got {seq}")
    return tuple("xyz".index(axis) for axis in seq.lower()), intrinsic
