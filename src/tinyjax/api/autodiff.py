"""`jvp`, `linearize`, `vjp`, `linear_transpose`, on functions of trees; and what `grad` does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeAlias, TypeVar, final, overload

import numpy as np
from typing_extensions import TypeVarTuple, override

from tinyjax.api import derivatives
from tinyjax.api.arguments import resolve_argnums
from tinyjax.api.linear_maps import PullBack, PushForward, Transposed, linear_map
from tinyjax.api.make_jaxpr import abstractify
from tinyjax.errors import InputError
from tinyjax.ir.dtypes import COMPLEXES, FLOATS
from tinyjax.ir.tangents import has_tangent
from tinyjax.ir.value import ConcreteValue
from tinyjax.lax.signatures import AnyTree
from tinyjax.tracebacks import filtered
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array, ArrayLike
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
from tinyjax.tracing.programs import trace
from tinyjax.transforms.linearity import Kind, check_linear, kind_of

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef

A = TypeVar("A", bound=Any)  # any: a lambda computes with it
B = TypeVar("B", bound=Any)
P = ParamSpec("P")
R = TypeVar("R")
Aux = TypeVar("Aux")
E = TypeVar("E", bound=Any)
Ts = TypeVarTuple("Ts")
#: Trees: what they stay when they are differentiated, as arrays and numbers become arrays.
C = TypeVar("C", bound=AnyTree)
D = TypeVar("D", bound=AnyTree)
WithAux: TypeAlias = Literal[True]
NoAux: TypeAlias = Literal[False]


@overload
def jvp(
    fun: Callable[[Array], R], primals: tuple[ArrayLike], tangents: Sequence[object], has_aux: NoAux = False
) -> tuple[R, R]: ...
@overload
def jvp(
    fun: Callable[[C], R], primals: tuple[C], tangents: Sequence[object], has_aux: NoAux = False
) -> tuple[R, R]: ...
@overload
def jvp(
    fun: Callable[[Array, Array], R],
    primals: tuple[ArrayLike, ArrayLike],
    tangents: Sequence[object],
    has_aux: NoAux = False,
) -> tuple[R, R]: ...
@overload
def jvp(
    fun: Callable[[Array, C], R], primals: tuple[ArrayLike, C], tangents: Sequence[object], has_aux: NoAux = False
) -> tuple[R, R]: ...
@overload
def jvp(
    fun: Callable[[C, Array], R], primals: tuple[C, ArrayLike], tangents: Sequence[object], has_aux: NoAux = False
) -> tuple[R, R]: ...
@overload
def jvp(
    fun: Callable[[C, D], R], primals: tuple[C, D], tangents: Sequence[object], has_aux: NoAux = False
) -> tuple[R, R]: ...
@overload
def jvp(
    fun: Callable[[Array], tuple[R, Aux]], primals: tuple[ArrayLike], tangents: Sequence[object], has_aux: WithAux
) -> tuple[R, R, Aux]: ...
@overload
def jvp(
    fun: Callable[[C], tuple[R, Aux]], primals: tuple[C], tangents: Sequence[object], has_aux: WithAux
) -> tuple[R, R, Aux]: ...
@overload
def jvp(
    fun: Callable[P, R], primals: Sequence[object], tangents: Sequence[object], has_aux: NoAux = False
) -> tuple[R, R]: ...
@overload
def jvp(
    fun: Callable[P, tuple[R, Aux]], primals: Sequence[object], tangents: Sequence[object], has_aux: WithAux
) -> tuple[R, R, Aux]: ...
@filtered
def jvp(
    fun: Callable[..., Any], primals: Sequence[object], tangents: Sequence[object], has_aux: bool = False
) -> tuple[Any, ...]:
    """The results of `fun` at `primals`, and their derivative in the direction `tangents`.

    Tangents have the tree, shapes and dtypes of the primals; those of integers are zeros of dtype float0. With
    `has_aux`, `fun` returns a pair whose second half is passed through. Source: Autodidax, part 1.

    >>> from tinyjax.numpy import sin
    >>> jvp(sin, (0.0,), (1.0,))
    (Array(0., dtype=float64, weak_type=True), Array(1., dtype=float64, weak_type=True))
    """
    check_callable("jvp", fun)
    if not isinstance(primals, tuple | list) or not isinstance(tangents, tuple | list):
        raise InputError(f"jvp takes a tuple of primals and one of tangents, got {primals!r} and {tangents!r}")
    values, treedef = flatten_arguments(fun, primals, {})
    directions, structure = flatten_arguments(fun, tangents, {})
    tree.check_same_structure("jvp", treedef.children()[0], structure.children()[0], "the primals", "the tangents")
    avals = [value.aval for value in values]
    directions = derivatives.check_tangents(
        "jvp", ("primal", "tangent"), avals, directions, lambda i: argument_path(fun, treedef, i)
    )
    found = derivatives.jvp(FlatFunction(fun, "jvp", treedef, has_aux), values, directions)
    tangents_out = tree.unflatten(found.primals.treedef, found.tangents)
    return (found.primals.tree(), tangents_out, *((found.primals.aux(),) if has_aux else ()))


@overload
def linearize(
    fun: Callable[[Array], R], x: ArrayLike, /, *, has_aux: NoAux = False
) -> tuple[R, Callable[[ArrayLike], R]]: ...
@overload
def linearize(
    fun: Callable[[float], float], x: float, /, *, has_aux: NoAux = False
) -> tuple[Array, Callable[[ArrayLike], Array]]: ...
@overload
def linearize(fun: Callable[[C], R], x: C, /, *, has_aux: NoAux = False) -> tuple[R, Callable[[C], R]]: ...
@overload
def linearize(
    fun: Callable[[Array, Array], R], x: ArrayLike, y: ArrayLike, /, *, has_aux: NoAux = False
) -> tuple[R, Callable[[ArrayLike, ArrayLike], R]]: ...
@overload
def linearize(
    fun: Callable[[Array, C], R], x: ArrayLike, y: C, /, *, has_aux: NoAux = False
) -> tuple[R, Callable[[ArrayLike, C], R]]: ...
@overload
def linearize(
    fun: Callable[[C, Array], R], x: C, y: ArrayLike, /, *, has_aux: NoAux = False
) -> tuple[R, Callable[[C, ArrayLike], R]]: ...
@overload
def linearize(fun: Callable[[C, D], R], x: C, y: D, /, *, has_aux: NoAux = False) -> tuple[R, Callable[[C, D], R]]: ...
@overload
def linearize(
    fun: Callable[[Array], tuple[R, Aux]], x: ArrayLike, /, *, has_aux: WithAux
) -> tuple[R, Callable[[ArrayLike], R], Aux]: ...
@overload
def linearize(fun: Callable[[C], tuple[R, Aux]], x: C, /, *, has_aux: WithAux) -> tuple[R, Callable[[C], R], Aux]: ...
@overload
def linearize(
    fun: Callable[[Array, Array], tuple[R, Aux]], x: ArrayLike, y: ArrayLike, /, *, has_aux: WithAux
) -> tuple[R, Callable[[ArrayLike, ArrayLike], R], Aux]: ...
@overload
def linearize(
    fun: Callable[[Array, C], tuple[R, Aux]], x: ArrayLike, y: C, /, *, has_aux: WithAux
) -> tuple[R, Callable[[ArrayLike, C], R], Aux]: ...
@overload
def linearize(
    fun: Callable[[C, Array], tuple[R, Aux]], x: C, y: ArrayLike, /, *, has_aux: WithAux
) -> tuple[R, Callable[[C, ArrayLike], R], Aux]: ...
@overload
def linearize(
    fun: Callable[[C, D], tuple[R, Aux]], x: C, y: D, /, *, has_aux: WithAux
) -> tuple[R, Callable[[C, D], R], Aux]: ...
@overload
def linearize(
    fun: Callable[[A, B, E, *Ts], R], x: A, y: B, z: E, /, *primals: *Ts, has_aux: NoAux = False
) -> tuple[R, Callable[[A, B, E, *Ts], R]]: ...
@overload
def linearize(
    fun: Callable[[A, B, E, *Ts], tuple[R, Aux]], x: A, y: B, z: E, /, *primals: *Ts, has_aux: WithAux
) -> tuple[R, Callable[[A, B, E, *Ts], R], Aux]: ...
@filtered
def linearize(fun: Callable[..., Any], *primals: object, has_aux: bool = False) -> tuple[Any, ...]:
    """The results of `fun` at `primals`, and its derivative there as a function of tangents.

    `fun` runs once; the returned function is linear, and evaluating it doesn't repeat that work. With `has_aux`, `fun`
    returns a pair whose second half is passed through. Source: Autodidax, part 4.

    >>> from tinyjax.numpy import sin
    >>> y, f_lin = linearize(sin, 0.0)
    >>> f_lin(2.0)
    Array(2., dtype=float64, weak_type=True)
    """
    check_callable("linearize", fun)
    values, treedef = flatten_arguments(fun, primals, {})
    linearized = derivatives.linearize(FlatFunction(fun, "linearize", treedef, has_aux), values)

    form = PushForward(treedef, linearized.results.treedef, fun, linearized.program)
    results = linearized.results
    return (results.tree(), linear_map(form, linearized.residuals), *((results.aux(),) if has_aux else ()))


@overload
def vjp(
    fun: Callable[[Array], R], x: ArrayLike, /, *, has_aux: NoAux = False
) -> tuple[R, Callable[[R | ArrayLike], tuple[Array]]]: ...
@overload
def vjp(
    fun: Callable[[float], float], x: float, /, *, has_aux: NoAux = False
) -> tuple[Array, Callable[[ArrayLike], tuple[Array]]]: ...
@overload
def vjp(fun: Callable[[C], R], x: C, /, *, has_aux: NoAux = False) -> tuple[R, Callable[[R | ArrayLike], tuple[C]]]: ...
@overload
def vjp(
    fun: Callable[[Array, Array], R], x: ArrayLike, y: ArrayLike, /, *, has_aux: NoAux = False
) -> tuple[R, Callable[[R | ArrayLike], tuple[Array, Array]]]: ...
@overload
def vjp(
    fun: Callable[[Array, C], R], x: ArrayLike, y: C, /, *, has_aux: NoAux = False
) -> tuple[R, Callable[[R | ArrayLike], tuple[Array, C]]]: ...
@overload
def vjp(
    fun: Callable[[C, Array], R], x: C, y: ArrayLike, /, *, has_aux: NoAux = False
) -> tuple[R, Callable[[R | ArrayLike], tuple[C, Array]]]: ...
@overload
def vjp(
    fun: Callable[[C, D], R], x: C, y: D, /, *, has_aux: NoAux = False
) -> tuple[R, Callable[[R | ArrayLike], tuple[C, D]]]: ...
@overload
def vjp(
    fun: Callable[[Array], tuple[R, Aux]], x: ArrayLike, /, *, has_aux: WithAux
) -> tuple[R, Callable[[R | ArrayLike], tuple[Array]], Aux]: ...
@overload
def vjp(
    fun: Callable[[C], tuple[R, Aux]], x: C, /, *, has_aux: WithAux
) -> tuple[R, Callable[[R | ArrayLike], tuple[C]], Aux]: ...
@overload
def vjp(
    fun: Callable[[Array, Array], tuple[R, Aux]], x: ArrayLike, y: ArrayLike, /, *, has_aux: WithAux
) -> tuple[R, Callable[[R | ArrayLike], tuple[Array, Array]], Aux]: ...
@overload
def vjp(
    fun: Callable[[Array, C], tuple[R, Aux]], x: ArrayLike, y: C, /, *, has_aux: WithAux
) -> tuple[R, Callable[[R | ArrayLike], tuple[Array, C]], Aux]: ...
@overload
def vjp(
    fun: Callable[[C, Array], tuple[R, Aux]], x: C, y: ArrayLike, /, *, has_aux: WithAux
) -> tuple[R, Callable[[R | ArrayLike], tuple[C, Array]], Aux]: ...
@overload
def vjp(
    fun: Callable[[C, D], tuple[R, Aux]], x: C, y: D, /, *, has_aux: WithAux
) -> tuple[R, Callable[[R | ArrayLike], tuple[C, D]], Aux]: ...
@overload
def vjp(
    fun: Callable[[A, B, E, *Ts], R], x: A, y: B, z: E, /, *primals: *Ts, has_aux: NoAux = False
) -> tuple[R, Callable[[R | ArrayLike], tuple[A, B, E, *Ts]]]: ...
@overload
def vjp(
    fun: Callable[[A, B, E, *Ts], tuple[R, Aux]], x: A, y: B, z: E, /, *primals: *Ts, has_aux: WithAux
) -> tuple[R, Callable[[R | ArrayLike], tuple[A, B, E, *Ts]], Aux]: ...
@filtered
def vjp(fun: Callable[..., Any], *primals: object, has_aux: bool = False) -> tuple[Any, ...]:
    """The results of `fun` at `primals`, and the function that maps cotangents of the results to those of the primals.

    Cotangents have the tree, shapes and dtypes of the results; those of integers are anything of the right shape.
    Source: Autodidax, part 4.

    >>> from tinyjax.numpy import sin
    >>> y, f_vjp = vjp(sin, 0.0)
    >>> f_vjp(2.0)
    (Array(2., dtype=float64, weak_type=True),)
    """
    check_callable("vjp", fun)
    values, treedef = flatten_arguments(fun, primals, {})
    linearized = derivatives.linearize(FlatFunction(fun, "vjp", treedef, has_aux), values)

    form = PullBack(treedef, linearized.results.treedef, fun, linearized.program)
    results = linearized.results
    return (results.tree(), linear_map(form, linearized.residuals), *((results.aux(),) if has_aux else ()))


@filtered
def linear_transpose(fun: Callable[[*Ts], R], *primals: object) -> Callable[[Any], tuple[*Ts]]:
    """The transpose of a linear function: from cotangents of its results to cotangents of its arguments.

    `primals` are arrays or types (ShapedArray); only their types matter. A LinearityError if `fun` isn't linear.

    >>> from tinyjax.ir.aval import ShapedArray
    >>> linear_transpose(lambda x: 3.0 * x, ShapedArray((), "float64"))(2.0)
    (Array(6., dtype=float64),)
    """
    check_callable("linear_transpose", fun)
    leaves, treedef = tree.flatten((primals, {}))
    avals = [abstractify(leaf) for leaf in leaves]
    for i, aval in enumerate(avals):
        if not has_tangent(aval):
            where = argument_path(fun, treedef, i)
            raise InputError(f"linear_transpose takes floating-point and complex arguments; {where} is {aval}")
    traced = trace(FlatFunction(fun, "linear_transpose", treedef), avals)
    kinds = [*(kind_of(array.concrete()) for array in traced.captured), *([Kind.LINEAR] * len(avals))]
    check_linear(describe("linear_transpose", fun), traced.jaxpr, kinds, [True] * len(traced.jaxpr.outvars))

    return linear_map(Transposed(treedef, traced.treedef, fun, traced.jaxpr), traced.captured)


def differentiated(
    what: str,
    fun: Callable[..., Any],
    argnums: int | Sequence[int],
    has_aux: bool,
    holomorphic: bool,
    allow_int: bool,
) -> Callable[..., tuple[Any, Any]]:
    """A function that returns what `fun` does, and its gradient. `what` is the transformation that messages name."""

    @filtered
    @wraps(fun)
    def both(*args: Any, **kwargs: Any) -> tuple[Any, Any]:  # the user's arguments
        chosen = resolve_argnums(what, argnums, len(args))
        selected = ChosenArguments(fun, args, kwargs, chosen)
        values, treedef = flatten_arguments(selected, [args[i] for i in chosen], {})
        check_inputs(what, selected, values, treedef, holomorphic, allow_int)
        linearized = derivatives.linearize(FlatFunction(selected, what, treedef, has_aux), values)
        seed = _seed(describe(what, fun), linearized, holomorphic)
        gradients, _ = tree.unflatten(treedef, derivatives.pull_back(linearized.program, linearized.residuals, [seed]))
        results = linearized.results
        value = (results.tree(), results.aux()) if has_aux else results.tree()
        return value, (gradients if isinstance(argnums, Sequence) else gradients[0])

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
