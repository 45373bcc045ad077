"""Floats of 8 bits and fewer, integers of 4 and 2: on the host, compiled, and as JAX has them."""

from __future__ import annotations

import itertools
import operator
import pickle
from collections.abc import Callable, Iterable
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.hlo import every_type
from tests.hlo.test_every_type import refused_by_xla
from tinyjax import Array, ir, lax
from tinyjax.errors import LoweringError, TypingError
from tinyjax.interop.jax import from_jax, to_jax
from tinyjax.ir import parse
from tinyjax.ir.dtypes import (
    BFLOAT16,
    BOOL,
    COMPLEX64,
    COMPLEXES,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    FLOATS,
    INT8,
    INT32,
    INT64,
    INTEGERS,
    SIGNED,
    UINT8,
    UINT32,
    WIDE,
    DType,
    HostArray,
    all_numbers,
    as_dtype,
    bits,
    integer_limits,
    short_name,
)
from tinyjax.testing import check_laws
from tinyjax.transforms.simplify_numbers import lossless

NARROW: Final = tuple(WIDE)
#: Those which XLA compiles.
COMPILED: Final = tuple(dtype for dtype in NARROW if bits(dtype) != 6)
OTHERS: Final = (BOOL, INT8, INT32, INT64, UINT8, UINT32, FLOAT16, BFLOAT16, FLOAT32, FLOAT64, COMPLEX64)
FEW: Final = tuple(as_dtype(name) for name in ("float8_e4m3fn", "float8_e5m2", "float4_e2m1fn", "int4", "uint2"))
FLOAT4: Final = as_dtype("float4_e2m1fn")
FLOAT8: Final = as_dtype("float8_e4m3fn")
SOME: Final = [pytest.param(dtype, marks=() if dtype in FEW else pytest.mark.sweep) for dtype in COMPILED]
#: It has neither zeros nor signs.
EXPONENTS: Final = as_dtype("float8_e8m0fnu")


def numbers(dtype: DType) -> HostArray:
    """Every number, or of wider dtypes such that rounding to narrow ones is put to the test."""
    if dtype in WIDE:
        return all_numbers(dtype)
    if dtype == BOOL:
        return np.asarray([False, True])
    if dtype in INTEGERS:
        least, greatest = integer_limits(dtype)
        found = [i for i in (*range(-20, 300, 7), 127, 128, least, greatest) if least <= i <= greatest]
        return np.asarray(found, dtype)
    normal = np.random.default_rng(0).normal(size=200)
    spread = normal * 2.0 ** np.random.default_rng(1).integers(-20, 20, 200)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1, 0.5, 448, 464, 465, 240, 248, 57344, 61440, 1e30, 1e-30, 1.75]
    with np.errstate(all="ignore"):
        return np.concatenate([spread, special]).astype(dtype)


def same(found: object, expected: object) -> bool:
    """Whether numbers and dtypes are equal, any nan like any other."""
    x, y = np.asarray(found), np.asarray(expected)
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    wide = np.complex128 if x.dtype in COMPLEXES else np.int64 if x.dtype in INTEGERS else np.float64
    return np.array_equal(x.astype(wide), y.astype(wide), equal_nan=x.dtype not in INTEGERS)


def check_conversions(old: DType, others: Iterable[DType]) -> None:
    x = numbers(old)

    def ours(dtypes: Iterable[DType], x: Array) -> list[Array]:
        return [lax.convert_element_type(x, dtype) for dtype in dtypes]

    assert [found.dtype for found in ours(others, tnp.asarray(x))] == list(others)
    if bits(old) == 6:
        return
    known = [new for new in others if bits(new) != 6]
    exact = x.astype(np.float32) if old == FLOAT4 else x.real  # of float4 JAX takes the largest for infinite
    expected = jax.jit(lambda x: [jax.lax.convert_element_type(x, new) for new in known])(exact)
    for found in (ours(known, tnp.asarray(x)), tj.jit(lambda x: ours(known, x))(tnp.asarray(x))):
        for number, value, new in zip(found, expected, known, strict=True):
            assert same(number, value), new


