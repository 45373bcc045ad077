"""Functions of lax and indexing at infinities, nan, zeros of either sign, and the ends of integer dtypes.

They give the same class of number applied to one vector after another, to all by vmap, and either of that compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.extremes import check_classes, extremes
from tests.numpy.oracle import words
from tests.primitives.catalog import ALL
from tinyjax import Array, lax
from tinyjax.errors import TinyjaxError
from tinyjax.ir.dtypes import COMPLEX64, COMPLEX128, COMPLEXES, FLOAT32, INEXACT, INT8, SHORT_NAMES, DType, HostArray

NAN, INF = np.nan, np.inf
#: Positions before, within and beyond a vector of three, some of them twice.
POSITIONS = np.array([0, 0, 1, 7, -1])

Results = Array | tuple[Array, ...]
#: Of a vector of three numbers.
Function = Callable[[Array], Results]


def products() -> dict[str, Function]:
    return {
        "x @ x": lambda x: x @ x[::-1],
        "outer": lambda x: tnp.outer(x, x[::-1]),
        "no_axes": lambda x: tnp.tensordot(x, x[::-1], 0),
        "axes_of_size_1": lambda x: x[:, None] @ x[None],
        "a matrix of one row": lambda x: x[None] @ x[:, None],
        "a matrix and a vector": lambda x: tnp.stack([x, x[::-1]]) @ x,
        "matrices": lambda x: tnp.stack([x, x[::-1]]) @ tnp.stack([x, x * x], 1),
        "batches": lambda x: lax.batch_matmul(x[:, None, None], x[::-1, None, None]),
        "einsum": lambda x: tnp.einsum("i,j->ji", x, x),
    }


def of(function: Callable[..., Results], *args: object, **options: object) -> Function:
    """The function of one operand, with these arguments after it."""
    return lambda x: function(x, *args, **options)


def paired(function: Callable[..., Results]) -> Function:
    """The function of the operand and of it from behind."""
    return lambda x: function(x, x[::-1])


def updated(x: Array, way: str, mode: str) -> Array:
    # Which one of several is set isn't said.
    positions = POSITIONS[1:] if way == "set" else POSITIONS
    values = x[0] if way == "set" else x[np.array([1, 2, 0, 1, 2])]
    found: Array = getattr(x.at[positions], way)(values, mode=mode)
    return found


def places() -> dict[str, Function]:
    functions: dict[str, Function] = {"pad": lambda x: lax.pad(x, x[0], ((1, -1, 1),))}
    for mode in ("fill", "clip", "wrap"):
        functions[f"take {mode}"] = of(lambda x, mode: x.at[np.array([0, 2, -1, 5, 1])].get(mode=mode), mode)
    for way in ("set", "add", "multiply", "min", "max"):
        for mode in ("drop", "clip"):
            functions[f"{way} {mode}"] = of(updated, way, mode)
    for start in (-5, -1, 1, 9):
        at = np.int32(start)
        functions[f"dynamic_slice {start}"] = of(lax.dynamic_slice, (at,), (2,))
        functions[f"dynamic_update_slice {start}"] = of(lambda x, at: lax.dynamic_update_slice(x, x[:2], (at,)), at)
        functions[f"dynamic_index_in_dim {start}"] = of(lax.dynamic_index_in_dim, at)
    return functions


def choices() -> dict[str, Function]:
    return {
        "cond": lambda x: lax.cond(x[0] == x[1], lambda x: x * x, lambda x: x + x, x),
        "cond of nan": lambda x: lax.cond(x[0] != x[0], lambda x: x[1], lambda x: x[2], x),
        "switch": lambda x: lax.switch(tnp.argmax(x), [lambda x: x[0], lambda x: x[1] * x[0], lambda x: x[2]], x),
        "where": lambda x: tnp.where(x, x, x[::-1]),
        "select": lambda x: lax.select(x == x[::-1], x, x * x),
        "clamp": lambda x: lax.clamp(x[0], x, x[2]),
        "sort": lax.sort,
        "sort descending": lambda x: tnp.sort(x, descending=True),
        "argsort": tnp.argsort,
        "argsort descending": lambda x: tnp.argsort(x, descending=True),
        "sort with two keys": lambda x: tuple(lax.sort((x, x[::-1]), num_keys=2)),
        "top_k": lambda x: tuple(lax.top_k(x, 2)),
        "argmax": lambda x: lax.argmax(x, 0, np.int32),
        "argmin": lambda x: lax.argmin(x, 0, np.int32),
    }


def reductions() -> dict[str, Function]:
    functions: dict[str, Function] = {
        "associative_scan": lambda x: lax.associative_scan(lax.mul, x),
        "scan": lambda x: lax.scan(lambda c, v: (c * v, c + v), x[0], x),
        "fori_loop": lambda x: lax.fori_loop(0, 3, lambda _, c: c * x, x),
    }
    for name in words("sum prod max min and or xor"):
        functions[f"reduce_{name}"] = of(getattr(lax, f"reduce_{name}"), (0,))
    for name in words("cumsum cumprod cummax cummin cumlogsumexp"):
        for reverse in (False, True):
            functions[f"{name} {reverse}"] = of(getattr(lax, name), 0, reverse=reverse)
    return functions


def conversions() -> dict[str, Function]:
    functions: dict[str, Function] = {"complex": paired(lax.complex)}
    for dtype in ALL:
        functions[f"to {SHORT_NAMES[dtype]}"] = of(lax.convert_element_type, dtype)
        functions[f"bits {SHORT_NAMES[dtype]}"] = of(lax.bitcast_convert_type, dtype)
    for bits in ((5, 10), (8, 7), (4, 3), (5, 2)):
        functions[f"reduce_precision {bits}"] = of(lax.reduce_precision, *bits)
    for method in lax.RoundingMethod:
        functions[f"round {method.name}"] = of(lax.round, method)
    return functions


def arithmetic() -> dict[str, Function]:
    functions: dict[str, Function] = {"pow of integers": of(lax.pow, np.array([3, -3, 0], np.int32))}
    for name in words("shift_left shift_right_logical shift_right_arithmetic div rem pow atan2 max min nextafter"):
        functions[name] = paired(getattr(lax, name))
    for name in words("eq ne lt le gt ge bitwise_and bitwise_or bitwise_xor"):
        functions[name] = paired(getattr(lax, name))
    for name in words("abs ceil floor sign neg is_finite bitwise_not population_count clz square sqrt rsqrt logistic"):
        functions[name] = getattr(lax, name)
    for divisor in (0, -1):
        functions[f"div {divisor}"] = of(lambda x, by: lax.div(x, tnp.full_like(x, by)), divisor)
        functions[f"rem {divisor}"] = of(lambda x, by: lax.rem(x, tnp.full_like(x, by)), divisor)
    for power in (-3, -1, 0, 2, 3, 7):
        functions[f"integer_pow {power}"] = of(lax.integer_pow, power)
    return functions


def several(value: Results) -> tuple[Array, ...]:
    return tuple(value) if isinstance(value, tuple) else (value,)


def check_ways(functions: Mapping[str, Function], rows: HostArray) -> None:
    """Fails unless functions of rows give numbers of one class one by one, by vmap, and either compiled."""
    vectors = [tnp.asarray(row) for row in rows]
    stacked = tnp.asarray(rows)
    found: dict[str, list[tuple[Array, ...]]] = {}
    for name, function in functions.items():
        try:
            found[name] = [several(function(x)) for x in vectors]
        except TinyjaxError:  # not for this dtype
            continue

    def all_of(x: Array) -> dict[str, tuple[Array, ...]]:
        return {name: several(functions[name](x)) for name in found}

    compiled = tj.jit(all_of)
    one_by_one = [compiled(x) for x in vectors]
    ways = {"vmap": tj.vmap(all_of)(stacked), "jit of vmap": tj.jit(tj.vmap(all_of))(stacked)}
    for name, expected in found.items():
        for i, wants in enumerate(zip(*expected, strict=True)):
            want = np.stack([np.asarray(w) for w in wants])
            operands = [np.repeat(rows[:, k], want[0].size) for k in range(3)]
            by_way = {way: np.asarray(results[name][i]) for way, results in ways.items()}
            by_way["jit"] = np.stack([np.asarray(results[name][i]) for results in one_by_one])
            for way, got in by_way.items():
                check_classes(f"{name} {way}", operands, got.ravel(), want.ravel(), 4)


def rows_of(dtype: DType, count: int) -> HostArray:
    """Some of the combinations of three extremes."""
    values = extremes(dtype, few=True, ends=dtype not in INEXACT)
    chosen = np.random.default_rng(0).integers(len(values), size=(count, 3))
    return np.asarray(values[chosen])


def _name(value: str | DType) -> str:
    return value if isinstance(value, str) else SHORT_NAMES[value]


KINDS = {f.__name__: f for f in (products, places, choices, reductions, conversions, arithmetic)}
#: What isn't left to the sweep.
SAMPLED = {
    ("products", FLOAT32),
    ("places", FLOAT32),
    ("choices", FLOAT32),
    ("reductions", COMPLEX64),
    ("conversions", FLOAT32),
    ("conversions", INT8),
    ("arithmetic", INT8),
}
CASES = [
    pytest.param(kind, dtype, marks=[] if (kind, dtype) in SAMPLED else [pytest.mark.sweep])
    for kind in KINDS
    for dtype in ALL
    if kind != "products" or dtype not in COMPLEXES
]


@pytest.mark.sweep
@pytest.mark.parametrize(("kind", "dtype"), CASES, ids=_name)
def test_same_class_in_all_ways(kind: str, dtype: DType) -> None:
    check_ways(KINDS[kind](), rows_of(dtype, 20))


@pytest.mark.parametrize("dtype", [COMPLEX64, pytest.param(COMPLEX128, marks=pytest.mark.sweep)], ids=_name)
def test_products_of_complex_numbers(dtype: DType) -> None:
    """Where several are added up, libraries say which numbers aren't finite, but not how."""
    alone = words("outer no_axes axes_of_size_1 batches einsum")
    functions = {name: f for name, f in products().items() if name in alone}
    sums = {name: of(lambda x, f: tnp.isfinite(f(x)), f) for name, f in products().items() if name not in alone}
    check_ways({**functions, **sums}, rows_of(dtype, 20))


