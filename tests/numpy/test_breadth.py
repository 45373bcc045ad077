"""Functions of NumPy's that others define, against NumPy: over dtypes, edge cases and arguments."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax.ir.dtypes import HostArray

RNG = np.random.default_rng(0)
nan, inf = np.nan, np.inf
Case = tuple[str, tuple[Any, ...], dict[str, Any], bool]
CASES: list[Case] = []


def _add(name: str, *args: Any, jit: bool = True, **options: Any) -> None:
    CASES.append((name, args, options, jit))


A = RNG.normal(size=(3, 4))
B = A.copy()
B[0, 1] = nan
B[:, 2] = nan
I = RNG.integers(-5, 9, (3, 4))
v = np.array([3.0, 1.0, 2.0, 5.0])
c = v + 1j * v[::-1]
for n in (
    "nansum",
    "nanprod",
    "nanmax",
    "nanmin",
    "nanmean",
    "nanvar",
    "nanstd",
    "nancumsum",
    "nancumprod",
    "nanmedian",
):
    for x in (B, A, I, B.astype("float32"), B.astype("float16")):
        for ax in (None, 0, -1):
            _add(n, x, axis=ax)
    if "cum" not in n:
        _add(n, B, axis=(0, 1), keepdims=True)
        _add(n, B[None], axis=(0, -1))
for n in ("nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nancumsum"):
    _add(n, B + 1j)
for n in ("nanargmax", "nanargmin"):
    _add(n, A, axis=0)
    _add(n, B[:, :2], axis=0)
    _add(n, B)
    _add(n, I, axis=1)
M = [
    "inverted_cdf",
    "averaged_inverted_cdf",
    "closest_observation",
    "interpolated_inverted_cdf",
    "hazen",
    "weibull",
    "linear",
    "median_unbiased",
    "normal_unbiased",
    "lower",
    "higher",
    "midpoint",
    "nearest",
]
for m in M:
    for count in (5, 6, 1, 9):
        x = RNG.normal(size=count)
        _add("quantile", x, np.array([0, 0.1, 0.2, 0.25, 1 / 3, 0.5, 0.6, 0.75, 0.9, 1]), method=m)
    _add("nanquantile", B, np.array([[0.1, 0.5], [0.25, 1]]), axis=0, method=m)
    _add("percentile", I, [10, 50], axis=1, method=m, keepdims=True)
    _add("percentile", B, [10, 50], axis=1, method=m)
_add("quantile", A, 0.3, axis=(0, 1), keepdims=True)
_add("quantile", v, [0.2, 0.5], method="inverted_cdf", weights=np.array([1, 2, 3, 0.0]))
_add("quantile", A, [0.2, 0.5], axis=0, method="inverted_cdf", weights=np.array([1, 2, 3.0]))
_add("nanpercentile", B, 30)
for n in ("hanning", "hamming", "blackman", "bartlett"):
    for count in (0, 1, 2, 5, 6):
        _add(n, count)
for count in (0, 1, 2, 5, 6):
    _add("kaiser", count, 3.5)
_add("kaiser", 5, np.float64(0))
_add("i0", np.linspace(-20, 20, 9))
for a, b in ((12, 8), (np.arange(-5, 6), np.array(6)), (np.array([[0], [7]]), np.array([0, 14, -21]))):
    _add("gcd", a, b)
    _add("lcm", a, b)
F = np.array([0.0, -0.0, 1, -1.5, 3, 1e-310, 5e-324, 1e308, inf, -inf, nan, 0.3])
SMALL = np.array([0.0, -0.0, 1, -1.5, 3, 1e-40, 1e-45, 3e4, inf, -inf, nan, 0.3], "float32")
_add("frexp", F)
_add("frexp", SMALL)
_add("frexp", SMALL.astype("float16"))
_add("frexp", I)
_add("ldexp", F, 3)
_add("ldexp", F, -3)
_add("ldexp", F, np.arange(12) * 200 - 1000)
_add("ldexp", np.array([0.5, 1, 2]), np.array([1024, -1074, -1080]))
_add("ldexp", SMALL, 100)
_add("ldexp", np.delete(F, [5, 6]), np.int64(2**40))
_add("ldexp", F[1:4], np.array([3, 2**31, 2**32 - 1], np.uint32))
_add("ldexp", np.arange(3), 2)
_add("spacing", F)
_add("spacing", SMALL)
for x in (np.array([1, 0, 1, 1, 0, 0, 1, 0, 1]), RNG.integers(0, 2, (3, 10)).astype(bool)):
    for ax in (None, 0, -1):
        for bo in ("big", "little"):
            _add("packbits", x, axis=ax, bitorder=bo)
U = RNG.integers(0, 255, (3, 4)).astype("uint8")
for ax in (None, 0, -1):
    for ct in (None, 5, -3, 40):
        _add("unpackbits", U, axis=ax, count=ct)
_add("unpackbits", U, bitorder="little")
for x in (v, np.arange(3), np.array([True, False, True]), c, v.astype("float32"), np.arange(4, dtype="int8")):
    for y in (np.array([1, 2]), np.array([0.5, 1, 2]), np.arange(6), np.array([1j, 2])):
        for m in ("full", "same", "valid"):
            _add("convolve", x, y, m)
            _add("correlate", x, y, m)
xp = np.array([1.0, 2, 4])
fp = np.array([10.0, 20, 0])
for x in (np.array(1.5), np.array([0, 1, 1.5, 4, 5, nan])):
    _add("interp", x, xp, fp)
    _add("interp", x, xp, fp, left=-1.0, right=-2.0)
    _add("interp", x, xp, fp, period=3.0)
    _add("interp", x, xp, fp + 1j)
_add("interp", np.array([1, 2]), np.arange(3), np.arange(3))
_add("interp", 2.0, np.array([1.0]), np.array([5.0]))
_add("ediff1d", A)
_add("ediff1d", I, to_end=[1, 2], to_begin=0)
for x in (A, I, c, A.astype("float32")):
    for eo in (1, 2):
        _add("gradient", x, edge_order=eo)
        _add("gradient", x, 2.0, edge_order=eo)
        _add("gradient", x, axis=0, edge_order=eo)
_add("gradient", A, np.array([0, 1, 3.0]), np.array([0, 1, 2, 4.0]))
_add("gradient", A, np.array([0, 1, 3.0]), np.array([0, 1, 2, 4.0]), edge_order=2)
_add("gradient", A, 2.0, axis=(0, 1))
_add("gradient", A, np.array([0, 1, 2, 4.0]), axis=1)
_add("interp", np.array([np.inf, np.nan, 1.0]), np.array([1.0]), np.array([5.0]))
_add("trapezoid", A)
_add("trapezoid", A, dx=2, axis=0)
_add("trapezoid", A, x=np.array([0, 1, 3.0]), axis=0)
_add("trapezoid", I)
_add("trapezoid", A, x=np.sort(A, 1))
_add("trapezoid", c)
for x in (A * 9, v * 9, I * 3):
    _add("unwrap", x)
    _add("unwrap", x, axis=0)
    _add("unwrap", x, period=4)
    _add("unwrap", x, 3.5)
    _add("unwrap", x, period=5)
for x in (v, np.arange(3), c, np.array([True, False]), np.arange(3, dtype="int8")):
    _add("vander", x)
    _add("vander", x, 2)
    _add("vander", x, 5, increasing=True)
_add("geomspace", 1, 1000, 4)
_add("geomspace", -1, -1000, 4)
_add("geomspace", np.inf, 1.0, 3)
_add("geomspace", 1, 1000, 4, endpoint=False)
_add("geomspace", np.array([1, 2.0]), np.array([8, 9.0]), 3, axis=1)
_add("geomspace", 1j, 8j, 4)
_add("geomspace", 1, 5, 1)
_add("geomspace", 1, 5, 0)
for x in (A, v, I, c, np.array(3.0), A.astype("float32")):
    _add("cov", x)
    _add("corrcoef", x)
    if np.ndim(x):
        _add("cov", x, bias=True)
        _add("cov", x, rowvar=False)
        _add("cov", x, ddof=0)
_add("cov", v, v[::-1])
_add("cov", A, A)
_add("cov", A, fweights=np.array([1, 2, 0, 3]))
_add("cov", A, aweights=np.array([1, 2, 0.5, 3]))
_add("cov", A, fweights=np.array([1, 2, 0, 3]), aweights=np.array([1, 2, 0.5, 3]))
_add("bincount", np.array([0, 2, 2, 5]), jit=False)
_add("bincount", np.array([0, 2, 2, 5]), np.arange(4.0), jit=False)
_add("bincount", np.array([1]), minlength=4, jit=False)
_add("bincount", np.zeros(0, int), jit=False)
for bins in (np.array([-1, 0, 1.0]), np.array([2, 1, -1.0]), np.array([1.0, 1, 2])):
    for r in (False, True):
        _add("digitize", np.r_[A.ravel(), bins, nan], bins, right=r)
for x in (A, I, np.array([1.0, 1, 1]), np.zeros(0)):
    for b in (3, np.array([-2, 0, 0.5, 4])):
        _add("histogram", x, b)
        _add("histogram", x, b, density=True) if x.size else None
        _add("histogram", x, b, range=(0, 1))
        _add("histogram_bin_edges", x, b)
_add("histogram", A, 4, weights=np.abs(A))
_add("histogram", A, "auto", jit=False)
_add("histogram", I, "sturges", jit=False)
_add("histogram2d", A[0], A[1], 3)
_add("histogram2d", A[0], A[1], [3, 2], density=True)
_add("histogram2d", A[0], A[1], [np.array([-1, 0, 1.0]), np.array([-2, 0, 0.5, 1])])
_add("histogram2d", A[0], A[1], 3, range=[[-1, 1], [-2, 2]], weights=v)
_add("histogramdd", A.T, 3)
_add("histogramdd", A.T, (2, 3, 4), density=True)
_add("histogram2d", A[0], A[1], np.array([-1, 0, 1.0]))
p, q = np.array([1.0, 2, 0, 3]), np.array([2, 1.0])
for a, b in ((p, q), (q, p), (np.array([1, 2]), q), (np.array(3.0), p), (np.array([1, 0, 1]), np.array([1]))):
    for n in ("polyadd", "polysub", "polymul"):
        _add(n, a, b)
_add("polyval", p, 2)
_add("polyval", p, A)
_add("polyval", np.arange(30.0), A * 0.5)
_add("polyval", np.array([1, 2]), np.array([1j]))
_add("polyval", np.array([1, 2, 3]), np.array([1, 2]))
_add("polyder", p)
_add("polyder", p, 2)
_add("polyder", np.array([1, 2, 3]), 5)
_add("polyint", p)
_add("polyint", p, 2)
_add("polyint", p, 2, [1, 2])
_add("polyder", np.array([1, 2, 3]))
_add("poly", v)
_add("poly", np.array([1, 2]))
_add("poly", c)
_add("append", A, v)
_add("append", A, A, axis=0)
_add("append", A, 1)
for o in (0, -1, [0, 2], slice(0, 2), np.array([True, False, True]), []):
    _add("delete", A, o, axis=0)
    _add("delete", v[:3], o)
for o, vals in (
    (1, 9),
    (-1, 9),
    ([1, 3], 9),
    ([1, 3], [8, 9]),
    ([1], [7, 8, 9]),
    (1, [7, 8, 9]),
    (slice(0, 2), 5),
    ([0, 0], [1, 2]),
    ([], []),
    (4, 2.0),
):
    _add("insert", v, o, vals)
    _add("insert", I[0], o, vals)
_add("insert", A, 1, v, axis=0)
_add("insert", A, 1, 7, axis=1)
_add("insert", A, [1, 2], np.ones((3, 2)), axis=1)
_add("insert", A, 1, np.arange(3), axis=1)
_add("insert", A, [1], np.ones((3, 2)), axis=1)
_add("insert", A, [0, 2], v, axis=0)
_add("insert", A, 1, np.ones((2, 4)), axis=0)
_add("insert", A, 1, 5)
_add("resize", A, (2, 7))
_add("resize", A, (5, 5))
_add("resize", np.zeros(0), (2,))
_add("resize", v, 2)
_add("trim_zeros", np.array([0, 0, 1, 0, 2, 0]), jit=False)
_add("trim_zeros", np.array([0, 0, 1, 0, 2, 0]), "b", jit=False)
_add("trim_zeros", np.zeros(3), jit=False)
_add("trim_zeros", np.pad(A, 2), jit=False)
_add("trim_zeros", np.pad(A, 2), axis=0, jit=False)
for a, s in ((2, 0), (0, 2), (0, 3), (-1, 1), (1, 1)):
    _add("rollaxis", np.ones((2, 3, 4)), a, s)
_add("block", [[np.eye(2), np.zeros((2, 1))], [np.ones((1, 3))]])
_add("block", [v, 1.0])
_add("block", v)
_add("block", [[v], [v]])
_add("block", [[[A, A]]])
_add("diagflat", A)
_add("diagflat", v, 1)
_add("diagflat", [1, 2], -1)
_add("compress", np.array([True, False, True]), A, axis=0, jit=False)
_add("compress", [0, 1], A, axis=1, jit=False)
_add("compress", np.array([0, 1, 1]), A, jit=False)
_add("extract", A > 0, A, jit=False)
_add("choose", np.array([2, 0, 1]), [v[:3], v[1:], np.array(9.0)], jit=False)
for m in ("wrap", "clip"):
    _add("choose", np.array([5, -1, 1]), [v[:3], v[1:], np.array(9.0)], mode=m)
_add("choose", np.array([1, 0]), A[:2, :2], jit=False)
_add("tril_indices", 3)
_add("triu_indices", 3, 1, 4)
_add("tril_indices_from", A, 1)
_add("triu_indices_from", A, -1)
_add("diag_indices", 3, 3)
_add("diag_indices_from", np.eye(3))
_add("unravel_index", np.array([0, 5, 11]), (3, 4))
_add("unravel_index", 7, (3, 4))
for m in ("wrap", "clip"):
    _add("ravel_multi_index", (np.array([0, 5, -1]), np.array([1, 2, 9])), (3, 4), mode=m)
    _add("ravel_multi_index", (np.array([0, 5, -1]), np.array([1, 2, 9])), (3, 4), mode=(m, "wrap"), order="F")
_add("ravel_multi_index", (np.array([0, 2]), np.array([1, 3])), (3, 4), jit=False)
_add("indices", (2, 3))
_add("indices", (2, 3), sparse=True)
_add("indices", (2,), dtype="float32")
_add("ix_", np.array([0, 2]), [1, 3])
_add("ix_", np.array([True, False, True]), [], jit=False)
_add("array_equiv", v, np.stack([v, v]))
_add("array_equiv", v, v[:2])
_add("matvec", A, v)
_add("matvec", np.ones((2, 3, 4)), np.ones((2, 4)))
_add("vecmat", c[:3], A)
_add("sort_complex", A)
for mode in ("maximum", "mean", "median", "minimum", "linear_ramp"):
    for x in (A, I, v):
        _add("pad", x, 2, mode=mode)
        _add("pad", x, (1, 3), mode=mode, **({"end_values": 2} if mode == "linear_ramp" else {"stat_length": (1, 2)}))
_add("lexsort", (I[0], I[1]))

#: NumPy has wider ones: it doesn't keep integers that are convolved with small floats, or it counts with floats.
OTHER_DTYPES = {"convolve", "correlate", "cov", "corrcoef", "percentile", "vander", "histogram2d", "histogramdd"}


def leaves(x: object) -> list[HostArray]:
    return [leaf for part in x for leaf in leaves(part)] if isinstance(x, tuple | list) else [np.asarray(x)]


def _tolerance(dtype: object) -> float:
    return {"float16": 3e-3, "float32": 2e-5, "complex64": 2e-5}.get(str(dtype), 1e-9)


def _compare(name: str, found: list[HostArray], expected: list[HostArray]) -> None:
    assert len(found) == len(expected)
    for x, y in zip(found, expected, strict=True):
        assert x.shape == y.shape
        assert x.dtype == y.dtype or name in OTHER_DTYPES, (x.dtype, y.dtype)
        wide = x.astype(complex if x.dtype.kind == "c" else float)
        np.testing.assert_allclose(wide, y, _tolerance(x.dtype), _tolerance(x.dtype), equal_nan=True)


def _expected(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> list[HostArray]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return leaves(getattr(np, name)(*args, **options))


@pytest.mark.parametrize("name", sorted({case[0] for case in CASES}))
def test_on_the_host(name: str) -> None:
    for _, args, options, _ in [case for case in CASES if case[0] == name]:
        _compare(name, leaves(getattr(tnp, name)(*args, **options)), _expected(name, args, options))


SAMPLE = {"nanquantile", "ravel_multi_index", "packbits", "interp"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in SAMPLE else pytest.mark.sweep) for name in sorted({c[0] for c in CASES})],
)
def test_compiled(name: str) -> None:
    cases = [case for case in CASES if case[0] == name and case[3]]
    for _, args, options, _ in cases[:2] if name in SAMPLE else cases:
        places = [i for i, x in enumerate(args) if isinstance(x, np.ndarray)]
        if name in ("delete", "insert", "digitize"):
            places = places[:1]

        def f(*xs: tj.Array) -> object:
            given = [xs[places.index(i)] if i in places else x for i, x in enumerate(args)]  # noqa: B023 (called now)
            return getattr(tnp, name)(*given, **options)  # noqa: B023

        if places:
            found = leaves(tj.jit(f)(*[args[i] for i in places]))
            expected = _expected(name, args, options)
            if name == "frexp":  # XLA has no numbers as small as some of these
                found, expected = (
                    [x[[2, 3, 4, 8, 9, 10]] for x in y if x.size > 10 and x.ndim == 1] for y in (found, expected)
                )
            _compare(name, found, expected)
