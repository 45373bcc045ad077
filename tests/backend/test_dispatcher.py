"""Arrays of the host as arguments of compiled functions: through jaxlib's dispatcher, and without it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np
import pytest
from jaxlib import _jax

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.strategies import STANDARD
from tinyjax.api.jit import Jitted
from tinyjax.backend import dispatcher, executable
from tinyjax.backend.dispatcher import Argument
from tinyjax.backend.executable import Executable
from tinyjax.errors import DeletedBufferError, InputError
from tinyjax.ir.dtypes import DType

Array = np.ndarray[Any, Any]


@pytest.fixture(params=["dispatcher", "plain"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Both ways; the plain one as if this jaxlib had no dispatcher. Nothing that was compiled before is met again."""
    way: str = request.param
    if way == "plain":
        monkeypatch.delattr(_jax, "pjit")
    tj.clear_caches()
    yield way
    tj.clear_caches()


def through_dispatcher(f: object) -> bool:
    """Whether the only signature of a compiled function that is ready has a dispatcher of jaxlib's."""
    assert isinstance(f, Jitted)
    (entry,) = {id(entry): entry for entry in f._calls.entries.values()}.values()
    assert entry.device is not None
    assert isinstance(entry.device.executable, Executable)
    return entry.device.executable._dispatcher is not None


def aligned(size: int) -> Array:
    """Where XLA would use the array as it is, without a copy."""
    memory = np.zeros(size * 8 + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size * 8].view(np.float64)


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("dtype", STANDARD, ids=str)
def test_dtypes(dtype: DType, x64: bool) -> None:
    """Nothing is truncated, whatever jax is set to, and the setting stays as it was."""
    x = np.arange(6).reshape(2, 3).astype(dtype)
    f = tj.jit(lambda x: (x, tnp.reshape(x, (6,))))
    with jax.enable_x64(x64):
        for _ in range(3):
            same, flat = f(x)
            assert same.dtype == flat.dtype == dtype
            np.testing.assert_array_equal(np.asarray(same), x)
            np.testing.assert_array_equal(np.asarray(flat), x.ravel())
            assert jax.config.read("jax_enable_x64") is x64
    assert through_dispatcher(f)


LAYOUTS = {
    "transposed": np.arange(6.0).reshape(2, 3).T,
    "strided": np.arange(12.0)[::2],
    "backwards": np.arange(6.0)[::-1],
    "broadcast": np.broadcast_to(np.float64(2.0), (6,)),
    "unaligned": np.frombuffer(b"x" + np.arange(6.0).tobytes(), np.float64, offset=1),
    "a scalar": np.asarray(6.0),
    "nothing": np.zeros((0, 6)),
    "read-only": np.frombuffer(np.arange(6.0).tobytes()),
    "other byte order": np.arange(6.0).astype(">f8"),
    "large": np.arange(20_000.0),
}


@pytest.mark.parametrize("x", LAYOUTS.values(), ids=LAYOUTS)
def test_layouts(x: Array, way: str) -> None:
    f = tj.jit(lambda x, y: x * 2.0 + y)
    for _ in range(3):
        out = f(x, x)
        np.testing.assert_array_equal(np.asarray(out), x * 3.0)
        assert out.dtype == np.float64
        assert out.shape == x.shape


