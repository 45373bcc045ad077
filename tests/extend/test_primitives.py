"""The library's primitives under one name."""

from __future__ import annotations

import builtins
import importlib
import inspect
import keyword
import pkgutil

import attrs
import numpy as np
import pytest

import tinyjax.primitives
from tinyjax import ShapedArray
from tinyjax.contexts.staging import StagingContext
from tinyjax.extend import STANDARD, Primitive, primitives
from tinyjax.primitives.elementwise import Elementwise
from tinyjax.registered.first_order import FIRST_ORDER

#: Elementwise primitives without parameters.
PLAIN = [cls for cls in FIRST_ORDER if issubclass(cls, Elementwise) and not attrs.fields(cls)]
#: Their names are those that rules use of truth values.
LOGICAL = {"and", "or", "xor", "not"}


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


@pytest.mark.parametrize("cls", PLAIN, ids=lambda cls: cls.name)
def test_a_primitive_without_parameters_is_one_callable_instance(cls: type[Elementwise]) -> None:
    """It is called as in programs, and its call is an application of itself."""
    name = f"logical_{cls.name}" if cls.name in LOGICAL else cls.name
    instance = getattr(primitives, f"{name}_" if hasattr(builtins, name) or keyword.iskeyword(name) else name)
    assert instance == cls()
    module = importlib.import_module(cls.__module__)
    assert [value for value in vars(module).values() if isinstance(value, cls)] == [instance]
    arity = 3 if cls.name == "select_n" else cls.arity
    dtypes = [dtype for dtype in ("float32", "int32", "bool", "complex64") if np.dtype(dtype) in cls.accepts]
    avals = [ShapedArray((2,), "bool" if cls.name == "select_n" and i == 0 else dtypes[0]) for i in range(arity)]
    ctx = StagingContext()
    out = instance(ctx, *[ctx.argument(aval) for aval in avals])
    (eqn,) = ctx.finish([out]).jaxpr.eqns
    assert eqn.primitive is instance
    assert [atom.aval for atom in eqn.invars] == avals
