"""Programs compiled for several devices: XLA divides them (by Shardy), and everything is checked before it runs.

jaxlib checks next to nothing before such a launch, and launches over the same devices that overtake each other wait for
each other for ever. So this is the one place that launches them: one after the other, and where devices share the
threads of a CPU, each is over before the next one begins. Imports jax: to be imported at first need.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from threading import RLock
from typing import Any, Final, final

import jax
import numpy as np
from jax._src import compiler
from jaxlib import _jax
from jaxlib.version import __version__ as _jaxlib_version

from tinyjax.backend.buffers import DeviceBuffer, RawBuffer, ShardedBuffer, deleted_message, value_of_buffer
from tinyjax.backend.devices import jax_type
from tinyjax.backend.dispatcher import Argument
from tinyjax.backend.embedding import Constants, passed
from tinyjax.backend.executable import check_donated, failed, load
from tinyjax.backend.handlers import is_foreign
from tinyjax.backend.host_calls import waited_for
from tinyjax.backend.layouts import Layout, bound_mesh, told_apart
from tinyjax.backend.loaded import Loaded
from tinyjax.backend.process import PROCESS
from tinyjax.backend.processes.agreement import Launches
from tinyjax.backend.result_shardings import chosen_by_xla, is_open
from tinyjax.backend.shardings import device_of_jax, jax_mesh, jax_sharding, place, put_host, spec_of
from tinyjax.backend.stages import Options
from tinyjax.backend.store import CompilationCache
from tinyjax.caching import bounded
from tinyjax.errors import CallbackError, DeletedBufferError, DistributedError, InputError, ShardingError
from tinyjax.hlo.lowering import LoweredModule
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.type_lists import expect_types
from tinyjax.ir.value import ConcreteValue
from tinyjax.meshes import NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding

#: Held while a program is launched.
_LAUNCHING: Final = RLock()
#: How many spellings of a sharding an input is remembered to accept.
_SPELLINGS: Final = 64


def compile_spmd(
    module: LoweredModule,
    name: str,
    in_avals: Sequence[ShapedArray],
    out_avals: Sequence[ShapedArray],
    layout: Layout,
    donated: Sequence[bool] = (),
    options: Options = (),
    persistent: CompilationCache | None = None,
    jaxpr: Jaxpr | None = None,
    constants: Constants = (),
) -> SpmdExecutable:
    """Compiles a module for the devices of a layout; an XlaError with the compiler's first lines if that fails.

    The processes whose devices these are compare the `jaxpr` and the `constants` before they run it. These are what
    the text has instead of some inputs.
    """
    PROCESS.check(f"To compile {name!r}")
    devices = tuple([device_of_jax(device) for device in layout.devices or ()])
    overrides: dict[str, Any] = dict(options)  # Any: jax 0.10 says they are all strings
    compile_options = compiler.get_compile_options(
        num_replicas=1,
        num_partitions=len(devices),
        device_assignment=np.array([[device.id for device in devices]]),
        env_options_overrides=overrides or None,
        backend=devices[0].client,
    )
    build = compile_options.executable_build_options
    build.use_spmd_partitioning = True  # also for one device, or what is said of meshes would stay in the text
    build.use_shardy_partitioner = True
    build.allow_spmd_sharding_propagation_to_output = [is_open(sharding) for sharding in layout.outs] or [False]
    loaded = load(module.text, name, devices, compile_options, module.host_calls, persistent)
    together: Launches | None = None
    processes = {device.process_index for device in devices}
    if PROCESS.group is not None and jaxpr is not None and len(processes) > 1:
        given = [i for i, donate in enumerate(donated) if donate]
        together = Launches(PROCESS.group, sorted(processes), jaxpr, layout, given, options, _versions(), constants)
    return SpmdExecutable(loaded, devices, in_avals, out_avals, layout, donated, together, constants)


def _versions() -> str:
    return f"jax {jax.__version__}, jaxlib {_jaxlib_version}"


@bounded(1024)
def _kept_scalar(value: ConcreteValue, sharding: NamedSharding) -> RawBuffer:
    """A scalar on all devices. Python's small numbers are passed again and again; they take no room."""
    return put_host(np.asarray(value.data), sharding)


def _said_alike(one: jax.sharding.Sharding, other: jax.sharding.Sharding) -> bool:
    """Whether what is computed of an array that lies as the one says has the types that it has for the other: which
    name the mesh, and of its Explicit axes those that divide, be their sizes 1, and those of sums."""
    if isinstance(one, jax.sharding.NamedSharding) and isinstance(other, jax.sharding.NamedSharding):
        if one.mesh != other.mesh:
            return False
        return not one.mesh.explicit_axes or spec_of(one.spec).stripped == spec_of(other.spec).stripped
    return True


