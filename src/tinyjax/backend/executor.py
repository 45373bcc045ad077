"""Runs programs: lowers and compiles each once, then runs it on the device of its arguments.

Needs no jax at import: jax is imported when the first program is run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias, final

from attrs import evolve

from tinyjax.backend import places
from tinyjax.backend.buffers import DeviceBuffer, ShardedBuffer
from tinyjax.backend.cache import OnceCache
from tinyjax.backend.donation import usable_or_warn
from tinyjax.backend.embedding import Constants, passed
from tinyjax.backend.layouts import Asked, Layout, lay_out, on_devices, program_mesh
from tinyjax.backend.meeting import bound_where_arguments_are, check_devices, meeting_place
from tinyjax.backend.replication import warn_of_replicated
from tinyjax.backend.stages import Compiled, Options
from tinyjax.backend.store import CompilationCache, cache_from_environment
from tinyjax.caching import Cache, CacheInfo, register
from tinyjax.errors import ShardingError
from tinyjax.ir.declared import explained
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.traverse import nested_programs
from tinyjax.ir.value import ConcreteValue
from tinyjax.meshes import Device as PlainDevice
from tinyjax.meshes import NamedSharding
from tinyjax.meshes.sharding import Sharding

if TYPE_CHECKING:
    from jaxlib._jax import Device

    from tinyjax.backend.executable import Executable
    from tinyjax.backend.planned import PlannedExecutable
    from tinyjax.backend.spmd import SpmdExecutable
    from tinyjax.contexts.devices import Executor
    from tinyjax.contexts.watching import Watcher

#: A program for one device, or for several.
AnyExecutable: TypeAlias = "Executable | SpmdExecutable"
#: The same, or one for devices that aren't there.
AnyProgram: TypeAlias = "AnyExecutable | PlannedExecutable"

#: What decides a compiled program: the program, its constants, where it runs, what is donated, and XLA's options.
_Key: TypeAlias = "tuple[Jaxpr, Constants, Device | Layout, tuple[bool, ...], Options]"

#: How many compiled programs an executor keeps, and how many bytes of memory all that nothing else holds may take.
CACHE_SIZE: Final = 4096
CACHE_BYTES: Final = 512 * 2**20


@final
class XlaExecutor:
    """Implements `Executor` on XLA. Keeps compiled programs, by the program's value, device, donation and options: as
    many as `cache_size`, as long as they take no more than `cache_bytes` (decision 051). Those that functions hold are
    found besides.

    Threads may share one: a program that several of them need is compiled by one, and the others wait for it.
    """

    __slots__ = ("_cache", "options", "persistent")

    def __init__(
        self,
        options: Options = (),
        cache_size: int = CACHE_SIZE,
        persistent: CompilationCache | None = None,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        self.options: Options = options
        #: Where compiled programs are kept for other processes, if anywhere.
        self.persistent: CompilationCache | None = persistent
        self._cache: OnceCache[_Key, AnyExecutable] = OnceCache(
            cache_size, "compiled programs", room=cache_bytes, size_of=_memory_of
        )

    def __call__(
        self, jaxpr: Jaxpr, args: Sequence[ConcreteValue], name: str, donated: tuple[bool, ...] = ()
    ) -> tuple[ConcreteValue, ...]:
        """The results of a program, on the device of the first argument that is on one, else on jax's default device.

        `donated` says for each argument whether its memory may be reused; such arguments can't be used afterwards.

        Raises:
          MissingRuleError, LoweringError: the program can't be expressed in StableHLO.
          XlaError: the compiler or the run failed.
          DeletedBufferError: an argument has been donated or deleted before.
        """
        return self.executable(jaxpr, args, name, donated, asked=_as_specs_say(jaxpr))(args, name)

    def executable(
        self,
        jaxpr: Jaxpr,
        args: Sequence[ConcreteValue],
        name: str,
        donated: tuple[bool, ...] = (),
        watcher: Watcher | None = None,
        asked: Asked | None = None,
        constants: Constants = (),
        options: Options = (),
    ) -> AnyExecutable:
        """The compiled program, for the device that the arguments decide; the same errors as a call's.

        It is for several devices if one of the arguments is on several, if the program holds a mesh, or if it is
        `asked` for that. A `watcher` is told how it is lowered, if it isn't there yet. `constants` are those arguments
        that are spelled out in the program, which takes the others only; they say where it runs, too. `options` are
        XLA's, besides the executor's own.
        """
        device: Device | None = None
        several, apart = asked is not None, False
        for arg in args:
            data = arg.data
            if type(data) is DeviceBuffer:
                if device is None:
                    device = data.device
                elif data.device is not device:
                    apart = True
            elif type(data) is ShardedBuffer:
                several = True
        options = (*self.options, *options) if options else self.options
        if asked is not None:
            options = (*options, *asked.options)
            if asked.device is not None:
                device, apart = _device_of(asked.device), False
        if apart:
            device = meeting_place(jaxpr, args, name)
        if not several:
            found = self._cache.get((jaxpr, constants, device or _default_device()(), donated, options))
            if found is not None:
                return found
        if several or program_mesh(jaxpr) is not None:
            lie = [data.sharding if type(data := arg.data) is ShardedBuffer else None for arg in args]
            layout = lay_out(jaxpr, lie, asked, name)
            if layout is not None:
                alone = None if asked is None or program_mesh(jaxpr) is None else asked.device
                if alone is not None and layout.mesh.size > 1:
                    raise ShardingError(
                        f"{name!r} is to run on {alone} alone, but arrays in it lie on {layout.mesh}: leave out "
                        "device= and backend=, or the mesh"
                    )
                if device is not None:
                    layout = bound_where_arguments_are(layout, device)
                    check_devices(jaxpr, args, layout.devices, name)
                found = self._on_several(jaxpr, layout, name, donated, options, watcher, constants)
                warn_of_replicated(jaxpr, constants, found.in_shardings, found.out_shardings, name, asked)
                return found
        where = device or _default_device()()
        return self._executable(jaxpr, where, name, donated, options, watcher, constants)

    def watched(self, watcher: Watcher) -> Executor:
        """This executor, which tells the watcher how programs are lowered."""

        def run(jaxpr: Jaxpr, args: Sequence[ConcreteValue], name: str) -> tuple[ConcreteValue, ...]:
            return self.executable(jaxpr, args, name, watcher=watcher)(args, name)

        return run

    def compile(
        self,
        jaxpr: Jaxpr,
        name: str,
        donated: tuple[bool, ...] = (),
        options: Options | None = None,
        asked: Asked | None = None,
        lie: Sequence[Sharding | None] = (),
        constants: Constants = (),
    ) -> Compiled:
        """The compiled program, for jax's default device, or for several if it is `asked` for that or arguments are to
        `lie` so. The same cache as a call's, and the same `constants`."""
        chosen = self.options if options is None else options
        chosen = chosen if asked is None else (*chosen, *asked.options)
        layout = lay_out(jaxpr, lie or [None] * len(jaxpr.invars), asked, name)
        if asked is not None and asked.devices is not None:
            layout = on_devices(layout, asked.devices, name)
            asked = evolve(asked, device=asked.devices[0])
        if layout is not None:
            if layout.devices is None and len(places.all_devices()) < layout.mesh.size:
                from tinyjax.backend.several import plan_laid_out

                program: AnyProgram = plan_laid_out(jaxpr, layout, name, donated, chosen, constants)
            else:
                program = self._on_several(jaxpr, layout, name, donated, chosen, None, constants)
            warn_of_replicated(jaxpr, constants, program.in_shardings, program.out_shardings, name, asked)
            return Compiled(tuple(passed(constants, jaxpr.in_avals)), name, program)
        device = _default_device()() if asked is None or asked.device is None else _device_of(asked.device)
        found = self._executable(jaxpr, device, name, donated, chosen, None, constants)
        return Compiled(tuple(passed(constants, jaxpr.in_avals)), name, found)

    def _executable(
        self,
        jaxpr: Jaxpr,
        device: Device,
        name: str,
        donated: tuple[bool, ...],
        options: Options,
        watcher: Watcher | None = None,
        constants: Constants = (),
    ) -> AnyExecutable:
        def compile_now() -> AnyExecutable:
            from tinyjax.backend.executable import compile_text
            from tinyjax.hlo.lowering import lower_module

            given = passed(constants, usable_or_warn(jaxpr, donated, name))
            module = lower_module(
                jaxpr, platform=device.platform, name=name, donated=given, watcher=watcher, constants=constants
            )
            return compile_text(
                module.text,
                name,
                passed(constants, jaxpr.in_avals),
                jaxpr.out_avals,
                device,
                given,
                options,
                module.host_calls,
                self.persistent,
                constants,
            )

        return self._cache.get_or_make(
            (jaxpr, constants, device, donated, options), lambda: explained(jaxpr, compile_now)
        )

    def _on_several(
        self,
        jaxpr: Jaxpr,
        layout: Layout,
        name: str,
        donated: tuple[bool, ...],
        options: Options,
        watcher: Watcher | None = None,
        constants: Constants = (),
    ) -> AnyExecutable:
        if layout.devices is None:
            devices = places.all_devices()
            if len(devices) < layout.mesh.size:
                raise _too_few(layout.mesh.size, len(devices), name)
            layout = evolve(layout, devices=devices[: layout.mesh.size])

        def compile_now() -> AnyExecutable:
            from tinyjax.backend.several import compile_laid_out

            given = usable_or_warn(jaxpr, donated, name, layout)
            return compile_laid_out(jaxpr, layout, name, given, options, self.persistent, watcher, constants)

        return self._cache.get_or_make(
            (jaxpr, constants, layout, donated, options), lambda: explained(jaxpr, compile_now)
        )

    @property
    def cache(self) -> Cache:
        """The compiled programs."""
        return self._cache

    def cache_info(self) -> CacheInfo:
        """How many programs have been compiled, and how many are kept."""
        return self._cache.info()

    def clear_cache(self) -> None:
        """Forgets all compiled programs."""
        self._cache.clear()