@pytest.mark.parametrize("dtype", [COMPLEX64, COMPLEX128], ids=_name)
def test_squares_of_complex_numbers_have_exact_parts(dtype: DType) -> None:
    """Also where the squares of the parts are near each other, or overflow; as JAX's."""
    info = np.finfo(np.float32) if dtype == COMPLEX64 else np.finfo(np.float64)
    step, large = float(info.eps), float(info.max) / 4
    parts = [(0.375, 0.375), (1 + step, 1.0), (-large, large), (large, large * (1 + step)), (0.0, 0.0)]
    z = np.array([complex(x, y) for x, y in parts], dtype)
    real = [0.0, step * (2 + step), 0.0, -INF, 0.0]
    imag = [0.28125, 2 + 2 * step, -INF, INF, 0.0]
    for square in (tnp.square, tj.jit(tnp.square), lax.square, tj.vmap(tj.jit(lax.square))):
        found = np.asarray(square(z))
        assert found.dtype == dtype
        np.testing.assert_allclose(found.real, np.array(real), rtol=3 * step)
        np.testing.assert_allclose(found.imag, np.array(imag), rtol=3 * step)


@pytest.mark.sweep
@pytest.mark.parametrize("shape", [(2,), (5,), (16,), (37,), (3, 5), (1, 4)], ids=str)
def test_products_of_many_complex_numbers_have_one_order(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    parts = rng.choice([1.0, -2.0, 0.0, 3.0, INF, NAN], (2, 50, *shape), p=[0.3, 0.3, 0.09, 0.2, 0.1, 0.01])
    rows = np.empty((50, *shape), COMPLEX64)
    rows.real, rows.imag = parts
    axes = tuple(range(1, rows.ndim))
    for multiplied in (axes, axes[-1:]):
        product = partial(lax.reduce_prod, axes=multiplied)
        by_vmap = tj.vmap(partial(lax.reduce_prod, axes=tuple(axis - 1 for axis in multiplied)))
        want = np.asarray(product(rows))
        for way in (tj.jit(product), by_vmap, tj.jit(by_vmap)):
            check_classes("reduce_prod", [want.ravel()], np.asarray(way(rows)).ravel(), want.ravel())
