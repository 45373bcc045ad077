"""Work that may wait for other processes, done so that the wait ends when one of them is gone."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Event, Thread
from typing import Final, TypeVar, final

from tinyjax.backend.processes.peers import Peers
from tinyjax.errors import DistributedError

T = TypeVar("T")

#: How long to wait, after a launch has failed, for the news that a process is gone.
_GRACE: Final = 5.0


@final
class Launcher:
    """A thread that does what may wait for other processes. Who asks for it can stop waiting; the thread can't."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._work: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._idle = Event()
        self._idle.set()
        Thread(target=self._serve, name="tinyjax launches", daemon=True).start()

    def is_idle(self, timeout: float) -> bool:
        """Whether nothing is being done any more, after so many seconds."""
        return self._idle.wait(timeout)

    def _serve(self) -> None:
        while True:
            work = self._work.get()
            self._idle.clear()
            work()
            self._idle.set()
            with self._peers.changed:
                self._peers.changed.notify_all()

    def run(self, work: Callable[[], T], what: str, timeout: float | None = None) -> T:
        """What `work` returns, or the error that it raises; a DistributedError if a process is gone before it does, or
        after `timeout` seconds. `what` is what is done."""
        results: list[T] = []
        errors: list[BaseException] = []

        def do() -> None:
            try:
                results.append(work())
            except BaseException as error:  # noqa: BLE001 (raised by who waits)
                errors.append(error)

        self._work.put(do)
        done = self._peers.wait(lambda: True if results or errors else None, timeout, what)
        if done is None:
            self._peers.fail(f"{what} took longer than {timeout:g} s in process {self._peers.index}")
            self._peers.check(what)
        if not errors:
            return results[0]
        (error,) = errors
        # That a process is gone may be known by this before it is known by the connection to it.
        try:
            self._peers.wait(lambda: None, _GRACE, what)
        except DistributedError as gone:
            raise gone from error
        self._peers.fail(f"{what} failed in process {self._peers.index}: {error}")
        raise error
