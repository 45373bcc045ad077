"""What programs import from `jax.experimental`, under its names."""

from tinyjax.experimental import checkify as checkify
from tinyjax.experimental import multihost_utils as multihost_utils
from tinyjax.experimental import ode as ode

__all__ = ["checkify", "multihost_utils", "ode"]


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
