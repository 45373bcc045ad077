"""A package offers what its imports say, or what its modules define: to type checkers, and when the program runs."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import tinyjax
from tinyjax.exports import defined
from tinyjax.extend import primitives

ROOT = Path(tinyjax.__file__).parent


def calling(function: str) -> dict[str, Path]:
    """The modules that call a function of `tinyjax.exports`, by name."""
    return {
        ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted(ROOT.rglob("*.py"))
        if any(line.startswith(f"{function}(") for line in path.read_text(encoding="utf-8").splitlines())
    }


PUBLISHING = calling("publish") | {name: path.with_suffix(".pyi") for name, path in calling("publish_later").items()}
COLLECTING_LATER = calling("collect_later")
COLLECTING = calling("collect") | COLLECTING_LATER


def reexported(path: Path) -> Iterator[tuple[str, str]]:
    """The names that type checkers find in a module that only imports, with their homes."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                if alias.asname == alias.name:
                    yield alias.name, node.module


def imported_modules(path: Path) -> Iterator[ModuleType]:
    """The modules of ours that a module imports, by themselves or in a tuple, or names as those that it collects."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            package = ".".join(path.parent.relative_to(ROOT.parent).parts)
            constants = [part.value for part in ast.walk(node.value) if isinstance(part, ast.Constant)]
            yield from (import_module(f"{package}.{name}") for name in constants if isinstance(name, str))
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                found = getattr(sys.modules[node.module], alias.name)
                if (name := f"{node.module}.{alias.name}") in sys.modules:
                    yield sys.modules[name]
                elif isinstance(found, tuple):
                    yield from found


def _itself(value: object) -> object:
    """What an entry is of."""
    return inspect.unwrap(value) if callable(value) else value


def check(package: str, names: dict[str, str]) -> None:
    module = import_module(package)
    assert sorted(names) == dir(module)
    for name, home in names.items():
        assert _itself(getattr(module, name)) is _itself(getattr(import_module(home), name))
    starred: dict[str, object] = {}
    exec(f"from {package} import *", starred)  # noqa: S102 (it can't be imported so in a function)
    assert sorted(starred.keys() - {"__builtins__"}) == dir(module)


@pytest.mark.parametrize("package", PUBLISHING)
def test_a_package_offers_what_its_imports_say(package: str) -> None:
    check(package, dict(reexported(PUBLISHING[package])))


@pytest.mark.parametrize("package", COLLECTING)
def test_a_package_offers_what_its_modules_define(package: str, request: pytest.FixtureRequest) -> None:
    """Each name has one home, and the stub says which; a stub that the package reads has all that they define."""
    offered = dir(import_module(package))
    if package in COLLECTING_LATER:
        modules = [module for module in imported_modules(COLLECTING[package]) if not hasattr(module, "__path__")]
        offered = sorted({*offered, *(name for module in modules for name, _ in defined(module))})
    homes: dict[str, str] = {}
    for module in imported_modules(COLLECTING[package]):
        own = module.__name__.rpartition(".")[2]
        if own in offered and getattr(import_module(package), own) is module:
            homes[own] = package
            continue
        for name, _ in defined(module):
            if name in offered:
                assert name not in homes, f"{name} is defined in {homes[name]} and in {module.__name__}"
                homes[name] = module.__name__
    assert sorted(homes) == offered
    lines = [
        f"from {home} import {name} as {name}" for name, home in sorted(homes.items(), key=lambda pair: pair[::-1])
    ]
    text = "\n".join(['"""Derived: `pytest tests/test_exports.py --update-golden` writes it."""', "", *lines, ""])
    stub = COLLECTING[package].with_suffix(".pyi")
    if request.config.getoption("--update-golden"):
        stub.write_text(text, encoding="utf-8")
        return  # what the package has read before is another text
    assert stub.read_text(encoding="utf-8") == text, "`pytest tests/test_exports.py --update-golden` writes it"
    check(package, homes)


def test_the_large_ones_are_among_them() -> None:
    assert {"tinyjax.ir", "tinyjax.transforms", "tinyjax.tools"} <= PUBLISHING.keys()
    assert COLLECTING.keys() == {
        "tinyjax.numpy",
        "tinyjax.numpy.fft",
        "tinyjax.numpy.linalg",
        "tinyjax.image",
        "tinyjax.nn",
        "tinyjax.random",
        "tinyjax.scipy.special",
        "tinyjax.lax",
        "tinyjax.lax.linalg",
        "tinyjax.extend.primitives",
    }


def test_what_a_neighbour_needs_is_not_offered() -> None:
    """`tinyjax.numpy.elementwise` imports a `where` of another layer; helpers of rules aren't the vocabulary."""
    import tinyjax.numpy as tnp

    assert tnp.where.__module__ == "tinyjax.numpy.logic"
    assert not {"check_arity", "Context", "as_precision"} & set(dir(primitives))


@pytest.mark.parametrize("package", sorted(calling("modules_later")))
def test_a_package_imports_the_modules_that_are_read_from_it(package: str) -> None:
    """Those that it names for type checkers, and others; nothing that isn't there."""
    found = dict(reexported(ROOT.parent / package.replace(".", "/") / "__init__.py"))
    assert set(found.values()) == {package}
    modules = [f"{package}.{name}" for name in found]
    read = f"import sys, {package}\nfor name in {modules}: assert name in sys.modules or eval(name).__name__ == name"
    subprocess.run([sys.executable, "-c", read], check=True)
    module = import_module(package)
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing'"):
        module.nothing  # noqa: B018
    assert not hasattr(module, "__wrapped__")
