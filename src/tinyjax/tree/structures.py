"""One level of a tree, and structures made of structures: for those who walk trees themselves."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any  # Any: of users' own nodes

from tinyjax.errors import InputError, TreeError
from tinyjax.tracing import tree as _tree
from tinyjax.tree.nodes import is_node
from tinyjax.tree.operations import IsLeaf

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef


def all_leaves(iterable: Iterable[Any], is_leaf: IsLeaf | None = None) -> bool:
    """Whether every item is a leaf itself, and no tree of others; None is a tree without leaves.

    >>> all_leaves([1, 2.0]), all_leaves([1, (2, 3)])
    (True, False)
    """
    leaf = _tree.flatten(0)[1]
    return all(_tree.flatten(item, is_leaf)[1] == leaf for item in iterable)


def is_tree_node(typ: type) -> bool:
    """Whether instances of a class are nodes: registered ones, Python's containers, and named tuples.

    >>> is_tree_node(dict), is_tree_node(float)
    (True, False)
    """
    return is_node(typ)


def flatten_one_level(tree: Any) -> tuple[Iterable[Any], Any]:
    """The children of a node, and what else there is to know of it. A TreeError if it is a leaf.

    >>> flatten_one_level({"b": 1, "a": (2, 3)})
    (((2, 3), 1), ('a', 'b'))
    """
    return _level(tree)


def flatten_one_level_with_keys(tree: Any) -> tuple[Iterable[tuple[Any, Any]], Any]:
    """The same, with the key of each child.

    >>> children, _ = flatten_one_level_with_keys({"b": 1, "a": (2, 3)})
    >>> list(children)
    [(DictKey(key='a'), (2, 3)), (DictKey(key='b'), 1)]
    """
    _, aux = _level(tree)
    found, _ = _tree.tree_util().tree_flatten_with_path(tree, is_leaf=lambda x: x is not tree)
    return tuple((key, child) for (key,), child in found), aux


def _level(tree: Any) -> tuple[Iterable[Any], Any]:
    found: tuple[Iterable[Any], Any] | None = _tree.tree_util().default_registry.flatten_one_level(tree)
    if found is None:
        raise TreeError(f"flatten_one_level takes a node of a tree; {tree!r} of type {type(tree).__name__} is a leaf")
    return found


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """The structures of the children.

    >>> from tinyjax import tree
    >>> treedef_children(tree.structure((1, [2, 3])))
    [PyTreeDef(*), PyTreeDef([*, *])]
    """
    found: list[PyTreeDef] = treedef.children()
    return found


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Whether this structure has no children: that of a leaf, and, as in JAX, also that of None or ().

    >>> from tinyjax import tree
    >>> treedef_is_leaf(tree.structure(1.0)), treedef_is_leaf(tree.structure((1.0,)))
    (True, False)
    """
    return treedef.num_nodes == 1


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """The structure of a tuple whose items have these structures.

    >>> from tinyjax import tree
    >>> treedef_tuple([tree.structure(1), tree.structure([2, 3])]) == tree.structure((1, [2, 3]))
    True
    """
    given = list(treedefs)
    for one in given:
        if type(one).__name__ != "PyTreeDef":  # with which jaxlib ends the process
            raise InputError(f"treedef_tuple takes structures of trees, as tree.structure gives, got {one!r}")
    found: PyTreeDef = _tree.tree_util().treedef_tuple(given)
    return found


def static(**kwargs: Any) -> Any:  # what `dataclasses.field` takes and gives
    """A field of a dataclass that belongs to the structure: `dataclasses.field`, marked for `register_dataclass`,
    unless its own `metadata` say that it isn't static.

    >>> import dataclasses
    >>> from tinyjax import tree
    >>> @tree.register_dataclass
    ... @dataclasses.dataclass
    ... class Layer:
    ...     weights: object
    ...     name: str = static(default="dense")
    >>> tree.leaves(Layer(3.0))
    [3.0]
    """
    kwargs["metadata"] = {"static": True, **(kwargs.get("metadata") or {})}
    return dataclasses.field(**kwargs)
