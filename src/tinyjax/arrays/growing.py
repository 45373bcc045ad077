"""Functions that grow as exp(|x|) does."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tinyjax.arrays.elementwise import apply, constant_like, where
from tinyjax.ir.dtypes import FLOAT16, FLOAT64
from tinyjax.primitives import exponential, rounding

if TYPE_CHECKING:
    from tinyjax.tracing.array import Array

#: The least power of two that is infinite; 128 of others.
_INFINITE: Final = {FLOAT16: 16, FLOAT64: 1024}


def grown(x: Array, scaled: Callable[[Array], Array]) -> Array:
    """exp(|x|) times a function of floats, which at large ones is infinite, with a derivative that is, too."""
    size = x * apply(rounding.sign, x)  # whose derivative at 0 is 0
    far = size > _INFINITE.get(x.dtype, 128) * math.log(2)
    zero = constant_like(x, 0)
    near, there = where(far, zero, x), where(far, zero, size)
    beyond = apply(exponential.exp, size) * apply(rounding.sign, scaled(x))
    return where(far, beyond, apply(exponential.exp, there) * scaled(near))
