"""What `jit` is told of how programs run: on which devices, how arguments and results lie there, and XLA's options.

`in_shardings` and `out_shardings` are trees, prefixes of those of the arguments and results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, final

from attrs import evolve, frozen

from tinyjax import backend, primitives, refs
from tinyjax.api.arguments import StaticCall
from tinyjax.api.compiler_options import device_of, options_of
from tinyjax.backend import Options
from tinyjax.caching import bounded
from tinyjax.errors import ChoiceError, InputError, NestedOptionsError, ShardingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import FLOAT0
from tinyjax.ir.interpret import interpret
from tinyjax.ir.program import Atom, Jaxpr
from tinyjax.lax.mesh_in_force import mesh_in_force, on_mesh_in_force
from tinyjax.meshes import AbstractMesh, Device, Mesh, NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding
from tinyjax.meshes.named import check_sums, named_sharding
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import ConcreteArray, active_frame
from tinyjax.tracing.frames import OpenFrame, outwards
from tinyjax.tracing.functions import function_name
from tinyjax.tracing.programs import Traced
from tinyjax.transforms.rebuild import Rebuilding

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef


@final
@frozen
class Everywhere:
    """In the place of a sharding: on all devices of the mesh in force, if there is one on which XLA says how arrays
    lie."""


@final
@frozen(eq=False)
class JitShardings:
    """What a caller of `jit` says of how arguments and results lie: trees of shardings, None where nothing is said; and
    of how programs run that aren't part of another one."""

    ins: Any  # the user's trees
    outs: Any
    #: From how many bytes on it is warned of what every device has all of; None for never.
    large: int | None = None
    options: Options = ()
    device: Device | None = None

    @staticmethod
    def of(
        ins: object,
        outs: object,
        large: object = None,
        options: object = None,
        device: object = None,
        platform: object = None,
    ) -> JitShardings | None:
        """None if nothing is said. An InputError for leaves that are no shardings."""
        for what, found in (("in_shardings", ins), ("out_shardings", outs)):
            for leaf in tree.flatten(found, _is_none)[0]:
                if leaf is not None and not isinstance(leaf, Sharding | PartitionSpec | Everywhere):
                    raise InputError(f"jit: {what} is a tree of shardings, and of None, but has {leaf!r} in it")
                if isinstance(leaf, NamedSharding) and leaf.mesh.empty:
                    raise ShardingError(f"jit: {what} has {leaf!r}, whose mesh is empty: make one by make_mesh")
                if isinstance(leaf, NamedSharding):
                    check_sums(f"jit: {what}", leaf)
                spec = leaf.spec if isinstance(leaf, NamedSharding) else leaf
                if isinstance(spec, PartitionSpec) and spec.open:
                    raise ShardingError(
                        f"jit: {what} says how arrays lie, so {spec} can't leave that open. P.UNCONSTRAINED is for "
                        "with_sharding_constraint; None in the place of a sharding says nothing."
                    )
        if large is not None and (isinstance(large, bool) or not isinstance(large, int) or large < 0):
            raise InputError(f"jit: warn_replicated is a number of bytes, not {large!r}")
        if device is not None and platform is not None:
            raise ChoiceError("jit: a device is one of a backend, so only one of device= and backend= is said")
        device = platform if device is None else device
        if device is not None and not (ins is None and outs is None):
            raise ChoiceError("jit: shardings say on which devices a function runs, so there is no device= beside them")
        said = JitShardings(ins, outs, large, options_of("jit", options), device_of(device))
        nothing = said.device is None and not said.options
        return None if ins is None and outs is None and large is None and nothing else said

    @property
    def place(self) -> Sharding | None:
        """Where the function runs, as the first sharding of devices says; None if none does."""
        for leaf in tree.flatten((self.ins, self.outs))[0]:
            if isinstance(leaf, SingleDeviceSharding) or (isinstance(leaf, NamedSharding) and leaf.mesh.placed):
                return leaf
        return None

    def asked(
        self, call: StaticCall, traced: Traced, avals: Sequence[ShapedArray], treedef: PyTreeDef
    ) -> backend.Asked:
        """What is said of the inputs and outputs of the program that the function is for a call.

        A TreeError if the trees are no prefixes of those of the arguments and results.
        """
        ins = self._asked_of_arguments(call, avals, treedef)
        outs: list[Sharding | None] = []
        if self.outs is not None:
            count = traced.treedef.num_leaves
            results = tree.unflatten(traced.treedef, range(count))
            spread = _spread("jit: out_shardings", self.outs, results)
            outs = [sharding for i, sharding in enumerate(spread) if i not in traced.erased]
            outs += [None] * len(traced.cells)
        kept = [sharding for sharding, aval in zip(ins, avals, strict=True) if aval.dtype != FLOAT0]
        cells = [None] * len(traced.cells)
        all_ins = (*[None] * len(traced.captured), *kept, *cells)
        return backend.Asked(all_ins, tuple(outs), None, self.large, self.options, self.device)

    def within(
        self, call: StaticCall, traced: Traced, avals: Sequence[ShapedArray], treedef: PyTreeDef
    ) -> backend.Asked:
        """The same for a call that becomes part of another program. A NestedOptionsError for options of XLA, where
        that is compiled as a whole."""
        around = next((label for label in _labels() if label.startswith("jit of ")), None) if self.options else None
        if around is not None:
            options, inner = dict(self.options), function_name(call.function)
            raise NestedOptionsError(
                f"jit: {inner} has compiler_options={options}, but is called within {around}, with which XLA compiles "
                f"it as one program. Give the options to that: jit(..., compiler_options={options})"
            )
        return self.asked(call, traced, avals, treedef)

    def _asked_of_arguments(
        self, call: StaticCall, avals: Sequence[ShapedArray], treedef: PyTreeDef
    ) -> list[Sharding | None]:
        if self.ins is None:
            return [None] * len(avals)
        if call.kwargs:
            names = ", ".join(call.kwargs)
            raise ChoiceError(
                f"jit: in_shardings speaks of arguments by position, so none can be given by name: {names}"
            )
        args, _ = tree.unflatten(treedef, avals)
        return _spread("jit: in_shardings", self.ins, args)

    def chosen(
        self, call: StaticCall, leaves: Sequence[object], avals: Sequence[ShapedArray], treedef: PyTreeDef
    ) -> list[object]:
        """The leaves of the arguments, and in the place of those that are asked to lie somehow, types that say so."""
        asked = self._asked_of_arguments(call, avals, treedef)
        return [leaf if s is None else Asking(s) for leaf, s in zip(leaves, asked, strict=True)]


