"""`grad` and `value_and_grad`, on functions of trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Literal, overload

from tinyjax.api.chosen_arguments import Differentiation, differentiated
from tinyjax.api.signatures import (
    A,
    Aux,
    B,
    C,
    FirstAndThird,
    FirstThree,
    FirstTwo,
    JustFirst,
    LastTwo,
    NoAux,
    One,
    Other,
    P,
    R,
    Three,
    Two,
    Untyped,
    Untyped2,
    WithAux,
)
from tinyjax.tracebacks import filtered
from tinyjax.tracing.array import Array, ArrayLike


@overload
def value_and_grad(
    fun: One[A, P, tuple[R, Aux]],
    argnums: Literal[0] = 0,
    *,
    has_aux: WithAux,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> One[A, P, tuple[tuple[R, Aux], A]]: ...
@overload
def value_and_grad(
    fun: Two[A, B, P, tuple[R, Aux]],
    argnums: Literal[1],
    has_aux: WithAux,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Two[A, B, P, tuple[tuple[R, Aux], B]]: ...
@overload
def value_and_grad(
    fun: Three[A, B, C, P, tuple[R, Aux]],
    argnums: Literal[2],
    has_aux: WithAux,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Three[A, B, C, P, tuple[tuple[R, Aux], C]]: ...
@overload
def value_and_grad(
    fun: One[A, P, tuple[R, Aux]],
    argnums: JustFirst,
    has_aux: WithAux,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> One[A, P, tuple[tuple[R, Aux], tuple[A]]]: ...
@overload
def value_and_grad(
    fun: Two[A, B, P, tuple[R, Aux]],
    argnums: FirstTwo,
    has_aux: WithAux,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Two[A, B, P, tuple[tuple[R, Aux], tuple[A, B]]]: ...
@overload
def value_and_grad(
    fun: Three[A, B, C, P, tuple[R, Aux]],
    argnums: LastTwo,
    has_aux: WithAux,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Three[A, B, C, P, tuple[tuple[R, Aux], tuple[B, C]]]: ...
@overload
def value_and_grad(
    fun: Three[A, B, C, P, tuple[R, Aux]],
    argnums: FirstThree,
    has_aux: WithAux,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Three[A, B, C, P, tuple[tuple[R, Aux], tuple[A, B, C]]]: ...
@overload
def value_and_grad(
    fun: One[A, P, R],
    argnums: Literal[0] = 0,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> One[A, P, tuple[R, A]]: ...
@overload
def value_and_grad(
    fun: Two[A, B, P, R],
    argnums: Literal[1],
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Two[A, B, P, tuple[R, B]]: ...
@overload
def value_and_grad(
    fun: Three[A, B, C, P, R],
    argnums: Literal[2],
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Three[A, B, C, P, tuple[R, C]]: ...
@overload
def value_and_grad(
    fun: One[A, P, R], argnums: JustFirst, has_aux: NoAux = False, holomorphic: bool = False, allow_int: bool = False
) -> One[A, P, tuple[R, tuple[A]]]: ...
@overload
def value_and_grad(
    fun: Two[A, B, P, R], argnums: FirstTwo, has_aux: NoAux = False, holomorphic: bool = False, allow_int: bool = False
) -> Two[A, B, P, tuple[R, tuple[A, B]]]: ...
@overload
def value_and_grad(
    fun: Three[A, B, C, P, R],
    argnums: FirstAndThird,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Three[A, B, C, P, tuple[R, tuple[A, C]]]: ...
@overload
def value_and_grad(
    fun: Three[A, B, C, P, R],
    argnums: LastTwo,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Three[A, B, C, P, tuple[R, tuple[B, C]]]: ...
@overload
def value_and_grad(
    fun: Three[A, B, C, P, R],
    argnums: FirstThree,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Three[A, B, C, P, tuple[R, tuple[A, B, C]]]: ...
@overload
def value_and_grad(
    fun: Callable[P, R],
    argnums: Other,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[P, tuple[R, Any]]: ...
@overload
def value_and_grad(
    fun: Callable[P, R],
    argnums: list[int],
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[P, tuple[R, tuple[Any, ...]]]: ...
@overload
def value_and_grad(
    fun: Callable[..., object],
    argnums: int | Sequence[int],
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Any: ...  # a function; mypy would take Callable[..., Any] for an untyped one
@filtered
def value_and_grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., tuple[Any, Any]]:
    """A function that returns the value of `fun` and its gradient with respect to the arguments `argnums`.

    `fun` returns a scalar; with `has_aux`, a pair of one and of data to pass through. The gradient has the tree of the
    argument, or is a tuple of such trees if `argnums` is a sequence. `holomorphic` allows complex arguments and
    results; `allow_int` allows integer arguments, whose gradients have dtype float0.

    >>> value_and_grad(lambda x: x * x)(3.0)
    (Array(9., dtype=float64, weak_type=True), Array(6., dtype=float64, weak_type=True))
    """
    return differentiated(Differentiation("value_and_grad", fun, argnums, has_aux, holomorphic, allow_int))


@overload
def grad(
    fun: One[A, P, tuple[object, Aux]],
    argnums: Literal[0] = 0,
    *,
    has_aux: WithAux,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> One[A, P, tuple[A, Aux]]: ...
@overload
def grad(
    fun: Two[A, B, P, tuple[object, Aux]],
    argnums: Literal[1],
    has_aux: WithAux,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Two[A, B, P, tuple[B, Aux]]: ...
@overload
def grad(
    fun: Three[A, B, C, P, tuple[object, Aux]],
    argnums: Literal[2],
    has_aux: WithAux,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Three[A, B, C, P, tuple[C, Aux]]: ...
@overload
def grad(
    fun: One[A, P, tuple[object, Aux]],
    argnums: JustFirst,
    has_aux: WithAux,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> One[A, P, tuple[tuple[A], Aux]]: ...
@overload
def grad(
    fun: Two[A, B, P, tuple[object, Aux]],
    argnums: FirstTwo,
    has_aux: WithAux,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Two[A, B, P, tuple[tuple[A, B], Aux]]: ...
@overload
def grad(
    fun: Three[A, B, C, P, tuple[object, Aux]],
    argnums: LastTwo,
    has_aux: WithAux,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Three[A, B, C, P, tuple[tuple[B, C], Aux]]: ...
@overload
def grad(
    fun: Three[A, B, C, P, tuple[object, Aux]],
    argnums: FirstThree,
    has_aux: WithAux,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Three[A, B, C, P, tuple[tuple[A, B, C], Aux]]: ...
@overload
def grad(
    fun: Untyped,
    argnums: Literal[0] = 0,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Any: ...
@overload
def grad(
    fun: Untyped2,
    argnums: Literal[1] | FirstTwo,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Any: ...
@overload
def grad(
    fun: One[ArrayLike, P, object],
    argnums: Literal[0] = 0,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> One[ArrayLike, P, Array]: ...
@overload
def grad(
    fun: Two[A, ArrayLike, P, object],
    argnums: Literal[1],
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Two[A, ArrayLike, P, Array]: ...
@overload
def grad(
    fun: Two[ArrayLike, ArrayLike, P, object],
    argnums: FirstTwo,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Two[ArrayLike, ArrayLike, P, tuple[Array, Array]]: ...
@overload
def grad(
    fun: One[A, P, object],
    argnums: Literal[0] = 0,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> One[A, P, A]: ...
@overload
def grad(
    fun: Two[A, B, P, object],
    argnums: Literal[1],
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Two[A, B, P, B]: ...
@overload
def grad(
    fun: Three[A, B, C, P, object],
    argnums: Literal[2],
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Three[A, B, C, P, C]: ...
@overload
def grad(
    fun: One[A, P, object],
    argnums: JustFirst,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> One[A, P, tuple[A]]: ...
@overload
def grad(
    fun: Two[A, B, P, object],
    argnums: FirstTwo,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Two[A, B, P, tuple[A, B]]: ...
@overload
def grad(
    fun: Three[A, B, C, P, object],
    argnums: FirstAndThird,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Three[A, B, C, P, tuple[A, C]]: ...
@overload
def grad(
    fun: Three[A, B, C, P, object],
    argnums: LastTwo,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Three[A, B, C, P, tuple[B, C]]: ...
@overload
def grad(
    fun: Three[A, B, C, P, object],
    argnums: FirstThree,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Three[A, B, C, P, tuple[A, B, C]]: ...
@overload
def grad(
    fun: Callable[P, object],
    argnums: Other,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[P, Any]: ...
@overload
def grad(
    fun: Callable[P, object],
    argnums: list[int],
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[P, tuple[Any, ...]]: ...
@overload
def grad(
    fun: Callable[..., object],
    argnums: int | Sequence[int],
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Any: ...  # a function; mypy would take Callable[..., Any] for an untyped one
@filtered
def grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """A function that returns the gradient of `fun`; see `value_and_grad` for the arguments.

    With `has_aux` it returns a pair of the gradient and the auxiliary data. Source: Autodidax, part 4.

    >>> grad(lambda x: x**2 if x > 0 else 0.0)(3.0)
    Array(6., dtype=float64, weak_type=True)
    """
    both = differentiated(Differentiation("grad", fun, argnums, has_aux, holomorphic, allow_int))

    @filtered
    @wraps(fun)
    def gradient(*args: Any, **kwargs: Any) -> Any:  # the user's arguments
        value, result = both(*args, **kwargs)
        return (result, value[1]) if has_aux else result

    return gradient
