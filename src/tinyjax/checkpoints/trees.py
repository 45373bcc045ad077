"""Structures of trees as they are written down: dicts, lists, tuples and None, and classes of which it was said how.
What else is a node has only a name there."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from tinyjax import tree as trees
from tinyjax.backend.trees import node_of
from tinyjax.errors import FileFormatError, InputError
from tinyjax.tree.written import WRITINGS, writing_of

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef

#: Containers of named children, and what they are called.
_NAMED: Final[dict[type[dict[Any, Any]], str]] = {dict: "dict", OrderedDict: "ordered"}


def described(treedef: PyTreeDef) -> Any:
    """A structure as JSON, in which a leaf is a 0."""
    node = treedef.node_data()
    if node is None:
        return 0 if treedef.num_leaves else {"none": []}
    kind, aux = node
    children = [described(child) for child in treedef.children()]
    if kind is type(None):
        return {"none": []}
    if kind is list or kind is tuple:
        return {kind.__name__: children}
    called = _NAMED.get(kind)
    if called is not None and all(type(key) in (str, int) for key in aux):
        return {called: [list(pair) for pair in zip(aux, children, strict=True)]}
    if kind not in WRITINGS:
        return {"other": f"{kind.__module__}.{kind.__qualname__}"}
    writing = WRITINGS[kind]
    data = writing.serialize_auxdata(aux)
    if not isinstance(data, bytes | bytearray):
        raise InputError(f"serialize_auxdata of {writing.serialized_name!r} must return bytes, got {data!r}")
    return {"node": [writing.serialized_name, b64encode(data).decode(), children]}


def rebuilt(content: Any) -> PyTreeDef:
    """The structure that was described. An InputError if it has nodes of classes that have only a name there, a
    FileFormatError if it is none."""
    try:
        return _made(content)
    except (InputError, FileFormatError):
        raise
    except (TypeError, ValueError) as error:
        raise FileFormatError(f"its tree is damaged ({error})") from error


def _made(content: Any) -> PyTreeDef:
    if content == 0:
        return trees.structure(0)
    if not isinstance(content, dict) or len(content) != 1:
        raise FileFormatError(f"its tree has a node {content!r}, which is none")
    ((name, said),) = content.items()
    if name == "none":
        return trees.structure(None)
    if name in ("list", "tuple"):
        return node_of(list if name == "list" else tuple, None, [_made(child) for child in said])
    for kind, known in _NAMED.items():
        if name == known:
            keys = [key for key, _ in said]
            node = trees.structure(kind([(key, 0) for key in keys])).node_data()
            if node is None or list(node[1]) != keys:
                raise FileFormatError(f"its tree has a node with the keys {keys}, which aren't in order")
            return node_of(*node, [_made(child) for _, child in said])
    if name == "node":
        called, data, children = said
        return writing_of(called).structure(b64decode(data, validate=True), [_made(child) for child in children])
    raise InputError(
        f"the tree has nodes of the class {said}, which only you can make: pass a tree that is built alike, "
        "load(path, like=tree)"
    )
