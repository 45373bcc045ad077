"""Small networks and optimizers for examples, under the names of `jax.example_libraries`."""

from tinyjax.example_libraries import optimizers as optimizers
from tinyjax.example_libraries import stax as stax
from tinyjax.tracebacks import filter_package

__all__ = ["optimizers", "stax"]


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)


filter_package(optimizers.__name__, optimizers.__all__, home=__name__)
filter_package(stax.__name__, stax.__all__, home=__name__)
