"""Operations on pytrees under the names of `jax.tree_util`: `tree_map` is `tinyjax.tree.map`, and so on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinyjax import tree
from tinyjax.tracing.tree import tree_util as _of_jax
from tinyjax.tree import (
    KeyPath,
    all_leaves,
    flatten_one_level,
    flatten_one_level_with_keys,
    is_tree_node,
    keystr,
    register_dataclass,
    register_pytree_node,
    register_pytree_node_class,
    register_pytree_with_keys,
    register_pytree_with_keys_class,
    register_static,
    treedef_children,
    treedef_is_leaf,
    treedef_tuple,
)
from tinyjax.tree import all as tree_all
from tinyjax.tree import broadcast as tree_broadcast
from tinyjax.tree import flatten as tree_flatten
from tinyjax.tree import flatten_with_path as tree_flatten_with_path
from tinyjax.tree import leaves as tree_leaves
from tinyjax.tree import leaves_with_path as tree_leaves_with_path
from tinyjax.tree import map as tree_map
from tinyjax.tree import map_with_path as tree_map_with_path
from tinyjax.tree import reduce as tree_reduce
from tinyjax.tree import reduce_associative as tree_reduce_associative
from tinyjax.tree import structure as tree_structure
from tinyjax.tree import transpose as tree_transpose
from tinyjax.tree import unflatten as tree_unflatten

if TYPE_CHECKING:
    from jaxlib._jax.pytree import PyTreeRegistry

    from tinyjax.tree import DictKey, FlattenedIndexKey, GetAttrKey, KeyEntry, Partial, PyTreeDef, SequenceKey

    #: JAX's own, where classes are registered here, too.
    default_registry: PyTreeRegistry
else:

    def __getattr__(name: str) -> object:
        if name == "default_registry":  # JAX's own, where classes are registered here, too
            return _of_jax().default_registry
        if name in __all__:
            return getattr(tree, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "DictKey",
    "FlattenedIndexKey",
    "GetAttrKey",
    "KeyEntry",
    "KeyPath",
    "Partial",
    "PyTreeDef",
    "SequenceKey",
    "all_leaves",
    "default_registry",
    "flatten_one_level",
    "flatten_one_level_with_keys",
    "is_tree_node",
    "keystr",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "register_pytree_with_keys",
    "register_pytree_with_keys_class",
    "register_static",
    "tree_all",
    "tree_broadcast",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_with_path",
    "tree_reduce",
    "tree_reduce_associative",
    "tree_structure",
    "tree_transpose",
    "tree_unflatten",
    "treedef_children",
    "treedef_is_leaf",
    "treedef_tuple",
]


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
