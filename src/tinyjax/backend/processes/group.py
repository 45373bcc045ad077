"""The processes that work together, from the first to the last thing they do. Imports jax at first need."""

from __future__ import annotations

import ctypes
import os
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import RLock, Thread
from typing import TYPE_CHECKING, Final, TypeVar, final

from attrs import frozen

from tinyjax.backend.processes.launching import Launcher
from tinyjax.backend.processes.peers import TOKEN_BYTES, Meeting, Peers
from tinyjax.backend.processes.relay import Relay
from tinyjax.errors import ChoiceError, DistributedError

if TYPE_CHECKING:
    from jaxlib import _jax

T = TypeVar("T")

#: For jaxlib's own heartbeats, which abort the process when they are missed: ours end it with an error.
_NEVER: Final = 10**8
#: How many seconds jaxlib tries to connect after the time is over.
_MORE: Final = 5
_KEY: Final = "tinyjax/processes"


@final
@frozen
class Timeouts:
    """How long, in seconds, what may take."""

    #: For all processes to come together.
    initialization: float
    #: A process that says nothing for so long is taken for dead.
    heartbeat: float
    #: For all processes to come to a launch.
    launch: float
    #: For all processes to shut down.
    shutdown: float


@final
class Group:
    """This process and those it works with."""

    def __init__(self, index: int, count: int, timeouts: Timeouts) -> None:
        self.index: int = index
        self.count: int = count
        self.timeouts: Timeouts = timeouts
        #: How many launches there have been, by the processes that take part.
        self.launches: dict[tuple[int, ...], int] = {}
        #: How many arrays were compared, likewise.
        self.checks: dict[tuple[int, ...], int] = {}
        #: Held while processes launch together.
        self.launching: RLock = RLock()
        self._service: _jax.DistributedRuntimeService | None = None
        self._client: _jax.DistributedRuntimeClient | None = None
        self._relay: Relay | None = None
        self._peers: Peers | None = None
        self._launcher: Launcher | None = None
        self._host = ""
        self._gathers = 0
        #: Whether processes can work together: from the start until the shutdown.
        self.is_open: bool = False

    @property
    def peers(self) -> Peers:
        """The other processes; a DistributedError if this one has been shut down."""
        if self._peers is None or not self.is_open:
            raise DistributedError("tinyjax.distributed has been shut down: processes can't work together any more")
        return self._peers

    def start(self, address: str, bind: str, local_devices: Sequence[int] | None) -> None:
        """Brings the processes together; a DistributedError if one doesn't come in time."""
        try:
            self._meet(address, bind)
            self._make_devices(address, local_devices)
        except BaseException as error:
            if self._peers is not None and isinstance(error, Exception):
                self._peers.fail(f"process {self.index} could not initialize tinyjax.distributed: {error}")
            self.close()
            raise
        self.is_open = True

    def _meet(self, address: str, bind: str) -> None:
        from jaxlib import _jax

        host, port = split_address(address)
        seconds = self.timeouts.initialization
        if self.index == 0:
            try:
                self._service = _jax.get_distributed_runtime_service(
                    bind,
                    self.count,
                    heartbeat_timeout=_NEVER,
                    cluster_register_timeout=max(int(seconds), 1),
                    shutdown_timeout=1,
                )
            except RuntimeError as error:
                raise DistributedError(f"no coordinator could be started at {bind}: {error}") from error
            # For ever: when it is shut down, it makes jaxlib's clients that haven't been abort their processes.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._service))
        else:
            self._relay = Relay(host, port)
        client = _jax.get_distributed_runtime_client(
            address if self._relay is None else self._relay.address,
            self.index,
            init_timeout=max(int(seconds) - _MORE, 1),  # jaxlib adds that
            heartbeat_timeout=_NEVER,
            shutdown_on_destruction=False,
            use_compression=True,
            # Can't be called with what jaxlib has for it: that is an error here, instead of the end of the process.
            missed_heartbeat_callback=lambda status: None,
        )
        self._client = client
        try:
            within(client.connect, seconds + 2 * _MORE)
        except (RuntimeError, TimeoutError):  # which say no more
            raise DistributedError(
                f"not all of the {self.count} processes came to the coordinator at {address} within {seconds:g} s: "
                f"this is process {self.index}. Start all of them, each with its own process_id, or allow them more "
                "time by initialization_timeout."
            ) from None
        self._host = _own_address(host, port) if self.index else _coordinator_host(host, bind)
        meeting = Meeting(self.index, self._host)
        try:
            milliseconds = int(seconds * 1000)
            if self.index == 0:
                client.key_value_set(f"{_KEY}/token", os.urandom(TOKEN_BYTES).hex())
            client.key_value_set(f"{_KEY}/address/{self.index}", meeting.address)
            token = bytes.fromhex(client.blocking_key_value_get(f"{_KEY}/token", milliseconds))
            addresses = {
                other: client.blocking_key_value_get(f"{_KEY}/address/{other}", milliseconds)
                for other in range(self.count)
            }
            found = meeting.connect(addresses, token, seconds)
        except (RuntimeError, OSError) as error:
            raise DistributedError(
                f"process {self.index} could not connect to the others within {seconds:g} s: {error}"
            ) from error
        finally:
            meeting.close()
        self._peers = Peers(self.index, found, self.timeouts.heartbeat)
        self._launcher = Launcher(self._peers)

    def _make_devices(self, address: str, local_devices: Sequence[int] | None) -> None:
        """Makes jax know the devices of all processes."""
        import jax
        from jax._src import config, distributed, xla_bridge
        from jaxlib import _jax

        state = distributed.global_state
        state.client = self._client
        state.process_id = self.index
        state.num_processes = self.count
        state.coordinator_address = address
        if local_devices is not None:
            visible = ",".join(map(str, local_devices))
            jax.config.update("jax_cuda_visible_devices", visible)
            jax.config.update("jax_rocm_visible_devices", visible)
        own, client = self._host, self._client
        if client is not None and config.cpu_collectives_implementation.value == "gloo":
            # jaxlib would listen at whatever address this computer's name has.
            xla_bridge.register_backend_factory(
                "cpu",
                lambda: xla_bridge.make_cpu_client(_jax.make_gloo_tcp_collectives(client, hostname=own)),
                priority=0,
                fail_quietly=False,
            )
        self._run(jax.devices, "finding the devices of all processes", self.timeouts.initialization)

    def _run(self, work: Callable[[], T], what: str, timeout: float | None = None) -> T:
        if self._launcher is None:
            raise DistributedError(f"{what} isn't possible: tinyjax.distributed isn't initialized")
        return self._launcher.run(work, what, timeout)

    def run(self, work: Callable[[], T], what: str) -> T:
        """What `work`, in which processes wait for each other, returns or raises; a DistributedError if one is gone."""
        self.peers.check(what)
        return self._run(work, what)

    def gather(self, content: bytes, what: str, timeout: float | None = None) -> list[bytes]:
        """What all processes say, in order, once they have come to the same place; the errors of `Peers.exchange`."""
        with self.launching:
            self._gathers += 1
            key = b"gather" + self._gathers.to_bytes(8, "little")
            found = self.peers.exchange(key, content, range(self.count), timeout, what)
        return [found.get(process, content) for process in range(self.count)]

    def wait(self, is_ready: Callable[[], bool], what: str) -> None:
        """Waits for what processes compute together, but not for one that is gone: that is a DistributedError."""
        pause = 1e-5
        while not is_ready():
            self.peers.check(what)
            time.sleep(pause)
            pause = min(2 * pause, 1e-3)

    def shutdown(self) -> None:
        """Waits until all processes shut down, and ends their connections; a DistributedError if one is gone."""
        if not self.is_open:
            return
        try:
            self.peers.check("shutdown")
            self.peers.end(f"after {sum(self.launches.values())} launches", self.timeouts.shutdown)
        finally:
            self.close()

    def give_up(self, reason: str) -> None:
        """Ends the work of all processes together."""
        if self.is_open:
            self.peers.fail(reason)
            self.close()

    def close(self) -> None:
        """Ends all connections; jaxlib's first, or it would take that for a failure."""
        self.is_open = False
        if self._peers is not None:
            self._peers.close()
        if self._client is not None:
            with suppress(RuntimeError):
                self._client.shutdown()
        if self._relay is not None:
            self._relay.close()

    def is_stuck(self, timeout: float) -> bool:
        """Whether a launch, of which nobody awaits the end any more, still hasn't ended after so many seconds."""
        return self._launcher is not None and not self._launcher.is_idle(timeout)

    def abandon(self) -> None:
        """In a forked process: leaves the connections to the other."""
        if self._peers is not None:
            self._peers.abandon()


def within(work: Callable[[], None], seconds: float) -> None:
    """Does something that may take for ever; a TimeoutError if it takes longer than that."""
    errors: list[Exception] = []

    def do() -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 (raised below)
            errors.append(error)

    thread = Thread(target=do, name="tinyjax connects", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise TimeoutError
    if errors:
        raise errors[0]


def split_address(address: str) -> tuple[str, int]:
    """The host and the port of an address; a ChoiceError if it isn't one."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise ChoiceError(f"an address is a host and a port, like '127.0.0.1:8476', not {address!r}")
    return host.strip("[]"), int(port)


def _own_address(host: str, port: int) -> str:
    """The address of this computer from which that host is reached."""
    family, kind, protocol, _, to = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(to)  # sends nothing
        own: str = probe.getsockname()[0]
    return own


def _coordinator_host(host: str, bind: str) -> str:
    """The address of the coordinator's computer at which it listens."""
    bound, _ = split_address(bind)
    chosen = host if bound in ("0.0.0.0", "::", "") else bound
    return str(socket.getaddrinfo(chosen, None)[0][4][0])
