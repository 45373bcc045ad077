"""jax.numpy as the oracle of tinyjax.numpy: values, dtypes, weak types and shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

import tinyjax.numpy as tnp
from tinyjax import Array, TinyjaxError
from tinyjax.ir.dtypes import BFLOAT16, BOOL, COMPLEXES, FLOAT16, FLOAT32, FLOATS, SIGNED, DType, HostArray, as_dtype

Function: TypeAlias = Callable[..., object]
DTYPES = ("bool", "int8", "int32", "int64", "uint8", "uint64", "float16", "bfloat16", "float32", "float64", "complex64",
          "complex128")  # fmt: skip
_TOLERANCES = {"bfloat16": 2e-2, "float16": 3e-3, "float32": 2e-5, "complex64": 2e-5}
_INTEGERS = [0, 1, 2, 3, 5, 7, 100, -1, -2, -3, -128, 127]
_FLOATS = [0.0, -0.0, 0.5, 1.0, 1.5, 2.5, -0.5, -1.0, -2.75, 3.0, 0.001, 40.0, np.inf, -np.inf, np.nan]


def sample(dtype: str) -> HostArray:
    """A vector of numbers of this dtype, the special ones among them."""
    found = as_dtype(dtype)
    if found == BOOL:
        return np.array([True, False, True])
    if found in FLOATS:
        # XLA's exp2 has few correct bits of large numbers in half precision.
        return np.array([x for x in _FLOATS if x != 40.0 or found.itemsize > 2]).astype(found)
    if found in COMPLEXES:
        parts = [0.5, -1.5, 2.0, -3.25]  # no zeros: NumPy and XLA differ in their signs, so in branch cuts
        return np.array([complex(a, b) for a in parts for b in parts]).astype(found)
    numbers = _INTEGERS if found in SIGNED else [abs(n) for n in _INTEGERS]
    return np.array([n for n in numbers if np.iinfo(dtype).min <= n <= np.iinfo(dtype).max]).astype(found)


def numbers(dtype: str, *shape: int, seed: int = 0) -> HostArray:
    """An array of small random numbers of this dtype."""
    found, rng = as_dtype(dtype), np.random.default_rng(seed)
    if found == BOOL:
        return rng.random(shape) < 0.5
    if found in COMPLEXES:
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(found)
    if found in FLOATS:
        return rng.normal(size=shape).astype(found)
    return rng.integers(-4 if found in SIGNED else 0, 5, shape).astype(found)


def words(text: str) -> list[str]:
    """The names in a text."""
    return text.split()


def check(name: str, *args: object, **options: object) -> None:
    """Fails unless our function of this name gives what jax's does."""
    agree(getattr(tnp, name)(*args, **options), getattr(jnp, name)(*args, **options), name)


def agree(ours: object, theirs: object, what: str = "", scale: float = 1.0) -> None:
    """Fails unless a result, or each of several, is jax's: shape, dtype, weak type, elements up to rounding."""
    if isinstance(theirs, tuple | list):
        assert isinstance(ours, tuple | list), what
        assert len(ours) == len(theirs), what
        for ours_one, theirs_one in zip(ours, theirs, strict=True):
            agree(ours_one, theirs_one, what, scale)
        return
    if not isinstance(theirs, jax.Array):
        assert ours == theirs, what
        return
    assert isinstance(ours, Array), what
    found = (ours.shape, str(ours.dtype), ours.weak_type)
    # jax marks some bools as weak; ours never are.
    expected = (theirs.shape, str(theirs.dtype), theirs.weak_type and theirs.dtype != np.bool_)
    assert found == expected, f"{what}: {found}, and jax has {expected}"
    close(np.asarray(ours), np.asarray(theirs), what, scale)


def close(ours: HostArray, theirs: HostArray, what: str = "", scale: float = 1.0) -> None:
    """Fails unless elements are equal up to rounding: exactly, if they are integers."""
    tolerance = scale * _TOLERANCES.get(str(theirs.dtype), 1e-12)
    wide: DType = as_dtype(np.complex128 if theirs.dtype in COMPLEXES else np.float64)
    if theirs.dtype in (BFLOAT16, FLOAT16, FLOAT32) or theirs.dtype.kind in "fc":
        np.testing.assert_allclose(ours.astype(wide), theirs.astype(wide), tolerance, tolerance, err_msg=what)
    else:
        np.testing.assert_array_equal(ours, theirs, err_msg=what)


def weak(value: complex, *shape: int) -> tuple[Array, jax.Array]:
    """A weakly typed array of ours and of jax's."""
    return tnp.broadcast_to(value, shape), jnp.broadcast_to(value, shape)


def compare(calls: Mapping[str, tuple[Function, Function]], ours: list[object], theirs: list[object]) -> None:
    """Fails unless our functions give what jax's do on these arguments, and raise an error where jax's do.

    jax's are compiled as one program, which takes a fraction of the time of compiling each.
    """
    works: dict[str, Function] = {}
    for name, (_, oracle) in calls.items():
        try:
            jax.eval_shape(oracle, *theirs)
        except (TypeError, ValueError, NotImplementedError):
            continue
        works[name] = oracle
    expected = jax.jit(lambda *args: {name: oracle(*args) for name, oracle in works.items()})(*theirs)
    for name, (function, _) in calls.items():
        if name in works:
            agree(function(*ours), expected[name], name)
            continue
        try:
            out = function(*ours)
        except TinyjaxError:
            continue
        raise AssertionError(f"{name} should not accept {ours}, as jax doesn't; it returned {out}")
