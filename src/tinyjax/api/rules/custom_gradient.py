"""`custom_gradient`: a function that returns its results together with the rule for its gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, final

from attrs import frozen

from tinyjax.api.make_jaxpr import eval_jaxpr
from tinyjax.api.rules.applications import locating
from tinyjax.api.rules.custom_vjp import custom_vjp
from tinyjax.errors import InputError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import FLOAT0
from tinyjax.ir.program import Jaxpr
from tinyjax.lax.bodies import stage
from tinyjax.tracebacks import filtered
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.functions import (
    as_arrays,
    check_callable,
    describe,
    float0_zeros,
    function_name,
)
from tinyjax.tracing.programs import Traced
from tinyjax.tree.nodes import register_static
from tinyjax.wrapping import wraps

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef

P = ParamSpec("P")
R = TypeVar("R")


@final
@frozen
class _Rule:
    """The rule that a call returned, as a program that takes what it closed over, then the cotangents."""

    jaxpr: Jaxpr
    treedef: PyTreeDef
    #: The results of dtype float0, which the program leaves out.
    erased: tuple[tuple[int, ShapedArray], ...]

    def results(self, captured: Sequence[Array], cotangents: Sequence[Array]) -> Any:  # the user's own tree
        outs = eval_jaxpr(self.jaxpr, captured, *cotangents)
        erased = {i: float0_zeros(aval.shape) for i, aval in self.erased}
        return Traced(self.jaxpr, tuple(captured), self.treedef, erased).results(outs)


register_static(_Rule)


@filtered
def custom_gradient(fun: Callable[P, tuple[R, Callable[..., object]]]) -> Callable[P, R]:
    """A function of what `fun` computes, with the gradient that it says: `fun` returns its results, and a function from
    their cotangents to those of the arguments.

    That function takes one argument, a tree like the results. It returns a tuple with the cotangent of each argument;
    for one argument that is an array, just that. None stands for zero. It may close over values of `fun`, which are
    then kept for the derivative. It is for reverse mode: `custom_jvp` serves both. Name and signature:
    `jax.custom_gradient`.

    >>> from tinyjax import grad, numpy as tnp
    >>> @custom_gradient
    ... def log1pexp(x):
    ...     e = tnp.exp(x)
    ...     return tnp.log1p(e), lambda ct: ct * (1 - 1 / (1 + e))
    >>> grad(log1pexp)(100.0)
    Array(1., dtype=float64, weak_type=True)
    """
    check_callable("custom_gradient", fun)

    @custom_vjp
    @wraps(fun)
    def value(*args: P.args, **kwargs: P.kwargs) -> Any:  # the results
        return _parts(fun, fun(*args, **kwargs))[0]

    @wraps(fun)
    def fwd(*args: P.args, **kwargs: P.kwargs) -> object:
        out, rule = _parts(fun, fun(*args, **kwargs))
        leaves, _ = tree.flatten(out)
        arrays = as_arrays(leaves, lambda i: f"result {i} of {function_name(fun)}")
        treedef = tree.flatten(((out,), {}))[1]
        avals = [array.aval.tangent for array in arrays]
        traced = stage("custom_gradient", rule, treedef, avals)
        erased = tuple((i, array.aval) for i, array in sorted(traced.erased.items()))
        return out, (list(traced.captured), _Rule(traced.jaxpr, traced.treedef, erased))

    def bwd(residuals: tuple[list[Array], _Rule], ct: object) -> object:
        captured, rule = residuals
        cotangents = [x for x in as_arrays(tree.flatten(ct)[0], lambda i: f"cotangent {i}") if x.aval.dtype != FLOAT0]
        found = rule.results(captured, cotangents)
        return found if isinstance(found, tuple | list) else (found,)

    value.defvjp(fwd, bwd)
    return value


def _parts(fun: Callable[..., object], pair: object) -> tuple[Any, Callable[..., object]]:
    """The results, and the rule; an InputError if the function returned anything else."""
    with locating(fun):
        if not isinstance(pair, tuple) or len(pair) != 2 or not callable(pair[1]):
            raise InputError(
                f"{describe('custom_gradient', fun)} must return a pair: its results, and a function from their "
                f"cotangents to those of the arguments; got {pair!r}"
            )
    return pair[0], pair[1]
