"""Calls of compiled functions whose signature has been met before: from the arguments straight to the executable.

No context takes part, so this is for calls outside all transformations only. Everything else, and every error but those
of the run itself, belongs to the long way in `api.jit`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, final

from attrs import frozen

from tinyjax import backend
from tinyjax.caching import CacheInfo
from tinyjax.errors import InputError
from tinyjax.ir.aval import ShapedArray
from tinyjax.tracing import tree
from tinyjax.tracing.core import ConcreteArray, as_array
from tinyjax.tracing.staging import Traced

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef

#: Signatures of one function that are found without hashing; the others take the long way.
_RECENT: Final = 8
#: What a call returns that isn't ready.
MISS: Final = object()


@final
@frozen(eq=False)
class ReadyCall:
    """A compiled function for one signature: what it takes, and how its results are put together.

    `flat` is the same as `avals` if the arguments are arrays, none of them by name, and nothing is static; otherwise
    None. `single`: the result is an array. `captured` are the arrays that the function closes over, on the executable's
    device.
    """

    treedef: PyTreeDef
    avals: list[ShapedArray]
    static: tuple[Hashable, ...]
    flat: list[ShapedArray] | None
    single: bool
    captured: list[backend.RawBuffer]
    executable: backend.Executable
    traced: Traced
    out_avals: tuple[ShapedArray, ...]
    name: str

    def run(self, arrays: Sequence[ConcreteArray]) -> Any:  # the user's own tree of results
        """The results for arguments of this signature; MISS if they are not all where the executable is."""
        executable = self.executable
        buffers = self.captured.copy()
        for array in arrays:
            buffer = array.buffer
            if buffer is None:
                buffer = executable.place(array.value)
                if buffer is None:
                    return MISS
                if not array.value.on_host:
                    array.buffer = buffer
            buffers.append(buffer)
        if not executable.alone and not executable.holds(buffers):
            return MISS
        outs = []
        for result, aval in zip(executable.launch(buffers, self.name), self.out_avals, strict=True):
            out = _new(ConcreteArray)
            out.buffer = result
            out.aval = aval
            outs.append(out)
        return outs[0] if self.single else self.traced.results(outs)


# Without `__init__`, which wants a value.
_new: Final = object.__new__


def ready_call(
    traced: Traced,
    executable: backend.Executable,
    treedef: PyTreeDef,
    avals: Sequence[ShapedArray],
    static: tuple[Hashable, ...],
    name: str,
) -> ReadyCall | None:
    """The call of a traced and compiled function; None if it closes over arrays of another device."""
    captured: list[backend.RawBuffer] = []
    for array in traced.captured:
        buffer = executable.place(array.value) if isinstance(array, ConcreteArray) else None
        if buffer is None:
            return None
        captured.append(buffer)
    known = list(avals)
    flat = not static and treedef == tree.flatten(((0,) * len(known), {}))[1]
    return ReadyCall(
        treedef=treedef,
        avals=known,
        static=static,
        flat=known if flat else None,
        single=not traced.erased and traced.treedef == tree.flatten(0)[1],
        captured=captured,
        executable=executable,
        traced=traced,
        out_avals=traced.jaxpr.out_avals,
        name=name,
    )


def run_flat(ready: Iterable[ReadyCall], args: Sequence[object]) -> Any:  # the user's own tree of results
    """The results of a call whose arguments are all arrays; MISS if it isn't ready."""
    avals = []
    arrays = []
    for arg in args:
        if type(arg) is not ConcreteArray:
            return MISS
        arrays.append(arg)
        avals.append(arg.aval)
    for call in ready:
        if call.flat == avals:
            return call.run(arrays)
    return MISS


def run_tree(
    ready: Iterable[ReadyCall], args: Sequence[object], kwargs: Mapping[str, object], static: tuple[Hashable, ...]
) -> Any:  # the user's own tree of results
    """The same for trees of anything that becomes an array; `static` identifies the arguments that are left out."""
    leaves, treedef = tree.flatten((args, kwargs))
    arrays: list[ConcreteArray] = []
    avals: list[ShapedArray] = []
    try:
        for leaf in leaves:
            array = leaf if type(leaf) is ConcreteArray else as_array(leaf)
            if type(array) is not ConcreteArray:
                return MISS
            arrays.append(array)
            avals.append(array.aval)
    except InputError:
        return MISS
    for call in ready:
        if call.avals == avals and call.treedef == treedef and call.static == static:
            return call.run(arrays)
    return MISS


@final
class RecentCalls:
    """The signatures that one function was called with lately, each ready to run. Bounded."""

    __slots__ = ("__weakref__", "_made", "name", "ready")

    def __init__(self) -> None:
        self.name = "calls of compiled functions"
        self.ready: tuple[ReadyCall, ...] = ()
        self._made = 0

    def add(self, call: ReadyCall) -> None:
        self.ready = (call, *self.ready[: _RECENT - 1])
        self._made += 1

    def info(self) -> CacheInfo:
        return CacheInfo(self._made, len(self.ready), _RECENT)

    def clear(self) -> None:
        self.ready = ()
