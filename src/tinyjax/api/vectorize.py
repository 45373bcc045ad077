"""`vmap`: functions of one example as functions of a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NoReturn, ParamSpec, TypeVar, get_args

from tinyjax.api.mapped_axes import input_axes, mapped_size, resolve_axis, spread_axes
from tinyjax.arrays.shaping import integer
from tinyjax.contexts.batching import BatchContext, Batched
from tinyjax.errors import ChoiceError, InputError, RefError
from tinyjax.ir.dtypes import FLOAT0
from tinyjax.ir.primitive import BatchAxis, CondPolicy
from tinyjax.lax.explicit import Divided, batch_divided
from tinyjax.primitives.elementwise import unmapped
from tinyjax.refs.backward import LeavingRefs
from tinyjax.refs.lending import lend, lending
from tinyjax.refs.ref import Part, Ref
from tinyjax.tracebacks import filtered
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import active_frame, as_array
from tinyjax.tracing.core import activate
from tinyjax.tracing.frames import OpenFrame, V
from tinyjax.tracing.functions import (
    FlatFunction,
    argument_path,
    as_arrays,
    check_callable,
    describe,
    float0_zeros,
    function_name,
)
from tinyjax.transforms.batch import add_axis, place_axis
from tinyjax.wrapping import wraps

P = ParamSpec("P")
R = TypeVar("R")
_CONDS: Final[tuple[CondPolicy, ...]] = get_args(CondPolicy)


@filtered
def vmap(
    fun: Callable[P, R],
    in_axes: Any = 0,  # a tree of axes
    out_axes: Any = 0,  # a tree of axes
    axis_name: str | None = None,
    axis_size: int | None = None,
    spmd_axis_name: str | Sequence[str] | None = None,
    *,
    cond: CondPolicy = "select",
) -> Callable[P, R]:
    """`fun` mapped over an axis of its arguments.

    `in_axes` is one axis for all arguments, or a tuple with an axis or a tree of axes for each; a tree may stop
    short of the argument's, and its leaf then counts for everything below. None: not mapped. Arguments given by keyword
    are mapped over axis 0. `out_axes` says likewise where the mapped axis of the results goes; None: the result is the
    same for every element. Inside, `lax.psum(x, axis_name)` and its relatives reduce over the axis; `axis_size` is
    needed if nothing is mapped.

    `spmd_axis_name`, the name of an axis of a mesh or several, divides the batch along it wherever `fun` says how
    values lie on a mesh: in `lax.with_sharding_constraint` and `shard_map`, which must not use that axis themselves.
    Without it, these are the Explicit axes that the mapped arguments are divided along where they are mapped, if all
    agree.

    `cond` says what becomes of a `lax.cond` or `lax.switch` whose predicate differs from element to element: "select"
    runs all branches on the whole batch and picks; "map" takes the elements one after the other, and runs one branch
    for each; "error" raises a BatchedPredicateError. Source: Autodidax, part 1.

    >>> import numpy as np
    >>> vmap(lambda x, y: x * y, in_axes=(0, None))(np.arange(3.0), 2.0)
    Array([0., 2., 4.], dtype=float64)
    """
    check_callable("vmap", fun)
    if cond not in _CONDS:
        raise ChoiceError(f"vmap: cond is {' or '.join(map(repr, _CONDS))}, got {cond!r}")
    if in_axes is not None and not isinstance(in_axes, tuple | list) and not hasattr(in_axes, "__index__"):
        raise InputError(
            "vmap in_axes must be an int, None, or a tuple of entries corresponding to the positional arguments passed "
            f"to the function, but got {in_axes!r}. For one argument with a tree of axes write ({in_axes!r},)"
        )
    wanted = tuple(in_axes) if isinstance(in_axes, list) else in_axes
    spmd = _mesh_axes(spmd_axis_name)

    @filtered
    @wraps(fun)
    def mapped(*args: P.args, **kwargs: P.kwargs) -> R:
        leaves, treedef = tree.flatten((args, kwargs))
        axes = input_axes("vmap", fun, wanted, args, len(leaves))
        of_refs = any(type(leaf) is Ref or type(leaf) is Part for leaf in leaves)
        lent = lend(fun, args, kwargs, lambda i: axes[i] is not None) if of_refs else None
        if lent is not None:  # what the Refs hold at the end are results
            outs = out_axes, tuple([axes[i] for i in lent.positions])
            given = vmap(lending(fun, lent.places), in_axes, outs, axis_name, axis_size, spmd_axis_name, cond=cond)
            found: R = lent.run(partial(given, *lent.args, **lent.kwargs))
            return found
        # What isn't mapped is passed on: an array as an array, and anything else, such as a static argument, as it is.
        fixed = {
            i: as_array(leaf) if isinstance(leaf, Array) or hasattr(leaf, "__array__") else leaf
            for i, (leaf, axis) in enumerate(zip(leaves, axes, strict=True))
            if axis is None
        }
        positions = [i for i in range(len(leaves)) if i not in fixed]

        def where(i: int) -> str:
            return f"argument {argument_path(fun, treedef, positions[i])} of {function_name(fun)}"

        arrays = as_arrays([leaves[i] for i in positions], where)
        at = [resolve_axis("vmap", axes[positions[i]], array.aval.ndim, where, i) for i, array in enumerate(arrays)]
        asked = None if axis_size is None else integer(axis_size, "vmap: axis_size")
        size = mapped_size(describe("vmap", fun), [array.aval for array in arrays], at, asked, where)
        flat = FlatFunction(fun, "vmap", treedef, fixed=fixed)
        divided = batch_divided(arrays, at)
        along = spmd or (() if divided is None else divided.names)
        result: R = _map(flat, arrays, at, BatchAxis(size, axis_name, cond, spmd=along), out_axes, divided)
        return result

    return mapped


def _map(
    flat: FlatFunction,
    arrays: Sequence[Array],
    axes: Sequence[int],
    axis: BatchAxis,
    out_axes: Any,
    divided: Divided | None,
) -> Any:
    def run(frame: OpenFrame[V]) -> Any:  # the tree of the results
        context = BatchContext(frame.context, axis)
        with activate(context, flat, () if axis.name is None else (axis,)) as inner, inner:
            inner.cells = LeavingRefs(lambda _: _shared(flat))

            def mapped(array: Array, at: int) -> Array:
                if array.aval.dtype == FLOAT0:  # tangents of integers hold nothing, so they aren't traced
                    return float0_zeros(unmapped(array.aval.shape, at))
                return inner.wrap(Batched(frame.read(array), at))

            results = flat([mapped(array, at) for array, at in zip(arrays, axes, strict=True)])
            outs = [None if array.aval.dtype == FLOAT0 else inner.read(array) for array in results.arrays]

        def where(position: int) -> str:
            return f"result{tree.paths(results.treedef)[position]} of {flat.name}"

        template = tree.unflatten(results.treedef, range(len(outs)))
        placed: list[Array] = []
        for i, (out, want) in enumerate(
            zip(outs, spread_axes("vmap", out_axes, template, "out_axes", "result"), strict=True)
        ):
            if want is None and out is not None and out.axis is not None:
                raise ChoiceError(
                    f"vmap: out_axes is None for {where(i)}, which differs from element to element of the batch"
                )
            aval = results.arrays[i].aval
            at = None if want is None else resolve_axis("vmap", want, aval.ndim + 1, where, i)
            if out is None:
                placed.append(float0_zeros(add_axis(aval, at, axis.size).shape))
            else:
                with context.cursor.attributing():
                    array = frame.wrap(place_axis(frame.context, out.value, out.axis, at, axis.size))
                    if divided is not None and out.axis is None and at is not None:
                        array = divided.along(array, at)
                    placed.append(array)
        return tree.unflatten(results.treedef, placed)

    return active_frame().open(run)


def _shared(flat: FlatFunction) -> NoReturn:
    """There is no saying what a cell would hold that all elements write to."""
    raise RefError(
        f"{flat.label} writes to a Ref that was made outside: so each element of the batch would write to the same "
        "place. Pass the Ref as an argument that is mapped, or return the values."
    )


def _mesh_axes(names: str | Sequence[str] | None) -> tuple[str, ...]:
    """The axes of a mesh that a batch is divided along."""
    found: tuple[object, ...] = () if names is None else tuple(names) if isinstance(names, tuple | list) else (names,)
    for name in found:
        if not isinstance(name, str) or found.count(name) > 1:
            raise ChoiceError(f"vmap: spmd_axis_name is an axis of a mesh, or several different ones, got {names!r}")
    return tuple([name for name in found if isinstance(name, str)])