@pytest.mark.parametrize(("old", "new"), [(FLOAT32, FLOAT8), (FLOAT8, INT8), (FLOAT32, FLOAT4), (FLOAT8, COMPLEX64)])
def test_conversions_round_as_in_jax(old: DType, new: DType) -> None:
    check_conversions(old, (new,))


@pytest.mark.sweep
@pytest.mark.parametrize("old", [*NARROW, *OTHERS], ids=str)
def test_all_conversions(old: DType) -> None:
    check_conversions(old, NARROW if old in OTHERS else (*NARROW, *OTHERS))


def test_float4_is_not_infinite() -> None:
    x = all_numbers(FLOAT4)
    expected = [0, 0, 1, 1, 2, 3, 4, 6, 0, 0, -1, -1, -2, -3, -4, -6]
    assert np.asarray(tnp.asarray(x).astype("int8")).tolist() == expected
    assert np.asarray(tj.jit(lambda x: x.astype("int8"))(x)).tolist() == expected


EXACT: Final[tuple[tuple[Any, Any, bool], ...]] = tuple(
    (getattr(lax, name), getattr(jax.lax, name), floats)
    for floats, names in (
        (True, ("neg", "sign", "eq", "ne", "lt", "le", "add", "sub", "mul", "max", "min", "div")),
        (False, ("bitwise_not", "bitwise_and", "bitwise_or", "bitwise_xor", "rem", "shift_left", "clz")),
        (False, ("shift_right_logical", "shift_right_arithmetic")),
    )
    for name in names
)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", COMPILED, ids=str)
def test_elementwise(dtype: DType) -> None:
    """To the bit: one rounding of an exact result."""
    x, y = (side.reshape(-1) for side in np.meshgrid(numbers(dtype), numbers(dtype)))
    if dtype == EXPONENTS:  # XLA takes the smallest for zero, where there is none
        kept = (np.abs(np.log2(x.astype(float))) < 60) & (np.abs(np.log2(y.astype(float))) < 60)
        x, y = x[kept], y[kept]
    for ours, theirs, floats in EXACT:
        if dtype in FLOATS and not floats:
            continue
        args = (x, y) if ours.__name__ not in ("neg", "sign", "bitwise_not", "clz") else (x,)
        expected = jax.jit(theirs)(*args)
        assert same(ours(*map(tnp.asarray, args)), expected), ours
        assert same(tj.jit(ours)(*args), expected), ours


@pytest.mark.parametrize("dtype", [dtype for dtype in NARROW if dtype in INTEGERS], ids=str)
def test_bits_of_integers(dtype: DType) -> None:
    """Of as many as there are: JAX counts signs as often as a byte has them, and takes halves of bytes."""
    x, y = (side.reshape(-1) for side in np.meshgrid(numbers(dtype), numbers(dtype)))
    wide, other = x.astype(int), y.astype(int)
    ones = np.bitwise_count(wide % (1 << bits(dtype))).astype(np.int8).astype(dtype)
    upper = ((wide * other) >> bits(dtype)).astype(np.int8).astype(dtype)
    for run in (lambda f: f, tj.jit):
        assert same(run(lax.population_count)(x), ones)
        assert same(run(lax.mulhi)(x, y), upper)


