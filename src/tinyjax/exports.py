"""What a package offers, said once.

A package that chooses says `from module import name as name` in its `__init__`, and calls `publish`. One that offers
everything that some modules define calls `collect`; for type checkers and editors the names stand in its stub, which is
derived from the modules: `pytest tests/test_exports.py --update-golden` writes it.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType

from tinyjax.tracebacks import filter_package


def publish(package: str, *, later: Iterable[str] = (), entries: Iterable[str] | None = None) -> None:
    """Makes a package's `__all__` and `dir` of the names that it has imported, and will import `later`.

    Functions become entries, which show none of the library's frames: all of them, or only those that are named, if the
    others are called very often.
    """
    offering = vars(sys.modules[package])
    del offering[publish.__name__]
    imported = [name for name, v in offering.items() if not (name.startswith("_") or isinstance(v, ModuleType))]
    _offer(package, [*imported, *later], entries)


def collect(
    package: str,
    *modules: ModuleType,
    only: Callable[[object], bool] | None = None,
    packages: Iterable[ModuleType] = (),
    entries: Iterable[str] | None = None,
) -> None:
    """The same with the names that modules define, or with some of them only, and with packages under it."""
    found: dict[str, object] = {
        name: value for part in modules for name, value in defined(part) if only is None or only(value)
    }
    vars(sys.modules[package]).update(found)
    found |= {part.__name__.rpartition(".")[2]: part for part in packages}
    _offer(package, found, entries)


def defined(module: ModuleType) -> Iterator[tuple[str, object]]:
    """Classes, functions, and what has an annotation; no name that begins with an underscore, but for those of the
    array API standard."""
    annotated = vars(module).get("__annotations__", ())
    for name, value in vars(module).items():
        home = getattr(value, "__module__", None)
        public = not name.startswith("_") or name.startswith("__array_")
        if public and (home == module.__name__ or name in annotated):
            yield name, value


def _offer(package: str, names: Iterable[str], entries: Iterable[str] | None) -> None:
    offering = vars(sys.modules[package])
    offering["__all__"] = sorted(names)
    offering["__dir__"] = lambda: list(offering["__all__"])
    filter_package(package, names if entries is None else entries)
