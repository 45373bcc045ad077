"""Products of two operands by `einsum`: one `dot_general` with the operands as they are, wherever one can be enough."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax.lax import Precision
from tinyjax.primitives.contractions import DotGeneral

SIZES = dict(zip("abij", (2, 3, 4, 5), strict=True))
SPECS = [
    f"{left},{right}->{''.join(out)}"
    for left, right in [
        ("ia", "aj"),
        ("ai", "ja"),
        ("bia", "baj"),
        ("iab", "abj"),
        ("bai", "bj"),
        ("i", "j"),
        ("ij", "j"),
    ]
    for out in itertools.permutations(sorted({*left, *right} - ({"a"} & {*left} & {*right})))
]


@pytest.mark.parametrize("spec", SPECS)
def test_as_few_equations_as_jax_has(spec: str) -> None:
    inputs = spec.split("->", maxsplit=1)[0].split(",")
    x, y = (np.random.default_rng(i).normal(size=[SIZES[name] for name in names]) for i, names in enumerate(inputs))
    mine = tj.make_jaxpr(lambda x, y: tnp.einsum(spec, x, y))(x, y).jaxpr
    theirs = jax.make_jaxpr(lambda x, y: jnp.einsum(spec, x, y))(x, y)
    inner = theirs.eqns[0].params["jaxpr"].jaxpr if theirs.eqns[0].primitive.name in ("jit", "pjit") else theirs.jaxpr
    assert len(mine.eqns) <= len(inner.eqns)
    np.testing.assert_allclose(tnp.einsum(spec, x, y), np.einsum(spec, x, y), rtol=1e-12)


@pytest.mark.parametrize("out", ["ij", "ji"])
def test_each_operand_keeps_its_precision(out: str) -> None:
    x = np.ones((3, 3), "float32")
    pair = Precision.HIGH, Precision.HIGHEST
    program = tj.make_jaxpr(lambda x, y: tnp.einsum(f"ia,aj->{out}", x, y, precision=pair))(x, x).jaxpr
    (eqn,) = program.eqns
    primitive, operands = eqn.primitive, eqn.invars
    assert isinstance(primitive, DotGeneral)
    turned = operands[0] == program.invars[1]
    expected = (Precision.HIGHEST, Precision.HIGH) if turned else (Precision.HIGH, Precision.HIGHEST)
    assert primitive.precision == expected
