"""Clustering, as `scipy.cluster` has it."""

from tinyjax.scipy.cluster import vq as vq

__all__ = ["vq"]
