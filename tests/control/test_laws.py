"""The laws of programs, for control flow: wherever the mapped axes are, and whatever index a branch is chosen by."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.ir import ShapedArray
from tinyjax.testing import check_laws
from tinyjax.transforms import jvp

INDEX: Final = ShapedArray((), "int32")
CUBE: Final = ShapedArray((2, 3, 4), "float64")


@pytest.mark.parametrize("index", [-(2**31), -1, 0, 1, 2, 3, 2**31 - 1])
def test_an_index_out_of_range_is_the_nearest(index: int) -> None:
    def f(i: tj.Array | int, x: tj.Array) -> tj.Array:
        return lax.switch(i, [lambda z: z * 2.0, tnp.sin, lambda z: z[::-1]], x)

    x = np.linspace(-1.0, 1.0, 24).reshape(2, 3, 4)
    expected = [x * 2.0, np.sin(x), x[::-1]][min(max(index, 0), 2)]
    program = tj.make_jaxpr(f)(INDEX, CUBE)
    check_laws(program, [index, x], laws=["evaluation", "compilation", "simplify", "batch", "jvp"])
    known = tj.make_jaxpr(lambda x: f(index, x))(CUBE)
    check_laws(known, [x], laws=["evaluation", "compilation", "fold_constants", "simplify", "optimize"])
    for found in (f(index, tnp.asarray(x)), tj.eval_jaxpr(program.jaxpr, [], np.int32(index), x)[0]):
        np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("seed", range(6))
def test_axes_of_scans_and_branches_may_be_anywhere(seed: int) -> None:
    def f(i: tj.Array, x: tj.Array, y: tj.Array) -> object:
        carry, rows = lax.scan(lambda c, row: (c * 0.5 + row.sum(0), row * c), y, x)
        return carry, rows, lax.switch(i, [lambda z: z * 2.0, tnp.sin, lambda z: z[::-1]], x)

    program = tj.make_jaxpr(f)(INDEX, CUBE, ShapedArray((4,), "float64"))
    check_laws(program, laws=["batch"], seed=seed)
    check_laws(jvp(program).jaxpr, laws=["batch"], seed=seed)
