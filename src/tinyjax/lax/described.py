"""What an array is, and how a compiler may know an operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import ParamSpec, TypeVar

import numpy as np

from tinyjax.arrays.shaping import integer, integers
from tinyjax.control.composite_call import Attribute, CompositeCall, entries
from tinyjax.errors import InputError, ParameterError
from tinyjax.ir.dtypes import INT32, DType, Scalar, integer_limits
from tinyjax.lax.bodies import stage
from tinyjax.primitives.conversion import array_dtype
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import Tracer, bind
from tinyjax.tracing.functions import check_callable, flatten_arguments
from tinyjax.wrapping import wraps

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
    Array([2, 3], dtype=int32)
    """
    return as_array(np.asarray(integers(shape, "shape_as_value: a size"), INT32))


def composite(decomposition: Callable[P, R], name: str, version: int = 0) -> Callable[P, R]:
    """The function as an operation of this name, such as "my.gelu": one equation, which applies the program of its
    decomposition. Compiled, it is a `stablehlo.composite`: a compiler that knows the operation, by name, `version` and
    attributes, may put its own in the place of the decomposition.

    Keyword arguments are the attributes: numbers, strings, dtypes, NumPy arrays, and lists and dictionaries of them.
    They aren't traced; those that are None aren't written. Arrays and values of outside that the function closes over
    are the operation's first operands.

    A derivative or a batch of the operation is another one: that of the decomposition, without the name. Where a
    compiler knows that one too, say so with `custom_jvp` or `custom_vmap` around this function. (In JAX there is none.)

    Raises:
      InputError: there is no name, or a value can't be an attribute. Names without a namespace can't be compiled.

    >>> from tinyjax import make_jaxpr
    >>> sign = composite(lambda x, *, twice: -x if twice else x, "my.sign")
    >>> make_jaxpr(lambda x: sign(x, twice=True))(2.0)
    { lambda ; a:~f64[]. let
        b:~f64[] = composite[
          function_name='my.sign'
          jaxpr={ lambda ; a:~f64[]. let b:~f64[] = neg a in (b,) }
          version=0
          attributes=((twice, True),)
        ] a
      in (b,) }
    """
    check_callable("composite", decomposition)
    given: object = name
    if not isinstance(given, str) or not given:
        raise InputError(f"composite: the operation needs a name, such as 'my.gelu', not {given!r}")

    least, greatest = integer_limits(INT32)
    number = integer(version, "composite: version")
    if not least <= number <= greatest:
        raise InputError(f"composite: version must be a whole number of 32 bits, got {number}")

    @wraps(decomposition)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        function, attributes = partial(decomposition, **kwargs), _attributes(name, kwargs)
        arrays, treedef = flatten_arguments(function, args, {})
        traced = stage("composite", function, treedef, [array.aval for array in arrays])
        primitive = CompositeCall(name, traced.jaxpr, number, attributes)
        result: R = traced.results(bind(primitive, *traced.captured, *arrays))
        return result

    return call


def _attributes(name: str, values: Mapping[str, object]) -> tuple[tuple[str, Attribute], ...]:
    """The keyword arguments as attributes, without those that are None."""
    given: dict[object, object] = {}
    for key, value in values.items():
        if isinstance(value, Tracer):
            raise InputError(
                f"composite: the attribute {key!r} of {name!r} is a traced value of type {value.aval}. Attributes are "
                "known when the operation is applied: pass the value by position, as an operand."
            )
        if value is not None:
            given[key] = np.asarray(value) if isinstance(value, Array) else value
    try:
        return entries(f"composite: attributes of {name!r}", given)
    except ParameterError as error:
        raise InputError(str(error)) from None


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
