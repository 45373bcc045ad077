"""Batches of primitives that are defined by name, as JAX has them: `jax.interpreters.batching`."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import tinyjax.numpy as tnp
from tinyjax.errors import InputError
from tinyjax.extend.by_name import Primitive, Rules
from tinyjax.tracing.array import Array

__all__ = ["bdim_at_front", "broadcast", "defbroadcasting", "defvectorized", "not_mapped", "primitive_batchers"]

#: What stands for the axis of an operand that isn't mapped.
not_mapped: Final = None
#: `rule(operands, axes, **params)` returns the result and the axis that is mapped in it, or a list of each.
primitive_batchers: Final = Rules("batch")


def defvectorized(primitive: Primitive) -> None:
    """Says that it does with each element of its operands, which all have the batch at the same axis, the same."""

    def batch(args: tuple[Array, ...], axes: tuple[int | None, ...], **params: Any) -> tuple[Any, Any]:
        if len(set(axes)) != 1:
            raise InputError(
                f"{primitive} is defined by `defvectorized`, for operands with the batch at one axis, and they have it "
                f"at {', '.join(map(str, axes))}: use `defbroadcasting`"
            )
        outs = primitive.bind(*args, **params)
        return outs, [axes[0]] * len(outs) if primitive.multiple_results else axes[0]

    primitive_batchers[primitive] = batch


def defbroadcasting(primitive: Primitive) -> None:
    """Says that it does the same with the elements of each place in its operands, which it broadcasts as NumPy does.

    >>> import numpy as np
    >>> import tinyjax as tj
    >>> plus_p = Primitive("plus")
    >>> _ = plus_p.def_impl(np.add)
    >>> _ = plus_p.def_abstract_eval(
    ...     lambda x, y: tj.ShapedArray(np.broadcast_shapes(x.shape, y.shape), x.dtype)
    ... )
    >>> defbroadcasting(plus_p)
    >>> tj.vmap(plus_p.bind, in_axes=(1, None))(np.ones((3, 2)), np.arange(3.0)).shape
    (2, 3)
    """
    primitive_batchers[primitive] = partial(_broadcasting, primitive)


def _broadcasting(
    primitive: Primitive, args: tuple[Array, ...], axes: tuple[int | None, ...], **params: Any
) -> tuple[Any, Any]:
    mapped = [(x, axis) for x, axis in zip(args, axes, strict=True) if axis is not None]
    most = max([x.ndim - (axis is not None) for x, axis in zip(args, axes, strict=True)])
    size = mapped[0][0].shape[mapped[0][1]]

    def aligned(x: Array, axis: int | None) -> Array:
        """The batch first, then as many axes as any other operand has."""
        if axis is None:
            return x
        front = tnp.moveaxis(x, axis, 0)
        return tnp.reshape(front, (size, *(1,) * (most - front.ndim + 1), *front.shape[1:]))

    outs = primitive.bind(*map(aligned, args, axes), **params)
    return outs, [0] * len(outs) if primitive.multiple_results else 0


def bdim_at_front(x: Array, bdim: int | None, size: int) -> Array:
    """The array with the batch of this size as its first axis: moved there, or repeated if it isn't mapped."""
    return broadcast(x, size, 0) if bdim is None else tnp.moveaxis(x, bdim, 0)


def broadcast(x: Array, sz: int, axis: int) -> Array:
    """The array repeated along a new axis."""
    shape = list(tnp.shape(x))
    shape.insert(axis, sz)
    return tnp.broadcast_to(tnp.expand_dims(x, axis), tuple(shape))


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
