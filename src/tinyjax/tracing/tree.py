"""Pytrees, through JAX's registry: whatever the JAX ecosystem has registered is a tree here too.

JAX is imported at the first use of what its registry in jaxlib doesn't have: paths, keys, and classes of one's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import zip_longest
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tinyjax.backend import trees
from tinyjax.errors import TreeError

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef

T = TypeVar("T")
flatten: Final = trees.flatten


@cache
def tree_util() -> ModuleType:
    """JAX's module of that name, which is imported at the first use."""
    from jax import tree_util

    return tree_util


def unflatten(treedef: PyTreeDef, leaves: Sequence[object]) -> Any:  # the user's own type of tree
    """The tree of this structure with these leaves."""
    return treedef.unflatten(leaves)


def is_leaf(treedef: PyTreeDef) -> bool:
    """Whether this is the structure of a leaf alone."""
    return treedef == flatten(0)[1]


def first_of_pair(treedef: PyTreeDef) -> PyTreeDef | None:
    """The structure of the first item, if this is the structure of a tuple of two."""
    node = treedef.node_data()
    children = treedef.children() if node is not None and node[0] is tuple else ()
    return children[0] if len(children) == 2 else None


def map_leaves(f: Callable[..., object], tree: T, *rest: object, is_leaf: Callable[[object], bool] | None = None) -> T:
    """The tree of the results of f on the leaves, and on what the others have in their place.

    A TreeError unless the first tree is a prefix of the others.
    """
    leaves, treedef = flatten(tree, is_leaf)
    columns = [leaves, *(up_to("tree.map", treedef, other, is_leaf) for other in rest)]
    mapped: T = unflatten(treedef, [f(*row) for row in zip(*columns, strict=True)])
    return mapped


def up_to(what: str, treedef: PyTreeDef, tree: object, is_leaf: Callable[[object], bool] | None = None) -> list[object]:
    """What a tree has in the places of the leaves of a structure, which must be a prefix of it; or a TreeError."""
    try:
        found: list[object] = treedef.flatten_up_to(tree)
    except (ValueError, TypeError, KeyError) as error:
        check_same_structure(what, treedef, flatten(tree, is_leaf)[1], "the first tree", "another tree")
        raise TreeError(f"{what}: the first tree is no prefix of another one: {error}") from None
    return found


def paths(treedef: PyTreeDef) -> list[str]:
    """Where each leaf of a structure is, such as `[0]['weights']`."""
    try:
        tree = treedef.unflatten(range(treedef.num_leaves))
        found = trees.with_paths(tree)
    except Exception:  # noqa: BLE001 (of a user's constructor, which may want arrays)
        found = []
    if len(found) < treedef.num_leaves:
        return _positions(treedef)
    return [path for path, _ in found]


def _positions(treedef: PyTreeDef) -> list[str]:
    """The same without the keys of users' nodes: their children are counted."""
    node = treedef.node_data()
    if node is None:
        return [""]
    kind, aux = node
    children = treedef.children()
    keys = aux if isinstance(aux, list | tuple) and issubclass(kind, dict) else range(len(children))
    return [f"[{key!r}]{path}" for key, child in zip(keys, children, strict=False) for path in _positions(child)]


def check_same_structure(what: str, expected: PyTreeDef, found: PyTreeDef, expected_name: str, found_name: str) -> None:
    """A TreeError that shows both structures and where they differ, unless they are equal."""
    if expected == found:
        return
    where = difference(expected, found)
    raise TreeError(
        f"{what}: {expected_name} and {found_name} must have the same structure, but differ{where}:\n"
        f"  {expected_name}: {shown(expected)}\n  {found_name}: {shown(found)}"
    )


def difference(x: PyTreeDef, y: PyTreeDef) -> str:
    """Where two structures differ first: ` at ['bias']`, or "" where no path shows it."""
    for left, right in zip_longest(paths(x), paths(y)):
        if left != right:
            return f" at {left or right or 'the root'}"
    return ""


def prefix_difference(prefix: object, full: object) -> str | None:
    """Where the first is no prefix of the second, such as `[0]['bias']`; None if it is one. None in it is a leaf."""
    left, right = _children(prefix), _children(full)
    if prefix is None or "" in left:
        return None
    if type(prefix) is not type(full) or left.keys() != right.keys():
        return ""
    for key, child in left.items():
        found = prefix_difference(child, right[key])
        if found is not None:
            return key + found
    return None


def _children(tree: object) -> dict[str, object]:
    """The children of a node by their keys; of a leaf, itself by ""."""
    return dict(trees.with_paths(tree, lambda x: x is not tree))


def shown(treedef: PyTreeDef) -> str:
    return str(treedef).removeprefix("PyTreeDef(").removesuffix(")")
