"""From what users pass, NumPy arrays, scalars, other libraries' arrays, to values."""

from __future__ import annotations

import numpy as np

from tinyjax import backend
from tinyjax.caching import bounded
from tinyjax.errors import ChoiceError, InputError, IntegerSizeError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import FLOAT0, INTEGERS, MOVABLE, DType, Scalar, may_be_key
from tinyjax.ir.program import Literal
from tinyjax.ir.shapes import Shape
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.value import ConcreteValue, Data, frozen_elements
from tinyjax.primitives.numpy_values import convert
from tinyjax.tracing.messages.unregistered import how_to_register


def concrete_value(x: object) -> ConcreteValue:
    """A NumPy array, a scalar, a jax.Array, or anything that converts to an array, as a value.

    Arrays that may be written to are copied: this is where they come in, and nothing that the library keeps or returns
    changes afterwards. An InputError for anything else. Python scalars are weakly typed.
    """
    if type(x) is np.ndarray:
        aval = host_type(x.shape, x.dtype)
        if aval is not None:
            return ConcreteValue(frozen_elements(x), aval)
    if type(x) is float or type(x) is int or type(x) is bool or type(x) is complex:
        return _of_scalar(x)
    found = backend.from_jax(x)
    if found is not None:
        return found
    if isinstance(x, ConcreteValue):
        return x
    if isinstance(x, Literal):
        return ConcreteValue(frozen_elements(np.asarray(x.value, x.aval.dtype)), x.aval)
    if isinstance(x, np.ndarray | np.generic):
        if isinstance(x, np.ma.MaskedArray):
            raise ChoiceError(
                f"masked arrays are not supported; use filled() to say what stands for masked elements: {x}"
            )
        if x.dtype.newbyteorder("=") in MOVABLE or x.dtype == FLOAT0:
            return ConcreteValue.of(x)
        raise InputError(f"arrays of dtype {x.dtype} are not supported: numbers and bools are. Got {_shown(x)}.")
    if hasattr(x, "__array__"):
        return concrete_value(np.asarray(x))
    if isinstance(x, int | float | complex):  # of a subclass, such as a member of an IntEnum
        return _of_scalar(int(x) if isinstance(x, int) else float(x) if isinstance(x, float) else complex(x))
    raise InputError(
        f"{_shown(x)} of type {type(x).__name__} is not an array. Pass NumPy arrays, scalars, or trees of them; mark "
        f"other arguments as static, or close over them.{how_to_register(x)}"
    )


@bounded(4096)
def host_type(shape: Shape, dtype: DType) -> ShapedArray | None:
    """The type of a NumPy array that is a value as it is; None if it has to be looked at more closely."""
    return array_type(shape, dtype) if dtype in MOVABLE and dtype.isnative else None


def _of_scalar(x: Scalar) -> ConcreteValue:
    return _cached_scalar(x) if may_be_key(x) else _scalar(x)


def _scalar(x: Scalar) -> ConcreteValue:
    try:
        return ConcreteValue.of(x)
    except OverflowError:
        raise IntegerSizeError(f"the integer {x} doesn't fit in 64 bits") from None


def convert_scalar(value: ConcreteValue, dtype: DType, weak_type: bool) -> ConcreteValue:
    """A scalar on the host with another dtype. An InputError if a weak integer, as Python's are, doesn't fit."""
    if not value.aval.weak_type:
        return _converted(value.data, dtype, weak_type)
    number: Scalar = np.asarray(value.data).item()
    return convert_number(number, value.aval.dtype, dtype, weak_type)


def convert_number(number: Scalar, own: DType, dtype: DType, weak_type: bool) -> ConcreteValue:
    """A number that has one dtype with another; the same error."""
    value = _converted(np.asarray(number, own), dtype, weak_type)
    if own in INTEGERS and dtype in INTEGERS and int(np.asarray(value.data)) != number:
        raise IntegerSizeError(
            f"the Python integer {number} doesn't fit in {dtype.name}, the dtype of the other operand. "
            "Convert one of the two explicitly."
        )
    return value


def _converted(data: Data, dtype: DType, weak_type: bool) -> ConcreteValue:
    with np.errstate(all="ignore"):
        return ConcreteValue(convert(np.asarray(data), dtype), array_type((), dtype, weak_type))


# Numbers are met again and again.
_cached_scalar = bounded(4096, typed=True)(_scalar)


def _shown(x: object) -> str:
    text = repr(x)
    return text if len(text) <= 80 else text[:77] + "..."