@pytest.mark.parametrize(("old", "new"), [("i4", "u8"), ("u8", "u2"), ("f8_e4m3fn", "i4"), ("i2", "u4")])
def test_bits_read_as_another_dtype(old: str, new: str) -> None:
    first, second = ir.dtypes.printed_dtype(old), ir.dtypes.printed_dtype(new)
    x = np.resize(numbers(first), (3, 8))
    x = x if bits(first) >= bits(second) else x.reshape(-1, bits(second) // bits(first))

    def f(x: Array) -> Array:
        return lax.bitcast_convert_type(x, second)

    expected = jax.lax.bitcast_convert_type(x, second)
    assert same(f(tnp.asarray(x)), expected)
    assert same(tj.jit(f)(tnp.asarray(x)), expected)


def _close(found: object, expected: object, dtype: DType) -> bool:
    x, y = (np.asarray(a).astype(np.float64) for a in (found, expected))
    unit = float(tnp.finfo(dtype).eps)
    with np.errstate(invalid="ignore"):
        near = np.abs(x - y) <= unit * np.maximum(np.abs(x), np.abs(y))
    return bool(np.all((x == y) | near | (np.isnan(x) & np.isnan(y))))


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", [dtype for dtype in COMPILED if dtype in FLOATS and dtype != EXPONENTS], ids=str)
def test_functions_of_floats(dtype: DType) -> None:
    """What is compiled is what the host computes, up to a unit."""
    x = numbers(dtype)
    x = x[np.abs(x.astype(float)) >= float(tnp.finfo(dtype).smallest_normal)]
    functions = lax.exp, lax.log, lax.sqrt, lax.sin, lax.tanh, lax.erf, lax.erfc, lax.atan, lax.cbrt, lax.floor
    compiled = tj.jit(lambda x: [f(x) for f in functions])(tnp.asarray(x))
    for f, found in zip(functions, compiled, strict=True):
        assert _close(found, f(tnp.asarray(x)), dtype), f


ARRAYS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "max": lambda np_, x: np_.max(x, axis=1),
    "argmax": lambda np_, x: np_.argmax(x, axis=1),
    "sort": lambda np_, x: np_.sort(x, axis=1),
    "cumsum": lambda np_, x: np_.cumsum(x, axis=0, dtype=x.dtype),
    "matmul": lambda np_, x: np_.matmul(x, x.T),
    "where": lambda np_, x: np_.where(x > 1, x, 0),
    "concatenate": lambda np_, x: np_.concatenate([x, x]),
    "pad": lambda np_, x: np_.pad(x, 1, constant_values=1),
    "take": lambda np_, x: x[:, np.array([0, 2])],
    "at": lambda np_, x: x.at[np.array([0, 0])].add(1),
    "flip": lambda np_, x: np_.flip(x).T.reshape(6),
    "weak": lambda np_, x: x + 1,
    "bool": lambda np_, x: x + np.bool_(True),
}


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", COMPILED, ids=str)
def test_functions_of_arrays(dtype: DType) -> None:
    x = np.asarray([[1, 1, 1], [1, 1, 1]] if bits(dtype) == 2 else [[1, 1, 2], [2, 1, 2]]).astype(dtype)

    def all_of(np_: Any, x: Any) -> dict[str, Any]:
        return {name: f(np_, x) for name, f in ARRAYS.items()}

    host = all_of(tnp, tnp.asarray(x))
    # JAX takes infinities for the ends of what has none, and sorts, joins and multiplies two bits wrongly.
    expected = host if dtype == EXPONENTS or bits(dtype) == 2 else all_of(jnp, jnp.asarray(x))
    for found in (host, tj.jit(lambda x: all_of(tnp, x))(x)):
        for name, value in expected.items():
            assert same(found[name], value), name


def _promoted(namespace: Any, x: DType, y: object) -> DType | None:
    try:
        found: DType = np.dtype(namespace.result_type(x, y))
        return found
    except (TypeError, ValueError):
        return None


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_promotion_is_that_of_jax(dtype: DType) -> None:
    for other in (*NARROW, *OTHERS, int, float, complex):
        assert _promoted(tnp, dtype, other) == _promoted(jnp, dtype, other), other


