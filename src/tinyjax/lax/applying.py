"""Functions applied to the elements at computed positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinyjax.contexts.staging import stage
from tinyjax.control.call import Call
from tinyjax.errors import InputError
from tinyjax.ir.shapes import as_shape
from tinyjax.ir.shared_types import array_type
from tinyjax.lax.computations import scalar_program
from tinyjax.lax.signatures import ModeLike
from tinyjax.primitives.structure import full
from tinyjax.primitives.windows import GatherScatterMode, ScatterDimensionNumbers
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind


def scatter_apply(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    func: Callable[[Array], ArrayLike],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Sequence[int] = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: ModeLike = None,
) -> Array:
    """The operand with `func`, a function of scalars, applied to the elements in windows of this shape, once for each
    window that an element is in. In reverse mode it is differentiable with `unique_indices` only.

    `mode` says what becomes of windows that aren't within the operand, as in `scatter`.

    >>> import numpy as np
    >>> numbers = ScatterDimensionNumbers((), (0,), (0,))
    >>> x, where = np.array([1.0, 2.0, 3.0]), np.array([[0], [2], [2]])
    >>> scatter_apply(x, where, lambda x: 10.0 * x, numbers, update_shape=(3,))
    Array([ 10.,   2., 300.], dtype=float64)
    """
    x, indices = as_array(operand), as_array(scatter_indices)
    scalar = array_type((), x.aval.dtype)
    from tinyjax.registered import jax_scatters  # which loads the whole vocabulary: at first need

    if not callable(func):
        raise InputError(f"scatter_apply needs a function to apply, got {func!r}")
    program = scalar_program("scatter_apply", lambda x, _: func(x), [scalar], tree.flatten(0)[1], [scalar])
    updates, params = array_type(as_shape(update_shape), x.aval.dtype), {
        "dimension_numbers": dimension_numbers,
        "indices_are_sorted": indices_are_sorted,
        "unique_indices": unique_indices,
        "mode": GatherScatterMode.from_any(mode),
        "update_jaxpr": program,
    }  # fmt: skip
    applied = stage(
        [x.aval, indices.aval],
        lambda ctx, ins: jax_scatters.scatter_apply(ctx, params, [*ins, full(ctx, updates, 0)]),
    )
    return bind(Call("scatter_apply", applied), x, indices)[0]