def _labels() -> Iterator[str]:
    """Of the functions that are being transformed, innermost first."""
    for frame in outwards(active_frame()):
        function = frame.function_of(frame.context) if isinstance(frame, OpenFrame) else None
        if function is not None:
            yield function.label


def on_device(said: JitShardings | None, inputs: tuple[Array, ...]) -> tuple[Array, ...]:
    """The inputs, of which none lies on a mesh if it is said on which one device the function runs, and none that lies
    on one device was put on another one than `in_shardings` says."""
    if said is None:
        return inputs
    if said.device is not None:
        several = any(isinstance(x, ConcreteArray) and x.value.on_several for x in inputs)
        return tuple([x.to_device(said.device) for x in inputs]) if several else inputs
    place = evolve(said, outs=None).place
    if not isinstance(place, SingleDeviceSharding):
        return inputs
    return tuple([x.to_device(place) if _chosen_device(x) not in (None, place) else x for x in inputs])


@final
@frozen
class Asking:
    """An argument of which it is said how it lies."""

    sharding: Sharding


def kept_leaves(leaves: Sequence[object], avals: Sequence[ShapedArray]) -> tuple[list[object], list[int]]:
    """The leaves that are inputs of a program, and how many axes they have."""
    kept = [i for i, aval in enumerate(avals) if aval.dtype != FLOAT0]
    return [leaves[i] for i in kept], [avals[i].ndim for i in kept]


