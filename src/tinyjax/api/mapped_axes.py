"""Along which axes functions are mapped: what `in_axes` and `out_axes` say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex

from tinyjax.arrays.shaping import integer
from tinyjax.errors import BatchSizeError, ChoiceError, TreeError
from tinyjax.ir.aval import ShapedArray
from tinyjax.tracing import tree
from tinyjax.tracing.functions import function_name


def input_axes(what: str, fun: Callable[..., object], in_axes: Any, args: Sequence[object], count: int) -> list[Any]:
    """What `in_axes` says of each leaf of the arguments; those given by keyword come last."""
    if isinstance(in_axes, tuple) and len(in_axes) != len(args):
        name = function_name(fun)
        raise ChoiceError(
            f"{what}: in_axes has {len(in_axes)} entries, but {name} got {len(args)} positional arguments"
        )
    axes = spread_axes(what, in_axes, tuple(args), "in_axes", "argument")
    return axes + [0] * (count - len(axes))


def spread_axes(what: str, prefix: Any, full: Any, name: str, kind: str) -> list[Any]:
    """For each leaf of a tree, the leaf of `prefix` that counts for it."""
    leaves, treedef = tree.flatten(prefix, is_leaf=_is_none)
    try:
        subtrees = treedef.flatten_up_to(full)
    except (ValueError, TypeError):
        at = tree.prefix_difference(prefix, full) or "the root"
        raise TreeError(
            f"{what}: {name} must be a prefix of the tree of the {kind}s, but differs at {at}:\n"
            f"  {name}: {prefix!r}\n  the {kind}s: {tree.shown(tree.flatten(full)[1])}"
        ) from None
    return [leaf for leaf, subtree in zip(leaves, subtrees, strict=True) for _ in tree.flatten(subtree)[0]]


def _is_none(x: object) -> bool:
    return x is None


def resolve_axis(what: str, axis: object, ndim: int, where: Callable[[int], str], position: int) -> int:
    """An axis, counted from the start."""
    if type(axis) is not int:
        if isinstance(axis, bool) or not isinstance(axis, SupportsIndex):
            raise ChoiceError(f"{what}: an axis is an integer or None, got {axis!r} for {where(position)}")
        axis = integer(axis, f"{what}: an axis, as for {where(position)},")
    if not -ndim <= axis < ndim:
        raise BatchSizeError(
            f"{what}: axis {axis} is out of range for {where(position)}, which has {ndim} dimensions"
            + (". Map it with None to use the same value for every element." if ndim == 0 else "")
        )
    return axis % ndim


def mapped_size(
    what: str, avals: Sequence[ShapedArray], axes: Sequence[int], axis_size: int | None, where: Callable[[int], str]
) -> int:
    """The one size of all mapped axes."""
    sizes = [aval.shape[axis] for aval, axis in zip(avals, axes, strict=True)]
    distinct = set(sizes) if axis_size is None else {*sizes, axis_size}
    if len(distinct) == 1:
        return distinct.pop()
    if not distinct:
        raise BatchSizeError(f"{what}: no argument is mapped; map at least one, or pass axis_size")
    lines = [
        f"  {size} along axis {axis} of {where(i)}, {aval}"
        for i, (size, axis, aval) in enumerate(zip(sizes, axes, avals, strict=True))
    ]
    if axis_size is not None:
        lines.append(f"  {axis_size} asked for by axis_size")
    raise BatchSizeError(f"{what}: the mapped axes must have one size, but have\n" + "\n".join(lines))
