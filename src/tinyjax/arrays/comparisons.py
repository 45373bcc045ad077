"""Comparisons of arrays, as Python's operators mean them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tinyjax.arrays.elementwise import apply, broadcast_shapes, broadcast_to, elementwise, promote, where
from tinyjax.errors import IntegerSizeError, TypingError
from tinyjax.ir.dtypes import COMPLEXES, FLOAT0, INTEGERS, integer_limits
from tinyjax.primitives import complex as parts
from tinyjax.primitives.comparison import Comparison, eq, ge, gt, le, lt, ne

if TYPE_CHECKING:
    from tinyjax.tracing.array import Array


def less(x: Array, y: Array) -> Array:
    return compare(lt, x, y)


def less_equal(x: Array, y: Array) -> Array:
    return compare(le, x, y)


def greater(x: Array, y: Array) -> Array:
    return compare(gt, x, y)


def greater_equal(x: Array, y: Array) -> Array:
    return compare(ge, x, y)


def equal(x: Array, y: Array) -> Array:
    return _compare(eq, x, y)


def not_equal(x: Array, y: Array) -> Array:
    return _compare(ne, x, y)


def compare(primitive: Comparison, x: Array, y: Array) -> Array:
    """An order relation. Complex numbers are compared by their real parts, then by their imaginary ones."""
    if x.aval.dtype not in COMPLEXES and y.aval.dtype not in COMPLEXES:
        return _elementwise(primitive, x, y)
    x, y = promote(x, y)
    x_real, y_real = apply(parts.real, x), apply(parts.real, y)
    same = apply(eq, x_real, y_real)
    return where(same, apply(primitive, apply(parts.imag, x), apply(parts.imag, y)), apply(primitive, x_real, y_real))


def _compare(primitive: Comparison, x: Array, y: Array) -> Array:
    """Whether elements are equal, or differ. Those without bits, of dtype float0, are all equal, as in NumPy."""
    done = x._at_once(primitive, (x, y))
    if done is not None:
        return done
    dtypes = x.aval.dtype, y.aval.dtype
    if FLOAT0 not in dtypes:
        return _elementwise(primitive, x, y)
    if dtypes[0] != dtypes[1]:
        raise TypingError(
            f"{x.aval} and {y.aval} can't be compared: tangents of integers and booleans (float0) hold nothing. "
            "Compare them with zeros of dtype tinyjax.float0."
        )
    return _everywhere(x, y, primitive is eq)


def _elementwise(primitive: Comparison, x: Array, y: Array) -> Array:
    """The elements compared. A Python integer that the other dtype doesn't have is below all of its numbers or above,
    as in NumPy."""
    try:
        return elementwise(primitive, x, y)
    except IntegerSizeError:
        places = _place(x, y), _place(y, x)
        return _everywhere(x, y, bool(primitive.evaluate(*map(np.asarray, places))[0]))


def _place(x: Array, beside: Array) -> float:
    """Where a number is, as seen from all that the dtype beside it has: 0.0 is among them."""
    known = x.concrete() if x.aval.weak_type and x.aval.dtype in INTEGERS and not x.aval.shape else None
    if known is None or beside.aval.dtype not in INTEGERS:
        return 0.0
    number, (least, largest) = int(np.asarray(known.data)), integer_limits(beside.aval.dtype)
    return float(number > largest) - float(number < least)


def _everywhere(x: Array, y: Array, answer: bool) -> Array:
    return broadcast_to(x._operands(answer)[1], broadcast_shapes(x.aval.shape, y.aval.shape))