def _on_one(sharding: NamedSharding) -> SingleDeviceSharding:
    (device,) = sharding.flat_devices
    return SingleDeviceSharding(device, memory_kind=sharding.memory_kind)


@final
class SpmdExecutable(Loaded):
    """A program that XLA has compiled for several devices. Like `Executable`, whose methods these are."""

    __slots__ = (
        "__weakref__",
        "_accepted",
        "_donated",
        "_everywhere",
        "_handlers",
        "_in_avals",
        "_inputs",
        "_movable",
        "_out_avals",
        "_together",
        "_waits",
        "alone",
        "constants",
        "copied",
        "devices",
        "direct",
        "in_shardings",
        "layout",
        "on_mesh_of_one",
        "out_shardings",
    )

    def __init__(
        self,
        loaded: _jax.LoadedExecutable,
        devices: Sequence[_jax.Device],
        in_avals: Sequence[ShapedArray],
        out_avals: Sequence[ShapedArray],
        layout: Layout,
        donated: Sequence[bool],
        together: Launches | None = None,
        constants: Constants = (),
    ) -> None:
        layout = layout.without(constants)
        self._together = together
        super().__init__(loaded)
        self.devices: tuple[_jax.Device, ...] = tuple(devices)
        self.layout: Layout = layout
        #: Never: there are other devices.
        self.alone: bool = False
        #: It is looked at where arguments lie.
        self.direct: None = None
        self.on_mesh_of_one: bool = len(self.devices) == 1
        #: Arrays of the host are divided when the program is launched.
        self.copied: bool = True
        self.constants: Constants = constants
        self._in_avals = tuple(passed(constants, in_avals))
        #: Which inputs of the program the arguments are.
        self._inputs = passed(constants, range(len(in_avals)))
        self._out_avals = tuple(out_avals)
        self._donated = [i for i, donate in enumerate(passed(constants, donated)) if donate]
        #: How arguments and results lie.
        self.in_shardings: tuple[NamedSharding, ...] = tuple(map(layout.bound, layout.ins))
        mesh = jax_mesh(bound_mesh(layout.mesh, layout.devices or ()))
        chosen = chosen_by_xla(loaded, layout, mesh, out_avals, self.in_shardings, self._in_avals)
        self.out_shardings: tuple[Sharding, ...] = tuple(
            [_on_one(sharding) if i in layout.single else sharding for i, sharding in enumerate(chosen)]
        )
        # Arguments that may come from anywhere: those that didn't decide where the program runs.
        decided = [i for i, (s, asked) in enumerate(zip(layout.ins, layout.asked, strict=True)) if not asked]
        self._movable = [i not in decided or layout.ins[i].is_fully_replicated for i in range(len(layout.ins))]
        self._accepted: list[set[jax.sharding.Sharding]] = [{jax_sharding(s)} for s in self.in_shardings]
        checks = {} if jax.__version_info__ >= (0, 11) else {"_skip_checks": True}
        self._handlers = [
            _jax.array_result_handler(
                jax_type(aval.shape, aval.dtype), jax_sharding(sharding), committed=True, **checks
            )
            for aval, sharding in zip(out_avals, self.out_shardings, strict=True)
        ]
        self._everywhere = NamedSharding(bound_mesh(layout.mesh, layout.devices or ()), PartitionSpec())
        self._waits = devices[0].platform == "cpu"

    def __call__(self, args: Sequence[ConcreteValue], name: str) -> tuple[ConcreteValue, ...]:
        """The results, on the devices. The arguments must have the types that the program was compiled for; they are
        put where they belong. `name` is for messages."""
        found = tuple([arg.aval for arg in args])
        if found != self._in_avals:
            expect_types(f"{name!r} was compiled for", self._in_avals, found, InputError)
        buffers: list[Argument] = []
        for i, (arg, sharding) in enumerate(zip(args, self.in_shardings, strict=True)):
            data = arg.data
            if isinstance(data, DeviceBuffer | ShardedBuffer) and data.array.is_deleted():
                raise DeletedBufferError(f"argument {i} of {name!r}: {deleted_message(data)}")
            if isinstance(data, ShardedBuffer) and not data.sharding.is_equivalent_to(sharding, arg.aval.ndim):
                lies, wanted = told_apart(data.sharding, sharding)
                raise ShardingError(
                    f"argument {i} of {name!r} lies as {lies}, but the program was compiled for {wanted}. "
                    "Move it first, by tinyjax.device_put(x, sharding)."
                )
            buffers.append(place(arg, sharding, f"argument {i} of {name!r}"))
        given = [(i, arg.data) for i, arg in enumerate(args) if isinstance(arg.data, np.ndarray)]
        results = self._launch(buffers, name, given)
        return tuple([value_of_buffer(result, aval) for result, aval in zip(results, self._out_avals, strict=True)])

    def launch(self, args: Sequence[Argument], name: str, on_host: bool = False) -> Sequence[RawBuffer]:
        """The results for what `admit` has returned, and `holds` is true of. `on_host`: some of it is on the host."""
        if self._together is None:
            return self._launch(args, name)
        return self._launch(args, name, [(i, arg) for i, arg in enumerate(args) if isinstance(arg, np.ndarray)])

    def _launch(
        self, args: Sequence[Argument], name: str, given: Iterable[tuple[int, HostArray]] = ()
    ) -> Sequence[RawBuffer]:
        """The same; `given` are those that were given as arrays of the host."""
        if self._donated:
            check_donated(self._donated, args, name)
        if PROCESS.forked:
            PROCESS.check(f"To run {name!r}")
        if called := waited_for():
            raise CallbackError(
                f"{name!r} can't run on {self._shown()}: {called} is a callback of a program on several devices, which "
                "wait for it, and would for ever. Compute there with NumPy, or on one device."
            )
        placed = [
            put_host(arg, sharding) if isinstance(arg, np.ndarray) else arg
            for arg, sharding in zip(args, self.in_shardings, strict=True)
        ]
        for i, arg in enumerate(placed):
            if arg.is_deleted():
                raise DeletedBufferError(f"argument {i} of {name!r}: {deleted_message(ShardedBuffer(arg))}")
        try:
            if self._together is not None:
                same = [(self._inputs[i], array) for i, array in given]
                return self._together.launch(name, same, lambda: self._execute(placed))
            with _LAUNCHING:
                return self._execute(placed)
        except DistributedError:
            raise
        except (RuntimeError, ValueError) as error:
            if is_foreign(error):
                raise
            failed(error, name, self._shown())

    def _execute(self, placed: Sequence[RawBuffer]) -> Sequence[RawBuffer]:
        run = self._loaded.execute_sharded(placed, with_tokens=self._waits)
        token = run.consume_token() if self._waits else None
        results = run.consume_with_handlers(self._handlers)
        if token is not None:
            token.block_until_ready()
        return results

    def _shown(self) -> str:
        return f"the {len(self.devices)} devices of {self.layout.mesh}"

    def holds(self, args: Sequence[Argument]) -> bool:
        """Whether these arrays lie as the program was compiled for, or may be put so from the host."""
        for i, arg in enumerate(args):
            if isinstance(arg, np.ndarray):
                if not self._movable[i]:
                    return False
                continue
            accepted, sharding = self._accepted[i], arg.sharding
            if sharding in accepted:
                continue
            (first, *_) = accepted
            if not sharding.is_equivalent_to(first, arg.ndim):
                return False
            if not self.layout.asked[i] and not _said_alike(sharding, first):
                return False
            if len(accepted) < _SPELLINGS:
                accepted.add(sharding)
        return self._mesh_said(args)

    def _mesh_said(self, args: Sequence[Argument]) -> bool:
        """Whether something says that this is the place to run: an array that is there, or the caller."""
        if any(self.layout.asked) or any(sharding is not None for sharding in self.layout.outs):
            return True
        if any(value is not None and value.on_several for value in self.constants):
            return True
        numbers = [aval.weak_type and not aval.shape for aval in self._in_avals]  # which may be kept here
        placed = [not isinstance(arg, np.ndarray) for arg in args]
        return not args or any(there and not number for there, number in zip(placed, numbers, strict=True))

    def place(self, value: ConcreteValue) -> RawBuffer | None:
        """The array of a value on several devices. None for others, which only the long way puts where they belong."""
        data = value.data
        return data.array if isinstance(data, ShardedBuffer) else None

    def capture(self, value: ConcreteValue, i: int) -> RawBuffer | None:
        """The array for the input `i`, which is the same for all calls."""
        if self._together is not None and isinstance(value.data, np.ndarray):
            self._together.capture(self._inputs[i], value.data)
        return place(value, self.in_shardings[i])

    def admit(self, value: ConcreteValue) -> Argument | None:
        """What `launch` takes for a value; None if it can't."""
        data = value.data
        if not isinstance(data, np.ndarray):
            return self.place(value)
        if value.aval.weak_type and not value.aval.shape and not self._donated and self._together is None:
            return _kept_scalar(value, self._everywhere)
        return data

    def admit_host(self, array: HostArray) -> Argument | None:
        """The same for a NumPy array, which is copied when the program is launched."""
        return array
