"""Operations on pytrees, as in `jax.tree`, through JAX's own registry."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from tinyjax.tracing import tree as _tree

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef

T = TypeVar("T")
IsLeaf = Callable[[Any], bool]  # of the user's own nodes


def map(f: Callable[..., Any], tree: T, *rest: Any, is_leaf: IsLeaf | None = None) -> T:
    """The tree of the results of `f` on corresponding leaves; a TreeError if the structures differ.

    >>> map(lambda x, y: x + y, {"a": 1, "b": (2, 3)}, {"a": 10, "b": (20, 30)})
    {'a': 11, 'b': (22, 33)}
    """
    return _tree.map_leaves(f, tree, *rest, is_leaf=is_leaf)


def leaves(tree: Any, is_leaf: IsLeaf | None = None) -> list[Any]:
    """The leaves, from left to right.

    >>> leaves({"a": 1, "b": (2, None)})
    [1, 2]
    """
    return _tree.flatten(tree, is_leaf)[0]


def structure(tree: Any, is_leaf: IsLeaf | None = None) -> PyTreeDef:
    """What is left of a tree without its leaves; compared by value."""
    return _tree.flatten(tree, is_leaf)[1]


def flatten(tree: Any, is_leaf: IsLeaf | None = None) -> tuple[list[Any], PyTreeDef]:
    """The leaves and the structure."""
    return _tree.flatten(tree, is_leaf)


def unflatten(treedef: PyTreeDef, leaves: list[Any]) -> Any:
    """The tree with this structure and these leaves."""
    return _tree.unflatten(treedef, leaves)


def reduce(f: Callable[[Any, Any], Any], tree: Any, *initial: Any) -> Any:
    """The leaves, combined from left to right by a function of two arguments.

    >>> reduce(max, {"a": 1, "b": (5, 3)})
    5
    """
    return functools.reduce(f, leaves(tree), *initial)


def all(tree: Any) -> bool:
    """Whether every leaf is true."""
    return builtins.all(leaves(tree))


def transpose(outer: PyTreeDef, inner: PyTreeDef, tree: Any) -> Any:
    """A tree of trees with `outer` and `inner` swapped: the structure `outer` of `inner` becomes `inner` of `outer`.

    >>> pairs = [(1, 2), (3, 4)]
    >>> transpose(structure([0, 0]), structure((0, 0)), pairs)
    ([1, 3], [2, 4])
    """
    found = leaves(tree)
    rows = [found[i * inner.num_leaves : (i + 1) * inner.num_leaves] for i in range(outer.num_leaves)]
    _tree.check_same_structure(
        "tree.transpose",
        structure(unflatten(outer, [unflatten(inner, row) for row in rows])) if _rectangular(rows, inner) else outer,
        structure(tree),
        "outer of inner",
        "the tree",
    )
    return unflatten(inner, [unflatten(outer, list(column)) for column in zip(*rows, strict=True)])


def _rectangular(rows: list[list[Any]], inner: PyTreeDef) -> bool:
    return builtins.all(len(row) == inner.num_leaves for row in rows)
