"""No function is written twice: two that differ in nothing but the names in them are one."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import tinyjax

ROOT = Path(tinyjax.__file__).parent
#: How many nodes of syntax the body of a function has that says more than that it hands something on.
MANY = 50
#: Where the names are the point: signatures that editors show.
ALIKE = [{"arrays/reductions.py: prod", "arrays/reductions.py: sum"}]


def shape(node: ast.AST, names: dict[str, int]) -> Iterator[object]:
    """What a piece of code is but for its names, which are numbered as they come up, its texts and its annotations."""
    yield type(node).__name__
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "ctx", "type_comment"):
            continue
        if isinstance(value, ast.AST):
            yield from shape(value, names)
        elif isinstance(value, list):
            yield len(value)
            for item in value:
                if isinstance(item, ast.AST):
                    yield from shape(item, names)
        elif field in ("id", "arg"):
            yield names.setdefault(str(value), len(names))
        elif not isinstance(value, str) or field == "attr":
            yield value


def body_of(function: ast.FunctionDef) -> list[ast.stmt]:
    """The statements after the docstring."""
    return function.body[1:] if ast.get_docstring(function) is not None else function.body


def duplicates(root: Path, many: int = MANY) -> list[set[str]]:
    """The groups of functions whose bodies are the same."""
    found: defaultdict[tuple[object, ...], set[str]] = defaultdict(set)
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                body = body_of(node)
                if sum(1 for statement in body for _ in ast.walk(statement)) >= many:
                    names: dict[str, int] = {}
                    key = tuple(part for statement in body for part in shape(statement, names))
                    found[key].add(f"{path.relative_to(root).as_posix()}: {node.name}")
    return sorted((group for group in found.values() if len(group) > 1), key=sorted)


def test_nothing_is_written_twice() -> None:
    assert duplicates(ROOT) == ALIKE, "merge them, or say above why they are alike"


def test_duplicates_are_found(tmp_path: Path) -> None:
    one = 'def f(x: int) -> int:\n    """One."""\n    y = x + 1\n    return [y * z for z in range(x)]\n'
    (tmp_path / "one.py").write_text(one)
    (tmp_path / "other.py").write_text(one.replace("y", "total").replace(": int", "").replace("def f", "def g"))
    (tmp_path / "third.py").write_text(one.replace("+", "-"))
    assert duplicates(tmp_path, many=5) == [{"one.py: f", "other.py: g"}]
