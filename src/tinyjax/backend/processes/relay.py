"""What stands between jaxlib's client and the coordinator.

When its connection to the coordinator ends, jaxlib's client aborts the process. So it is connected to a relay in its
own process, which passes on what it hears, and says nothing when the coordinator is gone: those who notice are `Peers`,
whose failure is an error.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from threading import Thread
from typing import Final, final

#: How many bytes are passed on at once.
_CHUNK: Final = 1 << 16


@final
class Relay:
    """Passes on connections to a port of the loopback to another address, until it is closed."""

    def __init__(self, host: str, port: int) -> None:
        self._to = (host, port)
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: str = f"127.0.0.1:{self._listener.getsockname()[1]}"
        Thread(target=self._accept, name="tinyjax relay", daemon=True).start()

    def close(self) -> None:
        """Ends all connections."""
        for each in [self._listener, *self._open]:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:  # closed
                return
            try:
                far = socket.create_connection(self._to)
            except OSError:  # not there yet: jaxlib's client tries again
                near.close()
                continue
            self._open += [near, far]
            for each in (near, far):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            Thread(target=_pass_on, args=(near, far, True), name="tinyjax relay", daemon=True).start()
            Thread(target=_pass_on, args=(far, near, False), name="tinyjax relay", daemon=True).start()


def _pass_on(source: socket.socket, target: socket.socket, ends: bool) -> None:
    """Passes on what comes; and its end, if `ends`."""
    with suppress(OSError):
        while chunk := source.recv(_CHUNK):
            target.sendall(chunk)
        if ends:
            target.shutdown(socket.SHUT_WR)
