"""`checkpoint`, `checkpoint_name`, `saved_residuals`: what reverse mode keeps in memory, and how to keep less."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar, overload

from attrs import evolve

from tinyjax.api.arguments import split_static
from tinyjax.api.make_jaxpr import abstractify
from tinyjax.checkpoint_policies import AnyPolicy, as_policy
from tinyjax.control.checkpoint import Checkpoint, Policy
from tinyjax.errors import InputError, TreeError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import FLOAT0
from tinyjax.ir.tangents import has_tangent
from tinyjax.lax.bodies import stage
from tinyjax.primitives.annotations import Name
from tinyjax.refs.lending import Lent, lend, lending
from tinyjax.tracebacks import filtered
from tinyjax.tracing import tree
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind
from tinyjax.tracing.functions import (
    FlatFunction,
    argument_path,
    check_callable,
    describe,
    flatten_arguments,
    function_name,
)
from tinyjax.tracing.programs import trace
from tinyjax.transforms.linearize import linearize
from tinyjax.transforms.residuals import Residual, as_residuals
from tinyjax.wrapping import wraps

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


@overload
def checkpoint(
    fun: Callable[P, R],
    *,
    prevent_cse: bool | tuple[Any, ...] = True,
    policy: AnyPolicy | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
) -> Callable[P, R]: ...
@overload
def checkpoint(
    *,
    prevent_cse: bool | tuple[Any, ...] = True,
    policy: AnyPolicy | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
@filtered
def checkpoint(
    fun: Callable[..., Any] | None = None,
    *,
    prevent_cse: bool | tuple[Any, ...] = True,
    policy: AnyPolicy | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
) -> Any:
    """`fun`, whose derivative computes values again instead of keeping them in memory.

    Reverse mode normally keeps every intermediate value that the derivative needs. Of a checkpointed function it keeps
    the arguments, and what the `policy` allows (see `tinyjax.checkpoint_policies`; or a function of a primitive, the
    types of its operands and, by name, its parameters); everything else is computed a second time. The
    function is staged, so static arguments (`static_argnums`, `static_argnames`) are the only ones to branch on.
    `prevent_cse` keeps the compiler from merging both computations, which would undo the saving; it isn't needed inside
    a `scan`. As a tree with a bool for each argument, it does so unless all are False.

    >>> from tinyjax import numpy as tnp, saved_residuals
    >>> f = lambda x: tnp.sin(tnp.sin(x))
    >>> len(saved_residuals(f, 2.0)), len(saved_residuals(checkpoint(f), 2.0))
    (2, 1)
    """
    if fun is None:
        return partial(
            checkpoint,
            prevent_cse=prevent_cse,
            policy=policy,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
        )
    check_callable("checkpoint", fun)
    marks = tree.flatten(prevent_cse)[0]
    given: object = prevent_cse
    if given is None or not all(isinstance(mark, bool) for mark in marks):
        raise InputError(
            f"checkpoint: prevent_cse is a bool, or a tree of bools for the arguments, got {prevent_cse!r}"
        )
    kept = None if policy is None else as_policy(policy)
    spread = None if isinstance(prevent_cse, bool) else tuple(prevent_cse)
    return _checkpoint(fun, any(marks), spread, kept, static_argnums, static_argnames)


remat: Final = checkpoint


def _check_marks(marks: tuple[object, ...], arguments: tuple[object, ...]) -> None:
    if (where := tree.prefix_difference(marks, arguments)) is not None:
        place = f" at {where}" if where else ""
        raise TreeError(
            f"checkpoint: prevent_cse is a bool, or a tree of bools that begins as the arguments do; differs{place}: "
            f"{tree.shown(tree.flatten(marks)[1])} for arguments {tree.shown(tree.flatten(arguments)[1])}"
        )


def _checkpoint(
    fun: Callable[P, R],
    prevent_cse: bool,
    marks: tuple[object, ...] | None,
    policy: Policy | None,
    static_argnums: int | Sequence[int],
    static_argnames: str | Sequence[str],
) -> Callable[P, R]:
    @filtered
    @wraps(fun)
    def checkpointed(*args: P.args, **kwargs: P.kwargs) -> R:
        call = split_static(fun, args, kwargs, static_argnums, static_argnames)
        if marks is not None:
            _check_marks(marks, (tuple(call.args), dict(call.kwargs)) if call.kwargs else tuple(call.args))
        lent = lend(call.function, call.args, call.kwargs)
        if lent is None:
            plain: R = run(call.function, call.args, call.kwargs, None)
            return plain
        given = lending(call.function, lent.places, linked=True)
        result: R = lent.run(lambda: run(given, lent.args, lent.kwargs, lent))
        return result

    def run(
        function: Callable[..., Any], args: Sequence[object], kwargs: Mapping[str, object], lent: Lent | None
    ) -> Any:  # the user's tree
        arrays, treedef = flatten_arguments(function, args, kwargs)
        traced = stage("checkpoint", function, treedef, [x.aval for x in arrays], writes=True)
        traced = traced if lent is None else lent.linked(traced, function)
        inputs = [x for x in arrays if x.aval.dtype != FLOAT0] + [cell.current() for cell in traced.cells]
        primitive = Checkpoint(function_name(fun), traced.jaxpr, policy, prevent_cse)
        return traced.results(bind(primitive, *traced.captured, *inputs))

    return checkpointed


@filtered
def checkpoint_name(x: T, name: str) -> T:
    """A tree of arrays as it is, under a name: policies of `checkpoint` and lists of residuals refer to it.

    >>> from tinyjax import numpy as tnp, saved_residuals
    >>> print(*(r.name for r in saved_residuals(lambda x: checkpoint_name(tnp.exp(x), "growth"), 2.0)))
    growth
    """
    return tree.map_leaves(lambda leaf: bind(Name(name), as_array(leaf))[0], x)


@filtered
def saved_residuals(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Residual, ...]:
    """What `grad` or `vjp` of `fun` would keep in memory for arguments like these: arrays, or types (ShapedArray).

    Each residual has its type and size, its name, and the primitive and the line that computed it; `describe()` says
    all of that in a line.

    >>> from tinyjax import numpy as tnp
    >>> for residual in saved_residuals(lambda w, x: w * tnp.sin(x), 2.0, 3.0):
    ...     print(residual.describe().partition(" at ")[0])
    ~f64[], 8 bytes: the result of cos
    ~f64[], 8 bytes: the result of sin
    ~f64[], 8 bytes: argument w
    """
    check_callable("saved_residuals", fun)
    leaves, treedef = tree.flatten((args, kwargs))
    avals: list[ShapedArray] = []
    for i, leaf in enumerate(leaves):
        try:
            avals.append(abstractify(leaf))
        except InputError as error:
            where = f"argument {argument_path(fun, treedef, i)} of {function_name(fun)}"
            raise type(error)(f"{where}: {error}") from None
    if any(aval.dtype == FLOAT0 for aval in avals):
        raise InputError(f"{describe('saved_residuals', fun)} takes no arguments of dtype float0")
    traced = trace(FlatFunction(fun, "saved_residuals", treedef), avals, erase_float0=True)
    n = len(traced.captured)
    found = linearize(traced.jaxpr, [*[False] * n, *map(has_tangent, avals)])

    def named(residual: Residual) -> Residual:
        if residual.input is None:
            return residual
        if residual.input < n:
            return evolve(residual, label="a value that the function closes over")
        return evolve(residual, label=f"argument {argument_path(fun, treedef, residual.input - n)}")

    return as_residuals(map(named, found.residuals))
