"""`fwd_and_bwd`: the two passes of reverse mode as two functions, each of which is compiled once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, ParamSpec, TypeVar, overload

from tinyjax.api.arguments import resolve_argnums
from tinyjax.api.autodiff import vjp
from tinyjax.api.chosen_arguments import ChosenArguments
from tinyjax.api.jit import jit
from tinyjax.tracebacks import filtered
from tinyjax.tracing.functions import check_callable
from tinyjax.wrapping import wraps

P = ParamSpec("P")
R = TypeVar("R")
Aux = TypeVar("Aux")


@overload
def fwd_and_bwd(
    fun: Callable[P, R], argnums: int | Sequence[int], has_aux: Literal[False] = False, jitted: bool = True
) -> tuple[Callable[P, tuple[R, Any]], Callable[[Any, Any], Any]]: ...
@overload
def fwd_and_bwd(
    fun: Callable[P, tuple[R, Aux]], argnums: int | Sequence[int], has_aux: Literal[True], jitted: bool = True
) -> tuple[Callable[P, tuple[R, Any, Aux]], Callable[[Any, Any], Any]]: ...
@filtered
def fwd_and_bwd(
    fun: Callable[..., Any], argnums: int | Sequence[int], has_aux: bool = False, jitted: bool = True
) -> tuple[Callable[..., Any], Callable[[Any, Any], Any]]:  # trees like the user's
    """The forward and the backward pass of `fun`, for the arguments `argnums`.

    `forward(*args)` returns the results and what the backward pass needs; with `has_aux`, also the auxiliary data.
    `backward(residuals, cotangents)` returns the cotangent of the argument, or a tuple of them if `argnums` is a
    sequence. Both are compiled, unless `jitted` says no, and so the backward pass is traced once for all calls.

    >>> forward, backward = fwd_and_bwd(lambda x, y: x * y, argnums=(0, 1))
    >>> z, residuals = forward(3.0, 4.0)
    >>> backward(residuals, 1.0)
    (Array(4., dtype=float64, weak_type=True), Array(3., dtype=float64, weak_type=True))
    """
    check_callable("fwd_and_bwd", fun)

    @wraps(fun)
    def forward(*args: Any, **kwargs: Any) -> Any:
        chosen = resolve_argnums("fwd_and_bwd", argnums, len(args))
        selected = ChosenArguments(fun, args, kwargs, chosen)
        return _vjp(selected, *(args[i] for i in chosen), has_aux=has_aux)

    def backward(residuals: Any, cotangents: Any) -> Any:
        found = residuals(cotangents)
        return found[0] if isinstance(argnums, int) else found

    return (jit(forward), jit(backward)) if jitted else (forward, backward)


#: As a function of any arguments.
_vjp: Callable[..., Any] = vjp
