"""Functions make no equations that nobody reads: they would be in every program, and each transformation would go
through them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import tinyjax as tj
from tinyjax import nn, transforms
from tinyjax import numpy as tnp
from tinyjax.scipy import special

FLOATS, WHOLE = tj.ShapedArray((3,), "f64"), tj.ShapedArray((3,), "i64")
BOTH = [FLOATS, FLOATS], [FLOATS, WHOLE]
ONE = [FLOATS], [WHOLE]


@pytest.mark.parametrize(
    ("f", "operands"),
    [
        (tnp.floor_divide, BOTH),
        (tnp.remainder, BOTH),
        (tnp.divmod, BOTH),
        (tnp.power, BOTH),
        (tnp.logaddexp, BOTH),
        (special.logsumexp, ONE),
        (nn.softmax, ONE),
        (nn.gelu, ONE),
        (tnp.var, ONE),
        (tnp.median, ONE),
        (tnp.sinc, ONE),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_common_functions(f: Callable[..., Any], operands: Sequence[Sequence[tj.ShapedArray]]) -> None:
    for avals in operands:
        program = tj.make_jaxpr(f)(*avals)
        assert len(transforms.dce(program).jaxpr.eqns) == len(program.jaxpr.eqns), avals
