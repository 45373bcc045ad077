"""The CPU by jaxlib alone, for as long as nobody has imported jax, which takes most of a cold start.

What runs a program on the CPU is all in jaxlib: a client, arrays, the compiler. jax gives jaxlib's class of arrays most
of its attributes when it is imported. Until then it has stand-ins for the few that are needed here, and whatever else
is asked of an array imports jax. jax then takes over the client: devices and arrays stay what they are.

Other platforms, settings of jax in the environment, and whatever jaxlib lacks are left to jax. Needs no jax, and jaxlib
only once the CPU is used.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from operator import attrgetter
from threading import RLock
from typing import TYPE_CHECKING, Final, final

from tinyjax.backend.process import PROCESS
from tinyjax.ir.aval import ShapedArray

if TYPE_CHECKING:
    from jaxlib import _jax

#: Settings of jax in the environment that say nothing about devices, nor about how XLA compiles.
_HARMLESS: Final = (
    "JAX_CHECK_TRACER_LEAKS",
    "JAX_COMPILATION_CACHE_DIR",
    "JAX_ENABLE_COMPILATION_CACHE",
    "JAX_ENABLE_X64",
    "JAX_LOG_COMPILES",
    "JAX_NUMPY_",
    "JAX_PERSISTENT_CACHE_",
    "JAX_TRACEBACK_",
    "JAX_TYPEOFF",
)
#: What may say that the CPU is meant.
_PLATFORM: Final = ("JAX_PLATFORMS", "JAX_PLATFORM_NAME")
#: What jax gives for a client when it asks for nothing particular, where that isn't None.
_USUAL: Final[Mapping[str, tuple[object, ...]]] = {
    "asynchronous": (True,),
    "node_id": (0, None),
    "num_nodes": (1, None),
}
#: What counts for several processes only.
_FOR_MANY: Final = ("get_local_topology_timeout_minutes", "get_global_topology_timeout_minutes")
#: What brings other platforms along.
_PLUGINS: Final = ("jax_plugins", "libtpu", "libtpu_nightly")


@final
class Early:
    """The client of this process, and whether jax has it."""

    __slots__ = ("_answers", "_client", "_lock")

    def __init__(self) -> None:
        self._answers: Sequence[object] = ()  # for jaxlib, which doesn't keep them
        self._client: _jax.Client | None = None
        self._lock = RLock()

    @property
    def started(self) -> bool:
        """Whether there is a client."""
        return self._client is not None

    def client(self) -> _jax.Client:
        """The client; made at the first use."""
        if self._client is None:
            with self._lock:
                if self._client is None:
                    self._client = _make()
                    PROCESS.started = True
        return self._client

    def answer_dispatchers(self) -> None:
        """Says what jaxlib's dispatcher asks of jax's settings, until jax itself says it."""
        with self._lock:
            if self._answers:
                return
            from jaxlib._jax import config

            # Whether programs are run as they are, whether 64 bits are kept, and who wants to know of calls.
            values = (("disable_jit", False), ("enable_x64", True), ("post_hook", None))
            self._answers = [
                config.Config(f"tinyjax_{name}", value, include_in_jit_key=False, include_in_trace_context=False)
                for name, value in values
            ]
            _answer(*self._answers)
        if "jax" in sys.modules:  # another thread has imported it in this moment: what it says counts
            from jax._src import config as settings
            from jax._src.api import _post_hook_state as post_hook

            _answer(settings.disable_jit, settings.enable_x64, post_hook)

    def unlock(self) -> None:
        """In a forked child, where there is nobody who would finish what other threads had begun."""
        self._lock = RLock()


EARLY: Final = Early()
if hasattr(os, "register_at_fork"):  # where processes can be forked
    os.register_at_fork(after_in_child=EARLY.unlock)


def _answer(disable_jit: object, enable_x64: object, post_hook: object) -> None:
    from jaxlib._jax import jax_jit

    jax_jit.set_disable_jit_state(disable_jit)
    jax_jit.set_enable_x64_state(enable_x64)
    jax_jit.set_post_hook_state(post_hook)


def without_jax() -> bool:
    """Whether jaxlib alone is to be asked: jax has not been imported, and would have the same to say."""
    return "jax" not in sys.modules and _suffices()


def first_device() -> _jax.Device:
    """The first device of the CPU."""
    return EARLY.client().local_devices()[0]


@cache
def _suffices() -> bool:
    return EARLY.started or (_is_cpu(os.environ) and _has_all())


def _is_cpu(environment: Mapping[str, str]) -> bool:
    """Whether jax would compute on the CPU, made as it is by default."""
    chosen = {environment.get(name, "").lower() for name in _PLATFORM} - {""}
    if chosen - {"cpu"} or "PJRT_NAMES_AND_LIBRARY_PATHS" in environment:
        return False
    if any(name.startswith("JAX_") and not name.startswith((*_HARMLESS, *_PLATFORM)) for name in environment):
        return False
    return "cpu" in chosen or not (any(map(find_spec, _PLUGINS)) or _announced())


def _announced() -> bool:
    """Whether an installed package says that it has a plugin for jax. What `importlib.metadata` would tell too, whose
    import takes longer than this."""
    for directory in sys.path:
        try:
            with os.scandir(directory or ".") as entries:
                packages = [entry.path for entry in entries if entry.name.endswith((".dist-info", ".egg-info"))]
        except OSError:  # no directory
            continue
        for package in packages:
            try:
                with open(os.path.join(package, "entry_points.txt"), "rb") as file:
                    if b"[jax_plugins]" in file.read():
                        return True
            except OSError:  # it announces nothing
                continue
    return False


def _has_all() -> bool:
    """Whether this jaxlib has what is used of it."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # as jax does, or XLA tells what devices it has found
    try:
        from jaxlib import _hlo, _jax, xla_client
    except ImportError:
        return False
    array, client = _jax.ArrayImpl, _jax.Client
    needed: tuple[tuple[object, tuple[str, ...]], ...] = (
        (xla_client, ("make_cpu_client", "get_topology_for_devices")),
        (_hlo, ("HloSharding",)),
        (array, ("aval", "_sharding", "_committed", "is_ready", "is_deleted", "block_until_ready")),
        (client, ("compile_and_load", "deserialize_executable", "local_devices", "live_arrays")),
        (_jax, ("SingleDeviceSharding", "DeviceList", "batched_device_put", "array_result_handler", "CompileOptions")),
    )
    return all(hasattr(holder, name) for holder, names in needed for name in names) and not hasattr(array, "shape")


