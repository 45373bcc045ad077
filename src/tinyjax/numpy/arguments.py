"""What several of the functions make of their arguments."""

from __future__ import annotations

import numpy as np

from tinyjax.arrays import shaping
from tinyjax.arrays.shaping import integers
from tinyjax.backend import DeviceLike
from tinyjax.errors import ChoiceError
from tinyjax.ir.dtypes import DType, Scalar
from tinyjax.ir.result_types import made_once
from tinyjax.ir.shapes import Shape, as_shape
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.value import ConcreteValue
from tinyjax.numpy.signatures import ShapeLike
from tinyjax.primitives.shaping import Iota
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import ConcreteArray
from tinyjax.tracing.core import bind


def shape_of(shape: ShapeLike) -> Shape:
    """A shape argument: one size or several."""
    return as_shape(integers(shape, "a size"))


def scalar(value: Scalar | np.generic, dtype: DType) -> ConcreteArray:
    """A scalar of this dtype, not weakly typed."""
    return ConcreteArray(ConcreteValue(np.asarray(value, dtype), array_type((), dtype)))


def placed(x: Array, device: DeviceLike | None) -> Array:
    """A new array on the device that was asked for, if one was. What is being traced stays as it is."""
    return x if device is None else x.to_device(device)


def iota(dtype: DType, shape: Shape, dimension: int) -> Array:
    """An array that counts from 0 along one axis."""
    return bind(made_once(Iota, dtype, shape, dimension))[0]


def with_leading_axes(x: Array, ndim: int) -> Array:
    """x with at least this many axes, new ones in front."""
    missing = ndim - x.aval.ndim
    return shaping.expand_dims(x, range(missing)) if missing > 0 else x


def with_axes(x: Array, ndim: int) -> Array:
    """x with at least this many axes."""
    missing = ndim - x.aval.ndim
    if missing <= 0:
        return x
    if ndim == 3 and x.aval.ndim:
        return shaping.expand_dims(x, (0, 2) if missing == 2 else 2)
    return shaping.expand_dims(x, range(missing))


def refuse_inplace(name: str, inplace: bool) -> None:
    """A ChoiceError, since `inplace` is there because NumPy's function works so."""
    if inplace:
        raise ChoiceError(
            f"{name}: arrays are immutable, so the result is a new array. Pass inplace=False to say that you know."
        )
