"""Public functions take their arguments under jax's names, in jax's order and with jax's defaults."""

from __future__ import annotations

import inspect
from typing import Any, cast

import jax
import pytest

import tinyjax as tj
from tinyjax.errors import UnsupportedError

#: What jax has and tinyjax doesn't: sharding, devices, deprecated switches.
MISSING = {
    "device_put": {"device", "src", "donate", "may_alias"},
    "jit": {"keep_unused", "device", "backend", "inline", "compiler_options"},
    "linear_transpose": {"reduce_axes"},
    "linearize": {"in_nzs"},  # jax 0.11
    "make_jaxpr": {"abstracted_axes"},
    "vjp": {"reduce_axes", "in_nzs", "saveable_args"},
    "vmap": {"spmd_axis_name", "sum_match"},
}
NAMES = [
    *("jit", "vmap", "grad", "value_and_grad", "jvp", "vjp", "linearize", "linear_transpose", "jacfwd", "jacrev"),
    *("hessian", "make_jaxpr", "eval_shape", "device_put", "device_get", "block_until_ready"),
]


@pytest.mark.parametrize("name", NAMES)
def test_names_and_defaults(name: str) -> None:
    ours = inspect.signature(getattr(tj, name)).parameters
    theirs = inspect.signature(getattr(jax, name)).parameters
    shared = [key for key in ours if key in theirs]
    assert shared == [key for key in theirs if key in ours]
    assert set(theirs) - set(ours) <= MISSING.get(name, set())
    for key in shared:
        expected, found = theirs[key].default, ours[key].default
        if key != "fun" and type(expected).__name__ != "UnspecifiedValue":  # None, here
            assert found == expected, key


def test_what_jax_takes_no_longer() -> None:
    assert tj.grad(lambda x: x * x, reduce_axes=())(3.0) == 6.0
    assert tj.value_and_grad(lambda x: x * x, reduce_axes=())(3.0) == (9.0, 6.0)
    with pytest.raises(UnsupportedError, match=r"reduce_axes is \(\). Apply lax.psum"):
        tj.grad(lambda x: x * x, reduce_axes=cast(Any, ("i",)))
