"""Public functions take their arguments under jax's names, in jax's order and with jax's defaults."""

from __future__ import annotations

import inspect

import jax
import pytest

import tinyjax as tj

#: What jax has and tinyjax doesn't: sharding, devices, deprecated switches.
MISSING = {
    "device_put": {"device", "src", "donate", "may_alias"},
    "grad": {"reduce_axes"},
    "jit": {"keep_unused", "device", "backend", "inline", "compiler_options"},
    "linear_transpose": {"reduce_axes"},
    "linearize": {"in_nzs"},  # jax 0.11
    "make_jaxpr": {"abstracted_axes"},
    "value_and_grad": {"reduce_axes"},
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