@bounded(4096)
def constrained(jaxpr: Jaxpr, asked: backend.Asked) -> Jaxpr:
    """The program whose inputs and outputs lie as it is asked for: what a call is within a transformation.

    { lambda ; a:f64[8]. let b:f64[8] = sin a in (b,) }
    { lambda ; a:f64[8]. let
        b:f64[8] = sharding_constraint[sharding=NamedSharding(mesh=Mesh('x': 4), spec=P('x',))] a
        c:f64[8] = sin b
      in (c,) }
    """
    if not any(asked.ins) and not any(asked.outs):
        return jaxpr
    grown = Rebuilding(jaxpr.invars, jaxpr.names)
    names = jaxpr.input_names

    def lie(atoms: Sequence[Atom], shardings: Sequence[Sharding | None], what: Sequence[str]) -> list[Atom]:
        found = list(atoms)
        for i, sharding in enumerate(shardings):
            if isinstance(sharding, NamedSharding):
                sharding.check(atoms[i].aval.shape, what[i])
                check_sums(what[i], sharding)
                mesh = AbstractMesh(sharding.mesh.axis_sizes, sharding.mesh.axis_names)
                constraint = primitives.resharding.ShardingConstraint(NamedSharding(mesh, sharding.spec))
                (found[i],) = grown.bind(constraint, atoms[i])
        return found

    ins = lie(grown.invars, asked.ins, [f"argument {name or i}" for i, name in enumerate(names)])
    outs = interpret(grown, jaxpr, ins)
    return grown.finish(lie(outs, asked.outs, [f"result {i}" for i in range(len(outs))]))


def in_force(asked: backend.Asked | None, mesh: Mesh | None) -> backend.Asked | None:
    """What is asked where a mesh is in force, which counts if it has devices. A ChoiceError if one device is asked
    for."""
    if mesh is None or mesh.placed is None or mesh.empty:
        return asked
    if asked is not None and asked.device is not None:
        raise ChoiceError(
            f"jit: the function is to run on {asked.device}, but {mesh} is in force: leave out device= and backend=, "
            "or call it outside of the block of the mesh"
        )
    return evolve(asked or backend.Asked(), mesh=mesh)


def _is_none(x: object) -> bool:
    return x is None


def _spread(what: str, shardings: object, full: object) -> list[Sharding | None]:
    """For each leaf of a tree, what a prefix of it has in its place."""
    if isinstance(shardings, list) and isinstance(full, tuple):
        shardings = tuple(shardings)
    leaves, structure = tree.flatten(shardings, _is_none)
    parts = tree.up_to(what, structure, full, _is_none)
    found: list[Sharding | None] = []
    for leaf, part in zip(leaves, parts, strict=True):
        sharding: Sharding | None = on_mesh_in_force(what, leaf) if isinstance(leaf, PartitionSpec) else None
        if isinstance(leaf, Sharding):
            sharding = leaf
        if isinstance(leaf, Everywhere) and (mesh := mesh_in_force()) is not None:
            sharding = None if mesh.empty or mesh.explicit_axes else NamedSharding(mesh, PartitionSpec())
        found += [sharding] * len(tree.flatten(part)[0])
    return found


def lying(leaves: Sequence[object]) -> list[Sharding | None]:
    """How leaves lie that are arrays on a mesh, or types that say so; None for others."""
    found: list[Sharding | None] = []
    for leaf in leaves:
        known = isinstance(leaf, ConcreteArray) or not isinstance(leaf, Array)  # not those that are being traced
        found.append(named_sharding(leaf) if known else None)
    return found


def _chosen_device(leaf: object) -> Sharding | None:
    """On which device an array lies because something has put it there, or a type says that it does."""
    if isinstance(leaf, ConcreteArray):
        committed = leaf.row is None and backend.is_committed(leaf.value)  # stacks are on the default device
        found: object = leaf.sharding if committed else None
    else:
        found = None if isinstance(leaf, Array) else getattr(leaf, "sharding", None)
    return found if isinstance(found, SingleDeviceSharding) else None


def lying_already(call: StaticCall, traced: Traced, avals: Sequence[ShapedArray]) -> list[Sharding | None]:
    """How the inputs of a program lie that was traced for a call; of arguments, also on which device they were put."""
    leaves = tree.flatten((call.args, call.kwargs))[0]
    kept = [x for x, aval in zip(leaves, avals, strict=True) if aval.dtype != FLOAT0]
    held = [x.current() if isinstance(x, refs.ref.Ref) else None for x in traced.cells]
    found = lying([*traced.captured, *kept, *held])
    for i, leaf in enumerate(kept, len(traced.captured)):
        found[i] = found[i] or _chosen_device(leaf)
    return found
