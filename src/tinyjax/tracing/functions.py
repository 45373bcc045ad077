"""From functions of trees to functions of lists of arrays, and back; and how functions are named in messages."""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, final

import numpy as np
from attrs import frozen

from tinyjax.errors import InputError
from tinyjax.ir.dtypes import FLOAT0
from tinyjax.ir.merging import completed
from tinyjax.ir.shapes import Shape
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.value import ConcreteValue
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import ConcreteArray, as_array

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef


def function_name(f: Callable[..., object]) -> str:
    """The name of a function, for programs and messages."""
    name = getattr(f, "__name__", None)
    return name if isinstance(name, str) and name else type(f).__name__


def describe(transformation: str, f: Callable[..., object]) -> str:
    """Which function is being transformed and how, for messages: `jit of f (model.py:12)`."""
    return f"{transformation} of {located(f)}"


def located(f: Callable[..., object]) -> str:
    """A function by its name and its line, for messages: `f (model.py:12)`."""
    inner: object = f
    while True:
        inner = inspect.unwrap(inner) if callable(inner) else inner
        if not isinstance(inner, functools.partial):
            break
        inner = inner.func
    method = inspect.getattr_static(type(inner), "__call__", None)  # of an object that can be called
    code = getattr(inner, "__code__", None) or getattr(method, "__code__", None)
    where = f" ({code.co_filename}:{code.co_firstlineno})" if isinstance(code, CodeType) else ""
    return f"{function_name(f)}{where}"


def float0_zeros(shape: Shape) -> ConcreteArray:
    """The tangent of integers: zeros without bits. They never enter a program, as they hold nothing."""
    return ConcreteArray(ConcreteValue(np.zeros(shape, FLOAT0), array_type(shape, FLOAT0)))


def check_callable(transformation: str, f: object) -> None:
    if not callable(f) or isinstance(f, staticmethod):
        raise InputError(f"{transformation} needs a function to transform, got {f!r}")
    if inspect.isgeneratorfunction(f):
        raise InputError(f"{transformation} needs a function that returns a result, and {f!r} is one of a generator")


class Filled(ABC):
    """A function with some of its arguments filled in."""

    __wrapped__: Callable[..., object]

    @property
    @abstractmethod
    def filled_in(self) -> tuple[object, ...]:
        """What tells it from the same function with other arguments filled in."""

    @abstractmethod
    def position(self, index: int) -> int:
        """Where the n-th of the positional arguments that are left stands among all of them."""

    @abstractmethod
    def __call__(self, /, *args: Any, **kwargs: Any) -> object:  # the user's arguments
        """Calls the function with the arguments that are left."""


@final
@frozen(eq=False)
class Results:
    """What a function returned, flattened: arrays and their tree, and auxiliary data, whose leaves may be anything."""

    arrays: list[Array]
    treedef: PyTreeDef
    aux_leaves: list[object]
    aux_treedef: PyTreeDef

    def replace(self, arrays: list[Array], lower: Callable[[Array], Array]) -> Results:
        """The same tree with other arrays, and with `lower` applied to the arrays in the auxiliary data."""
        aux = [lower(leaf) if isinstance(leaf, Array) else leaf for leaf in self.aux_leaves]
        return Results(arrays, self.treedef, aux, self.aux_treedef)

    def tree(self) -> Any:  # the user's own type of results
        return tree.unflatten(self.treedef, self.arrays)

    def aux(self) -> Any:  # the user's own data
        return tree.unflatten(self.aux_treedef, self.aux_leaves)


