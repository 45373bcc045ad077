"""Every public function that is marked: prepared, it gives what it gives when it is called, results and errors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
import tinyjax.scipy.linalg
import tinyjax.scipy.special
from tinyjax import nn
from tinyjax.prepared import functions
from tinyjax.prepared.functions import REPLAYING, prepared, prepared_for_several
from tinyjax.prepared.table import TABLE

MODULES: dict[str, ModuleType] = {
    "numpy": tnp,
    "numpy.linalg": tnp.linalg,
    "numpy.fft": tnp.fft,
    "scipy.linalg": tj.scipy.linalg,
    "scipy.special": tj.scipy.special,
    "nn": nn,
}


def marked(f: object) -> object:
    """The function that is marked, under what users call; None if none is."""
    while f is not None:
        code, within = getattr(f, "__code__", None), getattr(f, "__wrapped__", None)
        if code is not None and code.co_filename == functions.__file__:
            return within
        f = within
    return None


MARKED = [
    f"{room}.{name}" for room, module in MODULES.items() for name in module.__all__ if marked(getattr(module, name))
]


def found(name: str) -> Callable[..., Any]:
    room, _, own = name.rpartition(".")
    function: Callable[..., Any] = getattr(MODULES[room], own)
    return function


def operands() -> dict[str, list[Any]]:
    """Lists of arguments that some function or other takes, and others refuse."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 6))
    a = rng.normal(size=(3, 3))
    s = a @ a.T + np.eye(3)
    odd = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.5])
    i, j = np.array([3, 0, 2, 2, 1, 7]), np.array([1, 2, 0, 3, 5, 2])
    return {
        "vector": [x],
        "odd numbers": [odd],
        "two of them": [odd, y],
        "float32": [x.astype(np.float32), np.float32(1.5)],
        "complex": [x + 1j * y],
        "integers": [i],
        "two of integers": [i, j],
        "bytes": [i.astype(np.uint8), j.astype(np.uint8)],
        "booleans": [x > 0],
        "matrix": [s],
        "singular matrix": [np.ones((3, 3))],
        "matrices": [s, a],
        "complex matrix": [s + 1j * a],
        "matrix and vector": [s, a[0]],
        "batch": [np.stack([s, a, s])],
        "vector and number": [x, 2],
        "vector and text": [x, "full"],
        "matrix and number": [a, 1],
        "matrix and axes": [a, 0, -1],
        "sorted and others": [np.sort(x), y],
        "three": [np.sort(x), np.sort(y), x],
        "integers between": [x, i],
        "number": [np.float64(0.5)],
        "empty": [np.zeros(0)],
        "list": [[x, y]],
        "tuple": [(x, y)],
        "nested": [[[x, y], [y, x]]],
        "list that is mixed": [[x, 1, i]],
        "pair of matrix and flag, vector": [(s, True), a[0]],
        "factors and positions": [(s, np.array([0, 2, 2], np.int32)), a[0]],
    }


def arrays(x: Any, place: Callable[[Any], Any]) -> Any:
    if isinstance(x, list | tuple):
        return type(x)(arrays(item, place) for item in x)
    return place(x) if isinstance(x, np.ndarray | np.generic) else x


def described(out: Any) -> Any:
    """Types and elements to the bit, but for which nan it is."""
    if isinstance(out, list | tuple):
        return type(out), [described(item) for item in out]
    return (out.aval, str(np.asarray(out).tolist())) if isinstance(out, tj.Array) else out


def outcome(call: Callable[[], Any]) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return described(call())
    except Exception as error:  # noqa: BLE001 (it is part of the outcome)
        return type(error), str(error)


def failed(outcome: Any) -> bool:
    return isinstance(outcome[0], type) and issubclass(outcome[0], Exception)


