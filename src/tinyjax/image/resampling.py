"""`resize` and `scale_and_translate`: each dimension is multiplied by a matrix of weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, SupportsIndex

import tinyjax.numpy as tnp
from tinyjax.arrays.elementwise import promote_inexact
from tinyjax.arrays.products import PrecisionLike
from tinyjax.arrays.shaping import canonical_axis, integers
from tinyjax.errors import ChoiceError, ShapeError
from tinyjax.image.methods import KERNELS, RADIUS, ResizeMethod
from tinyjax.ir.shapes import Shape, as_shape
from tinyjax.primitives.contractions import Precision
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array

#: Sums of weights below this are of pixels out of reach.
_NOTHING: Final = 1000 * float(tnp.finfo("float32").eps)


def resize(
    image: ArrayLike,
    shape: Sequence[SupportsIndex],
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: PrecisionLike = Precision.HIGHEST,
) -> Array:
    """The image with another shape, of which batches and channels are a part: their sizes stay as they are.

    An image of integers becomes one of floats, unless the method is NEAREST. `antialias`: where the image becomes
    smaller, each pixel is a mean over those that it stands for.

    Raises:
      ShapeError: the shape has another number of dimensions, or pixels are asked of an empty dimension.
      ChoiceError: there is no such method.

    >>> import numpy as np
    >>> resize(np.array([[0.0, 4.0], [8.0, 12.0]]), (2, 4), "linear")
    Array([[ 0.,  1.,  3.,  4.],
           [ 8.,  9., 11., 12.]], dtype=float64)
    """
    x, sizes, chosen = _arguments("resize", image, shape, method)
    changed = [d for d in range(x.ndim) if x.shape[d] != sizes[d]]
    for d in changed:
        if x.shape[d] == 0:
            raise ShapeError(f"resize: dimension {d} of the image is empty, and can't become {sizes[d]} pixels")
    if chosen is ResizeMethod.NEAREST:
        for d in changed:
            places = tnp.floor((tnp.arange(sizes[d], dtype="float32") + 0.5) * x.shape[d] / sizes[d])
            x = tnp.take(x, places.astype("int32"), axis=d)
        return x
    scales = [tnp.asarray(sizes[d] / x.shape[d] if sizes[d] else 1.0) for d in changed]
    return _resampled(x, sizes, changed, scales, [tnp.asarray(0.0)] * len(changed), chosen, antialias, precision)


def scale_and_translate(
    image: ArrayLike,
    shape: Sequence[SupportsIndex],
    spatial_dims: Sequence[SupportsIndex],
    scale: ArrayLike,
    translation: ArrayLike,
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: PrecisionLike = Precision.HIGHEST,
) -> Array:
    """The image scaled and moved along K dimensions, seen through a window of another shape.

    Along each of `spatial_dims`, what is at x comes to `x * scale + translation`, where the first pixel reaches from 0
    to 1. `scale` and `translation` have K floats, and derivatives. Outside of the image there are zeros.

    Raises:
      ShapeError: the shape has another number of dimensions, or there aren't K scales and translations.
      ChoiceError: there is no such method, or it is NEAREST, which isn't for this.

    >>> import numpy as np
    >>> scale_and_translate(np.arange(4.0), (4,), (0,), np.array([1.0]), np.array([1.0]), "linear")
    Array([0., 0., 1., 2.], dtype=float64)
    """
    x, sizes, chosen = _arguments("scale_and_translate", image, shape, method)
    if chosen is ResizeMethod.NEAREST:
        raise ChoiceError("scale_and_translate: the method can't be NEAREST; the others interpolate")
    dims = [canonical_axis(d, x.ndim, "scale_and_translate") for d in integers(spatial_dims, "a spatial dimension")]
    scales, moves = promote_inexact(as_array(scale), as_array(translation))
    if scales.shape != (len(dims),) or moves.shape != (len(dims),):
        raise ShapeError(
            f"scale_and_translate: {len(dims)} spatial dimensions need as many scales and translations, got arrays of "
            f"shapes {scales.shape} and {moves.shape}"
        )
    return _resampled(x, sizes, dims, list(scales), list(moves), chosen, antialias, precision)


def _arguments(
    name: str, image: ArrayLike, shape: Sequence[SupportsIndex], method: str | ResizeMethod
) -> tuple[Array, Shape, ResizeMethod]:
    x, sizes = as_array(image), as_shape(integers(shape, "a size"))
    if len(sizes) != x.ndim:
        raise ShapeError(f"{name}: the shape must have a size for each dimension of the image; {sizes} for {x.shape}")
    chosen = ResizeMethod.from_string(method) if isinstance(method, str) else method
    if not isinstance(chosen, ResizeMethod):
        raise ChoiceError(f"{name}: the method is a member of ResizeMethod or its name, not {method!r}")
    return x, sizes, chosen


def _resampled(
    x: Array,
    shape: Shape,
    dims: Sequence[int],
    scales: Sequence[Array],
    moves: Sequence[Array],
    method: ResizeMethod,
    antialias: bool,
    precision: PrecisionLike,
) -> Array:
    (x,) = promote_inexact(x)
    if method is ResizeMethod.CUBIC_PYTORCH and antialias:
        method = ResizeMethod.CUBIC
    outs = list(range(x.ndim))
    operands: list[ArrayLike | list[int]] = []
    for d, scale, move in zip(dims, scales, moves, strict=True):
        outs[d] = x.ndim + d
        operands += [_weights(x.shape[d], shape[d], scale, move, method, antialias).astype(x.dtype), [d, outs[d]]]
    return tnp.einsum(x, list(range(x.ndim)), *operands, outs, precision=precision) if dims else x


def _weights(m: int, n: int, scale: Array, move: Array, method: ResizeMethod, antialias: bool) -> Array:
    """How much each of m pixels weighs in each of n: columns whose sum is 1, or 0 outside of the image."""
    pixels = tnp.arange(n, dtype=scale.dtype)
    found = (pixels + 0.5) / scale - move / scale - 0.5
    if method is ResizeMethod.CUBIC_PYTORCH:  # the pixels at the edge stand for all those beyond
        at = tnp.arange(-RADIUS, m + RADIUS)
        spread = KERNELS[method](tnp.abs(found - at[:, None]))
        return _shares(tnp.zeros((m, n), scale.dtype).at[tnp.clip(at, 0, m - 1)].add(spread))
    at = tnp.arange(m, dtype=scale.dtype)[:, None]
    if method is ResizeMethod.AREA:
        start = pixels / scale - move / scale
        weights = tnp.maximum(0, tnp.minimum(start + 1 / scale, at + 1) - tnp.maximum(start, at))
    else:
        width = tnp.maximum(1 / scale, 1) if antialias else 1
        weights = KERNELS[method](tnp.abs(found - at) / width)
    return tnp.where((found >= -0.5) & (found <= m - 0.5), _shares(weights), 0)


def _shares(weights: Array) -> Array:
    """Columns divided by their sums."""
    total = tnp.sum(weights, axis=0, keepdims=True)
    return tnp.where(tnp.abs(total) > _NOTHING, weights / tnp.where(total != 0, total, 1), 0)
