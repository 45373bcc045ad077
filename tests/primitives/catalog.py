"""Every elementwise primitive, with the jax function that it must agree with and numbers worth trying.

One table for all tests: values, derivatives, batching, lowering, laws. A primitive with parameters has an entry for
each setting of interest.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias, final

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from _pytest.mark.structures import ParameterSet
from attrs import frozen
from jax import lax
from jax.extend.core import primitives

from tinyjax.ir.dtypes import (
    BFLOAT16,
    BOOL,
    COMPLEX64,
    COMPLEX128,
    COMPLEXES,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    FLOATS,
    INT8,
    INT16,
    INT32,
    INT64,
    INTEGERS,
    SHORT_NAMES,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    DType,
    HostArray,
    real_dtype,
)
from tinyjax.ir.primitive import Primitive
from tinyjax.primitives import (
    arithmetic,
    bessel,
    bitwise,
    comparison,
    conversion,
    elementwise,
    exponential,
    incomplete,
    rounding,
    selection,
    special,
    trigonometric,
)
from tinyjax.primitives.complex import complex_, conj, imag, real

Oracle: TypeAlias = Callable[..., jax.Array]
Operands: TypeAlias = Callable[[DType], tuple[DType, ...]]

F: Final = (FLOAT16, BFLOAT16, FLOAT32, FLOAT64)
C: Final = (COMPLEX64, COMPLEX128)
I: Final = (INT8, INT16, INT32, INT64)
U: Final = (UINT8, UINT16, UINT32, UINT64)
B: Final = (BOOL,)
ALL: Final = (*B, *I, *U, *F, *C)


@final
@frozen
class Domain:
    """The numbers from `low` to `high` but one; nan counts as one of them where `nan` is set."""

    low: float = -math.inf
    high: float = math.inf
    nan: bool = True
    whole: bool = False
    but: float = math.nan

    def holds(self, x: float) -> bool:
        if math.isnan(x):
            return self.nan
        return (
            self.low <= x <= self.high
            and x != self.but
            and (not self.whole or (math.isfinite(x) and x == math.floor(x)))
        )


EVERYWHERE: Final = Domain()
#: The resolution, the smallest normal number and the largest number of each float.
LIMITS: Final = {
    FLOAT16: (2.0**-10, 2.0**-14, 65504.0),
    BFLOAT16: (2.0**-7, 2.0**-126, (2 - 2.0**-7) * 2.0**127),
    FLOAT32: (2.0**-23, 2.0**-126, (2 - 2.0**-23) * 2.0**127),
    FLOAT64: (2.0**-52, 2.0**-1022, (2 - 2.0**-52) * 2.0**1023),
}


@final
@frozen
class Entry:
    """One primitive.

    `dtypes` are those accepted for the main operands, and `operands` gives the dtypes of all operands from it. `domain`
    is where the operands' values are compared with jax; for complex numbers it bounds both parts. `ulps` is how far
    results may be apart, in units of the dtype's resolution at the result, or at `scale` if the result is smaller.
    `no_rule` are the operands for which jax has no derivative, and `once` those for which it has no second one.
    `slow`: XLA takes seconds to compile it.
    """

    primitive: Primitive
    oracle: Oracle
    dtypes: tuple[DType, ...]
    operands: Operands
    domains: tuple[Domain, ...] = ()
    ulps: float = 8
    scale: float = 0
    no_rule: tuple[int, ...] = ()
    once: tuple[int, ...] = ()
    slow: bool = False

    @property
    def name(self) -> str:
        parameters = [
            SHORT_NAMES[value] if isinstance(value, np.dtype) else str(value)
            for value in self.primitive.params.values()
        ]
        return "-".join([self.primitive.name, *parameters])

    def smooth(self, dtype: DType) -> list[int]:
        """The operands to differentiate with respect to."""
        return [i for i, dt in enumerate(self.operands(dtype)) if dt in FLOATS | COMPLEXES and i not in self.no_rule]

    @property
    def known_to_jax(self) -> bool:
        """Whether jax has a primitive of this name. Otherwise the oracle computes the same, and takes more dtypes."""
        return hasattr(primitives, f"{self.primitive.name}_p")

    @property
    def arity(self) -> int:
        return len(self.operands(self.dtypes[0]))

    def domain(self, operand: int) -> Domain:
        return self.domains[operand] if self.domains else EVERYWHERE

    def samples(self, dtype: DType) -> tuple[HostArray, ...]:
        """Vectors of equal length, one for each operand: every combination of the numbers worth trying."""
        dtypes = self.operands(dtype)
        few = len(dtypes) > 2
        choices = [numbers(dt, self.domain(i), few) for i, dt in enumerate(dtypes)]
        grids = np.meshgrid(*[np.arange(len(choice)) for choice in choices], indexing="ij")
        return tuple(choice[grid.ravel()] for choice, grid in zip(choices, grids, strict=True))


def same(arity: int) -> Operands:
    """All operands of the main dtype."""
    return lambda dtype: (dtype,) * arity


ONE: Final = same(1)
TWO: Final = same(2)
THREE: Final = same(3)


@functools.cache
def numbers(dtype: DType, domain: Domain = EVERYWHERE, few: bool = False) -> HostArray:
    """The numbers of a dtype worth trying, as a vector."""
    if dtype == BOOL:
        return np.asarray([False, True])
    if dtype in INTEGERS:
        info = np.iinfo(dtype.name)
        integers = [0, 1, -1, 2, 3, -3, 7, info.bits - 1, info.bits, 100, -100, info.min, info.max, info.max - 1]
        chosen = [n for n in integers[: 6 if few else None] if info.min <= n <= info.max and domain.holds(n)]
        return np.asarray(chosen, dtype)
    parts = _floats(real_dtype(dtype), few or dtype in COMPLEXES)
    if dtype in FLOATS:
        return np.asarray([x for x in parts if domain.holds(x)], dtype)
    finite = [x for x in parts[: 3 if few else None] if domain.holds(x)]
    return np.asarray([re + 1j * im for re, im in itertools.product(finite, finite)], dtype)


def _floats(dtype: DType, few: bool) -> list[float]:
    found: list[float] = [0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.5, 0.7]
    if not few:
        eps, tiny, largest = LIMITS[dtype]
        found += [-0.0, -2.0, 1.5, -1.5, 2.5, 3.0, math.pi / 2, -math.pi, 0.1, -0.7, 0.9, 10.0, -10.0, 40.0, 1e-3]
        found += [1 + eps, 1 - eps, tiny * 4, largest, -largest]
        found += [math.inf, -math.inf, math.nan]
        found += np.random.default_rng(0).normal(size=8, scale=2).tolist()
    return [float(x) for x in np.asarray(found).astype(dtype)]


def tangents(dtype: DType, size: int, seed: int) -> HostArray:
    """Tangents: numbers of either sign, of magnitudes between 0.5 and 1.5."""
    rng = np.random.default_rng(seed)
    t: HostArray = rng.uniform(0.5, 1.5, size) * rng.choice([-1, 1], size)
    if dtype in COMPLEXES:
        t = np.add(t, 1j * rng.uniform(-1, 1, size))
    return t.astype(dtype)


def convert_oracle(new: DType, x: jax.Array) -> jax.Array:
    """Conversion as jax's arrays do it, without a warning where the imaginary part is lost."""
    if x.dtype in COMPLEXES and new == BOOL:
        return x != 0
    if x.dtype in COMPLEXES and new not in COMPLEXES:
        x = lax.real(x)
    return lax.convert_element_type(x, new)


