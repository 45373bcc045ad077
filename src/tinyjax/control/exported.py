"""`call_exported`: calls of functions of which only the StableHLO is known, as another process has written it down.

JAX's exported functions become these. Their derivatives are other exported functions, which whoever has them puts
around the call as a custom rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar, final

from attrs import frozen
from typing_extensions import override

from tinyjax.control.compiled_only import CompiledOnly
from tinyjax.control.one_by_one import one_by_one
from tinyjax.errors import LoweringError, TypingError, UnsupportedError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.primitive import BatchAxis
from tinyjax.ir.type_lists import listed

V = TypeVar("V")


@final
@frozen
class ForeignModule:
    """Functions of StableHLO, as text, and which of them is called. Their names are found in no other module."""

    #: What the text is for, in JAX's words: "cpu", "cuda", …
    platforms: tuple[str, ...]
    function: str
    text: str


@final
@frozen
class CallExported(CompiledOnly):
    """Calls a function that is given as StableHLO, in a module for each of the platforms that it was exported for.

    It is compiled as a part of the program around it. `vmap` calls it for one element after the other.
    """

    function_name: str
    modules: tuple[ForeignModule, ...]
    operand_avals: tuple[ShapedArray, ...]
    result_avals: tuple[ShapedArray, ...]
    name: ClassVar[str] = "call_exported"

    def module_for(self, platforms: Sequence[str]) -> ForeignModule:
        """The module for one of the platforms; a LoweringError if there is none."""
        for module in self.modules:
            if any(platform in module.platforms for platform in platforms):
                return module
        known = ", ".join(name for module in self.modules for name in module.platforms)
        raise LoweringError(
            f"the function {self.function_name!r} was exported for {known}, but is compiled for {platforms[0]}. Export "
            "it for that platform, too."
        )

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        given = [(aval.shape, aval.dtype) for aval in avals]
        if given != [(aval.shape, aval.dtype) for aval in self.operand_avals]:
            raise TypingError(
                f"the exported function {self.function_name!r} takes {listed(self.operand_avals)}, got {listed(avals)}"
            )
        return self.result_avals

    @property
    @override
    def called(self) -> str:
        return self.function_name

    @override
    def not_differentiable(self) -> UnsupportedError:
        return UnsupportedError(
            f"the exported function {self.function_name!r} is StableHLO, which isn't differentiated. Export it with "
            "its derivative, by `serialize(vjp_order=1)` (2 for second derivatives), and call it by the record's "
            "`call`; or call it within a function that has a derivative of its own: `tinyjax.custom_vjp` or "
            "`tinyjax.custom_jvp`."
        )

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        return one_by_one(self, ctx, axis, args, axes)
