"""Functions with batching rules of their own, under JAX's names: `jax.custom_batching`."""

from tinyjax.api.rules.custom_vmap import CustomVmapFunction, custom_vmap, sequential_vmap

__all__ = ["CustomVmapFunction", "custom_vmap", "sequential_vmap"]


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
