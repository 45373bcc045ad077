"""What a package offers, said once.

A package that chooses says `from module import name as name` in its `__init__`, and calls `publish`. One that offers
everything that some modules define calls `collect`; for type checkers and editors the names stand in its stub, which is
derived from the modules: `pytest tests/test_exports.py --update-golden` writes it.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import ModuleType

from tinyjax.tracebacks import filter_package


def publish(package: str, entries: Iterable[str] | None = None) -> None:
    """Makes a package's `__all__` and `dir` of the names that it has imported.

    Functions become entries, which show none of the library's frames: all of them, or only those that are named, if the
    others are called very often.
    """
    offering = vars(sys.modules[package])
    del offering[publish.__name__]
    found = offering.items()
    _offer(package, {name: v for name, v in found if name[0] != "_" and not isinstance(v, ModuleType)}, entries)


def collect(
    package: str,
    *modules: ModuleType,
    only: Callable[[object], bool] | None = None,
    entries: Iterable[str] | None = None,
) -> None:
    """The same with the names that modules define, or with some of them only."""
    _offer(package, {name: v for part in modules for name, v in defined(part) if only is None or only(v)}, entries)


def defined(module: ModuleType) -> Iterator[tuple[str, object]]:
    """Classes, functions, and what has an annotation; no name that begins with an underscore."""
    annotated = vars(module).get("__annotations__", ())
    for name, value in vars(module).items():
        home = getattr(value, "__module__", None)
        if (home == module.__name__ or name in annotated) and not name.startswith("_"):
            yield name, value


def _offer(package: str, found: Mapping[str, object], entries: Iterable[str] | None) -> None:
    offering = vars(sys.modules[package])
    offering.update(found)
    offering["__all__"] = sorted(found)
    offering["__dir__"] = lambda: sorted(found)
    filter_package(package, found if entries is None else entries)
