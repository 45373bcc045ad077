"""Activations: elementwise functions. Where they have a kink, the derivative is JAX's, which is 0 for `relu` at 0."""

from __future__ import annotations

import math
from typing import SupportsIndex

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.api.rules.custom_jvp import custom_jvp
from tinyjax.arrays.elementwise import inexact, promote_inexact
from tinyjax.arrays.shaping import canonical_axis
from tinyjax.errors import ShapeError
from tinyjax.ir.dtypes import COMPLEXES, UNSIGNED
from tinyjax.prepared.functions import prepared
from tinyjax.primitives import exponential, trigonometric
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array


def _inexact(x: ArrayLike) -> Array:
    return promote_inexact(as_array(x))[0]


def identity(x: ArrayLike) -> Array:
    """x itself, as an array.

    >>> identity(2.0)
    Array(2., dtype=float64, weak_type=True)
    """
    return as_array(x)


def relu(x: ArrayLike) -> Array:
    """max(x, 0), with the derivative 0 at 0.

    >>> import numpy as np
    >>> relu(np.array([-1.0, 0.0, 2.0]))
    Array([0., 0., 2.], dtype=float64)
    """
    return _relu(as_array(x))


@prepared
def _relu(x: Array) -> Array:
    return tnp.where(x <= 0, 0, x)


def relu6(x: ArrayLike) -> Array:
    """min(max(x, 0), 6), with the derivative 0 at both ends.

    >>> import numpy as np
    >>> relu6(np.array([-1.0, 2.0, 7.0]))
    Array([0., 2., 6.], dtype=float64)
    """
    return _relu6(as_array(x))


@prepared
def _relu6(x: Array) -> Array:
    return tnp.where(x <= 0, 0.0, tnp.where(x >= 6, 6.0, x))


def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = 0.01) -> Array:
    """x where it isn't negative, and a part of it elsewhere.

    >>> import numpy as np
    >>> leaky_relu(np.array([-1.0, 2.0]))
    Array([-0.01,  2.  ], dtype=float64)
    """
    return _leaky_relu(as_array(x), as_array(negative_slope))


@prepared
def _leaky_relu(x: Array, slope: Array) -> Array:
    return tnp.where(x >= 0, x, slope * x)


@prepared
def elu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """x where it is positive, and alpha (exp(x) - 1) elsewhere.

    >>> import numpy as np
    >>> elu(np.array([-1.0, 2.0]))
    Array([-0.63212056,  2.        ], dtype=float64)
    """
    return _elu(as_array(x), as_array(alpha))


@prepared
def _elu(x: Array, alpha: Array) -> Array:
    return tnp.where(x > 0, x, alpha * tnp.expm1(tnp.where(x > 0, 0.0, x)))


@prepared
def celu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """x where it is positive, and alpha (exp(x / alpha) - 1) elsewhere, which has a continuous derivative.

    >>> import numpy as np
    >>> celu(np.array([-1.0, 2.0]), 2.0)
    Array([-0.78693868,  2.        ], dtype=float64)
    """
    return _celu(as_array(x), as_array(alpha))


@prepared
def _celu(x: Array, alpha: Array) -> Array:
    return tnp.maximum(x, 0.0) + alpha * tnp.expm1(tnp.minimum(x, 0.0) / alpha)


@prepared
def selu(x: ArrayLike) -> Array:
    """`elu`, scaled so that what networks compute keeps its mean and variance.

    >>> import numpy as np
    >>> selu(np.array([-1.0, 2.0]))
    Array([-1.11133074,  2.10140197], dtype=float64)
    """
    return _scaled_elu(as_array(x))


@prepared
def _scaled_elu(x: Array) -> Array:
    return 1.0507009873554804934193349852946 * elu(x, 1.6732632423543772848170429916717)


def sigmoid(x: ArrayLike) -> Array:
    """1 / (1 + exp(-x)).

    >>> sigmoid(0.0)
    Array(0.5, dtype=float64, weak_type=True)
    """
    return inexact(exponential.logistic, as_array(x))


