"""Reads the numbers, strings, types and arrays of printed programs: the other direction of `spelling`."""

from __future__ import annotations

import ast
import base64
import binascii
import cmath
import math
import re
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import ml_dtypes
import numpy as np

from tinyjax.errors import InputError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import (
    BOOL,
    COMPLEXES,
    FLOATS,
    INTEGERS,
    SHORT_NAMES,
    SUPPORTED,
    WORDS,
    DType,
    Scalar,
    integer_limits,
    short_name,
)
from tinyjax.ir.literals import python_scalar
from tinyjax.ir.program import Literal
from tinyjax.ir.shapes import as_axes, marked
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.value import ConcreteValue

_DTYPES: Final = {name: dtype for dtype, name in SHORT_NAMES.items()}
#: The words that are dtypes when they stand for a parameter.
DTYPE_WORDS: Final = {word: dtype for dtype, word in WORDS.items()}
#: How a float is written, but for its sign.
REAL: Final = r"(?:nan\(0x[0-9a-fA-F]{1,16}\)|nan|inf|(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)"
_COMPLEX: Final = re.compile(rf"(-?{REAL}) *([+-]{REAL})j")
#: After a size: along which axes of a mesh the array is divided.
_LYING: Final = re.compile(r"@(?:\w+|\([\w, ]*\))")
#: After the sizes: along which axes of a mesh the array varies, and what else is said along such.
_MARK: Final = re.compile(r"([VUR]):(\([^()]*\)|[^,()}]+)")
_MARKS: Final = re.compile(rf"{_MARK.pattern}(?:, {_MARK.pattern})*\}}")
_ESCAPE: Final = re.compile(r"\\(?:[\\'\"abfnrtv\n]|[0-7]{1,3}|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})")


def read_real(text: str) -> float:
    """A float: decimal, inf, nan, or the bits of a nan."""
    negative, digits = text.startswith("-"), text.lstrip("+-")
    if digits.startswith("nan("):
        (value,) = struct.unpack("<d", int(digits[6:-1], 16).to_bytes(8, "little"))
        if not math.isnan(value):
            raise InputError(f"{text} are not the bits of a nan")
        return -value if negative else float(value)
    return -float(digits) if negative else float(digits)


def read_complex(text: str) -> complex:
    """A complex number: `2j` or `(1+2j)`."""
    found = _COMPLEX.fullmatch(text.strip("()"))
    if found is None and text.startswith("("):
        raise InputError(f"{text} is no complex number")
    if found is None:
        return complex(0.0, read_real(text[:-1]))
    return complex(read_real(found[1]), read_real(found[2]))


def read_number(text: str) -> bool | int | float:
    """True, False, an int or a float."""
    if text in ("True", "False"):
        return text == "True"
    return int(text) if text.lstrip("-").isdecimal() else read_real(text)


def read_string(text: str) -> object:
    """The string or the bytes that Python writes so. An InputError for an escape sequence that it never writes."""
    rest = _ESCAPE.sub("", text)
    if "\\" in rest:
        raise InputError(f"{text} has an escape sequence that no string has")
    try:
        value: object = ast.literal_eval(text)
    except (SyntaxError, ValueError) as error:
        raise InputError(f"{text} is no string: {error}") from None
    return value


@lru_cache(maxsize=4096)
def read_aval(text: str) -> ShapedArray:
    """The type written `f32[2,3]`, with `~` for a weak one, and within braces what it says along axes of a mesh, such
    as `{V:(x,y), U:z}` for one that varies along `x` and `y` and is unreduced along `z`.

    JAX's say how arrays lie on a mesh, too: `f32[2@x,3@(y,z)]`. Types of ours don't. JAX's tokens are arrays without
    elements.
    """
    if text == "Tok":
        return array_type((0,), BOOL)
    text, _, marks = text.partition("{")
    if marks and not _MARKS.fullmatch(marks):
        raise InputError(f"{{{marks} says nothing of a type: along axes of a mesh that is {{V:x}}, {{U:x}} or {{R:x}}")
    said = {mark: as_axes(one.strip() for one in names.strip("()").split(",")) for mark, names in _MARK.findall(marks)}
    axes = marked(*[said.get(mark, ()) for mark in "VUR"])
    name, _, sizes = text.removesuffix("]").partition("[")
    weak = name.startswith("~")
    name = name.removeprefix("~")
    dtype = _DTYPES.get(name)
    if dtype is None:
        dtype = DTYPE_WORDS.get(name) or _dtype_by_name(name)
    try:
        shape = tuple(map(int, _LYING.sub("", sizes).replace(" ", "").split(","))) if sizes.strip() else ()
        return array_type(shape, dtype, weak, axes)
    except ValueError as error:
        raise InputError(f"{text} is no type: {error}") from None


