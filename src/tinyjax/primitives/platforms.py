"""Which platform a program runs on, as a value of the program."""

from __future__ import annotations

from typing import ClassVar, TypeAlias, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.errors import UnsupportedError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import INT32, HostArray
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives.structure import check_arity

#: Groups of platforms, by the names that JAX has for them. The last group may be None, for all others.
Platforms: TypeAlias = tuple[tuple[str, ...] | None, ...]


@final
@frozen
class PlatformIndex(Primitive):
    """The position of the group that has the platform which the program runs on. It is known when the program is
    lowered; the host counts as "cpu".

    >>> PlatformIndex((("cuda", "rocm"), None)).position("cpu")
    1
    """

    platforms: Platforms
    name: ClassVar[str] = "platform_index"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 0)
        return (array_type((), INT32),)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        return (np.asarray(self.position("cpu"), INT32),)

    def position(self, *names: str) -> int:
        """The group that has one of these names, or the one for all others; an UnsupportedError if there is none."""
        groups = [group for group in self.platforms if group is not None]
        for i, group in enumerate(groups):
            if any(name in group for name in names):
                return i
        if None in self.platforms:
            return self.platforms.index(None)
        known = ", ".join(name for group in groups for name in group)
        raise UnsupportedError(
            f"platform_dependent has nothing for the platform {names[0]!r}, only for {known}. Add a function of the "
            f"name `{names[0]}`, or a `default`."
        )
