"""Functions of arrays at the ends of dtypes: what the array API standard says, and the same compiled as on the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import ModuleType

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.extremes import check_classes, combinations, extremes
from tests.numpy.oracle import words
from tests.numpy.test_elementwise import BINARY, UNARY
from tests.primitives.catalog import ALL, LIMITS
from tinyjax import Array, lax
from tinyjax.errors import TinyjaxError
from tinyjax.ir.dtypes import (
    COMPLEX64,
    COMPLEX128,
    COMPLEXES,
    FLOAT32,
    FLOAT64,
    INEXACT,
    INT32,
    SHORT_NAMES,
    DType,
    HostArray,
)

NAN, INF = np.nan, np.inf
SAMPLED = [INT32, FLOAT32, COMPLEX64]
ALL_DTYPES = [pytest.param(dtype, marks=[] if dtype in SAMPLED else [pytest.mark.sweep]) for dtype in ALL]
#: Functions of complex numbers in which products of parts overflow at the ends, or a rounded zero gets a sign.
PRODUCTS = {"exp2", "reciprocal", "sinc", "rsqrt"}

Function = Callable[..., Array | tuple[Array, ...]]


def same_classes(functions: Mapping[str, Function], args: Sequence[HostArray], signs: bool = True) -> None:
    """Fails unless functions give numbers of one class on the host and compiled, all as one program."""
    arrays = [tnp.asarray(arg) for arg in args]
    found: dict[str, Array | tuple[Array, ...]] = {}
    for name, function in functions.items():
        try:
            found[name] = function(*arrays)
        except TinyjaxError:  # not for this dtype
            continue
    compiled = tj.jit(lambda *xs: {name: functions[name](*xs) for name in found})(*arrays)
    for name, eager in found.items():
        results = zip(_several(compiled[name]), _several(eager), strict=True)
        for got, want in results:
            check_classes(name, args, np.asarray(got), np.asarray(want), 4, signs)


def _several(value: Array | tuple[Array, ...]) -> tuple[Array, ...]:
    return value if isinstance(value, tuple) else (value,)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=SHORT_NAMES.__getitem__)
def test_unary(dtype: DType) -> None:
    functions = {name: getattr(tnp, name) for name in UNARY if dtype not in COMPLEXES or name not in PRODUCTS}
    conversions = {SHORT_NAMES[new]: lambda x, new=new: x.astype(new) for new in ALL}
    powers = {f"power {y}": lambda x, y=y: x**y for y in (2, 3, -1, 0.5)}
    others: dict[str, Function] = {"2 % x": lambda x: 2 % x, "x // 3": lambda x: x // 3}
    same_classes({**functions, **conversions, **others}, [extremes(dtype)])
    same_classes(powers, [extremes(dtype, ends=dtype not in COMPLEXES)])


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=SHORT_NAMES.__getitem__)
def test_binary(dtype: DType) -> None:
    same_classes({name: getattr(tnp, name) for name in BINARY}, combinations([dtype, dtype], dtype not in COMPLEXES))


REDUCTIONS = words("sum max min mean argmax argmin cumsum cumprod sort argsort all any var median")


def along_rows(module: ModuleType, name: str, **options: bool) -> Function:
    function = getattr(module, name)
    return lambda x: function(x, 1, **options)


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=SHORT_NAMES.__getitem__)
def test_reductions(dtype: DType) -> None:
    values = extremes(dtype, few=True, ends=False)[: 8 if dtype in COMPLEXES else 10]
    rows = np.stack([grid.ravel() for grid in np.meshgrid(values, values, values, indexing="ij")], 1)
    functions = {name: along_rows(tnp, name) for name in REDUCTIONS}
    for reverse in (False, True):
        for name in ("cumsum", "cumprod", "cummax", "cummin", *["cumlogsumexp"] * (dtype in INEXACT)):
            functions[f"{name} {reverse}"] = along_rows(lax, name, reverse=reverse)
    if dtype in COMPLEXES:
        del functions["var"]
    else:
        functions["clip"] = lambda x: tnp.clip(x[:, 0], x[:, 1], x[:, 2])
    functions["clamp"] = lambda x: lax.clamp(x[:, 0], x[:, 1], x[:, 2])
    same_classes(functions, [rows])
    alone = {name: along_rows(tnp, name) for name in words("sum prod max min")}
    same_classes(alone, [extremes(dtype, ends=False)[:, None]])


def test_derivatives_of_cumlogsumexp_at_infinity() -> None:
    def last(x: Array) -> Array:
        return lax.cumlogsumexp(x)[-1]

    for jacobian in (tj.jacfwd, tj.jacrev):
        for found in on_both(jacobian(last), np.array([100, INF, 1000, 2])):
            assert found.tolist() == [0, 1, 0, 0]


# What the array API standard says.

QUOTIENTS = [
    (INF, 2.0, INF, NAN),
    (INF, -2.0, -INF, NAN),
    (-INF, -2.0, INF, NAN),
    (INF, INF, NAN, NAN),
    (1.0, INF, 0.0, 1.0),
    (1.0, -INF, -0.0, -INF),
    (-1.0, INF, -0.0, INF),
    (-1.0, -INF, 0.0, -1.0),
    (0.0, 2.0, 0.0, 0.0),
    (-0.0, 2.0, -0.0, 0.0),
    (0.0, -2.0, -0.0, -0.0),
    (-0.0, -2.0, 0.0, -0.0),
    (1.0, 0.0, INF, NAN),
    (1.0, -0.0, -INF, NAN),
    (0.0, 0.0, NAN, NAN),
    (NAN, 1.0, NAN, NAN),
    (6.0, -3.0, -2.0, -0.0),
    (-0.5, -1.0, 0.0, -0.5),
    (-0.5, 1.0, -1.0, 0.5),
    (7.0, -3.0, -3.0, -2.0),
]


@pytest.mark.parametrize("compiled", [False, True])
def test_floor_division(compiled: bool) -> None:
    x, y, quotient, rest = np.asarray(QUOTIENTS).T
    both = tj.jit(tnp.divmod)(x, y) if compiled else tnp.divmod(x, y)
    single = [tj.jit(f)(x, y) if compiled else f(x, y) for f in (tnp.floor_divide, tnp.remainder)]
    for found in (both, single):
        for got, want in zip(found, (quotient, rest), strict=True):
            check_equal(np.asarray(got), want)


def check_equal(got: HostArray, want: HostArray) -> None:
    """Fails unless floats are equal, zeros in their signs too."""
    np.testing.assert_array_equal(got, want)
    number = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(want[number]))


def test_signs() -> None:
    for sign in (tnp.sign, tj.jit(tnp.sign)):
        check_equal(np.asarray(sign(np.array([-0.0, 0.0, -INF, 2, NAN]))), np.array([0.0, 0.0, -1, 1, NAN]))
        found = np.asarray(sign(np.array([0j, complex(-0.0, -0.0), complex(INF, 1), 3 - 4j, complex(1, NAN)])))
        np.testing.assert_array_equal(found[:4], [0, 0, 1, 0.6 - 0.8j])
        assert np.isnan(found[4].real)
        assert np.isnan(found[4].imag)


@pytest.mark.parametrize("dtype", [COMPLEX64, COMPLEX128], ids=SHORT_NAMES.__getitem__)
def test_tangents_at_infinity_have_a_zero_with_the_sign_of_the_other_part(dtype: DType) -> None:
    angles = np.array([0, 0.5, 2, 3, 4, 1e5])
    signed = np.concatenate([angles, -angles])
    for end in (INF, -INF):
        z = np.array([complex(end, angle) for angle in signed], dtype)
        for found in [*on_both(tnp.tanh, z), *on_both(lambda z: tnp.tan(lax.complex(z.imag, z.real)), z)]:
            part, zero = (found.real, found.imag) if found.real.any() else (found.imag, found.real)
            check_equal(part, np.full(12, np.sign(end), part.dtype))
            check_equal(zero, np.copysign(0, signed).astype(zero.dtype))


def test_complex_numbers_are_true_unless_both_parts_are_zero() -> None:
    z = np.array([0, 1j, 1, complex(0, NAN), complex(-0.0, 0)])
    for found in on_both(lambda z: (tnp.astype(z, bool), lax.convert_element_type(z, bool)), z):
        assert found.tolist() == [[False, True, True, True, False]] * 2


# Derivatives.


def on_both(function: Function, *args: HostArray) -> list[HostArray]:
    """The function's value on the host, and compiled."""
    return [np.asarray(f(*args)) for f in (function, tj.jit(function))]


