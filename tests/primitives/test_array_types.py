"""Weak types of everything in the catalog, against jax."""

from __future__ import annotations

import itertools

import jax
import pytest

from tests.primitives.array_catalog import CASES, Case
from tests.primitives.array_checks import apply
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import BOOL

#: Those that are primitives in jax too.
SHARED = [case for case in CASES if case.avals]


@pytest.mark.parametrize("example", SHARED, ids=lambda example: example.name)
def test_weak_operands(example: Case) -> None:
    for weak in itertools.product([False, True], repeat=len(example.avals)):
        avals = [ShapedArray(a.shape, a.dtype, w and a.dtype != BOOL) for a, w in zip(example.avals, weak, strict=True)]
        structs = [jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type) for a in avals]
        expected = jax.eval_shape(lambda *xs: apply(example, *xs), *structs)
        outs = example.primitive.type_of(*avals)
        assert [(a.shape, a.dtype, a.weak_type) for a in outs] == [(s.shape, s.dtype, s.weak_type) for s in expected]
