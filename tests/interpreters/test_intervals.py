"""Bounds: every value is within them, and where a function is used once they are tight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
from tinyjax import lax
from tinyjax import numpy as tnp
from tinyjax.errors import InputError, MissingRuleError, TreeError
from tinyjax.interpreters import bounds

RNG = np.random.default_rng(0)
A = RNG.normal(size=(4, 4))
Function = Callable[[Any], Any]


@tj.custom_jvp
def special(x: Any) -> Any:
    return tnp.sin(x) + x


special.defjvp(lambda primals, tangents: (special(primals[0]), tangents[0]))

FUNCTIONS: dict[str, Function] = {
    "polynomial": lambda x: x**3 - 2.0 * x * x + x**2 + 1.0 - x,
    "powers": lambda x: x**-1 + x**-2 + x**0 + x**5,
    "quotient": lambda x: (1.0 - x) / (x * x + 0.5),
    "quotient by anything": lambda x: x / x[::-1],
    "remainder": lambda x: lax.rem(x, 0.3) + lax.rem(0.7, x),
    "exp": lambda x: tnp.exp(x) + tnp.expm1(x) + tnp.exp2(x),
    "log": lambda x: tnp.log(x) + tnp.log1p(x) + tnp.sqrt(x) + lax.rsqrt(x),
    "waves": lambda x: tnp.sin(3.0 * x) * tnp.cos(x) + tnp.cos(20.0 * x),
    "tan": tnp.tan,
    "hyperbolic": lambda x: tnp.sinh(x) + tnp.cosh(x) - tnp.tanh(x),
    "inverse": lambda x: tnp.arcsin(x) + tnp.arccos(x) + tnp.arctan(x) + tnp.arctanh(x),
    "inverse hyperbolic": lambda x: tnp.arcsinh(x) + tnp.arccosh(x + 2.0),
    "arctan2": lambda x: tnp.arctan2(x, x[::-1]),
    "special": lambda x: lax.erf(x) + lax.erfc(x) + lax.erf_inv(x) + lax.logistic(x) + tnp.cbrt(x),
    "power": lambda x: tnp.power(tnp.abs(x), x),
    "power of anything": lambda x: lax.pow(x, 3),
    "abs": lambda x: tnp.abs(x) + tnp.sign(x) + tnp.floor(x) + tnp.ceil(x) + tnp.round(x),
    "clip": lambda x: tnp.clip(x, -0.3, 0.4) + tnp.maximum(x, 0.0) - tnp.minimum(x, x[::-1]),
    "matrix": lambda x: A @ x,
    "matrix, right": lambda x: x @ A,
    "dot": lambda x: x @ tnp.tanh(x) + tnp.outer(x, x),
    "reductions": lambda x: tnp.sum(x) + tnp.prod(x) + tnp.max(x) - tnp.min(x) + tnp.mean(x),
    "cumulative": lambda x: tnp.cumsum(x) + lax.cummax(x),
    "shapes": lambda x: tnp.pad(tnp.flip(x).reshape(2, 2).T, 1)[1:],
    "sort": tnp.sort,
    "where": lambda x: tnp.where(x > 0.3, x, -x),
    "comparisons": lambda x: ((x > 0) & ~(x < 0.5)) | (x == x[0]) ^ (x != 0.1),
    "select": lambda x: lax.select_n(tnp.floor(x * 2.0).astype("int32"), x, x + 1.0, x * 2.0),
    "counts": lambda x: tnp.sum(x > 0.0) + tnp.argmax(x) + x.astype("int32"),
    "any": lambda x: tnp.any(x > 0.5),
    "index": lambda x: x[tnp.argmax(x)] + x[np.array([2, 0])],
    "dynamic": lambda x: lax.dynamic_slice(x, (tnp.argmin(x),), (2,)),
    "update": lambda x: lax.dynamic_update_slice(x, x[:1] + 1.0, (tnp.argmin(x),)),
    "float32": lambda x: tnp.exp(x.astype("float32")) / 3.0,
    "softmax": lambda x: tnp.exp(x - tnp.max(x)) / tnp.sum(tnp.exp(x - tnp.max(x))),
    "jit": tj.jit(lambda x: tj.jit(tnp.cos)(x) * x),
    "checkpoint": tj.checkpoint(lambda x: tnp.cos(x) * x),
    "custom_jvp": special,
    "cond": lambda x: lax.cond(x[0] > 0, lambda x: x * 2.0, lambda x: x - 1.0, x),
    "switch": lambda x: lax.switch(tnp.floor(x[0] * 3.0).astype("int32"), [lambda x: x, tnp.sin, lambda x: -x], x),
    "scan": lambda x: lax.scan(lambda c, x: (c * x, c + x), 1.0, x),
    "fori": lambda x: lax.fori_loop(0, 3, lambda i, c: tnp.sin(c) + i, x),
    "while": lambda x: lax.while_loop(lambda c: tnp.sum(c) < 20.0, lambda c: c * c + 1.0, x),
    "while, certain first": lambda x: lax.while_loop(
        lambda c: c[1] < 50.0, lambda c: (c[0] + 1, c[1] + 5.0), (0, x[0])
    ),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_sound(name: str) -> None:
    f = FUNCTIONS[name]
    rng = np.random.default_rng(1)
    for width in (0.0, 0.01, 1.0, 3.0):
        lower = rng.normal(size=4)
        upper = lower + width * rng.uniform(size=4)
        low, high = map(tj.tree.leaves, bounds(f)(lower, upper))
        samples = [lower, upper, *(lower + (upper - lower) * rng.uniform(size=4) for _ in range(8))]
        for x in samples:
            for a, b, value in zip(low, high, tj.tree.leaves(f(x)), strict=True):
                inside = (np.asarray(a) <= np.asarray(value)) & (np.asarray(value) <= np.asarray(b))
                assert np.all(inside | np.isnan(np.asarray(value, float))), (a, value, b)


TIGHT: dict[str, tuple[Function, tuple[float, float], tuple[float, float]]] = {
    "square": (tnp.square, (-1.0, 2.0), (0.0, 4.0)),
    "odd power": (lambda x: x**3, (-1.0, 2.0), (-1.0, 8.0)),
    "negative power": (lambda x: x**-2, (1.0, 2.0), (0.25, 1.0)),
    "crest": (tnp.sin, (1.0, 2.0), (np.sin(1.0), 1.0)),
    "trough": (tnp.cos, (3.0, 4.0), (-1.0, np.cos(4.0))),
    "neither": (tnp.sin, (2.0, 3.0), (np.sin(3.0), np.sin(2.0))),
    "a whole turn": (tnp.sin, (0.0, 7.0), (-1.0, 1.0)),
    "pole": (tnp.tan, (1.0, 2.0), (-np.inf, np.inf)),
    "no pole": (tnp.tan, (-1.0, 1.0), (-np.tan(1.0), np.tan(1.0))),
    "abs": (tnp.abs, (-3.0, 2.0), (0.0, 3.0)),
    "one over": (lambda x: 1.0 / x, (2.0, 4.0), (0.25, 0.5)),
    "one over, from zero": (lambda x: 1.0 / x, (0.0, 4.0), (0.25, np.inf)),
    "one over, to zero": (lambda x: 1.0 / x, (-4.0, 0.0), (-np.inf, -0.25)),
    "one over, across": (lambda x: 1.0 / x, (-4.0, 1.0), (-np.inf, np.inf)),
    "product with a large one": (lambda x: x * np.array(0.0), (-np.inf, np.inf), (0.0, 0.0)),
    "cosh": (tnp.cosh, (-1.0, 2.0), (1.0, np.cosh(2.0))),
    "domain": (tnp.sqrt, (-1.0, 4.0), (0.0, 2.0)),
    "matrix": (lambda x: np.array([[1.0, -2.0]]) @ tnp.stack([x, x]), (-1.0, 1.0), (-3.0, 3.0)),
    "known branch": (lambda x: lax.cond(x > 0.0, tnp.exp, tnp.negative, x), (1.0, 2.0), (np.exp(1.0), np.exp(2.0))),
    "either branch": (lambda x: lax.cond(x > 0.0, lambda x: x, lambda x: x - 5.0, x), (-1.0, 2.0), (-6.0, 2.0)),
    "loop": (lambda x: lax.fori_loop(0, 3, lambda i, c: c * 2.0, x), (-1.0, 2.0), (-8.0, 16.0)),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", TIGHT)
def test_tight(name: str) -> None:
    f, (lower, upper), (low, high) = TIGHT[name]
    found = bounds(f)(lower, upper)
    np.testing.assert_allclose(np.ravel(found[0]), low, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(np.ravel(found[1]), high, rtol=1e-12, atol=1e-12)
    assert np.all(np.asarray(found[0]) <= low)
    assert np.all(np.asarray(found[1]) >= high)


def test_truth_values() -> None:
    lower, upper = bounds(lambda x: x > 1.0)(np.array([0.0, 0.0, 2.0]), np.array([0.5, 2.0, 3.0]))
    np.testing.assert_array_equal(lower, [False, False, True])
    np.testing.assert_array_equal(upper, [False, True, True])


def test_a_loop_that_may_go_on_forever_ends() -> None:
    lower, upper = bounds(lambda x: lax.while_loop(lambda c: c > 0.0, lambda c: c * 2.0, x))(-1.0, 1.0)
    assert float(lower) == -np.inf or float(lower) <= -1.0
    assert float(upper) == np.inf


def test_rounding_is_outwards() -> None:
    """What floating point computes may be off, but not the bounds."""
    lower, upper = bounds(lambda x: x + 0.2 - 0.3)(0.1, 0.1)
    assert float(lower) <= 0.0 < float(upper)
    tenth = np.full(1000, 0.1, np.float32)
    lower, upper = bounds(tnp.sum)(tenth, tenth)
    exact = 1000 * float(np.float32(0.1))
    assert float(lower) <= exact <= float(upper)
    assert float(upper) - float(lower) < 0.05


def test_compositions() -> None:
    def f(x: Any) -> Any:
        return tnp.sin(x) * 2.0

    lower, upper = np.array([0.1, 1.0]), np.array([0.2, 1.2])
    plain = bounds(f)(lower, upper)
    for composed in (tj.jit(bounds(f)), tj.vmap(bounds(f)), bounds(tj.vmap(f)), bounds(tj.jit(f))):
        np.testing.assert_allclose(composed(lower, upper), plain, rtol=1e-6)
    slope = tj.grad(lambda x: bounds(f)(x, x + 0.1)[1])(0.5)
    np.testing.assert_allclose(slope, 2.0 * np.cos(0.6), rtol=1e-6)

    def cube(x: Any) -> Any:
        return x**3

    low, high = bounds(tj.grad(cube))(1.0, 2.0)
    np.testing.assert_allclose([low, high], [3.0, 12.0])


def test_several_arguments() -> None:
    lower, upper = bounds(lambda x, t: {"s": x - t["y"]})((1.0, {"y": 2.0}), (2.0, {"y": 5.0}))
    np.testing.assert_allclose([lower["s"], upper["s"]], [-4.0, 0.0], atol=1e-12)


def test_errors() -> None:
    with pytest.raises(TreeError, match="the lower bounds have the tree"):
        bounds(lambda x, y: x)((1.0, 2.0), (1.0,))
    with pytest.raises(InputError, match="must have one type"):
        bounds(lambda x: x)(1.0, np.ones(3))
    with pytest.raises(MissingRuleError, match="'io_callback' not implemented: it would be called for arguments that"):
        bounds(lambda x: tj.io_callback(np.sin, x, x))(1.0, 2.0)
