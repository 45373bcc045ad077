"""What a package offers, said once.

A package that chooses says `from module import name as name` in its `__init__`, and calls `publish`. One that offers
everything that some modules define calls `collect`; for type checkers and editors the names stand in its stub, which is
derived from the modules: `pytest tests/test_exports.py --update-golden` writes it.

A large package loads what it offers when that is first used: `publish_later` and `collect_later`. Where its names are
stands in its stub, which these read. One that others take modules from, some of which few programs need, loads such a
module when it is first used: `modules_later`.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from typing_extensions import override

from tinyjax.collecting import loading
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


def publish_later(package: str, *, entries: Iterable[str] | None = None, apart: Iterable[str] = ()) -> None:
    """As `publish`, with what the stub imports, each at its first use. Entries `apart` are so in the package only: the
    library itself calls these functions often."""
    homes = dict(_stub(package))
    own = vars(sys.modules[package])
    own.update(__all__=sorted(homes), __dir__=lambda: list(own["__all__"]), _HOMES=homes)
    if any(f"{package}.{name}" == home for name, home in homes.items()):
        sys.modules[package].__class__ = _Package
    filtered, alone = frozenset(homes if entries is None else entries), frozenset(apart)

    def load(name: str) -> object:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}" + _advice(package, name))
        own[name] = import_module(f"{home}.{name}") if home == package else getattr(import_module(home), name)
        if name in filtered or name in alone:
            filter_package(package, [name], "" if name in alone else None)
        return own[name]

    own["__getattr__"] = loading(load)


def collect_later(package: str, *modules: str, packages: Iterable[str] = ()) -> None:
    """As `collect`, with what these modules define and packages under it, each at its first use.

    The modules are what the stub is derived from.
    """
    publish_later(package)


def modules_later(package: str) -> None:
    """Has a module of a package be imported when it is first read from there: `primitives.sorting.Sort`.

    For modules with what few programs need. The package says under TYPE_CHECKING which of them are read so.
    """
    own = vars(sys.modules[package])
    del own[modules_later.__name__]

    def load(name: str) -> ModuleType:
        module = f"{package}.{name}"
        if name.startswith("_") or find_spec(module) is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return import_module(module)

    own["__getattr__"] = loading(load)


def _advice(package: str, name: str) -> str:
    """Where to find what JAX has under this name."""
    if not (name.endswith("_p") and package.startswith("tinyjax.lax")):
        return ""
    return (
        ": primitives are classes, in tinyjax.extend.primitives. Write isinstance(eqn.primitive, primitives.Exp), or "
        'eqn.primitive.name == "exp"'
    )


def _stub(package: str) -> Iterator[tuple[str, str]]:
    """The names that a package imports in its stub, one a line, and where from."""
    file = sys.modules[package].__file__
    assert file is not None
    for line in Path(file).with_suffix(".pyi").read_text(encoding="utf-8").splitlines():
        if line.startswith("from "):
            _, home, _, name, *_ = line.split()
            yield name, home


class _Package(ModuleType):
    """A package in which a function has the name of the module that it is in: importing that doesn't hide it."""

    @override
    def __setattr__(self, name: str, value: object) -> None:
        hides = isinstance(value, ModuleType) and vars(self)["_HOMES"].get(name, self.__name__) != self.__name__
        if not hides:
            super().__setattr__(name, value)


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
