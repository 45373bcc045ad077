"""Comparison of results with jax's: trees, shapes, dtypes, weak types and values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

import tinyjax as tj
import tinyjax.numpy as tnp

#: A function written once: given `tinyjax.numpy` or `jax.numpy`, returns it.
Make: TypeAlias = Callable[[ModuleType], Callable[..., object]]


def assert_agree(
    transformation: str, make: Make, *args: object, kwargs: Mapping[str, object] | None = None, **options: object
) -> None:
    """`transformation(f, **options)(*args, **kwargs)` is the same in both libraries; and staged out, in ours."""
    kwargs = kwargs or {}
    ours = getattr(tj, transformation)(make(tnp), **options)
    theirs = getattr(jax, transformation)(make(jnp), **options)
    expected = jax.jit(theirs)(*args, **kwargs)  # one compilation instead of one for each operation
    assert_matches(ours(*args, **kwargs), expected)
    closed, shape = tj.make_jaxpr(ours, return_shape=True)(*args, **kwargs)
    tj.ir.typecheck(closed)
    leaves = tj.tree.leaves((args, kwargs))
    structure = tj.tree.structure(shape)
    assert_matches(tj.tree.unflatten(structure, tj.eval_jaxpr(closed, (), *leaves)), expected)


def assert_matches(ours: object, theirs: object, rtol: float = 1e-10, atol: float = 1e-10) -> None:
    """Both are trees of the same structure, whose leaves have the same types and close values."""
    our_leaves, our_tree = tj.tree.flatten(ours)
    their_leaves, their_tree = jax.tree_util.tree_flatten(theirs)
    assert our_tree == their_tree
    for our, their in zip(our_leaves, their_leaves, strict=True):
        assert_leaf_matches(our, their, rtol, atol)


def assert_leaf_matches(our: object, their: object, rtol: float, atol: float) -> None:
    if not isinstance(our, tj.Array):
        assert type(our) is type(their)
        assert our == their
        return
    if not isinstance(their, jax.Array) and np.asarray(their).dtype != tj.float0:
        their = jnp.asarray(their)
    found, expected = np.asarray(our), np.asarray(their)
    assert our.aval.shape == expected.shape
    assert our.aval.dtype == expected.dtype
    assert our.aval.weak_type == bool(getattr(their, "weak_type", False))
    if expected.dtype == tj.float0:
        return
    wide = np.complex128 if np.iscomplexobj(expected) else np.float64
    tolerance = 2.0**-6 if expected.dtype.itemsize == 2 else 1e-5 if expected.dtype in ("float32", "complex64") else 0.0
    np.testing.assert_allclose(
        found.astype(wide), expected.astype(wide), rtol=max(rtol, tolerance), atol=max(atol, tolerance)
    )
