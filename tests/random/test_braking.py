"""The worked example of Hamiltonian Monte Carlo: the density, the paths and the numbers are JAX's, and it converges."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import jax.scipy.stats
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from examples.braking import DISTANCE, LEAPS, MIDDLE, SPEED, Line, leap, log_density, main, move
from tinyjax import random

LINE = Line(*map(tnp.asarray, (3.6, 1.6, -0.9)))


def theirs(line: Any) -> Any:
    norm = jax.scipy.stats.norm
    level, power, error = line
    before = norm.logpdf(level, 3.0, 2.0) + norm.logpdf(power, 1.5, 1.0) + norm.logpdf(error, -1.0, 1.0)
    expected = level + power * (jnp.log(SPEED) - MIDDLE)
    return before + jnp.sum(norm.logpdf(jnp.log(DISTANCE), expected, jnp.exp(error)))


def test_the_density_is_that_of_jax() -> None:
    value, gradient = tj.value_and_grad(log_density)(LINE)
    expected, wanted = jax.value_and_grad(theirs)(tuple(map(float, LINE)))
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(np.asarray(gradient), np.asarray(wanted), rtol=1e-9)


@pytest.mark.sweep
def test_a_move_is_that_of_jax() -> None:
    pushes, _ = jax.random.split(jax.random.key(5))
    line, momentum = np.array(list(map(float, LINE))), np.asarray(jax.random.normal(pushes, (3,), "float64"))
    moving = Line(*map(tnp.asarray, momentum))
    slope = jax.grad(lambda x: theirs(tuple(x)))
    x, p = line, momentum
    for _ in range(LEAPS):
        p = p + 0.03 * np.asarray(slope(x))
        x = x + 0.06 * p
        p = p + 0.03 * np.asarray(slope(x))
    np.testing.assert_allclose(np.asarray(leap(LINE, moving, 0.06)[0]), x, rtol=1e-8)
    moved, accepted = move(LINE, random.key(5), 0.06)
    assert bool(accepted)
    np.testing.assert_allclose(np.asarray(moved), x, rtol=1e-6)


@pytest.mark.sweep
def test_it_draws(tmp_path: Path) -> None:
    drawn = tmp_path / "braking.svg"
    sample = main(["--samples", "20", "--chains", "2", "--picture", str(drawn)])
    assert sample.power.shape == (2, 20)
    shapes = [found.tag.rpartition("}")[2] for found in ElementTree.parse(drawn).iter()]
    assert (shapes.count("circle"), shapes.count("polyline")) == (50, 60)


@pytest.mark.sweep
def test_it_finds_the_line(tmp_path: Path) -> None:
    sample = main(["--picture", str(tmp_path / "braking.svg")])
    power, level = np.polyfit(np.log(SPEED) - MIDDLE, np.log(DISTANCE), 1)
    assert abs(float(tnp.mean(sample.power)) - power) < 0.05
    assert abs(float(tnp.mean(sample.level)) - level) < 0.05
