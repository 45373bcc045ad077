"""The worked example of several devices: every way has JAX's losses, and so have two processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
from examples import parallel

ARGUMENTS = ["--epochs", "1", "--seed", "3"]


def losses_of_jax() -> list[float]:
    """The same steps, written with JAX for one device."""

    def loss(params: Any, images: Any, labels: Any) -> Any:
        hidden = jnp.tanh(images @ params[0] + params[1])
        chosen = jax.nn.log_softmax(hidden @ params[2] + params[3])
        return -jnp.mean(chosen[jnp.arange(len(labels)), labels])

    @jax.jit
    def step(params: Any, images: Any, labels: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(params, images, labels)
        return [p - 0.3 * g for p, g in zip(params, gradient, strict=True)], value

    params = [np.asarray(x) for x in parallel.init_params(np.random.default_rng(3))]
    found = []
    for images, labels in parallel.batches(3, 1, 64):
        params, value = step(params, images, labels)
        found.append(float(value))
    return found


def check_printed(text: str, losses: list[float]) -> None:
    """Each way once, with the first loss and the last."""
    lines = re.findall(r"^ *([a-z -]+): loss ([0-9.]+), at last ([0-9.]+);", text, re.MULTILINE)
    assert len(re.findall(r"^all-reduce f32.*parallel.py:\d+ \(batch_loss\)", text, re.MULTILINE)) >= 4
    assert [way for way, _, _ in lines] == ["one device", *parallel.WAYS, "by hand"]
    np.testing.assert_allclose([(float(a), float(b)) for _, a, b in lines], [(losses[0], losses[-1])] * 5, rtol=1e-5)


@pytest.mark.sweep
def test_all_ways_have_the_losses_of_jax(capsys: pytest.CaptureFixture[str]) -> None:
    found = parallel.main(ARGUMENTS)
    expected = losses_of_jax()
    assert expected[-1] < 0.5 * expected[0]
    assert {"one device", *parallel.WAYS, "by hand"} == set(found)
    for losses in found.values():
        np.testing.assert_allclose(losses, expected, rtol=1e-5)
    printed = capsys.readouterr().out
    assert printed.count("CPU 0,1,2,3,4,5,6,7") > 5  # replicated
    check_printed(printed, expected)


@pytest.mark.sweep
def test_two_processes() -> None:
    command = [sys.executable, parallel.__file__, *ARGUMENTS, "--processes", "2"]
    alone = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    environment = {**alone, "PYTHONPATH": str(Path(tj.__file__).parents[1])}
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False, env=environment)
    assert done.returncode == 0, done.stderr
    check_printed(done.stdout, losses_of_jax())
