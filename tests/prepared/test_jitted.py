"""Jitted functions as callees: what a call gives doesn't depend on the calls before it, and it asks once."""

from __future__ import annotations

import gc
import random
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from typing_extensions import override

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax.api.jit import Jitted
from tinyjax.errors import InputError
from tinyjax.prepared.straight import NUMBERS

X = np.array([1.5, -2.0, 0.25])
DEVICE: tj.Array = tj.device_put(tnp.asarray(X))
#: What a call may be made with; of each type several, so that they meet each other's entries.
VALUES: tuple[Callable[[], Any], ...] = (
    lambda: tnp.asarray(X),
    lambda: DEVICE,
    X.copy,
    lambda: X.astype("float32"),
    lambda: tnp.asarray(X.astype("float32")),
    lambda: tj.device_put(tnp.asarray(X.astype(">f8").astype("f8")) * 2.0),
    lambda: jnp.asarray([1, 2, 3], "int32"),
    lambda: 2,
    lambda: 2.0,
    lambda: -0.0,
    lambda: True,
    lambda: 1j,
    lambda: np.float32(0.5),
    lambda: np.array(3),
    lambda: tnp.asarray(4.0),
)
STATIC = (1, 1.0, True, "a", (1, 2), (True, 2), None, 0.0, -0.0)


def f(x: Any, y: Any = None, *, z: Any = (), k: Any = 0) -> Any:
    """Uses each argument, and its type; `k` is static."""
    scale = {str: 3.0, tuple: 5.0, type(None): 7.0}.get(type(k), k)
    total = sum((tnp.sum(leaf) for leaf in tj.tree.leaves((y, z))), start=tnp.asarray(1.0))
    return {repr(k): tj.tree.map(lambda leaf: leaf * scale + total, x)}


