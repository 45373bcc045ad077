"""The parameters of JAX's functions: names, order and what they are by default, or why they aren't here."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.api.setting_blocks import SettingBlock

MODULES: Final = (
    "", ".lax", ".lax.linalg", ".numpy", ".numpy.linalg", ".numpy.fft", ".nn", ".nn.initializers", ".random", ".tree",
    ".tree_util", ".image", ".ops", ".debug", ".custom_derivatives", ".custom_batching", ".flatten_util",
    ".scipy.special", ".scipy.linalg", ".scipy.signal", ".scipy.ndimage", ".scipy.fft", ".scipy.integrate",
    ".scipy.interpolate", ".scipy.cluster.vq", ".scipy.optimize", ".scipy.sparse.linalg", ".scipy.stats",
    ".scipy.stats.norm", ".scipy.stats.beta", ".scipy.stats.multivariate_normal", ".test_util", ".experimental.jet",
    ".experimental.ode", ".experimental.multihost_utils", ".experimental.mesh_utils", ".experimental.checkify",
    ".experimental.pjit", ".experimental.sparse", ".extend.core",
)  # fmt: skip
#: Of these, parameters that aren't here, or are by keyword only, and why.
REASONS: Final = {
    **dict.fromkeys(("grad.reduce_axes", "value_and_grad.reduce_axes"), "JAX takes the empty tuple only"),
    **dict.fromkeys(("checkpoint.concrete", "remat.concrete"), "JAX refuses it"),
    "make_jaxpr.axis_env": "axes are named by vmap and shard_map",
    "make_jaxpr.return_shape": "it stands after axis_env in JAX",
    "local_devices.host_id": "an older name of process_index",
    "vmap.sum_match": "private to JAX's own code",
    "make_mesh.axis_shapes": "axis_sizes here, as in a mesh; by keyword it is taken",
    "eig.use_magma": "an older name of implementation",
    "jet.factorial_scaled": "by keyword",
}


def functions() -> Iterator[tuple[str, Callable[..., Any], Callable[..., Any]]]:
    for name in MODULES:
        theirs, ours = (importlib.import_module(root + name) for root in ("jax", "tinyjax"))
        names: Sequence[str] = getattr(theirs, "__all__", None) or dir(theirs)
        for attribute in names:
            one, other = getattr(theirs, attribute, None), getattr(ours, attribute, None)
            if attribute[0] == "_" or isinstance(one, type) or isinstance(other, type):
                continue
            if isinstance(other, SettingBlock | tnp.ufunc):  # which take what holds; and two arguments
                continue
            if callable(one) and callable(other):
                yield attribute, one, other


def differences(theirs: Callable[..., Any], ours: Callable[..., Any]) -> Iterator[str]:
    try:
        wanted, found = (inspect.signature(f).parameters for f in (theirs, ours))
    except (ValueError, TypeError):
        return
    kinds = [p.kind for p in found.values()]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return
    positional = [name for name, p in found.items() if p.kind != p.KEYWORD_ONLY]
    for i, (name, p) in enumerate(wanted.items()):
        if p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL, p.POSITIONAL_ONLY):
            continue
        if name not in found:
            if inspect.Parameter.VAR_KEYWORD not in kinds:
                yield name
        elif p.kind == p.POSITIONAL_OR_KEYWORD and (name not in positional or positional.index(name) != i):
            yield name


@pytest.mark.skipif(jax.__version_info__[:2] != (0, 10), reason="the table is of JAX 0.10")
def test_parameters_are_those_of_jax() -> None:
    found = {f"{name}.{parameter}" for name, one, other in functions() for parameter in differences(one, other)}
    assert found == set(REASONS)


X = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    "call",
    [
        lambda j, np_: j.lax.full_like(X, 2.0, None, None, None),
        lambda j, np_: j.lax.empty((2,), "float64", out_sharding=None).shape,
        lambda j, np_: j.lax.reduce(X, 0.0, lambda x, y: x + y, (1,), None),
        lambda j, np_: j.lax.reduce(X, 1.0, lambda x, y: x * y, (1,), out_sharding=None),
        lambda j, np_: j.lax.scan(lambda c, x: (c + x, c), np.zeros(3), X, _split_transpose=True),
        lambda j, np_: j.lax.broadcast_in_dim(X, (3, 4, 2), (2, 0)),
        lambda j, np_: (np_.array(range(5)), np_.asarray(range(0)).shape, np_.array(range(3), "float32")),
        lambda j, np_: (np_.polyadd(X, X[:1]), np_.polysub(X[1:], X)),  # several polynomials, which NumPy doesn't align
        lambda j, np_: np_.cov(X, None, True, False, None, None, None, "float32"),
        lambda j, np_: np_.corrcoef(X, None, True, "float32"),
        lambda j, np_: np_.nanmean(X, 0, None, None, False, X > 1),
        lambda j, np_: np_.nanvar(X, 0, None, None, 0, False, X > 1, None),
        lambda j, np_: np_.nanstd(X, 0, None, None, 0, False, X > 1, None),
        lambda j, np_: j.flatten_util.ravel_pytree(pytree={"x": X, "y": 1.0})[0],
    ],
)
def test_they_are_taken_as_jax_takes_them(call: Callable[[Any, Any], Any]) -> None:
    with jax.enable_x64(True):
        wanted = jax.tree.leaves(call(jax, jnp))
    for one, other in zip(tj.tree.leaves(call(tj, tnp)), wanted, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=2.0**-20)


def test_what_is_made_lies_on_a_mesh() -> None:
    """Also what `reduce` and `empty` make."""
    mesh = tj.make_mesh((1,), ("x",))
    place = tj.NamedSharding(mesh, tj.P("x"))

    def f(x: Any) -> Any:
        total = lax.reduce(x, 0.0, lambda a, b: a + b, (1,), out_sharding=place)
        product = lax.reduce(x, 1.0, lambda a, b: a * b, (1,), out_sharding=place)
        return total, product, lax.empty((2,), "float64", out_sharding=place)

    assert str(tj.make_jaxpr(f)(X)).count("sharding_constraint") == 3
    for one, other in zip(f(X), (X.sum(1), X.prod(1), np.zeros(2)), strict=True):
        np.testing.assert_array_equal(np.asarray(one), other)


def test_precision_by_name() -> None:
    with tj.default_matmul_precision(new_val="float32"):
        program = tj.make_jaxpr(lambda x: x @ x.T)(X)
    assert "HIGHEST" in str(program)
