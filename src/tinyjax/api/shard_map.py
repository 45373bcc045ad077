"""`shard_map`: functions that each device of a mesh runs on its part of the arguments."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from enum import Enum, auto
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar, final, overload

from attrs import evolve

from tinyjax.api.local_values import LocalValues
from tinyjax.control.branches import with_types
from tinyjax.control.divergence import check_all_come
from tinyjax.control.manual import Manual, MeshAxis, Scope
from tinyjax.control.shard_map import ShardMap
from tinyjax.errors import InputError, ShapeError, ShardingError, TreeError, TypingError, UnsupportedShardingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import FLOAT0
from tinyjax.ir.shapes import as_axes
from tinyjax.lax.bodies import stage
from tinyjax.lax.explicit import explicit_mesh, explicit_sharding, lies_on
from tinyjax.lax.mesh_in_force import enter_mesh, mesh_in_force
from tinyjax.lax.placing import is_evaluated, mesh_of, placed
from tinyjax.meshes import AxisType, Mesh, NamedSharding, PartitionSpec, Sharding
from tinyjax.propagation.specs import Lies, divided_by, only
from tinyjax.refs.lending import Lent, lend, lending
from tinyjax.tracebacks import filtered
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import ConcreteArray, active_frame, as_array
from tinyjax.tracing.core import bind
from tinyjax.tracing.functions import argument_paths, as_arrays, check_callable, float0_zeros, function_name, located
from tinyjax.tracing.programs import Traced
from tinyjax.transforms.arguments import flag
from tinyjax.wrapping import wraps

P = ParamSpec("P")
R = TypeVar("R")


@final
class Infer(Enum):
    """In the place of `in_specs`: arguments are divided as they lie already."""

    INFER = auto()


INFER: Final = Infer.INFER


@overload
def shard_map(
    f: Callable[P, R],
    /,
    *,
    out_specs: Any,  # a tree of PartitionSpecs, as the next one
    in_specs: Any = ...,
    mesh: Mesh | None = None,
    axis_names: Collection[str] = frozenset(),
    check_vma: bool = True,
) -> Callable[P, R]: ...
@overload
def shard_map(
    *,
    out_specs: Any,
    in_specs: Any = ...,
    mesh: Mesh | None = None,
    axis_names: Collection[str] = frozenset(),
    check_vma: bool = True,
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
@filtered
def shard_map(
    f: Callable[..., Any] | None = None,
    /,
    *,
    out_specs: Any,
    in_specs: Any = INFER,
    mesh: Mesh | None = None,
    axis_names: Collection[str] = frozenset(),
    check_vma: bool = True,
) -> Any:
    """`f`, which every device of a mesh runs on its part of the arguments, all at the same time.

    Scope `f`, devices give each other values by `lax.psum`, `all_gather`, `ppermute` and their relatives over axes of
    the mesh. Types there say along which axes a value varies; derivatives follow from that. Arrays of the host are
    divided and computed there, without devices, whatever the mesh: so a program for many devices can be tried on one.

    Args:
      f: a function of positional arguments, trees of arrays. Without it, the result is a decorator.
      in_specs: how the arguments are divided: a tree of PartitionSpecs that is a prefix of the tuple of arguments; None
        for what `f` gets as it is, which may be anything. Left out, arrays are divided as they lie on the mesh already.
        What a Ref holds is divided so before and after.
      out_specs: how the results are put together: a prefix of their tree. An axis that a specification doesn't name is
        one along which the result is the same.
      mesh: the mesh; None: the one of `set_mesh`, or of the `shard_map` around this one.
      axis_names: the axes of the mesh that `f` is about; none: all. XLA may divide along the others as it likes.
      check_vma: check by types that results are the same along the axes that `out_specs` don't name. Without, nothing
        is checked, and sums are their own transposes.

    Raises:
      ShardingError: specifications that don't fit the mesh or the arguments, an axis that is in use already.
      VaryingError: a result differs along an axis that its specification doesn't name.
      TreeError: the tree of specifications is no prefix.

    Source: JAX's `shard_map`.

    >>> import numpy as np
    >>> from tinyjax.lax import psum
    >>> from tinyjax.sharding import AbstractMesh, PartitionSpec
    >>> mesh = AbstractMesh((4,), ("x",))
    >>> total = shard_map(
    ...     lambda a: psum(a.sum(), "x"), mesh=mesh, in_specs=PartitionSpec("x"), out_specs=PartitionSpec()
    ... )
    >>> total(np.arange(8.0))
    Array(28., dtype=float64)
    """
    if f is None:
        return partial(
            shard_map,
            out_specs=out_specs,
            in_specs=in_specs,
            mesh=mesh,
            axis_names=axis_names,
            check_vma=check_vma,
        )
    check_callable("shard_map", f)
    if mesh is not None and not isinstance(mesh, Mesh):
        raise InputError(f"shard_map: mesh is a Mesh, not {mesh!r}")
    return _shard_map(f, mesh, in_specs, out_specs, axis_names, flag("shard_map: check_vma", check_vma))


def _shard_map(
    f: Callable[P, R], mesh: Mesh | None, in_specs: Any, out_specs: Any, axis_names: Collection[str], tracked: bool
) -> Callable[P, R]:
    @filtered
    @wraps(f)
    def mapped(*args: P.args, **kwargs: P.kwargs) -> R:
        if kwargs:
            raise InputError(
                f"shard_map of {function_name(f)} takes positional arguments only, which in_specs are for; got "
                f"{', '.join(kwargs)}"
            )
        found = _mesh(mesh, mesh_in_force())
        manual = _manual(found, axis_names, tracked)
        leaves, treedef = tree.flatten((args, {}))
        said = [INFER] * len(leaves) if in_specs is INFER else _spread(in_specs, args, "in_specs", "arguments", manual)
        if (lent := lend(f, args, kwargs, lambda i: said[i] is not None)) is not None:
            held = tuple([_held(lent, i, said[i], manual) for i in lent.positions])
            whole = _shard_map(lending(f, lent.places), mesh, in_specs, (out_specs, held), axis_names, tracked)
            found_of_refs: R = lent.run(lambda: whole(*lent.args))
            return found_of_refs
        static = {i: kept_as_it_is(leaves[i]) for i, spec in enumerate(said) if spec is None}
        positions = [i for i in range(len(leaves)) if i not in static]
        names = argument_paths(f, treedef)
        what = [f"argument {names[i]} of {function_name(f)}" for i in positions]
        arrays = as_arrays([leaves[i] for i in positions], what.__getitem__)
        specs = [
            spec if isinstance(spec, PartitionSpec) else _inferred(array, manual, label)
            for spec, array, label in zip([said[i] for i in positions], arrays, what, strict=True)
        ]
        avals = [_part(label, manual, array.aval, spec) for label, array, spec in zip(what, arrays, specs, strict=True)]
        moved = found.placed is not None and is_evaluated()
        if moved:
            arrays = [_placed(array, found, spec, manual) for array, spec in zip(arrays, specs, strict=True)]
        axes = tuple([MeshAxis(name, size, tracked) for name, size in manual.sizes])
        with enter_mesh(*_within(manual, arrays)):
            traced = stage(
                "shard_map", f, treedef, avals, Scope(axes, values=LocalValues.of(manual, specs, arrays)), static
            )
        kept = [i for i, array in enumerate(arrays) if array.aval.dtype != FLOAT0]
        if not tracked:
            parts = [as_axes([name for name in specs[i].names if name in manual.axes]) for i in kept]
            check_all_come(traced.jaxpr, [*[()] * len(traced.captured), *parts])
        traced, results = _put_together(f, traced, out_specs, manual)
        program = ShardMap(
            traced.jaxpr,
            manual.mesh,
            (*[PartitionSpec()] * len(traced.captured), *[specs[i] for i in kept]),
            tuple(results),
            manual.axes,
            tracked,
        )
        captured = traced.captured
        if moved:
            captured = tuple([_placed(array, found, PartitionSpec(), manual) for array in captured])
        result: R = traced.results(bind(program, *captured, *[arrays[i] for i in kept]))
        return result

    return mapped


def _mesh(mesh: Mesh | None, outer: Mesh | None) -> Mesh:
    """The mesh to map over: the one that is given, or else the one in force, which must be alike."""
    if mesh is None or mesh.empty:
        if outer is None or outer.empty:
            raise ShardingError(
                "shard_map needs a mesh: shard_map(f, mesh=make_mesh((4, 2), ('x', 'y')), ...), or one in force around "
                "it: with tinyjax.set_mesh(mesh): ..."
            )
        manual = outer.manual_axes
        return outer.update_axis_types(dict.fromkeys(manual, AxisType.Auto)) if manual else outer  # as it was given
    if outer is not None and not outer.empty and outer.shape_tuple != mesh.shape_tuple:
        raise ShardingError(f"shard_map: the mesh is {mesh}, but {outer} is in force. Leave one of them out.")
    return mesh


def _within(manual: Manual, arrays: Sequence[Array]) -> tuple[Mesh, Sequence[Lies]]:
    """The mesh as it is within the program, and how its inputs lie along the Explicit axes that are left of it."""
    mesh = manual.within(mesh_in_force())
    outer = explicit_mesh(arrays) if mesh.explicit_axes else None
    if outer is None:
        return mesh, ()
    kept = [array for array in arrays if array.aval.dtype != FLOAT0]
    lies = [lies_on(outer, array, array.aval.ndim) for array in kept]
    return mesh, [divided_by(each, lambda spec: only(spec, mesh.explicit_axes)) for each in lies]


def _held(lent: Lent, at: int, said: PartitionSpec | Infer | None, manual: Manual) -> PartitionSpec:
    """How what a Ref holds is divided, before and after."""
    if isinstance(said, PartitionSpec):
        return said
    return _inferred(as_array(tree.flatten((lent.args, lent.kwargs))[0][at]), manual, "what a Ref holds")


def kept_as_it_is(leaf: object) -> object:
    """An argument that isn't divided: an array as an array, anything else as it is."""
    return as_array(leaf) if isinstance(leaf, Array) or hasattr(leaf, "__array__") else leaf


