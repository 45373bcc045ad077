"""Random bits of XLA's generators, and its random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tinyjax.arrays.elementwise import user_dtype
from tinyjax.errors import ChoiceError
from tinyjax.ir.dtypes import UINT32
from tinyjax.ir.shapes import as_shape
from tinyjax.lax.binding import strict
from tinyjax.lax.layouts import OutSharding, laid_out
from tinyjax.primitives import generators, hidden_state
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind

RandomAlgorithm: TypeAlias = generators.RandomAlgorithm


def rng_bit_generator(
    key: ArrayLike, shape: Sequence[int], dtype: npt.DTypeLike = np.uint32,
    algorithm: RandomAlgorithm | str = RandomAlgorithm.RNG_DEFAULT, *,  out_sharding: OutSharding = None,
) -> tuple[Array, Array]:  # fmt: skip
    """A new state, and random bits of this shape as unsigned integers, by one of XLA's generators.

    The key is its state: two uint64 or four uint32. `tinyjax.random` has better ways.

    Raises:
      ShapeError: the state isn't of this shape.
      ChoiceError: there is no such algorithm.

    >>> import numpy as np
    >>> state, bits = rng_bit_generator(np.array([1, 2], np.uint64), (2,), np.uint8)
    >>> state, bits
    (Array([1, 3], dtype=uint64), Array([ 73, 232], dtype=uint8))
    """
    name = algorithm if isinstance(algorithm, str) else str(getattr(algorithm, "name", algorithm))
    known = RandomAlgorithm.__members__
    if name not in known:
        raise ChoiceError(f"rng_bit_generator: algorithm is one of {', '.join(known)}, got {algorithm!r}")
    made = generators.RngBitGenerator(as_shape(shape), user_dtype(dtype) or UINT32, known[name])
    state, bits = bind(made, as_array(key))
    return state, laid_out(bits, out_sharding)


def rng_uniform(a: ArrayLike, b: ArrayLike, shape: Sequence[int]) -> Array:
    """Numbers of this shape, uniform in [a, b), of the bounds' dtype: each time other ones.

    They come from a state that nobody sees and that has no seed, so they are no function of the arguments. A program
    with them says so (`program.effects`): they aren't merged, nor computed ahead or again, and stay in order. The
    bounds have no derivative and can't be mapped, as in JAX: write `a + (b - a) * lax.rng_uniform(0.0, 1.0, shape)`.
    `random.uniform` takes a key, and gives the same numbers for the same one.

    Raises:
      TypingError: the bounds' dtypes differ, or are other than floats, or integers of 32 or 64 bits.
      ShapeError: a bound isn't a scalar.

    >>> import numpy as np
    >>> x = rng_uniform(np.float32(1.0), np.float32(2.0), (3,))
    >>> x.shape, x.dtype, bool((x >= 1.0).all() and (x < 2.0).all())
    ((3,), dtype('float32'), True)
    """
    return strict(hidden_state.RngUniform(as_shape(shape)), a, b)
