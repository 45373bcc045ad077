"""The names of dtypes and of kinds of them: NumPy's, and the class of arrays."""

from typing import Final, TypeAlias

import ml_dtypes
import numpy as np

from tinyjax.numpy.scalar_types import ScalarType
from tinyjax.tracing.array import Array

bool: Final = ScalarType(np.bool)
bool_: Final = bool
int8: Final = ScalarType(np.int8)
int16: Final = ScalarType(np.int16)
int32: Final = ScalarType(np.int32)
int64: Final = ScalarType(np.int64)
uint8: Final = ScalarType(np.uint8)
uint16: Final = ScalarType(np.uint16)
uint32: Final = ScalarType(np.uint32)
uint64: Final = ScalarType(np.uint64)
float16: Final = ScalarType(np.float16)
float32: Final = ScalarType(np.float32)
float64: Final = ScalarType(np.float64)
bfloat16: Final = ScalarType(ml_dtypes.bfloat16)
float8_e3m4: Final = ScalarType(ml_dtypes.float8_e3m4)
float8_e4m3: Final = ScalarType(ml_dtypes.float8_e4m3)
float8_e4m3b11fnuz: Final = ScalarType(ml_dtypes.float8_e4m3b11fnuz)
float8_e4m3fn: Final = ScalarType(ml_dtypes.float8_e4m3fn)
float8_e4m3fnuz: Final = ScalarType(ml_dtypes.float8_e4m3fnuz)
float8_e5m2: Final = ScalarType(ml_dtypes.float8_e5m2)
float8_e5m2fnuz: Final = ScalarType(ml_dtypes.float8_e5m2fnuz)
float8_e8m0fnu: Final = ScalarType(ml_dtypes.float8_e8m0fnu)
float6_e2m3fn: Final = ScalarType(ml_dtypes.float6_e2m3fn)
float6_e3m2fn: Final = ScalarType(ml_dtypes.float6_e3m2fn)
float4_e2m1fn: Final = ScalarType(ml_dtypes.float4_e2m1fn)
int4: Final = ScalarType(ml_dtypes.int4)
int2: Final = ScalarType(ml_dtypes.int2)
uint4: Final = ScalarType(ml_dtypes.uint4)
uint2: Final = ScalarType(ml_dtypes.uint2)
complex64: Final = ScalarType(np.complex64)
complex128: Final = ScalarType(np.complex128)
single: Final = float32
double: Final = float64
csingle: Final = complex64
cdouble: Final = complex128
int_: Final = int64
uint: Final = uint64
float_: Final = float64
complex_: Final = complex128
dtype: TypeAlias = np.dtype
generic: TypeAlias = np.generic
number: TypeAlias = np.number
inexact: TypeAlias = np.inexact
floating: TypeAlias = np.floating
complexfloating: TypeAlias = np.complexfloating
integer: TypeAlias = np.integer
signedinteger: TypeAlias = np.signedinteger
unsignedinteger: TypeAlias = np.unsignedinteger
flexible: TypeAlias = np.flexible
character: TypeAlias = np.character
object_: TypeAlias = np.object_
ComplexWarning: TypeAlias = np.exceptions.ComplexWarning
ndarray: TypeAlias = Array
