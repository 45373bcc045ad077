"""`hessian`: second derivatives. Their types are those of Jacobians of Jacobians."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

from tinyjax.api.chosen_arguments import Differentiation
from tinyjax.api.jacobian_blocks import jacobian_by
from tinyjax.api.signatures import A, Aux, FirstTwo, NoAux, One, P, Two, Untyped, Untyped2, WithAux
from tinyjax.lax.signatures import Arrays, Arrays2, K
from tinyjax.tracebacks import filtered
from tinyjax.tracing.array import Array, ArrayLike


@overload
def hessian(
    fun: Untyped,
    argnums: Literal[0] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Any: ...
@overload
def hessian(
    fun: Untyped2,
    argnums: Literal[1] | FirstTwo,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Any: ...
@overload
def hessian(
    fun: One[ArrayLike, P, Array],
    argnums: Literal[0] = 0,
    has_aux: NoAux = False,
    holomorphic: bool = False,
) -> One[ArrayLike, P, Array]: ...
@overload
def hessian(
    fun: One[Array, P, Array],
    argnums: Literal[0] = 0,
    has_aux: NoAux = False,
    holomorphic: bool = False,
) -> One[Array, P, Array]: ...
@overload
def hessian(
    fun: One[Array, P, Arrays2],
    argnums: Literal[0] = 0,
    has_aux: NoAux = False,
    holomorphic: bool = False,
) -> One[Array, P, Arrays2]: ...
@overload
def hessian(
    fun: One[Array, P, Arrays[K]],
    argnums: Literal[0] = 0,
    has_aux: NoAux = False,
    holomorphic: bool = False,
) -> One[Array, P, Arrays[K]]: ...
@overload
def hessian(
    fun: One[A, P, object],
    argnums: Literal[0] = 0,
    has_aux: NoAux = False,
    holomorphic: bool = False,
) -> One[A, P, Any]: ...
@overload
def hessian(
    fun: Two[A, ArrayLike, P, Array],
    argnums: Literal[1],
    has_aux: NoAux = False,
    holomorphic: bool = False,
) -> Two[A, ArrayLike, P, Array]: ...
@overload
def hessian(
    fun: Two[A, Array, P, Array],
    argnums: Literal[1],
    has_aux: NoAux = False,
    holomorphic: bool = False,
) -> Two[A, Array, P, Array]: ...
@overload
def hessian(
    fun: Two[ArrayLike, ArrayLike, P, Array],
    argnums: FirstTwo,
    has_aux: NoAux = False,
    holomorphic: bool = False,
) -> Two[ArrayLike, ArrayLike, P, tuple[Arrays2, Arrays2]]: ...
@overload
def hessian(
    fun: Two[Array, Array, P, Array],
    argnums: FirstTwo,
    has_aux: NoAux = False,
    holomorphic: bool = False,
) -> Two[Array, Array, P, tuple[Arrays2, Arrays2]]: ...
@overload
def hessian(
    fun: One[Array, P, tuple[Array, Aux]],
    argnums: Literal[0] = 0,
    *,
    has_aux: WithAux,
    holomorphic: bool = False,
) -> One[Array, P, tuple[Array, Aux]]: ...
@overload
def hessian(
    fun: Callable[..., object],
    argnums: int | Sequence[int],
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Any: ...
@overload
def hessian(
    fun: Callable[..., object],
    argnums: int | Sequence[int] = 0,
    *,
    has_aux: bool,
    holomorphic: bool = False,
) -> Any: ...
@filtered
def hessian(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """A function that returns the second derivatives of `fun`: forward over reverse mode.

    >>> import numpy as np
    >>> hessian(lambda x: (x**3).sum())(np.arange(2.0))
    Array([[0., 0.],
           [0., 6.]], dtype=float64)
    """
    backward = jacobian_by(Differentiation("jacrev", fun, argnums, has_aux, holomorphic, allow_int=False))
    return jacobian_by(Differentiation("jacfwd", backward, argnums, has_aux, holomorphic, allow_int=False))
