"""How scalars, arrays and parameters are spelled in printed programs: to the bit, so that they can be read back."""

from __future__ import annotations

import base64
import enum
import math
import re
import struct
from collections.abc import Mapping
from typing import Final

import attrs
import numpy as np

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import (
    BFLOAT16,
    COMPLEX128,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    PYTHON_DTYPES,
    SUPPORTED,
    WORDS,
    DType,
    Scalar,
    real_dtype,
)
from tinyjax.ir.literals import python_scalar
from tinyjax.ir.parameters import Opaque, Spelled
from tinyjax.ir.program import Jaxpr, Literal
from tinyjax.ir.traverse import record_values
from tinyjax.ir.value import ConcreteValue

_NAN_BITS: Final = struct.pack("<d", math.nan)
#: How many decimal digits always tell two numbers apart.
_FEWER_DIGITS: Final = {FLOAT32: 9, FLOAT16: 5, BFLOAT16: 4}
_WORD: Final = re.compile(r"[A-Za-z_]\w*|<[A-Za-z_]\w*>", re.ASCII)
#: Words that mean something else than a string, or a variable.
_TAKEN: Final = frozenset({"True", "False", "None", "nan", "inf", "nanj", "infj", "lambda", *WORDS.values()})
#: Arrays with more elements are spelled by their bytes.
_SPELLED_OUT: Final = 32


def _float(value: float, dtype: DType = FLOAT64) -> str:
    """The shortest spelling that gives the value back once it is rounded to the dtype."""
    if math.isnan(value):
        bits = struct.pack("<d", value)
        return "nan" if bits == _NAN_BITS else f"nan(0x{int.from_bytes(bits, 'little'):016x})"
    if dtype in _FEWER_DIGITS and math.isfinite(value):
        with np.errstate(over="ignore"):
            for digits in range(1, _FEWER_DIGITS[dtype] + 1):
                short = float(f"{value:.{digits}g}")
                if python_scalar(short, dtype) == value:
                    return float.__repr__(short)
    return float.__repr__(value)


def _complex(value: complex, dtype: DType) -> str:
    part = real_dtype(dtype)
    real, imag = (_float(x, part).removesuffix(".0") for x in (value.real, value.imag))
    if real == "0":
        return f"{imag}j"
    return f"({real}{'' if imag.startswith('-') else '+'}{imag}j)"


def format_scalar(value: Scalar, dtype: DType) -> str:
    """A number, without its type.

    >>> format_scalar(0.1, FLOAT64), format_scalar(-0.0, FLOAT64), format_scalar(1 + 2j, FLOAT64)
    ('0.1', '-0.0', '(1+2j)')
    """
    if isinstance(value, float):
        return _float(value, dtype)
    if isinstance(value, complex):
        return _complex(value, dtype)
    return repr(value)


def format_literal(literal: Literal) -> str:
    """A literal: bare if its type is the one that a Python number has by itself, otherwise with its type.

    >>> format_literal(Literal.of(2.0)), format_literal(Literal.of(np.float32(0.1)))
    ('2.0', '0.1:f32[]')
    """
    value, aval = literal.value, literal.aval
    text = format_scalar(value, aval.dtype)
    own = aval.dtype == _own_dtype(value) and aval.weak_type != isinstance(value, bool)
    if own and aval.shape == () and not aval.axes:
        return text
    return f"{text}:{aval}"


def _own_dtype(value: Scalar) -> DType | None:
    return next((dtype for kind, dtype in PYTHON_DTYPES.items() if isinstance(value, kind)), None)


def format_dtype(dtype: DType) -> str:
    """A dtype's name; dtypes that no value has are spelled as NumPy spells them."""
    return WORDS.get(dtype) or repr(dtype)


def format_array(value: ConcreteValue, short: bool = False) -> str:
    """An array with its elements in one list, row by row; its bytes in base 64 if there are many."""
    if short:
        return f"array({value.aval}, ...)"
    array = np.asarray(value.data)
    if array.size <= _SPELLED_OUT and array.dtype in SUPPORTED:
        elements = [python_scalar(element, array.dtype) for element in array.ravel()]
        if np.asarray(elements, array.dtype).tobytes() == array.tobytes():
            spelled = ", ".join(format_scalar(element, array.dtype) for element in elements)
            return f"array({value.aval}, [{spelled}])"
    ordered = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return f'array({value.aval}, "{base64.b64encode(ordered.tobytes()).decode()}")'


def format_string(text: str) -> str:
    """A string: bare if it is one plain word, or one in angle brackets such as `<lambda>`."""
    return text if _WORD.fullmatch(text) and text not in _TAKEN else repr(text)


def format_parameter(value: object, programs: Mapping[Jaxpr, str], short: bool = False) -> str:
    """A parameter on one line; `programs` says what stands for the programs within it.

    `short` leaves out the elements of arrays, and programs that have no entry.
    """
    if isinstance(value, Jaxpr):
        return programs.get(value, "{ ... }") if short else programs[value]
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}" if value.name else f"{type(value).__name__}({value.value!r})"
    if isinstance(value, str):
        return format_string(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, complex):
        return _complex(value, COMPLEX128)
    if isinstance(value, tuple):
        items = [format_parameter(item, programs, short) for item in value]
        return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(format_parameter(item, programs, short) for item in value))}}}"
    if isinstance(value, np.dtype):
        return format_dtype(value)
    if isinstance(value, ShapedArray):
        return str(value)
    if isinstance(value, ConcreteValue):
        return format_array(value, short)
    if isinstance(value, type):
        return f"type({value.__module__}.{value.__qualname__})"
    if isinstance(value, Opaque):
        return str(value)
    if isinstance(value, Spelled):
        return value.spelled()
    if attrs.has(type(value)):
        fields = (f"{name}={format_parameter(item, programs, short)}" for name, item in record_values(value))
        return f"{type(value).__name__}({', '.join(fields)})"
    return repr(value)
