"""Kinds of dtypes that NumPy doesn't have: those of keys of random numbers."""

from __future__ import annotations

from typing import Final

import numpy as np


class extended(np.generic):  # noqa: N801 - kinds of dtypes are written so
    """The kind of all dtypes that aren't NumPy's own and hold no numbers."""


class prng_key(extended):  # noqa: N801
    """The kind of the dtypes of keys: `issubdtype(key.dtype, prng_key)`."""


KINDS: Final = frozenset({extended, prng_key})
