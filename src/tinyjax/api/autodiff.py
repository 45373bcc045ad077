"""`jvp`, `linearize`, `vjp`, `linear_transpose`, on functions of trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeAlias, TypeVar, overload

from typing_extensions import TypeVarTuple

from tinyjax.api import derivatives
from tinyjax.api.gradient_places import DidntWant, GradRef
from tinyjax.api.linear_maps import VJP, PullBack, PushForward, Transposed, linear_map, pull_back, saveable_leaves
from tinyjax.api.make_jaxpr import abstractify
from tinyjax.api.staged_first import staged_first
from tinyjax.errors import InputError, RefError
from tinyjax.ir.tangents import has_tangent
from tinyjax.lax.layouts import varying_as
from tinyjax.lax.signatures import AnyTree
from tinyjax.refs.lending import Lent, lend, lending
from tinyjax.refs.ref import Ref
from tinyjax.tracebacks import filtered
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.functions import (
    FlatFunction,
    argument_path,
    check_callable,
    describe,
    flatten_arguments,
)
from tinyjax.tracing.programs import trace
from tinyjax.transforms.linearity import Kind, check_linear, kind_of

if TYPE_CHECKING:
    pass

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

    Tangents have the tree, shapes and dtypes of the primals; those of integers are zeros of dtype float0. Within
    `shard_map`, primals vary along the axes of the mesh along which their tangents do. With `has_aux`, `fun` returns a
    pair whose second half is passed through. Source: Autodidax, part 1.

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
    values = [varying_as(value, direction.aval) for value, direction in zip(values, directions, strict=True)]
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
    return _linearized("linearize", PushForward, fun, primals, has_aux)


@overload
def vjp(
    fun: Callable[[Ref], R], x: Ref, /, *, has_aux: NoAux = False, saveable_args: object = True
) -> tuple[R, VJP[R | ArrayLike, tuple[GradRef | DidntWant]]]: ...
@overload
def vjp(
    fun: Callable[[Ref, B], R], x: Ref, y: B, /, *, has_aux: NoAux = False, saveable_args: object = True
) -> tuple[R, VJP[R | ArrayLike, tuple[GradRef | DidntWant, B]]]: ...
@overload
def vjp(
    fun: Callable[[A, Ref], R], x: A, y: Ref, /, *, has_aux: NoAux = False, saveable_args: object = True
) -> tuple[R, VJP[R | ArrayLike, tuple[A, GradRef | DidntWant]]]: ...
@overload
def vjp(
    fun: Callable[[Array], R], x: ArrayLike, /, *, has_aux: NoAux = False, saveable_args: object = True
) -> tuple[R, VJP[R | ArrayLike, tuple[Array]]]: ...
@overload
def vjp(
    fun: Callable[[float], float], x: float, /, *, has_aux: NoAux = False, saveable_args: object = True
) -> tuple[Array, VJP[ArrayLike, tuple[Array]]]: ...
@overload
def vjp(
    fun: Callable[[C], R], x: C, /, *, has_aux: NoAux = False, saveable_args: object = True
) -> tuple[R, VJP[R | ArrayLike, tuple[C]]]: ...
@overload
def vjp(
    fun: Callable[[Array, Array], R],
    x: ArrayLike,
    y: ArrayLike,
    /,
    *,
    has_aux: NoAux = False,
    saveable_args: object = True,
) -> tuple[R, VJP[R | ArrayLike, tuple[Array, Array]]]: ...
@overload
def vjp(
    fun: Callable[[Array, C], R], x: ArrayLike, y: C, /, *, has_aux: NoAux = False, saveable_args: object = True
) -> tuple[R, VJP[R | ArrayLike, tuple[Array, C]]]: ...
@overload
def vjp(
    fun: Callable[[C, Array], R], x: C, y: ArrayLike, /, *, has_aux: NoAux = False, saveable_args: object = True
) -> tuple[R, VJP[R | ArrayLike, tuple[C, Array]]]: ...
@overload
def vjp(
    fun: Callable[[C, D], R], x: C, y: D, /, *, has_aux: NoAux = False, saveable_args: object = True
) -> tuple[R, VJP[R | ArrayLike, tuple[C, D]]]: ...
@overload
def vjp(
    fun: Callable[[Array], tuple[R, Aux]], x: ArrayLike, /, *, has_aux: WithAux, saveable_args: object = True
) -> tuple[R, VJP[R | ArrayLike, tuple[Array]], Aux]: ...
@overload
def vjp(
    fun: Callable[[C], tuple[R, Aux]], x: C, /, *, has_aux: WithAux, saveable_args: object = True
) -> tuple[R, VJP[R | ArrayLike, tuple[C]], Aux]: ...
@overload
def vjp(
    fun: Callable[[Array, Array], tuple[R, Aux]],
    x: ArrayLike,
    y: ArrayLike,
    /,
    *,
    has_aux: WithAux,
    saveable_args: object = True,
) -> tuple[R, VJP[R | ArrayLike, tuple[Array, Array]], Aux]: ...
@overload
def vjp(
    fun: Callable[[Array, C], tuple[R, Aux]], x: ArrayLike, y: C, /, *, has_aux: WithAux, saveable_args: object = True
) -> tuple[R, VJP[R | ArrayLike, tuple[Array, C]], Aux]: ...
@overload
def vjp(
    fun: Callable[[C, Array], tuple[R, Aux]], x: C, y: ArrayLike, /, *, has_aux: WithAux, saveable_args: object = True
) -> tuple[R, VJP[R | ArrayLike, tuple[C, Array]], Aux]: ...
@overload
def vjp(
    fun: Callable[[C, D], tuple[R, Aux]], x: C, y: D, /, *, has_aux: WithAux, saveable_args: object = True
) -> tuple[R, VJP[R | ArrayLike, tuple[C, D]], Aux]: ...
@overload
def vjp(
    fun: Callable[[A, B, E, *Ts], R],
    x: A,
    y: B,
    z: E,
    /,
    *primals: *Ts,
    has_aux: NoAux = False,
    saveable_args: object = True,
) -> tuple[R, VJP[R | ArrayLike, tuple[A, B, E, *Ts]]]: ...
@overload
def vjp(
    fun: Callable[[A, B, E, *Ts], tuple[R, Aux]],
    x: A,
    y: B,
    z: E,
    /,
    *primals: *Ts,
    has_aux: WithAux,
    saveable_args: object = True,
) -> tuple[R, VJP[R | ArrayLike, tuple[A, B, E, *Ts]], Aux]: ...
@filtered
def vjp(
    fun: Callable[..., Any], *primals: object, has_aux: bool = False, saveable_args: object = True
) -> tuple[Any, ...]:
    """The results of `fun` at `primals`, and the function that maps cotangents of the results to those of the primals.

    Cotangents have the tree, shapes and dtypes of the results; those of integers are anything of the right shape.
    Source: Autodidax, part 4; `args_res` and `saveable_args`: jax 0.11.

    The function keeps what its derivative needs, be it computed or an argument: `f_vjp.args_res` has the arguments that
    it keeps. Where `saveable_args` is False (it is True or False, or a tuple that says so of each argument, or of its
    parts) an argument isn't kept, such as weights that are there anyway; `f_vjp.replace(args_res=args)` puts it back,
    before the function is called. It is a node of trees, so compiled functions return and take it. For
    `f_vjp.with_refs`, which says where gradients go, and arguments that are Refs, see `LinearMap.with_refs`.

    >>> from tinyjax.numpy import sin
    >>> y, f_vjp = vjp(sin, 0.0)
    >>> f_vjp(2.0)
    (Array(2., dtype=float64, weak_type=True),)
    >>> y, f_vjp = vjp(lambda w, x: w * x, 3.0, 2.0, saveable_args=(False, True))
    >>> f_vjp.args_res
    (NotSaved(), Array(2., dtype=float64, weak_type=True))
    >>> f_vjp.replace(args_res=(3.0, 2.0))(1.0)
    (Array(2., dtype=float64, weak_type=True), Array(3., dtype=float64, weak_type=True))
    """
    return _linearized("vjp", PullBack, fun, primals, has_aux, saveable_args)


def _linearized(
    what: str,
    form: type[PushForward | PullBack],
    fun: Callable[..., Any],
    primals: Sequence[object],
    has_aux: bool,
    saveable_args: object = True,
) -> tuple[Any, ...]:
    """The results, the derivative as a function, and what is passed through."""
    check_callable(what, fun)
    try:
        values, treedef = flatten_arguments(fun, primals, {})
    except RefError:
        lent = lend(fun, primals, {})
        if lent is None or form is PushForward:
            raise
        return _pulled_back_to_refs(fun, lent, has_aux, saveable_args)
    saveable = saveable_leaves(saveable_args, treedef.children()[0])
    linearized = derivatives.linearize(FlatFunction(staged_first(fun), what, treedef, has_aux), values)
    results = linearized.results
    made = form(treedef, results.treedef, fun, linearized.program)
    if isinstance(made, PullBack):
        derivative = pull_back(made, linearized.residuals, values, saveable)
    else:
        derivative = linear_map(made, linearized.residuals)
    return (results.tree(), derivative, *((results.aux(),) if has_aux else ()))


def _pulled_back_to_refs(fun: Callable[..., Any], lent: Lent, has_aux: bool, saveable_args: object) -> tuple[Any, ...]:
    """The same for a function of Refs, with respect to what they hold at first. There is no cotangent of what they hold
    at the end."""
    given = lending(fun, lent.places)
    values, treedef = flatten_arguments(fun, lent.args, {})
    saveable = saveable_leaves(saveable_args, treedef.children()[0])

    def run(*args: Any) -> tuple[Any, ...]:
        out, last = given(*args)
        return ((out[0], last), out[1]) if has_aux else (out, last)

    def call() -> tuple[Any, Sequence[Array]]:
        linearized = derivatives.linearize(FlatFunction(run, "vjp", treedef, has_aux), values)
        out, last = linearized.results.tree()
        aux = (linearized.results.aux(),) if has_aux else ()
        return (out, linearized, aux), last

    out, linearized, aux = lent.run(call)
    outs = tree.flatten(out)[1]
    form = PullBack(treedef, outs, fun, derivatives.first_results(linearized.program, outs.num_leaves), lent.positions)
    return (out, pull_back(form, linearized.residuals, values, saveable), *aux)


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
