"""What one device computes, and the same as several along an axis of a mesh do it, telling each other what it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
from attrs import frozen

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import P, lax
from tinyjax.sharding import PartitionSpec

#: Of arrays.
Function: TypeAlias = Callable[..., Any]
#: Of the name of an axis and its size.
Local: TypeAlias = Callable[[str, int], Function]
RNG: Final = np.random.default_rng(0)


@frozen
class Program:
    """`alone` is a function of whole arrays. `local(axis, size)` is one of the parts that a device has of them, as
    `specs` say for the name of an axis; all devices have the same result."""

    alone: Function
    local: Local
    args: tuple[Any, ...]
    specs: Callable[[str], tuple[PartitionSpec, ...]]


def normal(*shape: int) -> Any:
    return RNG.normal(size=shape)


def cross_entropy(logits: Any, labels: Any) -> Any:
    return -tnp.mean(tnp.sum(tj.nn.log_softmax(logits) * labels, axis=-1))


def classes_divided(axis: str, size: int) -> Function:
    """Each device has some of the classes. The largest logit is asked for with its derivative, which cancels out."""

    def local(hidden: Any, weights: Any, labels: Any) -> Any:
        logits = hidden @ weights
        top = lax.pmax(tnp.max(logits, axis=-1, keepdims=True), axis)
        total = lax.psum(tnp.sum(tnp.exp(logits - top), axis=-1, keepdims=True), axis)
        chosen = tnp.sum((logits - top - tnp.log(total)) * labels, axis=-1)
        return -tnp.mean(lax.psum(chosen, axis))

    return local


def attention(q: Any, k: Any, v: Any) -> Any:
    return tnp.mean(tnp.tanh(tj.nn.softmax(q @ k.T) @ v))


def ring_attention(axis: str, size: int) -> Function:
    """Keys and values go round, and what has been seen of them is rescaled as larger logits come."""
    around = [(i, (i + 1) % size) for i in range(size)]

    def local(q: Any, k: Any, v: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            (k, v), (top, total, out) = carry
            logits = q @ k.T
            higher = tnp.maximum(top, tnp.max(logits, axis=-1))
            share, before = tnp.exp(logits - higher[:, None]), tnp.exp(top - higher)
            seen = higher, total * before + share.sum(-1), out * before[:, None] + share @ v
            return (lax.ppermute((k, v), axis, around), seen), None

        nothing = lax.pcast(
            (tnp.full(q.shape[0], -1e30), tnp.zeros(q.shape[0]), tnp.zeros(q.shape)), axis, to="varying"
        )
        (_, (_, total, out)), _ = lax.scan(step, ((k, v), nothing), None, length=size)
        return lax.pmean(tnp.mean(tnp.tanh(out / total[:, None])), axis)

    return local


def many_heads(q: Any, k: Any) -> Any:
    """Of q and k with shape [time, heads, features]."""
    logits = tnp.einsum("thf,shf->hts", q, k)
    return tnp.mean(tnp.einsum("hts,shf->thf", tj.nn.softmax(logits), k) ** 2)


def heads_for_time(axis: str, size: int) -> Function:
    """Devices have parts of the time, and exchange them for heads."""

    def local(q: Any, k: Any) -> Any:
        q, k = lax.all_to_all((q, k), axis, 1, 0, tiled=True)
        return lax.pmean(many_heads(q, k), axis)

    return local


def running_total(x: Any) -> Any:
    return tnp.mean(tnp.sin(tnp.cumsum(x, axis=0)))


def totals_before(axis: str, size: int) -> Function:
    """What all devices before this one have is added to its own."""

    def local(x: Any) -> Any:
        sums = lax.all_gather(x.sum(0), axis)
        before = tnp.arange(size) < lax.axis_index(axis)
        return lax.pmean(tnp.mean(tnp.sin(tnp.cumsum(x, axis=0) + (sums * before[:, None]).sum(0))), axis)

    return local


def product(a: Any, b: Any) -> Any:
    return tnp.sum(tnp.tanh(a @ b)) / 8.0


def rows_go_round(axis: str, size: int) -> Function:
    """Of both factors each device has some rows; those of the second go round."""
    around = [(i, (i + 1) % size) for i in range(size)]

    def local(a: Any, b: Any) -> Any:
        rows, index = b.shape[0], lax.axis_index(axis)

        def step(carry: Any, i: Any) -> Any:
            b, found = carry
            columns = lax.dynamic_slice_in_dim(a, (index - i) % size * rows, rows, 1)
            return (lax.ppermute(b, axis, around), found + columns @ b), None

        start = b, lax.pcast(tnp.zeros((a.shape[0], b.shape[1])), axis, to="varying")
        (_, found), _ = lax.scan(step, start, tnp.arange(size))
        return lax.psum(tnp.sum(tnp.tanh(found)), axis) / 8.0

    return local


def normalised(x: Any, scale: Any) -> Any:
    x = (x - x.mean(0)) / tnp.sqrt(x.var(0) + 1e-5)
    return tnp.mean(tnp.tanh(x * scale))


def moments_of_all(axis: str, size: int) -> Function:
    def local(x: Any, scale: Any) -> Any:
        mean = lax.pmean(x.mean(0), axis)
        variance = lax.pmean(((x - mean) ** 2).mean(0), axis)
        return lax.pmean(tnp.mean(tnp.tanh((x - mean) / tnp.sqrt(variance + 1e-5) * scale)), axis)

    return local


def smoothed(x: Any) -> Any:
    """On a ring, four times."""
    for _ in range(4):
        x = tnp.tanh(0.5 * x + 0.3 * tnp.roll(x, 1, 0) - 0.2 * tnp.roll(x, -1, 0))
    return tnp.sum(x**2)


def neighbours(axis: str, size: int) -> Function:
    """The last and first rows of neighbours are all that they need of each other."""
    after, before = ([(i, (i + s) % size) for i in range(size)] for s in (1, -1))

    def local(x: Any) -> Any:
        def step(x: Any, _: Any) -> Any:
            above, below = lax.ppermute(x[-1:], axis, after), lax.ppermute(x[:1], axis, before)
            wide = tnp.concatenate([above, x, below])
            return tnp.tanh(0.5 * x + 0.3 * wide[:-2] - 0.2 * wide[2:]), None

        x, _ = lax.scan(step, x, None, length=4)
        return lax.psum(tnp.sum(x**2), axis)

    return local


def pairs_apart(a: Any, b: Any) -> Any:
    return cross_entropy(a @ b.T, tnp.eye(a.shape[0]))


def gathered_pairs(axis: str, size: int) -> Function:
    """Of pairs of vectors, each device has some, and compares its own with all."""

    def local(a: Any, b: Any) -> Any:
        logits = a @ lax.all_gather(b, axis, tiled=True).T
        own = tnp.arange(a.shape[0])[:, None] + lax.axis_index(axis) * a.shape[0] == tnp.arange(logits.shape[1])
        return lax.pmean(cross_entropy(logits, own * 1.0), axis)

    return local


def layers(x: Any, weights: Any) -> Any:
    x, _ = lax.scan(lambda x, w: (tnp.tanh(x @ w), None), x, weights)
    return tnp.mean(x**2)


def weights_when_needed(axis: str, size: int) -> Function:
    """Each device has part of the batch and of each layer's weights, which are gathered, and again going back."""

    def local(x: Any, weights: Any) -> Any:
        @tj.checkpoint
        def layer(x: Any, w: Any) -> Any:
            return tnp.tanh(x @ lax.all_gather(w, axis, tiled=True))

        x, _ = lax.scan(lambda x, w: (layer(x, w), None), x, weights)
        return lax.pmean(tnp.mean(x**2), axis)

    return local


