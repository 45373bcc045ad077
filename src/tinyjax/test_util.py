"""Derivatives compared with differences: the names of `jax.test_util`. For laws of programs, see `tinyjax.testing`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tinyjax.api.autodiff import jvp, vjp
from tinyjax.errors import DerivativeError, InputError
from tinyjax.ir.dtypes import (
    BFLOAT16,
    COMPLEXES,
    FLOAT0,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INEXACT,
    DType,
    HostArray,
    real_dtype,
)
from tinyjax.tracebacks import filter_package
from tinyjax.tracing import tree
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.functions import check_callable, located

__all__ = ["check_grads", "check_jvp", "check_vjp"]

#: How far apart derivatives may be: for every dtype, or for each by its name.
Tolerance: TypeAlias = float | Mapping[npt.DTypeLike, float] | None
#: What rounding and the length of the step do to quotients of differences.
_TOLERANCES: Final[Mapping[DType, float]] = {FLOAT64: 1e-5, FLOAT32: 2e-3, FLOAT16: 1e-2, BFLOAT16: 1e-1}
#: Steps for which the errors by rounding and by curvature stay below the tolerances, short enough to seldom reach over
#: a kink or a jump.
_STEPS: Final[Mapping[DType, float]] = {FLOAT64: 1e-5, FLOAT32: 1e-3, FLOAT16: 1e-1, BFLOAT16: 2e-1}


def check_grads(
    f: Callable[..., object],
    args: Sequence[Any],
    order: int,
    modes: str | Iterable[str] = ("fwd", "rev"),
    atol: Tolerance = None,
    rtol: Tolerance = None,
    eps: float | None = None,
) -> None:
    """Compares derivatives of f at `args` with quotients of differences, along a direction chosen at random.

    Args:
      order: how often f is differentiated; each derivative is compared with differences of the one before.
      modes: "fwd" for forward mode, "rev" for reverse mode, or both, in all combinations.
      atol: how far apart they may be, in all or by dtype; scaled by the number of elements.
      rtol: the same, in parts of the derivative.
      eps: half of the length of the step. None: as the dtypes of the arguments have it.

    Raises:
      DerivativeError: an AssertionError; they differ, with the derivative and the elements.

    >>> import tinyjax.numpy as tnp
    >>> check_grads(lambda x: tnp.sin(x) * x, (2.0,), order=2)
    """
    check_callable("check_grads", f)
    chosen = {modes} if isinstance(modes, str) else set(modes)
    if not chosen <= {"fwd", "rev"}:
        raise InputError(f'check_grads: modes are "fwd" and "rev", got {modes!r}')
    _check(f, tuple(args), order, chosen, (atol, rtol, eps), located(f))


def _check(
    f: Callable[..., object],
    args: tuple[Any, ...],
    order: int,
    modes: set[str],
    options: tuple[Tolerance, Tolerance, float | None],
    what: str,
) -> None:
    if order < 1:
        return
    rng = np.random.default_rng(1)
    if "fwd" in modes:
        check_jvp(f, partial(jvp, f), args, *options, f"jvp of {what}")
        tangents = _directions(rng, args)
        _check(lambda *xs: _moving(jvp(f, xs, tangents)[1]), args, order - 1, modes, options, f"jvp of {what}")
    if "rev" in modes:
        check_vjp(f, partial(vjp, f), args, *options, f"vjp of {what}")
        cotangents = _directions(rng, f(*args))
        _check(lambda *xs: _moving(vjp(f, *xs)[1](cotangents)), args, order - 1, modes, options, f"vjp of {what}")


def check_jvp(
    f: Callable[..., object],
    f_jvp: Callable[[Any, Any], tuple[object, object]],
    args: Sequence[Any],
    atol: Tolerance = None,
    rtol: Tolerance = None,
    eps: float | None = None,
    err_msg: str = "",
) -> None:
    """Compares `f_jvp(args, tangents)`, such as `functools.partial(jvp, f)`, with quotients of differences of f, along
    a direction chosen at random; and its first result with that of f. Arguments are as those of `check_grads`.

    >>> def twice(primals, tangents):
    ...     return 2.0 * primals[0], 2.0 * tangents[0]
    >>> check_jvp(lambda x: 2.0 * x, twice, (3.0,))
    >>> check_jvp(lambda x: 3.0 * x, twice, (3.0,))
    Traceback (most recent call last):
        ...
    tinyjax.errors.DerivativeError: the primal is 6.0, expected 9.0
    """
    args = tuple(args)
    tangents = _directions(np.random.default_rng(0), args)
    out, tangent = f_jvp(args, tangents)
    _compare(err_msg, "the primal", out, f(*args), atol, rtol)
    _compare(err_msg, "the tangent", tangent, _quotient(f, args, tangents, eps), atol, rtol)


def check_vjp(
    f: Callable[..., object],
    f_vjp: Callable[..., tuple[object, Callable[[Any], object]]],
    args: Sequence[Any],
    atol: Tolerance = None,
    rtol: Tolerance = None,
    eps: float | None = None,
    err_msg: str = "",
) -> None:
    """Compares `f_vjp(*args)`, such as `functools.partial(vjp, f)`, with quotients of differences of f: what its second
    result makes of a cotangent, along a direction, both chosen at random; and its first result with that of f.
    Arguments are as those of `check_grads`.

    >>> check_vjp(lambda x: 2.0 * x, lambda x: (2.0 * x, lambda ct: (2.0 * ct,)), (3.0,))
    """
    args = tuple(args)
    rng = np.random.default_rng(0)
    tangents = _directions(rng, args)
    out, pull_back = f_vjp(*args)
    _compare(err_msg, "the primal", out, f(*args), atol, rtol)
    cotangents = _directions(rng, out)
    quotient = _quotient(f, args, tangents, eps)
    narrow = min((x.dtype for x in _arrays((args, out)) if x.dtype in INEXACT), key=_width, default=FLOAT64)
    found, expected = _product(pull_back(cotangents), tangents), _product(cotangents, quotient)
    size = sum(x.size for x in _arrays(out))
    _differ(err_msg, "the product of tangent and cotangent", found, expected, narrow, size, atol, rtol)


def _arrays(x: object) -> list[HostArray]:
    return [np.asarray(leaf) for leaf in tree.flatten(x)[0]]


def _moving(x: object) -> list[object]:
    """The leaves that can be differentiated."""
    return [leaf for leaf in tree.flatten(x)[0] if as_array(leaf).aval.dtype in INEXACT]


def _width(dtype: DType) -> tuple[int, bool]:
    real = real_dtype(dtype)
    return real.itemsize, real != BFLOAT16


def _directions(rng: np.random.Generator, x: object) -> Any:  # a tree as the user's
    """A tangent for each leaf of a tree."""

    def direction(leaf: object) -> HostArray:
        array = np.asarray(leaf)
        if array.dtype not in INEXACT:
            return np.zeros(array.shape, FLOAT0)
        drawn: HostArray = rng.standard_normal(array.shape)
        if array.dtype in COMPLEXES:
            drawn = drawn + 1j * rng.standard_normal(array.shape)
        return np.asarray(drawn).astype(array.dtype)

    return tree.map_leaves(direction, x)


def _quotient(f: Callable[..., object], args: tuple[Any, ...], tangents: object, eps: float | None) -> Any:
    """The derivative along a direction, by the difference of two values: of those results that have one."""
    narrow = min((x.dtype for x in _arrays(args) if x.dtype in INEXACT), key=_width, default=FLOAT64)
    step = _STEPS.get(real_dtype(narrow), 0.5) if eps is None else eps

    def moved(by: float) -> list[HostArray]:
        def move(x: object, tangent: HostArray) -> object:
            array = np.asarray(x)
            if tangent.dtype == FLOAT0:
                return x
            found = (array + np.asarray(by * tangent).astype(array.dtype)).astype(array.dtype)
            # A number of Python's stays one, so that the other operands still decide the dtype.
            return found.item() if found.ndim == 0 and as_array(x).aval.weak_type else found

        return _arrays(f(*tree.map_leaves(move, args, tangents)))

    def difference(x: HostArray, y: HostArray) -> HostArray:
        if x.dtype not in INEXACT:
            return np.zeros(x.shape, FLOAT0)
        wide = np.complex128 if x.dtype in COMPLEXES else np.float64
        with np.errstate(all="ignore"):
            quotient = (x.astype(wide) - y.astype(wide)) / (2 * step)
        return np.where(x == y, 0.0, quotient).astype(x.dtype)  # also of infinities

    above, below = moved(step), moved(-step)
    found = [difference(x, y) for x, y in zip(above, below, strict=True)]
    return tree.unflatten(tree.flatten(f(*args))[1], found)


def _product(xs: object, ys: object) -> HostArray:
    """The real part of the sum of products, without conjugation."""
    total = 0.0
    for x, y in zip(_arrays(xs), _arrays(ys), strict=True):
        if x.dtype in INEXACT and y.dtype in INEXACT:
            total += float(np.real(np.sum(x.astype(np.complex128) * y.astype(np.complex128))))
    return np.asarray(total)


def _compare(message: str, what: str, found: object, expected: object, atol: Tolerance, rtol: Tolerance) -> None:
    tree.check_same_structure("check_grads", tree.flatten(expected)[1], tree.flatten(found)[1], "f", what)
    for x, y in zip(_arrays(found), _arrays(expected), strict=True):
        if (x.shape, x.dtype) != (y.shape, y.dtype):
            raise DerivativeError(
                f"{message}{': ' * bool(message)}{what} is {x.dtype}{list(x.shape)}, expected {y.dtype}{list(y.shape)}"
            )
        if x.dtype in INEXACT:
            _differ(message, what, x, y, x.dtype, x.size, atol, rtol)


def _differ(
    message: str,
    what: str,
    found: HostArray,
    expected: HostArray,
    dtype: DType,
    size: int,
    atol: Tolerance,
    rtol: Tolerance,
) -> None:
    """A DerivativeError where two arrays are further apart than they may be, for values computed in `dtype`."""
    wide = np.complex128 if found.dtype in COMPLEXES else np.float64
    x, y = found.astype(wide), expected.astype(wide)
    absolute, relative = (_allowed(tolerance, dtype) * max(size, 1) for tolerance in (atol, rtol))
    with np.errstate(all="ignore"):
        wrong = ~((np.abs(x - y) <= absolute + relative * np.abs(y)) | (x == y) | (np.isnan(x) & np.isnan(y)))
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        place = f" at {list(at)}" if at else ""
        raise DerivativeError(f"{message}{': ' * bool(message)}{what}{place} is {found[at]}, expected {expected[at]}")


def _allowed(tolerance: Tolerance, dtype: DType) -> float:
    real = real_dtype(dtype)
    default = _TOLERANCES.get(real, 1.0)
    if tolerance is None:
        return default
    if not isinstance(tolerance, Mapping):
        return tolerance
    named = {np.dtype(key): value for key, value in tolerance.items()}
    return named.get(dtype, named.get(real, default))


filter_package(__name__, __all__)
