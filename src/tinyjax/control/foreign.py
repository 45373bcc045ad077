"""`ffi_call`: calls of compiled functions that XLA knows by a name, because somebody registered them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, TypeAlias, TypeVar, final

from attrs import evolve, frozen
from typing_extensions import override

from tinyjax.control.callbacks import VmapMethod
from tinyjax.control.compiled_only import CompiledOnly
from tinyjax.control.composite_call import Dictionary
from tinyjax.control.one_by_one import leading, one_by_one
from tinyjax.errors import CallbackError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.effects import NO_EFFECTS, Effect, Effects
from tinyjax.ir.primitive import BatchAxis
from tinyjax.transforms.batch import add_axis

V = TypeVar("V")

#: The axes of an array in memory, from the one whose neighbours are next to each other.
Order: TypeAlias = tuple[int, ...]


@final
@frozen
class FfiEffect(Effect):
    """The function does something besides computing its results."""

    @override
    def __str__(self) -> str:
        return "FFI"


_FFI: Effects = frozenset({FfiEffect()})
_NONE: Final = Dictionary(())


@final
@frozen
class FfiCall(CompiledOnly):
    """Calls a function that is registered with XLA. The parameters are those of JAX's primitive.

    Layouts have XLA's order of axes, not that of `ffi_call`; an alias is an operand and the result that may be in its
    place. Before version 4 calls had one string, `legacy_backend_config`, instead of attributes.
    """

    target_name: str
    result_avals: tuple[ShapedArray, ...]
    attributes: Dictionary = _NONE
    vmap_method: VmapMethod | None = None
    has_side_effect: bool = False
    input_layouts: tuple[Order, ...] = ()
    output_layouts: tuple[Order, ...] = ()
    input_output_aliases: tuple[tuple[int, int], ...] = ()
    custom_call_api_version: int = 4
    legacy_backend_config: str | None = None
    name: ClassVar[str] = "ffi_call"

    @property
    @override
    def effects(self) -> Effects:
        return _FFI if self.has_side_effect else NO_EFFECTS

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return self.result_avals

    @property
    @override
    def called(self) -> str:
        return self.target_name

    @override
    def not_differentiable(self) -> CallbackError:
        return CallbackError(
            f"The FFI call to `{self.target_name}` cannot be differentiated. Call it within a function that has a "
            "derivative of its own: `tinyjax.custom_jvp` or `tinyjax.custom_vjp`."
        )

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        method = self.vmap_method or ("sequential" if axis.mesh else None)  # devices call it, each for itself
        if method is None:
            raise CallbackError(
                f"vmap of the FFI call to `{self.target_name}` needs to know how: pass ffi_call a `vmap_method`, one "
                'of "sequential", "expand_dims" and "broadcast_all"'
            )
        if method in ("sequential", "sequential_unrolled"):
            return one_by_one(self, ctx, axis, args, axes)
        wide = leading(ctx, args, axes, method, axis.size)
        whole = evolve(
            self,
            result_avals=tuple([add_axis(aval, 0, axis.size) for aval in self.result_avals]),
            input_layouts=tuple([
                layout if method == "legacy_vectorized" and at is None else _outermost(layout)
                for layout, at in zip(self.input_layouts, axes, strict=True)
            ]),
            output_layouts=tuple(map(_outermost, self.output_layouts)),
        )  # fmt: skip
        outs = ctx.bind(whole, *wide)
        return outs, [0] * len(outs)


def _outermost(layout: Order) -> Order:
    """The layout of as many arrays, one after the other."""
    return (*[axis + 1 for axis in layout], 0)
