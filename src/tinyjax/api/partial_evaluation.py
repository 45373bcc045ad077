"""Partial evaluation of Python functions: what is known of the arguments is computed with, and the rest is staged."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

from attrs import frozen

from tinyjax.contexts.partial_eval import PartialEvalContext
from tinyjax.contexts.rebuilding import Known
from tinyjax.errors import InputError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.interpret import interpret
from tinyjax.ir.printing.shown import Record
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.type_lists import expect_types
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import active_frame, as_array, top_frame
from tinyjax.tracing.core import activate
from tinyjax.tracing.frames import OpenFrame, V
from tinyjax.tracing.functions import FlatFunction, argument_path, as_arrays, check_callable, function_name
from tinyjax.transforms.kept import needed

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef


@final
@frozen(eq=False, repr=False)
class PartlyEvaluated(Record):
    """What became of a function when only some of its arguments were known.

    `jaxpr` is what is left to be done: it takes the residuals, which are computed already, then the unknown arguments,
    and returns the unknown results. `results` is the tree of the results, in which those that aren't known are types.
    Called with the unknown arguments (their leaves, in order), it gives the results of the function.
    """

    jaxpr: Jaxpr
    residuals: tuple[Array, ...]
    results: Any  # the user's own tree
    _unknown: tuple[ShapedArray, ...]
    _name: str

    def __call__(self, *unknown: object) -> Any:  # the user's own tree
        """The results, for values of the unknown arguments."""
        given = as_arrays(unknown, lambda i: f"unknown argument {i} of {self._name}")
        what = f"the unknown arguments of {self._name} are"
        expect_types(what, self._unknown, [x.aval for x in given], InputError)
        arrays = [*self.residuals, *given]

        def run(frame: OpenFrame[V]) -> list[Array]:
            outs = interpret(frame.context, self.jaxpr, [frame.read(array) for array in arrays])
            return [frame.wrap(out) for out in outs]

        outs = iter(top_frame(arrays, self.jaxpr.effects).open(run))
        return tree.map_leaves(lambda x: next(outs) if isinstance(x, ShapedArray) else x, self.results)


def partial_eval(fun: Callable[..., object], /, *args: Any, **kwargs: Any) -> PartlyEvaluated:
    """Runs a function on arguments some of which aren't known yet: those, or leaves of them, that are types
    (ShapedArray) instead of arrays.

    What depends on known values alone is computed now, and Python's control flow may depend on it; the rest is staged.
    It works within other transformations, and they work within `fun`. A function that needs the elements of what
    isn't known gets a ConcretizationError. For programs there is `transforms.partial_eval`. Source: Autodidax, part 4.

    >>> import numpy as np
    >>> import tinyjax.numpy as tnp
    >>> from tinyjax import ShapedArray
    >>> half = partial_eval(lambda x, y: (tnp.sin(x), tnp.exp(x) * y), 0.0, ShapedArray((), "float64"))
    >>> half.results
    (Array(0., dtype=float64, weak_type=True), ShapedArray(f64[]))
    >>> half.jaxpr
    { lambda ; a:~f64[] b:f64[]. let c:f64[] = mul a b in (c,) }
    >>> half.residuals, half(np.float64(3.0))
    ((Array(1., dtype=float64, weak_type=True),), (Array(0., dtype=float64, weak_type=True), Array(3., dtype=float64)))
    """
    check_callable("partial_eval", fun)
    leaves, treedef = tree.flatten((args, kwargs))
    known = _known_leaves(fun, treedef, leaves)
    unknown = tuple(leaf for leaf in leaves if isinstance(leaf, ShapedArray))

    def run(frame: OpenFrame[V]) -> PartlyEvaluated:
        context = PartialEvalContext(frame.context)
        fixed: dict[int, object] = {**known}
        flat = FlatFunction(fun, "partial_eval", treedef, fixed=fixed)
        inputs = list(map(context.unknown, unknown))
        with activate(context, flat) as inner, inner:
            fixed.update(
                {i: inner.wrap(Known(frame.read(x))) for i, x in known.items()}
            )  # so that residuals are shared
            results = flat(list(map(inner.wrap, inputs)))
            outs = [inner.read(x) for x in results.arrays]
        found = [frame.wrap(out.value) if isinstance(out, Known) else out.atom.aval for out in outs]
        staged = needed(context.finish([out.atom for out in outs if not isinstance(out, Known)]), context.parent)
        residuals = tuple(map(frame.wrap, staged.residuals))
        return PartlyEvaluated(
            staged.jaxpr, residuals, tree.unflatten(results.treedef, found), unknown, function_name(fun)
        )

    return active_frame().open(run)


def _known_leaves(fun: Callable[..., object], treedef: PyTreeDef, leaves: list[object]) -> dict[int, Array]:
    """The arrays among the arguments, by their positions."""
    known: dict[int, Array] = {}
    for i, leaf in enumerate(leaves):
        if not isinstance(leaf, ShapedArray):
            try:
                known[i] = as_array(leaf)
            except InputError as error:
                raise type(error)(
                    f"argument {argument_path(fun, treedef, i)} of {function_name(fun)}: {error}"
                ) from None
    return known