def test_promotion_says_what_to_do() -> None:
    x = tnp.ones(3, FLOAT8)
    message = r"float8_e4m3fn and bfloat16 are promoted to no common dtype: .*Convert .*: x.astype\('float32'\)"
    with pytest.raises(TypingError, match=message):
        x + tnp.ones(3, "bfloat16")
    with pytest.raises(TypingError, match=r"int4 and int32 .* x.astype\('int32'\)"):
        tnp.ones(3, "int4") + tnp.ones(3, "int32")


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_limits(dtype: DType) -> None:
    if dtype in FLOATS:
        ours, theirs = tnp.finfo(dtype), operator.call(jnp.finfo, dtype)
        for name in ("bits", "nmant", "nexp", "max", "min", "eps", "tiny", "smallest_normal", "smallest_subnormal"):
            assert getattr(ours, name) == float(getattr(theirs, name)), name
    else:
        whole, known = tnp.iinfo(dtype), operator.call(jnp.iinfo, dtype)
        assert (whole.bits, whole.min, whole.max) == (known.bits, known.min, known.max)
    kinds = np.floating, np.integer, np.signedinteger, np.inexact, np.number, dtype, FLOAT32
    assert [tnp.issubdtype(dtype, kind) for kind in kinds] == [jnp.issubdtype(dtype, kind) for kind in kinds]
    assert getattr(tnp, dtype.name) == getattr(jnp, dtype.name).dtype.type


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_text_and_files(dtype: DType) -> None:
    x = numbers(dtype)[:2]
    program = tj.make_jaxpr(lambda x: (x * x + 1).astype(dtype).astype("float32").astype(dtype) + x)(x)
    assert parse(str(program.jaxpr)) == program.jaxpr
    assert pickle.loads(pickle.dumps(program)) == program
    assert str(ir.ShapedArray((3,), dtype)) == f"{short_name(dtype)}[3]"
    array = tnp.asarray(x)
    assert repr(array).endswith(f"dtype={dtype.name})")
    assert same(pickle.loads(pickle.dumps(array)), x)


@pytest.mark.parametrize("dtype", SOME, ids=str)
def test_programs_from_jax_and_back(dtype: DType) -> None:
    x = np.ones((2, 3)).astype(dtype)

    def f(x: Any) -> Any:
        return (x * x + x).astype("float32").astype(dtype)

    traced = jax.make_jaxpr(f)(x)
    assert short_name(dtype) in str(traced)
    assert parse(str(traced)) == from_jax(traced).jaxpr
    (found,) = tj.eval_jaxpr(from_jax(traced), [x])
    assert same(found, f(jnp.asarray(x)))
    (back,) = jax.tree.leaves(to_jax(tj.make_jaxpr(f)(x))(x))
    assert same(back, found)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", COMPILED, ids=str)
def test_laws(dtype: DType) -> None:
    check_laws(tj.make_jaxpr(lambda x: (x * x + x)[0])(np.ones((2, 3)).astype(dtype)))


@pytest.mark.parametrize("dtype", [FLOAT8, FLOAT4], ids=str)
def test_derivatives_go_through_conversions(dtype: DType) -> None:
    x = np.asarray([0.3, 1.0, 2.7, 5.2], np.float32)

    def f(x: Any) -> Any:
        return ((x.astype(dtype) * 2).astype("float32") ** 2).sum()

    assert same(tj.grad(f)(x), jax.grad(f)(jnp.asarray(x)))
    assert same(tj.jvp(f, (x,), (x,))[1], jax.jvp(f, (jnp.asarray(x),), (jnp.asarray(x),))[1])
    assert tj.grad(lambda x: x.sum().astype("float32"))(x.astype(dtype)).dtype == dtype


def check_product(x: DType, y: DType, preferred: DType | None) -> None:
    left, right = np.asarray([[1, 2], [1, 1]]).astype(x), np.asarray([[1, 1], [4, 2]]).astype(y)
    if x.name.endswith("2") or y.name.endswith("2"):
        left, right = np.ones((2, 2)).astype(x), np.ones((2, 2)).astype(y)

    def f(namespace: Any) -> Callable[[Any, Any], Any]:
        return lambda x, y: namespace.dot_general(x, y, (((1,), (0,)), ((), ())), preferred_element_type=preferred)

    found = f(lax)(tnp.asarray(left), tnp.asarray(right))
    assert same(tj.jit(f(lax))(left, right), found)
    whole = np.int64 if {x, y} <= INTEGERS and found.dtype in INTEGERS else np.float64
    exact = left.astype(whole) @ right.astype(whole)
    assert same(found, lax.convert_element_type(exact, found.dtype))
    try:
        expected = jax.jit(f(jax.lax))(left, right)
    except jax.errors.JaxRuntimeError:  # which XLA can't
        return
    assert found.dtype == expected.dtype


@pytest.mark.parametrize(
    ("x", "y", "preferred"),
    [("float8_e4m3fn", "float8_e5m2", "float32"), ("int4", "int4", "int32"), ("int4", "uint2", "int4")],
)
def test_products(x: str, y: str, preferred: str) -> None:
    check_product(as_dtype(x), as_dtype(y), as_dtype(preferred))


