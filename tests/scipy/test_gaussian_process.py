"""The worked example with a Gaussian process: it finds what is likely, and agrees with JAX on how likely."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from examples.gaussian_process import FLOW, Kernel, main, posterior, surprise

YEARS = np.arange(30.0)
LEVELS = (FLOW[:30] - FLOW.mean()) / FLOW.std()


def theirs(kernel: Any, years: Any, flow: Any) -> Any:
    length, level, noise = kernel
    distance = jnp.sqrt(3.0) * jnp.abs(years[:, None] - years[None]) / jnp.exp(length)
    covariance = jnp.exp(2 * level) * (1 + distance) * jnp.exp(-distance) + jnp.exp(2 * noise) * jnp.eye(len(years))
    likely: Any = jsp.stats.multivariate_normal.logpdf(flow, jnp.zeros(len(years)), covariance)
    return -likely


@pytest.mark.sweep
def test_it_is_what_jax_finds() -> None:
    kernel = np.array([1.5, -0.3, -0.2])

    def ours(kernel: tj.Array) -> tj.Array:
        return surprise(Kernel(*kernel), tnp.asarray(YEARS), tnp.asarray(LEVELS))

    value, gradient = tj.value_and_grad(ours)(tnp.asarray(kernel))
    expected, wanted = jax.value_and_grad(theirs)(kernel, YEARS, LEVELS)
    np.testing.assert_allclose(value, expected, rtol=1e-10)
    np.testing.assert_allclose(gradient, wanted, rtol=1e-8)


def test_it_is_sure_where_it_has_seen_without_noise() -> None:
    kernel = Kernel(*map(tnp.asarray, (1.5, 0.0, -12.0)))
    years, flow = tnp.asarray(YEARS), tnp.asarray(LEVELS)
    mean, deviation = posterior(kernel, years, flow, years)
    np.testing.assert_allclose(mean, LEVELS, atol=1e-6)
    np.testing.assert_allclose(deviation, 0, atol=1e-4)
    assert float(posterior(kernel, years, flow, tnp.asarray([300.0]))[1][0]) > 0.99


@pytest.mark.sweep
def test_it_draws(tmp_path: Path) -> None:
    drawn = tmp_path / "nile.svg"
    kernel = main(["--starts", "1", "--picture", str(drawn)])
    assert float(kernel.noise) < 0
    shapes = [found.tag.rpartition("}")[2] for found in ElementTree.parse(drawn).iter()]
    assert shapes.count("circle") == len(FLOW)
    assert {"polygon", "polyline"} <= set(shapes)
