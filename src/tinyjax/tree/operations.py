"""What `jax.tree` has for trees."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, overload  # Any: of users' own trees

from tinyjax.errors import TreeError
from tinyjax.tracing import tree as _tree

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef

T = TypeVar("T")
IsLeaf: TypeAlias = Callable[[Any], bool]  # of the user's own nodes
#: The keys from the root to a leaf: DictKey, SequenceKey, GetAttrKey, FlattenedIndexKey, or a user's own.
KeyPath: TypeAlias = tuple[Any, ...]


class _Missing:
    """No value."""


_MISSING: Final = _Missing()


@overload
def map(f: Callable[[Any], object], tree: T, /, *, is_leaf: IsLeaf | None = None) -> T: ...
@overload
def map(f: Callable[[Any, Any], object], tree: T, other: Any, /, *, is_leaf: IsLeaf | None = None) -> T: ...
@overload
def map(
    f: Callable[[Any, Any, Any], object], tree: T, second: Any, third: Any, /, *, is_leaf: IsLeaf | None = None
) -> T: ...
@overload
def map(
    f: Callable[[Any, Any, Any, Any], object],
    tree: T,
    second: Any,
    third: Any,
    fourth: Any,
    /,
    *,
    is_leaf: IsLeaf | None = None,
) -> T: ...
@overload
def map(f: Callable[..., Any], tree: T, *rest: Any, is_leaf: IsLeaf | None = None) -> T: ...
def map(f: Callable[..., Any], tree: T, *rest: Any, is_leaf: IsLeaf | None = None) -> T:
    """The tree of the results of `f` on the leaves, and on what the other trees have in the same places.

    A TreeError unless the first tree is a prefix of the others.

    >>> map(lambda x, y: x + y, {"a": 1, "b": (2, 3)}, {"a": 10, "b": (20, 30)})
    {'a': 11, 'b': (22, 33)}
    """
    return _tree.map_leaves(f, tree, *rest, is_leaf=is_leaf)


@overload
def map_with_path(
    f: Callable[[KeyPath, Any], object],
    tree: T,
    /,
    *,
    is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> T: ...
@overload
def map_with_path(
    f: Callable[..., Any],
    tree: T,
    *rest: Any,
    is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> T: ...
def map_with_path(
    f: Callable[..., Any],
    tree: T,
    *rest: Any,
    is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> T:
    """The same for a function that takes the path of the leaf first: a tuple of keys, which `keystr` spells.

    >>> map_with_path(lambda path, x: f"{keystr(path)} = {x}", {"a": 1, "b": (2, 3)})
    {'a': "['a'] = 1", 'b': ("['b'][0] = 2", "['b'][1] = 3")}
    """
    found, treedef = flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    columns = [_tree.up_to("tree.map_with_path", treedef, other) for other in rest]
    mapped: T = treedef.unflatten([f(path, *row) for (path, *row) in _rows(found, columns)])
    return mapped


def _rows(found: list[tuple[KeyPath, Any]], columns: list[list[object]]) -> list[tuple[Any, ...]]:
    return [(path, leaf, *others) for (path, leaf), *others in zip(found, *columns, strict=True)]


def leaves(tree: Any, is_leaf: IsLeaf | None = None) -> list[Any]:
    """The leaves, from left to right.

    >>> leaves({"a": 1, "b": (2, None)})
    [1, 2]
    """
    return _tree.flatten(tree, is_leaf)[0]


def leaves_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> list[tuple[KeyPath, Any]]:
    """The leaves, each with its path.

    >>> [(keystr(path), leaf) for path, leaf in leaves_with_path({"a": 1, "b": (2, None)})]
    [("['a']", 1), ("['b'][0]", 2)]
    """
    return flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def structure(tree: Any, is_leaf: IsLeaf | None = None) -> PyTreeDef:
    """What is left of a tree without its leaves; compared by value."""
    return _tree.flatten(tree, is_leaf)[1]


def flatten(tree: Any, is_leaf: IsLeaf | None = None) -> tuple[list[Any], PyTreeDef]:
    """The leaves and the structure."""
    return _tree.flatten(tree, is_leaf)


def flatten_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    """The leaves, each with its path, and the structure. With `is_leaf_takes_path`, `is_leaf` takes path and node."""
    found: tuple[list[tuple[KeyPath, Any]], PyTreeDef]
    found = _tree.tree_util().tree_flatten_with_path(tree, is_leaf=is_leaf, is_leaf_takes_path=is_leaf_takes_path)
    return found


def unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """The tree with this structure and these leaves; a TreeError if they are too many or too few."""
    found = list(leaves)
    if len(found) != treedef.num_leaves:
        raise TreeError(f"tree.unflatten: a tree of {treedef.num_leaves} leaves can't have {len(found)}: {treedef}")
    return _tree.unflatten(treedef, found)


def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """A path as text.

    >>> ((path, _),) = leaves_with_path({"a": [1]})
    >>> keystr(path), keystr(path, simple=True, separator="/")
    ("['a'][0]", 'a/0')
    """
    text: str = _tree.tree_util().keystr(keys, simple=simple, separator=separator)
    return text


def reduce(
    function: Callable[[Any, Any], Any],
    tree: Any,
    initializer: Any = _MISSING,
    is_leaf: IsLeaf | None = None,
) -> Any:
    """The leaves, combined from left to right by a function of two arguments.

    >>> reduce(max, {"a": 1, "b": (5, 3)})
    5
    """
    found = leaves(tree, is_leaf)
    if not isinstance(initializer, _Missing):
        return functools.reduce(function, found, initializer)
    if not found:
        raise TreeError("tree.reduce: a tree without leaves needs an initializer")
    return functools.reduce(function, found)


def reduce_associative(
    operation: Callable[[Any, Any], Any], tree: Any, *, identity: Any = _MISSING, is_leaf: IsLeaf | None = None
) -> Any:
    """The leaves, combined by an associative function, neighbours first: in as few steps as that takes.

    >>> reduce_associative(lambda x, y: f"({x} {y})", ["a", "b", "c", "d"])
    '((a b) (c d))'
    """
    found = leaves(tree, is_leaf)
    if not found:
        if isinstance(identity, _Missing):
            raise TreeError("tree.reduce_associative: a tree without leaves needs an identity")
        return identity
    return _combined(operation, found, 0, len(found))


def _combined(operation: Callable[[Any, Any], Any], found: Sequence[Any], low: int, high: int) -> Any:
    if high - low == 1:
        return found[low]
    middle = (low + high) // 2
    return operation(_combined(operation, found, low, middle), _combined(operation, found, middle, high))


def all(tree: Any, *, is_leaf: IsLeaf | None = None) -> bool:
    """Whether every leaf is true."""
    return builtins.all(leaves(tree, is_leaf))


def broadcast(prefix_tree: Any, full_tree: T, is_leaf: IsLeaf | None = None) -> T:
    """The tree of the structure of the second whose leaves are those of the first, which is a prefix of it, repeated.

    >>> broadcast({"a": 0, "b": 1}, {"a": [10, 20], "b": 30})
    {'a': [0, 0], 'b': 1}
    """
    found, treedef = _tree.flatten(prefix_tree, is_leaf)
    parts = _tree.up_to("tree.broadcast", treedef, full_tree, is_leaf)
    counts = [len(_tree.flatten(part)[0]) for part in parts]
    repeated = [leaf for leaf, count in zip(found, counts, strict=True) for _ in range(count)]
    result: T = _tree.unflatten(_tree.flatten(full_tree)[1], repeated)
    return result


def transpose(outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Any) -> Any:
    """A tree of trees with the two swapped: the structure `outer` of `inner` becomes `inner` of `outer`.

    `inner_treedef` None: that of the first of the inner trees.

    >>> pairs = [(1, 2), (3, 4)]
    >>> transpose(structure([0, 0]), structure((0, 0)), pairs)
    ([1, 3], [2, 4])
    """
    tree, outer = pytree_to_transpose, outer_treedef
    if inner_treedef is None:
        parts = _tree.up_to("tree.transpose", outer, tree)
        if not parts:
            raise TreeError("tree.transpose: an outer structure without leaves needs an inner_treedef")
        inner_treedef = structure(parts[0])
    inner = inner_treedef
    found = leaves(tree)
    rows = [found[i * inner.num_leaves : (i + 1) * inner.num_leaves] for i in range(outer.num_leaves)]
    expected = outer.num_leaves * inner.num_leaves
    if structure(tree) == outer and len(found) != expected:
        raise TreeError(f"tree.transpose: the tree has {len(found)} leaves, not {expected}, as outer of inner has")
    _tree.check_same_structure(
        "tree.transpose",
        structure(unflatten(outer, [unflatten(inner, row) for row in rows])) if _rectangular(rows, inner) else outer,
        structure(tree),
        "outer of inner",
        "the tree",
    )
    return unflatten(inner, [unflatten(outer, [row[i] for row in rows]) for i in range(inner.num_leaves)])


def _rectangular(rows: list[list[Any]], inner: PyTreeDef) -> bool:
    return builtins.all(len(row) == inner.num_leaves for row in rows)
