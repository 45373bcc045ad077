"""The connections of a process to the others it works with: short messages, and the news that one of them is gone.

What processes say to each other is said under a key, by all, and everyone waits for what the others say: an exchange.
If a process ends, is killed, or says nothing for too long, all exchanges are errors, in all processes, now and later.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from selectors import EVENT_READ, DefaultSelector
from threading import Condition, Lock, Thread
from typing import Final, TypeVar, final

from tinyjax.errors import DistributedError

T = TypeVar("T")

#: A message: its kind, the length of its key, and that of the rest.
_HEAD: Final = struct.Struct("<BIQ")
_ALIVE, _SAYS, _ENDED, _FAILED = range(4)
#: Longer messages are none of ours.
_LONGEST: Final = 1 << 30
#: How many bytes of a token that says that a connection comes from one of the processes.
TOKEN_BYTES: Final = 16
_HELLO: Final = struct.Struct(f"<{TOKEN_BYTES}sI")
#: Says what to do once a process is gone.
NO_MORE: Final = "This group of processes can't be used any more: start all of them again"


@final
class _Peer:
    """One of the other processes."""

    __slots__ = ("end", "heard", "inbox", "index", "sending", "socket")

    def __init__(self, index: int, connection: socket.socket) -> None:
        self.index = index
        self.socket = connection
        self.sending = Lock()
        self.inbox = bytearray()
        #: When something was heard of it.
        self.heard = time.monotonic()
        #: What it said when it ended.
        self.end: str | None = None


@final
class Peers:
    """The other processes, each with a connection of its own."""

    def __init__(self, index: int, connections: Mapping[int, socket.socket], heartbeat_timeout: float) -> None:
        self.index = index
        self._timeout = heartbeat_timeout
        self._peers = {peer: _Peer(peer, connection) for peer, connection in connections.items()}
        self._said: dict[tuple[int, bytes], bytes] = {}
        #: Notified whenever something may have changed that is waited for.
        self.changed: Condition = Condition()
        #: Why the processes don't work together any more.
        self.failure: str | None = None
        #: Whether that has been an error here.
        self.reported: bool = False
        self._closed = False
        self._telling: Thread | None = None
        for peer in self._peers.values():
            peer.socket.settimeout(heartbeat_timeout)
        self._interval = min(heartbeat_timeout / 5, 5.0)
        Thread(target=self._listen, name="tinyjax peers", daemon=True).start()

    def check(self, what: str) -> None:
        """A DistributedError if the processes don't work together any more. `what` was to be done."""
        if self.failure is not None:
            self.reported = True
            where = "" if what in self.failure else f"{what}: "
            raise DistributedError(f"{where}{self.failure}. {NO_MORE}.")

    def exchange(
        self, key: bytes, content: bytes, among: Collection[int], timeout: float | None, what: str
    ) -> dict[int, bytes]:
        """What each of the others says under the same key; to each of them, this process says `content`.

        A DistributedError, in all processes, if one of them is gone, or hasn't said it after `timeout` seconds. `what`
        is to be done once all have said it.
        """
        self.check(what)
        self._send_all(_SAYS, key, content, among)
        others = [peer for peer in among if peer != self.index]

        def said() -> dict[int, bytes] | None:
            missing = [peer for peer in others if (peer, key) not in self._said]
            if not missing:
                return {peer: self._said.pop((peer, key)) for peer in others}
            for peer in missing:
                end = self._peers[peer].end
                if end is not None and self.failure is None:
                    self._fail(f"process {peer} has ended {end}, but process {self.index} has come to {what}")
            return None

        found = self.wait(said, timeout, what)
        if found is None:
            with self.changed:
                late = [peer for peer in others if (peer, key) not in self._said]
            self.fail(f"{_processes(late)} did not come within {timeout:g} s to where process {self.index} was, {what}")
            self.check(what)
            raise AssertionError
        return found

    def wait(self, found: Callable[[], T | None], timeout: float | None, what: str) -> T | None:
        """What `found` returns, as soon as it isn't None; None if that takes longer than `timeout` seconds. A
        DistributedError if a process is gone before."""
        until = None if timeout is None else time.monotonic() + timeout
        with self.changed:
            while True:
                result = found()
                if result is not None:
                    return result
                if self.failure is not None:
                    break
                left = 1.0 if until is None else until - time.monotonic()
                if left <= 0:
                    return None
                self.changed.wait(min(left, 1.0))
        self.check(what)
        raise AssertionError

    def fail(self, reason: str) -> None:
        """Ends the work of all processes together."""
        with self.changed:
            self._fail(reason)

    def _fail(self, reason: str) -> None:
        if self.failure is not None or self._closed:
            return
        self.failure = reason
        self.changed.notify_all()
        # Not here: to send may take time.
        self._telling = Thread(
            target=self._send_all, args=(_FAILED, b"", reason.encode(), list(self._peers)), daemon=True
        )
        self._telling.start()

    def end(self, how: str, timeout: float) -> None:
        """Says that this process has ended, and waits for the others to say so too; the errors of `exchange`."""
        self._send_all(_ENDED, b"", how.encode(), list(self._peers))

        def ended() -> bool | None:
            return True if all(peer.end is not None for peer in self._peers.values()) else None

        if self.wait(ended, timeout, "shutdown") is None:
            late = [peer.index for peer in self._peers.values() if peer.end is None]
            self.fail(f"{_processes(late)} did not shut down within {timeout:g} s after process {self.index}")
            self.check("shutdown")

    def close(self) -> None:
        """Ends all connections, once the others have been told of a failure."""
        with self.changed:  # a failure that is being noticed just now has all been noticed then
            self._closed = True
            telling = self._telling
            self.changed.notify_all()
        if telling is not None:
            telling.join(2.0)
        for peer in self._peers.values():
            with suppress(OSError):
                peer.socket.shutdown(socket.SHUT_RDWR)

    def abandon(self) -> None:
        """Closes the copies that a forked process has of the connections, which stay open."""
        for peer in self._peers.values():
            peer.socket.close()

    def _send_all(self, kind: int, key: bytes, content: bytes, among: Collection[int]) -> None:
        message = _HEAD.pack(kind, len(key), len(content)) + key + content
        for index in among:
            peer = self._peers.get(index)
            if peer is not None:
                # Who listens to it notices if it is gone.
                with suppress(OSError), peer.sending:
                    peer.socket.sendall(message)

    def _listen(self) -> None:
        """Hears what the others say, and whether they are there."""
        selector = DefaultSelector()
        for peer in self._peers.values():
            selector.register(peer.socket, EVENT_READ, peer)
        last = due = time.monotonic()
        while not self._closed:
            ready = selector.select(max(due - time.monotonic(), 0.0))
            for entry, _ in ready:
                if not self._hear(entry.data):
                    selector.unregister(entry.data.socket)
            now = time.monotonic()
            if now >= due:
                self._send_all(_ALIVE, b"", b"", [i for i, peer in self._peers.items() if peer.end is None])
                # If this thread itself was held up, what the others have said may not have been heard yet.
                if now - last < 2 * self._interval:
                    self._find_silent(now)
                last, due = now, now + self._interval
        selector.close()

    def _find_silent(self, now: float) -> None:
        for peer in self._peers.values():
            if peer.end is None and now - peer.heard > self._timeout:
                self.fail(f"nothing was heard of process {peer.index} for {self._timeout:g} s: it hangs, or is gone")

    def _hear(self, peer: _Peer) -> bool:
        """Takes what a process has sent. False if nothing will come any more."""
        try:
            chunk = peer.socket.recv(1 << 16)
        except OSError:
            chunk = b""
        if not chunk:
            if peer.end is None:
                self.fail(f"process {peer.index} is gone: its connection ended before it had shut down")
            return False
        peer.heard = time.monotonic()
        inbox = peer.inbox
        inbox += chunk
        while len(inbox) >= _HEAD.size:
            kind, key_size, size = _HEAD.unpack_from(inbox)
            whole = _HEAD.size + key_size + size
            if whole > _LONGEST:
                self.fail(f"process {peer.index} sent what is no message")
                return False
            if len(inbox) < whole:
                break
            key = bytes(inbox[_HEAD.size : _HEAD.size + key_size])
            content = bytes(inbox[_HEAD.size + key_size : whole])
            del inbox[:whole]
            self._take(peer, kind, key, content)
        return True

    def _take(self, peer: _Peer, kind: int, key: bytes, content: bytes) -> None:
        if kind == _ALIVE:
            return
        with self.changed:
            if kind == _SAYS:
                self._said[peer.index, key] = content
            elif kind == _ENDED:
                peer.end = content.decode()
            elif kind == _FAILED and self.failure is None:
                self.failure = content.decode()  # who says it has told all others
            self.changed.notify_all()


