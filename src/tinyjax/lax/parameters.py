"""The classes of parameters that users make."""

from typing import TypeAlias

from tinyjax.primitives import contractions, convolution, rounding, windows

Precision: TypeAlias = contractions.Precision
ConvDimensionNumbers: TypeAlias = convolution.ConvDimensionNumbers
RoundingMethod: TypeAlias = rounding.RoundingMethod
GatherDimensionNumbers: TypeAlias = windows.GatherDimensionNumbers
GatherScatterMode: TypeAlias = windows.GatherScatterMode
ScatterDimensionNumbers: TypeAlias = windows.ScatterDimensionNumbers
