"""jaxlib's dispatcher: arrays of the host to the device, the run, and the results, in one step of C++.

For arrays on the device the plain way in `Executable.launch` is as fast. This one saves the way through Python for each
array that isn't there yet. Imports jaxlib, and jax when the first is made: to be imported at first need.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from jaxlib import _jax

from tinyjax.backend.buffers import RawBuffer
from tinyjax.backend.devices import sharding_of
from tinyjax.ir.dtypes import HostArray

if TYPE_CHECKING:
    from jax._src.core import ShapedArray as JaxShapedArray

    from tinyjax.backend.devices import JaxType

#: What a program is run on: arrays of its device, and arrays of the host that nobody writes to any more.
Argument: TypeAlias = "RawBuffer | HostArray"

#: The ways in which jax's settings and its spellings of array types let one signature differ.
_SIGNATURES: Final = 64

Results: TypeAlias = "Sequence[RawBuffer]"
#: One compiled program, run on arguments of the types that it was compiled for.
Dispatcher: TypeAlias = Callable[..., Results]


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
    from jax._src import config
    from jax._src.interpreters import pxla
    from jax.tree_util import tree_structure

    x64 = config.enable_x64
    sharding = sharding_of(device)
    outs = len(out_types)
    try:
        program = pxla.MeshExecutableFastpathData(
            xla_executable=loaded,
            out_pytree_def=tree_structure([0] * outs),
            in_shardings=[sharding] * arity,
            out_shardings=[sharding] * outs,
            out_avals=cast("Sequence[JaxShapedArray]", out_types),
            out_committed=[False] * outs,
            kept_var_bitvec=[True] * arity,
            in_device_local_layouts=[None] * arity,
            const_args=(),
        )

        def first(*args: Argument) -> tuple[Results, object, bool]:
            return plain(*args), program, False

        cache = _jax.PjitFunctionCache(_SIGNATURES)
        registry = _jax.pytree.default_registry()
        run = _jax.pjit("tinyjax", plain, first, (), (), object(), registry, pxla.cc_shard_arg, cache)
    except (AttributeError, TypeError):
        return plain  # these are no public names of jax's, and may change

    if not wide:
        return run

    def dispatch(*args: Argument) -> Results:
        if x64.value:
            return run(*args)
        before = x64.get_local()  # by itself: what `swap_local` returns is lost if an interrupt comes with it
        try:
            x64.swap_local(True)  # or arrays of 64 bits would lose half of them on their way
            return run(*args)
        finally:
            x64.swap_local(before)

    return dispatch
