"""`tinyjax.ad_checkpoint`: the names of `jax.ad_checkpoint`, and what it prints."""

from __future__ import annotations

from typing import Any

import jax
import jax.ad_checkpoint
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.ad_checkpoint as ours
import tinyjax.numpy as tnp


def layer(np_: Any) -> Any:
    return lambda w, x: np_.sin(np_.dot(w, x))


def layers(np_: Any, named: Any) -> Any:
    def f(w1: Any, w2: Any, x: Any) -> Any:
        return layer(np_)(w2, named(layer(np_)(w1, x), "hidden"))

    return f


def test_the_same_functions() -> None:
    assert set(dir(ours)) >= {"checkpoint_name", "checkpoint_policies", "print_saved_residuals"}
    assert ours.checkpoint is tj.checkpoint
    assert ours.checkpoint_name is tj.checkpoint_name
    assert ours.checkpoint_policies is tj.checkpoint_policies


@pytest.mark.parametrize("policy", [None, "nothing_saveable", "dots_saveable", "everything_saveable", "hidden"])
def test_as_many_bytes_as_jax_keeps(policy: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    args = np.ones((5, 4), np.float32), np.ones((6, 5), np.float32), np.ones(4, np.float32)

    def bytes_kept(module: Any, np_: Any) -> int:
        f = layers(np_, module.checkpoint_name)
        policies = module.checkpoint_policies
        if policy is not None:
            rule = policies.save_only_these_names(policy) if policy == "hidden" else getattr(policies, policy)
            f = (jax if np_ is jax.numpy else tj).checkpoint(f, policy=rule)
        module.print_saved_residuals(f, *args)
        total = 0
        for line in capsys.readouterr().out.splitlines():
            shape = line.partition("[")[2].partition("]")[0]
            total += 4 * int(np.prod([int(size) for size in shape.split(",")]))
            assert ("hidden" in line) <= (policy in (None, "hidden", "everything_saveable")), line
        return total

    assert 0 < bytes_kept(ours, tnp) <= bytes_kept(jax.ad_checkpoint, jax.numpy)