def _inferred(array: Array, manual: Manual, what: str) -> PartitionSpec:
    """How an array lies on the mesh already."""
    if mesh_in_force() is not None or not isinstance(array, ConcreteArray):
        lies: Sharding | None = explicit_sharding(array)
        if lies is None and isinstance(array, ConcreteArray):
            lies = array.sharding
    else:
        lies = array.sharding
    if not isinstance(lies, NamedSharding) and {*manual.axes} <= {*manual.mesh.explicit_axes}:
        known = lies_on(manual.mesh, array, array.aval.ndim)
        if isinstance(known, tuple):  # the same on all devices, unless a mesh that is in force says otherwise
            lies = NamedSharding(manual.mesh, PartitionSpec(*[names or None for names in known]))
    if not isinstance(lies, NamedSharding) or lies.mesh.shape_tuple != manual.mesh.shape_tuple:
        raise InputError(
            f"shard_map: without in_specs, arrays are divided as they lie on {manual.mesh}, but {what} doesn't lie "
            "there, as far as can be told before the program runs. Say how by in_specs."
        )
    spec = lies.spec
    parts = [tuple([name for name in names if name in manual.axes]) for names in spec.axes]
    unreduced, reduced = ({*names}.intersection(manual.axes) for names in (spec.unreduced, spec.reduced))
    found = PartitionSpec(*[part or None for part in parts], unreduced=unreduced, reduced=reduced)
    _check_sums(found, "in_specs", manual)
    return found


