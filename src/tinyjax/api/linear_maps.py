"""The linear functions that `linearize`, `vjp` and `linear_transpose` return.

They are nodes of trees, whose leaves are the arrays that they keep: a compiled function may return one, or take one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, final

from attrs import field, frozen
from typing_extensions import override

from tinyjax.api import derivatives
from tinyjax.caching import bounded
from tinyjax.errors import TangentError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.program import Jaxpr
from tinyjax.tracebacks import filter_class
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.functions import argument_path, as_arrays, flatten_arguments, function_name
from tinyjax.tree.nodes import register_pytree_node

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef


@frozen
class Form(ABC):
    """What such a function is, but for the arrays that it keeps: which transformation made it, and the program.

    `fun`, which was transformed, is for messages only.
    """

    ins: PyTreeDef
    outs: PyTreeDef
    fun: Callable[..., object] = field(eq=False)

    @abstractmethod
    def apply(self, kept: Sequence[Array], args: Sequence[object]) -> Any:  # a tree as the user's
        """The results."""

    def _only(self, what: str, args: Sequence[object]) -> object:
        if len(args) != 1:
            raise TangentError(
                f"{what} of {function_name(self.fun)}: the function takes one argument, a tree of cotangents like the "
                f"result; got {len(args)}"
            )
        return args[0]

    def _cotangents(self, what: str, avals: Sequence[ShapedArray], cotangents: object) -> list[Array]:
        """The leaves of cotangents for results of these types."""
        leaves, structure = tree.flatten(cotangents)
        name = function_name(self.fun)
        tree.check_same_structure(what, self.outs, structure, f"the result of {name}", "the cotangent")
        return derivatives.check_tangents(
            what,
            ("result", "cotangent"),
            avals,
            as_arrays(leaves, lambda i: f"{what}: the cotangent{tree.paths(self.outs)[i]}"),
            lambda i: f"result{tree.paths(self.outs)[i]} of {name}",
            any_dtype=True,
        )


@final
@frozen
class PushForward(Form):
    """From tangents of the primals to those of the results."""

    program: derivatives.LinearProgram

    @override
    def apply(self, kept: Sequence[Array], args: Sequence[object]) -> Any:
        directions, structure = flatten_arguments(self.fun, args, {})
        given = structure.children()[0]
        tree.check_same_structure("linearize", self.ins.children()[0], given, "the primals", "the tangents")
        checked = derivatives.check_tangents(
            "linearize",
            ("primal", "tangent"),
            self.program.in_avals,
            directions,
            lambda i: argument_path(self.fun, self.ins, i),
        )
        return tree.unflatten(self.outs, derivatives.push_forward(self.program, kept, checked))


@final
@frozen
class PullBack(Form):
    """From cotangents of the results to those of the primals."""

    program: derivatives.LinearProgram

    @override
    def apply(self, kept: Sequence[Array], args: Sequence[object]) -> Any:
        cotangents = self._cotangents("vjp", self.program.out_avals, self._only("vjp", args))
        found, _ = tree.unflatten(self.ins, derivatives.pull_back(self.program, kept, cotangents))
        return tuple(found)


@final
@frozen
class Transposed(Form):
    """A linear function, backwards."""

    jaxpr: Jaxpr

    @override
    def apply(self, kept: Sequence[Array], args: Sequence[object]) -> Any:
        cotangents = self._cotangents("linear_transpose", self.jaxpr.out_avals, self._only("linear_transpose", args))
        found, _ = tree.unflatten(self.ins, derivatives.transpose_at(self.jaxpr, kept, cotangents))
        return tuple(found)


@final
@filter_class
@frozen(eq=False)
class LinearMap:
    """A linear function: its form, and the arrays that it keeps."""

    form: Form
    kept: tuple[object, ...]

    def __call__(self, *args: object) -> Any:  # a tree as the user's
        return self.form.apply(as_arrays(self.kept, lambda i: f"what the function keeps, array {i}"), args)


def linear_map(form: Form, kept: Iterable[Array]) -> LinearMap:
    """The function that applies a form to what it keeps."""
    _register()
    return LinearMap(form, tuple(kept))


@bounded(1)
def _register() -> None:
    """At first need, as trees are jax's. Caches may be cleared, and threads may come here at once."""
    with suppress(ValueError):  # it is registered already
        register_pytree_node(
            LinearMap, lambda found: (found.kept, found.form), lambda form, kept: LinearMap(form, tuple(kept))
        )
