"""`linear_call`: a linear function with a transpose of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tinyjax.arrays.elementwise import astype
from tinyjax.control.linear_call import LinearCall
from tinyjax.errors import ShapeError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import FLOAT0
from tinyjax.ir.tangents import has_tangent
from tinyjax.ir.type_lists import listed
from tinyjax.lax.bodies import out_avals, stage
from tinyjax.tracebacks import filtered
from tinyjax.tracing import tree
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind
from tinyjax.tracing.functions import check_callable, flatten_arguments, located

R = TypeVar("R")
A = TypeVar("A")
B = TypeVar("B")


@filtered
def linear_call(fun: Callable[[R, A], B], fun_transpose: Callable[[R, B], A], residual_args: R, linear_args: A) -> B:
    """`fun(residual_args, linear_args)`, which is linear in its second argument and is transposed by `fun_transpose`.

    Transposed, in reverse mode or by `linear_transpose`, it is a call of `fun_transpose`, whose transpose is `fun`
    again. Neither is checked against the other. With respect to the residuals, the derivative is that of `fun`. Name
    and signature: `jax.custom_derivatives.linear_call`.

    Args:
      fun: takes the residuals and a tree, in which it is linear.
      fun_transpose: takes the residuals and a tree like the results of `fun`, and returns one like `linear_args`.
      residual_args: a tree of arrays in which neither needs to be linear.
      linear_args: a tree of arrays.

    Raises:
      TreeError: `fun_transpose` returns another tree than `linear_args`.
      ShapeError: it returns arrays of other shapes.

    >>> import tinyjax as tj
    >>> def scaled(x):
    ...     return linear_call(lambda r, x: x / r, lambda r, ct: 100 * ct / r, 2.0, x)
    >>> print(scaled(6.0), tj.jvp(scaled, (6.0,), (1.0,))[1], tj.grad(scaled)(6.0))
    3.0 0.5 50.0
    """
    for f in (fun, fun_transpose):
        check_callable("linear_call", f)
    arrays, treedef = flatten_arguments(fun, (residual_args, linear_args), {})
    linear_tree = tree.flatten(linear_args)[1]
    avals = [x.aval for x in arrays]
    n = len(arrays) - linear_tree.num_leaves
    residuals = [x for x in arrays[:n] if x.aval.dtype != FLOAT0]
    linear = [x for x in arrays[n:] if x.aval.dtype != FLOAT0]
    traced = stage("linear_call", fun, treedef, avals)

    def back(residual_args: R, cotangents: B) -> list[object]:
        return _checked(fun_transpose, fun_transpose(residual_args, cotangents), linear_args, avals[n:])

    example = tree.unflatten(traced.treedef, range(traced.treedef.num_leaves))
    back_tree = tree.flatten(((residual_args, example), {}))[1]
    given = [aval.cotangent if has_tangent(aval) else aval for aval in out_avals(traced)]
    transposed = stage("linear_call", back, back_tree, [*avals[:n], *given])
    own, others = [*traced.captured, *residuals], [*transposed.captured, *residuals]
    primitive = LinearCall(traced.jaxpr, (len(own), len(others)), transposed.jaxpr)
    result: B = traced.results(bind(primitive, *own, *others, *linear))
    return result


def _checked(
    fun: Callable[..., object], found: object, linear_args: object, avals: Sequence[ShapedArray]
) -> list[object]:
    """The leaves of what the transpose returns, with the dtypes of the linear arguments."""
    leaves, treedef = tree.flatten(found)
    what = f"linear_call: what {located(fun)} returns"
    tree.check_same_structure("linear_call", tree.flatten(linear_args)[1], treedef, "linear_args", what)
    arrays = [as_array(x) for x in leaves]
    if [x.aval.shape for x in arrays] != [aval.shape for aval in avals]:
        raise ShapeError(
            f"{what} must have the shapes of linear_args, {listed(avals)}; got {listed(x.aval for x in arrays)}"
        )
    return [astype(x, aval.dtype) for x, aval in zip(arrays, avals, strict=True) if aval.dtype != FLOAT0]
