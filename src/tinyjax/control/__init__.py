"""Primitives whose parameters are programs. Whoever imports one also fills the tables of the passes for all of them."""

from tinyjax.control import hoisting, pruning, shortcuts

__all__ = ["hoisting", "pruning", "shortcuts"]
