"""The package itself: its names are loaded when they are used, and are what type checkers think they are."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import tinyjax


def declared() -> dict[str, str]:
    """Where the stub of `__init__` imports each name from."""
    module = ast.parse(Path(tinyjax.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    return {
        alias.name: f"tinyjax.{node.module}" if node.module else "tinyjax"
        for node in module.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_every_name_is_declared() -> None:
    assert sorted(declared()) == dir(tinyjax) == sorted(import_module("tinyjax").__dict__["__all__"])


@pytest.mark.parametrize(("name", "home"), declared().items(), ids=declared())
def test_names(name: str, home: str) -> None:
    found = getattr(tinyjax, name)
    if isinstance(found, ModuleType):
        assert found is import_module(f"{home}.{name}")
    else:
        assert found is getattr(import_module(home), name)


def test_unknown_names() -> None:
    with pytest.raises(AttributeError, match="No tinyjax attribute jti"):
        getattr(tinyjax, "jti")  # noqa: B009 (mypy knows that there is none)


def test_importing_loads_next_to_nothing() -> None:
    """Neither NumPy nor anything of the library, until something is used; then not what isn't needed for it."""
    code = (
        "import sys, tinyjax; loaded = lambda: {name for name in sys.modules if name.startswith('tinyjax.')}\n"
        "assert loaded() == {'tinyjax.deferred', 'tinyjax.collecting'} and 'numpy' not in sys.modules\n"
        "assert float(tinyjax.grad(lambda x: x * x)(3.0)) == 6.0\n"
        "assert not {'tinyjax.hlo', 'tinyjax.tools', 'tinyjax.interop', 'tinyjax.interpreters'} & loaded()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_registry_is_complete_at_first_use() -> None:
    """Parsing knows all primitives, whatever has been imported before."""
    code = (
        "from tinyjax.ir import parse\n"
        "assert str(parse('{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }')).count('sin') == 1"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "name",
    ["lax", "numpy", "transforms", "tools", "interpreters", "hlo", "ir", "debug", "tree", "extend", "interop.jax"],
)
def test_modules_list_their_public_names(name: str) -> None:
    module = import_module(f"tinyjax.{name}")
    assert dir(module) == sorted(module.__all__)
