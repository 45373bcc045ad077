"""Costs, against XLA's own analysis of the compiled programs: equal where they can be, and else off by what is known.

What XLA does that costs don't know of: it expands some functions and cumulative sums into other operations, fuses
equations so that values between them are never written, merges equal computations, and analyses a loop as one
iteration. See docs/analysis.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias, final

import jax
import numpy as np
import pytest
from attrs import frozen

from tinyjax import checkpoint, grad, jit, lax, make_jaxpr, vmap
from tinyjax import numpy as tnp
from tinyjax.backend.stages import MemoryStats
from tinyjax.tools.cost import Cost, CostReport, program_cost
from tinyjax.transforms import cse, dce

pytestmark = pytest.mark.skipif(jax.default_backend() != "cpu", reason="the analysis differs by platform")

#: A function and its arguments.
Case: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]  # Any: the functions' own arguments and results


def ones(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.ones(shape, np.float32)


ONE: Final = np.float32(1)
X: Final = ones(32, 64)
COMPLEX: Final = X.astype(np.complex64)
ROWS: Final = np.array([1, 5, 7], np.int32)


@final
@frozen
class Comparison:
    """What we say, and what XLA says."""

    report: CostReport
    xla: Cost
    memory: int

    @property
    def ours(self) -> Cost:
        """With one iteration of each loop that is open."""
        return self.report.total.once


def compare(case: Case) -> Comparison:
    f, args = case
    lowered = jit(f).lower(*args)
    report = program_cost(dce(lowered.closed_jaxpr))
    assert not report.unknown
    compiled = lowered.compile()
    found, memory = compiled.cost_analysis(), compiled.memory_analysis()
    assert isinstance(memory, MemoryStats)
    flops, transcendentals, moved = (int(found.get(k, 0)) for k in ("flops", "transcendentals", "bytes accessed"))
    total = memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes
    return Comparison(report, Cost(flops, transcendentals, moved), total)


#: One program each: operations on x, and on x and x + 1. Then total counts must agree, and nothing can be merged.
UNARY: Final = (
    "neg abs sign floor ceil round square is_finite logistic exp2 "
    "sin cos tan tanh atan exp expm1 log log1p sqrt rsqrt cbrt erf"
)
BINARY: Final = "add sub mul div rem max min pow atan2 eq ne lt le gt ge"


@pytest.mark.parametrize("names", [UNARY, BINARY], ids=["unary", "binary"])
def test_elementwise_operations(names: str) -> None:
    args = (X,) if names is UNARY else (X, X)
    found = compare((lambda *xs: [getattr(lax, name)(*xs) for name in names.split()], args))
    counted = [program_cost(make_jaxpr(getattr(lax, name))(*args)).total.fixed for name in names.split()]
    assert sum(counted, Cost()) == found.ours
    assert (found.ours.flops, found.ours.transcendentals) == (found.xla.flops, found.xla.transcendentals)


EXACT: Final[dict[str, Case]] = {
    "add": (lax.add, (X, X)),
    "exp": (lax.exp, (X,)),
    "is_finite": (lax.is_finite, (X,)),
    "less": (lax.lt, (X, X)),
    "add literal": (lambda x: x + ONE, (X,)),
    "integer_pow 3": (lambda x: lax.integer_pow(x, 3), (X,)),
    "integer_pow 7": (lambda x: lax.integer_pow(x, 7), (X,)),
    "integer_pow -2": (lambda x: lax.integer_pow(x, -2), (X,)),
    "clamp": (lambda x: lax.clamp(ONE, x, ONE), (X,)),
    "convert to int": (lambda x: x.astype(np.int32), (X,)),
    "convert to f64": (lambda x: x.astype(np.float64), (X,)),
    "integers": (lambda x: x + x, (np.ones(100, np.int32),)),
    "booleans": (lambda x, y: x & y, (np.ones(100, np.bool_), np.ones(100, np.bool_))),
    "complex sum": (lambda x, y: x + y, (COMPLEX, COMPLEX)),  # products are lowered in parts, which XLA counts
    "matrix product": (lambda x, y: x @ y, (X, ones(64, 16))),
    "complex matrix product": (lambda x, y: x @ y, (COMPLEX, COMPLEX.T.copy())),
    "matrix and vector": (lambda x, y: x @ y, (X, ones(64))),
    "batch of products": (lambda x, y: x @ y, (ones(8, 32, 64), ones(8, 64, 16))),
    "chain of products": (lambda a, b, c, d: a @ b @ c @ d, (ones(32, 32),) * 4),
    "transpose": (lambda x: x.T, (X,)),
    "broadcast": (lambda x: tnp.broadcast_to(x, (8, 32, 64)), (X,)),
    "concatenate": (lambda x, y: tnp.concatenate([x, y]), (X, X)),
    "slice": (lambda x: x[3:9], (X,)),
    "reverse": (lambda x: x[::-1], (X,)),
    "iota": (lambda: tnp.arange(100), ()),
    "sort": (tnp.sort, (ones(1024).astype(np.int32),)),  # floats are sorted as integers, which takes more steps
}


@pytest.mark.parametrize("name", EXACT)
def test_exact(name: str) -> None:
    found = compare(EXACT[name])
    assert found.ours == found.xla
    assert found.report.memory.peak == found.memory
    assert found.report.complete


def mlp(v: Any, w: Any, x: Any) -> Any:
    return tnp.sum(tnp.tanh(x @ v) @ w)


def product(w: Any, x: Any) -> Any:
    return w @ x


def remembering_little(w: Any, x: Any) -> Any:
    return tnp.sum(checkpoint(lambda w, x: tnp.sin(x @ w))(w, x))


WEIGHTS: Final = (ones(64, 128), ones(128, 16), X)

#: The same operations; but what XLA fuses isn't written and read between equations, or a value of a few bytes is, such
#: as that which a reduction starts with.
SAME_OPERATIONS: Final[dict[str, Case]] = {
    "sum": (tnp.sum, (X,)),
    "sum of columns": (lambda x: x.sum(0), (X,)),
    "product of rows": (lambda x: x.prod(1), (X,)),
    "maximum of rows": (lambda x: x.max(1), (X,)),
    "pad": (lambda x: tnp.pad(x, 1), (X,)),
    "fused": (lambda x: tnp.sin(x) * x + ONE, (X,)),
    "chosen": (lambda x, y: tnp.where(x < y, x, y), (X, X)),
    "mlp": (mlp, WEIGHTS),
    "gradient of mlp": (grad(mlp, (0, 1)), WEIGHTS),
    "vmap": (vmap(product, (None, 0)), (X, ones(8, 64))),
    "checkpoint": (grad(remembering_little), (ones(64, 64),) * 2),
    "conditional": (
        lambda p, x: lax.cond(p, lambda x: tnp.sin(x) @ x, lambda x: x + ONE, x),
        (True, ones(32, 32)),
    ),
    "switch": (
        lambda i, x: lax.switch(i, [lambda x: x + ONE, lambda x: x * x * x, lambda x: -x], x),
        (np.int32(1), ones(1000)),
    ),
}


@pytest.mark.parametrize("name", SAME_OPERATIONS)
def test_same_operations_and_no_more_bytes(name: str) -> None:
    found = compare(SAME_OPERATIONS[name])
    assert (found.ours.flops, found.ours.transcendentals) == (found.xla.flops, found.xla.transcendentals)
    assert found.report.traffic <= found.xla.bytes
    assert found.xla.bytes <= 1.07 * found.ours.bytes + 64
    assert found.memory <= 1.04 * found.report.memory.peak + 64


def test_functions_that_xla_expands() -> None:
    """XLA computes these by several operations, where we count one transcendental function."""
    names = ["erfc", "erf_inv", "lgamma", "digamma", "asin", "acos", "sinh", "cosh", "asinh", "acosh", "atanh"]
    found = compare((lambda x: [getattr(lax, name)(x) for name in names], (X,)))
    assert (found.ours.flops, found.ours.transcendentals) == (0, len(names) * X.size)
    assert found.xla.flops > 10 * X.size
    assert found.xla.transcendentals > len(names) * X.size


def test_bits_seen_differently_are_no_operations() -> None:
    found = compare((lambda x: lax.bitcast_convert_type(x, np.int32), (X,)))
    assert (found.ours.flops, found.xla.flops) == (0, X.size)
    assert found.xla.bytes == found.ours.bytes


def test_a_reshape_moves_nothing_but_what_is_returned() -> None:
    assert compare((lambda x: x.reshape(64, 32), (X,))).ours == Cost()
    inner = compare((lambda x: tnp.sin(x.reshape(64, 32)), (X,)))
    assert inner.ours == inner.xla


def test_positions_of_extremes_compare_numbers_and_indices() -> None:
    found = compare((lambda x: tnp.argmax(x, 1), (X,)))
    # XLA counts all that it takes to compare two pairs: nan first, then the lesser index among equals.
    assert found.xla.flops == 12 * found.ours.flops


@pytest.mark.parametrize("lengths", [(8,), (7,), (4, 16)])
@pytest.mark.parametrize("kind", lax.FftType)
def test_fourier_transforms(kind: lax.FftType, lengths: tuple[int, ...]) -> None:
    last = lengths[-1] // 2 + 1 if kind is lax.FftType.IRFFT else lengths[-1]
    x = np.ones((3, *lengths[:-1], last), "float32" if kind is lax.FftType.RFFT else "complex64")
    found = compare((lambda x: lax.fft(x, kind, lengths), (x,)))
    assert found.ours.flops == found.xla.flops > 0
    assert found.ours.bytes == found.xla.bytes


@pytest.mark.parametrize("f", [tnp.cumsum, tnp.cumprod], ids=["sum", "product"])
def test_cumulative_reductions_are_windows(f: Callable[..., Any]) -> None:
    found = compare((lambda x: f(x, 1), (X,)))
    assert found.ours.flops == 32 * 63
    # XLA sums windows of up to 16, window by window.
    assert found.ours.flops < found.xla.flops <= 17 * found.ours.flops


def test_cumulative_logsumexp_is_nine_operations_for_each_of_a_sum() -> None:
    total, found = compare((lambda x: lax.cumsum(x, 1), (X,))), compare((lambda x: lax.cumlogsumexp(x, 1), (X,)))
    for cost, plain in [(found.ours, total.ours), (found.xla, total.xla)]:
        assert (cost.flops, cost.transcendentals) == (7 * plain.flops, 2 * plain.flops)


def test_rows_are_sorted_one_by_one() -> None:
    found = compare((lambda x: tnp.sort(x, 1), (X.astype(np.int32),)))
    assert found.ours.flops == 32 * 64 * 6
    # XLA takes the logarithm of the number of all elements.
    assert found.xla.flops == 32 * 64 * 11
    assert found.xla.bytes == found.ours.bytes


def test_gathers_and_scatters_touch_what_they_touch() -> None:
    taken = compare((lambda x, i: x[i], (X, ROWS)))
    assert taken.ours.flops == taken.xla.flops
    # XLA's analysis of the fused gather counts the whole operand.
    assert taken.ours.bytes < taken.xla.bytes
    assert taken.xla.bytes == X.nbytes + ROWS.nbytes + taken.report.jaxpr.out_avals[0].nbytes
    for f in (lambda x, i: x.at[i].add(ONE), lambda x, i: x.at[i].set(ONE)):
        written = compare((f, (X, ROWS)))
        assert written.ours.flops == written.xla.flops
        # Ours is in place; an operand that isn't donated is copied first: read and written.
        assert written.ours.bytes + 2 * X.nbytes < written.xla.bytes


def test_dynamic_slices() -> None:
    start = np.int32(3)
    taken = compare((lambda x, i: lax.dynamic_slice(x, (i, np.int32(0)), (4, 64)), (X, start)))
    assert taken.ours.flops == taken.xla.flops
    assert taken.xla.bytes == 2 * 4 * 64 * 4 + 4
    assert 0 <= taken.ours.bytes - taken.xla.bytes < 64  # the index is wrapped around by equations of its own


# Loops: XLA's analysis is of one iteration.


def test_a_scan_is_its_length_times_what_xla_says() -> None:
    found = compare((lambda c, xs: lax.scan(lambda c, x: (c + x, c * x), c, xs), (ones(64), ones(10, 64))))
    # XLA's own counter: an addition and a comparison.
    assert found.ours.flops == 10 * (found.xla.flops - 2)
    assert found.report.complete


def test_a_fori_loop_is_too() -> None:
    found = compare((lambda c, w: lax.fori_loop(0, 10, lambda i, c: c @ w, c), (ones(32, 32), ones(32, 32))))
    assert found.ours.flops == 10 * (found.xla.flops - 2)
    assert found.memory <= found.report.memory.peak + 128


def test_an_iteration_of_a_while_is_what_xla_says() -> None:
    found = compare((lambda c: lax.while_loop(lambda c: c[0] < 10.0, lambda c: c * np.float32(2), c), (ones(64),)))
    ((name, iteration),) = found.report.total.per_iteration
    assert iteration.flops == found.xla.flops == 65
    assert found.report.total.at({name: 4}).flops == 4 * 65 + 1
    assert not found.report.complete


def test_equal_computations_are_merged_by_xla_and_by_cse() -> None:
    found = compare((lambda x: tnp.exp(x) * tnp.sin(x) + tnp.exp(x), (X,)))
    merged = program_cost(cse(found.report.jaxpr)).total.fixed
    assert (found.ours.transcendentals, found.xla.transcendentals) == (3 * X.size, 2 * X.size)
    assert (merged.flops, merged.transcendentals) == (found.xla.flops, found.xla.transcendentals)
