"""The worked example, on a small model: it agrees with JAX, and its passes make the programs smaller."""

from __future__ import annotations

from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from examples.optimiser import Row, as_table, differences, import_and_optimise, make_task, with_jax, with_tinyjax


@pytest.mark.sweep
def test_the_optimiser_agrees_with_jax() -> None:
    task = make_task(width=8, heads=2, depth=1)
    text = StringIO()
    console = Console(file=text, width=120)
    program, optimised = import_and_optimise(task, console)
    assert "simplify: " in text.getvalue()
    assert len(optimised.eqns) < len(program.eqns)
    reference = with_jax("JAX", task.loss, task)
    found = with_tinyjax("ours", optimised, task, passes=True)
    value, gradient = differences(found, reference)
    assert value < 1e-5
    assert gradient < 1e-4
    assert found.equations < reference.equations
    console.print(as_table([reference, found]))
    assert "± grad" in text.getvalue()


def test_a_wrong_gradient_would_show() -> None:
    gradient = np.ones(3)
    right, wrong = (Row("", 1, 0.0, 0.0, 2.0, factor * gradient) for factor in (1, 2))
    assert differences(wrong, right) == (0.0, 1.0)
