"""`while_loop`, `fori_loop` and `map`: loops that are traced once, whatever the number of iterations."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, overload

import numpy as np

from tinyjax.arrays.elementwise import convert
from tinyjax.arrays.shaping import integer
from tinyjax.control.call import Call
from tinyjax.control.manual import Scope
from tinyjax.control.scan import Scan
from tinyjax.errors import ChoiceError, InputError
from tinyjax.ir.dtypes import BOOL, FLOAT0, FLOATS, INTEGERS, SIGNED, HostArray
from tinyjax.ir.primitive import BatchAxis
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.shapes import Axes
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.varying import union
from tinyjax.lax.binding import varied
from tinyjax.lax.bodies import Body, described, out_avals, stage, stage_body
from tinyjax.lax.by_python import while_by_python
from tinyjax.lax.explicit import of_arguments
from tinyjax.lax.loop_equations import (
    bind_scan,
    bind_while,
    scan_length,
    slice_type,
    unrolling,
    with_erased,
)
from tinyjax.lax.shaping import concatenate, reshape, slice_in_dim
from tinyjax.lax.signatures import Arrays, Arrays2, Arrays3, C, D, Jumble, K, Mixed, N, Numbers, Pair, Triple, Unroll, Y
from tinyjax.lax.within import runs_by_python
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind
from tinyjax.tracing.functions import check_callable, flatten_arguments, located
from tinyjax.tracing.programs import Traced
from tinyjax.transforms.batch import batch
from tinyjax.wrapping import wraps

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef


#: How many iterations of a loop over floats are counted beforehand.
_COUNTED: Final = 1 << 16


@overload
def while_loop(
    cond_fun: Callable[[Array], ArrayLike], body_fun: Callable[[Array], ArrayLike], init_val: ArrayLike
) -> Array: ...
@overload
def while_loop(cond_fun: Callable[[N], ArrayLike], body_fun: Callable[[N], N], init_val: N) -> N: ...
@overload
def while_loop(
    cond_fun: Callable[[Arrays2], ArrayLike], body_fun: Callable[[Arrays2], Pair], init_val: Pair
) -> Arrays2: ...
@overload
def while_loop(
    cond_fun: Callable[[Arrays3], ArrayLike], body_fun: Callable[[Arrays3], Triple], init_val: Triple
) -> Arrays3: ...
@overload
def while_loop(
    cond_fun: Callable[[Arrays[K]], ArrayLike], body_fun: Callable[[Arrays[K]], Numbers[K]], init_val: Numbers[K]
) -> Arrays[K]: ...
@overload
def while_loop(cond_fun: Callable[[C], ArrayLike], body_fun: Callable[[C], C], init_val: C) -> C: ...
@overload
def while_loop(cond_fun: Callable[[C], ArrayLike], body_fun: Callable[[C], C], init_val: Mixed) -> C: ...
@overload
def while_loop(
    cond_fun: Callable[[Arrays[K]], ArrayLike], body_fun: Callable[[Arrays[K]], Numbers[K]], init_val: Jumble[K]
) -> Arrays[K]: ...
@overload
def while_loop(cond_fun: Callable[[D], ArrayLike], body_fun: Callable[[D], D], init_val: Mapping[str, object]) -> D: ...
def while_loop(
    cond_fun: Callable[[Any], object],  # the user's tree
    body_fun: Callable[[Any], Any],  # the user's tree
    init_val: object,
) -> Any:
    """Applies a function as long as a condition holds, as this does:

        val = init_val
        while cond_fun(val):
            val = body_fun(val)
        return val

    Both functions are traced once, and may close over traced values. The value is a tree that must keep its structure,
    shapes and dtypes, but a weakly typed `init_val` takes the dtype of what `body_fun` returns. Forward-mode
    differentiation works; reverse mode doesn't, because the number of iterations isn't known beforehand: see `scan`.

    Raises:
      InputError: the types of the value change; `cond_fun` returns something else than a bool scalar.
      TreeError: the structure of the value changes.

    >>> while_loop(lambda x: x < 100, lambda x: 2 * x, 3)
    Array(192, dtype=int64, weak_type=True)
    """
    check_callable("while_loop", cond_fun)
    check_callable("while_loop", body_fun)
    if runs_by_python():
        done, value = while_by_python(cond_fun, body_fun, init_val)
        if done:
            return value
    arrays, treedef = flatten_arguments(body_fun, (init_val,), {})
    value_tree = tree.flatten(init_val)[1]
    body, cond = _stage_while("while_loop", cond_fun, body_fun, treedef, value_tree, arrays)
    avals = out_avals(cond)
    if cond.treedef.num_nodes != 1 or len(avals) != 1 or not avals[0].matches(array_type((), BOOL)):
        raise InputError(f"while_loop: {located(cond_fun)} must return a bool scalar, got {described(cond)}")
    return tree.unflatten(body.traced.treedef, bind_while(body, cond))


@overload
def fori_loop(
    lower: ArrayLike,
    upper: ArrayLike,
    body_fun: Callable[[Array, Array], ArrayLike],
    init_val: ArrayLike,
    *,
    unroll: Unroll | None = None,
) -> Array: ...
@overload
def fori_loop(
    lower: ArrayLike, upper: ArrayLike, body_fun: Callable[[Array, N], N], init_val: N, *, unroll: Unroll | None = None
) -> N: ...
@overload
def fori_loop(
    lower: ArrayLike,
    upper: ArrayLike,
    body_fun: Callable[[Array, Arrays2], Pair],
    init_val: Pair,
    *,
    unroll: Unroll | None = None,
) -> Arrays2: ...
@overload
def fori_loop(
    lower: ArrayLike,
    upper: ArrayLike,
    body_fun: Callable[[Array, Arrays3], Triple],
    init_val: Triple,
    *,
    unroll: Unroll | None = None,
) -> Arrays3: ...
@overload
def fori_loop(
    lower: ArrayLike,
    upper: ArrayLike,
    body_fun: Callable[[Array, Arrays[K]], Numbers[K]],
    init_val: Numbers[K],
    *,
    unroll: Unroll | None = None,
) -> Arrays[K]: ...
@overload
def fori_loop(
    lower: ArrayLike, upper: ArrayLike, body_fun: Callable[[Array, C], C], init_val: C, *, unroll: Unroll | None = None
) -> C: ...
@overload
def fori_loop(
    lower: ArrayLike,
    upper: ArrayLike,
    body_fun: Callable[[Array, C], C],
    init_val: Mixed,
    *,
    unroll: Unroll | None = None,
) -> C: ...
@overload
def fori_loop(
    lower: ArrayLike,
    upper: ArrayLike,
    body_fun: Callable[[Array, Arrays[K]], Numbers[K]],
    init_val: Jumble[K],
    *,
    unroll: Unroll | None = None,
) -> Arrays[K]: ...
@overload
def fori_loop(
    lower: ArrayLike,
    upper: ArrayLike,
    body_fun: Callable[[Array, D], D],
    init_val: Mapping[str, object],
    *,
    unroll: Unroll | None = None,
) -> D: ...
def fori_loop(
    lower: ArrayLike,
    upper: ArrayLike,
    body_fun: Callable[[Any, Any], Any],  # the user's tree
    init_val: object,
    *,
    unroll: int | bool | None = None,
) -> Any:
    """Applies a function for each number from `lower` up to, but not including, `upper`, in steps of 1, as this does:

        val = init_val
        for i in range(lower, upper):
            val = body_fun(i, val)
        return val

    The bounds are integers, or floats.

    With bounds that are known when the program is traced this is a `scan`, which can be differentiated in reverse mode;
    otherwise it is a `while_loop`, which can't. `unroll` is for the former only. The value must keep its type, as for
    these.

    >>> fori_loop(0, 5, lambda i, total: total + i, 0)
    Array(10, dtype=int64, weak_type=True)
    """
    check_callable("fori_loop", body_fun)
    first, last = _bounds(lower, upper)
    length = _length(first, last)
    start = first.concrete()
    if length is not None and start is not None and first.aval.dtype in INTEGERS:
        first = as_array(int(np.asarray(start)))  # the index is a Python integer's, as jax has it

    @wraps(body_fun)
    def step(i: Array, value: Any) -> tuple[Array, Any]:  # the user's tree
        return i + 1, body_fun(i, value)

    if runs_by_python() and length is not None:
        return while_by_python(lambda state: state[0] < last, lambda state: step(*state), (first, init_val))[1][1]
    arrays, treedef = flatten_arguments(body_fun, (first, init_val), {})
    value_tree = tree.flatten((first, init_val))[1]
    if length is not None:
        body = stage_body("fori_loop", step, treedef, value_tree, arrays)
        outs = bind_scan(body, (), length, False, unrolling(False if unroll is None else unroll, length))
    elif unroll is None or unroll is False or unroll == 1:
        body, cond = _stage_while("fori_loop", lambda i, _: i < last, step, treedef, value_tree, arrays)
        outs = bind_while(body, cond)
    else:
        raise ChoiceError("fori_loop: unroll needs bounds that are known when the program is traced")
    return tree.unflatten(body.traced.treedef, outs)[1]


def _stage_while(
    what: str,
    cond_fun: Callable[..., object],
    body_fun: Callable[..., object],
    treedef: PyTreeDef,
    value_tree: PyTreeDef,
    arrays: Sequence[Array],
) -> tuple[Body, Traced]:
    """The body and the condition. Where devices of a mesh stop when they like, all that there is varies among them."""
    decided: Axes = ()
    while True:
        body = stage_body(what, body_fun, treedef, value_tree, arrays, varying=decided)
        avals = [x.aval for x in body.carry]
        cond = stage(what, cond_fun, treedef, avals, Scope(varying=decided), lies=of_arguments(body.carry), writes=True)
        found = union([decided, *[aval.varying for aval in out_avals(cond)]])
        if found == decided:
            return body, cond
        decided, arrays = found, [varied(x, found) for x in body.carry]


def _length(first: Array, last: Array) -> int | None:
    """How often a loop between these bounds runs, if they are known."""
    start, stop = first.concrete(), last.concrete()
    if start is None or stop is None:
        return None
    if first.aval.dtype in INTEGERS:
        return max(int(np.asarray(stop)) - int(np.asarray(start)), 0)
    low, high = np.asarray(start), np.asarray(stop)
    about = float(high) - float(low)
    if not about <= _COUNTED:
        return None
    # Counted as the loop does, which may round at each step.
    steps = np.ones(max(math.ceil(about), 0) + 2, low.dtype)
    steps[0] = low
    return int(np.count_nonzero(np.add.accumulate(steps) < high))


def _bounds(lower: object, upper: object) -> tuple[Array, Array]:
    """The bounds of a loop, as numbers of one dtype. A Python number takes that of the other one."""
    first, last = as_array(lower), as_array(upper)
    if first.aval.shape != () or last.aval.shape != ():
        raise InputError(f"fori_loop: the bounds must be scalars, got {first.aval} and {last.aval}")
    dtypes = first.aval.dtype, last.aval.dtype
    if not (INTEGERS | FLOATS).issuperset(dtypes):
        raise InputError(f"fori_loop: the bounds must be integers or floats, got {first.aval} and {last.aval}")
    if dtypes[0] != dtypes[1]:
        weak = first.aval.weak_type, last.aval.weak_type
        if weak[0] == weak[1] or not (SIGNED.issuperset(dtypes) or FLOATS.issuperset(dtypes)):
            raise InputError(
                f"fori_loop: the bounds must have one dtype, got {first.aval} and {last.aval}. Convert one of them."
            )
        first, last = (convert(first, dtypes[1]), last) if weak[0] else (first, convert(last, dtypes[0]))
    return first, last


@overload
def map(f: Callable[[Array], Y], xs: Array | HostArray, *, batch_size: int | None = None) -> Y: ...
@overload
def map(f: Callable[[Arrays2], Y], xs: Pair, *, batch_size: int | None = None) -> Y: ...
@overload
def map(f: Callable[[C], Y], xs: C, *, batch_size: int | None = None) -> Y: ...
@overload
def map(f: Callable[[C], Y], xs: Mixed, *, batch_size: int | None = None) -> Y: ...
def map(
    f: Callable[[Any], Any],  # the user's trees
    xs: object,
    *,
    batch_size: int | None = None,
) -> Any:
    """The stack of the results of f on each slice of `xs` along the leading axis, computed one after the other.

    With `batch_size`, so many of them are computed at once, as `vmap` does; 0: all. `xs` is a tree of arrays, and so is
    what f returns.

    >>> import numpy as np
    >>> map(lambda x: x * x, np.arange(4.0))
    Array([0., 1., 4., 9.], dtype=float64)
    """
    check_callable("map", f)
    arrays, treedef = flatten_arguments(f, (xs,), {})
    length = scan_length("map", f, treedef, arrays, 0, None)
    types, lies = [slice_type(x.aval) for x in arrays], of_arguments((), arrays)
    traced = stage("map", f, treedef, types, lies=lies, writes=batch_size is None)
    if batch_size is None:
        outs = bind_scan(Body(traced, []), arrays, length, False, 1)
    else:
        outs = _map_batches(traced, arrays, length, integer(batch_size, "map: batch_size"))
    return tree.unflatten(traced.treedef, outs)


def _map_batches(traced: Traced, arrays: Sequence[Array], length: int, size: int) -> list[Array]:
    """As many elements at once as `size`, as often as it goes, and then those that are left."""
    if size < 0:
        raise InputError(f"map: batch_size must be at least 0, got {size}")
    xs = [x for x in arrays if x.aval.dtype != FLOAT0]
    axes = [*[None] * len(traced.captured), *[0] * len(xs)]

    def batched(count: int) -> Jaxpr:
        return batch(traced.jaxpr, BatchAxis(count), axes, [0] * len(traced.jaxpr.outvars)).jaxpr

    count = length // size if size else 0
    parts: list[Sequence[Array]] = []
    if count:
        whole = [reshape(slice_in_dim(x, 0, count * size), (count, size, *x.aval.shape[1:])) for x in xs]
        scan_batches = Scan(batched(size), count, False, len(traced.captured), 0)
        outs = bind(scan_batches, *traced.captured, *whole)
        parts.append([reshape(out, (count * size, *out.aval.shape[2:])) for out in outs])
    if count * size < length or not count:
        rest = [slice_in_dim(x, count * size, length) for x in xs]
        parts.append(bind(Call("map", batched(length - count * size)), *traced.captured, *rest))
    joined = [concatenate(part, 0) if len(part) > 1 else part[0] for part in zip(*parts, strict=True)]
    return with_erased(traced, 0, joined, length)