@pytest.mark.parametrize("correction", [2, 3])
def test_variance_without_degrees_of_freedom_has_no_derivative(correction: int) -> None:
    x = np.array([1.0, 2.0])
    for mask in (None, np.array([True, True])):
        for found in on_both(tj.grad(partial(tnp.var, correction=correction, where=mask)), x):
            assert np.isnan(found).all()


def test_derivative_of_sinc_far_away() -> None:
    for x in (1e200, -1e160):
        for jacobian in (tj.jacfwd, tj.jacrev):
            for found in on_both(jacobian(tnp.sinc), np.asarray(x)):
                assert abs(found) <= 2 / abs(x)


def test_derivatives_of_extremes_of_nan() -> None:
    x = np.array([1.0, NAN, 3.0, NAN])
    for function in (tnp.max, tnp.min):
        for jacobian in (tj.jacfwd, tj.jacrev):
            for found in on_both(jacobian(function), x):
                assert np.isnan(found).all()


def test_derivative_of_remainder() -> None:
    x, y = (grid.ravel() for grid in np.meshgrid([-6.0, -0.0, 0.0, 6, 7, INF, NAN], [-3.0, 3, 4, INF, 0]))
    for found in on_both(tj.vmap(tj.grad(tnp.remainder)), x, y):
        assert (found == 1).all()


