"""Parts of different sizes that the elements along a named axis give each other."""

from __future__ import annotations

import numpy as np

from tinyjax.arrays.shaping import expand_dims
from tinyjax.errors import InputError, ShapeError
from tinyjax.ir.dtypes import INTEGERS
from tinyjax.lax.collectives import axis_size
from tinyjax.lax.exchanges import all_gather, all_to_all
from tinyjax.lax.index_groups import AxisIndexGroups, Grouped
from tinyjax.lax.shaping import broadcast, broadcast_in_dim, clamp, select
from tinyjax.lax.signatures import AxisName
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array


def ragged_all_to_all(
    operand: ArrayLike,
    output: ArrayLike,
    input_offsets: ArrayLike,
    send_sizes: ArrayLike,
    output_offsets: ArrayLike,
    recv_sizes: ArrayLike,
    *,
    axis_name: AxisName,
    axis_index_groups: AxisIndexGroups | None = None,
) -> Array:
    """`output` with rows that the elements along the named axis have sent: each sends slices of its `operand`.

    Every element is sent equally many slices. Slice i, of `send_sizes[i]` rows from `input_offsets[i]` on, is written
    to the rows of the receiver's output from `output_offsets[i]` on; the receiver knows its size from `recv_sizes`,
    where sizes are in the order of who sends them. Where slices overlap, the last one counts.

    XLA has no such exchange on a CPU: here each element is sent all rows, and takes those that are meant for it. So it
    works everywhere, and has derivatives and batches.

    Args:
      operand: the rows to send, along the first axis.
      output: where received rows are written; of the operand's dtype, and of its shape but for the first axis.
      input_offsets: where the rows for each element begin: a vector of integers, whose length is a multiple of the size
        of the named axis, or of its groups.
      send_sizes: how many rows each is sent, a vector like it.
      output_offsets: where they are written there, a vector like it.
      recv_sizes: how many rows are received from each, a vector like it.

    Source: JAX's function of this name.

    >>> import numpy as np
    >>> from tinyjax.api.vectorize import vmap
    >>> send = lambda *args: ragged_all_to_all(*args, axis_name="i")
    >>> rows, sizes = np.array([[1, 2, 2], [3, 4, 0]]), np.array([[1, 2], [1, 1]])
    >>> offsets, places = np.array([[0, 1], [0, 1]]), np.array([[0, 0], [1, 2]])
    >>> vmap(send, axis_name="i")(rows, np.zeros((2, 4), int), offsets, sizes, places, sizes.T)
    Array([[1, 3, 0, 0],
           [2, 2, 4, 0]], dtype=int64)
    """
    x, out = as_array(operand), as_array(output)
    if x.aval.ndim == 0 or out.aval.ndim == 0 or x.aval.shape[1:] != out.aval.shape[1:]:
        raise ShapeError(
            f"ragged_all_to_all: operand and output have one shape but for the first axis, got {x.aval} and {out.aval}"
        )
    if x.aval.dtype != out.aval.dtype:
        raise InputError(f"ragged_all_to_all: operand and output have one dtype, got {x.aval} and {out.aval}")
    size = axis_size(axis_name)
    if axis_index_groups is not None:
        grouped = Grouped.of("ragged_all_to_all", axis_name, axis_index_groups)
        axis_index_groups, size = grouped.groups, grouped.size
    vectors = [as_array(vector) for vector in (input_offsets, send_sizes, output_offsets, recv_sizes)]
    names = ("input_offsets", "send_sizes", "output_offsets", "recv_sizes")
    (count, *_) = vectors[0].aval.shape or (0,)
    for name, vector in zip(names, vectors, strict=True):
        if vector.aval.dtype not in INTEGERS:
            raise InputError(f"ragged_all_to_all: {name} is a vector of integers, got {vector.aval}")
        if vector.aval.shape != (count,) or not count or count % size:
            raise ShapeError(
                f"ragged_all_to_all: {name} is a vector whose length is that of the others, and a multiple of {size}, "
                f"got {vector.aval}"
            )
    rows, places = x.aval.shape[0], out.aval.shape[0]
    if not rows or not places:
        return out
    sizes = vectors[3]
    # For what is received: where it is in the operand of who sends it, and where it is to be written.
    starts, to = (
        all_to_all(v, axis_name, 0, 0, axis_index_groups=axis_index_groups, tiled=True)
        for v in (vectors[0], vectors[2])
    )
    everything = as_array(all_gather(x, axis_name, axis_index_groups=axis_index_groups, axis=0, tiled=True))
    place = as_array(np.arange(places))
    first, length = expand_dims(to, 1), expand_dims(sizes, 1)
    covered = (place >= first) & (place < first + length)
    numbers = broadcast_in_dim(as_array(np.arange(count)), (count, places), (0,))
    which = select(covered, numbers, broadcast(as_array(-1), (count, places))).max(0)
    chosen = clamp(0, which, count - 1)
    row = clamp(0, starts[chosen] + place - to[chosen], rows - 1)
    found = everything[chosen // (count // size) * rows + row]
    here = broadcast_in_dim(which >= 0, out.aval.shape, (0,))
    return select(here, found, out)
