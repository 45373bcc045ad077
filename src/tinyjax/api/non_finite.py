"""`debug_nans` and `debug_infs`: where what isn't finite comes from.

Results are looked at when they are there. If something is wrong with one, the computation is run once more on the host,
one primitive after the other, to find the first that makes it. Nothing of this is there unless it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn, ParamSpec, TypedDict, TypeVar, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.contexts.evaluation import EvalContext
from tinyjax.errors import NonFiniteError, TinyjaxError
from tinyjax.ir.dtypes import INEXACT, HostArray
from tinyjax.ir.interpret import interpret
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.source import SourceCursor, SourceInfo
from tinyjax.ir.value import ConcreteValue
from tinyjax.tracebacks import filtered
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import ConcreteArray
from tinyjax.tracing.core import activate
from tinyjax.tracing.functions import FlatFunction, describe
from tinyjax.wrapping import wraps

P = ParamSpec("P")
R = TypeVar("R")


class Options(TypedDict, total=False):
    """What `grad` and `value_and_grad` take by keyword only."""

    debug_nans: bool
    debug_infs: bool
    reduce_axes: tuple[()]


@final
@frozen
class Check:
    """What results must not have, of which function under which transformation."""

    transformation: str
    fun: Callable[..., object]
    nans: bool
    infs: bool

    @staticmethod
    def asked(transformation: str, fun: Callable[..., object], nans: bool, infs: bool) -> Check | None:
        """None if nobody wants to know."""
        return Check(transformation, fun, nans, infs) if nans or infs else None

    def kind(self, values: Sequence[ConcreteValue]) -> str | None:
        """What is wrong with some values: nan or inf."""
        for value in values:
            if value.aval.dtype in INEXACT:
                data = np.asarray(value.data)
                if self.nans and np.isnan(data).any():
                    return "nan"
                if self.infs and np.isinf(data).any():
                    return "inf"
        return None

    def results(self, results: object, again: Callable[[EvalContext], object]) -> None:
        """A NonFiniteError if a result has what it must not have, as far as its elements are known. `again` computes
        them once more, in this context."""
        leaves = [leaf.concrete() for leaf in tree.flatten(results)[0] if isinstance(leaf, Array)]
        kind = self.kind([value for value in leaves if value is not None])
        if kind is None:
            return
        self.fail(kind, first_in(self, again))

    def fail(self, kind: str, found: FoundError | None) -> NoReturn:
        start = f"{describe(self.transformation, self.fun)} has {kind} in its result, and debug_{kind}s=True. "
        if found is None:
            raise NonFiniteError(
                f"{start}No single operation on the host makes it: it is in an argument, comes from values of a "
                "transformation further out, or only the compiled program computes it."
            )
        raise NonFiniteError(
            f"{start}The first operation that gives one is {found.primitive.name}{found.place}: its result of type "
            f"{found.outs[0].aval}{found.where}. Keep such values away from it, say by tinyjax.numpy.where, or call "
            f"the function without debug_{kind}s."
        )


@final
class FoundError(Exception):
    """The first primitive that gives what isn't finite."""

    def __init__(
        self,
        primitive: Primitive,
        source: SourceInfo | None,
        args: Sequence[ConcreteValue],
        outs: Sequence[ConcreteValue],
        wrong: Callable[[HostArray], HostArray],
    ) -> None:
        super().__init__(primitive)
        self.primitive: Final = primitive
        self.place: Final = "" if source is None else f" at {source}"
        bad = next(out for out in outs if out.aval.dtype in INEXACT and wrong(np.asarray(out.data)).any())
        self.outs: Final = (bad,)
        data = np.asarray(bad.data)
        index = tuple(np.argwhere(wrong(data))[0].tolist()) if data.shape else ()
        at = f" at index {list(index)}" if index else ""
        operands = [
            str(np.asarray(arg.data)[index if arg.aval.shape else ()])
            for arg in args
            if arg.aval.shape in ((), data.shape)
        ]
        of = f", of {' and '.join(operands)}" if operands and len(operands) == len(args) else ""
        self.where: Final = f" has {data[index]}{at}{of}"


@final
class _Checking(EvalContext):
    """Evaluation on the host that ends at the first primitive whose result isn't finite."""

    __slots__ = ("_check", "cursor")

    def __init__(self, check: Check) -> None:
        super().__init__()
        self._check = check
        self.cursor: SourceCursor = SourceCursor()

    @override
    def bind(self, primitive: Primitive, *args: ConcreteValue) -> tuple[ConcreteValue, ...]:
        source = self.cursor.current()
        outs = super().bind(primitive, *args)
        kind = self._check.kind(outs)
        if kind is not None:
            raise FoundError(primitive, source, args, outs, np.isnan if kind == "nan" else np.isinf)
        return outs


def first_in(check: Check, again: Callable[[EvalContext], object]) -> FoundError | None:
    """The first primitive that gives what isn't finite, in what is computed once more, in this context; None if none
    does that alone."""
    try:
        again(_Checking(check))
    except FoundError as where:
        return where
    except TinyjaxError:  # it needs what is known inside of another transformation only
        pass
    return None


def checked_program(check: Check, results: object, jaxpr: Jaxpr, inputs: Sequence[Array]) -> None:
    """The same for the results of a program on these arrays."""

    def again(context: EvalContext) -> object:
        values = [array.concrete() for array in inputs]
        known = [value for value in values if value is not None]
        return interpret(context, jaxpr, known) if len(known) == len(values) else None

    check.results(results, again)


def checked(check: Check | None, fun: Callable[P, R]) -> Callable[P, R]:
    """`fun`, whose results are looked at; itself if nobody wants to know."""
    if check is None:
        return fun
    wanted = check

    @filtered
    @wraps(fun)
    def looked_at(*args: P.args, **kwargs: P.kwargs) -> R:
        results = fun(*args, **kwargs)

        def again(context: EvalContext) -> object:
            return _under(context, wanted, fun, args, kwargs)

        wanted.results(results, again)
        return results

    return looked_at


def _under(
    context: EvalContext, check: Check, fun: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
) -> object:
    """Calls a function so that what it computes is computed in this context."""
    leaves, treedef = tree.flatten((args, kwargs))
    own_args, own_kwargs = tree.unflatten(treedef, list(map(_elements, leaves)))
    with activate(context, FlatFunction(check.fun, check.transformation, treedef)) as frame, frame:
        frame.base = frame  # operations on constants are computed there, too
        return fun(*own_args, **own_kwargs)


def _elements(leaf: object) -> Any:  # the user's leaf
    """A leaf without the transformations that it goes through."""
    value = leaf.concrete() if isinstance(leaf, Array) else None
    return leaf if value is None else ConcreteArray(value)
