"""Functions that are staged, and their programs rewritten, before they are differentiated: where a block says so."""

from __future__ import annotations

from collections.abc import Callable
from itertools import compress
from typing import TYPE_CHECKING, Any, final

from typing_extensions import override

from tinyjax.api.make_jaxpr import eval_jaxpr
from tinyjax.ir.dtypes import FLOAT0
from tinyjax.ir.merging import completed
from tinyjax.lax.bodies import stage
from tinyjax.lax.mesh_in_force import mesh_in_force
from tinyjax.lax.within import Rewrite, rewriting_in_force
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import ConcreteArray
from tinyjax.tracing.functions import Filled, flatten_arguments, function_name
from tinyjax.wrapping import wraps

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef


def staged_first(f: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which is staged each time, and computes what its program has been rewritten to; or itself, where
    nothing is rewritten."""
    rewrite = rewriting_in_force()
    return f if rewrite is None or mesh_in_force() is not None else _StagedFirst(f, rewrite)


@final
class _StagedFirst(Filled):
    """A function, by way of a program."""

    def __init__(self, f: Callable[..., Any], rewrite: Rewrite) -> None:
        self.__wrapped__ = f
        self.__name__: str = function_name(f)
        self._rewrite = rewrite

    @property
    @override
    def filled_in(self) -> tuple[object, ...]:
        return ()

    @override
    def position(self, index: int) -> int:
        return index

    @override
    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # the user's arguments
        function = self.__wrapped__
        arrays, treedef = flatten_arguments(function, args, kwargs)
        known: dict[int, object] = {}  # what is returned as it is: numbers, constants, auxiliary data

        @wraps(function)
        def traced_results(*args: Any, **kwargs: Any) -> Any:
            leaves, treedef = tree.flatten(function(*args, **kwargs))
            mine = [isinstance(leaf, Array) and not isinstance(leaf, ConcreteArray) for leaf in leaves]
            known.update((i, leaf) for i, leaf in enumerate(leaves) if not mine[i])
            returned.append(treedef)
            return list(compress(leaves, mine))

        returned: list[PyTreeDef] = []
        staged = stage("grad", traced_results, treedef, [array.aval for array in arrays], writes=True)
        traced = self._rewrite(staged)
        inputs = [*traced.captured, *arrays, *(cell.current() for cell in traced.cells)]
        inputs = [array for array in inputs if array.aval.dtype != FLOAT0]
        outs = traced.results(eval_jaxpr(traced.jaxpr, (), *inputs))
        return tree.unflatten(returned[-1], completed(known, outs, returned[-1].num_leaves))
