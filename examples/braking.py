"""How far a car goes before it stands: a Bayesian regression by Hamiltonian Monte Carlo.

The distance grows as a power of the speed, with errors that grow too: the logarithms lie about a line. The density of
its two parameters and of the errors is known up to a factor, and its gradient moves them like a ball that rolls where
they are likely (R. M. Neal, "MCMC using Hamiltonian dynamics", 2011). Four chains run side by side by `vmap`, each step
of them is a scan, and the numbers are those of `jax.random`. The picture shows the data and lines of the sample.

    python examples/braking.py
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from rich.progress import track

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import lax, random
from tinyjax.scipy.stats import norm

SPEED, DISTANCE = np.loadtxt(Path(__file__).parent / "data" / "cars.txt", unpack=True)
MIDDLE: Final = float(np.log(SPEED).mean())
LEAPS: Final = 12


class Line(NamedTuple):
    """The logarithm of the distance at the middle speed, the power, and the logarithm of the size of the errors."""

    level: tj.Array
    power: tj.Array
    error: tj.Array


def log_density(line: Line) -> tj.Array:
    """How likely the line is before anything is seen, and the data with it."""
    before = norm.logpdf(line.level, 3.0, 2.0) + norm.logpdf(line.power, 1.5, 1.0) + norm.logpdf(line.error, -1.0, 1.0)
    expected = line.level + line.power * (tnp.log(SPEED) - MIDDLE)
    return before + tnp.sum(norm.logpdf(tnp.log(DISTANCE), expected, tnp.exp(line.error)))


def leap(line: Line, momentum: Line, size: float) -> tuple[Line, Line]:
    """Some steps along the path of a ball that has this momentum, by the leapfrog method."""

    def kick(momentum: Line, line: Line, share: float) -> Line:
        return tj.tree.map(lambda p, g: p + share * size * g, momentum, tj.grad(log_density)(line))

    def step(state: tuple[Line, Line], _: None) -> tuple[tuple[Line, Line], None]:
        line, momentum = state
        momentum = kick(momentum, line, 0.5)
        line = tj.tree.map(lambda x, p: x + size * p, line, momentum)
        return (line, kick(momentum, line, 0.5)), None

    return lax.scan(step, (line, momentum), None, length=LEAPS)[0]


def energy(line: Line, momentum: Line) -> tj.Array:
    return sum((p * p / 2 for p in momentum), start=-log_density(line))


def move(line: Line, key: tj.Array, size: float) -> tuple[Line, tj.Array]:
    """One sample after another: where the ball comes to, unless its energy has grown too much; and whether it moved."""
    pushes, choice = random.split(key)
    momentum = Line(*random.normal(pushes, (3,), line.level.dtype))
    there, faster = leap(line, momentum, size)
    odds = energy(line, momentum) - energy(there, faster)
    accepted = tnp.log(random.uniform(choice, (), line.level.dtype)) < odds
    return tj.tree.map(lambda new, old: tnp.where(accepted, new, old), there, line), accepted


@partial(tj.jit, static_argnames=("count", "size"))
def run(line: Line, key: tj.Array, count: int, size: float) -> tuple[Line, Line, tj.Array]:
    """Chains that go on: where they end, what they passed, shape (chains, count), and the share that was accepted."""

    def chain(line: Line, key: tj.Array) -> tuple[Line, tuple[Line, tj.Array]]:
        def step(line: Line, key: tj.Array) -> tuple[Line, tuple[Line, tj.Array]]:
            moved, accepted = move(line, key, size)
            return moved, (moved, accepted)

        return lax.scan(step, line, random.split(key, count))

    last, (passed, accepted) = tj.vmap(chain)(line, random.split(key, len(line.level)))
    return last, passed, tnp.mean(accepted.astype("float64"))


def scale_reduction(x: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    """How much wider all chains together are than each: near 1 once they agree (A. Gelman and D. B. Rubin, 1992)."""
    count = x.shape[1]
    within, between = x.var(axis=1, ddof=1).mean(), count * x.mean(axis=1).var(ddof=1)
    return float(np.sqrt((count - 1) / count + between / within / count))


def picture(lines: Sequence[tuple[float, float]]) -> str:
    """An SVG of the data, and of lines by their levels and powers."""
    speeds = np.linspace(3, 26, 60)

    def at(speed: float, distance: float) -> str:
        return f"{40 + 20 * speed:.1f},{255 - 1.9 * distance:.1f}"

    parts = []
    for level, power in lines:
        curve = np.exp(level + power * (np.log(speeds) - MIDDLE))
        points = " ".join(at(x, y) for x, y in zip(speeds, curve, strict=True))
        parts.append(f'<polyline points="{points}" fill="none" stroke="#1f5fa8" stroke-opacity="0.15"/>')
    for speed, distance in zip(SPEED, DISTANCE, strict=True):
        x, y = at(speed, distance).split(",")
        parts.append(f'<circle cx="{x}" cy="{y}" r="2.4" fill="#24292f"/>')
    parts += [f'<text x="{40 + 20 * s}" y="272" text-anchor="middle">{s} mph</text>' for s in range(5, 26, 5)]
    parts += [f'<text x="42" y="{258 - 1.9 * d:.1f}" text-anchor="end">{d} ft</text>' for d in range(0, 121, 40)]
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 600 280" font-family="sans-serif" font-size="11">'
        f'<rect width="600" height="280" fill="white"/>{"".join(parts)}</svg>\n'
    )


def main(arguments: Sequence[str] | None = None) -> Line:
    parser = argparse.ArgumentParser(description="Stopping distances by Hamiltonian Monte Carlo.")
    parser.add_argument("--samples", type=int, default=1000, help="of each chain (default: %(default)s)")
    parser.add_argument("--chains", type=int, default=4, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument("--picture", type=Path, default=Path("braking.svg"), help="default: %(default)s")
    options = parser.parse_args(arguments)

    first, key = random.split(random.key(options.seed))
    start = 0.3 * random.normal(first, (3, options.chains), "float64")
    line, rounds = Line(3.5 + start[0], 1.5 + start[1], -0.5 + start[2]), 12
    each = max(options.samples // (rounds - 2), 1)
    kept: list[Line] = []
    shares: list[float] = []
    for number, once in enumerate(track(list(random.split(key, rounds)), "Sampling")):
        # The first ones, in small steps, are still on their way to where the line is likely.
        line, passed, accepted = run(line, once, each, 0.02 if number < 2 else 0.06)
        if number >= 2:
            kept.append(passed)
            shares.append(float(accepted))
    sample = Line(*(tnp.concatenate(parts, axis=1) for parts in zip(*kept, strict=True)))
    worst = max(scale_reduction(np.asarray(x)) for x in sample)
    level, power = np.asarray(sample.level).ravel(), np.asarray(sample.power).ravel()
    shown = np.linspace(0, len(power) - 1, 60).astype(int)
    options.picture.write_text(picture([(float(level[i]), float(power[i])) for i in shown]))
    print(
        f"distance ~ speed^{power.mean():.2f} (±{power.std():.2f}); {np.mean(shares):.0%} of {power.size} moves "
        f"accepted, scale reduction {worst:.3f}; see {options.picture}"
    )
    return sample


if __name__ == "__main__":
    main()
