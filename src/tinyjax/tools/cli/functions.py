"""Functions in users' files: `FILE.py:FUNC`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, TypeVar

from tinyjax.ir.source import is_internal
from tinyjax.tools.cli.failure import CommandError, UserCodeError
from tinyjax.tools.cli.streams import as_python_reads

T = TypeVar("T")


def call_at_definition(function: Callable[..., Any], call: Callable[[], T]) -> T:  # the user's
    """call(), as if the file that defines a function did it, at that line: what it traces there points to it."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if not isinstance(code, CodeType) or is_internal(code):
        return call()
    lines = "\n" * (code.co_firstlineno - 1)
    names: dict[str, Any] = {"call": call}
    exec(compile(f"{lines}result = call()", code.co_filename, "exec"), names)  # noqa: S102 (no text of anybody's)
    result: T = names["result"]
    return result


@contextmanager
def user_code(what: str) -> Iterator[None]:
    """Runs users' code: whatever it raises becomes a UserCodeError."""
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise UserCodeError(what, error) from error


def load_module(path: Path) -> ModuleType:
    """The module in a file, run like a script that is imported: next to its own directory, under a name of its own."""
    if path.is_dir():
        raise CommandError(f"{path} is a directory")
    if not path.is_file():
        raise CommandError(f"there is no file {path}")
    name = f"tinyjax_file_{path.stem}"
    loader = SourceFileLoader(name, str(path))
    spec = spec_from_loader(name, loader)
    if spec is None:
        raise CommandError(f"{path} can't be imported")
    module = module_from_spec(spec)
    directory = str(path.resolve().parent)
    sys.modules[name] = module  # as dataclasses and pickles look for it there
    sys.path.insert(0, directory)
    try:
        with user_code(f"importing {path}"):
            loader.exec_module(module)
    finally:
        if directory in sys.path:
            sys.path.remove(directory)
    return module


def import_named(name: str) -> ModuleType:
    """The module of a name, as Python imports it where the command is run."""
    sys.path.insert(0, "")
    try:
        with user_code(f"importing {name}"):
            __import__(name)
            return sys.modules[name]
    finally:
        if "" in sys.path:
            sys.path.remove("")


def load_object(path: Path, name: str) -> object:
    """What a file has under a name, which may have dots."""
    return _looked_up(load_module(path), str(path), name)


def _looked_up(found: object, home: str, name: str) -> object:
    name = as_python_reads(name)
    done: list[str] = []
    for part in name.split("."):
        with user_code(f"looking up {name} in {home}"):
            missing = not hasattr(found, part)
            inner: object = None if missing else getattr(found, part)
        if missing:
            where = home if not done else f"{'.'.join(done)} in {home}"
            raise CommandError(f"there is no {part!r} in {where}{_others(found)}")
        found = inner
        done.append(part)
    return found


def load_function(path: Path, name: str) -> Callable[..., Any]:  # the user's
    return _function(load_object(path, name), str(path), name)


def import_function(module: str, name: str) -> Callable[..., Any]:  # the user's
    """What a module that Python can import has under a name."""
    return _function(_looked_up(import_named(module), module, name), module, name)


def _function(found: object, home: str, name: str) -> Callable[..., Any]:  # the user's
    if not callable(found):
        raise CommandError(f"{name} in {home} is no function: {type(found).__name__}")
    return found


def function_names(module: object) -> list[str]:
    """The functions that a module defines itself, in order."""
    home = getattr(module, "__name__", None)
    return [
        name
        for name, value in vars(module).items()
        if callable(value) and not name.startswith("_") and not inspect.isclass(value)
        if getattr(value, "__module__", None) == home
    ]


def _others(found: object) -> str:
    if not isinstance(found, ModuleType):
        return ""
    names = function_names(found)
    return f"; its functions are {', '.join(names)}" if names else "; it has no functions"
