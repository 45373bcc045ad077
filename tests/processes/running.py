"""Real processes on this machine, each running the same script with its own number."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, final

from attrs import frozen

import tinyjax

#: How many seconds a test waits for processes: they share the machine with others.
PATIENCE: Final = 240

BEGIN: Final = """
    import os, sys, time
    import numpy as np
    import tinyjax as tj
    from tinyjax import NamedSharding, P

    ME, COUNT = int(sys.argv[1]), int(sys.argv[2])
    TIMEOUTS = dict(initialization_timeout=120, heartbeat_timeout_seconds=100, launch_timeout_seconds=120)

    def begin(**timeouts):
        tj.distributed.initialize(sys.argv[3], COUNT, ME, **(TIMEOUTS | timeouts))
        devices = tj.devices()
        mesh = tj.make_mesh((len(devices),), ("x",))
        return NamedSharding(mesh, P("x")), NamedSharding(mesh, P())

    def spread(whole, sharding):
        return tj.make_array_from_callback(whole.shape, sharding, lambda index: whole[index])

    def say(*words):
        print(*words, flush=True)
"""


@final
@frozen
class Ended:
    """What a process has left."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The last line that it wrote about what went wrong."""
        return self.err.strip().splitlines()[-1] if self.err.strip() else ""


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


@final
class Processes:
    """Processes that run a script. They are killed when the block ends."""

    def __init__(self, script: str, count: int, folder: Path, devices: int = 1) -> None:
        path = folder / "script.py"
        path.write_text(textwrap.dedent(BEGIN) + textwrap.dedent(script))
        source = str(Path(tinyjax.__file__).parents[1])
        environment = {
            **os.environ,
            "PYTHONPATH": source,
            "JAX_PLATFORMS": "cpu",
            "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
            "TF_CPP_MIN_LOG_LEVEL": "2",
        }
        address = f"127.0.0.1:{free_port()}"
        self._folder = folder
        self.running: list[subprocess.Popen[bytes]] = []
        for index in range(count):
            with open(folder / f"{index}.out", "wb") as out, open(folder / f"{index}.err", "wb") as err:
                self.running.append(
                    subprocess.Popen(
                        [sys.executable, str(path), str(index), str(count), address],
                        env=environment,
                        stdout=out,
                        stderr=err,
                    )
                )

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.running:
            process.kill()
            process.wait()

    def said(self, index: int) -> str:
        """What a process has printed so far."""
        return (self._folder / f"{index}.out").read_text()

    def until(self, index: int, words: str) -> None:
        """Waits until a process has printed these words."""
        end = time.monotonic() + PATIENCE
        while words not in self.said(index):
            assert self.running[index].poll() is None, (self._folder / f"{index}.err").read_text()
            assert time.monotonic() < end, f"process {index} didn't say {words!r}: {self.said(index)}"
            time.sleep(0.02)

    def signal(self, index: int, number: signal.Signals) -> None:
        """Sends a signal to a process."""
        self.running[index].send_signal(number)

    def ended(self, indices: Sequence[int] | None = None) -> Mapping[int, Ended]:
        """Waits until processes end."""
        found: dict[int, Ended] = {}
        end = time.monotonic() + PATIENCE
        for index in range(len(self.running)) if indices is None else indices:
            code = self.running[index].wait(max(end - time.monotonic(), 1.0))
            found[index] = Ended(code, self.said(index), (self._folder / f"{index}.err").read_text())
        return found


def run(script: str, count: int, folder: Path, devices: int = 1) -> Mapping[int, Ended]:
    """What processes have left that ran a script."""
    with Processes(script, count, folder, devices) as processes:
        return processes.ended()
