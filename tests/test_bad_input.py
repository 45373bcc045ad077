"""Whatever a function is called with, what it raises is an error of ours: its example, with one argument exchanged."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Final
from zlib import crc32

import numpy as np
import pytest

import tinyjax as tj
from tinyjax.errors import TinyjaxError, UnforeseenError
from website.names import MODULES

#: What is neither a function of arrays nor of shapes has tests of its own.
CHECKED: Final = [
    f"tinyjax.{name}"
    for name in (module.removeprefix("tinyjax.") for module in MODULES)
    if name.startswith(("lax", "numpy", "scipy", "nn", "random", "image"))
]
#: They write files, or set what other tests see.
APART: Final = {"save", "savez", "savetxt", "fromfile", "load", "loadtxt", "set_printoptions", "printoptions"}
BAD: Final[dict[str, Any]] = {
    "None": None,
    "a string": "x",
    "an object": object(),
    "-1": -1,
    "1.5": 1.5,
    "nan": float("nan"),
    "a complex number": 1j,
    "a tuple": (-1, -2),
    "nothing": (),
    "a dict": {"a": 1},
    "a set": {1},
    "a date": np.datetime64("2020-01-01"),
    "a ragged list": [1, [2, 3]],
    "a tree": [np.ones(2), {"a": np.ones(3)}],
}
ARRAYS: Final[dict[str, Any]] = {
    "another shape": np.ones((2, 3, 5)),
    "no elements": np.zeros(0),
    "strings": np.array(["a"]),
    "objects": np.array([object()]),
    "float16": np.ones(7, np.float16),
}
#: Of what takes long, one call of so many is made.
SAMPLED: Final = {
    "tinyjax.random": 8,
    "tinyjax.scipy.sparse.linalg": 4,
    "tinyjax.scipy.special": 4,
    "tinyjax.scipy.linalg": 3,
}
Call = tuple[Callable[..., object], tuple[Any, ...], dict[str, Any]]


def first_call(module: str, name: str) -> Call | None:
    """How the example of a function calls it first, unless it hands it a function."""
    f = getattr(import_module(module), name)
    calls: list[Call] = []

    def spy(*args: Any, **kwargs: Any) -> object:
        calls.append((f, args, kwargs))
        return f(*args, **kwargs)

    home = vars(import_module(f.__module__))
    for example in doctest.DocTestParser().get_examples(f.__doc__ or ""):
        source = example.source.replace(f".{name}(", f".{name} and {name}(")
        home = {**home, name: spy}
        exec(compile(source, "example", "single"), home)  # noqa: S102 (it is ours)
        if calls:
            break
    if not calls or any(map(callable, tj.tree.leaves(calls[0][1:]))):
        return None
    return calls[0]


def changed(call: Call) -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """The arguments with one of them exchanged, by each bad value in turn."""
    f, args, kwargs = call
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except ValueError:
        return
    usual = [p for p in parameters if p.kind is not p.VAR_POSITIONAL]
    given = len(args) if len(usual) == len(parameters) else len(usual)
    rest = [p.name for p in usual[given:] if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    for i, arg in enumerate(args):
        for what, value in (BAD | ARRAYS if isinstance(arg, np.ndarray) else BAD).items():
            yield f"{i}: {what}", (*args[:i], value, *args[i + 1 :]), kwargs
    for name in dict.fromkeys([*kwargs, *rest]):
        for what, value in BAD.items():
            yield f"{name}: {what}", args, {**kwargs, name: value}


def functions(module: str) -> Iterator[str]:
    found = import_module(module)
    for name in dir(found):
        value = getattr(found, name)
        if inspect.isfunction(value) and name not in APART and not name.startswith("_"):
            yield name


@pytest.mark.sweep
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("module", CHECKED)
def test_errors_are_ours(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    foreign: list[str] = []
    for name in functions(module):
        call = first_call(module, name)
        if call is None:
            continue
        for what, args, kwargs in changed(call):
            if crc32(f"{name} {what}".encode()) % SAMPLED.get(module, 1):
                continue
            try:
                call[0](*args, **kwargs)
            except UnforeseenError as error:  # ours, but it only repeats what Python says
                foreign.append(f"{name}, {what}: {error}")
            except (TinyjaxError, BufferError):  # what the array API says of `from_dlpack`
                continue
            except Exception as error:  # noqa: BLE001 (all others are what is looked for)
                foreign.append(f"{name}, {what}: {type(error).__name__}: {error}")
    assert foreign == []
