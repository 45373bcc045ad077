"""Chains of operations that NumPy answers with views: nothing they give changes when the user writes to an array.

`test_aliasing.py` tries every function by itself. Here are results of results, within transformations, and of arrays as
long and as aligned as those that a device takes over without a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.test_aliasing import check_results_stay, floats, write_to
from tinyjax import Array, ArrayLike, lax
from tinyjax.ir.dtypes import HostArray

Step = Callable[[Array], Array]


def aligned(*shape: int) -> HostArray:
    """An array whose elements start where XLA likes them to."""
    size = int(np.prod(shape))
    room = np.zeros(size + 8)
    start = -(room.ctypes.data // 8) % 8
    found: HostArray = room[start : start + size].reshape(shape)
    found[...] = floats(*shape)
    return found


def returned(x: ArrayLike) -> Array:
    return tnp.asarray(x)


#: What takes an array in.
ENTRIES: Final[dict[str, Callable[[HostArray], Array]]] = {
    "asarray": tnp.asarray,
    "frozen, of a view": lambda x: tnp.asarray(np.broadcast_to(x, x.shape)),
    "astype": lambda x: tnp.astype(tnp.asarray(x), np.float64, copy=False),
    "device_put": lambda x: tnp.asarray(tj.device_put(x)),
    "jit": tj.jit(returned),
    "jit of a transposition": lambda x: tj.jit(lambda y: y.T)(x.T),
    "a part": lambda x: tnp.stack([x, x])[1],
}
#: What NumPy makes views for, or returns as it is. Each takes a square and gives one.
STEPS: Final[dict[str, Step]] = {
    "[...]": lambda x: x[...],
    "[:]": lambda x: x[:],
    "[::-1]": lambda x: x[::-1],
    "[None][0]": lambda x: x[None][0],
    "T": lambda x: x.T,
    "transpose": lambda x: tnp.permute_dims(x, (1, 0)),
    "swapped twice": lambda x: tnp.swapaxes(tnp.moveaxis(x, 0, 1), 0, 1),
    "reshape": lambda x: tnp.reshape(tnp.reshape(x, -1), x.shape),
    "ravel": lambda x: x.ravel().reshape(x.shape),
    "squeeze": lambda x: tnp.squeeze(tnp.expand_dims(x, axis=1), axis=1),
    "broadcast_to": lambda x: tnp.broadcast_to(x, x.shape),
    "broadcast of a row": lambda x: tnp.broadcast_to(x[0], x.shape),
    "broadcast_arrays": lambda x: tnp.broadcast_arrays(x, x[0])[1],
    "real": tnp.real,
    "imag of": lambda x: tnp.imag(x * 1j),
    "positive": tnp.positive,
    "conj": tnp.conj,
    "flip": lambda x: tnp.flip(tnp.flip(x)),
    "slice": lambda x: lax.slice(x, (0, 0), x.shape),
    "dynamic_slice": lambda x: lax.dynamic_slice(x, (0, 0), x.shape),
    "at.set of nothing": lambda x: x.at[:0].set(1.0),
    "at.set of itself": lambda x: tnp.zeros(x.shape).at[:].set(x),
    "at.get": lambda x: x.at[:].get(),
    "concatenate": lambda x: tnp.concatenate([x]),
    "split": lambda x: lax.split(x, (x.shape[0],))[0],
    "take": lambda x: tnp.take(x, tnp.arange(x.shape[0]), axis=0),
    "pad by nothing": lambda x: tnp.pad(x, 0),
    "reduced over no axes": lambda x: tnp.sum(x, axis=()),
    "clip to nothing": tnp.clip,
    "where": lambda x: tnp.where(True, x, x),
    "astype": lambda x: x.astype(x.dtype),
    "bitcast": lambda x: lax.bitcast_convert_type(x, np.float64),
    "barrier": lax.optimization_barrier,
    "scan": lambda x: lax.scan(lambda c, row: (c, row), x, x)[0],
    "scanned rows": lambda x: lax.scan(lambda c, row: (c, row), 0.0, x)[1],
    "cond": lambda x: lax.cond(x.sum() > -1e9, lambda y: y, lambda y: y, x),
    "fori_loop": lambda x: lax.fori_loop(0, 1, lambda i, y: y, x),
    "jit": tj.jit(lambda x: x),
    "vmap": tj.vmap(lambda row: row),
}
#: Transformations that run Python's functions on the host, without `jit`.
AROUND: Final[dict[str, Callable[[Step], Callable[[HostArray], object]]]] = {
    "vmap": lambda f: lambda x: tj.vmap(f)(tnp.asarray(x)[None]),
    "vmap over the last axis": lambda f: tj.vmap(lambda row: f(tnp.broadcast_to(row, (3, 3))), in_axes=1, out_axes=1),
    "jvp": lambda f: lambda x: tj.jvp(f, (x,), (x,)),
    "vjp": lambda f: lambda x: pulled(f, x),
    "linearize": lambda f: lambda x: tj.linearize(f, x)[1](x),
    "jvp of vmap": lambda f: lambda x: tj.jvp(tj.vmap(f), (x[None],), (x[None],)),
    "checkpoint": lambda f: tj.checkpoint(lambda x: f(tnp.asarray(x))),
    "closed over": lambda f: lambda x: tj.vmap(lambda y: (y, f(tnp.asarray(x))))(np.ones(2)),
}


def pulled(f: Step, x: HostArray) -> tuple[object, object]:
    out, pull = tj.vjp(f, x)
    return out, pull(np.asarray(x))


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_results_of_results(step: Step) -> None:
    for number, entry in enumerate(ENTRIES.values()):

        def once(x: HostArray, entry: Callable[[HostArray], Array] = entry) -> list[Array]:
            first = entry(x)
            second = step(first)
            return [first, second, step(second), second.T]

        assert check_results_stay(once, lambda: (floats(3, 3),), number % 3)


@pytest.mark.parametrize("first", STEPS.values(), ids=STEPS)
def test_chains(first: Step) -> None:
    def chained(x: HostArray) -> list[Array]:
        given = first(tnp.asarray(x))
        return [then(given) for then in STEPS.values()]

    assert check_results_stay(chained, lambda: (floats(3, 3),), 2)


@pytest.mark.parametrize("around", AROUND.values(), ids=AROUND)
def test_within_transformations(around: Callable[[Step], Callable[[HostArray], object]]) -> None:
    for number, step in enumerate(STEPS.values()):
        assert check_results_stay(around(step), lambda: (floats(3, 3),), number % 3)


@pytest.mark.parametrize("size", [1, 8, 300])
def test_aligned_arrays_of_any_length(size: int) -> None:
    """XLA may read them where they are, or return them."""
    calls: list[Callable[[HostArray], object]] = [*ENTRIES.values(), tj.jit(lambda x: (x, x * 1.0, x[::-1]))]
    for call in calls:
        assert check_results_stay(call, lambda: (aligned(size, size),), 1)


#: Its stub asks for a signature that is older than the protocol.
from_dlpack: Final[Callable[[object], HostArray]] = cast("Callable[[object], HostArray]", np.from_dlpack)


def ways_out(x: Array) -> dict[str, object]:
    """Each way of getting at the elements of an array."""
    return {
        "asarray": np.asarray(x),
        "array": np.array(x, copy=None),
        "__array__": x.__array__(),
        "from_dlpack": from_dlpack(x),
        "device_get": tj.device_get(x),
        "of a part": np.asarray(x[:0]) if x.shape else np.asarray(x[()]),
        "view": np.asarray(x).view(f"i{x.dtype.itemsize}"),
        "base": np.asarray(x).base,
    }


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_nobody_gets_elements_to_write_to(entry: Callable[[HostArray], Array]) -> None:
    taken = entry(floats(3, 3))
    # The first time the long way, then what has been prepared.
    results = [taken, tnp.asarray(floats(3, 3), dtype=np.float32)]
    for _ in range(3):
        results += [tnp.sin(taken), taken + 1.0, taken.T, taken // 2.0, taken.sum()]
    for x, way, out in ((each, *pair) for each in results for pair in ways_out(each).items()):
        before = np.array(x)
        if not isinstance(out, np.ndarray):
            continue
        if out.flags.writeable:
            assert not np.shares_memory(out, np.asarray(x)), way
            write_to(out)
        else:
            with pytest.raises(ValueError, match="read-only"):
                out[...] = 0
        np.testing.assert_array_equal(np.asarray(x), before)


def test_copies_are_the_users() -> None:
    """What is asked for as a copy can be written to, and is nobody else's."""
    for entry in ENTRIES.values():
        x = entry(floats(3, 3))
        before = np.array(x)
        for mine in (np.array(x), x.__array__(copy=True), np.asarray(x, copy=True)):
            write_to(mine)
            np.testing.assert_array_equal(np.asarray(x), before)


