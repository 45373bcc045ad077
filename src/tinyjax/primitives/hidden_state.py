"""Random numbers of a generator whose state nobody sees: each time other ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, TypeVar, final

import numpy as np
from attrs import field, frozen
from typing_extensions import override

from tinyjax.errors import MissingRuleError, TypingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, INT32, INT64, UINT32, UINT64, HostArray
from tinyjax.ir.effects import Effect, Effects
from tinyjax.ir.primitive import BatchAxis, Outputs, Primitive, Zero
from tinyjax.ir.shapes import Shape, as_shape
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives.structure import check_arity, shape_error
from tinyjax.primitives.threefry import expect_dtype

V = TypeVar("V")
_INTEGERS: Final = frozenset({INT32, INT64, UINT32, UINT64})
#: With others, XLA's process ends.
_ACCEPTED: Final = _INTEGERS | {FLOAT16, BFLOAT16, FLOAT32, FLOAT64}


@final
@frozen
class RandomEffect(Effect):
    """The results depend on a state that the program doesn't hold, and change it.

    So an equation with this effect is never merged with an equal one, computed ahead, computed again or moved.
    """

    @override
    def __str__(self) -> str:
        return "Random"


_RANDOM: Final[Effects] = frozenset({RandomEffect()})


@final
@frozen
class RngUniform(Primitive):
    """Numbers of this shape from the interval [a, b), each time other ones: no function of the operands.

    `RandomEffect` says so to whatever reads programs. There is no seed; `random_bits` takes a key. Two integers that
    are equal stand for all numbers of the dtype.
    """

    shape: Shape = field(converter=as_shape)
    name: ClassVar[str] = "rng_uniform"

    @property
    @override
    def effects(self) -> Effects:
        return _RANDOM

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, 2)
        a, b = avals
        expect_dtype(self.name, a, _ACCEPTED)
        if a.dtype != b.dtype:
            raise TypingError(f"{self.name}: a and b have one dtype, got {a} and {b}")
        if a.shape or b.shape:
            raise shape_error(self.name, f"a and b are scalars, got {a} and {b}")
        return (array_type(self.shape, a.dtype, a.weak_type and b.weak_type),)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        a, b = args
        generator = np.random.default_rng()  # seeded by the system
        if a.dtype in _INTEGERS:
            low, every = int(a), 2 ** (8 * a.dtype.itemsize)
            bits = generator.integers(0, (int(b) - low) % every or every, self.shape, np.uint64)
            return (np.asarray(bits + np.uint64(low % 2**64), a.dtype),)
        with np.errstate(all="ignore"):
            part = generator.random(self.shape, np.float64 if a.dtype == FLOAT64 else np.float32)
            found = np.asarray(a + (b - a) * np.asarray(part, a.dtype), a.dtype)
            return (np.where((found == b) & (a < b) & np.isfinite(b), a, found),)  # what is rounded to b

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        raise self._refused("Differentiation", "a + (b - a) * lax.rng_uniform(0.0, 1.0, shape)")

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        raise self._refused("Batching", "u = lax.rng_uniform(0.0, 1.0, (n, *shape)) outside of vmap, and map u")

    def _refused(self, rule: str, instead: str) -> MissingRuleError:
        return MissingRuleError(
            f"{rule} rule for 'rng_uniform' not implemented: its numbers are no function of its bounds. Write "
            f"`{instead}`, or use tinyjax.random, whose functions take a key."
        )
