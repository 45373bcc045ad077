"""Python functions that programs of JAX call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final, get_args

import numpy as np
from attrs import field, frozen
from jax.extend.core import JaxprEqn
from typing_extensions import override

from tinyjax.backend import jax_equations
from tinyjax.control.callbacks import DebugCallback, HostFunction, IOCallback, PureCallback, VmapMethod
from tinyjax.errors import UnsupportedError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.primitive import Primitive


@final
@frozen
class JaxCallback(HostFunction):
    """A function that JAX calls with the leaves of its arguments."""

    function: Callable[..., object] = field(eq=id)

    @override
    def __call__(self, *args: HostArray) -> Sequence[object]:
        outs = self.function(*args)
        if outs is None:
            return []
        return [np.asarray(out) for out in outs] if isinstance(outs, tuple | list) else [np.asarray(outs)]

    @override
    def __str__(self) -> str:
        called = getattr(self.function, "callback_func", self.function)
        return f"jax({getattr(called, '__name__', type(called).__name__)})"


def vmap_method(name: object) -> VmapMethod | None:
    """How JAX maps a callback. The way of old, which goes by no name, is no way here."""
    if name is None:
        return None
    found = next((method for method in get_args(VmapMethod) if method == name), None)
    if found is not None:
        method: VmapMethod = found
        return method
    raise UnsupportedError(f"vmap_method={name!r}")


def calling_host(eqn: JaxprEqn, results: tuple[ShapedArray, ...]) -> Primitive:
    """The callback that an equation is."""
    name, params = eqn.primitive.name, eqn.params
    function = JaxCallback(jax_equations.printing(eqn) if name == "debug_print" else params["callback"])
    if name == "pure_callback":
        return PureCallback(function, results, vmap_method(params["vmap_method"]))
    if name == "io_callback":
        return IOCallback(function, results, bool(params["ordered"]))
    return DebugCallback(function, results)
