"""What an array is, and how a compiler may know an operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import ParamSpec, TypeVar

import numpy as np

from tinyjax.arrays.shaping import integers
from tinyjax.control.call import Call
from tinyjax.errors import InputError
from tinyjax.ir.dtypes import INT64, DType, Scalar
from tinyjax.lax.bodies import stage
from tinyjax.primitives.conversion import array_dtype
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind
from tinyjax.tracing.functions import check_callable, flatten_arguments

P = ParamSpec("P")
R = TypeVar("R")


def dtype(x: ArrayLike | type[Scalar | np.generic] | DType) -> DType:
    """The dtype of an array or a number, or of the elements of such a type.

    >>> dtype(np.int8(3))
    dtype('int8')
    """
    if isinstance(x, type | np.dtype):
        return array_dtype(x)
    return as_array(x).aval.dtype


def shape_as_value(shape: Sequence[int]) -> Array:
    """A shape as an array of integers.

    >>> shape_as_value((2, 3))
    Array([2, 3], dtype=int64)
    """
    return as_array(np.asarray(integers(shape, "shape_as_value: a size"), INT64))


def composite(decomposition: Callable[P, R], name: str, version: int = 0) -> Callable[P, R]:
    """The function as an operation of this name, such as "my.gelu": one equation, which applies the program of its
    decomposition. Keyword arguments are attributes: they aren't traced. `version` is for who reads the name.

    >>> from tinyjax import make_jaxpr
    >>> sign = composite(lambda x, *, twice: -x if twice else x, "my.sign")
    >>> make_jaxpr(lambda x: sign(x, twice=True))(2.0)
    { lambda ; a:~f64[]. let
        b:~f64[] = call[
          function_name='my.sign'
          jaxpr={ lambda ; a:~f64[]. let b:~f64[] = neg a in (b,) }
        ] a
      in (b,) }
    """
    check_callable("composite", decomposition)
    given: object = name
    if not isinstance(given, str) or not given:
        raise InputError(f"composite: the operation needs a name, such as 'my.gelu', not {given!r}")

    @wraps(decomposition)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        function = partial(decomposition, **kwargs)
        arrays, treedef = flatten_arguments(function, args, {})
        traced = stage("composite", function, treedef, [array.aval for array in arrays])
        result: R = traced.results(bind(Call(name, traced.jaxpr), *traced.captured, *arrays))
        return result

    return call


def create_token(_: object = None) -> Array:
    """A value without elements, which orders nothing but what takes it: effects keep their order here by themselves.

    >>> create_token().shape
    (0,)
    """
    return as_array(np.zeros(0, bool))


def after_all(*operands: ArrayLike) -> Array:
    """One token for several.

    >>> after_all(create_token(), create_token()).shape
    (0,)
    """
    for operand in operands:
        if as_array(operand).aval != create_token().aval:
            raise InputError(f"after_all takes what create_token returns, got {as_array(operand).aval}")
    return create_token()
