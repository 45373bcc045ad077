"""A package offers what the imports in its `__init__` say: to type checkers, and when the program runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import tinyjax

ROOT = Path(tinyjax.__file__).parent


def publishes(path: Path) -> bool:
    return any("publish(__name__" in line for line in path.read_text(encoding="utf-8").splitlines())


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")


PUBLISHING = {module_name(path): path for path in ROOT.rglob("*.py") if publishes(path)}


def offered(path: Path) -> Iterator[str]:
    """The names that type checkers find in a module, by PEP 484: no private ones, none that are only imported."""
    overloaded: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        names: list[str] = []
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names = [] if node.name in overloaded else [node.name]
            overloaded.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            names = [ast.unparse(node.target)]
        elif isinstance(node, ast.Assign):
            names = [ast.unparse(target) for target in node.targets]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                if alias.name == "*":
                    names += offered(ROOT.parent / f"{node.module.replace('.', '/')}.py")
                elif alias.asname == alias.name:
                    names.append(alias.name)
        yield from [name for name in names if not name.startswith("_")]


@pytest.mark.parametrize("package", sorted(PUBLISHING))
def test_a_package_offers_what_its_imports_say(package: str) -> None:
    names = list(offered(PUBLISHING[package]))
    assert len(names) == len(set(names)), "a name is defined twice"
    module = import_module(package)
    assert sorted(names) == dir(module)
    starred: dict[str, object] = {}
    exec(f"from {package} import *", starred)  # noqa: S102 (the only way to import so within a function)
    assert sorted(starred.keys() - {"__builtins__"}) == dir(module)


def test_the_large_ones_are_among_them() -> None:
    assert {"tinyjax.numpy", "tinyjax.lax", "tinyjax.ir", "tinyjax.transforms"} <= PUBLISHING.keys()


def test_what_a_module_imports_replaces_nothing() -> None:
    """`tinyjax.numpy.elementwise` imports a `where` of another layer: `*` must not take it."""
    import tinyjax.numpy as tnp

    assert float(tnp.where(True, 1.0, 2.0)) == 1.0
    assert tnp.where.__module__ == "tinyjax.numpy.logic"
