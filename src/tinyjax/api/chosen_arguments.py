"""Derivatives with respect to some of the arguments: what `grad`, `jacfwd` and `jacrev` have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.api import derivatives
from tinyjax.api.arguments import resolve_argnums
from tinyjax.api.staged_first import staged_first
from tinyjax.contexts.recording import Tape
from tinyjax.errors import InputError
from tinyjax.ir.dtypes import COMPLEXES, FLOATS
from tinyjax.ir.value import ConcreteValue
from tinyjax.tracebacks import filtered
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.functions import (
    Filled,
    FlatFunction,
    argument_path,
    check_callable,
    describe,
    flatten_arguments,
    function_name,
)
from tinyjax.wrapping import wraps

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef


@final
@frozen
class Differentiation:
    """What is differentiated and how, as the user asked for it. `what` is the transformation that messages name."""

    what: str
    fun: Callable[..., Any]
    argnums: int | Sequence[int]
    has_aux: bool
    holomorphic: bool
    allow_int: bool

    def __attrs_post_init__(self) -> None:
        check_callable(self.what, self.fun)

    @property
    def said(self) -> str:
        """How messages begin."""
        return describe(self.what, self.fun)

    def linearize(
        self, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> tuple[PyTreeDef, derivatives.Linearized]:
        """A call, linearized in the chosen arguments, and the tree of these."""
        treedef, f, values = self._chosen(args, kwargs)
        return treedef, derivatives.linearize(f, values)

    def record(
        self, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> tuple[PyTreeDef, derivatives.Linearized[Tape]]:
        """The same for what runs the linear program backwards, and nothing else."""
        treedef, f, values = self._chosen(args, kwargs)
        return treedef, derivatives.record(f, values)

    def _chosen(
        self, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> tuple[PyTreeDef, FlatFunction, Sequence[Array]]:
        """The tree of the chosen arguments, the function of these, and their leaves."""
        chosen = resolve_argnums(self.what, self.argnums, len(args))
        selected = ChosenArguments(self.fun, args, kwargs, chosen)
        values, treedef = flatten_arguments(selected, [args[i] for i in chosen], {})
        check_inputs(self.what, selected, values, treedef, self.holomorphic, self.allow_int)
        return treedef, FlatFunction(staged_first(selected), self.what, treedef, self.has_aux), values

    def by_argument(self, treedef: PyTreeDef, leaves: Sequence[object]) -> Any:  # trees like the user's arguments
        """What belongs to the chosen arguments: one tree, or a tuple of them if they are chosen by a sequence."""
        found, _ = tree.unflatten(treedef, leaves)
        return tuple(found) if isinstance(self.argnums, Sequence) else found[0]


def differentiated(asked: Differentiation) -> Callable[..., tuple[Any, Any]]:
    """A function that returns what the user's does, and its gradient."""

    @filtered
    @wraps(asked.fun)
    def both(*args: Any, **kwargs: Any) -> tuple[Any, Any]:  # the user's arguments
        treedef, linearized = asked.record(args, kwargs)
        seed = _seed(asked.said, linearized, asked.holomorphic)
        gradients = derivatives.pull_back(linearized.program, linearized.residuals, [seed])
        results = linearized.results
        value = (results.tree(), results.aux()) if asked.has_aux else results.tree()
        return value, asked.by_argument(treedef, gradients)

    return both


@final
class ChosenArguments(Filled):
    """A function of some of its arguments, with the others fixed."""

    def __init__(
        self, f: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], chosen: Sequence[int]
    ) -> None:
        self.__wrapped__ = f
        self.__name__: str = function_name(f)
        self._args = args
        self._kwargs = kwargs
        self._chosen = chosen

    @property
    @override
    def filled_in(self) -> tuple[object, ...]:
        return (*self._chosen, *self._args, *self._kwargs, *self._kwargs.values())

    @override
    def position(self, index: int) -> int:
        return self._chosen[index]

    @override
    def __call__(self, *values: Any) -> Any:  # the user's arguments
        args = list(self._args)
        for i, value in zip(self._chosen, values, strict=True):
            args[i] = value
        return self.__wrapped__(*args, **self._kwargs)


def check_inputs(
    what: str, f: Callable[..., Any], values: Sequence[Array], treedef: PyTreeDef, holomorphic: bool, allow_int: bool
) -> None:
    """An InputError for arguments that can't be differentiated with respect to."""
    for i, value in enumerate(values):
        dtype = value.aval.dtype
        if holomorphic:
            if dtype not in COMPLEXES:
                where = argument_path(f, treedef, i)
                raise InputError(
                    f"{describe(what, f)} with holomorphic=True needs complex arguments; {where} is {value.aval}"
                )
        elif dtype in COMPLEXES:
            if what in ("jacfwd", "sparse_jacobian"):  # along the real unit vectors it would see half of the derivative
                raise InputError(
                    f"{describe(what, f)} needs real arguments; {argument_path(f, treedef, i)} is {value.aval}. If the "
                    "function is holomorphic, pass holomorphic=True; if not, make it one of real and imaginary parts."
                )
        elif dtype not in FLOATS and not allow_int:
            where = argument_path(f, treedef, i)
            leaving = "leave it out of argnums, or pass allow_int=True for gradients of dtype float0"
            if what in ("jacfwd", "sparse_jacobian"):
                leaving = "or leave it out of argnums"
            raise InputError(
                f"{describe(what, f)} needs arguments of floating-point or complex dtype; {where} is {value.aval}. "
                f"Convert it to a float, {leaving}."
            )


def _seed(what: str, linearized: derivatives.Linearized[Tape], holomorphic: bool) -> Array:
    """The cotangent 1 for a scalar result."""
    if len(linearized.program.out_avals) != 1 or linearized.results.treedef.num_nodes != 1:
        shown = tree.unflatten(linearized.results.treedef, linearized.program.out_avals)
        raise InputError(f"{what} needs a function with one scalar result; it returned {shown}")
    (aval,) = linearized.program.out_avals
    if aval.shape != ():
        raise InputError(
            f"{what}: Gradient only defined for scalar-output functions. Output had shape: {aval.shape}. Sum it, or "
            "use jacrev, jacfwd or vjp."
        )
    if holomorphic and aval.dtype not in COMPLEXES:
        raise InputError(f"{what} with holomorphic=True needs a complex result; it returned {aval}")
    if not holomorphic and aval.dtype not in FLOATS:
        hint = " Take its real part, or pass holomorphic=True." if aval.dtype in COMPLEXES else ""
        raise InputError(f"{what} needs a function with a real, floating-point result; it returned {aval}.{hint}")
    return as_array(ConcreteValue(np.ones((), aval.dtype), aval))
