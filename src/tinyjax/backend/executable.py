"""Compiled programs. Imports jax: to be imported at first need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, final

import jax
import numpy as np
from jax._src import compiler
from jaxlib import _jax

from tinyjax.backend.buffers import DeviceBuffer, deleted_message
from tinyjax.backend.callbacks import callback_failure, host_function, parse
from tinyjax.backend.devices import default_device, jax_type, put_array, sharding_of
from tinyjax.backend.persistence import compile_or_read
from tinyjax.backend.stages import MemoryStats, Options
from tinyjax.backend.store import CompilationCache
from tinyjax.caching import bounded
from tinyjax.errors import DeletedBufferError, InputError, XlaError
from tinyjax.hlo.context import HostCall
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.value import ConcreteValue


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
) -> Executable:
    """Compiles StableHLO text for one device; an XlaError with the compiler's first lines if that fails.

    `host_calls` are what the calls of the host in the text call, by their numbers. Programs that have none are taken
    from the `persistent` cache, and kept there.
    """
    overrides: dict[str, Any] = dict(options)  # Any: jax 0.10 says they are all strings
    try:
        compile_options = compiler.get_compile_options(
            num_replicas=1,
            num_partitions=1,
            device_assignment=np.array([[device.id]]),
            env_options_overrides=overrides or None,
            backend=device.client,
        )
        devices = _jax.DeviceList((device,))
        if host_calls:
            functions = [host_function(call) for call in host_calls]
            loaded = device.client.compile_and_load(parse(text), devices, compile_options, functions)
        elif persistent is not None:
            loaded = compile_or_read(text, device, devices, compile_options, persistent)
        else:
            loaded = device.client.compile_and_load(text, devices, compile_options)
    except RuntimeError as error:
        raise XlaError(f"XLA could not compile {name!r} for {device}:\n{first_lines(error)}") from error
    return Executable(loaded, device, in_avals, out_avals, donated, waits=bool(host_calls))


def _put(value: ConcreteValue, device: _jax.Device) -> _jax.ArrayImpl:
    aval, array = value.aval, np.asarray(value.data)
    if not array.dtype.isnative:
        array = array.astype(aval.dtype)
    return put_array(array, jax_type(aval.shape, aval.dtype), device)


#: Python's small numbers are passed again and again; they take no room.
_kept_scalar: Final = bounded(1024)(_put)


def first_lines(error: BaseException, count: int = 8) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return "\n".join(lines[:count])


@final
class Executable:
    """A program that XLA has compiled for one device. Everything that doesn't depend on the arguments is done here."""

    __slots__ = (
        "_donated",
        "_execute",
        "_handlers",
        "_in_avals",
        "_loaded",
        "_out_avals",
        "_sharding",
        "_waits",
        "alone",
        "device",
    )

    def __init__(
        self,
        loaded: _jax.LoadedExecutable,
        device: _jax.Device,
        in_avals: Sequence[ShapedArray],
        out_avals: Sequence[ShapedArray],
        donated: Sequence[bool],
        waits: bool = False,
    ) -> None:
        self.device = device
        self._loaded = loaded
        self._execute = loaded.execute_sharded
        self._in_avals = [jax_type(aval.shape, aval.dtype) for aval in in_avals]
        self._out_avals = tuple(out_avals)
        self._sharding = sharding = sharding_of(device)
        #: Whether there is no other device that an array could be on.
        self.alone = device.platform == "cpu" and len(jax.local_devices()) == 1
        # Before 0.11, jax's checks of its own results must be told not to run.
        checks = {} if jax.__version_info__ >= (0, 11) else {"_skip_checks": True}
        self._handlers = [
            _jax.array_result_handler(jax_type(aval.shape, aval.dtype), sharding, committed=False, **checks)
            for aval in out_avals
        ]
        # A program that calls the host has done so, and has failed if that failed, when its call returns.
        self._waits = waits
        self._donated = [i for i, donate in enumerate(donated) if donate]

    def __call__(self, args: Sequence[ConcreteValue], name: str) -> tuple[ConcreteValue, ...]:
        """The results, on the device. The arguments must have the types that the program was compiled for.

        NumPy arrays are copied to the device, and so are arrays of other devices. `name` is for messages, because equal
        programs are compiled once, whatever their names.
        """
        device = self.device
        buffers: list[_jax.ArrayImpl] = []
        for arg, aval in zip(args, self._in_avals, strict=True):
            data = arg.data
            if type(data) is not DeviceBuffer:
                array = np.asarray(data)
                if not array.dtype.isnative:
                    array = array.astype(aval.dtype)
                buffers.append(put_array(array, aval, device))
            elif data.array.is_deleted():
                raise DeletedBufferError(f"argument {len(buffers)} of {name!r}: {deleted_message(data)}")
            elif data.device is device:
                buffers.append(data.array)
            else:
                buffers.append(put_array(data.array, aval, device))
        results = self.launch(buffers, name)
        return tuple(
            [
                ConcreteValue(DeviceBuffer(result, device), aval)
                for result, aval in zip(results, self._out_avals, strict=True)
            ]
        )

    def launch(self, buffers: Sequence[_jax.ArrayImpl], name: str) -> Sequence[_jax.ArrayImpl]:
        """The results for arguments that are on the device already, without anything around them."""
        if self._donated:
            self._check_donated(buffers, name)
        try:
            if self._waits:
                run = self._execute(buffers, with_tokens=True)
                token = run.consume_token()
                results = run.consume_with_handlers(self._handlers)
                token.block_until_ready()
                return results
            return self._execute(buffers).consume_with_handlers(self._handlers)
        except (RuntimeError, ValueError) as error:
            # A run that fails later may have used up what was donated to it, which is no mistake of the caller's.
            refused = "deleted" in str(error) or "INVALID_ARGUMENT" in str(error)
            for i, buffer in enumerate(buffers):
                if refused and buffer.is_deleted():
                    raise DeletedBufferError(
                        f"argument {i} of {name!r}: {deleted_message(DeviceBuffer(buffer, self.device))}"
                    ) from error
            reason = callback_failure(error) or f"\n{first_lines(error)}"
            raise XlaError(f"{name!r} failed on {self.device}:{reason}") from error

    def holds(self, buffers: Sequence[_jax.ArrayImpl]) -> bool:
        """Whether these arrays are all on the executable's device."""
        sharding = self._sharding
        return all(buffer.sharding is sharding or buffer.devices() == {self.device} for buffer in buffers)

    def place(self, value: ConcreteValue) -> _jax.ArrayImpl | None:
        """The array on the executable's device, put there if it is on the host. None if it is on another one, or if
        another one is the default."""
        data = value.data
        if type(data) is DeviceBuffer:
            return data.array if data.device is self.device else None
        if not self.alone and default_device() is not self.device:
            return None
        aval = value.aval
        if aval.weak_type and not aval.shape and not self._donated:
            return _kept_scalar(value, self.device)
        return _put(value, self.device)

    def _check_donated(self, buffers: Sequence[_jax.ArrayImpl], name: str) -> None:
        for i in self._donated:
            if sum(buffers[i] is buffer for buffer in buffers) > 1:
                raise InputError(
                    f"argument {i} of {name!r} is donated, so the same array can't be another argument too. "
                    "Copy it first, or don't donate it."
                )

    def as_text(self) -> str:
        """The optimised HLO."""
        return self._loaded.get_hlo_text()

    def cost_analysis(self) -> dict[str, float]:
        """What XLA estimates that a run costs: floating-point operations, bytes accessed, and others."""
        found = self._loaded.cost_analysis()
        return {name: float(value) for name, value in found.items() if isinstance(value, int | float)}

    def memory_analysis(self) -> MemoryStats:
        """The memory that a run takes."""
        found = self._loaded.get_compiled_memory_stats()
        return MemoryStats(
            argument_size_in_bytes=found.argument_size_in_bytes,
            output_size_in_bytes=found.output_size_in_bytes,
            alias_size_in_bytes=found.alias_size_in_bytes,
            temp_size_in_bytes=found.temp_size_in_bytes,
            generated_code_size_in_bytes=found.generated_code_size_in_bytes,
        )
