"""What a package offers, said once: by the imports in its `__init__`.

Type checkers and editors read these imports: `from module import *` takes what a module defines without an underscore,
and nothing that it imports; `from module import name as name` takes a name. When the program runs, `*` takes more, and
what it takes may replace what is meant: `publish` puts that right.
"""

import sys
from collections.abc import Collection, Iterable, Iterator
from types import ModuleType

from tinyjax.tracebacks import filter_package


def publish(package: str, *, but: Collection[str] | None = None, entries: Iterable[str] | None = None) -> None:
    """Leaves in a package the names that it offers, which become its `__all__` and its `dir`.

    `but` is for a package that imports with `*`: the modules in it that are only there for the others. It offers what
    the package's other modules define: classes, functions, and what has an annotation. Functions become entries, which
    show none of the library's frames: all, or those named, if the others are called very often.
    """
    offering = vars(sys.modules[package])
    parts = dict(_parts(package))
    imported = {name: value for name, value in offering.items() if not name.startswith("_") and value is not publish}
    names = {name: value for name, value in imported.items() if not isinstance(value, ModuleType)}
    if but is not None:
        defined = dict(pair for leaf, part in parts.items() if leaf not in but for pair in _defined(part))
        names = {name: defined[name] for name in names if name in defined}
    for name in imported:
        del offering[name]
    del offering[publish.__name__]
    offering.update({name: part for name, part in parts.items() if name in imported})
    offering.update(names)
    offering["__all__"] = sorted(names)
    offering["__dir__"] = lambda: sorted(names)
    filter_package(package, names if entries is None else entries)


def _parts(package: str) -> Iterator[tuple[str, ModuleType]]:
    for path, module in list(sys.modules.items()):
        parent, _, leaf = path.rpartition(".")
        if parent == package:
            yield leaf, module


def _defined(module: ModuleType) -> Iterator[tuple[str, object]]:
    annotated = vars(module).get("__annotations__", ())
    for name, value in vars(module).items():
        if getattr(value, "__module__", None) == module.__name__ or name in annotated:
            yield name, value