@prepared
def log_sigmoid(x: ArrayLike) -> Array:
    """The logarithm of `sigmoid`, also where that is too small a number.

    >>> import numpy as np
    >>> log_sigmoid(np.array([0.0, -1000.0]))
    Array([-6.93147181e-01, -1.00000000e+03], dtype=float64)
    """
    return -softplus(-as_array(x))


@prepared
def softplus(x: ArrayLike) -> Array:
    """log(1 + exp(x)), without overflow.

    >>> import numpy as np
    >>> softplus(np.array([0.0, 1000.0]))
    Array([6.93147181e-01, 1.00000000e+03], dtype=float64)
    """
    return _softplus(promote_inexact(as_array(x), as_array(0))[0])


@prepared
def _softplus(x: Array) -> Array:
    if x.aval.dtype in COMPLEXES:
        return tnp.logaddexp(x, 0)
    # At zero the derivative is a half, because the smaller of both moves there.
    positive = x > 0
    larger, smaller = tnp.where(positive, x, 0), tnp.where(positive, 0, x)
    return larger + tnp.log1p(tnp.exp(smaller - larger))


def soft_sign(x: ArrayLike) -> Array:
    """x / (1 + abs(x)).

    >>> import numpy as np
    >>> soft_sign(np.array([-1.0, 3.0]))
    Array([-0.5 ,  0.75], dtype=float64)
    """
    return _soft_sign(as_array(x))


@prepared
def _soft_sign(x: Array) -> Array:
    return x / (tnp.abs(x) + 1)


def silu(x: ArrayLike) -> Array:
    """x sigmoid(x); also called `swish`.

    >>> import numpy as np
    >>> silu(np.array([-1.0, 2.0]))
    Array([-0.26894142,  1.76159416], dtype=float64)
    """
    return _silu(_inexact(x))


@prepared
def _silu(x: Array) -> Array:
    return x * lax.logistic(x)


@prepared
def mish(x: ArrayLike) -> Array:
    """x tanh(softplus(x)).

    >>> import numpy as np
    >>> mish(np.array([-1.0, 2.0]))
    Array([-0.30340146,  1.94395896], dtype=float64)
    """
    return _mish(as_array(x))


@prepared
def _mish(x: Array) -> Array:
    return x * tnp.tanh(softplus(x))


def gelu(x: ArrayLike, approximate: bool = True) -> Array:
    """x times the part of the normal distribution that is below x; `approximate` by a hyperbolic tangent.

    >>> import numpy as np
    >>> gelu(np.array([-1.0, 2.0])), gelu(2.0, approximate=False)
    (Array([-0.15880801,  1.95459769], dtype=float64), Array(1.95449974, dtype=float64, weak_type=True))
    """
    return _gelu(_inexact(x), bool(approximate))


@prepared
def _gelu(x: Array, approximate: bool) -> Array:
    if approximate:
        return x * (0.5 * (1.0 + tnp.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * (x**3)))))
    return 0.5 * x * lax.erfc(-x * math.sqrt(0.5))


@prepared
def glu(x: ArrayLike, axis: SupportsIndex = -1) -> Array:
    """The first half along an axis times `sigmoid` of the second.

    >>> import numpy as np
    >>> glu(np.array([1.0, 2.0, 0.0, 1000.0]))
    Array([0.5, 2. ], dtype=float64)
    """
    found = _inexact(x)
    along = canonical_axis(axis, found.ndim, "glu")
    if found.shape[along] % 2:
        raise ShapeError(f"glu: axis {along} of {found.aval} has no two equal halves")
    first, second = tnp.split(found, 2, along)
    return first * lax.logistic(second)


@prepared
def hard_tanh(x: ArrayLike) -> Array:
    """x between -1 and 1, and the nearer one of them elsewhere.

    >>> import numpy as np
    >>> hard_tanh(np.array([-3.0, 0.5, 2.0]))
    Array([-1. ,  0.5,  1. ], dtype=float64)
    """
    return _hard_tanh(as_array(x))


