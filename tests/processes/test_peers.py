"""Connections between processes, within one: what could happen between two lines of it."""

from __future__ import annotations

import socket
import time
from threading import Event, Thread

import pytest
from typing_extensions import override

from tinyjax.backend.processes import peers
from tinyjax.errors import DistributedError


def test_a_failure_is_told_though_it_is_noticed_as_the_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, names = Event(), list[str]()

    class Slow(Thread):
        @override
        def start(self) -> None:
            if self.name != "tinyjax peers":
                seen.set()
                time.sleep(0.3)
            super().start()
            names.append(self.name)

    monkeypatch.setattr(peers, "Thread", Slow)
    here, there = socket.socketpair()
    other, watched = socket.socketpair()
    with here, there, other, watched:
        group = peers.Peers(0, {1: here, 2: other}, 10.0)
        there.close()  # process 1 is gone
        assert seen.wait(5.0)
        group.close()  # while the thread that says so isn't started
        assert len(names) == 2
        told = b""
        watched.settimeout(5.0)
        while chunk := watched.recv(4096):
            told += chunk
        assert b"process 1 is gone" in told
        with pytest.raises(DistributedError, match="the work: process 1 is gone"):
            group.check("the work")
