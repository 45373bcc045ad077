"""Exponentials that add up to 1 and their like, of as many numbers as XLA hands to a library that forgets nan: their
maximum may forget it, too, and no result does."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import numpy as np
import pytest
from jax import numpy as jnp
from jax import scipy as jsp

import tinyjax as tj
import tinyjax.scipy.special
from tests.compiled import instructions
from tinyjax import numpy as tnp
from tinyjax.interop.jax import to_jax

#: Each of a library's modules `nn`, `numpy` and `scipy.special`.
FUNCTIONS: dict[str, Callable[[ModuleType, ModuleType, ModuleType], Callable[..., Any]]] = {
    "softmax": lambda nn, np_, special: nn.softmax,
    "log_softmax": lambda nn, np_, special: nn.log_softmax,
    "logsumexp": lambda nn, np_, special: lambda x: special.logsumexp(x, axis=-1),
    "softmax of all": lambda nn, np_, special: special.softmax,
    "log_softmax of all": lambda nn, np_, special: special.log_softmax,
    "softmax where": lambda nn, np_, special: lambda x: nn.softmax(x, where=x < 2.0),
}
OURS, THEIRS = (tj.nn, tnp, tj.scipy.special), (jax.nn, jnp, jsp.special)
#: Rows with a nan first, in the middle or last, one that is infinite, one that is -inf throughout.
ROWS = np.random.default_rng(0).normal(size=(64, 128))
ROWS[3, 0] = ROWS[5, 77] = ROWS[8, -1] = ROWS[9, 4] = math.nan
ROWS[9, 3], ROWS[11, 5], ROWS[13], ROWS[15] = math.inf, math.inf, -math.inf, math.nan


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_compiled_as_on_the_host(name: str, dtype: str) -> None:
    f = FUNCTIONS[name](*OURS)
    x = tnp.asarray(ROWS).astype(dtype)
    found, expected = (np.asarray(y).astype(float) for y in (tj.jit(f)(x), f(x)))
    assert np.isnan(expected).any()
    rtol, atol = (2e-2, 1e-2) if "16" in dtype else (1e-5, 1e-6)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_compiled_as_on_the_host(name: str) -> None:
    f = FUNCTIONS[name](*OURS)
    gradient = tj.grad(lambda x: tnp.sum(tnp.sin(f(x))))
    np.testing.assert_allclose(tj.jit(gradient)(ROWS), gradient(ROWS), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_more_instructions_than_jax(name: str) -> None:
    """A maximum that keeps nan takes 80 more."""
    x = ROWS.astype("f4")
    ours = tj.jit(FUNCTIONS[name](*OURS)).lower(x).compile()
    theirs = jax.jit(FUNCTIONS[name](*THEIRS)).lower(x).compile()
    assert instructions(ours.as_text()) <= instructions(str(theirs.as_text())) + 3


def test_the_mode_stays_through_batching_text_and_interop() -> None:
    x = np.ones((2, 3))
    for program in (
        tj.make_jaxpr(tj.nn.softmax)(x),
        tj.make_jaxpr(tj.vmap(tj.nn.softmax, 1))(x),
        tj.make_jaxpr(tj.grad(lambda x: tnp.sum(tj.vmap(tj.nn.softmax)(x) ** 2)))(x),
    ):
        maxima = re.findall(r"reduce_max\[.*?\]", str(program))
        assert maxima
        assert all("nan_mode=NanMode.EITHER" in text for text in maxima)
        assert tj.ir.parse(str(program.jaxpr)) == program.jaxpr
    np.testing.assert_allclose(jax.jit(to_jax(tj.make_jaxpr(tj.nn.softmax)(x)))(x), np.full((2, 3), 1 / 3))
