"""Runs programs: lowers and compiles each once, then runs it on the device of its arguments.

Needs no jax at import: jax is imported when the first program is run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, final

from tinyjax.backend.buffers import DeviceBuffer
from tinyjax.backend.cache import OnceCache
from tinyjax.backend.stages import Compiled, Options
from tinyjax.backend.store import CompilationCache, cache_from_environment
from tinyjax.caching import Cache, CacheInfo, register
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.value import ConcreteValue

if TYPE_CHECKING:
    from jaxlib._jax import Device

    from tinyjax.backend.executable import Executable
    from tinyjax.contexts.devices import Executor
    from tinyjax.contexts.watching import Watcher

#: How many compiled programs an executor keeps.
CACHE_SIZE: Final = 4096


@final
class XlaExecutor:
    """Implements `Executor` on XLA. Keeps compiled programs, by the program's value, device, donation and options.

    Threads may share one: a program that several of them need is compiled by one, and the others wait for it.
    """

    __slots__ = ("_cache", "options", "persistent")

    def __init__(
        self, options: Options = (), cache_size: int = CACHE_SIZE, persistent: CompilationCache | None = None
    ) -> None:
        self.options: Options = options
        #: Where compiled programs are kept for other processes, if anywhere.
        self.persistent: CompilationCache | None = persistent
        self._cache: OnceCache[tuple[Jaxpr, Device, tuple[bool, ...], Options], Executable] = OnceCache(
            cache_size, "compiled programs"
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
        return self.executable(jaxpr, args, name, donated)(args, name)

    def executable(
        self,
        jaxpr: Jaxpr,
        args: Sequence[ConcreteValue],
        name: str,
        donated: tuple[bool, ...] = (),
        watcher: Watcher | None = None,
    ) -> Executable:
        """The compiled program, for the device that the arguments decide; the same errors as a call's.

        A `watcher` is told how it is lowered, if it isn't there yet.
        """
        for arg in args:
            data = arg.data
            if type(data) is DeviceBuffer:
                device = data.device
                break
        else:
            device = _default_device()()
        found = self._cache.get((jaxpr, device, donated, self.options))
        return found or self._executable(jaxpr, device, name, donated, self.options, watcher)

    def watched(self, watcher: Watcher) -> Executor:
        """This executor, which tells the watcher how programs are lowered."""

        def run(jaxpr: Jaxpr, args: Sequence[ConcreteValue], name: str) -> tuple[ConcreteValue, ...]:
            return self.executable(jaxpr, args, name, watcher=watcher)(args, name)

        return run

    def compile(
        self, jaxpr: Jaxpr, name: str, donated: tuple[bool, ...] = (), options: Options | None = None
    ) -> Compiled:
        """The compiled program, for jax's default device. The same cache as a call's."""
        chosen = self.options if options is None else options
        return Compiled(jaxpr, name, self._executable(jaxpr, _default_device()(), name, donated, chosen))

    def _executable(
        self,
        jaxpr: Jaxpr,
        device: Device,
        name: str,
        donated: tuple[bool, ...],
        options: Options,
        watcher: Watcher | None = None,
    ) -> Executable:
        def compile_now() -> Executable:
            from tinyjax.backend.executable import compile_text
            from tinyjax.hlo.lowering import lower_module

            module = lower_module(jaxpr, platform=device.platform, name=name, donated=donated, watcher=watcher)
            return compile_text(
                module.text,
                name,
                jaxpr.in_avals,
                jaxpr.out_avals,
                device,
                donated,
                options,
                module.host_calls,
                self.persistent,
            )

        return self._cache.get_or_make((jaxpr, device, donated, options), compile_now)

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


@lru_cache(maxsize=1)
def _default_device() -> Callable[[], Device]:
    from tinyjax.backend.devices import default_device

    return default_device


#: The executor of the root context.
execute: Final = XlaExecutor(persistent=cache_from_environment())
register(execute.cache)


def compile_program(program: Jaxpr, name: str, donated: tuple[bool, ...] = ()) -> Compiled:
    """The compiled program, from the same cache as `execute`'s."""
    return execute.compile(program, name, donated)
