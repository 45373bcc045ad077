"""Trees as a manifest has them: dicts, lists, tuples and None. What else is a node has only a name there."""

from __future__ import annotations

from typing import Any

from tinyjax import tree as trees
from tinyjax.errors import FileFormatError, InputError


def described(tree: Any) -> Any:
    """A tree of the user's as JSON, in which a leaf is a 0."""
    if tree is None:
        return {"none": []}
    kind = type(tree)
    if kind is list or kind is tuple:
        return {kind.__name__: [described(child) for child in tree]}
    if kind is dict and all(type(key) in (str, int) for key in tree):
        return {"dict": [[key, described(tree[key])] for key in sorted(tree)]}
    if trees.is_tree_node(kind):
        return {"other": f"{kind.__module__}.{kind.__qualname__}"}
    return 0


def rebuilt(content: Any, leaves: list[Any]) -> Any:
    """The tree with these leaves, which are taken away one by one. An InputError if it has nodes of other kinds."""
    if content == 0:
        if not leaves:
            raise FileFormatError("its tree has more leaves than there are arrays")
        return leaves.pop(0)
    if not isinstance(content, dict) or len(content) != 1:
        raise FileFormatError(f"its tree has a node {content!r}, which is none")
    ((kind, children),) = content.items()
    if kind == "none":
        return None
    if kind == "list":
        return [rebuilt(child, leaves) for child in children]
    if kind == "tuple":
        return tuple([rebuilt(child, leaves) for child in children])
    if kind == "dict":
        return {key: rebuilt(child, leaves) for key, child in children}
    raise InputError(
        f"the tree has nodes of the class {children}, which only you can make: pass a tree that is built alike, "
        "load(path, like=tree)"
    )
