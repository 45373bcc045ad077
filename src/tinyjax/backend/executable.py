"""Compiled programs. Imports jaxlib, and jax where that is needed: to be imported at first need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NoReturn, Protocol, cast, final

import numpy as np
from attrs import frozen
from jaxlib import _jax, version

from tinyjax.backend.buffers import SMALL, DeviceBuffer, RawBuffer, deleted_message, keys_of
from tinyjax.backend.compile_options import one_device
from tinyjax.backend.devices import default_device, jax_type, put_array, sharding_of
from tinyjax.backend.dispatcher import Argument, Dispatcher, dispatcher
from tinyjax.backend.embedding import Constants
from tinyjax.backend.handlers import is_foreign
from tinyjax.backend.host_calls import host_failure, host_function, parse
from tinyjax.backend.libraries import prepare_libraries
from tinyjax.backend.loaded import Loaded
from tinyjax.backend.nearby import give_away
from tinyjax.backend.persistence import compile_or_read
from tinyjax.backend.places import own_devices
from tinyjax.backend.process import PROCESS
from tinyjax.backend.refusals import refusal
from tinyjax.backend.store import CompilationCache
from tinyjax.caching import bounded
from tinyjax.errors import DeletedBufferError, DonationError, XlaError
from tinyjax.hlo.called import HostCall
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import CARRIERS, KEYS, HostArray
from tinyjax.ir.value import ConcreteValue, Data
from tinyjax.meshes.sharding import SingleDeviceSharding

if TYPE_CHECKING:
    from tinyjax.backend.stages import Options


def compile_text(
    text: str,
    name: str,
    in_avals: Sequence[ShapedArray],
    out_avals: Sequence[ShapedArray],
    device: _jax.Device,
    donated: Sequence[bool] = (),
    options: Options = (),
    host_calls: Sequence[HostCall] = (),
    persistent: CompilationCache | None = None,
    constants: Constants = (),
) -> Executable:
    """Compiles StableHLO text for one device; an XlaError with the compiler's first lines if that fails.

    `host_calls` are what the calls of the host in the text call, by their numbers. Programs that have none are taken
    from the `persistent` cache, and kept there. `constants` are what the text has instead of some inputs.
    """
    PROCESS.check(f"To compile {name!r}")
    try:
        compile_options = one_device(device, options)
    except RuntimeError as error:
        if is_foreign(error):
            raise
        raise _refused(name, device, error) from error
    loaded = load(text, name, (device,), compile_options, host_calls, persistent)
    return Executable(loaded, device, in_avals, out_avals, donated, bool(host_calls), constants)


def load(
    text: str,
    name: str,
    devices: tuple[_jax.Device, ...],
    compile_options: _jax.CompileOptions,
    host_calls: Sequence[HostCall],
    persistent: CompilationCache | None,
) -> _jax.LoadedExecutable:
    """StableHLO text as a program on devices."""
    prepare_libraries(text)
    client, listed = devices[0].client, _jax.DeviceList(devices)
    try:
        if host_calls:
            functions = [host_function(call, len(devices) > 1) for call in host_calls]
            return client.compile_and_load(parse(text), listed, compile_options, functions)
        if persistent is not None:
            return compile_or_read(text, devices[0], listed, compile_options, persistent)
        return client.compile_and_load(text, listed, compile_options)
    except RuntimeError as error:
        if is_foreign(error):
            raise
        where = devices[0] if len(devices) == 1 else f"{len(devices)} devices of {devices[0].platform}"
        raise _refused(name, where, error) from error


def _refused(name: str, where: object, error: Exception) -> XlaError:
    return refusal(f"XLA could not compile {name!r} for {where}:\n{first_lines(error)}", error)


def check_donated(donated: Sequence[int], buffers: Sequence[Argument], name: str) -> None:
    """A DonationError if an array is donated and passed for another argument, too. Nobody here reads it any more."""
    counts = Counter(map(id, buffers))
    for i in donated:
        if not isinstance(array := buffers[i], np.ndarray):
            give_away(array)
        if counts[id(array)] > 1:
            raise DonationError(
                f"argument {i} of {name!r} is donated, so the same array can't be another argument too. "
                "Copy it first, or don't donate it."
            )


def _put(data: Data, device: _jax.Device) -> RawBuffer:
    array = np.asarray(data)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return put_array(array, jax_type(array.shape, array.dtype), device)


@bounded(1024)
def _kept_scalar(value: ConcreteValue, device: _jax.Device) -> RawBuffer:
    """A scalar on a device. Python's small numbers are passed again and again; they take no room."""
    return _put(value.data, device)


def first_lines(error: BaseException, count: int = 8) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return "\n".join(lines[:count])


