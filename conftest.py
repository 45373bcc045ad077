"""What doctests of the sources need, which lie outside of `tests`."""

from __future__ import annotations

from importlib import import_module
from inspect import unwrap
from pathlib import Path
from types import FunctionType
from typing import Final

import pytest

SOURCES: Final = Path(__file__).parent / "src"


def pytest_collect_file(file_path: Path) -> None:
    """Imports a module of the package as Python does, before pytest looks at it.

    pytest would import the package around it first, which imports the module, and then the module for a second time:
    its functions and classes would no longer be those that the package offers.
    """
    if file_path.suffix == ".py" and file_path.is_relative_to(SOURCES) and file_path.stem != "__main__":
        import_module(".".join(file_path.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leaves out the examples of functions in modules that offer them again: they are the same, and what one of them
    registers is registered by then."""
    tests = [item for item in items if isinstance(item, pytest.DoctestItem)]
    again = {item for item in tests if _is_of_another_module(item)}
    own = {item.dtest.docstring for item in tests if item not in again}
    again = {item for item in again if item.dtest.docstring in own}
    items[:] = [item for item in items if item not in again]


def _is_of_another_module(item: pytest.DoctestItem) -> bool:
    found = item.dtest.globs.get(item.dtest.name.rpartition(".")[2])
    return isinstance(found, FunctionType) and Path(unwrap(found).__code__.co_filename) != item.path
