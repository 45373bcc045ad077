"""Small functions for rules with symbolic zeros."""

from __future__ import annotations

from typing import Any

from tinyjax.api.make_jaxpr import abstractify
from tinyjax.api.rules.applications import zeros_like
from tinyjax.api.rules.vjp_application import CustomVJPPrimal
from tinyjax.ir.primitive import Zero
from tinyjax.tracebacks import filtered
from tinyjax.tracing import tree as trees
from tinyjax.tracing.array import Array


@filtered
def custom_vjp_primal_tree_values(tree: Any) -> Any:  # the user's own tree
    """The values in the arguments of a `fwd` rule with symbolic_zeros=True: a tree with the `value` of each
    CustomVJPPrimal in its place.

    >>> from tinyjax import numpy as tnp
    >>> x = CustomVJPPrimal(tnp.ones(2), perturbed=True)
    >>> custom_vjp_primal_tree_values({"x": x})
    {'x': Array([1., 1.], dtype=float64)}
    """
    return trees.map_leaves(
        lambda x: x.value if isinstance(x, CustomVJPPrimal) else x,
        tree,
    )


@filtered
def zero_from_primal(val: Any, symbolic_zeros: bool = False) -> Any:  # the user's own tree
    """For a tree of values the tree of tangents, or cotangents, that are zero: arrays, of dtype float0 for what has no
    derivative; with `symbolic_zeros`, SymbolicZero objects.

    >>> import numpy as np
    >>> (
    ...     zero_from_primal({"x": np.float32(2.0)}),
    ...     zero_from_primal(np.float32(2.0), symbolic_zeros=True).aval,
    ... )
    ({'x': Array(0., dtype=float32)}, ShapedArray(f32[]))
    """

    def zero(x: object) -> Array | Zero:
        found = Zero(abstractify(x.value if isinstance(x, CustomVJPPrimal) else x).tangent)
        return found if symbolic_zeros else zeros_like(found)

    return trees.map_leaves(zero, val)