def failed(error: Exception, name: str, where: object) -> NoReturn:
    """Raises what a run has failed by: the error of a function of the host that it calls, or an XlaError."""
    failure = host_failure(error)
    if failure is None:
        raise refusal(f"{name!r} failed on {where}:\n{first_lines(error)}", error) from error
    if failure.passes:
        raise failure.error from None
    raise XlaError(f"{name!r} failed on {where}: {failure.reason}") from failure.error


_VERSION: Final = tuple([int(part) for part in version.__version__.split(".")[:2]])


class _Execute(Protocol):
    def __call__(self, args: Sequence[Argument], /, with_tokens: bool = False) -> _jax.ExecuteResults: ...


@final
@frozen(eq=False)
class Direct:
    """A launch in its parts, for those who launch a program again and again."""

    #: What runs it.
    execute: _Execute
    #: What make arrays of its results.
    handlers: Sequence[_jax.ResultHandler]
    #: What has run it with arrays of the host that nobody writes to any more; None if it hasn't, or if there is no jax.
    dispatch: Dispatcher | None
    #: Raises what a run by such arguments has failed by, in words of ours; for messages, it has a name.
    fail: Callable[[Exception, Sequence[Argument], str], NoReturn]


@final
class Executable(Loaded):
    """A program that XLA has compiled for one device. Everything that doesn't depend on the arguments is done here."""

    __slots__ = (
        "__weakref__",
        "_arity",
        "_dispatcher",
        "_donated",
        "_execute",
        "_handlers",
        "_out_avals",
        "_out_keys",
        "_out_types",
        "_plain",
        "_sharding",
        "_waits",
        "_wide",
        "alone",
        "constants",
        "copied",
        "device",
        "on_mesh_of_one",
    )

    def __init__(
        self,
        loaded: _jax.LoadedExecutable,
        device: _jax.Device,
        in_avals: Sequence[ShapedArray],
        out_avals: Sequence[ShapedArray],
        donated: Sequence[bool],
        waits: bool = False,
        constants: Constants = (),
    ) -> None:
        self.device: _jax.Device = device
        #: What some of the first inputs of its program are, which it doesn't take.
        self.constants: Constants = constants
        super().__init__(loaded)
        # Not on arrays of the host, which `launch` sees to.
        self._execute = cast(_Execute, loaded.execute_sharded)
        self._arity = len(in_avals)
        self._wide = any(aval.dtype.itemsize >= 8 for aval in in_avals)
        self._out_avals = tuple(out_avals)
        self._out_keys = tuple([keys_of(aval.dtype) for aval in out_avals])
        self._sharding = sharding = sharding_of(device)
        #: Whether there is no other device that an array could be on.
        self.alone: bool = device.platform == "cpu" and [*own_devices()] == [device]
        #: Never: the device is no mesh.
        self.on_mesh_of_one: bool = False
        # Before 0.11, jax's checks of its own results must be told not to run.
        checks = {} if _VERSION >= (0, 11) else {"_skip_checks": True}
        self._out_types = [jax_type(aval.shape, aval.dtype) for aval in out_avals]
        self._handlers = [
            _jax.array_result_handler(out_type, sharding, committed=False, **checks) for out_type in self._out_types
        ]
        # A program that calls the host has done so, and has failed if that failed, when its call returns.
        self._waits = waits
        self._donated = [i for i, donate in enumerate(donated) if donate]
        self._plain = not waits and not self._donated
        #: Whether arguments may be arrays of the host that nobody writes to any more, as they are.
        self.copied: bool = (
            self.alone and self._plain and all(aval.nbytes <= SMALL and aval.dtype not in KEYS for aval in in_avals)
        )
        #: Made when there is something on the host to run on.
        self._dispatcher: Dispatcher | None = None

    def __call__(self, args: Sequence[ConcreteValue], name: str) -> tuple[ConcreteValue, ...]:
        """The results, on the device. The arguments must have the types that the program was compiled for.

        NumPy arrays are copied to the device, and so are arrays of other devices. `name` is for messages, because equal
        programs are compiled once, whatever their names.
        """
        buffers: list[RawBuffer] = []
        for arg in args:
            data = arg.data
            if type(data) is not DeviceBuffer:
                buffers.append(self._put(arg))
            elif data.array.is_deleted():
                raise DeletedBufferError(f"argument {len(buffers)} of {name!r}: {deleted_message(data)}")
            elif data.device is self.device:
                buffers.append(data.array)
            else:
                buffers.append(put_array(data.array, jax_type(arg.aval.shape, arg.aval.dtype), self.device))
        results = self.launch(buffers, name)
        return tuple(
            [
                ConcreteValue(DeviceBuffer(result, self.device, keys), aval)
                for result, aval, keys in zip(results, self._out_avals, self._out_keys, strict=True)
            ]
        )

    def launch(self, args: Sequence[Argument], name: str, on_host: bool = False) -> Sequence[RawBuffer]:
        """The results for what `admit` has returned, without anything around them.

        `on_host`: some of it is on the host.
        """
        if self._donated:
            check_donated(self._donated, args, name)
        if PROCESS.forked:
            PROCESS.check(f"To run {name!r}")
        try:
            if on_host:
                return (self._dispatcher or self._dispatch())(*args)
            if self._waits:
                return self._run_and_wait(args)
            return self._execute(args).consume_with_handlers(self._handlers)
        except (RuntimeError, ValueError) as error:
            self._fail(error, args, name)

    @property
    def direct(self) -> Direct | None:
        """What a launch with arrays of the device consists of; None if there is more to it."""
        return Direct(self._execute, self._handlers, self._dispatcher, self._fail) if self._plain else None

    def _fail(self, error: Exception, args: Sequence[Argument], name: str) -> NoReturn:
        """Raises what a run of the program by these arguments has failed by, in words of ours."""
        if is_foreign(error):
            raise error
        # A run that fails later may have used up what was donated to it, which is no mistake of the caller's.
        refused = "deleted" in str(error) or "INVALID_ARGUMENT" in str(error)
        for i, arg in enumerate(args):
            if refused and not isinstance(arg, np.ndarray) and arg.is_deleted():
                raise DeletedBufferError(
                    f"argument {i} of {name!r}: {deleted_message(DeviceBuffer(arg, self.device))}"
                ) from error
        failed(error, name, self.device)

    def _run_and_wait(self, args: Sequence[Argument]) -> Sequence[RawBuffer]:
        run = self._execute(args, with_tokens=True)
        token = run.consume_token()
        results = run.consume_with_handlers(self._handlers)
        token.block_until_ready()
        return results

    def _dispatch(self) -> Dispatcher:
        """The dispatcher, once it is needed."""
        execute, handlers, device = self._execute, self._handlers, self.device

        def plain(*args: Argument) -> Sequence[RawBuffer]:
            placed = [_put(arg, device) if isinstance(arg, np.ndarray) else arg for arg in args]
            return execute(placed).consume_with_handlers(handlers)

        self._dispatcher = dispatcher(self._loaded, device, self._arity, self._out_types, self._wide, plain)
        return self._dispatcher

    def holds(self, args: Sequence[Argument]) -> bool:
        """Whether these arrays are all on the executable's device, or on the host."""
        sharding = self._sharding
        return all(
            isinstance(arg, np.ndarray) or arg.sharding is sharding or arg.devices() == {self.device} for arg in args
        )

    def place(self, value: ConcreteValue) -> RawBuffer | None:
        """The array on the executable's device, put there if it is on the host. None if it is on another one, or if
        another one is the default."""
        data = value.data
        if type(data) is DeviceBuffer:
            return data.array if data.device is self.device else None
        if not isinstance(data, np.ndarray):  # on several devices
            return None
        if not self.alone and default_device() is not self.device:
            return None
        return self._put(value)

    def capture(self, value: ConcreteValue, i: int) -> RawBuffer | None:
        """The array for the input `i`, which is the same for all calls; None if it is on another device."""
        return self.place(value)

    def _put(self, value: ConcreteValue) -> RawBuffer:
        """A value on the host, on the executable's device."""
        if value.aval.weak_type and not value.aval.shape and not self._donated:
            return _kept_scalar(value, self.device)
        return _put(value.data, self.device)

    def admit(self, value: ConcreteValue) -> Argument | None:
        """What `launch` takes for a value: like `place`, but arrays of the host may stay there."""
        data, aval = value.data, value.aval
        if isinstance(data, np.ndarray) and not (aval.weak_type and not aval.shape):
            return self.admit_host(data)
        return self.place(value)

    def admit_host(self, array: HostArray) -> Argument | None:
        """The same for a NumPy array, which may be written to afterwards. None if another device is the default."""
        if not self.alone and default_device() is not self.device:
            return None
        # The dispatcher makes no copy of some arrays, and reads them while the program runs.
        if self._plain and array.nbytes <= SMALL and array.dtype.isnative:
            return array.view(CARRIERS[array.dtype]).copy() if array.dtype in KEYS else array.copy()
        return _put(array, self.device)

    @property
    def in_shardings(self) -> tuple[SingleDeviceSharding, ...]:
        """How the program's inputs lie."""
        return (SingleDeviceSharding(self.device),) * self._arity

    @property
    def out_shardings(self) -> tuple[SingleDeviceSharding, ...]:
        """How its results lie."""
        return (SingleDeviceSharding(self.device),) * len(self._out_avals)
