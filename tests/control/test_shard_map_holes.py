"""What jax 0.10.2 was seen to get wrong, to accept, or to wait for: each works, or is an error that says why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
from tinyjax import P, lax, random
from tinyjax import numpy as tnp
from tinyjax.errors import AxisNameError, ShardingError, TypingError
from tinyjax.sharding import AbstractMesh, Mesh, NamedSharding

HOST = AbstractMesh((4, 2), ("x", "y"))
X = np.arange(16.0).reshape(8, 2) / 7.0
MESHES = pytest.mark.parametrize("devices", [False, pytest.param(True, marks=pytest.mark.sweep)])
CHECKED = pytest.mark.parametrize("check_vma", [True, False])


def mesh(devices: bool) -> Mesh:
    return Mesh(np.array(tj.devices("cpu")[:8]).reshape(4, 2), ("x", "y")) if devices else HOST


def close(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(actual, expected, rtol=2.0**-40)


# Gradients.


@MESHES
def test_the_gradient_of_nested_maps(devices: bool) -> None:
    def inner(b: Any) -> Any:
        return lax.psum(tnp.sin(b), "y") * (1.0 + lax.axis_index("y"))

    def outer(a: Any) -> Any:
        return lax.psum(tj.shard_map(inner, in_specs=P("y"), out_specs=P("y"))(a) ** 2, "x")

    def loss(a: Any) -> Any:
        mapped = tj.shard_map(outer, mesh=mesh(devices), in_specs=P("x"), out_specs=P(), axis_names={"x"})
        return mapped(a).sum()

    # Each pair of rows adds up, and is there once and twice.
    pairs = np.sin(X).reshape(4, 2, 2).sum(1)
    close(loss(X), 5.0 * (pairs**2).sum())
    expected = 10.0 * np.cos(X) * np.repeat(pairs, 2, axis=0)
    close(tj.grad(loss)(X), expected)
    close(tj.jit(tj.grad(loss))(X), expected)


@MESHES
@pytest.mark.parametrize("tiled", [False, True])
def test_the_gradient_of_all_to_all(devices: bool, tiled: bool) -> None:
    square = np.arange(32.0).reshape(8, 4)

    def swap(a: Any) -> Any:
        mapped = tj.shard_map(
            lambda a: lax.all_to_all(a, "x", 1, 0, tiled=tiled), mesh=mesh(devices), in_specs=P("x"), out_specs=P("x")
        )
        return mapped(a)

    # It moves each element to another place: its gradient moves the weights back.
    where = np.asarray(swap(square)).ravel().astype(int)
    assert sorted(where) == list(range(32))
    weights = np.arange(32.0)
    expected = np.empty(32)
    expected[where] = weights
    close(tj.jit(tj.grad(lambda a: (swap(a).ravel() * weights).sum()))(square).ravel(), expected)


@MESHES
def test_the_gradient_of_a_sum_over_devices(devices: bool) -> None:
    """jax-ml/jax#3970: of one value that all have, it is the sum of what they contribute, not many times that."""

    def slope(w: Any, a: Any) -> Any:
        return tj.grad(lambda w: lax.psum((tnp.sin(w) * a).sum(), "x"))(w)

    def on(spec: P, w: Any) -> Any:
        return tj.shard_map(slope, mesh=mesh(devices), in_specs=(spec, P("x")), out_specs=spec)(w, X)

    close(on(P(), np.float64(0.3)), np.cos(0.3) * X.sum())
    own = np.arange(4.0)
    close(on(P("x"), own), np.cos(own) * X.reshape(4, -1).sum(1))


# Communication that not all devices come to.


@CHECKED
@MESHES
@pytest.mark.parametrize(
    "f",
    [
        lambda a: lax.cond(lax.axis_index("x") > 1, lambda a: lax.psum(a, "x"), lambda a: a, a),
        lambda a: lax.cond(a.sum() > 1.0, lambda a: a, lambda a: lax.all_gather(a, "x").sum(0), a),
        lambda a: lax.switch(lax.axis_index("x"), [lambda a: a, lambda a: lax.ppermute(a, "x", [(0, 1)])], a),
        lambda a: lax.while_loop(lambda c: c.sum() < lax.axis_index("x"), lambda c: lax.psum(c, "x") + 1.0, a),
        lambda a: lax.while_loop(lambda c: lax.psum(c, "x").sum() < a.sum(), lambda c: c + 1.0, 0.0 * a),
        lambda a: lax.scan(
            lambda c, _: (lax.cond(c.sum() > 1.0, lambda: lax.psum(a, "x"), lambda: a) + c, None), 0.0 * a, None, 2
        )[0],
        tj.jit(lambda a: lax.cond(a[0, 0] > 1.0, lambda a: lax.pmax(a, "x"), lambda a: a, a)),
        lambda a: lax.fori_loop(
            0, 2, lambda _, c: lax.cond(c[0].sum() > 1.0, lambda c: (c[1], lax.psum(c[1], "x")), lambda c: c, c), (a, a)
        )[1],
    ],
)
def test_communication_that_not_all_come_to(f: Callable[[Any], Any], devices: bool, check_vma: bool) -> None:
    mapped = tj.shard_map(f, mesh=mesh(devices), in_specs=P("x"), out_specs=P("x"), check_vma=check_vma)
    for call in (mapped, tj.jit(mapped), tj.grad(lambda a: mapped(a).sum())):
        with pytest.raises(TypingError, match=r"varies along 'x', and .* communicates along it.*wait for ever"):
            call(X)


