"""Krylov methods for vectors: the solution is built of what the operator makes of the right side, again and again.

Y. Saad, "Iterative methods for sparse linear systems" (2nd edition, 2003), algorithms 6.18, 7.7 and 6.9 to 6.11.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.lax import linalg
from tinyjax.scipy.inner_products import squared_norm
from tinyjax.tracing.array import Array

#: From vectors to vectors of the same length.
Operator: TypeAlias = Callable[[Array], Array]


class _Conjugate(NamedTuple):
    x: Array
    residual: Array
    direction: Array
    size: Array  # of the residual, in the inner product of the preconditioner
    steps: Array


def conjugate_gradients(
    a: Operator, b: Array, x0: Array, tolerance: Array, limit: int, precondition: Operator | None
) -> Array:
    """x such that the norm of b - A x is at most the tolerance, unless there are too many steps. A is Hermitian."""
    m = precondition or (lambda r: r)

    def go_on(s: _Conjugate) -> Array:
        return (squared_norm(s.residual) > tolerance**2) & (s.steps < limit)

    def step(s: _Conjugate) -> _Conjugate:
        image = a(s.direction)
        far = s.size / _dot(s.direction, image)
        residual = s.residual - far * image
        near = m(residual)
        size = _dot(residual, near)
        return _Conjugate(s.x + far * s.direction, residual, near + size / s.size * s.direction, size, s.steps + 1)

    residual = b - a(x0)
    near = m(residual)
    return lax.while_loop(go_on, step, _Conjugate(x0, residual, near, _dot(residual, near), _none())).x


class _Stabilized(NamedTuple):
    x: Array
    residual: Array
    direction: Array
    image: Array
    far: Array
    smoothing: Array
    size: Array
    steps: Array
    broken: Array


def stabilized(a: Operator, b: Array, x0: Array, tolerance: Array, limit: int, precondition: Operator | None) -> Array:
    """The same for any A, by the biconjugate gradients of H. van der Vorst (1992)."""
    m = precondition or (lambda r: r)

    def go_on(s: _Stabilized) -> Array:
        return (squared_norm(s.residual) > tolerance**2) & (s.steps < limit) & ~s.broken

    def step(s: _Stabilized) -> _Stabilized:
        size = _dot(shadow, s.residual)
        turn = size / s.size * s.far / s.smoothing
        direction = s.residual + turn * (s.direction - s.smoothing * s.image)
        there = m(direction)
        image = a(there)
        far = size / _dot(shadow, image)
        half = s.residual - far * image
        enough = squared_norm(half) < tolerance**2
        smooth = m(half)
        changed = a(smooth)
        smoothing = _dot(changed, half) / _dot(changed, changed)
        x = s.x + far * there + tnp.where(enough, 0, smoothing * smooth)
        residual = tnp.where(enough, half, half - smoothing * changed)
        broken = ~enough & ((smoothing == 0) | (far == 0))
        return _Stabilized(x, residual, direction, image, far, smoothing, size, s.steps + 1, broken)

    shadow = b - a(x0)
    one, zero = tnp.ones((), b.dtype), tnp.zeros_like(b)
    begun = _Stabilized(x0, shadow, zero, zero, one, one, one, _none(), tnp.asarray(False))
    return lax.while_loop(go_on, step, begun).x


class _Arnoldi(NamedTuple):
    basis: Array  # (n + 1, length): orthonormal rows
    triangle: Array  # (n, n): the operator in this basis, made triangular by rotations
    cosines: Array
    sines: Array
    rest: Array  # the right side, rotated: what is left of it comes last
    steps: Array


def minimal_residuals(
    a: Operator, b: Array, x0: Array, tolerance: Array, limit: int, size: int, precondition: Operator | None
) -> Array:
    """The same for any A, by minimal residuals in spaces of this size; the limit is for the number of spaces. The
    tolerance is for the residual that the preconditioner was applied to."""
    m = precondition or (lambda r: r)

    def go_on(s: tuple[Array, Array, Array]) -> Array:
        _, residual, spaces = s
        return (tnp.linalg.norm(residual) > tolerance) & (spaces < limit)

    def step(s: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        x, residual, spaces = s
        x = x + _in_one_space(lambda v: m(a(v)), residual, tolerance, size)
        return x, m(b - a(x)), spaces + 1

    return lax.while_loop(go_on, step, (x0, m(b - a(x0)), _none()))[0]


def _in_one_space(operator: Operator, residual: Array, tolerance: Array, size: int) -> Array:
    """What makes the residual least, of all that the operator makes of it in less than so many steps."""
    length = tnp.linalg.norm(residual)
    tiny = tnp.finfo(residual.dtype).eps

    def go_on(s: _Arnoldi) -> Array:
        return (s.steps < size) & (tnp.abs(s.rest[s.steps]) > tolerance)

    def step(s: _Arnoldi) -> _Arnoldi:
        k = s.steps
        image = operator(s.basis[k])
        before = tnp.linalg.norm(image)
        first = s.basis.conj() @ image  # the rows that aren't there yet are zero
        image = image - first @ s.basis
        second = s.basis.conj() @ image  # once more, as rounding leaves something
        image = image - second @ s.basis
        after = tnp.linalg.norm(image)
        found = after > tiny * before
        basis = s.basis.at[k + 1].set(tnp.where(found, image / tnp.where(found, after, 1), 0))
        column = (first + second).at[k + 1].set(tnp.where(found, after, 0).astype(first.dtype))

        def rotate(i: Array, column: Array) -> Array:
            return _rotated(column, i, s.cosines[i], s.sines[i])

        column = lax.fori_loop(0, k, rotate, column)
        cosine, sine = _rotation(column[k], column[k + 1])
        return _Arnoldi(
            basis,
            s.triangle.at[:, k].set(_rotated(column, k, cosine, sine)[:-1]),
            s.cosines.at[k].set(cosine),
            s.sines.at[k].set(sine),
            _rotated(s.rest, k, cosine, sine),
            k + 1,
        )

    kind, n = residual.dtype, residual.shape[0]
    start = residual / tnp.where(length > 0, length, 1)
    found = lax.while_loop(
        go_on,
        step,
        _Arnoldi(
            tnp.zeros((size + 1, n), kind).at[0].set(start),
            tnp.eye(size, dtype=kind),
            tnp.zeros(size, kind),
            tnp.zeros(size, kind),
            tnp.zeros(size + 1, kind).at[0].set(length.astype(kind)),
            _none(),
        ),
    )
    used = tnp.arange(size) < found.steps
    # A zero on the diagonal: the operator is singular, and nothing is gained in that direction.
    solvable = tnp.where(tnp.abs(tnp.diagonal(found.triangle)) > 0, 0, 1).astype(kind)
    right = tnp.where(used & (solvable == 0), found.rest[:-1], 0)
    shares = linalg.triangular_solve(found.triangle + tnp.diag(solvable), right[:, None], left_side=True)[:, 0]
    return shares @ found.basis[:-1]


def _rotation(x: Array, y: Array) -> tuple[Array, Array]:
    """The rotation that makes (x, y) of (|(x, y)|, 0), but for the phase of x; y is real and not negative."""
    size = tnp.sqrt(squared_norm(x) + squared_norm(y))
    phase = tnp.where(x == 0, 1, x / tnp.where(x == 0, 1, tnp.abs(x)))
    one = tnp.where(size == 0, 1, size)
    return (tnp.where(size == 0, 1, tnp.abs(x)) / one).astype(x.dtype), (phase * y / one).astype(x.dtype)


def _rotated(column: Array, k: Array, cosine: Array, sine: Array) -> Array:
    x, y = column[k], column[k + 1]
    return column.at[k].set(cosine * x + sine * y).at[k + 1].set(cosine * y - sine.conj() * x)


def _dot(x: Array, y: Array) -> Array:
    return tnp.vdot(x, y, precision=lax.Precision.HIGHEST)


def _none() -> Array:
    return tnp.zeros((), "int32")
