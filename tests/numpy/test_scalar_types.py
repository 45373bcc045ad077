"""Types of elements that are called: as JAX's are, and never a constant of what is differentiated."""

from __future__ import annotations

import pickle
from typing import Final

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax.numpy import dtypes
from tinyjax.numpy.scalar_types import ScalarType

TYPES: Final = {name: kind for name, kind in vars(dtypes).items() if isinstance(kind, ScalarType)}


@pytest.mark.parametrize("name", TYPES)
def test_they_are_those_of_numpy_and_jax(name: str) -> None:
    kind = TYPES[name]
    scalar = kind.dtype.type
    assert kind == scalar
    assert scalar == kind
    assert kind.dtype == kind
    assert kind == kind.dtype
    assert kind != np.dtype("datetime64")
    assert hash(kind) == hash(scalar)
    assert kind != "int8"
    assert np.zeros(1, kind).dtype == tnp.zeros(1, kind).dtype == kind.dtype
    assert pickle.loads(pickle.dumps(kind)) == kind
    assert kind.__instancecheck__(scalar(1))
    made = kind(1)
    assert isinstance(made, tj.Array)
    assert (made.shape, made.dtype, made.weak_type) == ((), kind.dtype, False)
    theirs = getattr(jnp, name, None)
    if theirs is not None and "float6" not in name:  # which XLA doesn't make arrays of
        assert jnp.zeros(1, kind).dtype == theirs


@pytest.mark.parametrize("name", ["float16", "float32", "float64", "bfloat16", "double", "complex64", "complex128"])
def test_they_have_derivatives(name: str) -> None:
    kind, theirs = TYPES[name], getattr(jnp, name)
    found = tj.grad(lambda x: (kind(x) * x).real)(3.0)
    assert float(found) == float(jax.grad(lambda x: (theirs(x) * x).real)(3.0)) == 6.0
    mapped = tj.vmap(tj.jit(kind))(np.arange(3.0))
    np.testing.assert_array_equal(np.asarray(mapped), np.asarray(jax.vmap(jax.jit(theirs))(np.arange(3.0))))
    assert mapped.dtype == kind.dtype
