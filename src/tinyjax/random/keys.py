"""Keys: where random numbers come from. A key is used once; `split` and `fold_in` make new ones of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, SupportsIndex

import numpy as np

from tinyjax.arrays.shaping import integers
from tinyjax.errors import ChoiceError, InputError, ShapeError
from tinyjax.ir.dtypes import KEY_NAMES, KEYS, UINT32, DType
from tinyjax.ir.result_types import made_once
from tinyjax.lax.within import keys_in_force
from tinyjax.primitives.keys import KeyImpl, RandomClone, RandomFoldIn, RandomSeed, RandomSplit, RandomWrap, impl_of
from tinyjax.random.arguments import ImplLike, any_keys, one_key, words
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind

#: JAX's names, and the tags that dtypes are printed with.
_IMPLS: Final = {name: impl_of(dtype) for dtype, name in KEY_NAMES.items()}
_BY_NAME: Final = {**{impl.value: impl for impl in KeyImpl}, **_IMPLS}


def _impl(impl: ImplLike, dtype: ImplLike) -> KeyImpl:
    if impl is not None and dtype is not None:
        raise ChoiceError("Cannot specify both `impl` and `dtype`")
    chosen = dtype if impl is None else impl
    if chosen is None:
        return impl_of(keys_in_force())
    if isinstance(chosen, np.dtype) and chosen in KEYS:
        return impl_of(chosen)
    found = _BY_NAME.get(chosen) if isinstance(chosen, str) else None
    if found is None:
        names = ", ".join(map(repr, _IMPLS))
        raise ChoiceError(f"unrecognized PRNG implementation {chosen!r}: there are {names}")
    return found


def _seeded(name: str, seed: ArrayLike, impl: KeyImpl) -> Array:
    array = as_array(int(seed) if isinstance(seed, bool) else seed)
    if array.aval.dtype in KEYS:
        raise InputError(f"{name} accepts a scalar seed, but was given a PRNG key. To make keys of keys, split them.")
    if array.aval.shape:
        raise ShapeError(
            f"{name} accepts a scalar seed, but was given an array of shape {array.aval.shape} != (). "
            f"Use tinyjax.vmap for batching: vmap({name})(seeds)."
        )
    return bind(RandomSeed(impl), array)[0]


def key(seed: ArrayLike, *, impl: ImplLike = None, dtype: ImplLike = None) -> Array:
    """A key made of an integer: a scalar of dtype `key<fry>`, or of that of another implementation, by `impl` or
    `tinyjax.default_prng_impl`.

    The integer has 64 bits; those of other dtypes are extended by zeros. `impl` or `dtype` is a name, such as "rbg", or
    the dtype of keys: "threefry2x32", which is the default, "threefry4x32", "philox2x32" and "philox4x32" give the same
    numbers everywhere. The bits of "rbg" and "unsafe_rbg" come from XLA's generator, which is faster on some devices,
    and another on some; and under `vmap` those of all keys come from the first one, as in JAX.

    Raises:
      ChoiceError: `impl` is none of these.
      InputError: `seed` is no integer.
      ShapeError: it is an array.

    >>> key(3)
    Array((), dtype=key<fry>) overlaying:
    [0 3]
    >>> key(3, impl="rbg").dtype == key_dtype("rbg")
    True
    """
    return _seeded("key", seed, _impl(impl, dtype))


def PRNGKey(seed: ArrayLike, *, impl: ImplLike = None) -> Array:  # noqa: N802 (JAX's name)
    """A key as its words, an array of two uint32, as `jax.random.PRNGKey` makes it. All functions take such keys, too.

    With another `impl` than Threefry there may be more or fewer of them; `wrap_key_data` makes a key of those first,
    unless `tinyjax.default_prng_impl` says whose they are.

    >>> PRNGKey(3)
    Array([0, 3], dtype=uint32)
    """
    return words(_seeded("PRNGKey", seed, _impl(impl, None)))


def key_data(keys: ArrayLike) -> Array:
    """The words of keys along a new last axis: two uint32, if they are Threefry's.

    >>> key_data(key(3))
    Array([0, 3], dtype=uint32)
    """
    return words(any_keys("key_data", keys)[0])


def wrap_key_data(key_bits_array: ArrayLike, *, impl: ImplLike = None, dtype: ImplLike = None) -> Array:
    """Keys with these words of dtype uint32 along the last axis: what undoes `key_data`.

    >>> wrap_key_data(key_data(key(3))) == key(3)
    Array(True, dtype=bool)
    """
    return bind(RandomWrap(_impl(impl, dtype)), as_array(key_bits_array))[0]


def key_impl(keys: ArrayLike) -> str:
    """The name of how these keys are made and used.

    >>> key_impl(key(3))
    'threefry2x32'
    """
    return KEY_NAMES[any_keys("key_impl", keys)[0].aval.dtype]


def key_dtype(impl_spec: ImplLike = None) -> DType:
    """The dtype of keys.

    >>> key_dtype() == key(0).dtype
    True
    """
    return _impl(impl_spec, None).dtype


def split(key: ArrayLike, num: SupportsIndex | Sequence[SupportsIndex] = 2) -> Array:
    """New keys made of one: `num` of them, or an array of this shape.

    >>> first, second = split(key(3))
    >>> split(first, (2, 3)).shape
    (2, 3)
    """
    one, raw = one_key("split", key)
    return _as_given(bind(made_once(RandomSplit, integers(num, "split: num")), one)[0], raw)


def fold_in(key: ArrayLike, data: ArrayLike) -> Array:
    """A new key made of a key and a 32-bit integer, such as the number of a step.

    >>> fold_in(key(3), 5) == fold_in(key(3), 6)
    Array(False, dtype=bool)
    """
    one, raw = one_key("fold_in", key)
    number = as_array(data)
    if number.aval.shape:
        raise ShapeError(
            f"fold_in accepts a scalar, but was given an array of shape {number.aval.shape} != (). "
            "Use tinyjax.vmap for batching: vmap(lambda i: fold_in(key, i))(numbers)."
        )
    return _as_given(bind(RandomFoldIn(), one, number.astype(UINT32))[0], raw)


def clone(key: ArrayLike) -> Array:
    """The same key, meant to be used a second time.

    >>> clone(key(3)) == key(3)
    Array(True, dtype=bool)
    """
    keys, raw = any_keys("clone", key)
    return _as_given(bind(RandomClone(), keys)[0], raw)


def _as_given(keys: Array, raw: bool) -> Array:
    return words(keys) if raw else keys
