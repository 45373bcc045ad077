"""Loops that Python runs, where nothing is to be compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tinyjax.lax.joining import stack
from tinyjax.lax.within import known
from tinyjax.tracing import tree
from tinyjax.tracing.concrete import as_array


def while_by_python(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init: object) -> tuple[bool, Any]:
    """The value after a loop, if its condition is known from the beginning: whether it is, and the value."""
    value = tree.map_leaves(as_array, init)
    going = as_array(cond_fun(value))
    if not known(going) or going.aval.shape:
        return False, None
    while np.asarray(going):
        value = body_fun(value)
        going = as_array(cond_fun(value))
    return True, tree.map_leaves(as_array, value)


def scan_by_python(
    f: Callable[[Any, Any], tuple[Any, Any]], init: object, xs: object, length: int, reverse: bool
) -> tuple[Any, Any]:
    """The last carry, and what was returned beside it, stacked; for at least one iteration."""
    carry = tree.map_leaves(as_array, init)
    arrays = tree.map_leaves(as_array, xs)
    ys: list[Any] = [None] * length
    for i in range(length)[::-1] if reverse else range(length):
        carry, ys[i] = f(carry, tree.map_leaves(lambda x, i=i: x[i], arrays))
    return tree.map_leaves(as_array, carry), tree.map_leaves(lambda *rows: stack(rows), *ys)
