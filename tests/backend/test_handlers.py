"""What a handler of a signal raises while a program is launched or waited for arrives as it is."""

from __future__ import annotations

import linecache
import os
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
from tinyjax.backend import handlers
from tinyjax.errors import TinyjaxError, XlaError

BACKEND = os.path.dirname(handlers.__file__) + os.sep
#: Functions of the backend in which a signal may come.
WITHIN = {"launch", "_launch", "_execute", "_run_and_wait", "put_array", "_put_shards", "put_host", "place", "load"}
WITHIN |= {"block_until_ready", "wait_for", "is_computed", "elements", "compile_or_read", "compile_text", "__array__"}


class Signalling:
    """Sends a signal at a line of these functions, of which it counts all."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.count = 0

    def __call__(self, frame: FrameType, event: str, _: object) -> Signalling | None:
        code = frame.f_code
        if not code.co_filename.startswith(BACKEND) or code.co_name not in WITHIN:
            return None
        line = linecache.getline(code.co_filename, frame.f_lineno)
        if event == "line" and not line.lstrip().startswith("with "):  # leaving a block, which no handler interrupts
            self.count += 1
            if self.count == self.at:
                sys.settrace(None)
                os.kill(os.getpid(), signal.SIGUSR1)
        return self


@pytest.fixture(params=[RuntimeError, ValueError])
def error(request: pytest.FixtureRequest) -> Iterator[type[Exception]]:
    kind: type[Exception] = request.param

    def handler(number: int, frame: FrameType | None) -> None:
        raise kind("the user's own")

    before = signal.signal(signal.SIGUSR1, handler)
    yield kind
    signal.signal(signal.SIGUSR1, before)


PLACES: dict[str, Callable[[], Any]] = {
    "mesh": lambda: tj.NamedSharding(tj.make_mesh((4, 2), ("x", "y")), tj.P("x")),
    "first device": lambda: tj.devices()[0],
    "another device": lambda: tj.devices()[3],
}


def _run(place: object) -> Any:
    x = tj.device_put(np.arange(8.0), place)
    return np.asarray(tj.jit(lambda x: x * 1.0)(x).block_until_ready())


def _raised(tracer: Signalling, place: object) -> Exception | None:
    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        _run(place)
    except Exception as error:  # noqa: BLE001 (it is looked at)
        return error
    finally:
        sys.settrace(before)
    return None


@pytest.mark.parametrize("name", PLACES)
def test_errors_of_handlers_arrive_as_they_are(name: str, error: type[Exception]) -> None:
    place, points = PLACES[name](), 0
    _run(place)
    while True:
        tj.clear_caches()
        tracer = Signalling(points + 1)
        found = _raised(tracer, place)
        if tracer.count <= points:  # there are no more lines
            break
        points += 1
        assert type(found) is error, points
        assert str(found) == "the user's own", points
    assert points > 10
    np.testing.assert_array_equal(_run(place), np.arange(8.0))


def test_what_xla_refuses_is_none_of_them() -> None:
    x = tj.device_put(np.arange(8.0), tj.NamedSharding(tj.make_mesh((8,), ("x",)), tj.P("x")))

    def fails(x: Any) -> Any:
        raise ValueError("in a callback")

    f = tj.jit(lambda x: tj.pure_callback(fails, tj.ShapedArray((8,), "f64"), x))
    for given in (x, np.arange(8.0)):
        with pytest.raises(TinyjaxError, match="in a callback"):
            f(given).block_until_ready()
    with pytest.raises(XlaError):
        tj.jit(lambda x: x, compiler_options={"xla_no_such_option": True})(x)
