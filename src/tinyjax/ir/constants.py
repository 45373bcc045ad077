"""The constants of closed programs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np

from tinyjax.errors import InputError
from tinyjax.ir.dtypes import HostArray, Scalar
from tinyjax.ir.value import ConcreteValue


class WithElements(Protocol):
    """An array that may know its elements."""

    def concrete(self) -> ConcreteValue | None: ...


def constants(
    consts: Iterable[ConcreteValue | HostArray | np.generic | Scalar | WithElements],
) -> tuple[ConcreteValue, ...]:
    """The constants of a closed program, none of which can be written to through what was given."""
    if type(consts) is tuple and all(type(const) is ConcreteValue for const in consts):
        return consts
    values: list[ConcreteValue] = []
    for i, const in enumerate(consts):
        if isinstance(const, ConcreteValue):
            values.append(const)
        elif isinstance(const, np.ndarray | np.generic | bool | int | float | complex):
            values.append(ConcreteValue.of(const).frozen_copy())
        else:
            known = const.concrete() if hasattr(const, "concrete") else None
            if known is None:
                raise InputError(
                    f"constant {i} of a ClosedJaxpr is a {type(const).__name__}, {const!r}. Pass arrays with their "
                    "elements: a ConcreteValue, an Array, a NumPy array or a number."
                )
            values.append(known)
    return tuple(values)
