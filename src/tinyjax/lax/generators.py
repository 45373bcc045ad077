"""Random bits of XLA's generators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tinyjax.arrays.elementwise import user_dtype
from tinyjax.errors import ChoiceError
from tinyjax.ir.dtypes import UINT32
from tinyjax.ir.shapes import as_shape
from tinyjax.lax.layouts import OutSharding, laid_out
from tinyjax.primitives import generators
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
