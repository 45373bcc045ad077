"""What samplers are given: keys, shapes and dtypes, and what is wrong with them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Final, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

from tinyjax.arrays.elementwise import broadcast_shapes, user_dtype
from tinyjax.arrays.promotion import result_type
from tinyjax.errors import ChoiceError, InputError, ShapeError
from tinyjax.ir.dtypes import COMPLEXES, FLOATS, INTEGERS, KEY, KEY_NAMES, KEYS, UINT32, DType, Scalar, short_name
from tinyjax.ir.result_types import made_once
from tinyjax.ir.shapes import Shape, as_shape
from tinyjax.ir.shared_types import array_type
from tinyjax.lax.within import keys_in_force
from tinyjax.primitives.key_generators import word_count
from tinyjax.primitives.keys import RandomBits, RandomSplit, RandomUnwrap, RandomWrap, impl_of
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind

#: The size of each axis of a result.
ShapeLike: TypeAlias = Sequence[int] | int
#: How keys are made and used: by its name, such as "rbg", or by the dtype of keys.
ImplLike: TypeAlias = str | DType | None
_KINDS: Final = {"a float": FLOATS, "an int": INTEGERS, "a float or complex": FLOATS | COMPLEXES}


def any_keys(name: str, key: ArrayLike) -> tuple[Array, bool]:
    """Keys, and whether they were given as their words, as `PRNGKey` makes them: such are Threefry's, or those of the
    block that says so."""
    array = as_array(key)
    if array.aval.dtype in KEYS:
        return array, False
    dtype = keys_in_force()
    if array.aval.dtype == UINT32 and array.aval.shape[-1:] == (word_count(dtype),):
        return bind(RandomWrap(impl_of(dtype)), array)[0], True
    if array.aval.dtype == UINT32 and array.aval.shape[-1:] in ((1,), (2,), (4,)):
        names = [name for dtype, name in KEY_NAMES.items() if array.aval.shape[-1] == word_count(dtype)]
        whose = "Threefry's" if dtype == KEY else f"those of {KEY_NAMES[dtype]!r}"
        raise InputError(
            f"{name} takes words of a key only if they are {whose}, which are {word_count(dtype)}; got {array.aval}. "
            f"Say whose they are: tinyjax.random.wrap_key_data(words, impl={names[0]!r})."
        )
    raise InputError(
        f"{name} takes a key of random numbers, got {array.aval}. Make one of an integer: tinyjax.random.key(0)."
    )


def one_key(name: str, key: ArrayLike) -> tuple[Array, bool]:
    """The same for a single key; a ShapeError for several."""
    found, words = any_keys(name, key)
    if found.aval.shape:
        raise ShapeError(
            f"{name} accepts a single key, but was given a key array of shape {found.aval.shape} != (). "
            f"Use tinyjax.vmap for batching: vmap(lambda key: {name}(key, ...))(keys)."
        )
    return found, words


def single(name: str, key: ArrayLike) -> Array:
    """A single key, however it is given."""
    return one_key(name, key)[0]


def halves(key: Array, num: int = 2) -> list[Array]:
    """New keys, made of one."""
    found = bind(made_once(RandomSplit, (num,)), key)[0]
    return [found[i] for i in range(num)]


def random_bits(key: Array, width: int, shape: Shape) -> Array:
    """Unsigned integers of so many random bits."""
    return bind(made_once(RandomBits, width, shape), key)[0]


def words(keys: Array) -> Array:
    """The words that keys consist of."""
    return bind(RandomUnwrap(), keys)[0]


def dtype_of(name: str, dtype: npt.DTypeLike | None, default: type, kind: str = "a float") -> DType:
    """The dtype of a sampler's results; a ChoiceError if it isn't of the kind."""
    found = user_dtype(default if dtype is None else dtype)
    assert found is not None
    if found not in _KINDS[kind]:
        raise ChoiceError(f"dtype argument to `{name}` must be {kind} dtype, got {found.name}")
    return found


def full_shape(name: str, shape: ShapeLike | None, *parameters: ArrayLike) -> Shape:
    """The shape of the results, which parameters must be broadcast to; None: the one that they have together."""
    own = [np.shape(p) if isinstance(p, int | float) else as_array(p).aval.shape for p in parameters]
    if shape is None:
        return broadcast_shapes(*own) if own else ()
    found = as_shape(shape)
    check_shapes(name, found, own)
    return found


def check_shapes(name: str, shape: Shape, parameters: Sequence[Shape]) -> None:
    """A ShapeError unless arrays of these shapes can be broadcast to the shape."""
    whole = broadcast_shapes(shape, *parameters)
    if whole != shape:
        raise ShapeError(
            f"{name} parameter shapes must be broadcast-compatible with shape argument, and the result of "
            f"broadcasting the shapes must equal the shape argument, but got result {whole} for shape argument {shape}."
        )


def parameter(name: str, x: ArrayLike, dtype: DType) -> Array:
    """A parameter with the dtype of the results; a ChoiceError if that loses something."""
    array = as_array(x)
    if result_type([array.aval, array_type((), dtype)])[0] != dtype:
        raise ChoiceError(
            f"In arguments to {name}, cannot safely cast argument of type {short_name(array.aval.dtype)} to "
            f"{dtype.name}: pass dtype={array.aval.dtype.name!r}, or convert the argument"
        )
    return converted(array, dtype)


def converted(x: ArrayLike, dtype: DType) -> Array:
    """x with this dtype."""
    return as_array(x).astype(dtype)


def index(name: str, what: str, x: SupportsIndex) -> int:
    """An integer that decides a shape."""
    try:
        return as_shape((operator.index(x),))[0]
    except TypeError:
        raise InputError(f"{name}: {what} is an integer, got {x!r}") from None


def number(value: Scalar, dtype: DType) -> Array:
    """A constant of this dtype."""
    return as_array(np.asarray(value, dtype))