def _clamp_complex(low: jax.Array, x: jax.Array, high: jax.Array) -> jax.Array:
    """`lax.clamp` as StableHLO defines it; XLA's own compares complex numbers in another order than its maximum."""
    return lax.min(lax.max(low, x), high)


def _conversions() -> Iterable[Entry]:
    for new in ALL:
        yield Entry(conversion.ConvertElementType(new), functools.partial(convert_oracle, new), ALL, ONE, ulps=2)
    for new in ALL:
        same_width = [dt for dt in (*I, *U, *F) if dt.itemsize == new.itemsize and new in (*I, *U, *F)]
        accepted = tuple(same_width) or (new,)
        oracle = functools.partial(lax.bitcast_convert_type, new_dtype=new)
        yield Entry(conversion.BitcastConvertType(new), oracle, accepted, ONE, ulps=0)


def _with_integers(integer: DType) -> Operands:
    return lambda dtype: (dtype, integer)


def _selecting(which: DType, cases: int) -> Operands:
    return lambda dtype: (which, *(dtype,) * cases)


_POSITIVE: Final = Domain(0, math.inf)
_MODERATE: Final = Domain(0.1, 50, nan=False)
#: Of distributions.
_SHAPE: Final = Domain(0.1, 10, nan=False)
A, X, T, R = arithmetic, exponential, trigonometric, rounding