def _besides(array: Array, sharding: NamedSharding, manual: Manual) -> NamedSharding:
    """The sharding, and what an array that lies on its mesh is divided along besides: axes that aren't manual."""
    own = array.sharding if isinstance(array, ConcreteArray) else None
    if not isinstance(own, NamedSharding) or own.mesh.shape_tuple != sharding.mesh.shape_tuple:
        return sharding
    ndim = array.aval.ndim
    pairs = zip(*[(*named.spec.axes, *((),) * ndim)[:ndim] for named in (sharding, own)], strict=True)
    parts = [(*names, *[name for name in others if name not in manual.axes]) for names, others in pairs]
    found = sharding.with_spec(sharding.spec.update([part or None for part in parts]))
    return own if found.is_equivalent_to(own, ndim) else found


def _placed(array: Array, mesh: Mesh, spec: PartitionSpec, manual: Manual) -> Array:
    """An argument on the devices of the mesh. What is transformed and lies there already is left to XLA."""
    if array.aval.dtype == FLOAT0:
        return array
    sharding = NamedSharding(mesh, spec)
    if isinstance(array, ConcreteArray):
        return array.to_device(_besides(array, sharding, manual))
    own = mesh_of([array])
    return array if own is not None and own.shape_tuple == mesh.shape_tuple else placed(array, sharding, said=True)


def _manual(found: Mesh, axis_names: Collection[str], tracked: bool) -> Manual:
    """The mesh, and the axes of it that become manual."""
    taken = [axis for axis, _ in active_frame().axes if isinstance(axis, MeshAxis)]
    names = {axis_names} if isinstance(axis_names, str) else {*axis_names}
    for name in sorted(names):
        if name not in found.axis_names:
            raise ShardingError(f"shard_map: axis_names has {name!r}, but the axes of the mesh are {found.axis_names}")
    used = {axis.name for axis in taken}
    chosen = tuple([name for name in found.axis_names if (name in names if names else name not in used)])
    if both := [name for name in chosen if name in used] or ([*used] if not chosen else []):
        raise ShardingError(
            f"shard_map within shard_map: the axis {both[0]!r} of the mesh is manual already, so every device has its "
            "own part along it. Choose others by axis_names."
        )
    return Manual(found.abstract_mesh, chosen, tracked)


