"""Several processes that work together: the names of `jax.distributed`."""

from __future__ import annotations

from collections.abc import Sequence

from tinyjax.backend.processes import setup
from tinyjax.backend.processes.group import Timeouts
from tinyjax.tracebacks import filtered

__all__ = ["initialize", "is_initialized", "shutdown"]


@filtered
def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    local_device_ids: int | Sequence[int] | None = None,
    cluster_detection_method: str | None = None,
    initialization_timeout: float = 300,
    heartbeat_timeout_seconds: float = 100,
    shutdown_timeout_seconds: float = 300,
    coordinator_bind_address: str | None = None,
    launch_timeout_seconds: float = 300,
) -> None:
    """Brings processes together: from then on `devices()` are those of all of them. Each process calls it, before it
    does anything on devices.

    Programs whose devices belong to several processes run on all of them, so each of these must launch the same ones
    in the same order. That is checked before each launch: if they differ, all of them raise an error that says in what.

    Args:
      coordinator_address: the address of process 0, and a port that is free there: "127.0.0.1:8476". It listens at this
        address only, so processes of one computer are reached by nobody else.
      num_processes: how many processes there are.
      process_id: which of them this is, from 0 on. What isn't given is found out from Slurm or Open MPI, as in JAX.
      local_device_ids: the GPUs of this process; None for all of this computer.
      cluster_detection_method: how JAX finds out what isn't given; "deactivate" if it shouldn't.
      initialization_timeout: how many seconds it may take until all processes have come; at least 6.
      heartbeat_timeout_seconds: a process of which nothing is heard for so many seconds is taken for dead. One that is
        killed is missed at once, as its connections end.
      shutdown_timeout_seconds: how many seconds a process that has ended waits for the others to end.
      coordinator_bind_address: the address where the coordinator listens, if that is another one than the others know.
      launch_timeout_seconds: how many seconds a process waits for the others to come to the same launch.

    Raises:
      DistributedError: not all processes came in time, or this process has used devices before.
      InputError: something isn't given, and can't be found out.

    >>> import socket
    >>> with socket.create_server(("127.0.0.1", 0)) as free:
    ...     address = f"127.0.0.1:{free.getsockname()[1]}"
    >>> initialize(address, num_processes=1, process_id=0)  # doctest: +SKIP
    """
    timeouts = Timeouts(
        initialization_timeout, heartbeat_timeout_seconds, launch_timeout_seconds, shutdown_timeout_seconds
    )
    setup.initialize(
        coordinator_address,
        num_processes,
        process_id,
        local_device_ids,
        cluster_detection_method,
        timeouts,
        coordinator_bind_address,
    )


@filtered
def shutdown() -> None:
    """Waits until all processes have called it, and ends their connections. At the end of a process it is called by
    itself, so that none ends while others need it.

    Raises:
      DistributedError: a process is gone, or doesn't call it.

    >>> shutdown()  # nothing to do where processes don't work together
    """
    setup.shutdown()


@filtered
def is_initialized() -> bool:
    """Whether this process works together with others.

    >>> is_initialized()
    False
    """
    return setup.is_initialized()
