"""Where backward passes add the cotangents of arguments to: the names of `jax.experimental.hijax`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, final

from typing_extensions import override

from tinyjax.arrays.arithmetic import add
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.primitive import Zero
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array


class GradAccum(ABC):
    """What stands for an argument in a backward pass: `accum(ct)` adds to its cotangent."""

    aval: ShapedArray

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    @abstractmethod
    def accum(self, x: ArrayLike | Zero | None) -> None:
        """Adds this; None and Zero are nothing."""


@final
class ValAccum(GradAccum):
    """Adds up arrays."""

    total: Array | None = None

    @override
    def accum(self, x: ArrayLike | Zero | None) -> None:
        if x is None or isinstance(x, Zero):
            return
        self.total = as_array(x) if self.total is None else add(self.total, as_array(x))


@final
class NullAccum(GradAccum):
    """For an argument that isn't differentiated with respect to: nothing is added."""

    @override
    def accum(self, x: ArrayLike | Zero | None) -> None:
        return


def sums_of(args: Sequence[object]) -> list[Any]:  # arrays, Zero or None
    """What has been added up for each operand, in the places of accumulators; None for the other operands."""
    return [(Zero(x.aval) if x.total is None else x.total) if isinstance(x, ValAccum) else None for x in args]