ELEMENTWISE: Final[tuple[Entry, ...]] = (
    Entry(elementwise.neg, lax.neg, (*I, *U, *F, *C), ONE, ulps=0),
    Entry(elementwise.add, lax.add, (*I, *U, *F, *C), TWO, ulps=1),
    Entry(elementwise.sub, lax.sub, (*I, *U, *F, *C), TWO, ulps=1),
    Entry(elementwise.mul, lax.mul, (*I, *U, *F, *C), TWO, ulps=4),
    Entry(A.div, lax.div, (*I, *U, *F, *C), TWO),
    Entry(A.rem, lax.rem, (*I, *U, *F), TWO),
    Entry(A.max_, lax.max, (*B, *I, *U, *F), TWO, ulps=1),
    Entry(A.max_, lax.max, C, TWO, ulps=1, no_rule=(0, 1)),
    Entry(A.min_, lax.min, (*B, *I, *U, *F), TWO, ulps=1),
    Entry(A.min_, lax.min, C, TWO, ulps=1, no_rule=(0, 1)),
    Entry(A.nextafter, lax.nextafter, F, TWO, ulps=0, no_rule=(0, 1)),
    Entry(A.abs_, lax.abs, (*I, *F, *C), ONE, scale=1),
    Entry(A.square, lax.square, (*I, *U, *F, *C), ONE),
    *(
        Entry(A.IntegerPow(y), functools.partial(lax.integer_pow, y=y), (*I, *U, *F, *C) if y >= 0 else (*F, *C), ONE)
        for y in (0, 1, 2, 3, 7, -1, -2, -3)
    ),
    Entry(X.pow_, lax.pow, F, TWO, domains=(_POSITIVE, EVERYWHERE), ulps=200),
    Entry(X.pow_, lax.pow, C, TWO, domains=(_MODERATE, EVERYWHERE), ulps=200),
    Entry(X.pow_, lax.pow, F, _with_integers(INT32), ulps=100),
    Entry(X.exp, lax.exp, (*F, *C), ONE, ulps=16),
    Entry(X.exp2, lax.exp2, (*F, *C), ONE, ulps=200),
    Entry(X.expm1, lax.expm1, (*F, *C), ONE, ulps=16),
    Entry(X.log, lax.log, (*F, *C), ONE),
    Entry(X.log1p, lax.log1p, (*F, *C), ONE),
    Entry(X.logistic, lax.logistic, (*F, *C), ONE, scale=1),
    Entry(X.sqrt, lax.sqrt, (*F, *C), ONE),
    Entry(X.rsqrt, lax.rsqrt, (*F, *C), ONE),
    Entry(X.cbrt, lax.cbrt, F, ONE),
    Entry(T.sin, lax.sin, (*F, *C), ONE),
    Entry(T.cos, lax.cos, (*F, *C), ONE),
    Entry(T.tan, lax.tan, (*F, *C), ONE, scale=1),
    Entry(T.asin, lax.asin, (*F, *C), ONE),
    Entry(T.acos, lax.acos, (*F, *C), ONE),
    Entry(T.atan, lax.atan, (*F, *C), ONE),
    Entry(T.atan2, lax.atan2, F, TWO),
    Entry(T.atan2, lax.atan2, C, TWO, domains=(_MODERATE, _MODERATE)),
    Entry(T.sinh, lax.sinh, (*F, *C), ONE, ulps=16),
    Entry(T.cosh, lax.cosh, (*F, *C), ONE, ulps=16),
    Entry(T.tanh, lax.tanh, (*F, *C), ONE, scale=1),
    Entry(T.asinh, lax.asinh, (*F, *C), ONE),
    Entry(T.acosh, lax.acosh, F, ONE, domains=(Domain(1, math.inf),)),
    Entry(T.acosh, lax.acosh, C, ONE, domains=(_MODERATE,)),
    Entry(T.atanh, lax.atanh, F, ONE, domains=(Domain(-1, 1),)),
    Entry(T.atanh, lax.atanh, C, ONE, domains=(Domain(-0.9, 0.9),)),
    Entry(special.erf, lax.erf, F, ONE),
    Entry(special.erfc, lax.erfc, F, ONE),
    Entry(special.erf_inv, lax.erf_inv, F, ONE, ulps=32),
    Entry(special.lgamma, lax.lgamma, F, ONE, domains=(Domain(but=0),), ulps=32, scale=1),
    Entry(special.digamma, lax.digamma, F, ONE, domains=(Domain(-1e6, 1e6, but=0),), ulps=64, scale=1),
    Entry(
        special.polygamma,
        lax.polygamma,
        F,
        TWO,
        domains=(Domain(1, 3, whole=True), Domain(0.1, 1e3)),
        ulps=32,
        no_rule=(0,),
    ),
    Entry(special.zeta, lax.zeta, F, TWO, domains=(Domain(1.1, 40), Domain(0.1, 1e3)), ulps=64, no_rule=(0, 1)),
    Entry(bessel.bessel_i0e, lax.bessel_i0e, F, ONE, ulps=16, scale=1),
    Entry(bessel.bessel_i1e, lax.bessel_i1e, F, ONE, ulps=32, scale=1),
    Entry(incomplete.igamma, lax.igamma, F, TWO, domains=(_SHAPE, _SHAPE), ulps=256, scale=1, once=(0,), slow=True),
    Entry(incomplete.igammac, lax.igammac, F, TWO, domains=(_SHAPE, _SHAPE), ulps=256, scale=1, once=(0,), slow=True),
    Entry(
        incomplete.igamma_grad_a,
        lax.igamma_grad_a,
        F,
        TWO,
        domains=(_SHAPE, _SHAPE),
        ulps=256,
        scale=1,
        no_rule=(0, 1),
        slow=True,
    ),
    Entry(
        incomplete.random_gamma_grad,
        lax.random_gamma_grad,
        F,
        TWO,
        domains=(_SHAPE, _SHAPE),
        ulps=256,
        scale=1,
        no_rule=(0, 1),
        slow=True,
    ),
    Entry(
        incomplete.random_gamma_grad_a,
        lambda a, x: jax.jvp(lambda a: lax.random_gamma_grad(a, x), (a,), (jnp.ones_like(a),))[1],
        F,
        TWO,
        domains=(_SHAPE, _SHAPE),
        ulps=8192,  # of jax's, which ends its loops when the slope is found
        scale=1,
        no_rule=(0, 1),
        slow=True,
    ),
    Entry(
        incomplete.regularized_incomplete_beta,
        lax.betainc,
        F,
        THREE,
        domains=(_SHAPE, _SHAPE, Domain(0.1, 0.9, nan=False)),
        ulps=256,
        scale=1,
        no_rule=(0, 1),
        slow=True,
    ),
    Entry(R.sign, lax.sign, (*I, *U, *F, *C), ONE),
    Entry(R.floor, lax.floor, F, ONE, ulps=0),
    Entry(R.ceil, lax.ceil, F, ONE, ulps=0),
    Entry(R.round_away_from_zero, lax.round, F, ONE, ulps=0),
    Entry(
        R.round_to_even,
        functools.partial(lax.round, rounding_method=lax.RoundingMethod.TO_NEAREST_EVEN),
        F,
        ONE,
        ulps=0,
    ),
    Entry(R.is_finite, lax.is_finite, F, ONE),
    Entry(bitwise.logical_not, lax.bitwise_not, (*B, *I, *U), ONE),
    Entry(bitwise.logical_and, lax.bitwise_and, (*B, *I, *U), TWO),
    Entry(bitwise.logical_or, lax.bitwise_or, (*B, *I, *U), TWO),
    Entry(bitwise.logical_xor, lax.bitwise_xor, (*B, *I, *U), TWO),
    Entry(bitwise.population_count, lax.population_count, (*I, *U), ONE),
    Entry(bitwise.clz, lax.clz, (*I, *U), ONE),
    Entry(bitwise.shift_left, lax.shift_left, (*I, *U), TWO),
    Entry(bitwise.mulhi, lax.mulhi, (*I, *U), TWO),
    Entry(bitwise.shift_right_logical, lax.shift_right_logical, (*I, *U), TWO),
    Entry(bitwise.shift_right_arithmetic, lax.shift_right_arithmetic, (*I, *U), TWO),
    Entry(comparison.eq, lax.eq, ALL, TWO),
    Entry(comparison.ne, lax.ne, ALL, TWO),
    Entry(comparison.lt, lax.lt, (*B, *I, *U, *F), TWO),
    Entry(comparison.le, lax.le, (*B, *I, *U, *F), TWO),
    Entry(comparison.gt, lax.gt, (*B, *I, *U, *F), TWO),
    Entry(comparison.ge, lax.ge, (*B, *I, *U, *F), TWO),
    Entry(real, lax.real, C, ONE, ulps=0),
    Entry(imag, lax.imag, C, ONE, ulps=0),
    Entry(conj, lax.conj, (FLOAT32, FLOAT64, *C), ONE, ulps=0),
    Entry(complex_, lax.complex, (FLOAT32, FLOAT64), TWO, ulps=0),
    Entry(selection.select_n, lax.select_n, ALL, _selecting(BOOL, 2), ulps=0),
    Entry(selection.select_n, lax.select_n, ALL, _selecting(INT32, 3), ulps=0),
    Entry(selection.clamp, lax.clamp, (*B, *I, *U, *F), THREE, ulps=1),
    Entry(selection.clamp, _clamp_complex, C, THREE, ulps=1, no_rule=(0, 1, 2)),
    Entry(conversion.copy, jnp.copy, ALL, ONE, ulps=0),
    Entry(conversion.stop_gradient, lax.stop_gradient, ALL, ONE, ulps=0),
    Entry(
        conversion.ReducePrecision(5, 10),
        functools.partial(lax.reduce_precision, exponent_bits=5, mantissa_bits=10),
        F,
        ONE,
        ulps=0,
    ),
    Entry(
        conversion.ReducePrecision(8, 3),
        functools.partial(lax.reduce_precision, exponent_bits=8, mantissa_bits=3),
        F,
        ONE,
        ulps=0,
    ),
    *_conversions(),
)

