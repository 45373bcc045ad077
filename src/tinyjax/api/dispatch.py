"""Calls of compiled functions whose signature has been met before: from the arguments straight to the executable.

No context takes part, so this is for calls outside all transformations only. Everything else, and every error but those
of the run itself, belongs to the long way in `api.jit`.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

import numpy as np
from attrs import frozen

from tinyjax import backend
from tinyjax.errors import InputError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import HostArray
from tinyjax.prepared.runners import Launch
from tinyjax.tracing import tree
from tinyjax.tracing.concrete import ConcreteArray, as_array
from tinyjax.tracing.functions import only_positional
from tinyjax.tracing.intake import host_type
from tinyjax.tracing.programs import Traced

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef

#: An argument: an array of ours, or one of NumPy's, which is used as it is.
Leaf: TypeAlias = ConcreteArray | HostArray
#: What a call returns that isn't ready.
MISS: Final = object()


@final
@frozen(eq=False)
class ReadyCall:
    """A compiled function for one signature: what it takes, and how its results are put together.

    `flat` is the same as `avals` if the arguments are arrays, none of them by name, and nothing is static; otherwise
    None. `single`: the result is an array.
    """

    treedef: PyTreeDef
    avals: list[ShapedArray]
    static: tuple[Hashable, ...]
    flat: list[ShapedArray] | None
    single: bool
    program: Launch
    traced: Traced

    def launch(self, buffers: list[backend.Argument]) -> Any:  # the user's own tree of results
        """The results for arrays on a device; MISS if they are not all where the executable is."""
        outs = self.program.launch(buffers, False, ConcreteArray)
        if outs is None:
            return MISS
        return outs[0] if self.single else self.traced.results(outs)

    def run(self, leaves: Sequence[Leaf]) -> Any:  # the user's own tree of results
        """The results for any arguments of this signature; MISS if they can't all be where the executable is."""
        outs = self.program.run(leaves, ConcreteArray)
        if outs is None:
            return MISS
        return outs[0] if self.single else self.traced.results(outs)


def ready_call(
    traced: Traced,
    executable: backend.Executable,
    treedef: PyTreeDef,
    avals: Sequence[ShapedArray],
    static: tuple[Hashable, ...],
    name: str,
) -> ReadyCall | None:
    """The call of a traced and compiled function; None if it closes over arrays of another device, or traced ones."""
    captured = [array.value for array in traced.captured if isinstance(array, ConcreteArray)]
    program = Launch.of(executable, captured, traced.jaxpr.out_avals, name)
    if program is None or len(captured) < len(traced.captured):
        return None
    known = list(avals)
    flat = known if not static and only_positional(treedef) else None
    return ReadyCall(treedef, known, static, flat, traced.single, program, traced)


def run_flat(ready: Iterable[ReadyCall], args: Sequence[object]) -> Any:  # the user's own tree of results
    """The results of a call whose arguments are all arrays; MISS if it isn't ready."""
    found = _buffers(args)
    if found is None:
        return _run_leaves(ready, args)
    buffers, avals = found
    for call in ready:
        if call.flat == avals:
            return call.launch(buffers)
    return MISS


def _buffers(args: Iterable[object]) -> tuple[list[backend.Argument], list[ShapedArray]] | None:
    """The arguments, if they are all arrays on a device, and their types."""
    avals: list[ShapedArray] = []
    buffers: list[backend.Argument] = []
    for arg in args:
        if type(arg) is not ConcreteArray or (buffer := arg.buffer) is None:
            return None
        buffers.append(buffer)
        avals.append(arg.aval)
    return buffers, avals


def _run_leaves(ready: Iterable[ReadyCall], args: Sequence[object]) -> Any:  # the user's own tree of results
    """The same with arrays on the host and numbers among the arguments."""
    leaves, avals = _leaves(args, _FLAT)
    for call in ready:
        if call.flat == avals:
            return call.run(leaves)
    return MISS


def run_tree(
    ready: Iterable[ReadyCall], args: Sequence[object], kwargs: Mapping[str, object], static: tuple[Hashable, ...]
) -> Any:  # the user's own tree of results
    """The same for trees of anything that becomes an array; `static` identifies the arguments that are left out."""
    flat, treedef = tree.flatten((args, kwargs))
    found = _buffers(flat)
    if found is not None:
        for call in ready:
            if call.avals == found[1] and call.treedef == treedef and call.static == static:
                return call.launch(found[0])
        return MISS
    try:
        leaves, avals = _leaves(flat)
    except InputError:
        return MISS
    for call in ready:
        if call.avals == avals and call.treedef == treedef and call.static == static:
            return call.run(leaves)
    return MISS


#: What is known to be no tree, without asking, apart from arrays.
_FLAT: Final = frozenset({float, int})


def _leaves(
    args: Iterable[object], accepted: Container[type] | None = None
) -> tuple[list[Leaf], list[ShapedArray | None]]:
    """The arguments as arrays, and their types; None for what isn't accepted, or can't take the short way."""
    leaves: list[Leaf] = []
    avals: list[ShapedArray | None] = []
    for arg in args:
        if type(arg) is ConcreteArray:
            leaves.append(arg)
            avals.append(arg.aval)
        elif type(arg) is np.ndarray and (aval := host_type(arg.shape, arg.dtype)) is not None:
            leaves.append(arg)
            avals.append(aval)
        elif accepted is not None and type(arg) not in accepted:
            avals.append(None)
        elif type(array := as_array(arg)) is ConcreteArray:
            leaves.append(array)
            avals.append(array.aval)
        else:
            avals.append(None)
    return leaves, avals