@pytest.mark.parametrize("way", ["eager", "jit", "vmap", "jit of vmap"])
def test_callbacks(way: str) -> None:
    """Neither does a callback get what it could change, nor do results change when it changes what it returned."""
    seen: list[HostArray] = []
    kept: list[HostArray] = []

    def keep(x: HostArray) -> tuple[HostArray, HostArray, HostArray]:
        mine = np.array(x)
        view = mine.view()
        view.flags.writeable = False
        seen.append(x)
        kept.append(mine)
        return mine, view, x

    def call(x: ArrayLike) -> Any:
        return tj.pure_callback(keep, (tj.ShapedArray((3,), "float64"),) * 3, x, vmap_method="sequential")

    given = tnp.asarray(floats(3) if "vmap" not in way else floats(3)[None])
    functions: dict[str, Callable[[ArrayLike], Any]] = {
        "eager": call,
        "jit": tj.jit(call),
        "vmap": tj.vmap(call),
        "jit of vmap": tj.jit(tj.vmap(call)),
    }
    results = functions[way](given)
    assert not any(x.flags.writeable for x in seen)
    for mine in kept:
        write_to(mine)
    for result in (given, *results):
        np.testing.assert_array_equal(np.asarray(result).reshape(3), floats(3))


class FromBefore:
    """What `from_dlpack` takes, from before DLPack could say that elements are not to be written to."""

    def __init__(self, array: Array) -> None:
        self._array = array

    def __dlpack__(self, **_: object) -> object:
        return self._array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)
def test_consumers_that_know_nothing_of_frozen_elements(entry: Callable[[HostArray], Array]) -> None:
    x = entry(floats(3, 3))
    taken = from_dlpack(FromBefore(x))
    np.testing.assert_array_equal(taken, floats(3, 3))
