"""Enters the first-order primitives, and the classes of their parameters, in the standard registry."""

from collections.abc import Iterator
from types import ModuleType
from typing import Final

from tinyjax.ir.primitive import BatchAxis, Primitive
from tinyjax.ir.text.registry import STANDARD
from tinyjax.primitives import (
    accuracy,
    annotations,
    arithmetic,
    bessel,
    bitwise,
    by_loops,
    casts,
    collectives,
    comparison,
    complex,  # noqa: A004
    constant,
    contractions,
    conversion,
    convolution,
    cumulative,
    determinants,
    dot_algorithms,
    dynamic,
    elementwise,
    exchanges,
    exponential,
    factorizations,
    fourier,
    gather,
    generators,
    hidden_state,
    incomplete,
    keys,
    platforms,
    reduce_window,
    reductions,
    resharding,
    rounding,
    scatter,
    selection,
    shaping,
    sinks,
    slicing,
    solutions,
    sorting,
    special,
    spectral,
    stacking,
    structure,
    threefry,
    triangular,
    tridiagonal,
    trigonometric,
    unreduced,
    window_choices,
    windows,
)

__all__ = ["FIRST_ORDER", "MODULES", "STANDARD", "primitives_of"]


def primitives_of(*modules: ModuleType) -> Iterator[type[Primitive]]:
    """The primitives that are defined in these modules: the classes that have a name in programs."""
    for module in modules:
        for value in vars(module).values():
            own = isinstance(value, type) and value.__module__ == module.__name__
            if own and issubclass(value, Primitive) and isinstance(vars(value).get("name"), str):
                yield value


#: The modules that define primitives whose parameters hold no programs.
MODULES: Final = (
    annotations, arithmetic, bessel, bitwise, by_loops, casts, collectives, comparison, complex, constant,
    contractions, conversion, convolution, cumulative, determinants, dynamic, elementwise, exchanges, exponential,
    factorizations, fourier, gather, generators, hidden_state, incomplete, keys, platforms, reduce_window, reductions,
    resharding, rounding, scatter, selection, shaping, sinks, slicing, solutions, sorting, special, spectral, stacking,
    structure, threefry, triangular, tridiagonal, trigonometric, unreduced, window_choices,
)  # fmt: skip
FIRST_ORDER: Final = tuple(primitives_of(*MODULES))
STANDARD.add(*FIRST_ORDER)
STANDARD.add(
    BatchAxis,
    rounding.RoundingMethod,
    contractions.Precision,
    fourier.FftType,
    keys.KeyImpl,
    generators.RandomAlgorithm,
)
STANDARD.add(convolution.ConvDimensionNumbers, spectral.EighImplementation, spectral.EigImplementation)
STANDARD.add(
    accuracy.AccuracyMode,
    accuracy.Tolerance,
    reductions.NanMode,
    spectral.SvdAlgorithm,
    dot_algorithms.DotAlgorithm,
    dot_algorithms.DotAlgorithmPreset,
)
STANDARD.add(windows.GatherScatterMode, windows.GatherDimensionNumbers, windows.ScatterDimensionNumbers)
