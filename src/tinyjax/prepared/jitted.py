"""Jitted functions as callees: functions of trees, called again with arguments for whose types they have been traced.

A call is known by the tree of its arguments, the types of the leaves, and the values of what is static. Outside of all
transformations it launches an executable; within one it becomes a single equation. The entries are the function's own,
and go with it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, final

import numpy as np
from attrs import evolve, frozen
from typing_extensions import override

from tinyjax import backend
from tinyjax.caching import PlainCache
from tinyjax.errors import InputError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import DType, HostArray, Scalar
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.shapes import Shape
from tinyjax.ir.value import ConcreteValue
from tinyjax.meshes import Mesh
from tinyjax.prepared.runners import Equation, Launch
from tinyjax.prepared.stacked import AnyLaunch
from tinyjax.prepared.stored_array import StoredArray
from tinyjax.prepared.straight import MISS, NUMBERS, Assemble, Call, OfHost, of_host, straight
from tinyjax.prepared.table import Key, Table
from tinyjax.primitives.defaults import Defaults

if TYPE_CHECKING:
    from tinyjax.tracing.array import Array

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
#: An argument outside of transformations: an array of ours, or one of NumPy's, which is used as it is.
Leaf: TypeAlias = StoredArray | HostArray
#: From a tree to its leaves and its structure.
Flatten: TypeAlias = Callable[[object, None], tuple[Sequence[object], Hashable]]
#: How many kinds of arguments one function has entries for.
_LIMIT: Final = 256
#: Under how many meshes a function is called before the prepared calls are forgotten.
_MESHES: Final = 16
#: What is known to be a tree or not, without asking, apart from arrays of ours.
_IS_TREE: Final[Mapping[type, bool]] = {
    int: False,
    float: False,
    bool: False,
    complex: False,
    np.ndarray: False,
    dict: True,
    list: True,
    tuple: True,
}
_TREES: Final = frozenset({dict, list, tuple})
_NUMBERS: Final = frozenset({float, int, bool, complex})


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

    __slots__ = ("_flatten", "_intake", "_mixed", "_placed", "_stored")

    _flatten: Flatten  # set when there is something to look for: until then, nobody needs what it imports

    def __init__(self, intake: Intake) -> None:
        super().__init__(_LIMIT, "calls of compiled functions")
        self._intake = intake
        self._stored = intake.stored
        # Calls with one array and nothing else, which are among the entries, too: on the device, by the identity of its
        # type; of NumPy's, by shape and dtype.
        self._placed: dict[int, tuple[ShapedArray, Call]] = {}
        self._mixed: dict[tuple[Shape, DType], OfHost] = {}

    @override
    def clear(self) -> None:
        super().clear()
        self._placed.clear()
        self._mixed.clear()

    def run(self, args: Sequence[object], kwargs: Mapping[str, object], static: tuple[Hashable, ...]) -> Any:
        """The results of a call outside of all transformations; MISS if it isn't prepared, or if the arrays are not all
        where the executable is. `static` identifies the arguments that are left out."""
        # What most calls do, in one piece: each function that it was cut into would cost a hundredth of a call.
        stored = self._stored
        if len(args) == 1 and not kwargs and not static:
            arg = args[0]
            if type(arg) is stored:
                if (buffer := arg.buffer) is not None and (one := self._placed.get(id(arg.aval))) is not None:
                    return one[1]([buffer])
            elif type(arg) is np.ndarray and (of_numpy := self._mixed.get((arg.shape, arg.dtype))) is not None:
                return of_numpy(arg)
        leaves: Sequence[object] = args
        key: list[object] = []
        if kwargs or static or (args and type(args[0]) in _TREES):
            if not self.entries:
                return MISS
            leaves, treedef = self._flatten((args, kwargs), None)
            key = [treedef, static]
        given: list[backend.Argument] = []
        on_host = numbers = False
        for arg in leaves:
            if type(arg) is stored:
                if (buffer := arg.buffer) is not None:
                    given.append(buffer)
                elif (elements := arg.host) is None or (arg.aval.weak_type and not arg.aval.shape):
                    return self._run(args, kwargs, static, ())
                else:
                    given.append(elements)  # nobody writes to our own
                    on_host = True
                key.append(id(arg.aval))
            elif type(arg) is np.ndarray:
                given.append(arg.copy() if arg.nbytes <= backend.SMALL else arg)
                on_host = True
                key.append(arg.shape)
                key.append(arg.dtype)
            elif type(arg) in _NUMBERS and (kept := NUMBERS.entries.get((type(arg), arg))) is not None:
                given.append(kept[0])
                numbers = True
                key.append(id(kept[1]))
            else:
                return self._run(args, kwargs, static, ())
        entry = self.entries.get(tuple(key))
        if entry is None or (launch := entry.device) is None:
            return self._run(args, kwargs, static, tuple(key)) if on_host else MISS
        known = entry.straight
        if known is not None and (call := known.mixed if on_host else known.placed) is not None:
            return call(given)
        if numbers or type(launch) is not Launch:  # which takes the arrays themselves
            return self._run(args, kwargs, static, ())
        executable = launch.executable
        if on_host and not executable.copied and not _admitted(executable, given):
            return MISS
        outs = launch.launch(given, on_host, stored)
        if outs is None:
            return MISS
        return outs[0] if entry.assemble is None else entry.assemble(outs)

    def _run(
        self, args: Sequence[object], kwargs: Mapping[str, object], static: tuple[Hashable, ...], known_by: Key
    ) -> Any:  # the user's own tree of results
        """The same for any arrays, and what becomes one. The entry is kept under the key that it is `known_by`, too, if
        that isn't empty."""
        if not self.entries:
            return MISS
        if not kwargs and not static and not (args and type(args[0]) in _TREES):
            result = self._run_leaves(args, [], True, known_by)
            if result is not MISS:
                return result
        leaves, treedef = self._flatten((args, kwargs), None)
        return self._run_leaves(leaves, [treedef, static], False, known_by)

    def _run_leaves(self, args: Iterable[object], key: list[object], flat: bool, known_by: Key) -> Any:
        """The same for leaves, whose types come after the rest of the key; if `flat`, they may be trees."""
        intake = self._intake
        stored = intake.stored
        leaves: list[Leaf] = []
        numbers: list[tuple[Scalar, ConcreteValue]] = []
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
                if type(arg) is np.ndarray:  # in another byte order: its elements aren't used as they are
                    known_by = ()
                if type(arg) is float or type(arg) is int or type(arg) is bool or type(arg) is complex:
                    numbers.append((arg, array.value))
        entry = self.entries.get(tuple(key))
        if entry is None or (launch := entry.device) is None:
            return MISS
        if known_by:
            self.put(known_by, entry)
        outs = launch.run(leaves, stored)
        if outs is None:
            return MISS
        for number, value in numbers:
            NUMBERS.meet(number, value, launch.executable)
        if known_by and flat and len(leaves) == 1 and entry.straight is not None:
            arg, call = leaves[0], of_host(entry.straight, launch, entry.assemble, stored)
            if type(arg) is np.ndarray and call is not None:
                _keep(self._mixed, (arg.shape, arg.dtype), call)
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
        runner: AnyLaunch | Equation,
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
            known = evolve(known, device=runner, straight=straight(runner, assemble, self._stored))
            self.put(key, known)
            if flat and len(avals) == 1 and known.straight is not None:
                _keep(self._placed, id(avals[0]), (avals[0], known.straight.placed))

    def _is_leaf(self, arg: object, launched: bool) -> bool:
        """What `run` and `bind` take for a leaf without asking."""
        if not launched:
            return type(arg) in self._intake.arrays
        if type(arg) is np.ndarray:
            return self._intake.host_type(arg.shape, arg.dtype) is not None
        return isinstance(arg, StoredArray) or not _IS_TREE.get(type(arg), True)


def _keep(calls: dict[K, T], key: K, call: T) -> None:
    if len(calls) >= _LIMIT:
        calls.clear()
    calls[key] = call


def _admitted(executable: backend.AnyExecutable, args: list[backend.Argument]) -> bool:
    """Puts arrays of the host where the executable takes them from; False if another device is the default."""
    for i, arg in enumerate(args):
        if isinstance(arg, np.ndarray):
            taken = executable.admit_host(arg)
            if taken is None:
                return False
            args[i] = taken
    return True


@final
class CallsByMesh(PlainCache[tuple[int, Defaults | None], tuple[Mesh | None, JittedCalls]]):
    """What the calls of one function are prepared with under each of the meshes and defaults that are put in force
    around them."""

    __slots__ = ("__weakref__", "_intake")

    def __init__(self, intake: Intake) -> None:
        super().__init__(_MESHES, "meshes around calls of compiled functions")
        self._intake = intake

    def under(self, mesh: Mesh | None, defaults: Defaults | None) -> JittedCalls:
        """Those under a mesh, which is told by its identity, and under the defaults of blocks."""
        key = id(mesh), defaults
        found = self.entries.get(key) or self.put(key, (mesh, JittedCalls(self._intake)))
        return found[1]