def _memory_of(key: _Key) -> int:
    """About how many bytes of memory XLA's program takes on a CPU, which doesn't say it: by measurement."""
    jaxpr, constants, *_ = key
    equations = sum(len(program.eqns) for program in nested_programs(jaxpr))
    return 200_000 + 40_000 * equations + sum(constant.aval.nbytes for constant in constants if constant is not None)


def _as_specs_say(jaxpr: Jaxpr) -> Asked | None:
    """How the results lie of a `shard_map` that is a program by itself, where its specifications say all of it."""
    if len(jaxpr.eqns) != 1 or jaxpr.outvars != jaxpr.eqns[0].outvars or jaxpr.eqns[0].primitive.name != "shard_map":
        return None
    from tinyjax.control.shard_map import ShardMap  # many programs have none

    primitive = jaxpr.eqns[0].primitive
    if not isinstance(primitive, ShardMap) or len(primitive.manual_axes) < primitive.mesh.ndim:
        return None
    return Asked(outs=tuple([NamedSharding(primitive.mesh, spec) for spec in primitive.out_specs]))


def _too_few(count: int, there: int, name: str) -> ShardingError:
    return ShardingError(
        f"{name!r} is for {count} devices, but there are {there}. It can be lowered here, and compiled. "
        f"XLA_FLAGS=--xla_force_host_platform_device_count={count} makes so many of a CPU."
    )


def _device_of(device: PlainDevice) -> Device:
    from tinyjax.backend.shardings import device_of_jax

    return device_of_jax(device)


@lru_cache(maxsize=1)
def _default_device() -> Callable[[], Device]:
    from tinyjax.backend.devices import default_device

    return default_device


#: The executor of the root context.
execute: Final = XlaExecutor(persistent=cache_from_environment())
register(execute.cache)


def compile_program(
    program: Jaxpr,
    name: str,
    donated: tuple[bool, ...] = (),
    asked: Asked | None = None,
    lie: Sequence[Sharding | None] = (),
    constants: Constants = (),
    options: Options = (),
) -> Compiled:
    """The compiled program, from the same cache as `execute`'s, with these options besides."""
    own = (*execute.options, *options) if options else None
    return execute.compile(program, name, donated, own, asked, lie, constants)
