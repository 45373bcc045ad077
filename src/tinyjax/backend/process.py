"""Whether XLA can be used in this process. Needs no jax at import.

XLA works with threads, and a forked process has none of those of its parent: what waits for them waits for ever. So in
a process forked from one that has used XLA, every way to it is an error. Everything else works there.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final, final

from tinyjax.caching import Locking, registered_caches
from tinyjax.errors import ForkedProcessError

if TYPE_CHECKING:
    from tinyjax.backend.processes.group import Group


@final
class Process:
    """What is true of this process and not of one that it was forked from."""

    __slots__ = ("called", "forked", "group", "started")

    def __init__(self) -> None:
        #: Those it works with, once `tinyjax.distributed.initialize` has been called.
        self.group: Group | None = None
        #: Whether it was forked from a process that had used XLA.
        self.forked: bool = False
        #: Whether XLA has been started without jax.
        self.started: bool = False
        #: What programs on several devices call on the host at the moment, by the threads in which they do.
        self.called: Final[dict[int, str]] = {}

    def check(self, what: str) -> None:
        """A ForkedProcessError if XLA can't be used here. `what` was to be done."""
        if self.forked:
            raise ForkedProcessError(
                f"{what} isn't possible in this process: it was forked from one that had used XLA, and XLA's threads "
                "aren't in the copy. Start processes by multiprocessing.get_context('spawn') or 'forkserver', or fork "
                "before anything is compiled or put on a device. Evaluation on the host works here."
            )


#: This process.
PROCESS: Final = Process()
_COUNT: Final = "--xla_force_host_platform_device_count="


def has_begun() -> bool:
    """Whether XLA has been started in this process, if by jax alone."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    return PROCESS.started or (bridge is not None and bool(bridge.backends_are_initialized()))


def divide_cpu(count: int) -> None:
    """Has XLA divide the CPU into so many devices when it is started in this process."""
    flags = [flag for flag in os.environ.get("XLA_FLAGS", "").split() if not flag.startswith(_COUNT)]
    os.environ["XLA_FLAGS"] = " ".join([*flags, f"{_COUNT}{count}"])


def _begin() -> None:
    """In a forked child: no other thread is left, and none that would unlock what it had locked."""
    for cache in registered_caches():
        if isinstance(cache, Locking):
            cache.unlock()
    if has_begun():
        PROCESS.forked = True
    PROCESS.called.clear()
    if PROCESS.group is not None:
        PROCESS.group.abandon()


if hasattr(os, "register_at_fork"):  # where processes can be forked
    os.register_at_fork(after_in_child=_begin)
