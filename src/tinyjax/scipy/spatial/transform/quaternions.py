"""Quaternions along the last axis, the real part last, and other descriptions of rotations: as functions of arrays.

Roots are taken so that derivatives are right, or 0, where a rotation does nothing.
"""

from __future__ import annotations

import math

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.tracing.array import Array

#: Below this size of half an angle, a few terms of a series are exact.
_SMALL = 1e-3


def norm(x: Array) -> Array:
    """The lengths of vectors, with an axis of size 1; of zeros it is 0, and so is its derivative."""
    squares = tnp.sum(x * x, -1, keepdims=True)
    none = squares == 0
    return tnp.where(none, 0, lax.sqrt(tnp.where(none, 1, squares)))


def normalized(quat: Array) -> Array:
    """Of length 1; nan if they are zero."""
    return quat / lax.sqrt(tnp.sum(quat * quat, -1, keepdims=True))


def product(p: Array, q: Array) -> Array:
    """The rotation that does q first, and then p."""
    x, y = tnp.broadcast_arrays(p, q)
    (u, a), (v, b) = ((z[..., :3], z[..., 3:]) for z in (x, y))
    real = a * b - tnp.sum(u * v, -1, keepdims=True)
    return tnp.concatenate([a * v + b * u + tnp.cross(u, v), real], -1)


def conjugate(quat: Array) -> Array:
    """The rotation back."""
    return tnp.concatenate([-quat[..., :3], quat[..., 3:]], -1)


def canonical(quat: Array) -> Array:
    """That of two opposite ones, which mean the same rotation, whose last part that isn't 0, w before x, y and z, is
    positive."""
    x, y, z, w = (quat[..., i] for i in range(4))
    sign = tnp.where(w != 0, w, tnp.where(x != 0, x, tnp.where(y != 0, y, z)))
    return tnp.where(sign[..., None] < 0, -quat, quat)


def to_matrix(quat: Array) -> Array:
    """Rotation matrices along two last axes."""
    x, y, z, w = (quat[..., i] for i in range(4))
    rows = [
        [x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), y * y - x * x - z * z + w * w, 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), z * z - x * x - y * y + w * w],
    ]
    return tnp.stack([tnp.stack(row, -1) for row in rows], -2)


def from_matrix(matrix: Array) -> Array:
    """By the largest of the diagonal's elements and the trace, so that nothing cancels."""
    m = [[matrix[..., i, j] for j in range(3)] for i in range(3)]
    trace = m[0][0] + m[1][1] + m[2][2]
    choice = tnp.argmax(tnp.stack([m[0][0], m[1][1], m[2][2], trace], -1), -1)
    found = tnp.stack([m[2][1] - m[1][2], m[0][2] - m[2][0], m[1][0] - m[0][1], 1 + trace], -1)
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        parts = {i: 1 - trace + 2 * m[i][i], j: m[j][i] + m[i][j], k: m[k][i] + m[i][k], 3: m[k][j] - m[j][k]}
        found = tnp.where((choice == i)[..., None], tnp.stack([parts[n] for n in range(4)], -1), found)
    return normalized(found)


def to_rotvec(quat: Array) -> Array:
    """The axis, times the angle from 0 to pi."""
    turned = tnp.where(quat[..., 3:] < 0, -quat, quat)
    vector, real = turned[..., :3], turned[..., 3:]
    sine = norm(vector)
    small = sine < _SMALL
    square = tnp.sum(vector * vector, -1, keepdims=True)
    safe = tnp.where(small, 1, sine)
    series = 2 + square * (1 / 3 + square * (3 / 20 + square * (5 / 56)))
    return vector * tnp.where(small, series, 2 * lax.atan2(safe, tnp.where(small, 1, real)) / safe)


def from_rotvec(rotvec: Array) -> Array:
    """From an axis times an angle."""
    square = tnp.sum(rotvec * rotvec, -1, keepdims=True) / 4
    small = square < _SMALL**2
    half = lax.sqrt(tnp.where(small, 1, square))
    sine = tnp.where(small, 0.5 - square * (1 / 12 - square / 240), lax.sin(half) / (2 * half))
    cosine = tnp.where(small, 1 - square * (1 / 2 - square / 24), lax.cos(half))
    return tnp.concatenate([rotvec * sine, cosine], -1)


def to_mrp(quat: Array) -> Array:
    """Modified Rodrigues parameters: the axis, times the tangent of a quarter of the angle."""
    turned = tnp.where(quat[..., 3:] < 0, -quat, quat)
    return turned[..., :3] / (1 + turned[..., 3:])


def from_mrp(mrp: Array) -> Array:
    """From modified Rodrigues parameters."""
    square = tnp.sum(mrp * mrp, -1, keepdims=True)
    return tnp.concatenate([2 * mrp, 1 - square], -1) / (1 + square)


def from_euler(axes: tuple[int, ...], angles: Array, intrinsic: bool) -> Array:
    """Rotations about coordinate axes, one after the other, whose angles are along the last axis."""
    found: Array | None = None
    for place, axis in enumerate(axes):
        half = angles[..., place] / 2
        zero = lax.full_like(half, 0)
        turn = tnp.stack([lax.sin(half) if i == axis else zero for i in range(3)] + [lax.cos(half)], -1)
        if found is None:
            found = turn
        else:
            found = product(found, turn) if intrinsic else product(turn, found)
    assert found is not None
    return found


def to_euler(quat: Array, axes: tuple[int, int, int], extrinsic: bool) -> Array:
    """Three angles from -pi to pi. Where two of them turn about the same axis, the third is 0.

    E. Bernardes and S. Viollet, "Quaternion to Euler angles conversion: a direct, general and computationally efficient
    method" (2022).
    """
    i, j, k = axes if extrinsic else axes[::-1]
    proper = i == k
    k = 3 - i - j if proper else k
    sign = (i - j) * (j - k) * (k - i) // 2
    q = [quat[..., n] for n in range(4)]
    a, b, c, d = q[3], q[i], q[j], q[k] * sign
    if not proper:
        a, b, c, d = q[3] - q[j], q[i] + q[k] * sign, q[j] + q[3], q[k] * sign - q[i]
    middle = 2 * lax.atan2(tnp.hypot(c, d), tnp.hypot(a, b))
    flat, turned = tnp.abs(middle) <= 1e-7, tnp.abs(middle - math.pi) <= 1e-7
    half_sum, half_difference = lax.atan2(b, a), lax.atan2(d, c)
    only = tnp.where(flat, 2 * half_sum, 2 * half_difference * (-1 if extrinsic else 1))
    first, third = half_sum - half_difference, half_sum + half_difference
    if extrinsic:
        first, third = tnp.where(flat | turned, only, first), tnp.where(flat | turned, 0, third)
    else:
        first, third = tnp.where(flat | turned, 0, first), tnp.where(flat | turned, only, third)
    if not proper:
        third, middle = third * sign, middle - math.pi / 2
    found = tnp.stack([first, middle, third] if extrinsic else [third, middle, first], -1)
    found = tnp.where(found < -math.pi, found + 2 * math.pi, found)
    return tnp.where(found > math.pi, found - 2 * math.pi, found)
