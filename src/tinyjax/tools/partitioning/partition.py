"""From a program, a mesh and shardings to a partition report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import evolve

from tinyjax import backend
from tinyjax.api.lowered import Lowered
from tinyjax.backend.layouts import Layout
from tinyjax.control.shard_map import ShardMap
from tinyjax.errors import InputError, ShardingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.holding import AnyProgram, checked
from tinyjax.ir.program import ClosedJaxpr, Jaxpr
from tinyjax.ir.traverse import nested_programs
from tinyjax.meshes import Mesh, NamedSharding, PartitionSpec, Sharding
from tinyjax.tools.cost.memory import live_memory
from tinyjax.tools.partitioning.compiled import communications, with_joined
from tinyjax.tools.partitioning.gathers import gathers
from tinyjax.tools.partitioning.hlo import read_module
from tinyjax.tools.partitioning.records import Collective, Gather, Memory, Placed
from tinyjax.tools.partitioning.report import PartitionReport
from tinyjax.tools.partitioning.residuals import residuals_on_devices
from tinyjax.tools.partitioning.written import Loops, Written
from tinyjax.tracing import tree
from tinyjax.transforms.dce import dce
from tinyjax.transforms.unvarying import unvarying


def partition(
    program: AnyProgram | Lowered,
    mesh: Mesh | None = None,
    shardings: object = None,
    *,
    out_shardings: object = None,
    compile: bool = True,  # noqa: A002 (what it says)
) -> PartitionReport:
    """What a program will do on the devices of a mesh: what they tell each other, line by line, and the memory of each.

    Nothing is run, and no device is needed: without any, the program is compiled for as many CPUs.

    Args:
      program: a program, or what `jit(f, ...).lower(...)` returns, which says itself how its arguments lie.
      mesh: with or without devices; None for that of the shardings, or of the program.
      shardings: how the inputs lie: a tree with a PartitionSpec, a NamedSharding or None (replicated) for each, or
        one for all. None: all are replicated.
      out_shardings: the same for results; None where XLA chooses.
      compile: whether to ask XLA. Without, what it adds isn't known: what the program says within `shard_map` is.

    Raises:
      InputError: there is no mesh, or not a sharding for each input.
      ShardingError: an input or a result can't lie so.
      XlaError: the program can't be compiled.

    >>> import tinyjax as tj
    >>> from tinyjax import P
    >>> mesh = tj.sharding.AbstractMesh((4,), ("x",))
    >>> row = tj.ShapedArray((8, 128), "float32")
    >>> found = partition(tj.make_jaxpr(lambda a: tj.numpy.sum(a, axis=0))(row), mesh, P("x"))
    >>> [(c.kind, c.axes, c.bytes) for c in found.collectives]
    [('all-reduce', ('x',), 512)]
    >>> found.input_bytes, found.result_bytes
    (1024, 512)
    """
    if isinstance(program, Lowered):
        if mesh is not None or shardings is not None or out_shardings is not None:
            raise InputError("partition: what jit has lowered says itself how arguments and results lie")
        closed, layout = program.closed_jaxpr, program.layout
    else:
        closed = checked(program, "partition")
        layout = _layout(closed, mesh, shardings, out_shardings)
    if layout is None:
        raise InputError(
            "partition: nothing says which mesh. Give one: tinyjax.sharding.AbstractMesh((4, 2), ('x', 'y')), or one "
            "of devices, by tinyjax.make_mesh."
        )
    loops = Loops()
    jaxpr = dce(closed.jaxpr)
    written = tuple(Written(loops).collectives(jaxpr))
    found: tuple[Collective, ...] | None = None
    gathered: tuple[Gather, ...] = ()
    memory: Memory | None = None
    outs: Sequence[NamedSharding | None] = layout.outs
    if compile:
        compiled = backend.partitioned(closed.jaxpr, layout, "partition")
        module = read_module(compiled.module)
        communicated = tuple(communications(module, layout.mesh, compiled.places, loops))
        found = with_joined([communication.collective for communication in communicated], written)
        gathered = tuple(gathers(jaxpr, module, communicated, compiled.places))
        outs, stats = compiled.out_shardings, compiled.memory
        memory = Memory(
            stats.argument_size_in_bytes,
            stats.output_size_in_bytes,
            stats.temp_size_in_bytes,
            stats.alias_size_in_bytes,
        )
    return PartitionReport(
        closed.jaxpr,
        layout.mesh,
        found,
        written,
        gathered,
        tuple(_inputs(closed, layout)),
        tuple(_results(closed.jaxpr, layout, outs)),
        residuals_on_devices(closed, layout),
        memory,
        max([live_memory(unvarying(body)).peak for body in _bodies(jaxpr)], default=None),
        loops.found,
    )


def _layout(closed: ClosedJaxpr, mesh: Mesh | None, ins: object, outs: object) -> Layout | None:
    jaxpr, constants = closed.jaxpr, len(closed.consts)
    named = _shardings("shardings", ins, mesh, jaxpr.in_avals[constants:])
    results = _shardings("out_shardings", outs, mesh, jaxpr.out_avals)
    asked = backend.Asked((*[None] * constants, *named), tuple(results) if outs is not None else (), mesh)
    layout = backend.lay_out(jaxpr, [None] * len(jaxpr.invars), asked, "partition")
    if mesh is not None and layout is not None and layout.mesh.size != mesh.size:
        raise ShardingError(
            f"partition: the program is for the {layout.mesh.size} devices of {layout.mesh}, and can't run on the "
            f"{mesh.size} of {mesh}"
        )
    return layout


def _shardings(what: str, given: object, mesh: Mesh | None, avals: Sequence[ShapedArray]) -> list[Sharding | None]:
    """A sharding for each of the arrays."""
    leaves, _ = tree.flatten(given, lambda x: x is None or isinstance(x, PartitionSpec))
    if isinstance(given, PartitionSpec | Sharding) or given is None:
        leaves = [given] * len(avals)
    if len(leaves) != len(avals):
        raise InputError(
            f"partition: {what} has {len(leaves)} entries for {len(avals)} arrays: "
            f"{', '.join(map(str, avals))}. Write one for each, None for what isn't divided."
        )
    found: list[Sharding | None] = []
    for leaf in leaves:
        if isinstance(leaf, PartitionSpec):
            if mesh is None:
                raise InputError(f"partition: {what} says {leaf}, but not of which mesh: partition(program, mesh, ...)")
            found.append(NamedSharding(mesh, leaf))
        elif leaf is None or isinstance(leaf, Sharding):
            found.append(leaf)
        else:
            raise InputError(f"partition: {what} has {leaf!r}; write a PartitionSpec, a NamedSharding or None")
    return found


def _inputs(closed: ClosedJaxpr, layout: Layout) -> Iterator[Placed]:
    constants = len(closed.consts)
    names = closed.jaxpr.input_names
    for i, (aval, sharding) in enumerate(zip(closed.jaxpr.in_avals, layout.ins, strict=True)):
        name = f"constant {i}" if i < constants else names[i] or str(i - constants)
        yield _placed(name, aval, sharding, layout.mesh)


def _results(jaxpr: Jaxpr, layout: Layout, outs: Sequence[NamedSharding | None]) -> Iterator[Placed]:
    for i, (aval, sharding) in enumerate(zip(jaxpr.out_avals, outs, strict=True)):
        yield _placed(str(i), aval, sharding, layout.mesh)


def _placed(name: str, aval: ShapedArray, sharding: NamedSharding | None, mesh: Mesh) -> Placed:
    """An array that lies so; of a result that XLA hasn't been asked about, all of it is taken to be on each device."""
    if sharding is None:
        return Placed(name, str(aval), None, aval.nbytes, aval.nbytes, ())
    part = aval.of_shape(sharding.shard_shape(aval.shape))
    same = [n for n, size in mesh.shape_tuple if size > 1 and n in evolve(sharding, mesh=mesh).replicated_axes]
    return Placed(name, str(aval), sharding.spec, part.nbytes, aval.nbytes, tuple(same))


def _bodies(jaxpr: Jaxpr) -> Iterator[Jaxpr]:
    """What the outermost `shard_map`s of a program run on each device."""
    for program in nested_programs(jaxpr):
        for eqn in program.eqns:
            if isinstance(eqn.primitive, ShardMap):
                yield eqn.primitive.jaxpr