def test_derivatives_at_poles() -> None:
    for found in on_both(tj.vmap(tj.grad(lax.lgamma)), np.array([0.0, -0.0])):
        assert found.tolist() == [-INF, INF]


SMOOTH = [name for name in UNARY if name not in {"floor", "ceil", "trunc", "modf", "nan_to_num"}]


INEXACT_DTYPES = [
    pytest.param(dtype, marks=[] if dtype in SAMPLED else [pytest.mark.sweep])
    for dtype in (FLOAT32, FLOAT64, COMPLEX64, COMPLEX128)
]


def tangent(function: Function, *args: Array) -> Array | tuple[Array, ...]:
    """The derivative of the function with respect to all arguments together, forwards."""
    return tj.jvp(function, args, tuple(map(tnp.ones_like, args)))[1]


def cotangents(function: Function, *args: Array) -> tuple[Array, ...]:
    """Its derivatives with respect to each argument, backwards."""

    def of(xs: tuple[Array, ...]) -> Array:
        return _several(function(*xs))[0]

    out, pullback = tj.vjp(of, args)
    return pullback(tnp.ones_like(out))[0] if out.dtype in INEXACT else ()


def slopes(functions: Mapping[str, Function]) -> dict[str, Function]:
    """The derivatives of functions, both ways."""
    both = {"forwards": tangent, "backwards": cotangents}
    return {f"{name} {way}": partial(of, f) for name, f in functions.items() for way, of in both.items()}


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", INEXACT_DTYPES, ids=SHORT_NAMES.__getitem__)
def test_derivatives(dtype: DType) -> None:
    functions = {name: getattr(tnp, name) for name in SMOOTH}
    # XLA leaves out factors of 1, with which some zeros are negative.
    same_classes(slopes(functions), [extremes(dtype, few=True, ends=False)], signs=False)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", INEXACT_DTYPES, ids=SHORT_NAMES.__getitem__)
def test_derivatives_of_two(dtype: DType) -> None:
    functions = {name: getattr(tnp, name) for name in BINARY}
    same_classes(slopes(functions), combinations([dtype, dtype], ends=False), signs=False)


@pytest.mark.parametrize("dtype", INEXACT_DTYPES[2:], ids=SHORT_NAMES.__getitem__)
def test_powers_and_sums_of_powers_at_the_ends(dtype: DType) -> None:
    x, y = combinations([dtype, dtype])
    _, tiny, _ = LIMITS[x.real.dtype]
    angle = np.angle(x)
    # Where the numbers and the logarithm have no subnormal parts, which XLA takes for zeros.
    parts = [np.abs(part) for part in (angle, x.real, x.imag, y.real, y.imag)]
    normal = np.all([(part == 0) | ~(part <= tiny) for part in parts], axis=0)
    functions: dict[str, Callable[..., Array]] = {"power": tnp.power, "logaddexp2": tnp.logaddexp2}
    same_classes({**functions, **slopes(functions)}, [x[normal], y[normal]], signs=False)


def test_logaddexp2_takes_distances_before_it_multiplies() -> None:
    large = np.array([1e9, 1e20, 3e38, -1e9], np.float32)
    for found in on_both(tj.vmap(tj.grad(tnp.logaddexp2)), large, large):
        assert found.tolist() == [0.5] * 4


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", INEXACT_DTYPES, ids=SHORT_NAMES.__getitem__)
def test_derivatives_of_compiled_functions(dtype: DType) -> None:
    x = tnp.asarray(extremes(dtype, few=True, ends=False))
    functions = {name: f for name in SMOOTH if (f := _defined(getattr(tnp, name), x)) is not None}

    def together(x: Array) -> dict[str, Array | tuple[Array, ...]]:
        return {name: f(x) for name, f in functions.items()}

    compiled = tj.jvp(tj.jit(together), (x,), (tnp.ones_like(x),))[1]
    for name, f in functions.items():
        pairs = zip(_several(compiled[name]), _several(tangent(f, x)), strict=True)
        for got, want in pairs:
            check_classes(name, [np.asarray(x)], np.asarray(got), np.asarray(want), 4, signs=False)


def _defined(function: Function, x: Array) -> Function | None:
    """The function, if it is one of numbers of this dtype."""
    try:
        function(x)
    except TinyjaxError:
        return None
    return function
