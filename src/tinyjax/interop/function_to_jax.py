"""A Python function of ours as a function of JAX: traced once for each signature, with trees and names as they are."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeAlias

import jax
import numpy as np
from attrs import frozen

from tinyjax.api.ahead_of_time import AheadOfTime
from tinyjax.api.arguments import StaticCall, resolve_static, split_resolved, static_key
from tinyjax.api.make_jaxpr import closed_values
from tinyjax.backend import jax_equations, jax_programs
from tinyjax.caching import BoundedCache, register
from tinyjax.control.manual import MeshAxis, Scope
from tinyjax.errors import StaticArgumentError
from tinyjax.interop.types import type_of
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import FLOAT0
from tinyjax.ir.merging import completed
from tinyjax.ir.primitive import BatchAxis
from tinyjax.ir.program import ClosedJaxpr
from tinyjax.ir.value import ConcreteValue
from tinyjax.lax.bodies import stage
from tinyjax.tracebacks import filtered
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.functions import argument_path, describe, function_name
from tinyjax.wrapping import wraps

#: Makes a function of leaves of a program, which returns a sequence of leaves.
MakeFunction: TypeAlias = Callable[[ClosedJaxpr, str], Callable[..., Sequence[object]]]
_FUNCTIONS = 256


@frozen(eq=False)
class _Made:
    """What a signature has become: JAX's function of the leaves, and the tree of its results."""

    function: Callable[..., Sequence[object]]
    treedef: jax.tree_util.PyTreeDef
    erased: dict[int, object]


def function_to_jax(
    fun: Callable[..., Any],
    static_argnums: int | Sequence[int] | None,
    static_argnames: str | Sequence[str] | None,
    make: MakeFunction,
) -> Callable[..., Any]:
    """The function of JAX, whose programs `make` makes functions of leaves of."""
    marked = resolve_static(fun, static_argnums, static_argnames)
    own = fun.static if isinstance(fun, AheadOfTime) else ((), ())
    static = tuple(sorted({*marked[0], *own[0]})), tuple(sorted({*marked[1], *own[1]}))
    known: BoundedCache[Hashable, _Made] = BoundedCache(_FUNCTIONS, "functions for JAX")
    register(known, temporary=True)

    @wraps(fun)
    @filtered
    def called(*args: Any, **kwargs: Any) -> Any:  # the user's trees
        call = split_resolved(fun, args, kwargs, *static)
        leaves, treedef = tree.flatten((call.args, call.kwargs))
        avals: list[ShapedArray | None] = [_type_of(leaf) for leaf in leaves]
        marks = tuple(
            (i, _static(call, treedef, i, leaf))
            for i, (leaf, aval) in enumerate(zip(leaves, avals, strict=True))
            if aval is None
        )
        axes = jax_equations.named_axes()
        signature = (treedef, tuple(avals), call.key, marks, axes, jax_programs.x64_enabled())
        found = known.get_or_make(signature, lambda: _made(call, leaves, treedef, avals, axes, make))
        operands = [leaf for leaf, aval in zip(leaves, avals, strict=True) if aval is not None and aval.dtype != FLOAT0]
        outs = found.function(*map(_operand, operands))
        return tree.unflatten(found.treedef, completed(found.erased, outs, found.treedef.num_leaves))

    return called


def _made(
    call: StaticCall, leaves: Sequence[object], treedef: jax.tree_util.PyTreeDef, avals: Sequence[ShapedArray | None],
    axes: Sequence[tuple[str, int, bool | None]], make: MakeFunction,
) -> _Made:  # fmt: skip
    fixed = {i: leaf for i, (leaf, aval) in enumerate(zip(leaves, avals, strict=True)) if aval is None}

    def dynamic(*given: Array) -> Any:  # the user's tree
        args, kwargs = tree.unflatten(treedef, completed(fixed, given, len(leaves)))
        return call.function(*args, **kwargs)

    function = wraps(call.function)(dynamic) if fixed else call.function
    types = [aval for aval in avals if aval is not None]
    own_tree = tree.flatten((tuple(types), {}))[1] if fixed else treedef
    named = [
        BatchAxis(size, name) if tracked is None else MeshAxis(name, size, tracked) for name, size, tracked in axes
    ]
    traced = stage("to_jax", function, own_tree, types, Scope(tuple(named)))
    program = ClosedJaxpr(traced.jaxpr, closed_values(traced, describe("to_jax", call.function)))
    erased: dict[int, object] = {i: np.zeros(array.aval.shape, FLOAT0) for i, array in traced.erased.items()}
    return _Made(make(program, function_name(call.function)), traced.treedef, erased)


def _type_of(leaf: object) -> ShapedArray | None:
    """The type of an array, of ours or of JAX's; None for what is no array."""
    if isinstance(leaf, Array | ConcreteValue):
        return leaf.aval
    try:
        return type_of(jax.typeof(leaf))
    except TypeError:
        return None


def _operand(leaf: Any) -> Any:  # an array of JAX, or of ours
    if isinstance(leaf, Array | ConcreteValue):
        return jax_programs.operand(np.asarray(leaf))
    return jax_programs.integers_of(leaf)


def _static(call: StaticCall, treedef: jax.tree_util.PyTreeDef, position: int, leaf: object) -> Hashable:
    try:
        hash(leaf)
    except TypeError:
        path = argument_path(call.function, treedef, position)
        raise StaticArgumentError(
            f"argument {path} of {function_name(call.function)} is no array, so it is static, and must be hashable; "
            f"got a {type(leaf).__name__}: {leaf!r}"
        ) from None
    return static_key(leaf)
