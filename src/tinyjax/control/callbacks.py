"""Callbacks: primitives that call a Python function on the host, also from within compiled programs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal, TypeAlias, TypeVar, final

import numpy as np
from attrs import evolve, frozen
from typing_extensions import override

from tinyjax.control.one_by_one import leading
from tinyjax.errors import CallbackError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import HostArray, numbers_of
from tinyjax.ir.effects import Effect, Effects
from tinyjax.ir.parameters import Opaque
from tinyjax.ir.primitive import BatchAxis, Outputs, Primitive, UndefPrimal, Zero
from tinyjax.ir.roles import Evaluator
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.structure import move_axis
from tinyjax.transforms.batch import add_axis

V = TypeVar("V")

#: How `vmap` maps a pure callback: element by element, or in one call on arrays with one more axis in front, which is
#: of size 1 where an argument isn't mapped ("expand_dims"), of full size everywhere ("broadcast_all"), or only where
#: an argument is mapped ("legacy_vectorized").
VmapMethod: TypeAlias = Literal[
    "sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized"
]


@final
@frozen
class IOEffect(Effect):
    """The program reads or changes something outside of it."""

    @override
    def __str__(self) -> str:
        return "IO"


@final
@frozen
class DebugEffect(Effect):
    """The program shows what it computes."""

    @override
    def __str__(self) -> str:
        return "Debug"


_IO: Effects = frozenset({IOEffect()})
_DEBUG: Effects = frozenset({DebugEffect()})


@frozen
class HostFunction(Opaque):
    """What a callback calls: NumPy arrays in, a list of arrays out."""

    @abstractmethod
    def __call__(self, *args: HostArray) -> Sequence[object]: ...


@final
@frozen
class Sequential(HostFunction):
    """A function that calls another one for each element of the leading axis of the arguments that are mapped.

    `results` are the types of the results of one call.
    """

    function: HostFunction
    mapped: tuple[bool, ...]
    size: int
    results: tuple[ShapedArray, ...]

    @override
    def __call__(self, *args: HostArray) -> Sequence[object]:
        stacked = [np.zeros((self.size, *aval.shape), aval.dtype) for aval in self.results]
        for i in range(self.size):
            row = [arg[i] if mapped else arg for arg, mapped in zip(args, self.mapped, strict=True)]
            outs = checked_results(self.function, self.function(*map(np.asarray, row)), self.results)
            for rows, out in zip(stacked, outs, strict=True):
                rows[i] = out
        return stacked

    @override
    def __str__(self) -> str:
        return f"sequential({self.function}, {self.size})"


def checked_results(
    function: HostFunction, outs: Sequence[object], avals: Sequence[ShapedArray]
) -> tuple[HostArray, ...]:
    """The results of a callback as arrays of these types; a CallbackError if they aren't."""
    if len(outs) != len(avals):
        raise CallbackError(f"the callback {function} must return {len(avals)} arrays, returned {len(outs)}")
    arrays = [np.asarray(out) for out in outs]
    for i, (array, aval) in enumerate(zip(arrays, avals, strict=True)):
        # A Python number has no dtype of its own.
        fits = array.dtype == aval.dtype or (isinstance(outs[i], int | float | complex) and array.shape == ())
        if array.shape != aval.shape or not fits:
            raise CallbackError(
                f"the callback {function} must return an array of type {aval} as result {i}, as `result_shape_dtypes` "
                f"says; it returned one of shape {array.shape} and dtype {array.dtype}"
            )
    return tuple(np.asarray(array, aval.dtype) for array, aval in zip(arrays, avals, strict=True))


@frozen
class Callback(Primitive):
    """Calls a Python function, which gets NumPy arrays that can't be written to; of keys, their words."""

    function: HostFunction
    results: tuple[ShapedArray, ...]

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return self.results

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        views = [numbers_of(arg).view() for arg in args]
        for view in views:
            view.flags.writeable = False
        return checked_results(self.function, self.function(*views), self.results)

    @override
    def evaluate_with(self, evaluator: Evaluator, args: Sequence[ConcreteValue]) -> Sequence[ConcreteValue]:
        # On the host, wherever the arguments are. Results are copied: the function may keep what it returned.
        outs = self.evaluate(*[np.asarray(arg.data) for arg in args])
        return [
            ConcreteValue(out, aval).frozen_copy() if out.flags.writeable else ConcreteValue(out.copy(), aval)
            for out, aval in zip(outs, self.results, strict=True)
        ]

    def one_by_one(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        """A call for each element of the batch, in order. One equation, however large the batch is."""
        mapped = tuple(at is not None for at in axes)
        function = Sequential(self.function, mapped, axis.size, self.results)
        results = tuple(add_axis(aval, 0, axis.size) for aval in self.results)
        moved = [arg if at is None else move_axis(ctx, arg, at, 0) for arg, at in zip(args, axes, strict=True)]
        outs = ctx.bind(evolve(self, function=function, results=results), *moved)
        return outs, [0] * len(outs)


@final
@frozen
class PureCallback(Callback):
    """Calls a function without side effects: as often as the results are needed, and not if nothing reads them."""

    vmap_method: VmapMethod | None = None
    name: ClassVar[str] = "pure_callback"

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        raise CallbackError(
            "Pure callbacks do not support JVP. Please use `tinyjax.custom_jvp` to use callbacks while taking "
            "gradients."
        )

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        raise CallbackError(
            "Pure callbacks do not support transpose. Please use `tinyjax.custom_vjp` to use callbacks while taking "
            "gradients."
        )

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        method = self.vmap_method or ("sequential" if axis.mesh else None)  # devices call it, each for itself
        if method is None:
            raise CallbackError(
                f"vmap of the callback {self.function} needs to know how: pass pure_callback a `vmap_method`, one of "
                '"sequential", "expand_dims" and "broadcast_all"'
            )
        if method in ("sequential", "sequential_unrolled"):
            return self.one_by_one(ctx, axis, args, axes)
        moved = leading(ctx, args, axes, method, axis.size)
        results = tuple(add_axis(aval, 0, axis.size) for aval in self.results)
        outs = ctx.bind(evolve(self, results=results), *moved)
        return outs, [0] * len(outs)


@final
@frozen
class IOCallback(Callback):
    """Calls a function with side effects: once for each time the equation is run, in the order of the program.

    `ordered` says that this order matters, so that mapping the call isn't allowed.
    """

    ordered: bool = False
    name: ClassVar[str] = "io_callback"

    @property
    @override
    def effects(self) -> Effects:
        return _IO

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        raise CallbackError(
            "IO callbacks do not support JVP. Pass it `lax.stop_gradient` of the arguments if the results don't depend "
            "on them."
        )

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        raise CallbackError("IO callbacks do not support transpose.")

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        if self.ordered:
            raise CallbackError(
                "Cannot `vmap` ordered IO callback. With ordered=False it is called for one element after another."
            )
        return self.one_by_one(ctx, axis, args, axes)


@final
@frozen
class DebugCallback(Callback):
    """Calls a function that only looks at its arguments: their primals, and for a batch one element after another."""

    name: ClassVar[str] = "debug_callback"

    @property
    @override
    def effects(self) -> Effects:
        return _DEBUG

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        return ctx.bind(self, *primals), []

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        return [None] * len(args)

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        return self.one_by_one(ctx, axis, args, axes)
