"""Closure conversion: what a function closes over becomes an argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tinyjax.api.make_jaxpr import abstractify
from tinyjax.errors import TreeError
from tinyjax.ir.interpret import interpret
from tinyjax.tracebacks import filtered
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import ConcreteArray, top_frame
from tinyjax.tracing.frames import OpenFrame, V
from tinyjax.tracing.functions import FlatFunction, as_arrays, check_callable, describe
from tinyjax.tracing.programs import trace

R = TypeVar("R")


@filtered
def closure_convert(fun: Callable[..., R], *example_args: Any) -> tuple[Callable[..., R], list[Array]]:
    """A function that closes over no traced values, and the values that it takes instead, after its arguments.

    `fun` is traced for arguments of the types of `example_args` (arrays, or ShapedArray), once. Returned are
    `converted` and a list of `values`, for which `converted(*args, *values)` is `fun(*args)`: what another
    transformation is tracing and `fun` closes over. Such values are for `converted` arguments like others, so that it
    can be differentiated with respect to them, or staged by `make_jaxpr`, whose programs hold arrays with elements
    only. Name and signature: `jax.closure_convert`.

    >>> from tinyjax import grad, make_jaxpr
    >>> def f(x):
    ...     converted, values = closure_convert(lambda y: x * y, 2.0)
    ...     print(make_jaxpr(converted)(2.0, *values))
    ...     return converted(3.0, *values)
    >>> grad(f)(5.0)
    { lambda ; a:~f64[] b:~f64[]. let c:~f64[] = mul b a in (c,) }
    Array(3., dtype=float64, weak_type=True)
    """
    check_callable("closure_convert", fun)
    leaves, treedef = tree.flatten((example_args, {}))
    traced = trace(FlatFunction(fun, "closure_convert", treedef), list(map(abstractify, leaves)))
    values = [array for array in traced.captured if not isinstance(array, ConcreteArray)]
    count, jaxpr = len(example_args), traced.jaxpr

    @filtered
    def converted(*args: Any) -> Any:  # the user's trees
        found, found_tree = tree.flatten((args[:count], {}))
        if found_tree != treedef or len(args) != count + len(values):
            raise TreeError(
                f"{describe('closure_convert', fun)}: the function was traced for {tree.shown(treedef)}, and takes "
                f"{len(values)} values that it closed over after these; got {len(args)} arguments"
            )
        own = iter(as_arrays(args[count:], lambda i: f"closed-over value {i}"))
        captured = [array if isinstance(array, ConcreteArray) else next(own) for array in traced.captured]
        arrays = [*captured, *as_arrays(found, lambda i: f"argument {i}")]

        def run(frame: OpenFrame[V]) -> list[Array]:
            outs = interpret(frame.context, jaxpr, [frame.read(array) for array in arrays])
            return [frame.wrap(out) for out in outs]

        return traced.results(top_frame(arrays, jaxpr.effects).open(run))

    return converted, values