def test_ways(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plain way is asked for each call, or for the first of a signature only."""
    asked: list[int] = []
    before = executable._put

    def put(data: Any, device: Any) -> Any:
        asked.append(1)
        return before(data, device)

    monkeypatch.setattr(executable, "_put", put)
    f = tj.jit(lambda x: x + 1.0)
    for _ in range(5):
        f(np.arange(3.0))
    # The first call is compiled, the second is the first that the dispatcher sees.
    assert len(asked) == (2 if way == "dispatcher" else 5)


@pytest.mark.parametrize("size", [4, 1000, 100_000])
def test_arguments_may_be_written_to_after_the_call(size: int, way: str) -> None:
    """Even if the program still runs. (jax 0.10 then returns what was written.)"""

    def f(x: Any, w: tj.Array) -> Any:
        for _ in range(3):
            w = tnp.tanh(w @ w)
        return x + w[0, 0] * 0.0

    g = tj.jit(f)
    x, w = aligned(size), tnp.ones((600, 600)) / 600.0
    for i in range(4):
        x[:] = i
        out = g(x, w)
        x[:] = -1.0
        np.testing.assert_array_equal(np.asarray(out), np.full(size, float(i)))


def test_mixed_arguments(way: str) -> None:
    """Arrays of the host and of the device, numbers, and what a function closes over."""
    captured = tnp.arange(3.0)
    f = tj.jit(lambda x, y, *, z: {"sum": x["a"] + y * z + captured, "x": x})
    x = {"a": np.arange(3.0), "b": [tj.device_put(tnp.ones(())), 2.0]}
    for i in range(4):
        out = f(x, np.float32(i), z=i)
        np.testing.assert_array_equal(np.asarray(out["sum"]), np.arange(3.0) * 2 + i * i)
        np.testing.assert_array_equal(np.asarray(out["x"]["b"][0]), 1.0)
        assert out["x"]["b"][1].aval.weak_type


def test_a_deleted_argument_among_those_of_the_host(way: str) -> None:
    f = tj.jit(lambda x, y: x + y)
    x = tj.device_put(tnp.arange(3.0))
    f(x, np.ones(3)), f(x, np.ones(3))
    x.delete()
    with pytest.raises(DeletedBufferError, match=re.escape("argument 0 of '<lambda>'")):
        f(x, np.ones(3))
    np.testing.assert_array_equal(np.asarray(f(np.ones(3), np.ones(3))), np.full(3, 2.0))


def test_errors_are_the_same_the_second_time() -> None:
    f = tj.jit(lambda x: x + 1.0)
    f(np.ones(3)), f(np.ones(3))
    for _ in range(2):
        with pytest.raises(InputError, match="masked arrays are not supported"):
            f(np.ma.masked_array([1.0, 2.0, 3.0], [True, False, False]))
        with pytest.raises(InputError, match="dtype"):
            f(np.array(["a", "b", "c"]))


def test_donated_arguments_of_the_host(way: str) -> None:
    """They are put on the device by themselves, and what is donated is that."""
    f = tj.jit(lambda x, y: x + y, donate_argnums=0)
    x = np.ones(3)
    for _ in range(3):
        np.testing.assert_array_equal(np.asarray(f(x, np.ones(3))), np.full(3, 2.0))
    np.testing.assert_array_equal(x, np.ones(3))


def test_callbacks_with_arguments_of_the_host(way: str) -> None:
    seen: list[float] = []
    f = tj.jit(lambda x: tj.debug.callback(lambda x: seen.append(float(x)), tnp.sum(x)))
    for i in range(4):
        f(np.full(2, float(i)))
    assert seen == [0.0, 2.0, 4.0, 6.0]


def test_threads(way: str) -> None:
    f = tj.jit(lambda x: x * 2.0)

    def run(i: int) -> float:
        return float(np.asarray(f(np.full(3, float(i))))[0])

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(run, range(200))) == [2.0 * i for i in range(200)]


def test_jax_with_other_private_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """What jax doesn't promise may change: then the plain way is all there is."""

    def plain(args: Any) -> list[Any]:
        return list(args)

    def refuse(*args: Argument) -> None:
        raise TypeError("pjit takes other arguments")

    device = jax.local_devices()[0]
    loaded = tj.backend.execute.compile(tj.make_jaxpr(lambda x: x)(1.0).jaxpr, "f").executable._loaded
    made = dispatcher.dispatcher(loaded, device, 1, [], True, plain)
    assert made is not plain
    monkeypatch.setattr(_jax, "pjit", refuse)
    assert dispatcher.dispatcher(loaded, device, 1, [], True, plain) is plain