def _make() -> _jax.Client:
    """A client as jax makes it, and the stand-ins for what jax adds to its arrays."""
    from jaxlib import _jax, cpu_feature_guard, xla_client

    cpu_feature_guard.check_cpu_features()  # an error, rather than the end of the process
    client = xla_client.make_cpu_client()
    for holder, names in ((_jax.ArrayImpl, _OF_ARRAYS), (_jax.SingleDeviceSharding, _OF_SHARDINGS)):
        for name, standing_in in names.items():
            if not hasattr(holder, name) or name == "__getattr__":
                setattr(holder, name, standing_in)
    _hand_over(client)
    return client


def _hand_over(client: _jax.Client) -> None:
    """Has jax take this client when it makes its own, if it wants one as it is: then there is one of them."""
    from jaxlib import xla_client

    made: Callable[..., _jax.Client] = xla_client.make_cpu_client

    def make_cpu_client(*args: object, **options: object) -> _jax.Client:
        if args or any(
            value not in _USUAL.get(name, (None,)) for name, value in options.items() if name not in _FOR_MANY
        ):
            return made(*args, **options)
        setattr(xla_client, "make_cpu_client", made)  # noqa: B010 (mypy knows it as a function)
        return client

    setattr(xla_client, "make_cpu_client", make_cpu_client)  # noqa: B010


def for_jax(array: _jax.ArrayImpl, of_jax: Callable[[ShapedArray], object]) -> _jax.ArrayImpl:
    """An array with the type that jax expects, if it was made before jax was imported."""
    own: object = array.aval
    if type(own) is not ShapedArray:
        return array
    try:
        setattr(array, "aval", of_jax(own))  # noqa: B010 (it says that it can't be set)
    except AttributeError:  # from 0.11 on; another array of the same elements, then
        from jaxlib import _jax

        return _jax.ArrayImpl(of_jax(own), array.sharding, [array], array.committed, _skip_checks=True)
    return array


def _through_jax(array: _jax.ArrayImpl, name: str) -> object:
    """What only jax knows of an array."""
    if name.startswith("__"):
        raise AttributeError(f"{type(array).__name__!r} object has no attribute {name!r}")
    _import_jax()
    return getattr(array, name)


def _method_of_jax(name: str) -> Callable[..., object]:
    """A method that only jax has, and that is looked for in the class."""

    def method(array: _jax.ArrayImpl, *args: object, **options: object) -> object:
        _import_jax()
        of_jax: Callable[..., object] = getattr(array, name)
        return of_jax(*args, **options)

    return method


def _import_jax() -> None:
    import jax  # noqa: F401 (which gives arrays their attributes)
    from jaxlib import _jax

    if vars(_jax.ArrayImpl).get("__getattr__") is _through_jax:
        with suppress(AttributeError):  # another thread was faster
            delattr(_jax.ArrayImpl, "__getattr__")


def _replicated(sharding: _jax.SingleDeviceSharding, ndim: int) -> object:
    from jaxlib import _hlo

    return _hlo.HloSharding.replicate()


_DEVICE: Final = attrgetter("_sharding._device")
#: What jax adds to arrays, for those on one device.
_OF_ARRAYS: Final[Mapping[str, object]] = {
    "shape": property(lambda array: array.aval.shape),
    "dtype": property(lambda array: array.aval.dtype),
    "weak_type": property(lambda array: array.aval.weak_type),
    "size": property(lambda array: array.aval.size),
    "ndim": property(lambda array: len(array.aval.shape)),
    "sharding": property(attrgetter("_sharding")),
    "committed": property(attrgetter("_committed")),
    "devices": lambda array: {_DEVICE(array)},
    "__array__": _method_of_jax("__array__"),  # NumPy reads what it has a dtype for without it
    "__dlpack__": _method_of_jax("__dlpack__"),
    "__dlpack_device__": _method_of_jax("__dlpack_device__"),
    "__getattr__": _through_jax,
}
_OF_SHARDINGS: Final[Mapping[str, object]] = {"_to_xla_hlo_sharding": _replicated}
