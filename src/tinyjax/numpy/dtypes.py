"""The names of dtypes and of kinds of them: NumPy's, and the class of arrays."""

from typing import Final, TypeAlias

import ml_dtypes
import numpy as np

from tinyjax.tracing.array import Array

bool: TypeAlias = np.bool
bool_: TypeAlias = np.bool_
int8: TypeAlias = np.int8
int16: TypeAlias = np.int16
int32: TypeAlias = np.int32
int64: TypeAlias = np.int64
uint8: TypeAlias = np.uint8
uint16: TypeAlias = np.uint16
uint32: TypeAlias = np.uint32
uint64: TypeAlias = np.uint64
float16: TypeAlias = np.float16
float32: TypeAlias = np.float32
float64: TypeAlias = np.float64
bfloat16: Final = ml_dtypes.bfloat16
float8_e3m4: Final = ml_dtypes.float8_e3m4
float8_e4m3: Final = ml_dtypes.float8_e4m3
float8_e4m3b11fnuz: Final = ml_dtypes.float8_e4m3b11fnuz
float8_e4m3fn: Final = ml_dtypes.float8_e4m3fn
float8_e4m3fnuz: Final = ml_dtypes.float8_e4m3fnuz
float8_e5m2: Final = ml_dtypes.float8_e5m2
float8_e5m2fnuz: Final = ml_dtypes.float8_e5m2fnuz
float8_e8m0fnu: Final = ml_dtypes.float8_e8m0fnu
float6_e2m3fn: Final = ml_dtypes.float6_e2m3fn
float6_e3m2fn: Final = ml_dtypes.float6_e3m2fn
float4_e2m1fn: Final = ml_dtypes.float4_e2m1fn
int4: Final = ml_dtypes.int4
int2: Final = ml_dtypes.int2
uint4: Final = ml_dtypes.uint4
uint2: Final = ml_dtypes.uint2
complex64: TypeAlias = np.complex64
complex128: TypeAlias = np.complex128
single: TypeAlias = np.float32
double: TypeAlias = np.float64
csingle: TypeAlias = np.complex64
cdouble: TypeAlias = np.complex128
int_: TypeAlias = np.int64
uint: TypeAlias = np.uint64
float_: TypeAlias = np.float64
complex_: TypeAlias = np.complex128
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
