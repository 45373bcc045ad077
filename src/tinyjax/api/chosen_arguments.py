"""Derivatives with respect to some of the arguments: what `grad`, `jacfwd` and `jacrev` have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, final

import numpy as np
from typing_extensions import override

from tinyjax.api import derivatives
from tinyjax.api.arguments import resolve_argnums
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

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef


def differentiated(
    what: str,
    fun: Callable[..., Any],
    argnums: int | Sequence[int],
    has_aux: bool,
    holomorphic: bool,
    allow_int: bool,
) -> Callable[..., tuple[Any, Any]]:
    """A function that returns what `fun` does, and its gradient. `what` is the transformation that messages name."""
    check_callable(what, fun)

    @filtered
    @wraps(fun)
    def both(*args: Any, **kwargs: Any) -> tuple[Any, Any]:  # the user's arguments
        treedef, linearized = linearize_chosen(what, fun, argnums, args, kwargs, has_aux, holomorphic, allow_int)
        seed = _seed(describe(what, fun), linearized, holomorphic)
        gradients, _ = tree.unflatten(treedef, derivatives.pull_back(linearized.program, linearized.residuals, [seed]))
        results = linearized.results
        value = (results.tree(), results.aux()) if has_aux else results.tree()
        return value, (gradients if isinstance(argnums, Sequence) else gradients[0])

    return both


def linearize_chosen(
    what: str,
    fun: Callable[..., object],
    argnums: int | Sequence[int],
    args: Sequence[object],
    kwargs: Mapping[str, object],
    has_aux: bool,
    holomorphic: bool,
    allow_int: bool,
) -> tuple[PyTreeDef, derivatives.Linearized]:
    """A call of `fun`, linearized in some of its arguments, and the tree of these."""
    chosen = resolve_argnums(what, argnums, len(args))
    selected = ChosenArguments(fun, args, kwargs, chosen)
    values, treedef = flatten_arguments(selected, [args[i] for i in chosen], {})
    check_inputs(what, selected, values, treedef, holomorphic, allow_int)
    return treedef, derivatives.linearize(FlatFunction(selected, what, treedef, has_aux), values)


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


def _seed(what: str, linearized: derivatives.Linearized, holomorphic: bool) -> Array:
    """The cotangent 1 for a scalar result."""
    if len(linearized.program.out_avals) != 1 or linearized.results.treedef.num_nodes != 1:
        shown = tree.unflatten(linearized.results.treedef, linearized.program.out_avals)
        raise InputError(f"{what} needs a function with one scalar result; it returned {shown}")
    (aval,) = linearized.program.out_avals
    if aval.shape != ():
        raise InputError(
            f"{what} needs a function with a scalar result; it returned {aval}. Sum it, or use jacrev, jacfwd or vjp."
        )
    if holomorphic and aval.dtype not in COMPLEXES:
        raise InputError(f"{what} with holomorphic=True needs a complex result; it returned {aval}")
    if not holomorphic and aval.dtype not in FLOATS:
        hint = " Take its real part, or pass holomorphic=True." if aval.dtype in COMPLEXES else ""
        raise InputError(f"{what} needs a function with a real, floating-point result; it returned {aval}.{hint}")
    return as_array(ConcreteValue(np.ones((), aval.dtype), aval))
