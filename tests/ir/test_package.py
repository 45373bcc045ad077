"""The package `tinyjax.ir`: its public names, and what importing it costs."""

from __future__ import annotations

import os
import subprocess
import sys

from tinyjax import ir

# A package's __init__ runs before its modules, so packages without any stand in for tinyjax and tinyjax.ir.
_IMPORT_EACH = """
import importlib, sys, types
for name in sys.argv[2:]:
    for loaded in [module for module in sys.modules if module.startswith("tinyjax")]:
        del sys.modules[loaded]
    for package, path in (("tinyjax", sys.argv[1] + "/.."), ("tinyjax.ir", sys.argv[1])):
        sys.modules[package] = types.ModuleType(package)
        sys.modules[package].__path__ = [path]
    importlib.import_module("tinyjax.ir." + name)
assert "jax" not in sys.modules and "jaxlib" not in sys.modules
"""


def test_public_names_exist() -> None:
    assert len(set(dir(ir))) == len(dir(ir))
    for name in dir(ir):
        assert hasattr(ir, name), name


def test_public_names_are_complete() -> None:
    found = {name for name, value in vars(ir).items() if getattr(value, "__module__", "").startswith("tinyjax.ir.")}
    assert found <= set(dir(ir))


def test_each_module_can_be_imported_first() -> None:
    folder = os.path.dirname(ir.__file__)
    modules = sorted(name.removesuffix(".py") for name in os.listdir(folder) if name.endswith(".py"))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", _IMPORT_EACH, folder, *modules], env=env, check=True)
