"""The polar decomposition by singular values, with derivatives that don't ask for different ones."""

from __future__ import annotations

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.api.rules.custom_jvp import custom_jvp
from tinyjax.errors import ChoiceError, ShapeError
from tinyjax.numpy.linalg.intake import inexact
from tinyjax.prepared.functions import prepared
from tinyjax.tracing.array import Array, ArrayLike


@prepared
def polar(
    a: ArrayLike,
    side: str = "right",
    *,
    method: str = "qdwh",
    eps: float | None = None,
    max_iterations: int | None = None,
) -> tuple[Array, Array]:
    """The polar decomposition A = U P, or P U on the "left", of matrices: orthonormal rows or columns, and a positive
    semidefinite matrix.

    By singular values, which JAX has as the method "svd"; "qdwh" is taken for it, and `eps` and `max_iterations` say
    nothing. Derivatives are those of the two equations (Higham, Functions of Matrices, chapter 8), also where singular
    values are equal; they are nan for singular matrices.

    Raises:
      ChoiceError: `side` is neither "right" nor "left", or there is no such method.
      ShapeError: `a` is no matrix.

    >>> import numpy as np
    >>> polar(np.array([[0.0, -2.0], [1.0, 0.0]]))[1]
    Array([[1., 0.],
           [0., 2.]], dtype=float64)
    """
    if side not in ("right", "left"):
        raise ChoiceError(f"The argument `side` must be either 'right' or 'left', got {side!r}")
    if method not in ("qdwh", "svd"):
        raise ChoiceError(f"Unknown polar decomposition method {method}: it is 'qdwh' or 'svd'")
    x = inexact(a)
    if x.ndim < 2:
        raise ShapeError(f"polar: The input `a` must be at least a 2-D array, got {x.aval}")
    if method == "qdwh":  # which gives no numbers for what isn't finite
        x = tnp.where(tnp.all(tnp.isfinite(x), axis=(-2, -1), keepdims=True), x, tnp.full_like(x, float("nan")))
    return _right(x) if side == "right" else _left(x)


@custom_jvp
def _right(x: Array) -> tuple[Array, Array]:
    u, s, vh = tnp.linalg.svd(x, full_matrices=False)
    return u @ vh, _adjoint(vh) @ (s[..., :, None] * vh)


@_right.defjvp
def _right_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    (x,), (t,) = primals, tangents
    u, p = _right(x)
    turned = _turned(x, u, t)
    return (u, p), (turned, _hermitian(_adjoint(turned) @ x + _adjoint(u) @ t))


def _left(x: Array) -> tuple[Array, Array]:
    """That of the adjoint, read backwards."""
    u, p = _right(_adjoint(x))
    return _adjoint(u), p


def _turned(x: Array, u: Array, t: Array) -> Array:
    """The tangent of U: U times a skew Hermitian matrix K, with P K + K P = Uᴴ T - Tᴴ U, and what isn't in the range
    of U. Equations are solved by V and the singular values, which have no derivatives of their own here."""
    if x.shape[-2] < x.shape[-1]:
        return _adjoint(_turned(_adjoint(x), _adjoint(u), _adjoint(t)))
    _, s, vh = tnp.linalg.svd(lax.stop_gradient(x), full_matrices=False)
    sums, v = s[..., :, None] + s[..., None, :], _adjoint(vh)
    p, within = _hermitian(_adjoint(u) @ x), _adjoint(u) @ t
    skew = lax.custom_linear_solve(
        lambda k: p @ k + k @ p,
        within - _adjoint(within),
        lambda _, y: v @ ((vh @ y @ v) / sums) @ vh,
        lambda _, y: vh.mT @ ((v.mT @ y @ vh.mT) / sums) @ v.mT,
    )
    found: Array = u @ skew
    if x.shape[-2] == x.shape[-1]:
        return found
    return found + tnp.linalg.solve(p.mT, (t - u @ within).mT).mT


def _hermitian(x: Array) -> Array:
    return (x + _adjoint(x)) / 2


def _adjoint(x: Array) -> Array:
    return x.mT.conj()
