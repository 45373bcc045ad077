"""Integrals of what is known at some points, as `scipy.integrate` has them."""

from tinyjax.numpy import trapezoid

__all__ = ["trapezoid"]
