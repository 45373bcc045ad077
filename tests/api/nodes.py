"""User-defined tree nodes, registered with jax in all the usual ways."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
from attrs import frozen

import tinyjax as tj


class Pair(NamedTuple):
    """A namedtuple."""

    first: object
    second: object


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    """A dataclass."""

    weights: object
    bias: object


@frozen
class Scaled:
    """An attrs class whose factor is no leaf."""

    value: object
    factor: float


jax.tree_util.register_pytree_node(
    Scaled, lambda node: ((node.value,), node.factor), lambda factor, leaves: Scaled(leaves[0], factor)
)


@jax.tree_util.register_pytree_with_keys_class
class Params(dict[str, object]):
    """A mapping with keyed children, as flax's FrozenDict."""

    def tree_flatten_with_keys(self) -> tuple[list[tuple[object, object]], tuple[str, ...]]:
        names = tuple(sorted(self))
        return [(jax.tree_util.DictKey(name), self[name]) for name in names], names

    @classmethod
    def tree_unflatten(cls, names: tuple[str, ...], leaves: list[object]) -> Params:
        return cls(zip(names, leaves, strict=True))


def leaf_sum(x: object) -> tj.Array:
    """The sum of all elements of all leaves."""
    total = tj.numpy.asarray(0.0)
    for leaf in tj.tree.leaves(x):
        total = total + tj.numpy.sum(leaf)
    return total
