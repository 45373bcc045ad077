"""What a program is on its way to being run: StableHLO text, then a compiled program. Needs no jax at import."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias, final

from attrs import frozen

from tinyjax.backend.places import check_compiled_for
from tinyjax.errors import InputError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.type_lists import expect_types
from tinyjax.ir.value import ConcreteValue

if TYPE_CHECKING:
    from tinyjax.backend.executor import AnyProgram
    from tinyjax.backend.layouts import Division, Layout
    from tinyjax.hlo.called import Place
    from tinyjax.meshes import NamedSharding
    from tinyjax.meshes.sharding import Sharding

#: XLA's own options by name, such as ("xla_cpu_enable_fast_math", True).
Options: TypeAlias = tuple[tuple[str, str | bool | int | float], ...]


@final
@frozen
class MemoryStats:
    """The memory that a run of a compiled program takes, in bytes. Arguments that are donated count as aliased."""

    argument_size_in_bytes: int
    output_size_in_bytes: int
    alias_size_in_bytes: int
    temp_size_in_bytes: int
    generated_code_size_in_bytes: int


@final
@frozen(eq=False)
class Partitioned:
    """What XLA has made of a program for several devices, to be looked at: the module that each of them runs, how
    results lie, the memory on each device, and where operations are from, by the numbers in their names."""

    module: bytes
    out_shardings: tuple[NamedSharding, ...]
    memory: MemoryStats
    places: tuple[Place, ...]


@final
@frozen(eq=False)
class Compiled:
    """A compiled program."""

    in_avals: tuple[ShapedArray, ...]
    name: str
    executable: AnyProgram

    def __call__(self, args: Sequence[ConcreteValue], first: int = 0) -> tuple[ConcreteValue, ...]:
        """The results for arguments of these types, on its device. The `first` ones may be on any.

        An InputError for other arguments, a ShardingError for one that was put on other devices, a DeletedBufferError
        for one that has been donated, an XlaError if the run fails.
        """
        found = tuple([arg.aval for arg in args])
        if found != self.in_avals:
            expect_types(f"{self.name!r} was compiled for", self.in_avals, found, InputError)
        check_compiled_for(args, self.executable.in_shardings, self.name, first)
        return self.executable(args, self.name)

    @property
    def in_shardings(self) -> tuple[Sharding, ...]:
        """How the program's inputs lie."""
        return self.executable.in_shardings

    @property
    def out_shardings(self) -> tuple[Sharding, ...]:
        """How its results lie."""
        return self.executable.out_shardings

    def as_text(self) -> str:
        """The optimised HLO."""
        return self.executable.as_text()

    def runtime_executable(self) -> object:
        """What jaxlib runs."""
        return self.executable.runtime_executable()

    def cost_analysis(self) -> dict[str, float]:
        """What XLA estimates that a run costs: floating-point operations, bytes accessed, and others."""
        return self.executable.cost_analysis()

    def memory_analysis(self) -> MemoryStats:
        """The memory that a run takes."""
        return self.executable.memory_analysis()


def hlo_text(text: str, debug_info: bool = False) -> str:
    """The HLO module that XLA makes of the text of a StableHLO module, with its locations if asked for."""
    from tinyjax.backend.export import in_hlo

    return in_hlo(text, debug_info)


def compiler_ir_of_text(text: str, dialect: Literal["stablehlo", "hlo"]) -> object:
    """The text of a StableHLO module as the compiler's own object: MLIR's module, or XLA's computation."""
    from tinyjax.backend.export import mlir_module, xla_computation

    return xla_computation(text) if dialect == "hlo" else mlir_module(text)


def costs_of_text(text: str) -> dict[str, float]:
    """What XLA estimates that a run of a StableHLO module costs, before it optimises it."""
    from tinyjax.backend.export import estimated_costs

    return estimated_costs(text)


def partitioned(program: Jaxpr, layout: Layout, name: str) -> Partitioned:
    """What XLA makes of a program for several devices; an XlaError if it can't be compiled."""
    from tinyjax.backend import several

    return several.partitioned(program, layout, name)


def divided_results(program: Jaxpr, layout: Layout) -> tuple[Division, ...] | None:
    """How XLA's partitioner (Shardy) would divide the results of a program; None if this jaxlib doesn't tell."""
    from tinyjax.backend.propagation import propagated

    return propagated(program, layout)


def generic_text(text: str, debug_info: bool = False) -> str:
    """The text of a StableHLO module in MLIR's generic form, with its locations if asked for."""
    from tinyjax.backend.export import in_generic_form

    return in_generic_form(text, debug_info)
