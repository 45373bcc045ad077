"""jaxlib's dispatcher: arrays of the host to the device, the run, and the results, in one step of C++.

For arrays on the device the plain way in `Executable.launch` is as fast. This one saves the way through Python for each
array that isn't there yet. Imports jaxlib: to be imported at first need.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from jaxlib import _jax

from tinyjax.backend.buffers import RawBuffer
from tinyjax.backend.devices import sharding_of
from tinyjax.backend.early import EARLY, without_jax
from tinyjax.ir.dtypes import HostArray

if TYPE_CHECKING:
    from tinyjax.backend.devices import JaxType

#: What a program is run on: arrays of its device, and arrays of the host that nobody writes to any more.
Argument: TypeAlias = "RawBuffer | HostArray"

#: The ways in which jax's settings and its spellings of array types let one signature differ.
_SIGNATURES: Final = 64

Results: TypeAlias = "Sequence[RawBuffer]"
#: One compiled program, run on arguments of the types that it was compiled for.
Dispatcher: TypeAlias = Callable[..., Results]


class _Program(NamedTuple):
    """What the dispatcher runs, as jax says it too: the names are jaxlib's."""

    xla_executable: _jax.LoadedExecutable
    out_pytree_def: _jax.pytree.PyTreeDef
    in_shardings: Sequence[object]
    out_shardings: Sequence[object]
    out_avals: Sequence[JaxType]
    out_committed: Sequence[bool]
    kept_var_bitvec: Sequence[bool]
    in_device_local_layouts: Sequence[None]
    const_args: Sequence[RawBuffer] = ()


def dispatcher(
    loaded: _jax.LoadedExecutable,
    device: _jax.Device,
    arity: int,
    out_types: Sequence[JaxType],
    wide: bool,
    plain: Dispatcher,
) -> Dispatcher:
    """The calls of a compiled program; `plain` where this jaxlib has no such dispatcher.

    `wide`: some arguments have 64 bits. `plain` runs the program too, and is asked for the results of signatures that
    haven't been seen yet.
    """
    sharding, outs = sharding_of(device), len(out_types)
    registry = _jax.pytree.default_registry()
    fields = _Program(
        loaded,
        registry.flatten([0] * outs)[1],
        [sharding] * arity,
        [sharding] * outs,
        out_types,
        [False] * outs,
        [True] * arity,
        [None] * arity,
    )

    def made(program: tuple[object, ...], shard_arg: Callable[..., object]) -> Dispatcher:
        def first(*args: Argument) -> tuple[Results, object, bool]:
            return plain(*args), program, False

        cache = _jax.PjitFunctionCache(_SIGNATURES)
        return _jax.pjit("tinyjax", plain, first, (), (), object(), registry, shard_arg, cache)

    def with_jax() -> Dispatcher:
        from jax._src.interpreters import pxla

        try:
            run = made(pxla.MeshExecutableFastpathData(**fields._asdict()), pxla.cc_shard_arg)
        except (AttributeError, TypeError):
            return plain  # these are no public names of jax's, and may change
        return _with_64_bits(run) if wide else run

    if not without_jax():
        return with_jax()
    try:
        EARLY.answer_dispatchers()
        alone = made(fields, _refuse)
    except (AttributeError, TypeError):
        return plain
    later: Dispatcher | None = None

    def until_jax(*args: Argument) -> Results:
        nonlocal later
        if "jax" not in sys.modules:
            return alone(*args)
        later = later or with_jax()
        return later(*args)

    return until_jax


def _refuse(*args: object) -> object:
    raise TypeError(f"no array of the host or of the device: {args}")


def _with_64_bits(run: Dispatcher) -> Dispatcher:
    """The same calls, for which jax is told to keep 64 bits: or arrays would lose half of them on their way."""
    from jax._src import config

    x64 = config.enable_x64

    def dispatch(*args: Argument) -> Results:
        if x64.value:
            return run(*args)
        before = x64.get_local()  # by itself: what `swap_local` returns is lost if an interrupt comes with it
        try:
            x64.swap_local(True)
            return run(*args)
        finally:
            x64.swap_local(before)

    return dispatch
