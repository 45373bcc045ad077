"""Compiling a program for the devices of its layout. Imports jax: to be imported at first need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from attrs import evolve

from tinyjax.backend.embedding import Constants, passed
from tinyjax.backend.layouts import Layout, as_named
from tinyjax.backend.planned import PlannedExecutable, compile_planned
from tinyjax.backend.result_shardings import UnnamedError
from tinyjax.backend.spmd import SpmdExecutable, compile_spmd
from tinyjax.backend.stages import Options, Partitioned
from tinyjax.backend.store import CompilationCache
from tinyjax.contexts.watching import Watcher
from tinyjax.hlo.lowering import LoweredModule, lower_module
from tinyjax.ir.program import Jaxpr
from tinyjax.meshes import NamedSharding
from tinyjax.transforms.cse import cse
from tinyjax.transforms.dce import dce

T = TypeVar("T")


def compile_laid_out(
    jaxpr: Jaxpr,
    layout: Layout,
    name: str,
    donated: Sequence[bool],
    options: Options,
    persistent: CompilationCache | None,
    watcher: Watcher | None,
    constants: Constants = (),
) -> SpmdExecutable:
    """The program, lowered and compiled for the devices of a layout. It takes what isn't among the `constants`."""

    def compiled(module: LoweredModule, chosen: Layout) -> SpmdExecutable:
        return compile_spmd(
            module, name, jaxpr.in_avals, jaxpr.out_avals, chosen, donated, options, persistent, jaxpr, constants
        )

    return _in_names(jaxpr, layout, name, donated, watcher, compiled, constants)


def plan_laid_out(
    jaxpr: Jaxpr, layout: Layout, name: str, donated: Sequence[bool], options: Options, constants: Constants = ()
) -> PlannedExecutable:
    """The program, lowered and compiled for a layout without devices: to be looked at."""

    def compiled(module: LoweredModule, chosen: Layout) -> PlannedExecutable:
        return compile_planned(module, name, jaxpr.out_avals, chosen.without(constants), options)

    return _in_names(jaxpr, layout, name, donated, None, compiled, constants)


def partitioned(jaxpr: Jaxpr, layout: Layout, name: str) -> Partitioned:
    """What XLA makes of a program on each device of a layout: of its devices, or of CPUs if it has none."""

    def compiled(module: LoweredModule, chosen: Layout) -> Partitioned:
        program: SpmdExecutable | PlannedExecutable
        if chosen.devices is None:
            program = compile_planned(module, name, jaxpr.out_avals, chosen)
        else:
            program = compile_spmd(module, name, jaxpr.in_avals, jaxpr.out_avals, chosen)
        outs = tuple([as_named(sharding).abstract for sharding in program.out_shardings])
        return Partitioned(program.module_bytes(), outs, program.memory_analysis(), module.places)

    return _in_names(jaxpr, layout, name, (), None, compiled, located=True)


def _in_names(
    jaxpr: Jaxpr,
    layout: Layout,
    name: str,
    donated: Sequence[bool],
    watcher: Watcher | None,
    compiled: Callable[[LoweredModule, Layout], T],
    constants: Constants = (),
    located: bool = False,
) -> T:
    """The compiled program; a result that XLA would divide as no axes of the mesh do is replicated instead. What nobody
    reads isn't computed, as XLA keeps what a branch sends for it. What is computed twice, such as residuals that aren't
    worth their memory, is computed once: XLA would divide each by itself, and send it twice."""
    once = cse(dce(jaxpr))
    while True:
        module = lower_module(
            once,
            platform=layout.platform,
            name=name,
            donated=passed(constants, donated),
            watcher=watcher,
            in_shardings=passed(constants, layout.ins),
            out_shardings=layout.outs,
            located=located,
            constants=constants,
        )
        try:
            return compiled(module, layout)
        except UnnamedError as error:
            outs = list(layout.outs)
            outs[error.result] = NamedSharding(layout.mesh, error.spec)
            layout = evolve(layout, outs=tuple(outs))
