"""Positions that were computed with 64 bits are kept with 32, where they are nothing but positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import jax
import numpy as np
import pytest
from jax import numpy as jnp

import tinyjax as tj
from tests.api.test_residual_bytes import kept, kept_by_jax
from tinyjax import numpy as tnp
from tinyjax.transforms import partial_eval

#: Any: functions of arrays of either library, whose module they are given.
Function = Callable[..., Any]
X: Final = np.random.default_rng(0).normal(size=(12, 9)).astype("float32")
EDGES: Final = np.linspace(-2, 2, 9).astype("float32")
WHERE: Final = np.random.default_rng(1).uniform(0.5, 7.5, (20, 2)).astype("float32")


def sorted_by_positions(m: Any) -> Function:
    return lambda x: m.take_along_axis(x, m.argsort(x, -1), -1) * np.arange(9, dtype="float32")


def ranked(m: Any) -> Function:
    return lambda x: m.cumsum(x[:, 0][m.argsort(-x[:, 0])]) * m.arange(12, dtype="float32")


def interpolated(m: Any) -> Function:
    def run(x: Any) -> Any:
        low = m.floor(m.asarray(WHERE) * (1.0 - 0.01 * m.sin(x[0, 0]) ** 2))
        at, part = low.astype(int), m.asarray(WHERE) - low
        i, j, a, b = at[:, 0], at[:, 1], part[:, 0], part[:, 1]
        upper = x[i, j] * (1 - b) + x[i, j + 1] * b
        return upper * (1 - a) + (x[i + 1, j] * (1 - b) + x[i + 1, j + 1] * b) * a

    return run


def bins(m: Any) -> Function:
    return lambda x: m.take_along_axis(x, m.searchsorted(m.asarray(EDGES), x), 0) * x


def parts(m: Any) -> Function:
    return lambda x: m.sin(m.take_along_axis(x, m.argpartition(x, 4, -1)[:, :4], -1))


def added(m: Any) -> Function:
    return lambda x: m.zeros((9, 9), "float32").at[m.argsort(x[:, 0]) % 9].add(m.sin(x))


PROGRAMS: Final = (sorted_by_positions, ranked, interpolated, bins, parts, added)


@pytest.mark.sweep
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "jit"])
def test_no_more_is_kept_than_by_jax_with_32_bits(program: Callable[[Any], Function], compiled: bool) -> None:
    ours, theirs = program(tnp), program(jnp)
    ours = tj.jit(ours) if compiled else ours
    with jax.enable_x64(False):
        assert kept(ours, X) <= 1.05 * kept_by_jax(theirs, X)
        expected, pull = jax.vjp(theirs, X)
        (gradient,) = pull(jnp.ones_like(expected))
    found, back = tj.vjp(ours, X)
    np.testing.assert_allclose(found, np.asarray(expected), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(back(tnp.ones_like(found))[0], np.asarray(gradient), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["fill", "clip"])
def test_positions_beyond_32_bits(mode: str) -> None:
    """They don't come back within the axis, whatever becomes of those that aren't there."""
    far = np.array([0, 1, 2**32 + 2, -(2**32) + 3, 2**31 + 1, -(2**31) - 1, 2**62, -3, 11])
    x = np.linspace(1.0, 2.0, 7)
    places = np.where(far < 0, far + 7, far)
    count = np.zeros(7)
    if mode == "clip":
        np.add.at(count, np.clip(places, 0, 6), 1.0)
    else:
        np.add.at(count, places[(places >= 0) & (places < 7)], 1.0)

    def read(x: Any, at: Any) -> Any:
        return (x.at[at].get(mode=mode, **({"fill_value": 0.0} if mode == "fill" else {})) ** 2).sum()

    def write(x: Any, at: Any) -> Any:
        return (tnp.zeros(7).at[at].add(x[0], mode=mode) * x).sum()

    written = count * x[0] + np.eye(7)[0] * (count * x).sum()
    for f, expected in ((read, 2.0 * x * count), (write, written)):
        for g in (tj.grad(f), tj.jit(tj.grad(f)), tj.grad(tj.jit(f))):
            np.testing.assert_allclose(g(x, far), expected, rtol=1e-12)


def dtypes(f: Function, *args: object) -> set[str]:
    return {found.aval.dtype.name for found in tj.saved_residuals(f, *args) if found.aval.ndim}


def test_what_others_hold_stays() -> None:
    """Arguments, of which a narrower copy would take room where they take none; and what is read as numbers."""
    at, x = np.arange(5) % 3, np.linspace(1.0, 2.0, 7)
    assert dtypes(lambda x, at: x.at[at].get(wrap_negative_indices=False), x, at) == {"int64"}
    assert dtypes(lambda x, at: x[at], x, at) == {"int32"}  # which is a copy anyway, without negative ones
    assert dtypes(lambda x: x[tnp.argsort(x)], x) == {"int32"}

    def read_too(x: Any) -> Any:
        order = tnp.argsort(x)
        return x[order], tj.lax.cumsum(x)[order // 2 * 2], x * order

    assert "int64" in dtypes(lambda x: read_too(x)[2], x)
    for i in range(3):
        one = lambda x, i=i: (read_too(x)[i] * np.arange(7.0)).sum()  # noqa: E731
        np.testing.assert_allclose(tj.grad(one)(x), tj.jit(tj.grad(one))(x))


def test_of_programs() -> None:
    """Programs are divided in the same way, and mapped and looped ones too."""

    def f(x: Any) -> Any:
        return x[tnp.argsort(x)] ** 2

    program = tj.make_jaxpr(lambda x, t: tj.jvp(f, (x,), (t,))[1])(X[0], X[0])
    found = partial_eval(program, (False, True))
    assert {res.aval.dtype.name for res in found.residuals if res.aval.shape} == {"int32", "float32"}
    assert {atom.aval.dtype.name for atom in found.staged.jaxpr.invars if atom.aval.shape} == {"int32", "float32"}
    mapped = lambda x: (tj.vmap(f)(x) * X).sum()  # noqa: E731
    looped = lambda x: (tj.lax.scan(lambda c, row: (c, f(row) * c), 1.0, x)[1] * X).sum()  # noqa: E731
    for g in (mapped, looped):
        np.testing.assert_allclose(tj.grad(g)(X), tj.jit(tj.grad(g))(X), rtol=1e-5)
        np.testing.assert_allclose(tj.grad(g)(X), tj.grad(mapped)(X), rtol=1e-5)
    hessian = tj.hessian(lambda x: (f(x) * np.arange(9.0)).sum())(X[0])
    np.testing.assert_allclose(np.diag(np.diag(hessian)), hessian)