#: Each entry with each dtype, and a readable name for it.
CASES: Final = [(entry, dtype) for entry in ELEMENTWISE for dtype in entry.dtypes]


def compiled(entries: Iterable[Entry]) -> list[ParameterSet]:
    """The entries, for tests that compile them: of those that take long in the sweep."""
    return [pytest.param(e, id=e.name, marks=[pytest.mark.sweep] if e.slow else []) for e in entries]


def case_name(value: Entry | DType) -> str:
    return value.name if isinstance(value, Entry) else SHORT_NAMES[value]


def check_close(actual: HostArray, expected: HostArray, ulps: float, scale: float = 0) -> None:
    """Fails unless the arrays have one type, equal nans, infinities and integers, and floats no further apart."""
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    if actual.dtype not in FLOATS | COMPLEXES:
        np.testing.assert_array_equal(actual, expected)
        return
    eps, tiny, _ = LIMITS[real_dtype(actual.dtype)]
    wide = np.complex128 if actual.dtype in COMPLEXES else np.float64
    # XLA flushes subnormal numbers to zero on the way, except for float16, which it computes in float32.
    flushed = tiny * (2 if actual.dtype == FLOAT16 else 200)
    with np.errstate(invalid="ignore"):  # signalling nans
        np.testing.assert_allclose(
            actual.astype(wide),
            expected.astype(wide),
            rtol=ulps * eps,
            atol=max(ulps * eps * scale, flushed),
        )


def check_same(actual: HostArray, expected: HostArray) -> None:
    """Fails unless the arrays are equal but for the last digits; nan equals nan.

    NumPy's loops over many elements and over few may differ by a rounding.
    """
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    if actual.dtype in FLOATS | COMPLEXES:
        eps, _, _ = LIMITS[real_dtype(actual.dtype)]
        wide = np.complex128 if actual.dtype in COMPLEXES else np.float64
        with np.errstate(all="ignore"):  # signalling nans, and inf - inf
            np.testing.assert_allclose(actual.astype(wide), expected.astype(wide), rtol=4 * eps)
    else:
        assert actual.tobytes() == expected.tobytes()
