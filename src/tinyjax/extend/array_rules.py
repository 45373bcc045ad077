"""Rules written with arrays: `t * tnp.cos(x)` instead of primitives bound on a context."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias, TypeVar, final, overload

from attrs import frozen
from typing_extensions import override

from tinyjax.api.rules.frames import closed_context
from tinyjax.arrays.elementwise import convert
from tinyjax.errors import InputError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import FLOAT0
from tinyjax.ir.primitive import BatchAxis, Outputs, Primitive, UndefPrimal, Zero
from tinyjax.primitives.structure import instantiate
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import active_frame, as_array
from tinyjax.tracing.frames import OpenFrame
from tinyjax.tracing.functions import float0_zeros
from tinyjax.tracing.live import LiveFrame

V = TypeVar("V")
R = TypeVar("R")

#: What a rule returns: an array for the only output, or a sequence with an array for each.
Results: TypeAlias = ArrayLike | Sequence[ArrayLike]


@final
@frozen
class _Rule:
    """A rule while it runs, for messages."""

    label: str

    def name_input(self, position: int) -> str:
        return f"operand {position}"


@overload
def run_in(ctx: Context[V], function: Callable[[Array], Results], x: V, /) -> list[V]: ...
@overload
def run_in(ctx: Context[V], function: Callable[[Array, Array], Results], x: V, y: V, /) -> list[V]: ...
@overload
def run_in(ctx: Context[V], function: Callable[[Array, Array, Array], Results], x: V, y: V, z: V, /) -> list[V]: ...
@overload
def run_in(ctx: Context[V], function: Callable[..., Results], /, *args: V) -> list[V]: ...
def run_in(ctx: Context[V], function: Callable[..., Results], /, *args: V) -> list[V]:
    """Runs a function of arrays in a context: on arrays that stand for values of it. Returns the values of the results.

    For rules of primitives, tables and interpreters, which get a context and values: the function may use operators,
    `tinyjax.numpy`, transformations, and Python's control flow where the context knows the elements. It should depend
    on nothing else than its arguments and constants.

    >>> import tinyjax.numpy as tnp
    >>> from tinyjax.interpreters import JvpContext, Dual, EvalContext
    >>> two, one = (EvalContext().constant(as_array(x).value) for x in (2.0, 1.0))
    >>> (y,) = run_in(JvpContext(EvalContext()), lambda x: x * x if x > 0 else x, Dual(two, one))
    >>> float(y.primal.data), float(y.tangent.data)
    (4.0, 4.0)
    """
    with _frame(ctx, getattr(function, "__qualname__", "a rule")) as frame, frame:
        return [frame.read(x) for x in _arrays(function(*map(frame.wrap, args)))]


def _frame(ctx: Context[V], name: str) -> LiveFrame[V]:
    return LiveFrame(closed_context(ctx), active_frame(), _Rule(name), constants=True)


def _arrays(results: object) -> list[Array]:
    """The results of a rule, one or several."""
    return list(map(as_array, results)) if isinstance(results, tuple | list) else [as_array(results)]


def _derived(frame: OpenFrame[V], derivative: ArrayLike | Zero, aval: ShapedArray) -> V | Zero:
    """A tangent or cotangent of this type, of which a weakly typed one takes the dtype; integers have none."""
    if isinstance(derivative, Zero) or aval.dtype == FLOAT0:
        return Zero(aval)
    x = as_array(derivative)
    found = x.aval
    if found.weak_type and found.dtype != aval.dtype and found.shape == aval.shape:
        x = convert(x, aval.dtype)
    return frame.read(x)


@frozen
class ArrayPrimitive(Primitive):
    """A primitive whose rules are written with arrays. Subclass it as a frozen attrs class.

    Instead of `jvp`, `batch` and `transpose`, define `jvp_arrays`, `batch_arrays` and `transpose_arrays`, as far as
    they are needed: they get arrays in the place of values of a context, and no context. A rule may compute with
    operators, `tinyjax.numpy` and other primitives, and branch in Python on what is known. It works in every nesting of
    transformations, like a rule that binds primitives on a context does, with which it may be mixed.

    >>> import numpy as np
    >>> import tinyjax as tj
    >>> import tinyjax.numpy as tnp
    >>> from tinyjax.extend import bind
    >>> class Sine(ArrayPrimitive):
    ...     name = "sine"
    ...
    ...     def type_of(self, x):
    ...         return (x,)
    ...
    ...     def evaluate(self, x):
    ...         return (np.sin(x),)
    ...
    ...     def jvp_arrays(self, primals, tangents):
    ...         (x,), (t,) = primals, tangents
    ...         return bind(self, x), t * tnp.cos(x)
    >>> tj.grad(tj.grad(lambda x: bind(Sine(), x)[0]))(2.0)
    Array(-0.90929743, dtype=float64, weak_type=True)
    """

    #: Whether rules get tangents and cotangents that are known to be zero as `Zero`, instead of as arrays of zeros.
    symbolic_zeros: ClassVar[bool] = False

    # Tangents and cotangents are `Array`; with symbolic_zeros, `Array | Zero`. To type checkers `Any` is either: a rule
    # says which it takes.

    def jvp_arrays(
        self, primals: Sequence[Array], tangents: Sequence[Any], /
    ) -> tuple[Results, ArrayLike | Zero | Sequence[ArrayLike | Zero]]:
        """The outputs, and their tangents: an array, or a sequence of arrays or Zero with one for each output."""
        raise self._missing("Differentiation rule", "jvp_arrays")

    def batch_arrays(
        self, axis: BatchAxis, args: Sequence[Array], axes: Sequence[int | None], /
    ) -> tuple[Results, int | Sequence[int | None] | None]:
        """The outputs, and the position of the mapped axis in each, for arguments that have it at `axes[i]` (None: not
        mapped)."""
        raise self._missing("Batching rule", "batch_arrays")

    def transpose_arrays(
        self, cotangents: Sequence[Any], args: Sequence[Array | UndefPrimal], /
    ) -> Sequence[ArrayLike | Zero | None]:
        """The cotangents of the arguments that are UndefPrimal; None for the others."""
        raise self._missing("Transpose rule (for reverse-mode differentiation)", "transpose_arrays")

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        with _frame(ctx, f"the derivative rule of {self.name!r}") as frame, frame:
            given = [self._given(frame, t) for t in tangents]
            outs, found = self.jvp_arrays(list(map(frame.wrap, primals)), given)
            arrays = _arrays(outs)
            results = [frame.read(out) for out in arrays]
            derived = found if isinstance(found, tuple | list) else [found]
            if len(derived) != len(arrays):
                raise InputError(
                    f"the derivative rule of {self.name!r} returns {len(arrays)} outputs and {len(derived)} tangents"
                )
            taken: list[V | Zero] = []
            for t, out in zip(derived, arrays, strict=True):
                tangent = _derived(frame, t, out.aval.tangent)
                taken.append(tangent)
        return results, taken

    def _given(self, frame: LiveFrame[V], tangent: V | Zero) -> Array | Zero:
        if not isinstance(tangent, Zero):
            return frame.wrap(tangent)
        if self.symbolic_zeros:
            return tangent
        if tangent.aval.dtype == FLOAT0:
            return float0_zeros(tangent.aval.shape)
        return frame.wrap(instantiate(frame.context, tangent))

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        with _frame(ctx, f"the batching rule of {self.name!r}") as frame, frame:
            outs, found = self.batch_arrays(axis, list(map(frame.wrap, args)), axes)
            results = [frame.read(out) for out in _arrays(outs)]
        return results, [found] if found is None or isinstance(found, int) else found

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        with _frame(ctx, f"the transposition rule of {self.name!r}") as frame, frame:
            given = [self._given(frame, ct) for ct in cotangents]
            operands = [x if isinstance(x, UndefPrimal) else frame.wrap(x) for x in args]
            found = self.transpose_arrays(given, operands)
            if len(found) != len(args):
                raise InputError(
                    f"the transposition rule of {self.name!r} returns {len(found)} cotangents for {len(args)} operands"
                )
            results: list[V | Zero | None] = []
            for x, ct in zip(args, found, strict=True):
                if ct is None or not isinstance(x, UndefPrimal):
                    results.append(None)
                else:
                    cotangent = _derived(frame, ct, x.aval.tangent)
                    results.append(cotangent)
        return results
