"""Arrays that are spelled out within a program."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.value import ConcreteValue


@final
@frozen
class Constant(Primitive):
    """No inputs, and one output: an array. Rules that need an array of numbers within a program bind this."""

    value: ConcreteValue
    name: ClassVar[str] = "constant"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return (self.value.aval,)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        return (np.asarray(self.value.data),)
