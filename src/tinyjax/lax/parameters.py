"""The classes of parameters that users make."""

from typing import TypeAlias

from tinyjax.arrays import products
from tinyjax.primitives import accuracy, contractions, convolution, dot_algorithms, rounding, windows

AccuracyMode: TypeAlias = accuracy.AccuracyMode
Tolerance: TypeAlias = accuracy.Tolerance
Precision: TypeAlias = contractions.Precision
DotAlgorithm: TypeAlias = dot_algorithms.DotAlgorithm
DotAlgorithmPreset: TypeAlias = dot_algorithms.DotAlgorithmPreset
DotDimensionNumbers: TypeAlias = contractions.DimensionNumbers
ConvDimensionNumbers: TypeAlias = convolution.ConvDimensionNumbers
RoundingMethod: TypeAlias = rounding.RoundingMethod
GatherDimensionNumbers: TypeAlias = windows.GatherDimensionNumbers
GatherScatterMode: TypeAlias = windows.GatherScatterMode
ScatterDimensionNumbers: TypeAlias = windows.ScatterDimensionNumbers
PrecisionLike: TypeAlias = products.DotPrecisionLike