def _spread(prefix: Any, full: Any, what: str, kind: str, manual: Manual) -> list[PartitionSpec | None]:
    """The specification of each leaf of a tree."""
    found, treedef = tree.flatten(prefix, _is_none if what == "in_specs" else None)
    leaves: list[PartitionSpec | None] = []
    for leaf in found:
        if leaf is None:
            leaves.append(None)
            continue
        if not isinstance(leaf, PartitionSpec):
            raise InputError(f"shard_map: {what} is a tree of PartitionSpecs, such as P('x', None), but has {leaf!r}")
        _check_sums(leaf, what, manual)
        if leaf.open:
            raise ShardingError(
                f"shard_map: {what} has {leaf}, but each part is divided along its axes, or it isn't: write None in "
                "the place of P.UNCONSTRAINED"
            )
        for name in (*leaf.names, *sorted(leaf.unreduced | leaf.reduced)):
            if name not in manual.axes:
                has = ", ".join(map(repr, manual.axes))
                raise ShardingError(f"shard_map: {what} has {leaf}, but its axes of the mesh are {has}")
        if len({*leaf.names}) < len(leaf.names):
            raise ShardingError(f"shard_map: {what} has {leaf}, which divides along an axis twice")
        leaves.append(leaf)
    try:
        subtrees = treedef.flatten_up_to(full)
    except (ValueError, TypeError, KeyError):
        at = tree.prefix_difference(prefix, full) or "the root"
        raise TreeError(
            f"shard_map: {what} must be a prefix of the tree of the {kind}, but differs at {at}:\n"
            f"  {what}: {prefix!r}\n  the {kind}: {tree.shown(tree.flatten(full)[1])}"
        ) from None
    return [leaf for leaf, subtree in zip(leaves, subtrees, strict=True) for _ in tree.flatten(subtree)[0]]


def _check_sums(spec: PartitionSpec, what: str, manual: Manual) -> None:
    """A ShardingError for sums yet to be made where nothing outside knows of them, or not along all axes."""
    for kind, names in (("unreduced", spec.unreduced), ("reduced", spec.reduced)):
        if not names:
            continue
        if len(manual.axes) + len(manual.mesh.manual_axes) < manual.mesh.ndim:
            raise UnsupportedShardingError(
                f"shard_map: {what} has {spec}, but {kind} can only be used where all axes of the mesh are manual, and "
                f"here {', '.join(manual.axes)} of {manual.mesh.axis_names} are. Leave axis_names out."
            )
        for name in sorted(names):
            if name in manual.mesh.axis_names and name not in manual.mesh.explicit_axes:
                raise ShardingError(
                    f"shard_map: {what} has {spec}, but {kind} can only be used along Explicit axes of a mesh, as "
                    f"along these only it is known what is done with the array outside. {name!r} of {manual.mesh} "
                    "isn't one: make_mesh makes such axes, and Mesh(..., axis_types=(AxisType.Explicit,) * "
                    f"{manual.mesh.ndim})"
                )


def _is_none(x: object) -> bool:
    return x is None


def _part(what: str, manual: Manual, aval: ShapedArray, spec: PartitionSpec) -> ShapedArray:
    """The type of a device's part of an argument."""
    try:
        return manual.local(aval, spec)
    except ShapeError as error:
        raise ShardingError(f"{what}: {error}") from None


def _put_together(
    f: Callable[..., object], traced: Traced, out_specs: Any, manual: Manual
) -> tuple[Traced, list[PartitionSpec]]:
    """The program with results that vary along the axes that their specifications name, and these."""
    template = tree.unflatten(traced.treedef, range(traced.treedef.num_leaves))
    spread = _spread(out_specs, template, "out_specs", "results", manual)
    specs = [spec for spec in spread if spec is not None]  # as all are
    paths = tree.paths(traced.treedef)
    kept = [i for i in range(len(specs)) if i not in traced.erased]
    avals: list[ShapedArray] = []
    for i, aval in zip(kept, traced.jaxpr.out_avals, strict=True):
        varying = aval.varying_over(manual.result_axes(aval.axes, specs[i]))
        try:
            manual.check_result(varying, specs[i], f"result{paths[i]}")
            manual.whole(varying, specs[i])
        except (TypingError, ShapeError) as error:
            raise type(error)(f"{error} It is what {located(f)} returns.") from None
        avals.append(varying)
    jaxpr = with_types(traced.jaxpr, avals).named_by(traced.jaxpr.names)
    erased = {i: float0_zeros(manual.whole(zeros.aval, specs[i]).shape) for i, zeros in traced.erased.items()}
    return evolve(traced, jaxpr=jaxpr, erased=erased), [specs[i] for i in kept]
