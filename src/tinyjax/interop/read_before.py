"""Equations of JAX's that say the same as one that was read before, as those of a model's layers do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np
from attrs import frozen
from jax.extend.core import JaxprEqn

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom


@final
@frozen
class ReadBefore:
    """What an equation of JAX's is here: the primitive, and what its operands are converted by, in order."""

    steps: tuple[tuple[int, Primitive], ...]
    primitive: Primitive


def key_of(eqn: JaxprEqn, args: Sequence[Atom], expected: Sequence[ShapedArray]) -> object:
    """What equations have in common that are the same here, if they hold no programs; None: that isn't known, as with
    keys of somebody's own."""
    params = eqn.params
    for atom in (*eqn.invars, *eqn.outvars):
        if not isinstance(getattr(atom.aval, "dtype", None), np.dtype):
            return None
    types = tuple(map(type, params.values()))  # 1 is True to a dictionary
    key = eqn.primitive, *params.items(), types, *[arg.aval for arg in args], *expected
    try:
        hash(key)
    except TypeError:
        return None
    return key
