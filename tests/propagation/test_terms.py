"""Sums between devices that are yet to be made, outside of shard_map: along Explicit axes of a mesh."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import tinyjax as tj
from tinyjax import Array, P, lax
from tinyjax.errors import ShardingError, ShardingTypeError
from tinyjax.sharding import AxisType, NamedSharding

tnp = tj.numpy
MESH = tj.make_mesh((2, 2), ("x", "y"))
RNG = np.random.default_rng(0)
X, Y, W = RNG.normal(size=(8, 4)), RNG.normal(size=(4, 8)), RNG.normal(size=(8, 8))
SUM = P("x", None, unreduced={"y"})
Function = Callable[[Array, Array], Array]


def product(x: Array, y: Array) -> Array:
    return tnp.einsum("xy,yz->xz", x, y, out_sharding=SUM)


def operands() -> tuple[Array, Array, Array]:
    return tj.device_put(X, P("x", "y")), tj.device_put(Y, P("y", None)), tj.device_put(W, P())


def spec_of(x: Array) -> P:
    assert isinstance(x.sharding, NamedSharding)
    return x.sharding.spec


#: What is linear in its first argument.
LINEAR: dict[str, Function] = {
    "add": lambda z, w: z + z,
    "subtract": lambda z, w: z - 2 * z,
    "negate": lambda z, w: -z,
    "multiply": lambda z, w: w * z,
    "divide": lambda z, w: z / 3,
    "divide by": lambda z, w: z / w,
    "sum": lambda z, w: z.sum(),
    "rows": lambda z, w: z.sum(0),
    "columns": lambda z, w: z.sum(1),
    "mean": lambda z, w: z.mean(),
    "transpose": lambda z, w: z.T,
    "reshape": lambda z, w: tnp.reshape(z, (4, 2, 8)),
    "product": lambda z, w: tnp.einsum("ij,jk->ik", z, w),
    "product from the left": lambda z, w: tnp.einsum("ij,ik->jk", w, z, out_sharding=P(unreduced={"y"})),
    "concatenate": lambda z, w: tnp.concatenate([z, z], 1),
    "slice": lambda z, w: z[:, 2:5],
    "index": lambda z, w: z[:, 3],
    "expand": lambda z, w: z[:, :, None],
    "broadcast": lambda z, w: tnp.broadcast_to(z[:, :1], (8, 3)),
    "cumulative": lambda z, w: tnp.cumsum(z, 1),
    "where": lambda z, w: tnp.where(w > 0, z, z + z),
    "triangle": lambda z, w: tnp.tril(z),
    "flip": lambda z, w: z[:, ::-1],
    "roll": lambda z, w: tnp.roll(z, 1, 1),
    "cast": lambda z, w: z.astype("complex128"),
    "take": lambda z, w: tnp.take(z, np.array([1, 3]), axis=1),
    "scatter": lambda z, w: z.at[:, np.array([1, 3])].add(z[:, :2]),
    "split": lambda z, w: tnp.split(z, 2, axis=1)[1],
    "dynamic": lambda z, w: lax.dynamic_slice(z, (0, 2), (8, 3)),
    "complex": lambda z, w: lax.complex(z, z),
    "fft": lambda z, w: tnp.fft.fft(z, axis=1),
    "scan": lambda z, w: lax.scan(lambda c, _: (2 * c + z, None), z, None, length=3)[0],
    "fori_loop": lambda z, w: lax.fori_loop(0, 3, lambda i, c: c + z, z),
    "cond": lambda z, w: lax.cond(w.sum() > 0, lambda a: a + a, lambda a: -a, z),
    "jit": lambda z, w: tj.jit(lambda a: a + a)(z),
    "checkpoint": lambda z, w: tj.checkpoint(lambda a: 2 * a + a)(z),
    "vmap": lambda z, w: tj.vmap(lambda row: 2 * row, in_axes=1, out_axes=1)(z),
    "in a loop": lambda z, w: lax.fori_loop(0, 2, lambda i, c: c + tj.reshard(2 * w, SUM), z),
    "in a function": lambda z, w: z + tj.jit(lambda a: tj.reshard(tnp.sin(a), SUM))(w),
}
QUICK = ("add", "multiply", "columns", "broadcast", "take", "scan", "checkpoint", "product from the left", "in a loop")


def sweep(names: dict[str, Function]) -> list[object]:
    return [pytest.param(name, id=name, marks=[] if name in QUICK else pytest.mark.sweep) for name in names]


@pytest.mark.parametrize("name", sweep(LINEAR))
def test_the_sum_is_the_same_however_late_it_is_made(name: str) -> None:
    f = LINEAR[name]
    if name in ("product from the left", "in a loop", "in a function"):  # which say how something lies on the mesh
        hosts = {"product from the left": W.T @ X @ Y, "in a loop": X @ Y + 4 * W, "in a function": X @ Y + np.sin(W)}
        want = hosts[name]
    else:
        want = np.asarray(f(tnp.asarray(X @ Y), tnp.asarray(W)))
    with tj.set_mesh(MESH):
        x, y, w = operands()
        z = product(x, y)
        for found in (f(z, w), tj.jit(f)(z, w), tj.jit(lambda x, y, w: f(product(x, y), w))(x, y, w)):
            assert spec_of(found).unreduced == {"y"}
            np.testing.assert_allclose(np.asarray(found), want, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(np.asarray(tj.reshard(found, P())), want, rtol=1e-12, atol=1e-12)
        # Nothing is sent but for the sum over an axis that is divided, and where XLA gathers what it transforms.
        compiled = tj.jit(lambda x, y, w: f(product(x, y), w)).lower(x, y, w).compile()
        sent = re.findall(
            r" (all-reduce|all-gather|all-to-all|reduce-scatter|collective-permute)\(", compiled.as_text()
        )
        rows = name in ("sum", "rows", "mean", "product from the left")
        assert sent == ["all-reduce"] * rows or name == "fft"


@pytest.mark.sweep
@pytest.mark.parametrize("name", sweep(LINEAR))
def test_gradients_are_those_of_the_sum(name: str) -> None:
    if name in ("product from the left", "in a loop", "in a function"):
        return
    f, direction = LINEAR[name], RNG.normal(size=X.shape)

    def loss(product: Callable[[Array, Array], Array]) -> Callable[[Array, Array, Array], Array]:
        return lambda x, y, w: tnp.square(tj.reshard(f(product(x, y), w), P()).real).sum()

    def plain(x: Array, y: Array, w: Array) -> Array:
        return tnp.square(f(x @ y, w).real).sum()

    want = tj.grad(plain, argnums=(0, 1, 2))(tnp.asarray(X), tnp.asarray(Y), tnp.asarray(W))
    _, slope = tj.jvp(lambda x: plain(x, tnp.asarray(Y), tnp.asarray(W)), (X,), (direction,))
    with tj.set_mesh(MESH):
        x, y, w = operands()
        # One by one, operations don't know that an operand is a zero.
        for transform in (tj.jit, (lambda f: f) if name != "triangle" else tj.jit):
            found = transform(tj.grad(loss(product), argnums=(0, 1, 2)))(x, y, w)
            for ours, theirs, operand in zip(found, want, (x, y, w), strict=True):
                np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-11, atol=1e-11)
                assert spec_of(ours).axes == NamedSharding(MESH, spec_of(operand)).padded(2).spec.axes
        pushed = tj.jit(lambda x, y, w, d: tj.jvp(lambda x: loss(product)(x, y, w), (x,), (d,))[1])
        np.testing.assert_allclose(pushed(x, y, w, tj.device_put(direction, P("x", "y"))), slope, rtol=1e-11)


REFUSED: dict[str, tuple[Function, str]] = {
    "sin": (lambda z, w: tnp.sin(z), "sin isn't linear"),
    "square": (lambda z, w: z * z, "a product of sums is no sum of products"),
    "another operand": (lambda z, w: z + w, "unreduced along 'y', and another isn't"),
    "maximum": (lambda z, w: z.max(), "isn't linear"),
    "exponential": (lambda z, w: tnp.exp(z), "isn't linear"),
    "product": (lambda z, w: tnp.einsum("ij,jk->ik", z, z), "a product of sums"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_linear_is_an_error(name: str) -> None:
    f, why = REFUSED[name]
    with tj.set_mesh(MESH):
        x, y, w = operands()
        for run in (
            lambda: f(product(x, y), w),
            lambda: tj.jit(lambda x, y, w: f(product(x, y), w))(x, y, w),
            lambda: tj.make_jaxpr(lambda x, y, w: tj.typeof(f(product(x, y), w)) and w)(x, y, w),
        ):
            with pytest.raises(ShardingTypeError, match=why):
                run()
        # Made first, it may be anything.
        made = f(tj.reshard(product(x, y), P("x" if name != "product" else None)), w)
        want = f(tnp.asarray(X @ Y), tnp.asarray(W)) if name != "another operand" else X @ Y + W
        np.testing.assert_allclose(np.asarray(made), np.asarray(want), rtol=1e-12)


def test_types_say_it() -> None:
    seen: list[str] = []

    def f(x: Array, y: Array) -> Array:
        z = product(x, y)
        seen.extend(str(tj.typeof(each)) for each in (z, z + z, z.sum(0), tj.reshard(z, P("x", "y"))))
        return z

    with tj.set_mesh(MESH):
        x, y, _ = operands()
        for run in (f, tj.jit(f), tj.grad(lambda x, y: tj.reshard(f(x, y), P()).sum())):
            seen.clear()
            run(x, y)
            assert seen == ["f64[8@x,8]{U:y}", "f64[8@x,8]{U:y}", "f64[8]{U:y}", "f64[8@x,8@y]"]
        r = tj.device_put(np.arange(8.0), P(reduced={"x"}))
        assert str(tj.typeof(r)) == "f64[8]{R:x}"
        assert str(tj.typeof(2 * r)) == "f64[8]{R:x}"


def test_each_device_has_its_term_and_no_sum_is_made() -> None:
    with tj.set_mesh(MESH):
        x, y, _ = operands()
        for run in (product, tj.jit(product)):
            z = run(x, y)
            for shard in z.addressable_shards:
                row, column = divmod(shard.device.id, 2)
                here = slice(2 * column, 2 * column + 2)
                want = X[4 * row : 4 * row + 4, here] @ Y[here]
                np.testing.assert_allclose(np.asarray(shard.data), want, rtol=1e-12)
        assert "all-reduce" not in tj.jit(product).lower(x, y).compile().as_text()
        summed = tj.jit(lambda x: lax.reduce_sum(x, (0,), out_sharding=P("y", unreduced={"x"})))
        assert "all-reduce" not in summed.lower(x).compile().as_text()
        np.testing.assert_allclose(summed(x), X.sum(0), rtol=1e-12)
        three = tj.jit(lambda a, b, c: tnp.einsum("d,dh,d->h", a, b, c, out_sharding=P("y", unreduced={"x"})))
        a = tj.device_put(X[:, 0], P("x"))
        assert "all-reduce" not in three.lower(a, x, a).compile().as_text()
        np.testing.assert_allclose(three(a, x, a), np.einsum("d,dh,d->h", X[:, 0], X, X[:, 0]), rtol=1e-12)


SPECS = [P(), P("x"), P("x", "y"), P(None, ("x", "y")), P(("y", "x"))]
SUMS = [P(unreduced={"x"}), P("x", unreduced={"y"}), P(None, "y", unreduced={"x"}), P(unreduced={"x", "y"})]


@pytest.mark.sweep
@pytest.mark.parametrize("before", SPECS, ids=str)
@pytest.mark.parametrize("between", SUMS, ids=str)
def test_to_a_sum_and_back(before: P, between: P) -> None:
    with tj.set_mesh(MESH):
        placed = tj.device_put(W, before)
        moves: list[Callable[[Array, P], Array]] = [
            tj.reshard,
            tj.device_put,
            lambda x, spec: tj.jit(lambda x: tj.reshard(x, spec))(x),
        ]
        for move in moves:
            moved = move(placed, between)
            assert NamedSharding(MESH, spec_of(moved)).padded(2) == NamedSharding(MESH, between).padded(2)
            np.testing.assert_array_equal(np.asarray(moved), W)
            np.testing.assert_array_equal(np.asarray(move(moved, before)), W)
        # Of what isn't one by itself:
        direct = tj.jit(lambda x: tj.reshard(tnp.sin(x), between))(placed)
        asked = tj.jit(tnp.sin, out_shardings=between)(placed)
        for found in (direct, asked):
            assert spec_of(found).unreduced == between.unreduced
            np.testing.assert_allclose(np.asarray(found), np.sin(W), rtol=1e-12)
        asked = tj.jit(lambda x: x.sum(0, keepdims=True) + x, out_shardings=between)(placed)
        np.testing.assert_allclose(np.asarray(asked), W.sum(0, keepdims=True) + W, rtol=1e-12)


def test_what_lies_along_the_axis_stays_where_it_is() -> None:
    with tj.set_mesh(MESH):
        for placed in (tj.device_put(np.arange(4.0), P("x")), np.arange(4.0)):
            found = tj.reshard(placed, P(unreduced={"x"}))
            own = [np.asarray(shard.data).tolist() for shard in found.addressable_shards[::2]]
            on_mesh = isinstance(placed, Array)
            assert own == ([[0, 1, 0, 0], [0, 0, 2, 3]] if on_mesh else [[0, 1, 2, 3], [0, 0, 0, 0]])


@pytest.mark.sweep
def test_gradients_of_what_is_reduced_are_unreduced() -> None:
    want = tj.grad(lambda w: tnp.sin(X @ w).sum())(Y)
    with tj.set_mesh(MESH):
        x, w = tj.device_put(X, P("x", None)), tj.device_put(Y, P(reduced={"x"}))

        def f(w: Array) -> Array:
            return tnp.sin(tnp.dot(x, w)).sum()

        def g(w: Array) -> Array:
            return f(tj.reshard(w, P(reduced={"x"})))

        for found in (tj.jit(tj.grad(f))(w), tj.grad(f)(w)):
            assert spec_of(found) == P(None, None, unreduced={"x"})
            np.testing.assert_allclose(found, want, rtol=1e-12)
            np.testing.assert_allclose(tj.reshard(found, P("y")), want, rtol=1e-12)
        for found in (tj.jit(tj.grad(g))(tj.reshard(w, P("y"))), tj.grad(g)(tj.reshard(w, P("y")))):
            assert spec_of(found) == P("y", None)
            np.testing.assert_allclose(found, want, rtol=1e-12)


def test_messages() -> None:
    with tj.set_mesh(MESH):
        x, y, w = operands()

        def f(x: Array, y: Array) -> Array:
            return tnp.einsum("xy,yz->xz", x, y, out_sharding=P(unreduced={"x"}))

        for run in (f, tj.jit(f)):
            with pytest.raises(ShardingTypeError, match=r"unreduced=\{'x'\} aren't those that the summed axes .* 'y'"):
                run(x, y)
        with pytest.raises(ShardingError, match=r"In shard_map, lax\.pcast\(x, 'x', to='unreduced'\)"):
            tj.shard_map(lambda a: tj.reshard(a, P(unreduced={"x"})), in_specs=P(), out_specs=P())(w)
    auto = tj.make_mesh((2, 2), ("x", "y"), (AxisType.Auto,) * 2)
    with tj.set_mesh(auto), pytest.raises(ShardingError, match="must be an Explicit axis"):
        tj.reshard(W, P(unreduced={"x"}))


def test_other_ways_from_and_to_the_host() -> None:
    sharding = NamedSharding(MESH, SUM)
    for placed in (
        tj.make_array_from_callback(W.shape, sharding, lambda index: W[index]),
        tj.make_array_from_process_local_data(sharding, W),
        tj.make_array_from_single_device_arrays(
            W.shape,
            sharding,
            [data for shard in tj.device_put(W, sharding).addressable_shards if (data := shard.data) is not None],
        ),
    ):
        assert spec_of(placed).unreduced == {"y"}
        np.testing.assert_array_equal(placed, W)
        assert placed.tolist() == W.tolist()
        assert repr(placed) == repr(tnp.asarray(W))
        np.testing.assert_array_equal(tj.process_allgather(placed, tiled=True), W)
