"""The standard vocabulary: primitives by name, and JAX's spelling of them. Importing it fills the registry."""

from tinyjax.registered import meshes
from tinyjax.registered.jax_expansions import EXPANSIONS, STANDARD

__all__ = ["EXPANSIONS", "STANDARD", "meshes"]