@final
class FlatFunction:
    """A function of a tree of arguments, as a function of the list of its leaves.

    With `has_aux` the function returns a pair: results, and auxiliary data that is only passed through. `fixed` are
    leaves that are given already, by their positions.
    """

    __slots__ = ("_f", "_fixed", "_has_aux", "_transformation", "_treedef", "name")

    def __init__(
        self,
        f: Callable[..., object],
        transformation: str,
        treedef: PyTreeDef,
        has_aux: bool = False,
        fixed: Mapping[int, object] | None = None,
    ) -> None:
        self._f = f
        self._treedef = treedef
        self._has_aux = has_aux
        self._transformation = transformation
        self._fixed = fixed or {}
        self.name: str = function_name(f)

    def __call__(self, leaves: Sequence[Array]) -> Results:
        full: Sequence[object] = leaves
        if self._fixed:
            full = completed(self._fixed, leaves, self._treedef.num_leaves)
        args, kwargs = tree.unflatten(self._treedef, full)
        try:
            outs = self._f(*args, **kwargs)
        except (RecursionError, TypeError) as error:
            from tinyjax.tracing.messages.failing import explained

            better = explained(error, self)
            if better is None:
                raise
            raise better from None
        aux: object = None
        if self._has_aux:
            if not isinstance(outs, tuple) or len(outs) != 2:
                raise InputError(f"with has_aux=True, {self.name} must return a pair (result, auxiliary); got {outs!r}")
            outs, aux = outs
        found, treedef = tree.flatten(outs)
        arrays = as_arrays(found, lambda i: f"result{tree.paths(treedef)[i]} of {self.name}")
        return Results(arrays, treedef, *tree.flatten(aux))

    @property
    def function(self) -> Callable[..., object]:
        """The function of a tree."""
        return self._f

    @property
    def label(self) -> str:
        """Which function is being transformed and how, for messages."""
        return describe(self._transformation, self._f)

    def name_input(self, position: int) -> str:
        """The n-th leaf of the arguments by the name that the function gives it: `argument params['w']`."""
        names = self.input_names()()
        return f"argument {names[position]}" if position < len(names) else "what a Ref holds"

    def input_names(self) -> Callable[[], list[str]]:
        """What gives the names of the inputs of the program that is traced. It doesn't keep the function alive."""
        return partial(_input_names, parameters_of(self._f, self._treedef), self._treedef, frozenset(self._fixed))


def as_arrays(leaves: Sequence[object], where: Callable[[int], str]) -> list[Array]:
    """Leaves as arrays; the error for anything else says where it stood."""
    arrays: list[Array] = []
    for i, leaf in enumerate(leaves):
        try:
            arrays.append(as_array(leaf))
        except InputError as error:
            raise type(error)(f"{where(i)}: {error}") from None
    return arrays


def flatten_arguments(
    f: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
) -> tuple[list[Array], PyTreeDef]:
    """The leaves of the arguments as arrays, and their tree."""
    leaves, treedef = tree.flatten((tuple(args), dict(kwargs)))
    arrays = as_arrays(leaves, lambda i: f"argument {argument_path(f, treedef, i)} of {function_name(f)}")
    return arrays, treedef


def argument_path(f: Callable[..., object], treedef: PyTreeDef, position: int) -> str:
    """The n-th leaf of `(args, kwargs)` by its name in the signature of f, such as `params['w']`."""
    return argument_paths(f, treedef)[position]


def argument_paths(f: Callable[..., object], treedef: PyTreeDef) -> list[str]:
    """All leaves of `(args, kwargs)` by their names in the signature of f."""
    return _input_names(parameters_of(f, treedef), treedef, frozenset())


def _input_names(parameters: Parameters, treedef: PyTreeDef, fixed: frozenset[int]) -> list[str]:
    return [parameters.path(path) for i, path in enumerate(tree.paths(treedef)) if i not in fixed]


@final
@frozen
class Parameters:
    """The names of a function's positional parameters, and of the one that takes the rest of them."""

    positional: tuple[str, ...]
    rest: str | None = None

    def name(self, index: int) -> str:
        """The n-th positional argument."""
        if index < len(self.positional):
            return self.positional[index]
        return f"{index}" if self.rest is None else f"{self.rest}[{index - len(self.positional)}]"

    def path(self, path: str) -> str:
        """A leaf of `(args, kwargs)`, by its path there."""
        group, _, rest = path[1:].partition("]")
        head, _, tail = rest[1:].partition("]")
        return (head.strip("'\"") if group == "1" else self.name(int(head))) + tail


def parameters_of(f: Callable[..., object], treedef: PyTreeDef) -> Parameters:
    """The names of the parameters that are not filled in; `treedef` is that of `(args, kwargs)`."""
    if isinstance(f, Filled):
        positions: Sequence[int] = range(len(treedef.children()[0].children()))
        while isinstance(f, Filled):
            positions, f = [f.position(i) for i in positions], f.__wrapped__
        inner = parameters_of(f, treedef)
        return Parameters(tuple([inner.name(i) for i in positions]))
    found: object = f
    try:
        while not hasattr(found, "__signature__") and (wrapped := getattr(found, "__wrapped__", None)) is not None:
            found = wrapped
        if type(found) is FunctionType and not hasattr(found, "__signature__"):
            code = found.__code__
            count = code.co_argcount
            rest = code.co_varnames[count + code.co_kwonlyargcount] if code.co_flags & inspect.CO_VARARGS else None
            return Parameters(code.co_varnames[:count], rest)
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):  # also of a `__signature__` that is a property
        return Parameters(())
    ordered = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return Parameters(tuple(ordered), next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None))
