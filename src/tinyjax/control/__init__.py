"""Primitives whose parameters are programs. Whoever imports one also fills the tables of the passes for all of them."""

from tinyjax.control import hoisting, linearity, pruning, trivial

__all__ = ["hoisting", "linearity", "pruning", "trivial"]
