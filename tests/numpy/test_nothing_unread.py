"""Functions make no equations that nobody reads: they would be in every program, and each transformation would go
through them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

import tinyjax as tj
from tinyjax import nn, transforms
from tinyjax import numpy as tnp
from tinyjax.scipy import linalg, signal, special
from tinyjax.scipy.stats import norm

FLOATS, WHOLE = tj.ShapedArray((3,), "f64"), tj.ShapedArray((3,), "i64")
TRUTHS, COMPLEX = tj.ShapedArray((3,), "bool"), tj.ShapedArray((3,), "c128")
MATRIX = tj.ShapedArray((3, 3), "f64")
BOTH = [FLOATS, FLOATS], [FLOATS, WHOLE]
ONE = [FLOATS], [WHOLE]
ALL = [FLOATS], [WHOLE], [TRUTHS], [COMPLEX]


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
        (tnp.cov, ALL),
        (tnp.corrcoef, ALL),
        (tnp.linspace, BOTH),
        (tnp.geomspace, BOTH),
        (tnp.logspace, BOTH),
        (tnp.frexp, ALL),
        (tnp.ldexp, BOTH[1:]),
        (tnp.histogram, BOTH),
        (tnp.histogram_bin_edges, ALL),
        (tnp.searchsorted, BOTH),
        (tnp.digitize, BOTH),
        (tnp.interp, ([FLOATS, FLOATS, FLOATS],)),
        (tnp.power, ([WHOLE, WHOLE], [COMPLEX, COMPLEX])),
        (tnp.vander, ALL),
        (tnp.unravel_index, ([WHOLE, WHOLE],)),
        (tnp.logaddexp, ([COMPLEX, COMPLEX],)),
        (tnp.logaddexp2, ([COMPLEX, COMPLEX],)),
        (nn.log_sigmoid, ALL),
        (nn.mish, ALL),
        (nn.soft_sign, ALL),
        (nn.softplus, ALL),
        (linalg.lu, ([MATRIX],)),
        (signal.detrend, ALL),
        (partial(signal.welch, nperseg=2), ALL),
        (partial(signal.csd, y=None, nperseg=2), ALL),
        (partial(signal.stft, nperseg=2), ALL),
        (tnp.lexsort, ([FLOATS], [MATRIX])),
        (norm.cdf, ALL),
        (norm.logpdf, ALL),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_common_functions(f: Callable[..., Any], operands: Sequence[Sequence[tj.ShapedArray]]) -> None:
    for avals in operands:
        try:
            program = tj.make_jaxpr(f)(*avals)
        except tj.TinyjaxError:  # it isn't for these
            continue
        assert len(transforms.dce(program).jaxpr.eqns) == len(program.jaxpr.eqns), avals