def approached(a: Any, b: Any) -> Any:
    """The solution of an equation, in six steps."""
    x = tnp.zeros(8)
    for _ in range(6):
        x = x + 0.05 * (b - a.T @ (a @ x))
    return tnp.sum(x**2)


def products_in_parts(axis: str, size: int) -> Function:
    """Each device has some rows of the matrix; products with it are sums of parts."""

    def local(rows: Any, b: Any) -> Any:
        def step(_: Any, x: Any) -> Any:
            return x + 0.05 * (b - lax.psum(rows.T @ (rows @ x), axis))

        return tnp.sum(lax.fori_loop(0, 6, step, tnp.zeros(8)) ** 2)

    return local


def halves(x: Any) -> Any:
    return 2.0 * tnp.sum(tnp.sin(x.reshape(2, -1).sum(0)))


def sums_in_groups(axis: str, size: int) -> Function:
    """Devices of the first half have partners in the second."""
    half = size // 2
    groups = [[i, i + half] for i in range(half)]

    def local(x: Any) -> Any:
        if not half:
            return lax.psum(halves(x), axis)
        return lax.psum(tnp.sum(tnp.sin(lax.psum(x, axis, axis_index_groups=groups))), axis)

    return local


PROGRAMS: Final[dict[str, Program]] = {
    "classes divided": Program(
        lambda hidden, weights, labels: cross_entropy(hidden @ weights, labels),
        classes_divided,
        (normal(4, 6), normal(6, 16), np.eye(16)[:4]),
        lambda x: (P(), P(None, x), P(None, x)),
    ),
    "ring attention": Program(
        attention, ring_attention, (normal(16, 4), normal(16, 4), normal(16, 4)), lambda x: (P(x),) * 3
    ),
    "heads for time": Program(many_heads, heads_for_time, (normal(16, 8, 3), normal(16, 8, 3)), lambda x: (P(x),) * 2),
    "totals before": Program(running_total, totals_before, (normal(16, 3),), lambda x: (P(x),)),
    "rows go round": Program(product, rows_go_round, (normal(8, 16), normal(16, 3)), lambda x: (P(x),) * 2),
    "moments of all": Program(normalised, moments_of_all, (normal(16, 3), normal(3)), lambda x: (P(x), P())),
    "neighbours": Program(smoothed, neighbours, (normal(16, 3),), lambda x: (P(x),)),
    "gathered pairs": Program(pairs_apart, gathered_pairs, (normal(16, 3), normal(16, 3)), lambda x: (P(x),) * 2),
    "weights when needed": Program(
        layers, weights_when_needed, (normal(16, 8), 0.3 * normal(3, 8, 8)), lambda x: (P(x), P(None, x))
    ),
    "products in parts": Program(approached, products_in_parts, (0.3 * normal(8, 8), normal(8)), lambda x: (P(x), P())),
    "sums in groups": Program(halves, sums_in_groups, (normal(16),), lambda x: (P(x),)),
}
