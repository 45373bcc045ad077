"""Looking into programs while they run (`print`, `log`, `callback`), and at how arrays lie on devices."""

from tinyjax.api.debugging import debug_callback as callback
from tinyjax.api.debugging import debug_log as log
from tinyjax.api.debugging import debug_print as print  # noqa: A004 (the name that JAX has)
from tinyjax.api.visualize import inspect_array_sharding, visualize_array_sharding, visualize_sharding
from tinyjax.tracebacks import filter_package

__all__ = ["callback", "inspect_array_sharding", "log", "print", "visualize_array_sharding", "visualize_sharding"]


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)


filter_package(__name__, __all__)
