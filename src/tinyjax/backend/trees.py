"""jaxlib's registry of trees, which is JAX's. Needs no jax, and jaxlib only when a tree is met."""

from __future__ import annotations

import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final, TypeAlias

from tinyjax.backend.early import without_jax
from tinyjax.tracebacks import tree_error

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef

IsLeaf: TypeAlias = Callable[[object], bool]
#: The leaves of a tree, and its structure.
Flatten: TypeAlias = Callable[[object, "IsLeaf | None"], "tuple[list[object], PyTreeDef]"]

#: Python's own containers that are nodes from when jax is imported.
_OF_JAX: Final = frozenset({OrderedDict, defaultdict})


def with_paths(tree: object, is_leaf: IsLeaf | None = None) -> list[tuple[str, object]]:
    """The leaves of a tree, each with where it is, such as `[0]['weights']`. Nodes that give no keys number what they
    have."""
    if not without_jax():
        import jax.tree_util  # noqa: F401
    from jaxlib import _jax

    stops = None if is_leaf is None else lambda path, node: is_leaf(node)
    found, _ = _jax.pytree.default_registry().flatten_with_path(tree, stops)
    return [("".join(map(str, path)), leaf) for path, leaf in found]


def node_of(kind: type, aux: object, children: Sequence[PyTreeDef]) -> PyTreeDef:
    """The structure of a node of a class, which knows `aux` of itself."""
    from jaxlib import _jax

    registry = _jax.pytree.default_registry()
    return _jax.pytree.PyTreeDef.from_node_data_and_children(registry, (kind, aux), children)


@cache
def flattener() -> Flatten:
    """What `jax.tree_util.tree_flatten` calls: the same without defaults. jax is imported if a leaf is a node to it."""
    if not without_jax():
        import jax.tree_util  # noqa: F401 (which registers them)
    from jaxlib import _jax

    registered: Flatten = _jax.pytree.default_registry().flatten
    if "jax" in sys.modules:
        return registered

    def flatten(tree: object, is_leaf: IsLeaf | None) -> tuple[list[object], PyTreeDef]:
        leaves, treedef = registered(tree, is_leaf)
        if "jax" not in sys.modules and not _OF_JAX.isdisjoint(map(type, leaves)):
            import jax.tree_util  # noqa: F401

            return registered(tree, is_leaf)
        return leaves, treedef

    return flatten


def flatten(tree: object, is_leaf: IsLeaf | None = None) -> tuple[list[object], PyTreeDef]:
    """The leaves of a tree, and its structure."""
    try:
        return flattener()(tree, is_leaf)
    except ValueError as error:
        if (wrong := tree_error(error)) is None:
            raise
        raise wrong from None
