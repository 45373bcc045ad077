"""Equations with operators that are never written down as matrices, as `scipy.sparse` has it."""

from tinyjax.scipy.sparse import linalg as linalg

__all__ = ["linalg"]