def _processes(indices: Collection[int]) -> str:
    named = ", ".join(map(str, sorted(indices)))
    return f"process {named}" if len(indices) == 1 else f"the processes {named}"


@final
class Meeting:
    """Where processes connect to each other: each listens, and connects to those before it."""

    def __init__(self, index: int, host: str) -> None:
        self.index = index
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family)
        #: Where the others find this process.
        self.address: str = f"{host}:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        """Lets nobody in any more."""
        self._listener.close()

    def connect(self, addresses: Mapping[int, str], token: bytes, timeout: float) -> dict[int, socket.socket]:
        """A connection to each of the other processes; a TimeoutError or another OSError if one can't be made."""
        until = time.monotonic() + timeout
        found: dict[int, socket.socket] = {}
        for peer in range(self.index):
            host, _, port = addresses[peer].rpartition(":")
            connection = socket.create_connection((host, int(port)), max(until - time.monotonic(), 0.1))
            connection.sendall(_HELLO.pack(token, self.index))
            found[peer] = connection
        awaited = {peer for peer in addresses if peer > self.index}
        while awaited:
            self._listener.settimeout(max(until - time.monotonic(), 0.1))
            connection, _ = self._listener.accept()
            connection.settimeout(5.0)
            with suppress(OSError):
                hello = b""
                while len(hello) < _HELLO.size and (chunk := connection.recv(_HELLO.size - len(hello))):
                    hello += chunk
                if len(hello) == _HELLO.size:
                    said, peer = _HELLO.unpack(hello)
                    if said == token and peer in awaited:
                        awaited.remove(peer)
                        found[peer] = connection
                        continue
            connection.close()  # a stranger
        for connection in found.values():
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return found