def long_way(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(functions, "_run", lambda *_: None)
    patch.setattr(REPLAYING, "use", lambda *_: None)


@pytest.mark.parametrize("name", MARKED)
def test_results_and_errors(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    f = found(name)
    worked = 0
    for case, given in operands().items():
        call = partial(f, *arrays(given, tnp.asarray))
        with monkeypatch.context() as patch:
            long_way(patch)
            expected = outcome(call)
        for _ in range(3):
            assert outcome(call) == expected, case
        worked += not failed(expected)
    assert worked, "there is a case for it"


@pytest.mark.parametrize("name", MARKED)
def test_programs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replayed, programs are what they were."""
    f = found(name)
    for case, given in operands().items():
        if any(not isinstance(arg, np.ndarray) for arg in given):
            continue

        def program(given: list[Any] = given) -> str:
            return str(tj.make_jaxpr(f)(*given))

        with monkeypatch.context() as patch:
            long_way(patch)
            expected = outcome(program)
        for _ in range(3):
            assert outcome(program) == expected, case


@pytest.mark.sweep
@pytest.mark.parametrize("name", MARKED)
def test_on_a_device(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to rounding, and on the device; errors are the same."""
    f = found(name)
    for case in ("vector", "two of integers", "matrix", "matrix and vector", "list"):
        args = arrays(operands()[case], lambda x: tj.device_put(tnp.asarray(x)))
        with monkeypatch.context() as patch:
            long_way(patch)
            try:
                expected = f(*args)
            except Exception as error:  # noqa: BLE001 (it is part of the outcome)
                with pytest.raises(type(error)):
                    f(*args)
                continue
        for _ in range(2):
            out = f(*args)
            assert type(out) is type(expected), case
            leaves, wanted = tj.tree.leaves(out), tj.tree.leaves(expected)
            assert len(leaves) == len(wanted)
            for leaf, other in zip(leaves, wanted, strict=True):
                assert leaf.aval == other.aval
                assert leaf.value.on_host == other.value.on_host
                np.testing.assert_allclose(np.asarray(leaf), np.asarray(other), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", MARKED)
def test_it_is_prepared_on_the_host(name: str) -> None:
    """Somehow: what works has a runner after three calls, unless it depends on more than types."""
    tj.clear_caches()
    f = found(name)
    for given in operands().values():
        call = partial(f, *arrays(given, tnp.asarray))
        if not failed(outcome(call)):
            for _ in range(2):
                call()
    inner = marked(f)
    assert any(entry.kept[0] is inner and entry.host for entry in TABLE.entries.values())


SAMPLERS: dict[str, Callable[[tj.Array], tj.Array]] = {
    "randint": lambda key: tj.random.randint(key, (3,), 0, 10),
    "randint of bytes": lambda key: tj.random.randint(key, (2, 2), -200, 200, "int8"),
    "randint of all numbers": lambda key: tj.random.randint(key, (), -(2**63), 2**63 - 1),
    "permutation": lambda key: tj.random.permutation(key, 5),
    "permutation of rows": lambda key: tj.random.permutation(key, np.eye(3), 1, True),
    "truncated_normal": lambda key: tj.random.truncated_normal(key, np.array([-np.inf, 0.5]), 2.0, (2, 2)),
}


def test_samplers_have_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    key = tj.random.key(3)
    done = {name: [described(sampler(key)) for _ in range(3)] for name, sampler in SAMPLERS.items()}
    long_way(monkeypatch)
    for name, sampler in SAMPLERS.items():
        assert done[name] == [described(sampler(key))] * 3, name


def test_containers_of_arguments_and_results() -> None:
    """Lists and tuples are told apart, and so is what is in them; what is long is called."""
    seen: list[object] = []

    @prepared_for_several
    def f(xs: Any) -> Any:
        seen.append(xs)
        return [x * 2.0 for x in xs if isinstance(x, tj.Array)]

    x = tnp.arange(3.0)
    given: list[Any] = [[x, x], (x, x), [x, 1], [x, True], [x, (1, x)], [x, [1, x]], [x, "a"], [x, None], [x]]
    for xs in given:
        for _ in range(4):
            out = f(xs)
            assert type(out) is list
            assert all(np.asarray(part).tolist() == [0.0, 2.0, 4.0] for part in out)
        assert len(seen) == 2
        seen.clear()
    for xs in ([x] * 40, [x, 1.5], [x, {}], [x, np.ones(3)]):
        for _ in range(4):
            f(xs)
        assert len(seen) == 4
        seen.clear()


def test_a_precision_in_force_is_asked_for() -> None:
    """Which products have is found out where the function is called."""
    seen: list[object] = []

    @prepared
    def f(x: tj.Array) -> tj.Array:
        seen.append(x)
        return x @ x

    x = tnp.ones((2, 2))
    for _ in range(4):
        f(x)
    assert len(seen) == 2
    with tj.default_matmul_precision("highest"):
        for _ in range(3):
            f(x)
    assert len(seen) == 5
    f(x)
    assert len(seen) == 5
