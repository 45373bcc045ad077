"""`debug_nans` and `debug_infs` as blocks: what jax tells in them is told, and where it comes from."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax.errors import NonFiniteError

Case = Callable[[ModuleType, ModuleType], object]


def conditional(m: ModuleType, n: ModuleType) -> object:
    f = m.jit(lambda x: m.lax.cond(x == 1, lambda: np.nan, lambda: 2.0))
    f(2)
    return f(1)


#: Each has nan, or inf, in a result.
NANS: dict[str, Case] = {
    "operation": lambda m, n: 0.0 / n.asarray(0.0),
    "function": lambda m, n: n.log(n.asarray([1.0, -1.0])),
    "compiled": lambda m, n: m.jit(lambda x: 0.0 / x)(n.asarray(0.0)),
    "argument": lambda m, n: m.jit(lambda x: 3.0 * x)(np.nan),
    "literal": lambda m, n: m.jit(lambda x: (np.nan, x + 2))(3),
    "cond": conditional,
    "scan": lambda m, n: m.lax.scan(lambda c, x: (c + n.log(x), c), 0.0, n.asarray([1.0, -1.0])),
    "grad": lambda m, n: m.grad(lambda x: n.sqrt(x) * 0.0)(0.0),
    "grad of compiled": lambda m, n: m.grad(m.jit(lambda x: x / x))(0.0),
    "compiled grad": lambda m, n: m.jit(m.grad(lambda x: n.sqrt(x) * 0.0))(0.0),
    "jvp": lambda m, n: m.jvp(lambda x: n.sqrt(x) * 0.0, (0.0,), (0.0,)),
    "vmap": lambda m, n: m.vmap(n.log)(n.asarray([1.0, -1.0])),
    "donated": lambda m, n: m.jit(lambda x: 0.0 / x, donate_argnums=0)(n.zeros(3)),
    "on the device": lambda m, n: n.log(m.device_put(n.asarray([1.0, -1.0]))),
    "pmap": lambda m, n: m.pmap(lambda x: 0.0 / x)(n.zeros(1)),
}
INFS: dict[str, Case] = {
    "operation": lambda m, n: 1.0 / n.asarray(0.0),
    "compiled": lambda m, n: m.jit(n.exp)(n.asarray([1.0, 1e4])),
    "grad": lambda m, n: m.grad(n.sqrt)(0.0),
}
FINE: dict[str, Case] = {
    "operation": lambda m, n: n.tanh(n.asarray([[1.0, 2.0], [2.0, 3.0]])),
    "several results": lambda m, n: n.linalg.eigh(n.asarray([[1.0, 2.0], [2.0, 3.0]]))[0],
    "compiled": lambda m, n: m.jit(n.tanh)(n.asarray([1.0, 2.0])),
    "untaken": lambda m, n: n.sinc(n.asarray(0.0)),
    "integers": lambda m, n: n.arange(3) // 2,
    "grad": lambda m, n: m.jit(m.grad(lambda x: n.sum(n.tanh(x) ** 2)))(n.arange(3.0)),
}


@pytest.mark.parametrize("name", NANS)
def test_nans_are_told_as_in_jax(name: str) -> None:
    for m, n in ((jax, jnp), (tj, tnp)):
        with pytest.raises(FloatingPointError), m.debug_nans(True):
            jax.block_until_ready(jax.tree.map(np.asarray, NANS[name](m, n)))
    NANS[name](tj, tnp)


@pytest.mark.parametrize("name", INFS)
def test_infs_are_told_as_in_jax(name: str) -> None:
    for m, n in ((jax, jnp), (tj, tnp)):
        with pytest.raises(FloatingPointError), m.debug_infs(True):
            jax.block_until_ready(INFS[name](m, n))
        with m.debug_nans(True):
            INFS[name](m, n)


@pytest.mark.parametrize("name", FINE)
def test_what_is_finite_is_as_outside(name: str) -> None:
    expected = np.asarray(FINE[name](tj, tnp))
    with tj.debug_nans(True), tj.debug_infs(True):
        found = FINE[name](tj, tnp)
    np.testing.assert_array_equal(np.asarray(found), expected)
    assert isinstance(found, tj.Array)


def test_the_operation_and_the_line() -> None:
    f = tj.jit(lambda x: tnp.sum(tnp.log(x) + 1.0))
    words = r"invalid value \(nan\) encountered in log at .*test_finite_blocks.* has nan at index \[1\], of -2.0\. Keep"
    with tj.debug_nans(True), pytest.raises(NonFiniteError, match=words):
        f(np.array([1.0, -2.0]))
    words = r"encountered in div at .*test_finite_blocks.*, of 0.0 and 0.0"
    with tj.debug_nans(True), pytest.raises(NonFiniteError, match=words):
        tnp.asarray(0.0) / 0.0


def test_what_no_operation_makes() -> None:
    words = "encountered in call, in a block of debug_nans. No single operation on the host makes it"
    with tj.debug_nans(True), pytest.raises(NonFiniteError, match=words):
        tj.jit(lambda x: (np.nan, x + 2))(3)


def test_blocks_nest() -> None:
    zero = tnp.asarray(0.0)
    with tj.debug_nans(True):
        assert (tj.debug_nans.value, tj.debug_infs.value) == (True, False)
        with tj.debug_infs(True):
            assert (tj.debug_nans.value, tj.debug_infs.value) == (True, True)
            for number in (0.0, 1.0):
                with pytest.raises(NonFiniteError):
                    number / zero
            with tj.debug_nans(False):
                assert np.isnan(0.0 / zero)
                with pytest.raises(NonFiniteError, match="debug_infs"):
                    1.0 / zero
        with tj.debug_nans(False):
            assert np.isnan(0.0 / zero)
        with pytest.raises(NonFiniteError):
            0.0 / zero
    assert not tj.debug_nans.value
    assert np.isnan(0.0 / zero)


def test_only_here_and_as_a_decorator() -> None:
    zero = tnp.asarray(0.0)
    with tj.debug_nans(True), ThreadPoolExecutor(1) as pool:
        assert np.isnan(pool.submit(lambda: 0.0 / zero).result())

    @tj.debug_nans(True)
    def divided(x: Any) -> Any:
        return x / x

    for _ in range(2):
        with pytest.raises(NonFiniteError):
            divided(zero)
        assert float(divided(tnp.asarray(2.0))) == 1.0


def test_what_is_traced_within_is_a_program() -> None:
    """Elements aren't there yet: the block changes no program, and those that it met run elsewhere as before."""

    def f(x: Any) -> Any:
        with tj.debug_nans(True):
            return x * tnp.log(2.0)

    assert tj.make_jaxpr(f)(1.0) == tj.make_jaxpr(lambda x: x * tnp.log(2.0))(1.0)
    g = tj.jit(lambda x: x / x)
    with tj.debug_nans(True), pytest.raises(NonFiniteError):
        g(0.0)
    assert np.isnan(g(0.0))
