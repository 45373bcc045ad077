"""Bounds of each of the library's primitives: sound for random points, or refused with a reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinyjax as tj
from tinyjax import lax
from tinyjax import numpy as tnp
from tinyjax.errors import MissingRuleError, UnsupportedError
from tinyjax.extend import STANDARD
from tinyjax.interpreters import bounds
from tinyjax.interpreters.intervals import INTERVAL_RULES, IntervalContext
from tinyjax.ir.primitive import Primitive
from tinyjax.primitives.matrices import OfMatrices

Function = Callable[..., Any]
Box = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]

INTEGER: dict[str, tuple[Function, int]] = {
    "add": (lambda x, y: x + y, 2),
    "sub": (lambda x, y: x - y, 2),
    "mul": (lambda x, y: x * y, 2),
    "neg": (lambda x: -x, 1),
    "abs": (tnp.abs, 1),
    "square": (lax.square, 1),
    "power": (lambda x: lax.integer_pow(x, 3), 1),
    "div": (lax.div, 2),
    "rem": (lax.rem, 2),
    "and": (lambda x, y: x & y, 2),
    "or": (lambda x, y: x | y, 2),
    "xor": (lambda x, y: x ^ y, 2),
    "not": (lambda x: ~x, 1),
    "shift_left": (lax.shift_left, 2),
    "shift_right_arithmetic": (lax.shift_right_arithmetic, 2),
    "shift_right_logical": (lax.shift_right_logical, 2),
    "population_count": (lax.population_count, 1),
    "clz": (lax.clz, 1),
    "sum": (tnp.sum, 1),
    "cumsum": (lax.cumsum, 1),
    "prod": (tnp.prod, 1),
    "cumprod": (lambda x: lax.cumprod(x, reverse=True), 1),
    "dot": (lax.dot, 2),
    "narrow": (lambda x: lax.convert_element_type(x, "int8"), 1),
    "unsigned": (lambda x: lax.convert_element_type(x, "uint16"), 1),
    "floating": (lambda x: lax.convert_element_type(x, "float32"), 1),
    "sign": (lax.sign, 1),
    "sort": (lambda x, y: lax.sort((x, y), num_keys=1), 2),
    "sort by two": (lambda x, y: lax.sort((x, y), num_keys=2), 2),
    "max": (lambda x, y: lax.max(x, y) - lax.min(x, y), 2),
    "bitcast": (lambda x: lax.bitcast_convert_type(x, {1: "uint8", 4: "float32", 8: "float64"}[x.dtype.itemsize]), 1),
    "xor of all": (lambda x: lax.reduce_xor(x, (0,)), 1),
}
PLACES = np.array([2, 0, 2, 9])


def places(x: Any) -> Any:
    """Positions that depend on x."""
    return tnp.floor(x).astype("int32")


FLOATING: dict[str, Function] = {
    "lgamma": lax.lgamma,
    "digamma": lax.digamma,
    "trigamma": lambda x: lax.polygamma(1.0, x),
    "polygamma": lambda x: lax.polygamma(2.0, x),
    "polygamma of order x": lambda x: lax.polygamma(tnp.floor(tnp.abs(x)), x),
    "nextafter": lambda x: lax.nextafter(x, 2.0),
    "cumprod": lax.cumprod,
    "cumlogsumexp": lax.cumlogsumexp,
    "add at": lambda x: tnp.asarray(x).at[PLACES].add(x * x),
    "add anywhere": lambda x: tnp.asarray(x).at[places(x)].add(x),
    "multiply at": lambda x: tnp.asarray(x).at[PLACES].multiply(x),
    "multiply anywhere": lambda x: tnp.asarray(x).at[places(x)].multiply(x),
    "set at": lambda x: tnp.asarray(x).at[PLACES].set(x),
    "set once": lambda x: tnp.asarray(x).at[1].set(x[2]),
    "set anywhere": lambda x: tnp.asarray(x).at[places(x)].set(-x),
    "min at": lambda x: tnp.asarray(x).at[PLACES].min(x[::-1]),
    "max anywhere": lambda x: tnp.asarray(x).at[places(x)].max(x[::-1]),
    "sort with": lambda x: lax.sort((x, x[::-1], tnp.sin(x)), num_keys=1),
    "argsort": tnp.argsort,
    "psum": lambda x: lax.psum(x, "i") + lax.pmax(x, "i") - lax.pmin(x, "i") + lax.axis_index("i"),
    "to integers": lambda x: lax.convert_element_type(x * 100.0, "int8"),
    "mixed dot": lambda x: lax.dot(x, tnp.floor(x).astype("int32")),
    "callback": lambda x: tj.pure_callback(np.sin, tj.ShapedArray((4,), "float64"), x),
}


def check(f: Function, box: Sequence[Box], rng: np.random.Generator) -> None:
    """Random points between the bounds, and the bounds themselves, give results within what was found."""
    low, high = map(tj.tree.leaves, bounds(f)(tuple(a for a, _ in box), tuple(b for _, b in box)))
    for k in range(8):
        args = [
            a
            if k == 0
            else b
            if k == 1
            else _between(a, b, rng)
            if k % 2
            else np.where(rng.random(a.shape) < 0.5, a, b)
            for a, b in box
        ]
        for ends in zip(low, tj.tree.leaves(f(*args)), high, strict=True):
            a, value, b = map(np.asarray, ends)
            unknown = np.isnan(value) if value.dtype.kind == "f" else np.zeros(value.shape, bool)
            assert np.all((a <= value) & (value <= b) | unknown), (args, a, value, b)


def _between(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], rng: np.random.Generator) -> np.ndarray[Any, Any]:
    if a.dtype.kind == "f":
        return np.asarray(np.clip(a + (b - a) * rng.random(a.shape), a, b))
    steps = [int(lo) + int(rng.random() * (int(hi) - int(lo))) for lo, hi in zip(a, b, strict=True)]
    return np.array([min(max(s, int(lo)), int(hi)) for s, lo, hi in zip(steps, a, b, strict=True)], a.dtype)


def _integers(rng: np.random.Generator, dtype: str) -> Box:
    """Small ranges and large ones, some at the ends of the dtype."""
    info = np.iinfo(dtype)
    scale = rng.choice([3, 20, 1000, int(info.max)])
    ends = [
        sorted(min(max(int((rng.random() - 0.5) * 2 * float(scale)), int(info.min)), int(info.max)) for _ in range(2))
        for _ in range(4)
    ]
    if rng.random() < 0.2:
        ends[0][0] = int(info.min)
    if rng.random() < 0.2:
        ends[1][1] = int(info.max)
    if rng.random() < 0.3:
        ends[2] = [ends[2][0]] * 2
    return np.array([lo for lo, _ in ends], dtype), np.array([hi for _, hi in ends], dtype)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64"])
def test_integers(dtype: str) -> None:
    rng = np.random.default_rng(0)
    for name, (f, count) in INTEGER.items():
        if (name, dtype) != ("bitcast", "uint64") and not (dtype[0] == "u" and name in ("neg", "abs")):
            for _ in range(4):
                check(f, [_integers(rng, dtype) for _ in range(count)], rng)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", FLOATING)
def test_floats(name: str) -> None:
    f = FLOATING[name]
    rng = np.random.default_rng(1)
    for width, offset in [(0.0, 1.0), (0.01, 0.0), (1.0, -1.0), (1.0, 2.0), (3.0, 0.0)]:
        lower = rng.normal(size=4) + offset
        box = [(lower, lower + width * rng.random(4))]
        if name != "psum":
            check(f, box, rng)
            continue
        (low, high), mapped = box[0], tj.vmap(bounds(f), axis_name="i")(*box[0])
        check(tj.vmap(f, axis_name="i"), box, rng)
        assert np.all(np.asarray(mapped[0]) <= np.asarray(tj.vmap(f, axis_name="i")(low)))
        assert np.all(np.asarray(mapped[1]) >= np.asarray(tj.vmap(f, axis_name="i")(high)))


TIGHT: dict[str, tuple[Function, tuple[int, int], tuple[int, int]]] = {
    "sum": (lambda x: x + 1, (0, 126), (1, 127)),
    "overflow": (lambda x: x + 1, (0, 127), (-128, 127)),
    "product": (lambda x: x * x * x, (2, 5), (8, 125)),
    "square": (lax.square, (-3, 2), (0, 9)),
    "no absolute value": (tnp.abs, (-128, 0), (-128, 127)),
    "quotient": (lambda x: lax.div(x, tnp.int8(3)), (-7, 8), (-2, 2)),
    "quotient of the divisor": (lambda x: lax.div(tnp.int8(100), x), (5, 10), (10, 20)),
    "divisor may be zero": (lambda x: lax.div(tnp.int8(100), x), (0, 10), (-128, 127)),
    "remainder": (lambda x: lax.rem(x, tnp.int8(3)), (-7, 100), (-2, 2)),
    "remainder of a small one": (lambda x: lax.rem(x, tnp.int8(30)), (1, 5), (1, 5)),
    "masked": (lambda x: x & 7, (-100, 100), (0, 7)),
    "filled up": (lambda x: x | 4, (1, 9), (4, 15)),
    "shifted": (lambda x: lax.shift_left(x, tnp.int8(2)), (1, 5), (4, 20)),
    "shifted out": (lambda x: lax.shift_left(x, tnp.int8(2)), (1, 100), (-128, 127)),
    "halved": (lambda x: lax.shift_right_arithmetic(x, tnp.int8(1)), (-5, 5), (-3, 2)),
    "bits": (lax.population_count, (1, 9), (1, 4)),
    "leading": (lax.clz, (1, 9), (4, 7)),
    "dot": (lambda x: lax.dot(tnp.stack([x, x]), np.array([2, -1], "int8")), (1, 3), (-1, 5)),
}


@pytest.mark.parametrize("name", TIGHT)
def test_tight(name: str) -> None:
    f, ends, expected = TIGHT[name]
    low, high = bounds(f)(*(tnp.int8(end) for end in ends))
    assert (int(low), int(high)) == expected


def test_least_of_lgamma() -> None:
    low, high = bounds(lax.lgamma)(1.0, 3.0)
    np.testing.assert_allclose([low, high], [-0.12148629053584961, np.log(2.0)], rtol=1e-10)
    assert [float(end) for end in bounds(lax.lgamma)(-0.5, 1.0)] == [-np.inf, np.inf]


def primitives() -> Iterator[type[Primitive]]:
    """All primitives of the library."""
    return (cls for cls in STANDARD if issubclass(cls, Primitive))


def test_every_primitive_has_a_rule_or_a_reason() -> None:
    found = {cls.name for cls in primitives()}
    assert len(found) > 100
    opaque = [cls for cls in primitives() if cls.expand is Primitive.expand]
    refused = {cls.name for cls in opaque if cls not in INTERVAL_RULES}
    of_matrices = {cls.name for cls in opaque if issubclass(cls, OfMatrices)}
    assert refused - of_matrices == {
        "check",
        "complex",
        "conj",
        "call_exported",
        "custom_lin",
        "enclosing",
        "imag",
        "ffi_call",
        "io_callback",
        "random_unwrap",
        "random_wrap",
        "real",
        "rng_bit_generator",
        "rng_uniform",
        "select_and_gather_add",
        "select_and_scatter_add",
    }
    assert all(INTERVAL_RULES.reason(cls) for cls in opaque if cls not in INTERVAL_RULES)


def test_complex_numbers_are_refused() -> None:
    def f(x: Any) -> Any:
        return lax.real(lax.complex(x, x) * 2.0)

    with pytest.raises(MissingRuleError, match="'complex' not implemented: complex numbers have no order"):
        bounds(f)(1.0, 2.0)
    with pytest.raises(UnsupportedError, match="mul is applied to complex numbers, which have no order"):
        bounds(lambda x: x * 1j)(1.0, 2.0)
    missing = {cls.name for cls in IntervalContext.missing(tj.make_jaxpr(f)(1.0))}
    assert missing == {"complex", "mul", "real"}


def test_what_is_printed_within_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        tj.debug.print("x is {}", x)
        return x * 2.0

    bounds(f)(1.0, 2.0)
    assert capsys.readouterr().out.split() == ["x", "is", "1.0", "x", "is", "2.0"]


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(-128, 127), min_size=2, max_size=2).map(sorted), st.integers(-128, 127), st.data())
def test_compositions_of_integers(ends: list[int], other: int, data: st.DataObject) -> None:
    def f(x: Any) -> Any:
        x = tnp.asarray(x)
        return lax.rem((x * x - tnp.int8(other)) | x, tnp.int8(7)) + lax.max(x, tnp.int8(other)) * tnp.int8(3)

    low, high = bounds(f)(np.int8(ends[0]), np.int8(ends[1]))
    x = data.draw(st.integers(*ends))
    assert int(low) <= int(f(np.int8(x))) <= int(high)
