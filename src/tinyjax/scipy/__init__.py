"""SciPy's functions on arrays, under its names, with the signatures of `jax.scipy`."""

from tinyjax.scipy import special as special

__all__ = ["special"]
