"""`scan`: the loop that hands a carry on from iteration to iteration, and stacks what each computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, overload

from tinyjax.errors import RefError
from tinyjax.ir.dtypes import HostArray
from tinyjax.lax.bodies import stage_body
from tinyjax.lax.by_python import scan_by_python
from tinyjax.lax.loop_equations import bind_scan, scan_length, slice_type, unrolling
from tinyjax.lax.signatures import (
    Along,
    Arrays,
    Arrays2,
    Arrays3,
    C,
    D,
    HostArrays,
    Jumble,
    K,
    Length,
    Mixed,
    N,
    Numbers,
    Pair,
    Step,
    Triple,
    Unroll,
    X,
    Y,
)
from tinyjax.lax.within import runs_by_python
from tinyjax.refs.lending import Lent, lend, lending
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.functions import check_callable, flatten_arguments
from tinyjax.transforms.arguments import flag


@overload
def scan(
    f: Step[Array, Array, ArrayLike, Y],
    init: ArrayLike,
    xs: Array | HostArray,
    length: Length = None,
    reverse: bool = False,
    unroll: Unroll = 1,
    _split_transpose: bool = False,
) -> tuple[Array, Y]: ...
@overload
def scan(
    f: Step[Array, None, ArrayLike, Y],
    init: ArrayLike,
    xs: None = None,
    length: Length = None,
    reverse: bool = False,
    unroll: Unroll = 1,
    _split_transpose: bool = False,
) -> tuple[Array, Y]: ...
@overload
def scan(
    f: Step[Array, X, ArrayLike, Y],
    init: ArrayLike,
    xs: X,
    length: Length = None,
    reverse: bool = False,
    unroll: Unroll = 1,
    _split_transpose: bool = False,
) -> tuple[Array, Y]: ...
@overload
def scan(
    f: Step[N, Array, N, Y],
    init: N,
    xs: Array | HostArray,
    length: Length = None,
    reverse: bool = False,
    unroll: Unroll = 1,
    _split_transpose: bool = False,
) -> tuple[N, Y]: ...
@overload
def scan(
    f: Step[N, None, N, Y],
    init: N,
    xs: None = None,
    length: Length = None,
    reverse: bool = False,
    unroll: Unroll = 1,
    _split_transpose: bool = False,
) -> tuple[N, Y]: ...
@overload
def scan(
    f: Step[N, X, N, Y],
    init: N,
    xs: X,
    length: Length = None,
    reverse: bool = False,
    unroll: Unroll = 1,
    _split_transpose: bool = False,
) -> tuple[N, Y]: ...
@overload
def scan(
    f: Step[Arrays2, Array, Pair, Y],
    init: Pair,
    xs: Array | HostArray,
    length: Length = None,
    reverse: bool = False,
    unroll: Unroll = 1,
    _split_transpose: bool = False,
) -> tuple[Arrays2, Y]: ...
@overload
def scan(
    f: Step[Arrays2, None, Pair, Y],
    init: Pair,
    xs: None = None,
    length: Length = None,
    reverse: bool = False,
    unroll: Unroll = 1,
    _split_transpose: bool = False,
) -> tuple[Arrays2, Y]: ...
@overload
def scan(
    f: Step[Arrays2, X, Pair, Y],
    init: Pair,
    xs: X,
    length: Length = None,
    reverse: bool = False,
    unroll: Unroll = 1,
    _split_transpose: bool = False,
) -> tuple[Arrays2, Y]: ...
@overload
def scan(
    f: Step[Arrays3, Array, Triple, Y],
    init: Triple,
    xs: Array | HostArray,
    length: Length = None,
    reverse: bool = False,
    unroll: Unroll = 1,
    _split_transpose: bool = False,
) -> tuple[Arrays3, Y]: ...
@overload
def scan(
    f: Step[Arrays3, None, Triple, Y],
    init: Triple,
    xs: None = None,
    length: Length = None,
    reverse: bool = False,
    unroll: Unroll = 1,
    _split_transpose: bool = False,
) -> tuple[Arrays3, Y]: ...
@overload
def scan(
    f: Step[Arrays3, X, Triple, Y],
    init: Triple,
    xs: X,
    length: Length = None,
    reverse: bool = False,
    unroll: Unroll = 1,
    _split_transpose: bool = False,
) -> tuple[Arrays3, Y]: ...
@overload
def scan(
    f: Step[Arrays[K], Array, Numbers[K], Y],
    init: Numbers[K],
    xs: Array | HostArray,
    length: Length = None,
    reverse: bool = False,
    unroll: Unroll = 1,
    _split_transpose: bool = False,
) -> tuple[Arrays[K], Y]: ...
@overload
def scan(
    f: Step[Arrays[K], None, Numbers[K], Y],
    init: Numbers[K],
    xs: None = None,
    length: Length = None,
    reverse: bool = False,
    unroll: Unroll = 1,
    _split_transpose: bool = False,
) -> tuple[Arrays[K], Y]: ...
@overload
def scan(
    f: Step[Arrays[K], X, Numbers[K], Y],
    init: Numbers[K],
    xs: X,
    length: Length = None,
    reverse: bool = False,
    unroll: Unroll = 1,
    _split_transpose: bool = False,
) -> tuple[Arrays[K], Y]: ...
@overload
def scan(
    f: Step[C, Array, C, Y],
    init: C,
    xs: Array | HostArray,
    length: Length = None,
    reverse: bool = False,
    unroll: Unroll = 1,
    _split_transpose: bool = False,
) -> tuple[C, Y]: ...
@overload
def scan(
    f: Step[C, None, C, Y],
    init: C,
    xs: None = None,
    length: Length = None,
    reverse: bool = False,
    unroll: Unroll = 1,
    _split_transpose: bool = False,
) -> tuple[C, Y]: ...
@overload
def scan(
    f: Step[C, X, C, Y],
    init: C,
    xs: X,
    length: Length = None,
    reverse: bool = False,
    unroll: Unroll = 1,
    _split_transpose: bool = False,
) -> tuple[C, Y]: ...
@overload
def scan(
    f: Step[C, Array, C, Y],
    init: Mixed,
    xs: Array | HostArray,
    length: Length = None,
    reverse: bool = False,
    unroll: Unroll = 1,
    _split_transpose: bool = False,
) -> tuple[C, Y]: ...
@overload
def scan(
    f: Step[C, None, C, Y],
    init: Mixed,
    xs: None = None,
    length: Length = None,
    reverse: bool = False,
    unroll: Unroll = 1,
    _split_transpose: bool = False,
) -> tuple[C, Y]: ...
@overload
def scan(
    f: Step[C, X, C, Y],
    init: Mixed,
    xs: X,
    length: Length = None,
    reverse: bool = False,
    unroll: Unroll = 1,
    _split_transpose: bool = False,
) -> tuple[C, Y]: ...
@overload
def scan(
    f: Step[Array, X, ArrayLike, Y],
    init: ArrayLike,
    xs: HostArrays,
    length: Length = None,
    reverse: bool = False,
    unroll: Unroll = 1,
    _split_transpose: bool = False,
) -> tuple[Array, Y]: ...
@overload
def scan(
    f: Step[Arrays[K], Array, Numbers[K], Y],
    init: Jumble[K],
    xs: Array | HostArray,
    length: Length = None,
    reverse: bool = False,
    unroll: Unroll = 1,
    _split_transpose: bool = False,
) -> tuple[Arrays[K], Y]: ...
@overload
def scan(
    f: Step[Arrays[K], None, Numbers[K], Y],
    init: Jumble[K],
    xs: None = None,
    length: Length = None,
    reverse: bool = False,
    unroll: Unroll = 1,
    _split_transpose: bool = False,
) -> tuple[Arrays[K], Y]: ...
@overload
def scan(
    f: Step[Arrays[K], X, Numbers[K], Y],
    init: Jumble[K],
    xs: X,
    length: Length = None,
    reverse: bool = False,
    unroll: Unroll = 1,
    _split_transpose: bool = False,
) -> tuple[Arrays[K], Y]: ...
@overload
def scan(
    f: Step[D, Any, D, Y],
    init: Mapping[str, object],
    xs: Along = None,
    length: Length = None,
    reverse: bool = False,
    unroll: Unroll = 1,
    _split_transpose: bool = False,
) -> tuple[D, Y]: ...
def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],  # the user's trees
    init: object,
    xs: object = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
) -> tuple[Any, Any]:
    """Applies f along the leading axis of arrays, handing a carry on, as this does:

        carry, ys = init, []
        for x in xs:
            carry, y = f(carry, x)
            ys.append(y)
        return carry, stack(ys)

    `f` is traced once. It takes and returns trees, and may close over traced values; the carry must keep its structure,
    shapes and dtypes, but a weakly typed `init` takes the dtype of what f returns.

    Args:
      f: takes a carry and a slice of `xs`; returns a carry and what is stacked.
      init: the first carry.
      xs: a tree of arrays with leading axes of one size. None: f gets None.
      length: the number of iterations; needed only if `xs` has no leaves.
      reverse: go through `xs` from the end; results are stacked where the slices were.
      unroll: how many applications of f one iteration of the compiled loop contains; True or 0: all.
      _split_transpose: how JAX divides the loop of the derivative, if it is to; taken and not needed.

    Raises:
      InputError: the types of the carry change; the leading axes differ.
      TreeError: the structure of the carry changes.

    >>> import numpy as np
    >>> scan(lambda total, x: (total + x, total), np.float64(0.0), np.arange(1.0, 5.0))
    (Array(10., dtype=float64), Array([0., 1., 3., 6.], dtype=float64))
    """
    check_callable("scan", f)
    flag("scan: _split_transpose", _split_transpose)
    if (lent := lend(f, (init, xs), {})) is not None:
        return _scan_refs(f, init, lent, length, reverse, unroll)
    arrays, treedef = flatten_arguments(f, (init, xs), {})
    carry_tree = tree.flatten(init)[1]
    n = carry_tree.num_leaves
    count = scan_length("scan", f, treedef, arrays, n, length)
    if count and runs_by_python():
        return scan_by_python(f, init, xs, count, flag("scan: reverse", reverse))
    slices = [slice_type(x.aval) for x in arrays[n:]]
    body = stage_body("scan", f, treedef, carry_tree, arrays[:n], slices, returns_pair=True, scanned=arrays[n:])
    outs = bind_scan(body, arrays[n:], count, flag("scan: reverse", reverse), unrolling(unroll, count))
    carry, ys = tree.unflatten(body.traced.treedef, outs)
    return carry, ys


def _scan_refs(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: object,
    lent: Lent,
    length: int | None,
    reverse: bool,
    unroll: int | bool,
) -> tuple[Any, Any]:
    """The same along Refs: f takes a Ref for each slice, and what it leaves there is written back."""
    if lent.positions[0] < tree.flatten(init)[1].num_leaves:
        raise RefError("scan: a Ref can't be carried, as it isn't an array: let the function close over it")
    given = lending(f, lent.places)

    def step(carry: Any, x: Any) -> tuple[Any, Any]:
        (carry, y), last = given(carry, x)
        return carry, (y, last)

    def run() -> tuple[tuple[Any, Any], Any]:
        start: Any = lent.args[0]
        carry, (ys, last) = scan(step, start, lent.args[1], length, reverse, unroll)
        return (carry, ys), last

    found: tuple[Any, Any] = lent.run(run)
    return found
