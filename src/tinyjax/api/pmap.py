"""`pmap`: functions of one element that as many devices run, each on an element of its own."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, final

from attrs import frozen
from typing_extensions import override

from tinyjax.api.arguments import StaticCall, as_tuple, resolve_position, resolve_static, split_resolved
from tinyjax.api.bound import Bound
from tinyjax.api.devices import local_devices, process_count
from tinyjax.api.jit import jit
from tinyjax.api.local_arrays import global_array_to_host_local_array, host_local_array_to_global_array
from tinyjax.api.lowered import Lowered
from tinyjax.api.make_jaxpr import abstractify
from tinyjax.api.mapped_axes import input_axes, mapped_size, resolve_axis, spread_axes
from tinyjax.api.meshes import make_mesh
from tinyjax.api.shard_map import shard_map
from tinyjax.api.transfer import device_put
from tinyjax.arrays.shaping import integer
from tinyjax.caching import BoundedCache, register
from tinyjax.errors import ChoiceError, InputError, ShardingError, StaticArgumentError
from tinyjax.ir.dtypes import FLOAT0
from tinyjax.lax.mesh_in_force import mesh_in_force
from tinyjax.lax.shaping import expand_dims, squeeze
from tinyjax.meshes import AxisType, Device, Mesh, NamedSharding, PartitionSpec
from tinyjax.meshes.device import HOST, OneDevice, plain_device
from tinyjax.primitives.elementwise import unmapped
from tinyjax.tracebacks import filtered
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import ROOT, active_frame, as_array
from tinyjax.tracing.functions import argument_path, check_callable, describe, float0_zeros, function_name
from tinyjax.wrapping import update_wrapper, wraps

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef

P = ParamSpec("P")
R = TypeVar("R")

#: The axis of those that weren't given a name.
_UNNAMED: Final = "_pmap"
#: How many compiled forms each function keeps.
_FORMS: Final = 64


@filtered
def pmap(
    fun: Callable[P, R],
    axis_name: str | None = None,
    *,
    in_axes: Any = 0,  # a tree of axes, as the next one
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Sequence[int] = (),
    devices: Sequence[OneDevice] | None = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Sequence[int] = (),
) -> Pmapped[P, R]:
    """`fun` mapped over an axis of its arguments, as `vmap` does, but each element on a device of its own.

    It is `jit` of a `shard_map` over a mesh of one axis, and made for programs that have it already: `shard_map` also
    divides in blocks, along several axes, and its types say what is the same on all devices. Nothing is checked here,
    and sums over the axis are their own transposes.

    Args:
      fun: a function of trees of arrays. What it does with `lax.psum(x, axis_name)` and its relatives, it does over all
        devices, those of other processes included.
      axis_name: what it calls the axis.
      in_axes: an axis for all arguments, or a tree of axes that is a prefix of the tuple of arguments; None: each
        device gets the whole. Arguments given by keyword are mapped over axis 0.
      out_axes: likewise for results, from 0 on; None: it is the same on all devices.
      static_broadcasted_argnums: the positions of arguments that aren't traced. They must be hashable.
      devices: which ones, one for each element; None: the first ones of `backend`, or else of the default platform.
      backend: a platform such as "cpu".
      axis_size: how many elements there are on all processes together. It need not be given.
      donate_argnums: the positions of arguments whose memory may be used for results.

    Several processes each give and get the elements of their own devices.

    Raises:
      ShardingError: a ValueError, if there are fewer devices than elements.
      BatchSizeError: the mapped axes are of several sizes, or no argument is mapped.
      ChoiceError, TreeError, StaticArgumentError: axes or positions that don't fit the arguments.

    Source: JAX's `pmap`.

    >>> import numpy as np
    >>> pmap(lambda x, y: x * y, in_axes=(0, None))(np.array([[1.0, 2.0]]), 3.0)
    Array([[3., 6.]], dtype=float64)
    """
    check_callable("pmap", fun)
    if axis_name is not None and not isinstance(axis_name, str):
        raise InputError(f"pmap: axis_name is a string, not {axis_name!r}")
    for axis in tree.flatten(out_axes, _is_none)[0]:
        if axis is not None and (isinstance(axis, bool) or not isinstance(axis, int) or axis < 0):
            raise ChoiceError(f"pmap: out_axes has the number of an axis, counted from 0, or None, not {axis!r}")
    if devices is not None and not devices:
        raise ChoiceError("pmap: devices are one or more, or None for the first ones")
    return Pmapped(
        fun,
        axis_name or _UNNAMED,
        (tuple(in_axes) if isinstance(in_axes, list) else in_axes, out_axes),
        resolve_static(fun, static_broadcasted_argnums, None)[0],
        as_tuple(donate_argnums),
        _Places(
            None if devices is None else tuple(map(plain_device, devices)),
            backend,
            None if axis_size is None else integer(axis_size, "pmap: axis_size"),
        ),
    )


@final
@frozen
class _Places:
    """Where elements go: what `pmap` was told of it."""

    devices: tuple[Device, ...] | None
    backend: str | None
    axis_size: int | None

    def mesh(self, what: str, name: str, here: int) -> Mesh:
        """The mesh of a device for each element, of which this process has so many."""
        around = mesh_in_force()
        if around is not None and around.manual_axes:
            raise ShardingError(
                f"{what} can't be called where a function is mapped over devices already, along "
                f"{', '.join(around.manual_axes)}: for several axes, use shard_map and a mesh that has them all, "
                "and for elements on one device vmap."
            )
        processes = process_count()
        if self.devices is not None:
            found, size = self.devices, len(self.devices)
        else:
            everywhere = [local_devices(index, self.backend) for index in range(processes)]
            found = tuple(device for devices in everywhere for device in (devices[:here] if processes > 1 else devices))
            size = here * processes if self.axis_size is None else self.axis_size
        if size > len(found) or (processes == 1 and size != here):
            raise ShardingError(
                f"{what}: each of the {here} elements takes a device of its own, and there are {len(found)}"
                + (", of which all are used" if self.devices is not None else "")
                + ". vmap(f, axis_name=...) takes any number on one device; a computer has as many CPU devices as "
                f"XLA_FLAGS=--xla_force_host_platform_device_count={here} says when it starts."
            )
        return make_mesh((size,), (name,), (AxisType.Auto,), devices=found)


@final
@frozen(eq=False)
class _Form:
    """The function for one tree of arguments: a program for a mesh."""

    program: Callable[..., Any]
    lower: Callable[..., Lowered]
    mesh: Mesh
    specs: tuple[Any, ...]  # of each argument, a tree
    out_specs: Any  # a prefix of the tree of results
    shardings: Any  # of the arguments; None within another transformation

    def run(self, given: tuple[Any, ...]) -> Any:  # the user's trees
        """The results."""
        if self.shardings is not None:
            given = tree.map_leaves(_moved, given, self.shardings)
        if not self.mesh.is_multi_process:
            return self.program(*given)
        whole = host_local_array_to_global_array(given, self.mesh, self.specs)
        return global_array_to_host_local_array(self.program(*whole), self.mesh, self.out_specs)


@final
class Pmapped(Bound[P, R]):
    """What `pmap` returns: the function, compiled for as many devices as there are elements."""

    __name__: str
    __qualname__: str
    __wrapped__: Callable[P, R]

    def __init__(
        self,
        fun: Callable[P, R],
        name: str,
        axes: tuple[Any, Any],
        static: tuple[int, ...],
        donated: tuple[int, ...],
        places: _Places,
    ) -> None:
        update_wrapper(self, fun)
        self._fun = fun
        self._name = name
        self._in_axes, self._out_axes = axes
        self._static = static
        self._donated = donated
        self._places = places
        self._forms: BoundedCache[Hashable, _Form] = BoundedCache(_FORMS, "mapped functions")
        register(self._forms, temporary=True)

    @override
    @filtered
    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        form, given = self._form(args, kwargs)
        result: R = form.run(given)
        return result

    @filtered
    def lower(self, /, *args: P.args, **kwargs: P.kwargs) -> Lowered:
        """The StableHLO of the function for these arguments, which may be types (ShapedArray)."""
        form, given = self._form(args, kwargs)
        return form.lower(*given)

    @override
    def __repr__(self) -> str:
        return f"<pmap of {self._fun!r}>"

    def _form(self, args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[_Form, tuple[Any, ...]]:
        """The function for such arguments, and what it takes: those that aren't static, and then those with names."""
        what = describe("pmap", self._fun)
        if self._static and max(self._static) >= len(args):
            raise StaticArgumentError(
                f"{what}: argument {max(self._static)} is static, but only {len(args)} are given by position. Static "
                "arguments of pmap are given so."
            )
        call = split_resolved(self._fun, args, kwargs, self._static, ())
        leaves, treedef = tree.flatten((call.args, call.kwargs))
        chosen = self._in_axes
        if isinstance(chosen, tuple) and self._static and len(chosen) == len(args):
            chosen = tuple(axis for i, axis in enumerate(chosen) if i not in self._static)
        asked = input_axes("pmap", self._fun, chosen, call.args, len(leaves))

        def where(i: int) -> str:
            return f"argument {argument_path(self._fun, treedef, i)} of {function_name(self._fun)}"

        avals = list(map(abstractify, leaves))
        at = [
            None if axis is None else resolve_axis("pmap", axis, aval.ndim, where, i)
            for i, (axis, aval) in enumerate(zip(asked, avals, strict=True))
        ]
        mapped = [i for i, axis in enumerate(at) if axis is not None]
        expected = self._places.axis_size if process_count() == 1 else None
        here = mapped_size(
            what,
            [avals[i] for i in mapped],
            [axis for axis in at if axis is not None],
            expected,
            lambda position: where(mapped[position]),
        )
        given = (*call.args, call.kwargs) if call.kwargs else call.args
        outside = active_frame() is ROOT
        key = call.key, treedef, tuple(at), here, outside
        found = self._forms.get(key)
        if found is None:
            mesh = self._places.mesh(what, self._name, here)
            found = self._made(call, treedef, at, mesh, outside)
            self._forms.put(key, found)
        return found, given

    def _made(self, call: StaticCall, treedef: PyTreeDef, at: Sequence[int | None], mesh: Mesh, outside: bool) -> _Form:
        name, out_axes = self._name, self._out_axes

        def body(*given: Any) -> Any:  # the user's trees
            parts = list(map(_without, tree.flatten(given)[0], at))
            args, kwargs = tree.unflatten(treedef, parts)
            leaves, results = tree.flatten(out := call.function(*args, **kwargs))
            return tree.unflatten(
                results, list(map(_with, leaves, spread_axes("pmap", out_axes, out, "out_axes", "result")))
            )

        named = wraps(self._fun)(body) if not self._static and not call.kwargs else body
        named.__name__ = function_name(self._fun)
        args, kwargs = tree.unflatten(treedef, [_spec(axis, name) for axis in at])
        specs = (*args, kwargs) if kwargs else args
        found, structure = tree.flatten(out_axes, _is_none)
        out_specs = tree.unflatten(structure, [_spec(axis, name) for axis in found])
        program = shard_map(named, mesh=mesh, in_specs=specs, out_specs=out_specs, check_vma=False)
        count = len(args) + len(self._static)
        positions = [i for i in range(count) if i not in self._static]
        donated = {resolve_position(i, count, "pmap: donate_argnums") for i in self._donated if i < count}
        shardings = tree.map_leaves(lambda spec: NamedSharding(mesh, spec), specs) if outside else None
        shardings = None if mesh.is_multi_process else shardings
        compiled = jit(
            program, in_shardings=shardings, donate_argnums=[j for j, i in enumerate(positions) if i in donated]
        )
        return _Form(compiled, compiled.lower, mesh, specs, out_specs, shardings)


def _moved(leaf: Any, sharding: NamedSharding) -> Any:
    """An array that lies otherwise on devices, as it is to lie; anything else as it is."""
    if not isinstance(leaf, Array) or leaf.device == HOST or leaf.sharding.is_equivalent_to(sharding, leaf.ndim):
        return leaf
    return device_put(leaf, sharding)


def _without(leaf: object, axis: int | None) -> Array:
    """The one element along an axis."""
    x = as_array(leaf)
    if axis is None or x.aval.dtype != FLOAT0:
        return x if axis is None else squeeze(x, (axis,))
    return float0_zeros(unmapped(x.aval.shape, axis))


def _with(leaf: object, axis: int | None) -> Array:
    """An array as the one element along an axis."""
    x = as_array(leaf)
    if axis is None or x.aval.dtype != FLOAT0:
        return x if axis is None else expand_dims(x, (axis,))
    return float0_zeros((*x.aval.shape[:axis], 1, *x.aval.shape[axis:]))


def _is_none(x: object) -> bool:
    return x is None


def _spec(axis: Any, name: str) -> PartitionSpec:
    """How an array lies that is divided along this axis, or along none."""
    return PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, name)
