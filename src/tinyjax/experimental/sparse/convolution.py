"""Convolution of sparse vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.api.make_jaxpr import eval_shape
from tinyjax.errors import UnsupportedError
from tinyjax.experimental.sparse.batches import chosen
from tinyjax.experimental.sparse.bcoo import BCOO
from tinyjax.experimental.sparse.layouts import bcoo_update_layout
from tinyjax.experimental.sparse.storage import valid
from tinyjax.ir.aval import ShapedArray
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array


def bcoo_conv_general_dilated(
    lhs: BCOO | ArrayLike,
    rhs: BCOO | ArrayLike,
    *,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: object = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: object = None,
    preferred_element_type: None = None,
    out_sharding: None = None,
) -> BCOO:
    """`lax.conv_general_dilated` in one dimension, of one example and one feature, without strides and dilations.

    >>> import numpy as np
    >>> x = BCOO.fromdense(np.array([[[0.0, 1.0, 0.0, 2.0]]]))
    >>> y = BCOO.fromdense(np.array([[[1.0, 3.0]]]))
    >>> bcoo_conv_general_dilated(x, y, window_strides=(1,), padding="VALID").todense()
    Array([[[3., 1., 6.]]], dtype=float64)
    """
    del precision, out_sharding, preferred_element_type
    one, other = (x if isinstance(x, BCOO) else as_array(x) for x in (lhs, rhs))
    plain = (1,) * (one.ndim - 2)
    what = "bcoo_conv_general_dilated"
    if one.ndim != 3 or other.ndim != 3 or {*one.shape[:2], *other.shape[:2]} != {1} or dimension_numbers is not None:
        raise UnsupportedError(f"{what} is for shapes (1, 1, n) and (1, 1, k), got {one.shape} and {other.shape}")
    groups = (feature_group_count, batch_group_count)
    for name, found in (
        ("window_strides", window_strides),
        ("lhs_dilation", lhs_dilation),
        ("rhs_dilation", rhs_dilation),
    ):
        if found is not None and tuple(found) != plain:
            raise UnsupportedError(f"{what}: {name} must be 1, got {tuple(found)}. `.todense()` comes first.")
    if groups != (1, 1):
        raise UnsupportedError(f"{what} has no groups, got {groups}. `.todense()` comes first.")
    dtype = tnp.result_type(
        one.data if isinstance(one, BCOO) else one, other.data if isinstance(other, BCOO) else other
    )
    n, k = one.shape[2], other.shape[2]
    aval: ShapedArray = eval_shape(
        lambda x, y: lax.conv_general_dilated(x, y, window_strides, padding),
        *[ShapedArray((1, 1, size), np.float32) for size in (n, k)],
    )
    (before, _), *_ = lax.padtype_to_pads((n,), (k,), (1,), padding) if isinstance(padding, str) else padding
    (x, at_x), (y, at_y) = _vector(one), _vector(other)
    data = (x.astype(dtype)[:, None] * y.astype(dtype)[None]).reshape(-1)
    places = (at_x[:, None] + before - at_y[None]).reshape(-1)
    size = aval.shape[2]
    inside = (places >= 0) & (places < size)
    indices = tnp.where(inside, places, size).astype(np.int32)
    return BCOO((chosen(inside, data)[None, None], indices[None, None, :, None]), shape=(1, 1, size))


def _vector(x: BCOO | Array) -> tuple[Array, Array]:
    """Elements and their places; zeros for padding."""
    if not isinstance(x, BCOO):
        return x[0, 0], tnp.arange(x.shape[2])
    mat = bcoo_update_layout(x, n_batch=2, n_dense=0)
    return chosen(valid(mat), mat.data)[0, 0], mat.indices[0, 0, :, 0].astype(np.int64)
