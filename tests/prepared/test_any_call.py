"""What a call gives doesn't depend on what was called before: neither its result nor its error."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax.prepared.table import TABLE

Call = tuple[str, Callable[[], Any]]
#: The first ones often, so that the same types are met with other arguments.
DTYPES = (*(np.float64,) * 8, np.int8, np.int8, np.float32, ml_dtypes.bfloat16, np.uint64, np.bool_, np.complex64)
SHAPES: tuple[tuple[int, ...], ...] = (*((2, 3),) * 6, (), (3,), (0,), (2, 0), (1, 3), (2, 3, 2))
AXES = (None, 0, 1, -1, 2, (0,), (0, 1), (), True, 1.0, np.int64(1), [0], "a", (0, 0), (True,), (np.int64(0), 1))
TYPES = (None, np.float32, "float32", np.dtype("float32"), float, int, bool, complex, "i1", "nonsense", object, 1)
FLAGS = (True, False, 1, 0, np.bool_(True), None)
REDUCTIONS = ("sum", "prod", "max", "min", "all", "any", "mean", "var", "std", "argmax", "ptp", "median", "cumsum")
BINARY = ("outer", "isclose", "hypot", "logaddexp", "floor_divide", "divmod", "remainder", "fmod", "add", "where")
ONE_AND_NUMBER = ("tril", "triu", "tile", "round", "diagonal", "trace", "clip")
ENTRIES = (
    *(0, -1, 5, True, None, Ellipsis, slice(None), slice(1, None), slice(np.int64(0), 2), slice(None, None, 0)),
    *(np.int64(1), [0, 1], np.array([1.5]), np.array(["a"]), "a", 1.0, np.array([True, False])),
)
INDEX_DTYPES = (np.int8, np.uint8, np.int64, np.uint64)


class Calls:
    """Calls of public functions as nobody would think of them, on arrays of few types."""

    def __init__(self, seed: int) -> None:
        self.choice = random.Random(seed)
        self.rng = np.random.default_rng(seed)

    def pick(self, options: tuple[Any, ...]) -> Any:
        return self.choice.choice(options)

    def elements(self, dtype: Any = None) -> Any:
        """A NumPy array, with a NaN, an infinity or a zero now and then."""
        array = np.abs(np.asarray(self.rng.normal(size=self.pick(SHAPES)) * 3)).astype(dtype or self.pick(DTYPES))
        if array.size and array.dtype.kind in "fcV":
            array.reshape(-1)[0] = self.pick((1.5, -2.0, np.nan, -np.inf, -0.0))
        return array

    def given(self, array: Any) -> Any:
        """An array as users pass them."""
        as_is = array.tolist() if array.dtype.kind != "V" else array
        return self.pick((tnp.asarray(array), tnp.asarray(array), array, as_is))

    def positions(self) -> Any:
        dtype = self.pick(INDEX_DTYPES)
        array = self.rng.integers(-4, 5, size=self.pick(((), (2,), (0,), (2, 2))))
        array = np.asarray(array if np.iinfo(dtype).min else np.abs(array)).astype(dtype)
        if array.size:
            array.reshape(-1)[0] = self.pick((0, 1, 1, np.iinfo(dtype).max, np.iinfo(dtype).min))
        return self.pick((array, tnp.asarray(array)))

    def reduction(self) -> Call:
        name, x = self.pick(REDUCTIONS), self.given(self.elements())
        options: dict[str, tuple[Any, ...]] = {
            "axis": AXES,
            "keepdims": FLAGS,
            "dtype": TYPES,
            "initial": (1, 2.5, True),
            "where": (True, x > 0 if isinstance(x, tj.Array) else False),
        }
        chances = {"axis": 0.8, "keepdims": 0.3, "dtype": 0.2, "initial": 0.1, "where": 0.1}
        kwargs = {key: self.pick(options[key]) for key in options if self.choice.random() < chances[key]}
        f = getattr(tnp, name)
        how = self.choice.randrange(4)
        if how == 0:
            return f"{name} by name", lambda: f(a=x, **kwargs)
        if how == 1 and "axis" in kwargs:
            axis = kwargs.pop("axis")
            return f"{name} by position", lambda: f(x, axis, **kwargs)
        if how == 2 and isinstance(x, tj.Array) and name != "median":
            return f"method {name}", lambda: getattr(x, name)(**kwargs)
        return name, lambda: f(x, **kwargs)

    def gather(self) -> Call:
        x = tnp.asarray(self.elements())
        entries = [
            self.positions() if self.choice.random() < 0.6 else self.pick(ENTRIES) for _ in range(self.pick((1, 2)))
        ]
        key = tuple(entries) if len(entries) > 1 else entries[0]
        return f"x[{key!r}]", lambda: x[key]

    def take(self) -> Call:
        x, where = self.given(self.elements()), self.positions()
        axis, mode = self.pick(AXES), self.pick((None, "fill", "clip", "wrap", "raise", 1))
        fill = self.pick((None, None, 0, 1, True, 2.5, np.float32(1)))
        return f"take {axis} {mode}", lambda: tnp.take(x, where, axis, mode=mode, fill_value=fill)

    def other(self) -> Call:
        x, y = self.given(self.elements()), self.given(self.elements())
        if self.choice.random() < 0.5:
            name, k = self.pick(ONE_AND_NUMBER), self.pick((0, 1, True, 1.0, np.int64(1), None, "a", (1, 2), [2]))
            return f"{name} {k!r}", lambda: getattr(tnp, name)(x, k)
        name = self.pick(BINARY)
        return name, lambda: getattr(tnp, name)(x, y)

    def any(self) -> Call:
        made: Call = self.pick((self.reduction, self.reduction, self.gather, self.gather, self.take, self.other))()
        return made


def outcome(call: Callable[[], Any]) -> tuple[Any, ...]:
    """The results to the bit, but for which NaN it is, and their types; or the error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            out = call()
    except Exception as error:  # noqa: BLE001 (it is part of the outcome)
        return type(error), str(error)
    outs = out if isinstance(out, tuple) else (out,)
    return tuple((array.aval, str(np.asarray(array).tolist())) for array in outs)


def disagreements(seed: int, count: int) -> list[tuple[str, object, object]]:
    """Calls whose outcome isn't that with an empty table."""
    calls = Calls(seed)
    made = [calls.any() for _ in range(count)]
    shared, first = TABLE.entries, []
    try:
        for _, call in made:
            TABLE.entries = {}
            first.append(outcome(call))
    finally:
        TABLE.entries = shared
    assert sum(not isinstance(found[0], type) for found in first) > count // 4  # which are no errors
    order = list(range(count)) * 3
    calls.choice.shuffle(order)
    again = [(i, outcome(made[i][1])) for i in order]
    return [(made[i][0], first[i], found) for i, found in again if found != first[i]]


def test_any_call() -> None:
    assert disagreements(seed=1, count=400) == []


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(2, 12))
def test_any_call_more(seed: int) -> None:
    assert disagreements(seed, count=3000) == []


@pytest.mark.parametrize("name", REDUCTIONS)
def test_array_by_name(name: str) -> None:
    """The array may be given by name, as NumPy's functions have it; and if it is missing, Python says so."""
    x, f = tnp.asarray(np.arange(4.0)), getattr(tnp, name)
    for _ in range(3):
        assert outcome(lambda: f(a=x)) == outcome(lambda: f(x))
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
            f()
