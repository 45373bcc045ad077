"""Primitives whose parameters are programs. Whoever imports one also fills the tables of the passes for all of them."""

from tinyjax.control import checked, hoisting, linearity, pruning, rolling, trivial

__all__ = ["checked", "hoisting", "linearity", "pruning", "rolling", "trivial"]
