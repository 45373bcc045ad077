"""`value_and_grad`, on functions of trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

from typing_extensions import Unpack

from tinyjax.api.chosen_arguments import Differentiation, differentiated
from tinyjax.api.non_finite import Check, Options, checked
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
    WithAux,
)
from tinyjax.errors import UnsupportedError
from tinyjax.tracebacks import filtered


@overload
def value_and_grad(
    fun: One[A, P, tuple[R, Aux]],
    argnums: Literal[0] = 0,
    *,
    has_aux: WithAux,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> One[A, P, tuple[tuple[R, Aux], A]]: ...
@overload
def value_and_grad(
    fun: Two[A, B, P, tuple[R, Aux]],
    argnums: Literal[1],
    has_aux: WithAux,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> Two[A, B, P, tuple[tuple[R, Aux], B]]: ...
@overload
def value_and_grad(
    fun: Three[A, B, C, P, tuple[R, Aux]],
    argnums: Literal[2],
    has_aux: WithAux,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> Three[A, B, C, P, tuple[tuple[R, Aux], C]]: ...
@overload
def value_and_grad(
    fun: One[A, P, tuple[R, Aux]],
    argnums: JustFirst,
    has_aux: WithAux,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> One[A, P, tuple[tuple[R, Aux], tuple[A]]]: ...
@overload
def value_and_grad(
    fun: Two[A, B, P, tuple[R, Aux]],
    argnums: FirstTwo,
    has_aux: WithAux,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> Two[A, B, P, tuple[tuple[R, Aux], tuple[A, B]]]: ...
@overload
def value_and_grad(
    fun: Three[A, B, C, P, tuple[R, Aux]],
    argnums: LastTwo,
    has_aux: WithAux,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> Three[A, B, C, P, tuple[tuple[R, Aux], tuple[B, C]]]: ...
@overload
def value_and_grad(
    fun: Three[A, B, C, P, tuple[R, Aux]],
    argnums: FirstThree,
    has_aux: WithAux,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> Three[A, B, C, P, tuple[tuple[R, Aux], tuple[A, B, C]]]: ...
@overload
def value_and_grad(
    fun: One[A, P, R],
    argnums: Literal[0] = 0,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> One[A, P, tuple[R, A]]: ...
@overload
def value_and_grad(
    fun: Two[A, B, P, R],
    argnums: Literal[1],
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> Two[A, B, P, tuple[R, B]]: ...
@overload
def value_and_grad(
    fun: Three[A, B, C, P, R],
    argnums: Literal[2],
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> Three[A, B, C, P, tuple[R, C]]: ...
@overload
def value_and_grad(
    fun: One[A, P, R],
    argnums: JustFirst,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> One[A, P, tuple[R, tuple[A]]]: ...
@overload
def value_and_grad(
    fun: Two[A, B, P, R],
    argnums: FirstTwo,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> Two[A, B, P, tuple[R, tuple[A, B]]]: ...
@overload
def value_and_grad(
    fun: Three[A, B, C, P, R],
    argnums: FirstAndThird,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> Three[A, B, C, P, tuple[R, tuple[A, C]]]: ...
@overload
def value_and_grad(
    fun: Three[A, B, C, P, R],
    argnums: LastTwo,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> Three[A, B, C, P, tuple[R, tuple[B, C]]]: ...
@overload
def value_and_grad(
    fun: Three[A, B, C, P, R],
    argnums: FirstThree,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> Three[A, B, C, P, tuple[R, tuple[A, B, C]]]: ...
@overload
def value_and_grad(
    fun: Callable[P, R],
    argnums: Other,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> Callable[P, tuple[R, Any]]: ...
@overload
def value_and_grad(
    fun: Callable[P, R],
    argnums: list[int],
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> Callable[P, tuple[R, tuple[Any, ...]]]: ...
@overload
def value_and_grad(
    fun: Callable[..., object],
    argnums: int | Sequence[int],
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    **options: Unpack[Options],
) -> Any: ...  # a function; mypy would take Callable[..., Any] for an untyped one
@filtered
def value_and_grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    *,
    debug_nans: bool = False,
    debug_infs: bool = False,
    reduce_axes: Sequence[object] = (),
) -> Callable[..., tuple[Any, Any]]:
    """A function that returns the value of `fun` and its gradient with respect to the arguments `argnums`.

    `fun` returns a scalar; with `has_aux`, a pair of one and of data to pass through. The gradient has the tree of the
    argument, or is a tuple of such trees if `argnums` is a sequence. `holomorphic` allows complex arguments and
    results; `allow_int` allows integer arguments, whose gradients have dtype float0.

    With `debug_nans` or `debug_infs`, the value and the gradient are looked at: where one has nan or inf, they are
    computed once more, and a NonFiniteError says which operation gave the first one, and its line. That takes known
    values, so under `jit` it is an option of `jit`. (`reduce_axes` is JAX's, which takes nothing but () any more.)

    >>> value_and_grad(lambda x: x * x)(3.0)
    (Array(9., dtype=float64, weak_type=True), Array(6., dtype=float64, weak_type=True))
    """
    if reduce_axes:
        raise UnsupportedError("value_and_grad sums over no axes: reduce_axes is (). Apply lax.psum to the gradient.")
    both = differentiated(Differentiation("value_and_grad", fun, argnums, has_aux, holomorphic, allow_int))
    return checked(Check.asked("value_and_grad", fun, debug_nans, debug_infs), both)
