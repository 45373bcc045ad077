"""Blocks in which nan or inf in a result is an error at once: `debug_nans` and `debug_infs`."""

from __future__ import annotations

from contextlib import AbstractContextManager, ContextDecorator
from typing import Final, final

from typing_extensions import override

from tinyjax import backend
from tinyjax.api.non_finite import Check, first_in
from tinyjax.contexts.evaluation import EvalContext
from tinyjax.errors import NonFiniteError
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.source import SourceCursor
from tinyjax.ir.traverse import subjaxprs
from tinyjax.ir.value import ConcreteValue
from tinyjax.tracebacks import filter_class
from tinyjax.tracing import tree
from tinyjax.tracing.concrete import ROOT, active_frame
from tinyjax.tracing.core import TraceFrame, activate
from tinyjax.tracing.frames import base_in_force, outwards
from tinyjax.tracing.functions import FlatFunction


@final
class _Watched(EvalContext):
    """Evaluation whose results are looked at. A compiled function has one result, whatever happens within."""

    __slots__ = ("check", "cursor")

    def __init__(self, check: Check) -> None:
        super().__init__(backend.execute)
        self.check: Final = check
        self.cursor: SourceCursor = SourceCursor()

    @override
    def bind(self, primitive: Primitive, *args: ConcreteValue) -> tuple[ConcreteValue, ...]:
        outs = super().bind(primitive, *args)
        kind = self.check.kind(outs)
        if kind is None:
            return outs
        found = first_in(self.check, lambda context: context.bind(primitive, *args))
        start = f"invalid value ({kind}) encountered in {primitive.name if found is None else found.primitive.name}"
        if found is None or (found.primitive == primitive and subjaxprs(primitive)):  # it only hands it on
            raise NonFiniteError(
                f"{start}, in a block of debug_{kind}s. No single operation on the host makes it: it is in an argument "
                "or in a constant, or only the compiled program computes it."
            )
        raise NonFiniteError(
            f"{start}{found.place}, in a block of debug_{kind}s: its result of type {found.outs[0].aval}{found.where}. "
            f"Keep such values away from it, say by tinyjax.numpy.where, or leave the block."
        )


def _in_force() -> tuple[bool, bool]:
    """Whether nans and infs are looked for."""
    for frame in outwards(active_frame()):
        if isinstance(frame, TraceFrame) and isinstance(frame.context, _Watched):
            return frame.context.check.nans, frame.context.check.infs
    return False, False


@final
@filter_class
class FiniteBlock(AbstractContextManager[None], ContextDecorator):
    """A block, or a decorator, in which results are looked at for one of the two, or no longer."""

    def __init__(self, infs: bool, wanted: bool) -> None:
        self._infs: Final = infs
        self._wanted: Final = wanted
        self._entered: Final[list[TraceFrame[ConcreteValue] | None]] = []

    @override
    def __enter__(self) -> None:
        nans, infs = before = _in_force()
        now = (nans, self._wanted) if self._infs else (self._wanted, infs)
        base = base_in_force(active_frame())
        evaluated = base is ROOT or (isinstance(base, TraceFrame) and isinstance(base.context, _Watched))
        if now == before or not evaluated:  # what is staged has no elements to look at
            self._entered.append(None)
            return
        name = "debug_infs" if self._infs else "debug_nans"
        context = _Watched(Check(name, FiniteBlock, *now))
        frame = activate(context, FlatFunction(FiniteBlock, name, tree.flatten(())[1]))
        frame.base = frame  # operations on constants are computed there, too
        self._entered.append(frame)
        frame.__enter__()

    @override
    def __exit__(self, *_: object) -> None:
        frame = self._entered.pop()
        if frame is not None:
            frame.__exit__()


@final
@filter_class
class FiniteCheck:
    """Has nan, or inf, in a result be an error where it is computed, in a `with` block or a decorated function.

    Operations are looked at one by one, also those of derivatives; of a compiled function its results, and if one of
    them is wrong the program is run once more, to say which operation within made it. Each look waits for the result.
    In this thread or task only, and only in the block; functions that are being traced in it have no elements to look
    at. `jit(f, debug_nans=True)` and `grad(f, debug_nans=True)` do the same for one function. Source: `jax.debug_nans`
    and `jax.debug_infs`.

    Raises:
      NonFiniteError: a FloatingPointError, with the operation, the line, and the operands.

    >>> import tinyjax as tj
    >>> import tinyjax.numpy as tnp
    >>> f = tj.jit(lambda x: tnp.sum(x / x))
    >>> try:
    ...     with tj.debug_nans(True):
    ...         f(tnp.arange(2.0))
    ... except FloatingPointError as error:
    ...     print(str(error).partition(" at ")[0])
    invalid value (nan) encountered in div
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name: Final = name

    def __call__(self, new_val: bool = True) -> FiniteBlock:
        """The block; with `False`, results within it are no longer looked at."""
        return FiniteBlock(self._name == "debug_infs", bool(new_val))

    @property
    def value(self) -> bool:
        """What holds here."""
        nans, infs = _in_force()
        return infs if self._name == "debug_infs" else nans

    @override
    def __repr__(self) -> str:
        return f"<{self._name}: {self.value!r}>"


debug_infs: Final = FiniteCheck("debug_infs")
debug_nans: Final = FiniteCheck("debug_nans")
