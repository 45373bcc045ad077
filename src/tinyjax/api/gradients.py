"""`grad`, on functions of trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from typing_extensions import Unpack

from tinyjax.api.chosen_arguments import Differentiation, differentiated
from tinyjax.api.non_finite import Check, Options, checked
from tinyjax.errors import UnsupportedError
from tinyjax.tracebacks import filtered
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.wrapping import wraps

if TYPE_CHECKING:
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
        Three,
        Two,
        Untyped,
        Untyped2,
        WithAux,
    )


@overload
def grad(
    fun: One[A, P, tuple[object, Aux]],
    argnums: Literal[0] = 0,
    *,
    has_aux: WithAux,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> One[A, P, tuple[A, Aux]]: ...
@overload
def grad(
    fun: Two[A, B, P, tuple[object, Aux]],
    argnums: Literal[1],
    has_aux: WithAux,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> Two[A, B, P, tuple[B, Aux]]: ...
@overload
def grad(
    fun: Three[A, B, C, P, tuple[object, Aux]],
    argnums: Literal[2],
    has_aux: WithAux,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> Three[A, B, C, P, tuple[C, Aux]]: ...
@overload
def grad(
    fun: One[A, P, tuple[object, Aux]],
    argnums: JustFirst,
    has_aux: WithAux,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> One[A, P, tuple[tuple[A], Aux]]: ...
@overload
def grad(
    fun: Two[A, B, P, tuple[object, Aux]],
    argnums: FirstTwo,
    has_aux: WithAux,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> Two[A, B, P, tuple[tuple[A, B], Aux]]: ...
@overload
def grad(
    fun: Three[A, B, C, P, tuple[object, Aux]],
    argnums: LastTwo,
    has_aux: WithAux,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> Three[A, B, C, P, tuple[tuple[B, C], Aux]]: ...
@overload
def grad(
    fun: Three[A, B, C, P, tuple[object, Aux]],
    argnums: FirstThree,
    has_aux: WithAux,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> Three[A, B, C, P, tuple[tuple[A, B, C], Aux]]: ...
@overload
def grad(
    fun: Untyped,
    argnums: Literal[0] = 0,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> Any: ...
@overload
def grad(
    fun: Untyped2,
    argnums: Literal[1] | FirstTwo,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> Any: ...
@overload
def grad(
    fun: One[ArrayLike, P, object],
    argnums: Literal[0] = 0,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> One[ArrayLike, P, Array]: ...
@overload
def grad(
    fun: Two[A, ArrayLike, P, object],
    argnums: Literal[1],
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> Two[A, ArrayLike, P, Array]: ...
@overload
def grad(
    fun: Two[ArrayLike, ArrayLike, P, object],
    argnums: FirstTwo,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> Two[ArrayLike, ArrayLike, P, tuple[Array, Array]]: ...
@overload
def grad(
    fun: One[A, P, object],
    argnums: Literal[0] = 0,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> One[A, P, A]: ...
@overload
def grad(
    fun: Two[A, B, P, object],
    argnums: Literal[1],
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> Two[A, B, P, B]: ...
@overload
def grad(
    fun: Three[A, B, C, P, object],
    argnums: Literal[2],
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> Three[A, B, C, P, C]: ...
@overload
def grad(
    fun: One[A, P, object],
    argnums: JustFirst,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> One[A, P, tuple[A]]: ...
@overload
def grad(
    fun: Two[A, B, P, object],
    argnums: FirstTwo,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> Two[A, B, P, tuple[A, B]]: ...
@overload
def grad(
    fun: Three[A, B, C, P, object],
    argnums: FirstAndThird,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> Three[A, B, C, P, tuple[A, C]]: ...
@overload
def grad(
    fun: Three[A, B, C, P, object],
    argnums: LastTwo,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> Three[A, B, C, P, tuple[B, C]]: ...
@overload
def grad(
    fun: Three[A, B, C, P, object],
    argnums: FirstThree,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> Three[A, B, C, P, tuple[A, B, C]]: ...
@overload
def grad(
    fun: Callable[P, object],
    argnums: Other,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> Callable[P, Any]: ...
@overload
def grad(
    fun: Callable[P, object],
    argnums: list[int],
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> Callable[P, tuple[Any, ...]]: ...
@overload
def grad(
    fun: Callable[..., object],
    argnums: int | Sequence[int],
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> Any: ...  # a function; mypy would take Callable[..., Any] for an untyped one
@filtered
def grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    *,
    debug_nans: bool = False,
    debug_infs: bool = False,
    reduce_axes: Sequence[object] = (),
) -> Callable[..., Any]:
    """A function that returns the gradient of `fun`; see `value_and_grad` for the arguments.

    With `has_aux` it returns a pair of the gradient and the auxiliary data. Source: Autodidax, part 4.

    >>> grad(lambda x: x**2 if x > 0 else 0.0)(3.0)
    Array(6., dtype=float64, weak_type=True)
    """
    if reduce_axes:
        raise UnsupportedError("grad sums over no axes: reduce_axes is (). Apply lax.psum to the gradient.")
    both = differentiated(Differentiation("grad", fun, argnums, has_aux, holomorphic, allow_int))
    both = checked(Check.asked("grad", fun, debug_nans, debug_infs), both)

    @filtered
    @wraps(fun)
    def gradient(*args: Any, **kwargs: Any) -> Any:  # the user's arguments
        value, result = both(*args, **kwargs)
        return (result, value[1]) if has_aux else result

    return gradient
