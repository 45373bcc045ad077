"""Results are weakly typed where JAX's are."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import jax
import pytest

import tinyjax as tj

ARGUMENTS: list[tuple[float, ...]] = [
    (0.5,),
    (0.5, 0.4),
    (2, 0.5),
    (0.5, 2.0, 0.3),
    (2, 3, 0.2),
    (0.5, -1.0, 2.0),
    (1, 2),
]


def functions() -> Iterator[tuple[str, str]]:
    """The modules and names of functions that both libraries have."""
    special, stats = importlib.import_module("jax.scipy.special"), importlib.import_module("jax.scipy.stats")
    parts = [name for name in dir(stats) if inspect.ismodule(getattr(stats, name)) and hasattr(tj.scipy.stats, name)]
    modules = [("special", special), *((f"stats.{name}", getattr(stats, name)) for name in parts)]
    for module, theirs in modules:
        ours: Any = importlib.import_module(f"tinyjax.scipy.{module}")
        for name in dir(theirs):
            if (
                not name.startswith("_")
                and inspect.isfunction(inspect.unwrap(getattr(theirs, name)))
                and hasattr(ours, name)
            ):
                yield module, name


@pytest.mark.sweep
@pytest.mark.filterwarnings("ignore")
def test_of_numbers() -> None:
    seen = 0
    for module, name in functions():
        theirs = getattr(importlib.import_module(f"jax.scipy.{module}"), name)
        ours = getattr(importlib.import_module(f"tinyjax.scipy.{module}"), name)
        for args in ARGUMENTS:
            try:
                expected = jax.tree.leaves(theirs(*args))
                found = tj.tree.leaves(ours(*args))
            except (TypeError, ValueError, NotImplementedError):  # of whichever library: it takes other arguments
                continue
            for x, y in zip(found, expected, strict=True):
                if isinstance(y, jax.Array) and isinstance(x, tj.Array):
                    seen += 1
                    assert x.aval.weak_type == y.weak_type, (module, name, args)
    assert seen > 100
