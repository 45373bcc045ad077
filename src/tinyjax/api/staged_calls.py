"""Calls of traced functions within transformations, if their signature has been met before: from the arguments straight
to one equation.

The counterpart of `api.dispatch`, which is for calls outside of all transformations. Whatever is new about a call, and
every error in its arguments, belongs to the long way in `api.jit`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, final

from attrs import frozen

from tinyjax.api.dispatch import MISS
from tinyjax.control.call import Call
from tinyjax.errors import InputError
from tinyjax.ir.aval import ShapedArray
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import ROOT, ConcreteArray, as_array, top_frame
from tinyjax.tracing.core import Tracer
from tinyjax.tracing.functions import only_positional
from tinyjax.tracing.programs import Traced

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef


@final
@frozen(eq=False)
class StagedCall:
    """A traced function for one signature: what it takes, and the equation that a call of it becomes.

    `flat` is the same as `avals` if the arguments are arrays, none of them by name, and nothing is static; otherwise
    None. The program needs no axis of a transformation in progress, and closes over no value of one.
    """

    treedef: PyTreeDef
    avals: list[ShapedArray]
    static: tuple[Hashable, ...]
    flat: list[ShapedArray] | None
    single: bool
    call: Call
    traced: Traced

    @staticmethod
    def of(
        call: Call, traced: Traced, treedef: PyTreeDef, avals: list[ShapedArray], static: tuple[Hashable, ...]
    ) -> StagedCall:
        flat = avals if not static and only_positional(treedef) else None
        return StagedCall(treedef, avals, static, flat, traced.single, call, traced)

    def bind(self, arrays: Sequence[Array]) -> Any:  # the user's own tree of results
        """The results for arguments of this signature; MISS if no transformation has to do with the call."""
        inputs = (*self.traced.captured, *arrays)
        frame = top_frame(inputs)
        if frame is ROOT:
            return MISS
        outs = frame.bind(self.call, inputs)
        return outs[0] if self.single else self.traced.results(outs)


def bind_flat(staged: Iterable[StagedCall], args: Sequence[object]) -> Any:  # the user's own tree of results
    """The results of a call whose arguments are all arrays; MISS if its signature isn't among these."""
    avals = []
    arrays = []
    for arg in args:
        if type(arg) is not Tracer and type(arg) is not ConcreteArray:
            return MISS
        arrays.append(arg)
        avals.append(arg.aval)
    for call in staged:
        if call.flat == avals:
            return call.bind(arrays)
    return MISS


def bind_tree(
    staged: Iterable[StagedCall], args: Sequence[object], kwargs: Mapping[str, object], static: tuple[Hashable, ...]
) -> Any:  # the user's own tree of results
    """The same for trees of anything that becomes an array; `static` identifies the arguments that are left out."""
    leaves, treedef = tree.flatten((args, kwargs))
    try:
        arrays = list(map(as_array, leaves))
    except InputError:
        return MISS
    avals = [array.aval for array in arrays]
    for call in staged:
        if call.avals == avals and call.treedef == treedef and call.static == static:
            return call.bind(arrays)
    return MISS
