"""A Gaussian process finds the level of the Nile under the noise of its floods.

How likely the data are takes a Cholesky decomposition, a triangular system and a sum of logarithms; `minimize` finds
the lengths and sizes that make them most likely, with the gradient through all of that. The picture shows the level
with twice its standard deviation, and the floods.

    python examples/gaussian_process.py
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from rich.progress import track

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax.lax import linalg
from tinyjax.scipy.optimize import minimize

FIRST_YEAR: Final = 1871
#: Annual flow at Aswan, in 10^8 m^3: G. W. Cobb, "The problem of the Nile" (Biometrika, 1978).
FLOW: Final = np.loadtxt(Path(__file__).parent / "data" / "nile.txt").ravel()


class Kernel(NamedTuple):
    """Logarithms of what is positive: how long the level remembers (years), how much it varies, and the noise."""

    length: tj.Array
    level: tj.Array
    noise: tj.Array


def covariance(kernel: Kernel, x: tj.Array, y: tj.Array) -> tj.Array:
    """Of the level at times x (n,) and y (m,): Matérn's, for functions with one derivative."""
    distance = math.sqrt(3) * tnp.abs(x[:, None] - y[None]) / tnp.exp(kernel.length)
    return tnp.exp(2 * kernel.level) * (1 + distance) * tnp.exp(-distance)


def factor(kernel: Kernel, years: tj.Array) -> tj.Array:
    """The Cholesky factor of the covariance of the observations."""
    noise = tnp.exp(2 * kernel.noise) * tnp.eye(len(years))
    return linalg.cholesky(covariance(kernel, years, years) + noise)


def surprise(kernel: Kernel, years: tj.Array, flow: tj.Array) -> tj.Array:
    """How unlikely the observations are: the negative logarithm of their density."""
    lower = factor(kernel, years)
    whitened = linalg.triangular_solve(lower, flow[:, None], left_side=True, lower=True)[:, 0]
    return whitened @ whitened / 2 + tnp.sum(tnp.log(tnp.diagonal(lower))) + len(years) / 2 * math.log(2 * math.pi)


@tj.jit
def posterior(kernel: Kernel, years: tj.Array, flow: tj.Array, asked: tj.Array) -> tuple[tj.Array, tj.Array]:
    """The level at other times: mean and standard deviation."""
    lower = factor(kernel, years)
    both = tnp.concatenate([covariance(kernel, years, asked), flow[:, None]], 1)
    solved = linalg.triangular_solve(lower, both, left_side=True, lower=True)
    across, whitened = solved[:, :-1], solved[:, -1]
    variance = tnp.exp(2 * kernel.level) - tnp.sum(across**2, 0)
    return across.T @ whitened, tnp.sqrt(tnp.maximum(variance, 0))


@tj.jit
def fit(start: tj.Array, years: tj.Array, flow: tj.Array) -> tuple[tj.Array, tj.Array]:
    """The most likely kernel, from this one on, and how surprising the observations are to it."""
    found = minimize(lambda x: surprise(Kernel(*x), years, flow), start, method="BFGS")
    return found.x, found.fun


def picture(years: npt.ArrayLike, mean: npt.ArrayLike, deviation: npt.ArrayLike) -> str:
    """An SVG of the floods, the level, and the band of twice its standard deviation."""
    times, level, spread = np.asarray(years), np.asarray(mean), 2 * np.asarray(deviation)

    def at(x: float, y: float) -> str:
        return f"{40 + 5.2 * (x - FIRST_YEAR):.1f},{250 - 0.22 * (y - 400):.1f}"

    upper = [at(x, y) for x, y in zip(times, level + spread, strict=True)]
    under = [at(x, y) for x, y in zip(times[::-1], (level - spread)[::-1], strict=True)]
    line = " ".join(at(x, y) for x, y in zip(times, level, strict=True))
    parts = [f'<polygon points="{" ".join(upper + under)}" fill="#bcd6f2"/>']
    parts.append(f'<polyline points="{line}" fill="none" stroke="#1f5fa8" stroke-width="2"/>')
    for year, flow in enumerate(FLOW, FIRST_YEAR):
        x, y = at(year, flow).split(",")
        parts.append(f'<circle cx="{x}" cy="{y}" r="2.2" fill="#24292f"/>')
    parts += [
        f'<text x="{at(year, 0).split(",")[0]}" y="270" text-anchor="middle">{year}</text>'
        for year in range(1880, 1971, 15)
    ]
    parts += [
        f'<text x="34" y="{at(FIRST_YEAR, flow).split(",")[1]}" text-anchor="end">{flow}</text>'
        for flow in (600, 900, 1200)
    ]
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 600 280" font-family="sans-serif" font-size="11">'
        f'<rect width="600" height="280" fill="white"/>{"".join(parts)}</svg>\n'
    )


def main(arguments: Sequence[str] | None = None) -> Kernel:
    parser = argparse.ArgumentParser(description="A Gaussian process of the floods of the Nile.")
    parser.add_argument("--starts", type=int, default=4, help="from how many kernels on (default: %(default)s)")
    parser.add_argument("--picture", type=Path, default=Path("nile.svg"), help="default: %(default)s")
    options = parser.parse_args(arguments)

    years = tnp.arange(float(len(FLOW)))
    usual, size = float(FLOW.mean()), float(FLOW.std())
    flow = tnp.asarray((FLOW - usual) / size)
    best, least = tnp.zeros(3), math.inf
    for start in track(range(options.starts), "Fitting"):
        found, value = fit(tnp.asarray([math.log(3.0 * 4**start), 0.0, 0.0]), years, flow)
        if float(value) < least:
            best, least = found, float(value)
    kernel = Kernel(*best)
    asked = tnp.arange(0.0, len(FLOW), 0.25)
    mean, deviation = posterior(kernel, years, flow, asked)
    options.picture.write_text(picture(asked + FIRST_YEAR, mean * size + usual, deviation * size))
    length, level, noise = (float(tnp.exp(value)) for value in kernel)
    print(
        f"The level remembers {length:.0f} years and varies by {level * size:.0f}, floods by {noise * size:.0f}; "
        f"see {options.picture}"
    )
    return kernel


if __name__ == "__main__":
    main()