@CHECKED
@MESHES
@pytest.mark.parametrize(
    "f",
    [
        lambda a: lax.cond(lax.psum(a.sum(), "x") > 1.0, lambda a: a + lax.psum(a, "x"), lambda a: a, a),
        lambda a: lax.cond(lax.axis_index("y") > 0, lambda a: a + lax.psum(a, "x"), lambda a: a, a),
        lambda a: lax.while_loop(lambda c: lax.pmax(c.sum(), "x") < 50.0, lambda c: c + lax.pmean(c, "x") + 1.0, a),
        lambda a: lax.cond(
            lax.all_gather(a, "x").sum() > 1.0, lambda a: lax.ppermute(a, "x", [(0, 1)]), lambda a: a, a
        ),
        lambda a: lax.cond(a.sum() > 1.0, lambda a: a * 2.0, lambda a: a, a) + lax.psum(a, "x"),
        lambda a: lax.fori_loop(0, lax.axis_index("x") + 1, lambda _, c: 2.0 * c, a),
    ],
)
def test_what_devices_decide_together_or_do_alone(f: Callable[[Any], Any], devices: bool, check_vma: bool) -> None:
    spec = P("x", "y") if check_vma else P("x")
    a = X if check_vma else X[:, :1]

    def on(m: Mesh) -> Any:
        return tj.jit(tj.shard_map(f, mesh=m, in_specs=spec, out_specs=spec, check_vma=check_vma))

    if check_vma and "all_gather" in f.__code__.co_names:
        with pytest.raises(TypingError, match="communicates along it"):  # types say no more than that it may differ
            on(mesh(devices))(a)
        return
    close(on(mesh(devices))(a), on(HOST)(a))


# What is accepted by mistake.


@MESHES
def test_names_and_sizes_that_are_wrong(devices: bool) -> None:
    own = mesh(devices)

    def mapped(f: Callable[[Any], Any], ins: Any = None, outs: Any = None, **kwargs: Any) -> Callable[..., Any]:
        return tj.shard_map(f, mesh=own, in_specs=ins or P("x"), out_specs=P("x") if outs is None else outs, **kwargs)

    with pytest.raises(ShardingError, match="divides along an axis twice"):
        mapped(lambda a: a, P("x", "x"))(X)
    with pytest.raises(ShardingError, match="'x' is there twice"):
        AbstractMesh((2, 2), ("x", "x"))
    with pytest.raises(AxisNameError, match="'x' is there twice in"):
        mapped(lambda a: lax.psum(a, ("x", "x")), outs=P())(X)
    for names in ({"x"}, set()):
        inner = mapped(lambda b: b, axis_names={"x"})
        nested = mapped(tj.named_call(inner, name="inner"), axis_names=names)
        with pytest.raises(ShardingError, match=r"the axis 'x' of the mesh is manual already.*Choose others"):
            nested(X)
    with pytest.raises(ShardingError, match=r"size 12 can't be divided equally by 8.*Pad it to 16"):
        tj.jit(lambda a: lax.with_sharding_constraint(a, NamedSharding(own, P(("x", "y")))))(np.ones(12))
    with pytest.raises(ShardingError, match=r"in_specs has P\('z',\), but its axes of the mesh are 'x', 'y'"):
        mapped(lambda a: a, P("z"))(X)
    with pytest.raises(AxisNameError, match=r"unbound axis name: 'z'. Axes in scope: 'x', 'y'"):
        mapped(lambda a: lax.psum(a, "z"))(X)
    with pytest.raises(ShardingError, match="the mesh has no axis 'z'"):
        NamedSharding(own, P("z"))


@CHECKED
@MESHES
def test_indices_of_maxima(devices: bool, check_vma: bool) -> None:
    """jax-ml/jax#28334"""
    a = np.random.default_rng(0).normal(size=(8, 6))
    for f in (tnp.argmax, tnp.argmin, lambda a, axis: tnp.argsort(a, axis=axis)[:, 0], tnp.max):
        mapped = tj.shard_map(
            lambda a, f=f: f(a, axis=1), mesh=mesh(devices), in_specs=P("x"), out_specs=P("x"), check_vma=check_vma
        )
        np.testing.assert_array_equal(tj.jit(mapped)(a), f(a, axis=1))