@pytest.mark.sweep
def test_all_products() -> None:
    for x, y in itertools.combinations_with_replacement(
        (FLOAT8, FLOAT4, as_dtype("int4"), as_dtype("uint2"), BFLOAT16), 2
    ):
        preferred: Iterable[DType | None] = (None, INT32) if {x, y} <= INTEGERS else (None, FLOAT32)
        for dtype in preferred:
            check_product(x, y, dtype)


def test_products_of_floats_of_equal_range() -> None:
    x, y = tnp.ones((2, 2), "float8_e5m2"), tnp.ones((2, 2), "float8_e5m2fnuz")
    with pytest.raises(TypingError, match="none of f8_e5m2 and f8_e5m2fnuz can hold the other's numbers"):
        lax.dot(x, y)


def test_float8_is_multiplied_as_it_is_elsewhere() -> None:
    """Where there are instructions for it."""
    types = [ir.ShapedArray((2, 2), name) for name in ("float8_e4m3fn", "float8_e5m2")]
    program = tj.make_jaxpr(lambda x, y: lax.dot(x, y, preferred_element_type=np.float32))(*types)
    assert "(tensor<2x2xf8E4M3FN>, tensor<2x2xf8E5M2>) -> tensor<2x2xf32>" in tj.hlo.lower(program, platform="cuda")
    assert "f32>, tensor<2x2xf32>) -> tensor<2x2xf32>" in tj.hlo.lower(program, platform="cpu")


def test_float6_stays_on_the_host() -> None:
    x = tnp.asarray([1.0, 2.5, 7.5], "float6_e2m3fn")
    assert np.asarray(x + x).tolist() == [2.0, 5.0, 7.5]
    with pytest.raises(LoweringError, match="XLA compiles nothing with arrays of dtype f6_e2m3fn"):
        tj.jit(operator.add)(x, x)


def test_conversions_that_lose_nothing() -> None:
    for old, new in itertools.product((BOOL, *NARROW), (*NARROW, INT8, UINT8, FLOAT16, FLOAT32)):
        x = numbers(old)
        there = lax.convert_element_type(x, new)
        if lossless(old, new):
            assert same(np.asarray(there).astype(np.float64), x.astype(np.float64)), (old, new)
            assert same(there.astype(old), x), (old, new)
        elif new in FLOATS and old in FLOATS and new in WIDE:
            wide, back = np.asarray(there).astype(np.float64), x.astype(np.float64)
            assert not same(wide, back) or not np.array_equal(np.signbit(wide), np.signbit(back)), (old, new)
    assert lossless(FLOAT4, FLOAT8)
    assert lossless(as_dtype("int2"), as_dtype("int4"))
    assert not lossless(BOOL, EXPONENTS)
    assert not lossless(FLOAT8, as_dtype("float8_e4m3fnuz"))


def test_extremes_of_nothing() -> None:
    for dtype in (as_dtype("int4"), FLOAT8):
        for f, g in ((lax.reduce_max, jax.lax.reduce_max), (lax.reduce_min, jax.lax.reduce_min)):
            x = np.zeros((0, 2), dtype)
            expected = g(jnp.asarray(x), (0,))
            assert same(f(x, (0,)), expected)
            assert same(tj.jit(lambda x, f=f: f(x, (0,)))(x), expected)


@pytest.mark.sweep
def test_everything_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    few = FLOAT4, as_dtype("int4")
    monkeypatch.setattr(every_type, "FEW", few)
    monkeypatch.setattr(every_type, "ALL", few)
    monkeypatch.setattr(every_type, "I", tuple(dtype for dtype in few if dtype in SIGNED))
    monkeypatch.setattr(every_type, "U", tuple(dtype for dtype in few if dtype in INTEGERS - SIGNED))
    monkeypatch.setitem(every_type._each.__kwdefaults__ or {}, "dtypes", few)
    for grid in every_type.GRIDS:
        once = {(p.name, avals, str(getattr(p, "new_dtype", ""))): (p, avals) for p, avals in every_type.accepted(grid)}
        found = list(once.values())
        for start in range(0, len(found), 60):
            assert not refused_by_xla(found[start : start + 60])
