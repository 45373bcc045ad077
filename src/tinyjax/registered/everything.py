"""All of the vocabulary: importing it fills the registry."""

from tinyjax.registered import meshes
from tinyjax.registered.jax_expansions import EXPANSIONS
from tinyjax.registered.jax_refs import STANDARD

__all__ = ["EXPANSIONS", "STANDARD", "meshes"]
