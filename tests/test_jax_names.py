"""Modules that have the names of JAX's: `tree_util`, `dtypes`, `typing`."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import dtypes, tree, tree_util, typing

NAMES = ["float32", "bfloat16", "float8_e4m3fn", "int4", "uint2", "int32", "bool", "complex64"]


@pytest.mark.parametrize("name", [name for name in dir(tree_util) if name[0].islower() and name != "default_registry"])
def test_tree_util_is_tree(name: str) -> None:
    assert getattr(tree_util, name) is getattr(tree, name.removeprefix("tree_"), None) or name.startswith("treedef")
    assert hasattr(jax.tree_util, name)


def test_types_of_nodes_are_those_of_jax() -> None:
    for name in ("DictKey", "SequenceKey", "Partial", "PyTreeDef"):
        assert getattr(tree_util, name) is getattr(jax.tree_util, name)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        getattr(tree_util, "nonsense")  # noqa: B009
    with pytest.raises(AttributeError, match=r"'exp_p': primitives are classes, in tinyjax.extend.primitives"):
        getattr(tj.lax, "exp_p")  # noqa: B009
    assert typing.ArrayLike is tj.ArrayLike


@pytest.mark.parametrize("name", NAMES)
def test_dtypes_are_described_as_jax_does(name: str) -> None:
    ours, theirs = getattr(tnp, name), getattr(jnp, name)
    assert dtypes.itemsize_bits(ours) == jax.dtypes.itemsize_bits(theirs)
    assert dtypes.canonicalize_dtype(ours) == jax.dtypes.canonicalize_dtype(theirs)
    x = np.zeros(2, theirs)
    assert dtypes.scalar_type_of(x) is jax.dtypes.scalar_type_of(x)


def test_promotion_says_whether_the_result_is_weakly_typed() -> None:
    for args in ((1.0, 2), (np.float32(1), 2.0), ("int8", "int16"), (True,), (float, int), (1j,)):
        with jax.enable_x64(True):
            theirs = jax.dtypes.result_type(*args, return_weak_type_flag=True)
        assert dtypes.result_type(*args, return_weak_type_flag=True) == theirs
        assert dtypes.result_type(*args) == theirs[0]
    ask: Callable[[object], int] = getattr(dtypes, "itemsize_bits")  # noqa: B009
    with pytest.raises(ValueError, match="None is no dtype"):
        ask(None)


def test_kinds_of_keys() -> None:
    def answers(d: object, key: object, other: object, real: object) -> list[bool]:
        kinds = [getattr(d, "prng_key"), getattr(d, "extended"), np.generic, np.number, np.floating, real]  # noqa: B009
        ask = getattr(d, "issubdtype")  # noqa: B009
        return [ask(dtype, kind) for dtype in (key, other, real, kinds[0]) for kind in (*kinds, key, other)]

    ours = answers(dtypes, tj.random.key(0).dtype, tj.random.key(0, impl="rbg").dtype, np.dtype("float32"))
    theirs = answers(jax.dtypes, jax.random.key(0).dtype, jax.random.key(0, impl="rbg").dtype, np.dtype("float32"))
    assert ours == theirs
