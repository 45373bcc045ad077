"""What can be asked of every program that XLA has compiled. Imports jaxlib: to be imported at first need."""

from __future__ import annotations

from typing import Any

from jaxlib import _jax

from tinyjax.backend.stages import MemoryStats


class Loaded:
    """A compiled program of jaxlib: for one device, for several, or for devices that aren't there."""

    __slots__ = ("_loaded",)

    def __init__(self, loaded: _jax.LoadedExecutable) -> None:
        self._loaded = loaded

    def as_text(self) -> str:
        """The optimised HLO."""
        return self._loaded.get_hlo_text()

    def runtime_executable(self) -> _jax.LoadedExecutable:
        """What jaxlib runs."""
        return self._loaded

    def module_bytes(self) -> bytes:
        """The optimised HLO, as XLA writes it to files."""
        loaded: Any = self._loaded  # Any: jaxlib's stubs don't say that loaded programs have modules
        found: bytes = loaded.hlo_modules()[0].as_serialized_hlo_module_proto()
        return found

    def cost_analysis(self) -> dict[str, float]:
        """What XLA estimates that a run costs: floating-point operations, bytes accessed, and others."""
        found = self._loaded.cost_analysis()
        return {name: float(value) for name, value in found.items() if isinstance(value, int | float)}

    def memory_analysis(self) -> MemoryStats:
        """The memory that a run takes, on each device."""
        found = self._loaded.get_compiled_memory_stats()
        return MemoryStats(
            argument_size_in_bytes=found.argument_size_in_bytes,
            output_size_in_bytes=found.output_size_in_bytes,
            alias_size_in_bytes=found.alias_size_in_bytes,
            temp_size_in_bytes=found.temp_size_in_bytes,
            generated_code_size_in_bytes=found.generated_code_size_in_bytes,
        )
