"""Derivatives, mapping and compilation of functions of NumPy's that others define, against jax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp

A = np.random.default_rng(0).normal(size=(3, 4))
v = np.array([3.0, 1.0, 2.0, 5.0])
FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "nansum": lambda m, x: m.nansum(x),
    "nanvar": lambda m, x: m.nanvar(x),
    "nanmedian": lambda m, x: m.nanmedian(x),
    "quantile": lambda m, x: m.quantile(x, m.asarray([0.3, 0.6])),
    "percentile_q": lambda m, x: m.percentile(v, x[0, 0] * 0 + 30),
    "convolve": lambda m, x: m.convolve(x[0], x[1]),
    "correlate": lambda m, x: m.correlate(x[0], v, "same"),
    "interp": lambda m, x: m.interp(x, np.arange(-3, 4.0), np.arange(7.0) ** 2),
    "interpf": lambda m, x: m.interp(0.3, np.arange(4.0), x[0]),
    "gradient": lambda m, x: m.gradient(x)[1],
    "trapezoid": lambda m, x: m.trapezoid(x, axis=0),
    "unwrap": lambda m, x: m.unwrap(x * 9),
    "vander": lambda m, x: m.vander(x[0]),
    "cov": lambda m, x: m.cov(x),
    "corrcoef": lambda m, x: m.corrcoef(x),
    "polyval": lambda m, x: m.polyval(x[0], x[1]),
    "polydiv": lambda m, x: m.polydiv(x[0], x[1][:2])[0],
    "poly": lambda m, x: m.poly(x[0]),
    "append": lambda m, x: m.append(x, x),
    "insert": lambda m, x: m.insert(x, 1, x[:, 0], axis=1),
    "delete": lambda m, x: m.delete(x, 1, axis=0),
    "block": lambda m, x: m.block([[x, x]]),
    "choose": lambda m, x: m.choose(np.array([1, 0, 1, 1]), [x[0], x[1]], mode="clip"),
    "piecewise": lambda m, x: m.piecewise(x, [x < 0, x >= 0], [lambda t: t**2, lambda t: 3 * t]),
    "place": lambda m, x: m.place(x, x > 0, x[0], inplace=False),
    "fill_diagonal": lambda m, x: m.fill_diagonal(x, x[0, 0] * 2, inplace=False),
    "histw": lambda m, x: m.histogram(v, 3, weights=x[0])[0],
    "vectorize": lambda m, x: m.vectorize(lambda a, b: (a * b).sum(), signature="(n),(n)->()")(x, v),
    "along": lambda m, x: m.apply_along_axis(lambda r: r * r.sum(), 0, x),
    "bincount": lambda m, x: m.bincount(np.array([0, 1, 1, 2]), x[0], length=4),
    "ldexp": lambda m, x: m.ldexp(x, 2),
    "ix": lambda m, x: x[m.ix_(np.array([0, 2]), np.array([1, 3]))],
    "r_": lambda m, x: m.r_[x[0], 1.0, x[1]],
    "c_": lambda m, x: m.c_[x[0], x[1]],
    "resize": lambda m, x: m.resize(x, (2, 9)),
    "compress": lambda m, x: m.compress(x[:, 0] > 0, x, axis=0, size=2),
    "outer": lambda m, x: m.frompyfunc(lambda a, b: a * b, 2, 1).outer(x[0], x[1]),
    "reduce": lambda m, x: m.frompyfunc(lambda a, b: a * b, 2, 1).reduce(x),
    "accumulate": lambda m, x: m.frompyfunc(lambda a, b: a * b, 2, 1).accumulate(x),
    "polyint": lambda m, x: m.polyint(x[0], 2),
    "geomspace": lambda m, x: m.geomspace(abs(x) + 1, 5.0, 4),
    "partition": lambda m, x: m.partition(x, 2)[:, 2],
    "sort_complex": lambda m, x: abs(m.sort_complex(x)),
    "trimn": lambda m, x: m.nancumprod(x, axis=1),
    "matvec": lambda m, x: m.matvec(x, x[0]),
    "fromfunction": lambda m, x: m.fromfunction(lambda i, j: i * j + x[0, 0], (2, 3)),
    "extract": lambda m, x: m.extract(x > 0, x, size=3),
    "rollaxis": lambda m, x: m.rollaxis(x, 1),
    "reduceat": lambda m, x: (
        m.frompyfunc(lambda a, b: a + b, 2, 1).reduceat(x, np.array([0, 2]), 1)
        if m is tnp
        else m.add.reduceat(x, np.array([0, 2]), 1)
    ),
    "ufat": lambda m, x: m.frompyfunc(lambda a, b: a + b, 2, 1).at(x[0], np.array([0, 0, 1]), x[1, :3], inplace=False),
}

SAMPLE = {"quantile"}


@pytest.mark.parametrize("name", [pytest.param(x, marks=() if x in SAMPLE else pytest.mark.sweep) for x in FUNCTIONS])
def test_transformed(name: str) -> None:
    function = FUNCTIONS[name]

    def results(of: Any, m: Any) -> list[Any]:
        def f(x: Any) -> Any:
            return function(m, x)

        def total(x: Any) -> Any:
            y = f(x)
            return (y * m.cos(m.arange(1.0, 1 + y.size).reshape(y.shape))).sum()

        found = [of.jit(f)(A), of.jvp(f, (A,), (np.cos(A),))[1], of.grad(total)(A), of.vmap(f)(np.stack([A, A[::-1]]))]
        return found if name in ("reduce", "accumulate") else [*found, of.jit(of.jacfwd(of.grad(total)))(A)]

    for found, expected in zip(results(tj, tnp), results(jax, jnp), strict=True):
        np.testing.assert_allclose(found, expected, 1e-7, 1e-9)
