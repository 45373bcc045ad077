"""The forward rule of a function with a derivative of its own, which the function itself replaces where only its
results are read: `optimize_remat` of `custom_vjp`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar, final

from attrs import frozen
from typing_extensions import override

from tinyjax.control.call import Call, Calling
from tinyjax.control.program_types import check_program
from tinyjax.ir.context import Context
from tinyjax.ir.primitive import BatchAxis, Primitive
from tinyjax.ir.program import Jaxpr
from tinyjax.transforms.batch import batch

V = TypeVar("V")


@final
@frozen
class ForwardPass(Calling):
    """Applies `jaxpr`, whose first results are those of `function`, and whose others are residuals.

    Where no residual is read, as in the first of the two computations of a checkpoint, `dce` puts a call of `function`
    in its place. What it is transformed into is a call, but for batching.
    """

    function: Jaxpr
    name: ClassVar[str] = "forward_pass"

    @override
    def __attrs_post_init__(self) -> None:
        Primitive.__attrs_post_init__(self)
        outs = self.jaxpr.out_avals[: len(self.function.outvars)]
        check_program(self, "function", self.function, self.jaxpr.in_avals, outs)

    @property
    @override
    def applied_programs(self) -> tuple[Jaxpr, ...]:
        return (self.jaxpr,)

    @override
    def of(self, jaxpr: Jaxpr) -> Calling:
        return Call(self.function_name, jaxpr)

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        out_axes = [0] * len(self.jaxpr.outvars)
        forward = batch(self.jaxpr, axis, axes, out_axes).jaxpr
        function = batch(self.function, axis, axes, out_axes[: len(self.function.outvars)]).jaxpr
        return ctx.bind(ForwardPass(self.function_name, forward, function), *args), out_axes
