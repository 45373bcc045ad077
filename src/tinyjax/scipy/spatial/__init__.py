"""SciPy's geometry: rotations."""

from tinyjax.scipy.spatial import transform as transform

__all__ = ["transform"]
