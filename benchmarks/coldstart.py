"""How long a process takes from its start to the first result, with everything that is kept on disk there already."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from benchmarks.timing import Comparison

#: The gradient of a small network, compiled, on NumPy arrays; `{jnp}` is the library's numpy.
_GRADIENT: Final = """
import numpy as np
{imports}

def loss(weights, x):
    for w in weights:
        x = {jnp}.tanh(x @ w)
    return {jnp}.sum(x * x)

step = {lib}.jit({lib}.grad(loss))
weights = [np.full((4, 4), 0.1, "float32")] * 3
found = step(weights, np.ones((8, 4), "float32"))
assert abs(float(np.asarray(found[0])[0, 0]) - 0.12851416) < 1e-5, found
"""
_OURS: Final = {"imports": "import tinyjax", "lib": "tinyjax", "jnp": "tinyjax.numpy"}
_THEIRS: Final = {"imports": "import jax, jax.numpy", "lib": "jax", "jnp": "jax.numpy"}

#: What a new process runs, with ours and with jax.
STARTS: Final[dict[str, tuple[str, str]]] = {
    "first jitted gradient": (_GRADIENT.format(**_OURS), _GRADIENT.format(**_THEIRS)),
    "import of numpy": ("import tinyjax.numpy", "import jax.numpy"),
}


def cold_start(rounds: int) -> Iterator[Comparison]:
    """New processes in turn, whose bytecode and compiled programs are on disk: the time that passes, and the processor
    time, which counts on a machine that has other things to do."""
    with tempfile.TemporaryDirectory() as directory:
        environment = _environment(Path(directory))
        for name, (ours, theirs) in STARTS.items():
            for code in (ours, theirs, ours, theirs):  # so that everything is kept
                _run(code, environment)
            measured = [_in_turn(ours, theirs, environment, i % 2 == 1) for i in range(rounds)]
            for what, pick in _MEASURES.items():
                pairs = [(pick(a), pick(b)) for a, b in measured]
                yield Comparison(
                    "cold start", f"{name}, {what}", 1, tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
                )


#: Seconds that passed, and seconds of the processor.
_Times = tuple[float, float]
_MEASURES: Final[dict[str, Callable[[_Times], float]]] = {"time": lambda t: t[0], "processor": lambda t: t[1]}


def _in_turn(ours: str, theirs: str, environment: dict[str, str], swapped: bool) -> tuple[_Times, _Times]:
    if swapped:
        second = _run(theirs, environment)
        return _run(ours, environment), second
    first = _run(ours, environment)
    return first, _run(theirs, environment)


def _run(code: str, environment: dict[str, str]) -> _Times:
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    passed, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return passed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _environment(directory: Path) -> dict[str, str]:
    """Where each library keeps what it compiles, however short that took, and Python its bytecode."""
    dropped = ("PYTHONDONTWRITEBYTECODE",)
    return {name: value for name, value in os.environ.items() if name not in dropped} | {
        "PYTHONPYCACHEPREFIX": str(directory / "bytecode"),
        "TINYJAX_COMPILATION_CACHE_DIR": str(directory / "ours"),
        "JAX_COMPILATION_CACHE_DIR": str(directory / "theirs"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