@CHECKED
@MESHES
def test_batches_of_sums(devices: bool, check_vma: bool) -> None:
    """jax-ml/jax#34249"""
    mapped = tj.shard_map(
        lambda a: lax.psum(a.sum(0), "x"), mesh=mesh(devices), in_specs=P("x"), out_specs=P(), check_vma=check_vma
    )
    batch = np.stack([X, 2.0 * X, -X])
    for f in (tj.vmap(mapped), tj.jit(tj.vmap(mapped)), tj.vmap(tj.jit(mapped))):
        close(f(batch), batch.sum(1))
    close(tj.jit(tj.vmap(tj.grad(lambda a: mapped(a).sum())))(batch), np.ones_like(batch))


@MESHES
def test_each_device_calls_the_host_for_its_part(devices: bool) -> None:
    mapped = tj.shard_map(
        lambda a: tj.pure_callback(lambda z: np.asarray(z) * 2.0, a, a),
        mesh=mesh(devices),
        in_specs=P("x"),
        out_specs=P("x"),
    )
    close(mapped(X), 2.0 * X)


def _choice(key: Any, a: Any) -> Any:
    return random.choice(key, tnp.arange(3), p=a / a.sum())


@MESHES
@pytest.mark.parametrize(
    "sample",
    [
        _choice,
        pytest.param(
            lambda key, a: random.choice(key, tnp.arange(3), (2,), replace=False, p=a / a.sum()),
            marks=pytest.mark.sweep,
        ),
        pytest.param(lambda key, a: random.categorical(key, tnp.log(a)), marks=pytest.mark.sweep),
        pytest.param(lambda key, a: random.beta(key, a, 1.0 + a), marks=pytest.mark.sweep),
        pytest.param(random.gamma, marks=pytest.mark.sweep),
        pytest.param(lambda key, a: random.binomial(key, 10.0, a / a.sum()), marks=pytest.mark.sweep),
        pytest.param(random.poisson, marks=pytest.mark.sweep),
        pytest.param(lambda key, a: random.truncated_normal(key, -a, a), marks=pytest.mark.sweep),
    ],
)
def test_samples_of_each_device(devices: bool, sample: Callable[[Any, Any], Any]) -> None:
    """jax-ml/jax#29881 and #31080: loops and tables within samplers vary as what they are drawn for does."""
    keys = random.split(random.key(0), 8)
    weights = np.random.default_rng(0).integers(1, 5, (8, 3)).astype(float)
    batched = tj.vmap(sample)
    mapped = tj.shard_map(batched, mesh=mesh(devices), in_specs=(P("x"), P("x", None)), out_specs=P("x"))
    close(tj.jit(mapped)(keys, weights), batched(keys, weights))


@CHECKED
@MESHES
def test_derivatives_within(devices: bool, check_vma: bool) -> None:
    """jax-ml/jax#26148, #28193 and #28260: each device differentiates what it computes from its own part."""
    weights = np.array([1.0, 3.0])

    def everywhere(f: Callable[[Any], Any]) -> Any:
        return tj.jit(
            tj.shard_map(f, mesh=mesh(devices), in_specs=P("x"), out_specs=P("x"), check_vma=check_vma),
        )(X)

    def loss(a: Any) -> Any:
        return (tnp.sin(a) * weights).mean()

    expected = np.cos(X) * weights / 4.0
    close(everywhere(tj.grad(loss)), expected)
    close(everywhere(tj.jacrev(loss)), expected)
    close(everywhere(tj.jacfwd(loss)), expected)

    def there_and_back(t: Any) -> Any:
        _, forwards = tj.linearize(tnp.sin, t)
        (back,) = tj.linear_transpose(forwards, t)(forwards(t))
        return back

    close(everywhere(there_and_back), np.cos(X) ** 2 * X)


# What has no elements.

EMPTY: Any = {
    "psum": lambda a: lax.psum(a, "x"),
    "all_gather": lambda a: lax.all_gather(a, "x", axis=1, tiled=True),
    "psum_scatter": lambda a: lax.psum_scatter(a, "x", scatter_dimension=1, tiled=True),
    "all_to_all": lambda a: lax.all_to_all(a, "x", 1, 1, tiled=True),
    "ppermute": lambda a: lax.ppermute(a, "x", [(0, 1)]),
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", EMPTY)
@pytest.mark.parametrize("shape", [(0, 4), (4, 0)])
def test_empty_arrays(name: str, shape: tuple[int, int]) -> None:
    """XLA refuses to gather and to scatter along a dimension of size 0."""
    empty = np.zeros(shape, np.float32)

    def mapped(on: Mesh) -> Any:
        return tj.shard_map(EMPTY[name], mesh=on, in_specs=P("x"), out_specs=P("x"), check_vma=False)

    found, expected = tj.jit(mapped(mesh(True)))(empty), mapped(HOST)(empty)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
