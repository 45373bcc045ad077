"""Forward-mode differentiation: values are pairs of a primal and a tangent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar, final

from attrs import frozen
from typing_extensions import override

from tinyjax.ir import contracts
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.primitive import Primitive, Zero
from tinyjax.ir.program import Literal
from tinyjax.ir.roles import Customised, Foreign, Origin
from tinyjax.ir.slots import made_by_slots
from tinyjax.ir.source import SourceCursor
from tinyjax.ir.value import ConcreteValue

V = TypeVar("V")


@final
@made_by_slots
@frozen
class Dual(Generic[V]):
    """A primal and its tangent."""

    primal: V
    tangent: V | Zero


@final
class JvpContext(Context[Dual[V]]):
    """Applies each primitive's `jvp` on the parent. Where no tangent flows, the primitive itself."""

    __slots__ = ("cursor", "parent")

    def __init__(self, parent: Context[V]) -> None:
        self.parent: Context[V] = parent
        self.cursor: SourceCursor = parent.cursor.within("jvp")

    @override
    def bind(self, primitive: Primitive, *args: Dual[V]) -> tuple[Dual[V], ...]:
        parent = self.parent
        for arg in args:
            if not isinstance(arg.tangent, Zero):
                break
        else:
            return tuple(map(self.pure, parent.bind(primitive, *[arg.primal for arg in args])))
        primals: Sequence[V] = [arg.primal for arg in args]
        tangents: Sequence[V | Zero] = [arg.tangent for arg in args]
        primals, tangents = contracts.jvp(primitive, parent, primals, tangents)
        return tuple(map(Dual, primals, tangents))

    def pure(self, primal: V) -> Dual[V]:
        """A value of the parent, with no tangent."""
        return Dual(primal, Zero(self.parent.aval(primal).tangent))

    @override
    def constant(self, value: ConcreteValue | Literal) -> Dual[V]:
        return self.pure(self.parent.constant(value))

    @override
    def aval(self, value: Dual[V]) -> ShapedArray:
        return self.parent.aval(value.primal)

    @override
    def holds(self, value: object) -> bool:
        if not isinstance(value, Dual) or not self.parent.holds(value.primal):
            return False
        return isinstance(value.tangent, Zero) or self.parent.holds(value.tangent)

    @override
    def lift(self, value: Foreign) -> Dual[V]:
        return self.pure(value.into(self.parent))

    @override
    def concrete(self, value: Dual[V]) -> ConcreteValue | None:
        return self.parent.concrete(value.primal)

    @override
    def carries_tangent(self, value: Dual[V]) -> bool:
        return not isinstance(value.tangent, Zero) or self.parent.carries_tangent(value.primal)

    @override
    def call_custom(self, function: Customised, args: Sequence[Dual[V]]) -> Sequence[Dual[V]] | None:
        primals = [arg.primal for arg in args]
        if all(isinstance(arg.tangent, Zero) for arg in args):
            outs = self.parent.call_custom(function, primals)
            return None if outs is None else list(map(self.pure, outs))
        results, tangents = function.jvp(self.parent, primals, [arg.tangent for arg in args])
        return [Dual(result, tangent) for result, tangent in zip(results, tangents, strict=True)]

    @override
    def origin(self, value: Dual[V]) -> Origin:
        return self.parent.origin(value.primal)

    @override
    def rule_of(self, primitive: Primitive, args: Sequence[Dual[V]]) -> str:
        return "" if all(isinstance(arg.tangent, Zero) for arg in args) else "jvp"

    @override
    def shown(self, value: Dual[V]) -> str:
        tangent = "0" if isinstance(value.tangent, Zero) else self.parent.shown(value.tangent)
        return f"dual({self.parent.shown(value.primal)}, {tangent})"