def _dtype_by_name(name: str) -> DType:
    found = getattr(ml_dtypes, name, None)
    try:
        return np.dtype(found if isinstance(found, type) else name)
    except TypeError:
        known = ", ".join(_DTYPES)
        raise InputError(f"{name!r} is no dtype; those of programs are {known}") from None


def read_dtype(items: object) -> DType:
    """The dtype that NumPy writes `dtype(items)`."""
    try:
        if isinstance(items, str):
            return np.dtype(items)
        if isinstance(items, tuple):
            return np.dtype(list(items))
    except (TypeError, ValueError):
        pass
    raise InputError(f"{items!r} describes no dtype")


@lru_cache(maxsize=4096)
def read_literal(value: str, aval: str) -> Literal:
    """The literal written `value`, or `value:aval`. An InputError if the type doesn't represent the value."""
    scalar: Scalar = read_complex(value) if value.endswith(("j", "j)")) else read_number(value)
    if aval:
        declared = read_aval(aval)
        if declared.shape != ():
            raise InputError(f"the literal {value} has type {declared}; only scalars can be literals")
        return Literal(in_dtype(scalar, declared.dtype), declared)
    if type(scalar) is int and not -(2**63) <= scalar < 2**63:
        raise InputError(f"{value} is beyond int64; give the literal a type that has it, as in 1:u64[]")
    return Literal.of(scalar)


def in_dtype(value: Scalar, dtype: DType) -> Scalar:
    """The value in a dtype. Fractions are rounded; an InputError for everything else that the dtype doesn't have."""
    fits = False
    if dtype == BOOL:
        fits = type(value) is bool
    elif dtype in INTEGERS:
        least, greatest = integer_limits(dtype)
        fits = type(value) is int and least <= value <= greatest
    elif dtype in FLOATS:
        fits = type(value) in (int, float)
    elif dtype in COMPLEXES:
        fits = type(value) in (int, float, complex)
    if not fits:
        raise InputError(f"{value!r} is no {short_name(dtype)}")
    if dtype not in COMPLEXES and isinstance(value, float) and math.isnan(value):
        return value
    if isinstance(value, complex) and cmath.isnan(value):
        part = np.dtype(f"f{dtype.itemsize // 2}")
        real, imag = (in_dtype(x, part) for x in (value.real, value.imag))
        return complex(float(real.real), float(imag.real))
    try:
        rounded = python_scalar(value, dtype)
    except OverflowError:
        raise InputError(f"{value!r} is beyond {short_name(dtype)}") from None
    if cmath.isfinite(value) and not cmath.isfinite(rounded):
        raise InputError(f"{value!r} is beyond {short_name(dtype)}")
    return rounded


def read_numpy_array(fields: Sequence[tuple[str, object]]) -> ConcreteValue | None:
    """The array that NumPy writes `array([[1., 2.], [3., 4.]], dtype=float32)`: as exactly as it is written. None: it
    is none, or one whose elements are left out."""
    named = dict(fields)
    dtype, shape = named.get("dtype"), named.get("shape")
    if isinstance(dtype, str):  # a word: no dtype of programs
        dtype = _dtype_by_name(dtype)
    try:
        found = np.asarray(named[""], dtype if isinstance(dtype, np.dtype) else None)
        found = found.reshape(shape) if isinstance(shape, tuple) else found
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return ConcreteValue.of(found) if found.dtype in SUPPORTED and len(fields) == len(named) else None


def read_array(aval: ShapedArray, elements: Sequence[object] | str) -> ConcreteValue:
    """The array of this type whose elements are listed row by row, or whose bytes are given in base 64."""
    dtype = aval.dtype
    if isinstance(elements, str):
        try:
            data = base64.b64decode(elements, validate=True)
        except binascii.Error as error:
            raise InputError(f"the bytes of an array of type {aval} are no base 64: {error}") from None
        if len(data) != aval.nbytes:
            raise InputError(f"an array of type {aval} has {aval.nbytes} bytes, got {len(data)}")
        try:
            array = np.frombuffer(data, dtype.newbyteorder("<")) if data else np.zeros(aval.size, dtype)
        except ValueError as error:
            raise InputError(f"no bytes make an array of type {aval}: {error}") from None
        array = array.astype(dtype, copy=False)
    else:
        if len(elements) != aval.size:
            raise InputError(f"an array of type {aval} has {aval.size} elements, got {len(elements)}")
        scalars = [in_dtype(x, dtype) for x in elements if isinstance(x, bool | int | float | complex)]
        if len(scalars) != len(elements):
            raise InputError(f"the elements of an array of type {aval} are numbers")
        array = np.asarray(scalars, dtype)
    array = array.reshape(aval.shape)
    array.flags.writeable = False
    return ConcreteValue(array, aval)
