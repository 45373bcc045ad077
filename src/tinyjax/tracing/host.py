"""Elements on the host: NumPy arrays in and out."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tinyjax import backend
from tinyjax.errors import InputError
from tinyjax.ir.dtypes import FLOAT0, SUPPORTED, HostArray, Scalar
from tinyjax.ir.value import ConcreteValue


def host_array(value: ConcreteValue, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> HostArray:
    """The elements as a NumPy array that can't be written to, or as a copy that can."""
    elements: HostArray = np.asarray(value.data)
    if dtype is not None and elements.dtype != dtype:
        if copy is False:
            raise ValueError(f"an array of {elements.dtype} can't become one of {dtype} without a copy")
        return elements.astype(dtype)
    if copy:
        return elements.copy()
    view = elements.view()
    view.flags.writeable = False
    return view


def python_item(elements: HostArray) -> Scalar:
    if elements.size != 1:
        raise ValueError(f"only an array of one element can become a scalar, this one has shape {elements.shape}")
    item: Scalar = elements.reshape(()).tolist()
    return item


def concrete_value(x: object) -> ConcreteValue:
    """A NumPy array, a scalar, a jax.Array, or anything that converts to an array, as a value, without a copy.

    An InputError for anything else. Python scalars are weakly typed.
    """
    if type(x) is float or type(x) is int or type(x) is bool or type(x) is complex:
        return _of_scalar(x)
    found = backend.from_jax(x)
    if found is not None:
        return found
    if isinstance(x, ConcreteValue):
        return x
    if isinstance(x, np.ndarray | np.generic):
        if x.dtype.newbyteorder("=") in SUPPORTED or x.dtype == FLOAT0:
            return ConcreteValue.of(x)
        raise InputError(f"arrays of dtype {x.dtype} are not supported: numbers and bools are. Got {_shown(x)}.")
    if hasattr(x, "__array__"):
        return concrete_value(np.asarray(x))
    raise InputError(
        f"{_shown(x)} of type {type(x).__name__} is not an array. Pass NumPy arrays, scalars, or trees of them; mark "
        "other arguments as static, or close over them."
    )


def _of_scalar(x: Scalar) -> ConcreteValue:
    try:
        return ConcreteValue.of(x)
    except OverflowError:
        raise InputError(f"the integer {x} doesn't fit in 64 bits") from None


def _shown(x: object) -> str:
    text = repr(x)
    return text if len(text) <= 80 else text[:77] + "..."
