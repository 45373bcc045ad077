"""What doctests of the sources need, which lie outside of `tests`."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Final

SOURCES: Final = Path(__file__).parent / "src"


def pytest_collect_file(file_path: Path) -> None:
    """Imports a module of the package as Python does, before pytest looks at it.

    pytest would import the package around it first, which imports the module, and then the module for a second time:
    its functions and classes would no longer be those that the package offers.
    """
    if file_path.suffix == ".py" and file_path.is_relative_to(SOURCES) and file_path.stem != "__main__":
        import_module(".".join(file_path.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__"))
