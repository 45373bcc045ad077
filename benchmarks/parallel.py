"""Programs on eight devices: steps of training, and calls of functions that do next to nothing.

A process has as many CPU devices as it is told before it starts, and one that has eight isn't what the other measures
are about: `parallel` runs this file as a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

import attrs
import jax
import numpy as np

from benchmarks.library import OURS, THEIRS, A, Library, Spec
from benchmarks.programs import Floats, Mlp, Program
from benchmarks.running import incrementing, repeat
from benchmarks.timing import Comparison, check, compare

CALLS = 100
RUNS = 10


def parallel(rounds: int) -> Iterator[Comparison]:
    """The measures, in a process that has eight devices."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8".strip()
    command = [sys.executable, "-m", "benchmarks.parallel", str(rounds)]
    done = subprocess.run(
        command, env={**os.environ, "XLA_FLAGS": flags}, stdout=subprocess.PIPE, check=True, encoding="utf-8"
    )
    for found in json.loads(done.stdout):
        yield Comparison(**{**found, "ours": tuple(found["ours"]), "theirs": tuple(found["theirs"])})


def measures(rounds: int) -> Iterator[Comparison]:
    """The measures, in this process."""
    for name, specs in STEPS.items():
        ours, theirs = step(OURS, specs), step(THEIRS, specs)
        check(name, ours(), theirs())
        yield compare(
            "step on 8 devices", name, repeat(ours, RUNS), repeat(theirs, RUNS), units=RUNS, rounds=2 * rounds + 1
        )
    for name, count in (("1 array", 1), ("10 arrays", 10)):
        mine, others = call(OURS, count), call(THEIRS, count)
        check(name, mine(), others())
        yield compare(
            "call on 8 devices", name, repeat(mine, CALLS), repeat(others, CALLS), units=CALLS, rounds=2 * rounds + 1
        )


def _normal(seed: int, *shape: int) -> Floats:
    scaled: Floats = np.random.default_rng(seed).normal(scale=shape[0] ** -0.5, size=shape)
    return scaled


MLP = Program("network", (_normal(0, 512, 256), _normal(1, 256, 512), _normal(2, 512, 256), _normal(3, 256, 8)), Mlp())
#: How the batch and the weights lie.
STEPS: Mapping[str, Sequence[Spec]] = {
    "network, data-parallel": [(("x", "y"),), (), (), ()],
    "network, tensor-parallel": [(), (None, ("x", "y")), (("x", "y"), None), ()],
    "network, both": [("x",), (None, "y"), ("y", None), ()],
}


def step(lib: Library[A], specs: Sequence[Spec]) -> Callable[[], object]:
    """A gradient of a network, whose results are waited for."""
    args = [lib.divided(array, spec) for array, spec in zip(MLP.arrays, specs, strict=True)]
    function = lib.jit_any(MLP.function(lib))
    return lambda: lib.wait(function(args))


def call(lib: Library[A], count: int) -> Callable[[], object]:
    """A call with so many arrays, each on all devices."""
    x = lib.divided(np.arange(64.0), (("x", "y"),))
    function, args = incrementing(lib), [x] * count
    return lambda: lib.wait(function(*args))


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    print(json.dumps([attrs.asdict(found) for found in measures(int(sys.argv[1]))]))