@prepared
def _hard_tanh(x: Array) -> Array:
    above = x if x.aval.dtype in UNSIGNED else tnp.where(x < -1, -1, x)
    return tnp.where(x > 1, 1, above)


@prepared
def hard_sigmoid(x: ArrayLike) -> Array:
    """relu6(x + 3) / 6.

    >>> import numpy as np
    >>> hard_sigmoid(np.array([-3.0, 0.0, 2.0]))
    Array([0.        , 0.5       , 0.83333333], dtype=float64)
    """
    return relu6(as_array(x) + 3.0) / 6.0


@prepared
def hard_silu(x: ArrayLike) -> Array:
    """x hard_sigmoid(x); also called `hard_swish`.

    >>> import numpy as np
    >>> hard_silu(np.array([-3.0, 1.0, 4.0]))
    Array([-0.        ,  0.66666667,  4.        ], dtype=float64)
    """
    found = as_array(x)
    return found * hard_sigmoid(found)


@prepared
def sparse_plus(x: ArrayLike) -> Array:
    """0 up to -1, x from 1 on, and (x + 1)² / 4 between them.

    >>> import numpy as np
    >>> sparse_plus(np.array([-2.0, 0.0, 3.0]))
    Array([0.  , 0.25, 3.  ], dtype=float64)
    """
    return _sparse_plus(as_array(x))


@prepared
def _sparse_plus(x: Array) -> Array:
    return tnp.where(x <= -1.0, 0.0, tnp.where(x >= 1.0, x, (x + 1.0) ** 2 / 4))


@prepared
def sparse_sigmoid(x: ArrayLike) -> Array:
    """(x + 1) / 2 between -1 and 1, 0 below and 1 above: the derivative of `sparse_plus`.

    >>> import numpy as np
    >>> sparse_sigmoid(np.array([-2.0, 0.0, 3.0]))
    Array([0. , 0.5, 1. ], dtype=float64)
    """
    return 0.5 * tnp.clip(as_array(x) + 1.0, 0.0, 2.0)


@prepared
def squareplus(x: ArrayLike, b: ArrayLike = 4) -> Array:
    """(x + sqrt(x² + b)) / 2: like `softplus`, by algebra.

    >>> import numpy as np
    >>> squareplus(np.array([0.0, 1.5]))
    Array([1., 2.], dtype=float64)
    """
    return _squareplus(as_array(x), as_array(b))


@prepared
def _squareplus(x: Array, b: Array) -> Array:
    return (x + tnp.sqrt(tnp.square(x) + b)) / 2


def tanh(x: ArrayLike, /) -> Array:
    """The hyperbolic tangent.

    >>> tanh(1.0)
    Array(0.76159416, dtype=float64, weak_type=True)
    """
    return inexact(trigonometric.tanh, as_array(x))


@prepared
def log1mexp(x: ArrayLike) -> Array:
    """log(1 - exp(-x)) for positive x, without cancellation.

    >>> import numpy as np
    >>> log1mexp(np.array([1e-10, 1.0]))
    Array([-23.02585093,  -0.45867515], dtype=float64)
    """
    return _log1mexp(_inexact(x))


@custom_jvp
def _log1mexp(x: Array) -> Array:
    near, low, high = _on_either_side(x)
    return tnp.where(near, tnp.log(tnp.expm1(low)) - low, tnp.log1p(-tnp.exp(-high)))


def _log1mexp_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (t,) = primals, tangents
    near, low, high = _on_either_side(x)
    return _log1mexp(x), t * tnp.where(near, 1 / tnp.expm1(low), tnp.exp(-high) / -tnp.expm1(-high))


_log1mexp.defjvp(_log1mexp_jvp)


def _on_either_side(x: Array) -> tuple[Array, Array, Array]:
    """Whether numbers are below log 2; and they themselves, with 1 in the place of those that aren't, or are."""
    near = x < math.log(2)
    return near, tnp.where(near, x, 1.0), tnp.where(near, 1.0, x)


swish = silu
hard_swish = hard_silu
