"""XLA's profiler, which sees programs of this library as it sees jax's: through jax's functions for it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ContextDecorator
from os import PathLike
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, final

from typing_extensions import override

from tinyjax.tracebacks import filtered
from tinyjax.tracing.functions import check_callable, function_name
from tinyjax.wrapping import wraps

if TYPE_CHECKING:
    from types import TracebackType

P = ParamSpec("P")
R = TypeVar("R")


@filtered
def start_trace(
    log_dir: PathLike[str] | str,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: Any = None,  # jax.profiler's own
) -> None:
    """Begins to record what runs where, and when, until `stop_trace`; there is one recording at a time.

    Args:
      log_dir: the directory to write to, for TensorBoard or XProf.
      create_perfetto_link: print a link at the end, by which Perfetto shows it, and wait until it was opened.
      create_perfetto_trace: also write a file for Perfetto.
      profiler_options: a `jax.profiler.ProfileOptions`.

    Raises:
      RuntimeError: another recording is in progress.

    Source: `jax.profiler`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     start_trace(directory)
    ...     stop_trace()
    """
    from jax import profiler

    profiler.start_trace(log_dir, create_perfetto_link, create_perfetto_trace, profiler_options)


@filtered
def stop_trace() -> None:
    """Ends the recording that `start_trace` began, and writes it.

    Raises:
      RuntimeError: there is none.

    Source: `jax.profiler`.

    >>> try:
    ...     stop_trace()
    ... except RuntimeError:
    ...     print("nothing is being recorded")
    nothing is being recorded
    """
    from jax import profiler

    profiler.stop_trace()


@filtered
def trace(
    log_dir: PathLike[str] | str,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: Any = None,  # jax.profiler's own
) -> AbstractContextManager[None]:
    """A block of which a recording is made: see `start_trace`. Launches return before programs have run, so wait for
    results within, by `block_until_ready`.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     with trace(directory):
    ...         pass
    ...     os.listdir(directory)
    ['plugins']
    """
    from jax import profiler

    recording: AbstractContextManager[None] = profiler.trace(
        log_dir, create_perfetto_link, create_perfetto_trace, profiler_options
    )
    return recording


class TraceAnnotation(ContextDecorator):
    """A block with a name, which recordings show, and what else is to be known of it. It is a decorator, too.

    >>> with TraceAnnotation("load", rows=3):
    ...     pass
    """

    def __init__(self, name: str, **kwargs: Any) -> None:  # what is shown beside the name
        self._name = name
        self._details: dict[str, Any] = kwargs
        self._open: list[AbstractContextManager[object]] = []

    def _annotation(self) -> AbstractContextManager[object]:
        from jax import profiler

        found: AbstractContextManager[object] = profiler.TraceAnnotation(self._name, **self._details)
        return found

    def __enter__(self) -> Self:
        annotation = self._annotation()
        annotation.__enter__()
        self._open.append(annotation)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._open.pop().__exit__(kind, error, traceback)


@final
class StepTraceAnnotation(TraceAnnotation):
    """A block that is one step of many, such as of training: recordings sum steps up by their `step_num`.

    >>> for number in range(3):
    ...     with StepTraceAnnotation("train", step_num=number):
    ...         pass
    """

    @override
    def _annotation(self) -> AbstractContextManager[object]:
        from jax import profiler

        found: AbstractContextManager[object] = profiler.StepTraceAnnotation(self._name, **self._details)
        return found


@filtered
def annotate_function(func: Callable[P, R], name: str | None = None, **decorator_kwargs: Any) -> Callable[P, R]:
    """The function, each call of which is a block with its name in recordings: see `TraceAnnotation`.

    >>> annotate_function(len, "count")([1, 2])
    2
    """
    check_callable("annotate_function", func)
    shown = function_name(func) if name is None else name

    @wraps(func)
    def annotated(*args: P.args, **kwargs: P.kwargs) -> R:
        with TraceAnnotation(shown, **decorator_kwargs):
            return func(*args, **kwargs)

    return annotated


@filtered
def device_memory_profile(backend: str | None = None) -> bytes:
    """What is in the memory of devices, and which lines put it there, in the format of pprof.

    Args:
      backend: a platform such as "cpu"; None: the default one.

    Source: `jax.profiler`.

    >>> len(device_memory_profile()) > 0
    True
    """
    from jax import profiler

    found: bytes = profiler.device_memory_profile(backend)
    return found


@filtered
def save_device_memory_profile(filename: PathLike[str] | str, backend: str | None = None) -> None:
    """Writes `device_memory_profile` to a file, for pprof.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     save_device_memory_profile(os.path.join(directory, "memory.prof"))
    ...     os.listdir(directory)
    ['memory.prof']
    """
    profile = device_memory_profile(backend)
    with open(filename, "wb") as file:
        file.write(profile)


@filtered
def start_server(port: int) -> object:
    """Has TensorBoard ask this process for recordings, at this port, until `stop_server`.

    Raises:
      ValueError: there is a server already.

    Source: `jax.profiler`.

    >>> import socket
    >>> with socket.create_server(("127.0.0.1", 0)) as found:
    ...     port = found.getsockname()[1]
    >>> server = start_server(port)
    >>> stop_server()
    """
    from jax import profiler

    return profiler.start_server(port)


@filtered
def stop_server() -> None:
    """Ends what `start_server` began.

    Raises:
      ValueError: there is no server.

    Source: `jax.profiler`.

    >>> try:
    ...     stop_server()
    ... except ValueError:
    ...     print("there is none")
    there is none
    """
    from jax import profiler

    profiler.stop_server()
