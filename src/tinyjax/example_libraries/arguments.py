"""What layers and optimizers are made with is checked against the annotations of their makers, and what they make are
entries: their errors show the user's frames only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import Parameter, signature
from typing import Any, Final, ParamSpec, TypeVar

import tinyjax.numpy as tnp
from tinyjax.arrays.shaping import integer, integers
from tinyjax.errors import ChoiceError, InputError, ShapeError
from tinyjax.tracebacks import filtered

P = ParamSpec("P")
R = TypeVar("R")


def size(what: str, x: Any) -> None:
    """How many there are of something: a ShapeError for less than none."""
    if integer(x, what) < 0:
        raise ShapeError(f"{what} is at least 0, got {x!r}")


def shape(what: str, x: Any) -> None:
    """Sizes of axes; -1 stands for batches of every size."""
    if not isinstance(x, tuple | list):
        raise ShapeError(f"{what} is a tuple of sizes, got {x!r}")
    for n in x:
        if integer(n, f"{what}: a size") < -1:
            raise ShapeError(f"{what}: a size is at least 0, got {n!r}")


def shapes(what: str, x: Any) -> None:
    """A shape, or a list of those of several inputs."""
    several = isinstance(x, tuple | list) and any(isinstance(part, tuple | list) for part in x)
    for part in x if several else [x]:
        shape(what, part)


def _function(what: str, x: Any) -> None:
    if not callable(x):
        raise InputError(f"{what} is a function, got {x!r}")


def number(what: str, x: Any) -> None:
    if isinstance(x, str) or tnp.ndim(x) != 0:
        raise InputError(f"{what} is a number, got {x!r}")
    _ = tnp.asarray(x)


def _layer(what: str, x: Any) -> None:
    if not isinstance(x, tuple | list) or len(x) != 2 or not all(map(callable, x)):
        raise InputError(f"{what} is a pair of functions, init and apply, got {x!r}")


def _dimensions(what: str, x: Any) -> None:
    if not isinstance(x, tuple | list) or len(x) != 3 or not all(isinstance(part, str) for part in x):
        raise ChoiceError(f'{what} are three strings, such as ("NHWC", "HWIO", "NHWC"), got {x!r}')
    for part, letters in zip(x, ("NC", "IO", "NC"), strict=True):
        if any(part.count(letter) != 1 for letter in letters):
            raise ChoiceError(f"{what}: {part!r} has to have {letters[0]} and {letters[1]}, each once")


def _step_size(what: str, x: Any) -> None:
    if not callable(x):
        number(what, x)


def _axes(what: str, x: Any) -> None:
    _ = integers(x, what)


def _word(what: str, x: Any) -> None:
    if not isinstance(x, str):
        raise InputError(f"{what} is a string, got {x!r}")


#: By the annotation of a parameter, what it must be.
_CHECKS: Final[Mapping[str, Callable[[str, Any], None]]] = {
    "int": size,
    "Axis": _axes,
    "Axes": _axes,
    "Shape": shape,
    "Initializer": _function,
    "Number": number,
    "StepSize": _step_size,
    "Layer": _layer,
    "Dimensions": _dimensions,
    "str": _word,
    "Callable[..., Any]": _function,
    "Callable[[Any], Layer]": _function,
}


def checked(make: Callable[P, R]) -> Callable[P, R]:
    """The maker, as an entry whose arguments have to be as their annotations say. A decorator."""
    parameters = signature(make).parameters

    @wraps(make)
    def checking(*args: P.args, **kwargs: P.kwargs) -> R:
        for name, value in signature(make).bind(*args, **kwargs).arguments.items():
            parameter = parameters[name]
            kind, _, optional = str(parameter.annotation).partition(" | ")
            if kind not in _CHECKS or (optional == "None" and value is None):
                continue
            several: Sequence[Any] = value if parameter.kind is Parameter.VAR_POSITIONAL else [value]
            for x in several:
                _CHECKS[kind](f"{make.__name__}: {name}", x)
        return make(*args, **kwargs)

    return filtered(checking, says=True)


def entries(init: Callable[..., Any], apply: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The two functions of a layer, for users to call."""

    @wraps(init)
    def begin(rng: Any, input_shape: Any) -> Any:
        shapes("init: input_shape", input_shape)
        return init(rng, input_shape)

    return filtered(begin, says=True), filtered(apply, says=True)


def learned(params: Any) -> tuple[Any, Any]:
    """The two parameters of a layer that has some."""
    if not isinstance(params, tuple | list) or len(params) != 2:
        raise InputError(f"params are the pair that the layer's init returns, got {params!r}")
    first, second = params
    return first, second


def axes_named(input_shape: Sequence[int], count: int) -> None:
    """A ShapeError unless inputs have so many axes."""
    if len(input_shape) != count:
        raise ShapeError(f"input_shape has to have {count} axes, got {tuple(input_shape)}")


def one_each(what: str, layers: Sequence[object], given: Any) -> Any:
    """What is given for each layer: a ShapeError unless that is as many."""
    if not isinstance(given, tuple | list) or len(given) != len(layers):
        raise ShapeError(f"{what} has to be a sequence of length {len(layers)}, one for each layer; got {given!r}")
    return given
