"""The library's primitives under one name."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import tinyjax.primitives
from tinyjax.extend import STANDARD, Primitive, primitives


def test_all_are_there() -> None:
    """But what stands for a call within itself, which only the library makes."""
    missing = {cls.__name__ for cls in STANDARD if issubclass(cls, Primitive)} - set(dir(primitives))
    assert missing == {"Enclosing"}


def test_all_functions_of_rules_are_there() -> None:
    for info in pkgutil.iter_modules(tinyjax.primitives.__path__, "tinyjax.primitives."):
        module = importlib.import_module(info.name)
        if module.__name__ not in {cls.__module__ for cls in STANDARD if issubclass(cls, Primitive)}:
            continue
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if (
                function.__module__ == module.__name__
                and next(iter(inspect.signature(function).parameters), "") == "ctx"
            ):
                assert name.startswith("_") or getattr(primitives, name) is function
