"""Calls of what was compiled ahead of time: the first is looked at, later ones are launched, and nobody sees which."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
from tinyjax import numpy as tnp
from tinyjax.errors import DeletedBufferError, InputError, TinyjaxError

X = np.arange(3.0)
OUTER = np.array([1.0, 2.0, 3.0])


def on_device(x: Any) -> Any:
    return tj.device_put(tnp.asarray(x), tj.devices()[0])


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = {
    "array": (lambda x: x + 1, (X,), {}),
    "number": (lambda x: x * 2, (3.0,), {}),
    "number of NumPy's": (lambda x: x * 2, (np.float32(3),), {}),
    "tree": (lambda p, x: {"y": (p["w"] * x, p["b"])}, ({"w": X, "b": 2.0},), {"x": X}),
    "closure": (lambda x: x * OUTER, (X,), {}),
    "nothing": (lambda: tnp.ones(2), (), {}),
    "no result": (lambda x: (), (X,), {}),
    "an input that isn't read": (lambda x, y: [x, None], (X, X), {}),
    "keys": (lambda k: (tj.random.split(k), tj.random.normal(k, (2,))), (tj.random.key(0),), {}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("place", [lambda x: x, tnp.asarray, on_device])
def test_the_same_each_time(case: str, place: Callable[[Any], Any]) -> None:
    f, args, kwargs = CASES[case]
    args, kwargs = tj.tree.map(place, (args, kwargs))
    compiled = tj.jit(f).lower(*args, **kwargs).compile()
    wanted = tj.jit(f)(*args, **kwargs)
    for _ in range(4):
        found = compiled(*args, **kwargs)
        assert tj.tree.structure(found) == tj.tree.structure(wanted)
        for one, other in zip(tj.tree.leaves(found), tj.tree.leaves(wanted), strict=True):
            assert one.aval == other.aval
            assert one.device == other.device
            left, right = (tj.random.key_data(x) if "key" in str(x.aval.dtype) else x for x in (one, other))
            np.testing.assert_array_equal(np.asarray(left), np.asarray(right))


def test_later_calls_are_launched() -> None:
    x = on_device(X)
    compiled = tj.jit(lambda x: x + 1).lower(x).compile()
    assert not compiled._calls.entries
    compiled(x)
    (entry,) = compiled._calls.entries.values()
    assert entry.device is not None


def test_mistakes_are_those_of_the_first_call() -> None:
    x = on_device(X)
    compiled = tj.jit(lambda x: x + 1).lower(x).compile()
    wrong: list[tuple[type[Exception], tuple[Any, ...]]] = [
        (InputError, (X.astype(np.float32),)),
        (InputError, (np.arange(4.0),)),
        (TinyjaxError, (x, x)),
        (TinyjaxError, ([x],)),
    ]
    seen: list[list[str]] = []
    for _ in range(3):
        seen.append([])
        for error, args in wrong:
            with pytest.raises(error) as found:
                compiled(*args)
            seen[-1].append(str(found.value))
        compiled(x)
    assert seen[0] == seen[1] == seen[2]
    with pytest.raises(InputError, match="can't be transformed"):
        tj.grad(lambda x: compiled(x).sum())(X)
    gone = on_device(X)
    compiled(gone)
    gone.delete()
    with pytest.raises(DeletedBufferError):
        compiled(gone)


def test_donated_arguments_are_given_up_each_time() -> None:
    compiled = tj.jit(lambda x: x + 1, donate_argnums=0).lower(X).compile()
    for _ in range(3):
        x = on_device(X)
        np.testing.assert_array_equal(compiled(x), X + 1)
        assert x.is_deleted()


def test_numpy_arrays_may_be_written_to_afterwards() -> None:
    compiled = tj.jit(lambda x: x * 2).lower(X).compile()
    x = X.copy()
    for i in range(3):
        found = compiled(x)
        wanted = x * 2
        x += i + 1.0
        np.testing.assert_array_equal(found, wanted)
