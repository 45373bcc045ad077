"""Choices, closeness, and what functions say of dtypes and shapes."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.numpy.oracle import DTYPES, check, numbers, weak
from tinyjax import ArrayLike
from tinyjax.errors import InputError, ShapeError
from tinyjax.primitives.conversion import ConvertElementType
from tinyjax.tracing.core import bind

VALUES: list[ArrayLike] = [1, 2.5, True, 1j, np.float32(3), np.arange(3, dtype=np.int8), np.ones((2, 1), np.float64)]


PAIRS: list[tuple[ArrayLike, ArrayLike]] = [(x, y) for x in VALUES for y in VALUES]


@pytest.mark.parametrize(("x", "y"), PAIRS, ids=repr)
def test_where(x: ArrayLike, y: ArrayLike) -> None:
    condition = np.array([True, False, True])
    check("where", condition, x, y)


def test_where_of_numbers() -> None:
    check("where", np.array([0, 2, np.nan]), 1.0, 2.0)
    check("where", 1, np.arange(2), 0)
    check("where", np.array([True, False, True]))


def test_select() -> None:
    x = numbers("float32", 6).astype(np.float32)
    conditions: list[ArrayLike] = [x < 0, x < 0.5]
    choices: list[ArrayLike] = [x * 2, np.arange(6)]
    check("select", conditions, choices, 7)
    with pytest.raises(ShapeError, match="as many choices as conditions, got 2 and 1"):
        tnp.select(conditions, choices[:1])


@pytest.mark.parametrize("equal_nan", [True, False])
def test_closeness(equal_nan: bool) -> None:
    x = np.array([1.0, np.inf, np.nan, 1e-9, -np.inf])
    y = np.array([1.000001, np.inf, np.nan, 0.0, np.inf])
    for left, right in ((x, y), (x, x), (x.astype(np.float32), y), (np.arange(3), np.arange(3) + 1), (x, 1)):
        check("isclose", left, right, equal_nan=equal_nan)
        check("allclose", left, right, equal_nan=equal_nan)
        check("array_equal", left, right, equal_nan)
    check("isclose", x, y, 1e-9, 1e-12)


def test_keys_are_close_to_themselves() -> None:
    keys = tj.random.split(tj.random.key(0), 3)
    for isclose in (tnp.isclose, tj.jit(tnp.isclose)):
        assert np.asarray(isclose(keys, keys)).tolist() == [True, True, True]
        assert np.asarray(isclose(keys, keys[0])).tolist() == [True, False, False]
    assert tnp.allclose(keys, keys)
    assert not tnp.allclose(keys, keys[::-1])


def test_result_type() -> None:
    dtypes: list[npt.DTypeLike] = [*DTYPES, int, float, complex, bool]
    for dtype in dtypes:
        for other in dtypes:
            assert tnp.result_type(dtype, other) == jnp.result_type(dtype, other)
    for left, right in PAIRS:
        assert tnp.result_type(left, right) == jnp.result_type(left, right)
    for dtype, other in itertools.product(DTYPES, DTYPES):  # dtypes themselves: those of Python's types are not weak
        assert tnp.result_type(np.dtype(dtype), np.dtype(other)) == jnp.result_type(np.dtype(dtype), np.dtype(other))
    assert tnp.result_type(weak(2.0, 3)[0], "float32") == np.float32
    # Weak values among themselves are what Python's numbers are.
    wide = {"int8": "int64", "uint8": "uint64", "bfloat16": "float64", "complex64": "complex128", "bool": "bool"}
    for narrow, dtype in wide.items():
        (x,) = bind(ConvertElementType(narrow, weak_type=True), tnp.ones(()))
        assert tnp.result_type(x) == tnp.result_type(x, x) == dtype
        assert tnp.result_type(x, "float16") == ("complex64" if narrow == "complex64" else "float16")
    with pytest.raises(InputError, match="at least one"):
        tnp.result_type()


@pytest.mark.parametrize(("x", "y"), list(itertools.product(DTYPES, DTYPES)))
def test_dtypes(x: str, y: str) -> None:
    assert tnp.promote_types(x, y) == jnp.promote_types(x, y)
    assert tnp.can_cast(x, y) == jnp.can_cast(x, y)
    assert tnp.issubdtype(x, y) == jnp.issubdtype(x, y)
    assert tnp.isdtype(x, y) == jnp.isdtype(x, y)


@pytest.mark.parametrize("dtype", DTYPES)
def test_kinds_of_dtypes(dtype: str) -> None:
    for kind in ("bool", "signed integer", "integral", "real floating", "complex floating", "numeric"):
        assert tnp.isdtype(dtype, kind) == jnp.isdtype(dtype, kind)
    assert tnp.isdtype(dtype, ("bool", "integral")) == jnp.isdtype(dtype, ("bool", "integral"))
    for name in ("floating", "integer", "inexact", "number", "complexfloating", "signedinteger", "generic"):
        assert tnp.issubdtype(dtype, getattr(tnp, name)) == jnp.issubdtype(dtype, getattr(jnp, name))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"])
def test_limits_of_floats(dtype: str) -> None:
    ours, theirs = tnp.finfo(dtype), getattr(jnp, "finfo")(dtype)  # noqa: B009  # it has no types
    for name in ("bits", "nmant", "nexp", "max", "min", "eps", "tiny", "smallest_normal", "smallest_subnormal"):
        assert float(getattr(ours, name)) == float(getattr(theirs, name)), name


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "bfloat16", "float32", "float64"])
def test_limits_are_floats_that_take_other_dtypes(dtype: str) -> None:
    largest = tnp.finfo(dtype).max
    for wanted in ("float32", "bfloat16", "float64"):
        with np.errstate(over="ignore"):
            ours, theirs = largest.astype(wanted), getattr(jnp, "finfo")(dtype).max.astype(wanted)  # noqa: B009
        assert ours.dtype == theirs.dtype
        assert float(ours.item()) == float(theirs)
        assert (tnp.ones(2, wanted) * largest).dtype == wanted
    assert isinstance(largest, float)
    assert repr(largest) == repr(float(largest))
    with pytest.raises(InputError, match="iinfo is for integer dtypes"):
        tnp.iinfo(dtype)


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8", "uint64"])
def test_limits_of_integers(dtype: str) -> None:
    ours, theirs = tnp.iinfo(dtype), np.iinfo(dtype)
    assert (ours.bits, ours.max, ours.min) == (theirs.bits, theirs.max, theirs.min)
    with pytest.raises(InputError, match="finfo is for float"):
        tnp.finfo(dtype)


def test_an_array_is_no_dtype() -> None:
    """NumPy would take its dtype. Where a dtype or an array is meant, both are taken, as NumPy does."""
    x = tnp.ones(3, "float32")
    wrong: list[Callable[[Any], object]] = [
        lambda y: tnp.zeros(3, dtype=y),
        lambda y: tnp.asarray([1], dtype=y),
        lambda y: tnp.arange(3, dtype=y),
        lambda y: tnp.sum(x, dtype=y),
        x.astype,
        x.view,
        lambda y: tj.random.normal(tj.random.key(0), (2,), dtype=y),
        lambda y: tj.lax.convert_element_type(x, y),
        lambda y: tj.lax.iota(y, 3),
        tj.jit(x.astype),
    ]
    for function in wrong:
        for given in (x, np.ones(3)):
            with pytest.raises(ValueError, match=r"given as a dtype.*write x\.dtype"):
                function(given)
    assert tnp.finfo(x) == tnp.finfo("float32")
    assert tnp.iinfo(np.arange(3)) == tnp.iinfo(tnp.arange(3)) == tnp.iinfo("int64")
    assert tnp.zeros(2, np.float32(1.0)).dtype == jnp.zeros(2, np.float32(1.0)).dtype


def test_shapes() -> None:
    x = np.zeros((2, 3), np.complex64)
    assert (tnp.shape(x), tnp.ndim(x), tnp.size(x), tnp.size(x, 1), tnp.size(x, (0, -1))) == ((2, 3), 2, 6, 3, 6)
    assert (tnp.iscomplexobj(x), tnp.isrealobj(x), tnp.isscalar(2.0), tnp.isscalar(x)) == (True, False, True, False)
    assert tnp.astype(2.5, int).item() == 2
    assert tnp.astype(x.real, "float16").dtype == np.float16


@pytest.mark.parametrize("dtype", ["complex64", "float32", "int8", "bfloat16"])
def test_what_has_a_dtype_is_complex_or_not(dtype: str) -> None:
    named, theirs = getattr(tnp, dtype), getattr(jnp, dtype)
    for ours in (named, named(0), tj.ShapeDtypeStruct((2,), dtype), tj.typeof(named(0))):
        assert tnp.iscomplexobj(ours) == jnp.iscomplexobj(theirs)
        assert tnp.isrealobj(ours) == jnp.isrealobj(theirs)


#: Arguments of jax's that choose devices and layouts, or are there only to be refused.
_OMITTED = {"device", "out_sharding", "sharding", "copy", "_dot_general", "total_repeat_length", "size", "fill_value",
            "kwargs", "args", "where", "out", "constant_values"}  # fmt: skip
#: NumPy's functions of elements take positional arguments only, so their names don't matter.
_POSITIONAL = inspect.Parameter.POSITIONAL_ONLY


def _parameters(function: object) -> list[tuple[str, object]]:
    assert callable(function)
    parameters = inspect.signature(function).parameters.values()
    kept = [p for p in parameters if p.name not in _OMITTED]
    return [("_" if p.kind is _POSITIONAL else p.name, p.default) for p in kept]


#: Those have no names of arguments in jax, or only to be refused, or to choose an algorithm, or another default in jax
#: 0.10 than in 0.11; or there are more of them here, those of the array API.
_UNLIKE = {"finfo", "iinfo", "broadcast_shapes", "clip", "searchsorted", "take_along_axis", "fromfile", "fromiter"}
_UNLIKE |= {"pad", "nanstd", "nanvar"}
_FUNCTIONS = sorted(
    name
    for name in dir(tnp)
    if inspect.isfunction(getattr(tnp, name))
    and type(getattr(jnp, name, None)).__name__ in ("function", "PjitFunction")
)


@pytest.mark.parametrize("name", _FUNCTIONS)
def test_signatures_are_those_of_jax(name: str) -> None:
    if name in _UNLIKE:
        return
    assert _parameters(getattr(tnp, name)) == _parameters(getattr(jnp, name))
