"""Every function while it is staged, differentiated forwards and backwards, and mapped over, against jax."""

from __future__ import annotations

from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax.numpy as tnp
from tests.numpy.oracle import agree, close, words
from tinyjax import Array, grad, jit, jvp, make_jaxpr, vmap
from tinyjax.ir.dtypes import INEXACT, HostArray
from tinyjax.ir.typecheck import typecheck

RNG = np.random.default_rng(0)
#: Between 0 and 1, where all functions are smooth.
X = RNG.uniform(0.1, 0.9, (3, 4))
Y = RNG.uniform(0.1, 0.9, (3, 4))
T = RNG.normal(size=(3, 4))

UNARY = words(
    """
    abs acos angle asin asinh atan atanh cbrt ceil conj cos cosh deg2rad exp exp2 expm1 fabs floor imag isfinite
    isinf isnan iscomplex isreal isneginf isposinf log log10 log1p log2 logical_not modf nan_to_num negative positive
    rad2deg real reciprocal rint round sign signbit sin sinc sinh sqrt square tan tanh trunc
    sum prod max min all any count_nonzero mean var std ptp median argmax argmin cumsum cumprod sort argsort
    average diff ravel squeeze atleast_1d atleast_2d atleast_3d transpose matrix_transpose flip fliplr flipud rot90
    diagonal trace unstack tril triu diag zeros_like ones_like empty_like copy array asarray
    """
)
BINARY = words(
    """
    add subtract multiply divide floor_divide remainder divmod fmod power float_power hypot logaddexp logaddexp2 atan2
    copysign maximum minimum fmax fmin heaviside equal not_equal less less_equal greater greater_equal
    isclose allclose array_equal logical_and logical_or logical_xor outer vdot inner vecdot kron broadcast_arrays
    """
)
OTHERS: dict[str, tuple[object, ...]] = {
    "sum": (0,),
    "max": (1,),
    "std": (0,),
    "cumsum": (1,),
    "median": (1,),
    "clip": (0.2, 0.7),
    "where": (Y, 1.0),
    "reshape": ((4, 3),),
    "expand_dims": (1,),
    "broadcast_to": ((2, 3, 4),),
    "permute_dims": ((1, 0),),
    "swapaxes": (0, 1),
    "moveaxis": (0, 1),
    "roll": (1, 1),
    "repeat": (2, 0),
    "tile": (2,),
    "pad": (1, "reflect"),
    "split": ([1], 1),
    "array_split": (3, 1),
    "matmul": (Y.T,),
    "dot": (Y[0],),
    "tensordot": (Y,),
    "full_like": (3.0,),
    "astype": ("float32",),
    "linspace": (2.0, 3),
    "cross": (Y[:, :3],),
}


def _apply(module: ModuleType, x: object) -> dict[str, object]:
    """What each function makes of x."""
    results: dict[str, object] = {}
    for name in UNARY:
        results[name] = getattr(module, name)(x)
    for name in BINARY:
        results[name + " y"] = getattr(module, name)(x, Y)
        results["y " + name] = getattr(module, name)(Y, x)
    for name, arguments in OTHERS.items():
        own = x[:, :3] if name == "cross" and isinstance(x, Array | jax.Array) else x
        results[name + " ..."] = getattr(module, name)(own, *arguments)
    results["einsum"] = module.einsum("ij,kj->ik", x, Y)
    results["stack"] = module.stack([x, Y])
    results["concatenate"] = module.concatenate([x, Y], 1)
    results["select"] = module.select([module.greater(x, 0.5)], [module.add(x, x)], 1.0)
    return results


def _leaves(results: dict[str, object]) -> dict[str, object]:
    """The single arrays in the results."""
    leaves: dict[str, object] = {}
    for key, value in results.items():
        if isinstance(value, tuple | list):
            leaves |= {f"{key}[{i}]": part for i, part in enumerate(value)}
        else:
            leaves[key] = value
    return leaves


def ours(x: object) -> dict[str, object]:
    return _leaves(_apply(tnp, x))


def theirs(x: object) -> dict[str, object]:
    return _leaves(_apply(jnp, x))


def _smooth(results: dict[str, object]) -> dict[str, object]:
    """The results that have a derivative."""
    return {key: x for key, x in results.items() if isinstance(x, Array | jax.Array) and x.dtype in INEXACT}


def _compare(found: object, expected: object) -> None:
    assert isinstance(found, dict)
    assert isinstance(expected, dict)
    assert found.keys() == expected.keys()
    for key in expected:
        agree(found[key], expected[key], key)


@pytest.mark.sweep
def test_staged() -> None:
    jaxpr = make_jaxpr(ours)(X)
    typecheck(jaxpr.jaxpr)
    eager = ours(tnp.asarray(X))
    expected = jax.jit(theirs)(X)
    _compare(eager, expected)
    _compare(jit(ours)(X), expected)


@pytest.mark.sweep
def test_forwards() -> None:
    found = jvp(lambda x: _smooth(ours(x)), (X,), (T,))
    expected = jax.jit(lambda x, t: jax.jvp(lambda x: _smooth(theirs(x)), (x,), (t,)))(X, T)
    _compare(found[0], expected[0])
    _compare(found[1], expected[1])


def _total(results: dict[str, object], module: ModuleType) -> object:
    total = 0.0
    for i, part in enumerate(results.values()):
        total += module.sum(part * np.cos(i)).astype("float64") if isinstance(part, Array | jax.Array) else 0.0
    return total


def test_backwards() -> None:
    found: HostArray = np.asarray(grad(lambda x: _total(_smooth(ours(x)), tnp))(X))
    expected = jax.jit(jax.grad(lambda x: _total(_smooth(theirs(x)), jnp)))(X)
    close(found, np.asarray(expected), scale=10)


@pytest.mark.sweep
def test_mapped() -> None:
    x = np.stack([X, Y * 0.9], 1)
    _compare(vmap(ours, in_axes=1)(x), jax.jit(jax.vmap(theirs, in_axes=1))(x))
