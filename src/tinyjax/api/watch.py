"""`watch`: what the machinery does while a function runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar, final

from attrs import frozen
from typing_extensions import override

from tinyjax.api.observed import watching
from tinyjax.contexts.watching import Log, Watcher
from tinyjax.tracebacks import filtered
from tinyjax.tracing.functions import check_callable
from tinyjax.wrapping import wraps

P = ParamSpec("P")
R = TypeVar("R")


@final
@frozen(eq=False, repr=False)
class Watched(Generic[R]):
    """What a watched function returned, and the log of what was applied to compute it. `str` gives the log's text."""

    result: R
    log: Log

    @override
    def __str__(self) -> str:
        return str(self.log)

    @override
    def __repr__(self) -> str:
        return f"{self.log}\nresult: {self.result!r}"

    def _repr_html_(self) -> str:
        from tinyjax.ir.printing.display import Note, page

        return page(block.html for block in (*self.log.blocks(), Note(f"result: {self.result!r}")))


@filtered
def watch(fun: Callable[P, R]) -> Callable[P, Watched[R]]:
    """`fun`, which now also returns a log of the machinery at work.

    Each step of the log is a primitive applied in a context, with the values that went in and came out, and the method
    of the primitive that said what to do there; indented below it is what that method applied in turn. Transformations
    within `fun` are watched too: `watch(grad(f))(x)` shows how the derivative comes about. Below a call that is
    compiled are the lowering rules that wrote its StableHLO, with the names and types of the values. What `jit` has
    traced and compiled before isn't traced and lowered again, so then the call is one step.

    A value of `jvp` shows as dual(primal, tangent), a mapped one with its axis, and one without elements as its type.

    >>> import tinyjax
    >>> watched = watch(lambda x: tinyjax.jvp(tinyjax.lax.sin, (x,), (1.0,)))(0.0)
    >>> watched.result
    (Array(0., dtype=float64, weak_type=True), Array(1., dtype=float64, weak_type=True))
    >>> print(watched)
    jvp: sin(dual(0., 1.)) by Sin.jvp
      evaluation: sin(0.) by Sin.evaluate = 0.
      evaluation: cos(0.) by Cos.evaluate = 1.
      evaluation: mul(1., 1.) by Mul.evaluate = 1.
    = dual(0., 1.)
    """
    check_callable("watch", fun)

    @filtered
    @wraps(fun)
    def watched(*args: P.args, **kwargs: P.kwargs) -> Watched[R]:
        watcher = Watcher()
        with watching(watcher) as frame, frame:
            result = fun(*args, **kwargs)
        return Watched(result, watcher.log())

    return watched
