"""What `--mesh` and `--shardings` say: sizes of axes, and trees of specifications. Nothing is evaluated.

mesh      = name "=" size {"," name "=" size}
shardings = item {"," item}
item      = "P(" parts ")" | "None" | "[" items "]" | "(" items ")" | "{" key ":" item {"," ...} "}"
"""

from __future__ import annotations

import ast
from typing import Any

from tinyjax.errors import TreeError
from tinyjax.meshes import AbstractMesh, Mesh, PartitionSpec
from tinyjax.tools.cli.failure import CommandError
from tinyjax.tools.cli.streams import as_python_reads
from tinyjax.tracing import tree


def parse_mesh(text: str) -> Mesh:
    """The mesh that a text is of; a CommandError for anything else.

    >>> parse_mesh("x=4, y=2")
    Mesh('x': 4, 'y': 2)
    """
    names: list[str] = []
    sizes: list[int] = []
    for part in text.split(","):
        name, _, size = (piece.strip() for piece in part.partition("="))
        if not name.isidentifier() or not (size.isascii() and size.isdigit() and 0 < len(size) < 10):
            raise CommandError(f"--mesh: expected the sizes of axes, such as x=4,y=2, got {text!r}")
        names.append(as_python_reads(name))
        sizes.append(int(size))
    return AbstractMesh(tuple(sizes), tuple(names))


def parse_shardings(option: str, text: str) -> object:
    """The tree of specifications that a text is of; a CommandError for anything else.

    >>> parse_shardings("--shardings", "P('x'), {'w': P(None, ('x', 'y')), 'b': None}")
    (P('x',), {'w': P(None, ('x', 'y')), 'b': None})
    """
    try:
        found = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise CommandError(
            f"{option}: expected specifications such as \"P('x'), P(None, 'y')\", got {text!r}"
        ) from None
    return _tree(option, found)


def for_each_array(given: object, args: tuple[Any, ...]) -> object:
    """One specification for each array of the arguments, of a tree that may say one for all that are in a node, such as
    a list of layers. Anything else is left as it is.

    >>> for_each_array(({"layers": PartitionSpec("x")}, None), ({"layers": ["w", "v"]}, "x"))
    [P('x',), P('x',), None]
    """
    leaves, structure = tree.flatten(given, _is_leaf)
    if _is_leaf(given) or len(leaves) == tree.flatten(args)[1].num_leaves:
        return given
    whole = args[0] if len(args) == 1 and not isinstance(given, tuple) else args
    try:
        parts = tree.up_to("--shardings", structure, whole)
    except TreeError:
        return given  # which isn't one for each
    return [leaf for leaf, part in zip(leaves, parts, strict=True) for _ in tree.flatten(part)[0]]


def _is_leaf(x: object) -> bool:
    return x is None or isinstance(x, PartitionSpec)


def _tree(option: str, node: ast.expr) -> object:
    if isinstance(node, ast.Constant) and node.value is None:
        return None
    if isinstance(node, ast.Tuple):
        return tuple([_tree(option, item) for item in node.elts])
    if isinstance(node, ast.List):
        return [_tree(option, item) for item in node.elts]
    if isinstance(node, ast.Dict) and all(isinstance(key, ast.Constant) for key in node.keys):
        keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
        return {key: _tree(option, item) for key, item in zip(keys, node.values, strict=True)}
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("P", "PartitionSpec") and not node.keywords:
        return PartitionSpec(*[_part(option, part) for part in node.args])
    raise CommandError(f"{option}: expected P('x', None), None, or a tree of them, got {ast.unparse(node)}")


def _part(option: str, node: ast.expr) -> str | tuple[str, ...] | None:
    if isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, str)):
        return node.value
    if isinstance(node, ast.Tuple):
        names = [part.value for part in node.elts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
        if len(names) == len(node.elts):
            return tuple(names)
    raise CommandError(f"{option}: a part of a specification is None, 'x' or ('x', 'y'), not {ast.unparse(node)}")
