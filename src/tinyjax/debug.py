"""Looking into programs while they run: `tinyjax.debug.print` and `tinyjax.debug.callback`."""

from tinyjax.api.host_callbacks import debug_callback as callback
from tinyjax.api.host_callbacks import debug_print as print  # noqa: A004 (the name that JAX has)
from tinyjax.tracebacks import filter_package

__all__ = ["callback", "print"]


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)


filter_package(__name__, __all__)
