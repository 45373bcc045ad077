"""Jitted functions as callees: functions of trees, called again with arguments for whose types they have been traced.

A call is known by the tree of its arguments, the types of the leaves, and the values of what is static. Outside of all
transformations it launches an executable; within one it becomes a single equation. The entries are the function's own,
and go with it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

import numpy as np
from attrs import evolve, frozen

from tinyjax import backend
from tinyjax.caching import PlainCache
from tinyjax.errors import InputError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import DType, HostArray
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.shapes import Shape
from tinyjax.meshes import Mesh
from tinyjax.prepared.runners import Equation, Launch
from tinyjax.prepared.stacked import StackedLaunch
from tinyjax.prepared.stored_array import StoredArray
from tinyjax.prepared.table import Assemble, Table

if TYPE_CHECKING:
    from tinyjax.tracing.array import Array

#: An argument outside of transformations: an array of ours, or one of NumPy's, which is used as it is.
Leaf: TypeAlias = StoredArray | HostArray
#: From a tree to its leaves and its structure.
Flatten: TypeAlias = Callable[[object, None], tuple[Sequence[object], Hashable]]
#: What a call returns that hasn't been prepared.
MISS: Final = object()
#: What comes of arguments that aren't all on a device.
_ELSEWHERE: Final = object()
#: How many kinds of arguments one function has entries for.
_LIMIT: Final = 256
#: Under how many meshes a function is called before the prepared calls are forgotten.
_MESHES: Final = 16
#: What is known to be a tree or not, without asking, apart from arrays of ours.
_IS_TREE: Final[Mapping[type, bool]] = {
    int: False,
    float: False,
    np.ndarray: False,
    dict: True,
    list: True,
    tuple: True,
}


@final
@frozen(eq=False)
class Intake:
    """What becomes of arguments, and of an equation: handed in by who has the classes of arrays."""

    stored: type[StoredArray]
    #: The classes of arrays: with their elements, and traced.
    arrays: tuple[type[Array], type[Array]]
    #: From trees to leaves and structures: imported at the first use.
    flatten: Callable[[], Flatten]
    #: An InputError for what can't be an array.
    as_array: Callable[[object], Array]
    #: The type of a NumPy array that can be used as it is.
    host_type: Callable[[Shape, DType], ShapedArray | None]
    #: The results of a primitive where it is being transformed; None if no transformation has to do with the operands.
    bind: Callable[[Primitive, Sequence[Array]], Sequence[Array] | None]


@final
class JittedCalls(Table):
    """What the calls of one function are prepared with."""

    __slots__ = ("_flatten", "_intake")

    _flatten: Flatten  # set when there is something to look for: until then, nobody needs what it imports

    def __init__(self, intake: Intake) -> None:
        super().__init__(_LIMIT, "calls of compiled functions")
        self._intake = intake

    def run(self, args: Sequence[object], kwargs: Mapping[str, object], static: tuple[Hashable, ...]) -> Any:
        """The results of a call outside of all transformations; MISS if it isn't prepared, or if the arrays are not all
        where the executable is. `static` identifies the arguments that are left out."""
        if not self.entries:
            return MISS
        if not kwargs and not static:
            is_tree = _IS_TREE.get(type(args[0])) if args else None
            if is_tree is None:
                result = self._launch(args, [])
                if result is not _ELSEWHERE:
                    return result
            if not is_tree:
                result = self._run(args, [], True)
                if result is not MISS:
                    return result
        leaves, treedef = self._flatten((args, kwargs), None)
        result = self._launch(leaves, [treedef, static])
        return self._run(leaves, [treedef, static], False) if result is _ELSEWHERE else result

    def _launch(self, args: Iterable[object], key: list[object]) -> Any:  # the user's own tree of results
        """The results for arrays on a device, whose types come after the rest of the key; _ELSEWHERE if one isn't."""
        stored = self._intake.stored
        buffers: list[backend.Argument] = []
        for arg in args:
            if type(arg) is not stored or (buffer := arg.buffer) is None:
                return _ELSEWHERE
            buffers.append(buffer)
            key.append(id(arg.aval))
        entry = self.entries.get(tuple(key))
        if entry is None or (launch := entry.device) is None:
            return MISS
        if entry.assemble is None:
            out = launch.launch_one(buffers, stored)
            return _ELSEWHERE if out is None else out
        outs = launch.launch(buffers, False, stored)
        return _ELSEWHERE if outs is None else entry.assemble(outs)

    def _run(self, args: Iterable[object], key: list[object], flat: bool) -> Any:  # the user's own tree of results
        """The same for any arrays, and what becomes one; if `flat`, others may be trees."""
        intake = self._intake
        stored = intake.stored
        leaves: list[Leaf] = []
        for arg in args:
            if type(arg) is stored:
                leaves.append(arg)
                key.append(id(arg.aval))
            elif type(arg) is np.ndarray and (aval := intake.host_type(arg.shape, arg.dtype)) is not None:
                leaves.append(arg)
                key.append(id(aval))
            elif flat and _IS_TREE.get(type(arg), True):
                return MISS
            else:
                try:
                    array = intake.as_array(arg)
                except InputError:
                    return MISS
                if not isinstance(array, StoredArray):
                    return MISS
                leaves.append(array)
                key.append(id(array.aval))
        entry = self.entries.get(tuple(key))
        if entry is None or (launch := entry.device) is None:
            return MISS
        outs = launch.run(leaves, stored)
        if outs is None:
            return MISS
        return outs[0] if entry.assemble is None else entry.assemble(outs)

    def bind(self, args: Sequence[object], kwargs: Mapping[str, object], static: tuple[Hashable, ...]) -> Any:
        """The same for a call while something is being transformed."""
        entries, intake = self.entries, self._intake
        if not entries:
            return MISS
        arrays: list[Array] = []
        key: list[object] = []
        flat = not kwargs and not static
        if flat:
            concrete, traced = intake.arrays
            for arg in args:
                if type(arg) is not traced and type(arg) is not concrete:
                    flat = False
                    break
                arrays.append(arg)
                key.append(id(arg.aval))
        if not flat:
            leaves, treedef = self._flatten((args, kwargs), None)
            try:
                arrays = list(map(intake.as_array, leaves))
            except InputError:
                return MISS
            key = [treedef, static, *[id(array.aval) for array in arrays]]
        entry = entries.get(tuple(key))
        if entry is None or (equation := entry.staged) is None:
            return MISS
        if equation.captured:
            arrays = [*equation.captured, *arrays]
        outs = intake.bind(equation.primitive, arrays)
        if outs is None:
            return MISS
        return outs[0] if entry.assemble is None else entry.assemble(outs)

    def keep(
        self,
        args: Sequence[object],
        kwargs: Mapping[str, object],
        static: tuple[Hashable, ...],
        treedef: Hashable,
        avals: Sequence[ShapedArray],
        assemble: Assemble | None,
        runner: Launch | StackedLaunch | Equation,
    ) -> None:
        """Prepares calls like one that was traced: its arguments, their structure and types, and how its results are
        put together."""
        self._flatten = self._intake.flatten()
        launched = not isinstance(runner, Equation)
        flat = not kwargs and not static and all(self._is_leaf(arg, launched) for arg in args)
        ids = map(id, avals)
        key = tuple(ids) if flat else (treedef, static, *ids)
        known = evolve(self.met(key, tuple(avals)), assemble=assemble)
        if isinstance(runner, Equation):
            self.put(key, evolve(known, staged=runner))
        else:
            self.put(key, evolve(known, device=runner))

    def _is_leaf(self, arg: object, launched: bool) -> bool:
        """What `run` and `bind` take for a leaf without asking."""
        if not launched:
            return type(arg) in self._intake.arrays
        if type(arg) is np.ndarray:
            return self._intake.host_type(arg.shape, arg.dtype) is not None
        return isinstance(arg, StoredArray) or not _IS_TREE.get(type(arg), True)


@final
class CallsByMesh(PlainCache[int, tuple[Mesh, JittedCalls]]):
    """What the calls of one function are prepared with under each of the meshes that are put in force around them."""

    __slots__ = ("__weakref__", "_intake")

    def __init__(self, intake: Intake) -> None:
        super().__init__(_MESHES, "meshes around calls of compiled functions")
        self._intake = intake

    def under(self, mesh: Mesh) -> JittedCalls:
        """Those under a mesh, which is told by its identity."""
        found = self.entries.get(id(mesh)) or self.put(id(mesh), (mesh, JittedCalls(self._intake)))
        return found[1]
