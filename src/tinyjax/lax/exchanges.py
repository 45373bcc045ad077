"""What the elements along a named axis give each other: those that an enclosing `vmap(..., axis_name=...)` maps, or the
devices of the mesh of an enclosing `shard_map`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from tinyjax.arrays.shaping import canonical_axis, expand_dims, integer, integers, moveaxis, reshape, squeeze
from tinyjax.errors import ChoiceError, PermutationError, ShapeError
from tinyjax.lax.binding import axis_names, number_pairs
from tinyjax.lax.collectives import axis_index, axis_size, psum
from tinyjax.lax.groups import Group, axis_groups
from tinyjax.lax.index_groups import AxisIndexGroups, Grouped
from tinyjax.lax.indexing import dynamic_index_in_dim, dynamic_update_slice
from tinyjax.lax.shaping import broadcast, clamp, full_like, index_in_dim, select
from tinyjax.lax.signatures import AxisName
from tinyjax.primitives.exchanges import AllGather, AllToAll, PPermute, ReduceScatter
from tinyjax.primitives.unreduced import AllGatherReduced, UnreducedReduceScatter
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind
from tinyjax.transforms.arguments import flag

_T = TypeVar("_T")


def all_gather(
    x: _T,
    axis_name: AxisName,
    *,
    axis_index_groups: AxisIndexGroups | None = None,
    axis: int = 0,
    tiled: bool = False,
    to: str = "varying",
) -> _T:
    """The leaves of x of all elements along one named axis or several, along a new axis, or put together along one.

    `axis` is where the new axis is in the result; with `tiled`, the axis along which they are put together. Of several
    names, the last one counts fastest.

    Along axes of a mesh all elements have the same result, but its type doesn't say so, unless `to` asks for it:
    `"reduced"` for a value whose cotangent is a sum yet to be made (`pcast`), of which `psum_scatter` gives each device
    its part; `"invarying"` for one whose cotangent is the same for all devices, too.

    >>> import numpy as np
    >>> from tinyjax.api.vectorize import vmap
    >>> vmap(lambda x: all_gather(x, "i") - x, axis_name="i")(np.array([1.0, 3.0]))
    Array([[ 0.,  2.],
           [-2.,  0.]], dtype=float64)
    """
    tiled = flag("all_gather: tiled", tiled)
    if to not in ("varying", "reduced", "invarying"):
        raise ChoiceError(f"all_gather: to must be 'varying', 'reduced' or 'invarying', got {to!r}")
    if to != "varying" and axis_index_groups is not None:
        raise ChoiceError(f"all_gather to {to!r} is among all devices along the axes: leave axis_index_groups out")
    grouped = None
    if axis_index_groups is not None:
        grouped = Grouped.of("all_gather", axis_name, axis_index_groups)

    def gathered(leaf: object) -> Array:
        array = as_array(leaf)
        at = canonical_axis(axis, array.aval.ndim + (not tiled), "all_gather")
        if grouped is not None and grouped.own is None:
            return grouped.gather(array, at, tiled)
        if not tiled:
            array = expand_dims(array, at)
        if grouped is not None and (own := grouped.own) is not None:
            return bind(AllGather(own.name, grouped.size, at, grouped.groups), own.admit(array))[0]
        for group in reversed(axis_groups(axis_name)):
            array = _gathered(group, group.admit(array), at, to)
        return array

    return tree.map_leaves(gathered, x)


def _gathered(group: Group, x: Array, at: int, to: str) -> Array:
    if to == "varying" or not group.varying:
        return bind(AllGather(group.name, group.size, at), x)[0]
    if to == "reduced":
        return bind(AllGatherReduced(group.name, group.size, at), x)[0]
    # A sum, of which each device has a part, is the same for all by its type.
    shape, part = x.aval.shape, x.aval.shape[at]
    starts: list[ArrayLike] = [0] * len(shape)
    starts[at] = axis_index(group.name) * part
    zeros = full_like(x, 0, shape=(*shape[:at], part * group.size, *shape[at + 1 :]))
    return psum(dynamic_update_slice(zeros, x, starts), group.name)


def psum_scatter(
    x: _T,
    axis_name: AxisName,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: AxisIndexGroups | None = None,
    tiled: bool = False,
) -> _T:
    """The sums of the leaves of x over one named axis or several, of which each element gets a part.

    The size of `scatter_dimension` is that of the named axis, and the result doesn't have it; with `tiled`, it is a
    multiple, and each element gets as many equal parts. It is `psum` and the part at `axis_index`. Of what is
    unreduced (`pcast`), it is the sum that this is.

    >>> import numpy as np
    >>> from tinyjax.api.vectorize import vmap
    >>> vmap(lambda x: psum_scatter(x, "i"), axis_name="i")(np.array([[1.0, 2.0], [10.0, 20.0]]))
    Array([11., 22.], dtype=float64)
    """
    tiled = flag("psum_scatter: tiled", tiled)
    grouped = None
    if axis_index_groups is not None:
        grouped = Grouped.of("psum_scatter", axis_name, axis_index_groups)

    def scattered(leaf: object) -> Array:
        array = as_array(leaf)
        at = canonical_axis(scatter_dimension, array.aval.ndim, "psum_scatter")
        if grouped is not None:
            if (own := grouped.own) is None:
                return grouped.scatter(array, at, tiled)
            grouped.check_divided(array, at, tiled)
            (array,) = bind(ReduceScatter(own.name, grouped.size, at, grouped.groups), own.admit(array))
            return array if tiled else squeeze(array, at)
        if not tiled:
            _check_size("psum_scatter", array, at, axis_name)
        for group in axis_groups(axis_name):
            if group.sums("psum_scatter", array):
                (array,) = bind(UnreducedReduceScatter(group.name, group.size, at), array)
            else:
                (array,) = bind(ReduceScatter(group.name, group.size, at), group.admit(array))
        return array if tiled else squeeze(array, at)

    return tree.map_leaves(scattered, x)


def all_to_all(
    x: _T,
    axis_name: AxisName,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: AxisIndexGroups | None = None,
    tiled: bool = False,
) -> _T:
    """Each element along the named axis gives every element a part of its leaves, and puts what it gets together.

    The size of `split_axis` is that of the named axis; the result doesn't have that axis, but one of the same size at
    `concat_axis`, which counts who has given the part. With `tiled`, `split_axis` is divided into as many equal parts,
    and they are put together along `concat_axis`.

    >>> import numpy as np
    >>> from tinyjax.api.vectorize import vmap
    >>> vmap(lambda x: all_to_all(x, "i", 0, 0), axis_name="i")(np.array([[1.0, 2.0], [10.0, 20.0]]))
    Array([[ 1., 10.],
           [ 2., 20.]], dtype=float64)
    """
    tiled = flag("all_to_all: tiled", tiled)
    grouped = None
    if axis_index_groups is not None:
        grouped = Grouped.of("all_to_all", axis_name, axis_index_groups)

    def exchanged(leaf: object) -> Array:
        array = as_array(leaf)
        split = canonical_axis(split_axis, array.aval.ndim, "all_to_all")
        concat = canonical_axis(concat_axis, array.aval.ndim, "all_to_all")
        if grouped is not None:
            if grouped.own is None:
                return grouped.exchange(array, split, concat, tiled)
            grouped.check_divided(array, split, tiled)
        elif not tiled:
            _check_size("all_to_all", array, split, axis_name)
        if tiled:
            return _exchange(array, axis_name, split, concat, grouped)
        # The new axis is put where it belongs once the other is gone.
        new = concat + (concat >= split)
        array = _exchange(expand_dims(array, new), axis_name, split + (new <= split), new, grouped)
        return squeeze(array, split + (new <= split))

    return tree.map_leaves(exchanged, x)


def _exchange(x: Array, axis_name: AxisName, split: int, concat: int, grouped: Grouped | None) -> Array:
    if grouped is not None and (own := grouped.own) is not None:
        return bind(AllToAll(own.name, grouped.size, split, concat, grouped.groups), own.admit(x))[0]
    groups = axis_groups(axis_name)
    if len(groups) == 1:
        (group,) = groups
        return bind(AllToAll(group.name, group.size, split, concat), group.admit(x))[0]
    # Parts have a number for each group of axes. Every group exchanges along the axis of its own numbers.
    sizes, total, count = [group.size for group in groups], axis_size(axis_name), len(groups)
    shape = x.aval.shape
    if shape[split] % total:
        raise ShapeError(f"all_to_all: axis {split} of {x.aval} can't be divided into {total} equal parts")
    x = reshape(x, (*shape[:split], *sizes, shape[split] // total, *shape[split + 1 :]))
    for i, group in enumerate(groups):
        (x,) = bind(AllToAll(group.name, group.size, split + i, split + i), group.admit(x))
    x = moveaxis(x, range(split, split + count), range(concat, concat + count))
    joined = x.aval.shape
    return reshape(x, (*joined[:concat], total * joined[concat + count], *joined[concat + count + 1 :]))


def ppermute(x: _T, axis_name: AxisName, perm: Sequence[tuple[int, int]]) -> _T:
    """The leaves of x of other elements along the named axis: `perm` has pairs (source, destination).

    Elements that are no destination get zeros. Sources are distinct, and so are destinations.

    >>> import numpy as np
    >>> from tinyjax.api.vectorize import vmap
    >>> vmap(lambda x: ppermute(x, "i", [(0, 1), (1, 2)]), axis_name="i")(np.array([1.0, 2.0, 3.0]))
    Array([0., 1., 2.], dtype=float64)
    """
    pairs = number_pairs("ppermute: perm", perm)
    groups = axis_groups(axis_name)

    def permuted(leaf: object) -> Array:
        array = as_array(leaf)
        if len(groups) == 1:
            (group,) = groups
            equation = PPermute(group.name, pairs)
            equation.check_size(group.size)
            return bind(equation, group.admit(array))[0]
        PPermute(axis_names(axis_name), pairs).check_size(axis_size(axis_name))
        sources = np.full(axis_size(axis_name), -1, np.int32)
        for source, destination in pairs:
            sources[destination] = source
        giver = as_array(sources)[axis_index(axis_name)]
        place = clamp(0, giver, len(sources) - 1)
        found = dynamic_index_in_dim(all_gather(array, axis_name), place, 0, keepdims=False)
        return select(broadcast(giver < 0, array.aval.shape), full_like(array, 0), found)

    return tree.map_leaves(permuted, x)


def pshuffle(x: _T, axis_name: AxisName, perm: Sequence[int]) -> _T:
    """`ppermute` where each element gets one: that whose number `perm` has at its place.

    >>> import numpy as np
    >>> from tinyjax.api.vectorize import vmap
    >>> vmap(lambda x: pshuffle(x, "i", [1, 2, 0]), axis_name="i")(np.array([1.0, 2.0, 3.0]))
    Array([2., 3., 1.], dtype=float64)
    """
    size = axis_size(axis_name)
    sources = integers(perm, "pshuffle: a number of perm")
    if sorted(sources) != list(range(size)):
        raise PermutationError(f"pshuffle: perm must be a permutation of the {size} elements; got {list(sources)}")
    return ppermute(x, axis_name, [(source, destination) for destination, source in enumerate(sources)])


def pswapaxes(x: _T, axis_name: AxisName, axis: int, *, axis_index_groups: AxisIndexGroups | None = None) -> _T:
    """An axis of the leaves of x, and the named one, exchanged: they have the same size.

    >>> import numpy as np
    >>> from tinyjax.api.vectorize import vmap
    >>> vmap(lambda x: pswapaxes(x, "i", 0), axis_name="i")(np.array([[1.0, 2.0], [10.0, 20.0]]))
    Array([[ 1., 10.],
           [ 2., 20.]], dtype=float64)
    """
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def pbroadcast(x: _T, axis_name: AxisName, source: int) -> _T:
    """The leaves of x of one element, for all along the named axis.

    >>> import numpy as np
    >>> from tinyjax.api.vectorize import vmap
    >>> vmap(lambda x: pbroadcast(x, "i", 1), axis_name="i", out_axes=None)(np.array([1.0, 2.0]))
    Array(2., dtype=float64)
    """
    size = axis_size(axis_name)
    if not 0 <= (source := integer(source, "pbroadcast: source")) < size:
        raise PermutationError(f"pbroadcast: there is no element {source} among the {size} along {axis_name!r}")

    def chosen(leaf: object) -> Array:
        return index_in_dim(as_array(all_gather(leaf, axis_name)), source, 0, keepdims=False)

    return tree.map_leaves(chosen, x)


def _check_size(name: str, x: Array, axis: int, axis_name: AxisName) -> None:
    size = axis_size(axis_name)
    if x.aval.shape[axis] != size:
        raise ShapeError(
            f"{name}: axis {axis} of {x.aval} must have the size of the named axis, {size}. Or use `tiled=True`, which "
            "divides it into equal parts."
        )
