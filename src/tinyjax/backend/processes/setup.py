"""Bringing processes together, and taking leave: what `tinyjax.distributed` does. Imports jax at first need."""

from __future__ import annotations

import atexit
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Final

from tinyjax.backend.process import PROCESS, has_begun
from tinyjax.backend.processes.group import Group, Timeouts, split_address
from tinyjax.errors import DistributedError, InputError

#: How many seconds a process that ends waits for a launch that others haven't come to.
_PATIENCE: Final = 5.0


def initialize(
    coordinator_address: str | None,
    num_processes: int | None,
    process_id: int | None,
    local_device_ids: int | Sequence[int] | None,
    cluster_detection_method: str | None,
    timeouts: Timeouts,
    coordinator_bind_address: str | None,
) -> None:
    """Brings the processes together."""
    if PROCESS.group is not None:
        raise DistributedError("tinyjax.distributed.initialize can be called only once in a process")
    from jax._src import distributed

    if distributed.global_state.client is not None:
        raise DistributedError("jax.distributed is initialized in this process: use either that or tinyjax.distributed")
    if has_begun():
        raise DistributedError(
            "tinyjax.distributed.initialize must be called before anything is compiled or put on a device, and before "
            "the devices are asked for: call it first"
        )
    address = coordinator_address or os.environ.get("JAX_COORDINATOR_ADDRESS")
    devices = [local_device_ids] if isinstance(local_device_ids, int) else local_device_ids
    if cluster_detection_method != "deactivate" and None in (address, num_processes, process_id):
        from jax._src import clusters

        address, num_processes, process_id, devices = clusters.ClusterEnv.auto_detect_unset_distributed_params(
            address, num_processes, process_id, devices, cluster_detection_method, int(timeouts.initialization)
        )
    if address is None or num_processes is None or process_id is None:
        given = {"coordinator_address": address, "num_processes": num_processes, "process_id": process_id}
        missing = [name for name, value in given.items() if value is None]
        raise InputError(
            f"tinyjax.distributed.initialize needs {' and '.join(missing)}: nothing here, such as Slurm, says it"
        )
    if not 0 <= process_id < num_processes:
        raise InputError(
            "num_processes is how many processes there are, and process_id which of them this is, from 0 on: "
            f"got {num_processes!r} and {process_id!r}"
        )
    split_address(address)
    bind = coordinator_bind_address or os.environ.get("JAX_COORDINATOR_BIND_ADDRESS") or address
    split_address(bind)
    group = Group(process_id, num_processes, timeouts)
    PROCESS.group = group
    atexit.register(_leave, group)
    group.start(address, bind, devices)


def shutdown() -> None:
    """Waits until all processes shut down, and ends their connections."""
    if PROCESS.group is not None:
        PROCESS.group.shutdown()


def is_initialized() -> bool:
    """Whether this process works together with others."""
    return PROCESS.group is not None and PROCESS.group.is_open


def _leave(group: Group) -> None:
    """At the end of the process."""
    if PROCESS.forked or PROCESS.group is not group:
        return
    try:
        _take_leave(group)
    finally:
        # While Python ends, the thread must not come back from XLA, which would abort the process.
        if group.is_stuck(_PATIENCE):
            _end(1)


def _end(code: int) -> None:
    """Ends the process at once. An exit function can't change in any other way how it ends."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _take_leave(group: Group) -> None:
    if not group.is_open:
        return
    ended_by = getattr(sys, "last_value", None)
    if ended_by is not None:
        shown = traceback.format_exception_only(ended_by)[-1].strip().splitlines()[0]
        group.give_up(f"process {group.index} ended with {shown}")
        return
    if group.peers.reported:  # and dealt with
        group.close()
        return
    try:
        group.shutdown()
    except DistributedError as error:
        sys.stderr.write(f"{type(error).__module__}.{type(error).__name__}: {error}\n")
        _end(1)
