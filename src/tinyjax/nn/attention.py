"""Attention."""

from __future__ import annotations

import math
from typing import Literal, overload

import numpy as np

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.arrays.shaping import integers
from tinyjax.errors import ChoiceError, ShapeError, TypingError
from tinyjax.ir.dtypes import BOOL, FLOAT32
from tinyjax.lax.binding import sequence
from tinyjax.nn.softmaxes import logsumexp, softmax
from tinyjax.numpy.signatures import Nested
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import as_array


@overload
def dot_product_attention(
    query: Nested,
    key: Nested,
    value: Nested,
    bias: Nested | None = None,
    mask: Nested | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Nested | None = None,
    key_value_seq_lengths: Nested | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: Literal["xla", "cudnn"] | None = None,
    return_residual: Literal[False] = False,
) -> Array: ...
@overload
def dot_product_attention(
    query: Nested,
    key: Nested,
    value: Nested,
    bias: Nested | None = None,
    mask: Nested | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Nested | None = None,
    key_value_seq_lengths: Nested | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: Literal["xla", "cudnn"] | None = None,
    return_residual: Literal[True],
) -> tuple[Array, Array]: ...
def dot_product_attention(
    query: Nested,
    key: Nested,
    value: Nested,
    bias: Nested | None = None,
    mask: Nested | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Nested | None = None,
    key_value_seq_lengths: Nested | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: Literal["xla", "cudnn"] | None = None,
    return_residual: bool = False,
) -> Array | tuple[Array, Array]:
    """softmax(query keyᵀ · scale + bias) value, for each head; the softmax over the elements that the mask has true.

    Shapes: query [batch, T, heads, features], key and value [batch, S, groups, features], where groups divides heads
    and each group of heads shares a key; bias and mask have four axes, or fewer, that go with [batch, heads, T, S]. The
    axis of the batch may be left out everywhere. `scale` is 1 / sqrt(features) by default. `is_causal` lets each
    position see those up to its own, `local_window_size` those so many before and after it, and the lengths (vectors
    of the batch's size) the first so many. With `return_residual` the second result is the logarithm of the sum of
    exponentials, of shape [batch, T, heads]. `implementation` is accepted as in JAX: XLA chooses.

    Raises:
      ShapeError: shapes don't go together.
      TypingError: dtypes of query, key and value differ, or the mask isn't of bools.

    >>> x = np.eye(2).reshape(2, 1, 2)
    >>> dot_product_attention(x, x, x, is_causal=True)[:, 0]
    Array([[1.        , 0.        ],
           [0.33023845, 0.66976155]], dtype=float64)
    """
    if implementation not in (None, "xla", "cudnn"):
        raise ChoiceError(f"dot_product_attention: implementation is 'xla', 'cudnn' or None, got {implementation!r}")
    queries, keys, values = (_with_batch(tnp.asarray(x), name) for x, name in _named(query=query, key=key, value=value))
    _check(queries, keys, values)
    batch, rows, heads, features = queries.shape
    columns, groups = keys.shape[1:3]
    wide = np.promote_types(queries.dtype.name, "float32") if queries.dtype.itemsize >= 4 else FLOAT32
    grouped = tnp.reshape(queries, (batch, rows, groups, heads // groups, features))
    logits = tnp.einsum("btkgh,bskh->bkgts", grouped, keys, preferred_element_type=wide)
    logits = logits * as_array(1 / math.sqrt(features) if scale is None else scale)
    if bias is not None:
        logits = tnp.astype(logits + _by_heads(tnp.asarray(bias), groups, heads, "bias"), logits.dtype)
    seen = _seen(rows, columns, is_causal, local_window_size, query_seq_lengths, key_value_seq_lengths)
    if mask is not None:
        given = tnp.asarray(mask)
        if given.dtype != BOOL:
            raise TypingError(
                f"dot_product_attention: the mask has bools, got {given.aval}; add other numbers as `bias`"
            )
        seen.append(_by_heads(given, groups, heads, "mask"))
    for part in seen:
        logits = tnp.where(part, logits, -0.7 * float(np.finfo(np.float32).max))
    found = tnp.einsum("bkgts,bskh->btkgh", tnp.astype(softmax(logits), keys.dtype), values)
    found = tnp.reshape(found, (batch, rows, heads, features))
    if query_seq_lengths is not None:
        inside = tnp.arange(rows)[None, :] < tnp.asarray(query_seq_lengths)[:, None]
        found = found * tnp.astype(inside, found.dtype)[:, :, None, None]
    shape = tnp.asarray(query).shape
    found = tnp.reshape(found, shape)
    if not return_residual:
        return found
    sums = tnp.transpose(tnp.astype(logsumexp(logits, -1), keys.dtype), (0, 3, 1, 2))
    return found, lax.stop_gradient(tnp.reshape(sums, shape[:-1]))


def _named(**arrays: Nested) -> list[tuple[Nested, str]]:
    return [(x, name) for name, x in arrays.items()]


def _with_batch(x: Array, name: str) -> Array:
    if x.ndim not in (3, 4):
        raise ShapeError(
            f"dot_product_attention: {name} is [batch, length, heads, features], batch optional; got {x.aval}"
        )
    return x if x.ndim == 4 else x[None]


def _check(query: Array, key: Array, value: Array) -> None:
    if key.shape != value.shape or query.shape[::3] != key.shape[::3] or query.shape[2] % max(key.shape[2], 1):
        raise ShapeError(
            "dot_product_attention: key and value have one shape, all have the same batch and features, and the number "
            f"of heads of the query is a multiple of the others'; got {query.aval}, {key.aval} and {value.aval}"
        )
    if not query.dtype == key.dtype == value.dtype:
        raise TypingError(
            f"dot_product_attention: query, key and value have one dtype; got {query.aval}, {key.aval} and {value.aval}"
        )


def _by_heads(x: Array, groups: int, heads: int, name: str) -> Array:
    """An array that goes with [batch, heads, T, S], as one that goes with [batch, groups, heads of each, T, S]."""
    if x.ndim > 4:
        raise ShapeError(f"dot_product_attention: {name} goes with [batch, heads, T, S]; got {x.aval}")
    x = tnp.reshape(x, (1,) * (4 - x.ndim) + x.shape)
    if x.shape[1] not in (1, heads):
        raise ShapeError(f"dot_product_attention: {name} has 1 or {heads} heads on its axis 1; got {x.aval}")
    split = (1, 1) if x.shape[1] == 1 else (groups, heads // groups)
    return tnp.reshape(x, (x.shape[0], *split, *x.shape[2:]))


def _seen(
    rows: int,
    columns: int,
    causal: bool,
    window: int | tuple[int, int] | None,
    query_lengths: Nested | None,
    key_lengths: Nested | None,
) -> list[Array]:
    """Which positions of the key each one of the query sees: masks that go with the logits."""
    row, column = tnp.arange(rows)[:, None], tnp.arange(columns)[None, :]
    found: list[Array] = []
    if causal:
        found.append(row >= column)
    if window is not None:
        what = "dot_product_attention: local_window_size"
        sizes = integers(window, what)
        before, after = sequence(what, sizes * 2 if len(sizes) == 1 else sizes, 2)
        found.append((row <= column + before) & (row >= column - after))
    for places, lengths in ((row, query_lengths), (column, key_lengths)):
        if lengths is not None:
            found.append(places < tnp.reshape(tnp.asarray(lengths), (-1, 1, 1, 1, 1)))
    return found
