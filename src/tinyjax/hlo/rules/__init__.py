"""Lowering rules, a file for each family of primitives. Importing them fills the tables."""

from tinyjax.hlo.rules import (
    arithmetic,
    call,
    callbacks,
    cond,
    contractions,
    convolution,
    custom_derivatives,
    elementwise,
    fourier,
    gather,
    loops,
    reductions,
    shapes,
    sorting,
    special,
    windows,
)

__all__ = [
    "arithmetic",
    "call",
    "callbacks",
    "cond",
    "contractions",
    "convolution",
    "custom_derivatives",
    "elementwise",
    "fourier",
    "gather",
    "loops",
    "reductions",
    "shapes",
    "sorting",
    "special",
    "windows",
]
