"""Eager operations on small arrays of a CPU device: NumPy takes a third of the time of a launch.

What is computed so belongs to the device all the same, and is put there when something needs it there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

from tinyjax import backend
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.value import set_writeable
from tinyjax.prepared.runners import HostRunner
from tinyjax.prepared.stored_array import StoredArray, of_near
from tinyjax.primitives.elementwise import Elementwise
from tinyjax.primitives.structure import Reduction

E = TypeVar("E", bound=StoredArray)

#: What NumPy computes in one step of its own, besides elementwise operations and reductions; by name, so that none is
#: loaded for this. Gathers, scatters, or convolutions are XLA's on a device, and so is the sorting of several arrays at
#: once, which is no one step and has no kernel.
_QUICK: Final = frozenset(
    {
        "argmax",
        "argmin",
        "broadcast_in_dim",
        "concatenate",
        "cumprod",
        "cumsum",
        "dot_general",
        "reshape",
        "rev",
        "slice",
        "sort",
        "squeeze",
        "stack",
        "transpose",
    }
)
#: The most steps of a function that take less time than a launch.
_STEPS: Final = 3


def is_quick(primitives: Sequence[Primitive], avals: Sequence[ShapedArray]) -> bool:
    """Whether NumPy computes these primitives, which have results of these types, in less time than a launch takes."""
    return (
        len(primitives) <= _STEPS
        and all(primitive.plain and _one_step(primitive) for primitive in primitives)
        and all(aval.size <= backend.LARGEST for aval in avals)
    )


def _one_step(primitive: Primitive) -> bool:
    return isinstance(primitive, Elementwise | Reduction) or primitive.name in _QUICK


def compute(runner: HostRunner, arrays: Sequence[StoredArray], kind: type[E]) -> list[E] | None:
    """The results for arrays of which some are on a CPU device; None if their elements can't be read there, or they are
    on different devices."""
    host: list[HostArray] = []
    found: backend.Nearby | None = None
    alone = True
    for x in arrays:
        elements = x.host
        if elements is None:
            near = x.near
            if near is None or (elements := near.elements) is None:
                return None
            if found is not None and near.device is not found.device:
                return None
            if (buffer := x.buffer) is not None and buffer.is_deleted():
                return None
            found = near
        else:
            alone = False
        host.append(elements)
    if found is None or not (alone or backend.is_default(found.device)):
        return None
    return [of_near(kind, _apart(out), aval, found) for out, aval in runner.results(host)]


def _apart(elements: HostArray) -> HostArray:
    """Elements in memory of their own, as that of an operand may be given away."""
    if elements.base is None:
        return elements
    elements = elements.copy()
    set_writeable(elements, False)
    return elements
