"""Sums yet to be made that loops, branches and functions take and return: nothing is summed on the way."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import tinyjax as tj
from tests.propagation.test_terms import MESH, RNG
from tinyjax import Array, P, lax
from tinyjax.api.lowered import Compiled
from tinyjax.sharding import AxisType, NamedSharding

tnp = tj.numpy
T, ROWS, WIDTH = 3, 8, 4
XS = RNG.normal(size=(T, ROWS, WIDTH))
WS = RNG.normal(size=(2, WIDTH, WIDTH))
Step = Callable[[Array, Array], Array]


def loss(ws: Array, x: Array) -> Array:
    for i in range(2):
        x = tnp.tanh(tnp.dot(x, ws[i]))
    return tnp.square(x).sum()


def of_layers(ws: Array, x: Array) -> Array:
    return tnp.square(lax.scan(lambda x, w: (tnp.tanh(tnp.dot(x, w)), None), x, ws)[0]).sum()


def tied(ws: Array, x: Array) -> Array:
    return tnp.square(lax.fori_loop(0, 3, lambda i, x: tnp.tanh(tnp.dot(x, ws[0])), x)).sum() + tnp.dot(x, ws[1]).sum()


def constant(ws: Array, x: Array) -> Array:
    return lax.scan(lambda x, w: (tnp.dot(x, w), None), x, ws)[0].sum()


@tj.custom_vjp
def _product(x: Array, w: Array) -> Array:
    return tnp.dot(x, w)


_product.defvjp(
    lambda x, w: (_product(x, w), (x, w)),
    lambda kept, ct: (tnp.dot(ct, kept[1].T), tnp.dot(kept[0].T, ct, out_sharding=P(unreduced={"x"}))),
)


def by_rule(ws: Array, x: Array) -> Array:
    for i in range(2):
        x = tnp.tanh(_product(x, ws[i]))
    return tnp.square(x).sum()


def kept(ws: Array, x: Array) -> Array:
    return tj.checkpoint(of_layers)(ws, x)


def called(ws: Array, x: Array) -> Array:
    return tj.jit(loss)(ws, x)


def chosen(ws: Array, x: Array) -> Array:
    return lax.cond(ws.sum() > 0, loss, lambda ws, x: 3.0 * loss(ws, x), ws, x)


LOSSES: dict[str, Step] = {
    "layers one by one": loss,
    "a scan of layers": of_layers,
    "the same weights again": tied,
    "a constant cotangent": constant,
    "a rule of its own": by_rule,
    "a checkpoint": kept,
    "a jitted function": called,
    "a branch": chosen,
}

Loop = Callable[[Callable[[Array], Array], Array, Array], Array]


def scanned(gradient: Callable[[Array], Array], start: Array, xs: Array) -> Array:
    return lax.scan(lambda total, x: (total + gradient(x), None), start, xs)[0]


def counted(gradient: Callable[[Array], Array], start: Array, xs: Array) -> Array:
    return lax.fori_loop(0, T, lambda i, total: total + gradient(xs[i]), start)


def until(gradient: Callable[[Array], Array], start: Array, xs: Array) -> Array:
    def body(state: tuple[Array, Array]) -> tuple[Array, Array]:
        return state[0] + 1, state[1] + gradient(xs[state[0]])

    return lax.while_loop(lambda state: state[0] < T, body, (tnp.asarray(0), start))[1]


def stacked(gradient: Callable[[Array], Array], start: Array, xs: Array) -> Array:
    """Gradients one by one, and their sum afterwards, in another loop."""
    found = lax.scan(lambda _, x: (None, gradient(x)), None, xs)[1]
    return lax.scan(lambda total, each: (total + each, None), start, found)[0]


def jitted(gradient: Callable[[Array], Array], start: Array, xs: Array) -> Array:
    return tj.jit(lambda start, xs: scanned(gradient, start, xs))(start, xs)


def nested(gradient: Callable[[Array], Array], start: Array, xs: Array) -> Array:
    def halves(total: Array, x: Array) -> Array:
        return scanned(lambda x: gradient(x) / 2, total, tnp.stack([x, x]))

    return lax.scan(lambda total, x: (halves(total, x), None), start, xs)[0]


def branching(gradient: Callable[[Array], Array], start: Array, xs: Array) -> Array:
    def body(total: Array, i: Array) -> tuple[Array, None]:
        return lax.cond(i < T, lambda t: t + gradient(xs[i % T]), lambda t: 1.0 * t, total), None

    return lax.scan(body, start, tnp.arange(T + 2))[0]


LOOPS: dict[str, Loop] = {
    "scan": scanned,
    "fori_loop": counted,
    "while": until,
    "stacked": stacked,
    "jit": jitted,
    "nested": nested,
    "cond": branching,
}
QUICK = {("a scan of layers", "nested"), ("a checkpoint", "cond")}


def every() -> list[object]:
    return [
        pytest.param(LOSSES[a], LOOPS[b], id=f"{a}, {b}", marks=[] if (a, b) in QUICK else pytest.mark.sweep)
        for a in LOSSES
        for b in LOOPS
    ]


@pytest.mark.sweep
@pytest.mark.parametrize(("loss", "loop"), every())
def test_gradients_are_added_up_and_summed_once(loss: Step, loop: Loop) -> None:
    plain = LOSSES["layers one by one"] if loss is by_rule else loss  # whose rule speaks of a mesh
    want = sum(np.asarray(tj.grad(plain)(tnp.asarray(WS), tnp.asarray(x))) for x in XS)
    with tj.set_mesh(MESH):
        ws, xs = tj.device_put(WS, P(reduced={"x"})), tj.device_put(XS, P(None, "x"))

        def step(ws: Array, xs: Array) -> Array:
            start = tj.reshard(tnp.zeros_like(WS), P(unreduced={"x"}))
            total = loop(lambda x: tj.grad(loss)(ws, x), start, xs)
            assert unreduced(total) == {"x"}
            return tj.reshard(total, P())

        compiled = tj.jit(step).lower(ws, xs).compile()
        np.testing.assert_allclose(np.asarray(compiled(ws, xs)), want, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(np.asarray(step(ws, xs)), want, rtol=1e-10, atol=1e-12)
        # Losses that nobody reads are summed all the same in branches: numbers, not arrays.
        assert len(re.findall(r"f64\[\d[^=]* all-reduce\(", compiled.as_text())) == 1


def unreduced(x: Array) -> frozenset[str]:
    found = tj.typeof(x)
    assert isinstance(found, tj.ShapeDtypeStruct)
    assert isinstance(found.sharding, NamedSharding)
    return found.sharding.spec.unreduced


def collectives(compiled: Compiled) -> list[str]:
    text = compiled.as_text()
    return re.findall(r" (all-reduce|all-gather|all-to-all|reduce-scatter|collective-permute)\(", text)


def test_conditions_read_the_sum_and_bodies_the_terms() -> None:
    def f(x: Array, y: Array) -> Array:
        z = tnp.einsum("xy,yz->xz", x, y, out_sharding=P(unreduced={"x", "y"}))

        def more(state: tuple[Array, Array]) -> Array:
            return tj.reshard(state[1], P()).sum() < 100.0

        return lax.while_loop(more, lambda state: (state[0] + 1, state[1] + 2.0 * z), (tnp.asarray(0), z))[1]

    x, y = abs(RNG.normal(size=(2, 4))), abs(RNG.normal(size=(4, 2)))
    want = x @ y
    while want.sum() < 100.0:
        want = want + 2.0 * (x @ y)
    with tj.set_mesh(MESH):
        placed = tj.device_put(x, P(None, ("x", "y"))), tj.device_put(y, P(("x", "y")))
        for run in (f, tj.jit(f)):
            found = run(*placed)
            assert unreduced(found) == {"x", "y"}
            np.testing.assert_allclose(np.asarray(found), want, rtol=1e-12)
        assert collectives(tj.jit(f).lower(*placed).compile()) == ["all-reduce"]


@pytest.mark.sweep
def test_shard_maps_hand_terms_on() -> None:
    def f(x: Array) -> Array:
        made = tj.shard_map(lambda x: x.sum(0), in_specs=P("x", "y"), out_specs=P("y", unreduced={"x"}))(x)
        scaled = tj.shard_map(lambda z: 2.0 * z, in_specs=P("y", unreduced={"x"}), out_specs=P("y", unreduced={"x"}))
        result: Array = scaled(lax.fori_loop(0, 3, lambda i, z: scaled(z) + made, made))
        return result

    x = RNG.normal(size=(8, 4))
    with tj.set_mesh(MESH):
        placed = tj.device_put(x, P("x"))
        np.testing.assert_allclose(np.asarray(f(placed)), 30.0 * x.sum(0), rtol=1e-12)
        np.testing.assert_allclose(np.asarray(tj.jit(f)(placed)), 30.0 * x.sum(0), rtol=1e-12)
        assert collectives(tj.jit(f).lower(placed).compile()) == []
        assert collectives(tj.jit(lambda x: tj.reshard(f(x), P("y"))).lower(placed).compile()) == ["all-reduce"]
        # What no device has terms of is one device's.
        whole = tj.shard_map(lambda z: 2.0 * z, in_specs=P(unreduced={"x"}), out_specs=P(unreduced={"x"}))
        np.testing.assert_array_equal(np.asarray(tj.jit(lambda x: whole(x + 1.0))(placed)), 2.0 * (x + 1.0))


OTHERS = [pytest.param(f, id=k, marks=[] if k == "scan" else pytest.mark.sweep) for k, f in LOOPS.items()]


@pytest.mark.parametrize("loop", OTHERS)
def test_other_axes_are_left_to_xla(loop: Loop) -> None:
    mesh = tj.make_mesh((2, 2), ("x", "y"), (AxisType.Explicit, AxisType.Auto))
    want = sum(np.asarray(tj.grad(of_layers)(tnp.asarray(WS), tnp.asarray(x))) for x in XS)
    with tj.set_mesh(mesh):
        ws, xs = tj.device_put(WS, P(None, None, "y", reduced={"x"})), tj.device_put(XS, P(None, "x"))

        @tj.jit
        def step(ws: Array, xs: Array) -> Array:
            start = tj.reshard(tnp.zeros_like(WS), P(unreduced={"x"}))
            return tj.reshard(loop(lambda x: tj.grad(of_layers)(ws, x), start, xs), P())

        np.testing.assert_allclose(np.asarray(step(ws, xs)), want, rtol=1e-10, atol=1e-12)