class Calls:
    """Calls as users make them."""

    def __init__(self, seed: int) -> None:
        self.choice = random.Random(seed)

    def tree(self) -> Any:
        value = self.choice.choice(VALUES)()
        how = self.choice.randrange(6)
        if how == 0:
            return {"a": value, "b": self.choice.choice(VALUES)()}
        return [value, (value,)] if how == 1 else value

    def any(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args = [self.tree()]
        kwargs = {}
        if self.choice.random() < 0.4:
            args.append(self.tree())
        elif self.choice.random() < 0.3:
            kwargs["y"] = self.tree()
        if self.choice.random() < 0.2:
            kwargs["z"] = self.tree()
        if self.choice.random() < 0.4:
            kwargs["k"] = self.choice.choice(STATIC)
        return tuple(args), kwargs


def outcome(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
    """The results to the bit and their types, or the error."""
    try:
        out = function(*args, **kwargs)
    except tj.TinyjaxError as error:
        return type(error), str(error)
    leaves, treedef = tj.tree.flatten(out)
    return treedef, [(leaf.aval, np.asarray(leaf).tobytes()) for leaf in leaves]


def traced(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
    """The same within a transformation, of the arguments that are arrays; and the equation."""
    arrays = [arg for arg in args if isinstance(arg, tj.Array)]

    def run(*given: Any) -> Any:
        rest = iter(given)
        return function(*[next(rest) if isinstance(arg, tj.Array) else arg for arg in args], **kwargs)

    try:
        return str(tj.make_jaxpr(run)(*arrays))
    except tj.TinyjaxError as error:
        return type(error), str(error)


def disagreements(seed: int, count: int, names: tuple[str, ...]) -> list[object]:
    """Calls of a function with these static arguments that don't give what a function gives that was never called."""
    calls = Calls(seed)
    compiled = tj.jit(f, static_argnames=names)
    found: list[object] = []
    for _ in range(count):
        args, kwargs = calls.any()
        if not names:
            kwargs.pop("k", None)
        ask = traced if calls.choice.random() < 0.4 else outcome
        # The programs and executables are shared, the entries are not.
        if (got := ask(compiled, args, kwargs)) != (expected := ask(tj.jit(f, static_argnames=names), args, kwargs)):
            found.append((args, kwargs, got, expected))
    assert isinstance(compiled, Jitted)
    assert compiled._calls.info().made > count // 10
    return found


@pytest.mark.sweep
@pytest.mark.parametrize("names", [(), ("k",)], ids=str)
def test_calls_do_not_depend_on_those_before(names: tuple[str, ...]) -> None:
    assert disagreements(1, 60, names) == []


@pytest.mark.sweep
@pytest.mark.parametrize("names", [(), ("k",)], ids=str)
@pytest.mark.parametrize("seed", range(2, 6))
def test_calls_do_not_depend_on_those_before_more(seed: int, names: tuple[str, ...]) -> None:
    assert disagreements(seed, 1500, names) == []


class Counting(dict[Any, Any]):
    """Entries that count how often they are asked."""

    asked = 0

    @override
    def get(self, key: Any, default: Any = None) -> Any:
        self.asked += 1
        return super().get(key, default)


ONCE: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "arrays": ((DEVICE, DEVICE), {}),
    "of the host": ((tnp.asarray(X), DEVICE), {}),
    "NumPy": ((X,), {}),
    "numbers": ((2.0, 3), {}),
    "a tree": (({"a": DEVICE, "b": X},), {}),
    "a tree on the device": (([DEVICE, DEVICE], (DEVICE,)), {}),
    "by name": ((X,), {"y": DEVICE}),
    "bools": ((True,), {}),
    "static": ((DEVICE,), {"k": 3}),
}


@pytest.mark.parametrize("name", ONCE)
def test_a_call_asks_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it is called with, and within a transformation too; no second call takes the long way. The second one
    with arrays of NumPy's learns by what else they are known than by their types."""
    args, kwargs = ONCE[name]
    compiled = tj.jit(f, static_argnames=tuple(kwargs.keys() & {"k"}))
    assert isinstance(compiled, Jitted)
    call = partial(compiled, *args, **kwargs)
    within = partial(tj.make_jaxpr(lambda _: call()), 0.0)
    call(), call(), within()
    entries = compiled._calls.entries = Counting(compiled._calls.entries)
    monkeypatch.setattr(Jitted, "_call", None)
    call()
    asked = entries.asked
    assert asked <= 1
    within()
    assert entries.asked == asked + 1


def test_entries_go_with_the_function() -> None:
    """They hold nothing alive that the function is not called with any more, nor the function."""

    class Option:
        pass

    option = Option()
    compiled = tj.jit(lambda x, k: x * 2.0, static_argnums=1)
    for _ in range(2):
        compiled(X, option)
    assert isinstance(compiled, Jitted)
    seen = weakref.ref(option), weakref.ref(compiled), weakref.ref(compiled._calls)
    del option, compiled
    gc.collect()
    assert [ref() for ref in seen] == [None, None, None]


def test_arrays_of_numpy_are_told_apart_by_all_that_their_types_are() -> None:
    """By shape, dtype and byte order; what isn't an array is refused each time."""
    compiled = tj.jit(lambda x: x * 2)
    good: list[Any] = [
        np.arange(6.0),
        np.arange(6.0).reshape(2, 3),
        np.arange(6.0, dtype=np.float32),
        np.arange(6),
        np.arange(6.0).astype(">f8"),
        np.arange(6.0)[::-1],
        np.asarray(3.0),
        np.zeros((0, 3)),
        np.arange(6.0)[None].astype(">f8"),
    ]
    bad: list[Any] = [
        np.array(["a"]),
        np.array([None]),
        np.array([1], "M8[s]"),
        np.zeros(2, "V8"),
        np.zeros(2, "f8,f8"),
    ]
    for _ in range(4):
        for x in good:
            out = compiled(x)
            assert (out.shape, out.dtype) == (x.shape, x.dtype.newbyteorder("="))
            np.testing.assert_array_equal(np.asarray(out), x * 2)
        for x in bad:
            with pytest.raises(InputError):
                compiled(x)


@pytest.mark.parametrize("donated", [(), 0], ids=["plain", "donated"])
def test_what_is_on_the_host_stays_as_it_is(donated: Any) -> None:
    """Arrays of ours that no device has are handed to XLA without a copy, and results never share their memory."""
    compiled = tj.jit(lambda x, y: (x, x + y), donate_argnums=donated)
    x, y = tnp.arange(8.0), tnp.asarray(1.0)
    for _ in range(4):
        given = tnp.asarray(np.asarray(x))  # another array with the same memory
        same, added = compiled(given, y)
        assert given.is_deleted() is (donated == 0)
        np.testing.assert_array_equal(np.asarray(same), np.arange(8.0))
        np.testing.assert_array_equal(np.asarray(added), np.arange(8.0) + 1.0)
        assert not np.shares_memory(np.asarray(same), np.asarray(x))
        same.delete()
        np.testing.assert_array_equal(np.asarray(x), np.arange(8.0))


def test_clearing_caches_forgets_what_numpys_arrays_are_known_by() -> None:
    compiled = tj.jit(lambda x: x * 2)
    assert isinstance(compiled, Jitted)
    for _ in range(3):
        compiled(X)
    assert len(compiled._calls.entries) == 2
    tj.clear_caches()
    assert not compiled._calls.entries
    np.testing.assert_array_equal(np.asarray(compiled(X)), X * 2)


REPEATED: dict[str, Any] = {
    "an array": DEVICE,
    "NumPy's": X,
    "a float": 2.5,
    "an int": 3,
    "a bool": True,
}


@pytest.mark.parametrize("name", REPEATED)
def test_what_is_passed_again_and_again_goes_straight(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With nothing between the call and the launch; numbers from the fourth time on, and where there is one device."""
    x = REPEATED[name]
    compiled = tj.jit(lambda x: x * 2)
    assert isinstance(compiled, Jitted)
    wanted = [np.asarray(compiled(x)) for _ in range(3)]
    if len(tj.devices()) == 1 or isinstance(x, tj.Array):
        monkeypatch.setattr(type(compiled._calls), "_run", None)
    monkeypatch.setattr(Jitted, "_call", None)
    wanted += [np.asarray(compiled(x)) for _ in range(2)]
    assert all(found.tobytes() == wanted[0].tobytes() for found in wanted)


def test_numbers_are_told_apart_by_class_sign_and_value() -> None:
    """Python's equal numbers are different arguments."""
    compiled = tj.jit(lambda x: 1 / x if x.dtype.kind in "fc" else x)
    numbers: list[Any] = [1, 1.0, True, 1 + 0j, 0.0, -0.0, float("nan"), float("inf"), -1, 2**40, complex(0.0, -0.0)]
    first = [outcome(compiled, (x,), {}) for x in numbers]
    for order in (1, -1) * 3:
        found = [outcome(compiled, (x,), {}) for x in numbers[::order]]
        assert found[::order] == first
    assert len({str(x) for x in first}) == len(numbers)


def test_arrays_of_numpy_may_be_written_to_after_a_call() -> None:
    """Wherever in memory they lie: what has been called with them has taken them as they were."""
    compiled = tj.jit(lambda x: x @ x)
    memory = np.zeros(64 * 64 + 16)
    for start in range(16):
        x = memory[start : start + 64 * 64].reshape(64, 64)
        for _ in range(4):
            x[:] = np.eye(64)
            found = compiled(x)
            x[:] = 7.0
            np.testing.assert_array_equal(np.asarray(found), np.eye(64))


def test_numbers_that_change_with_each_call_are_not_kept() -> None:
    """Only what comes again is put on the device for later calls, and there is an end to it."""
    compiled = tj.jit(lambda x: x + 1)
    tj.clear_caches()
    for i in range(40):
        assert int(compiled(i)) == i + 1
    assert not any(NUMBERS.entries.values())
    for _ in range(2):
        compiled(7)
    kept = [key for key, kept in NUMBERS.entries.items() if kept]
    assert kept == ([(int, 7)] if len(tj.devices()) == 1 else [])
    tj.clear_caches()
    assert not NUMBERS.entries


@pytest.mark.parametrize("donated", [(), 0], ids=["plain", "donated"])
def test_a_number_on_the_device_is_nobodys_to_donate(donated: Any) -> None:
    compiled, other = tj.jit(lambda x: x + 1, donate_argnums=donated), tj.jit(lambda x: x * 3)
    for _ in range(4):
        assert float(compiled(2.5)) == 3.5
        assert float(other(2.5)) == 7.5
