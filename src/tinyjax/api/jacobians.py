"""`jacfwd` and `jacrev`: whole derivatives.

Their types: the derivative of an array by a tree has the tree's type, that of a tree of arrays by an array is such a
tree again, which is said of pairs and dictionaries. The rest are trees of trees, whose type can't be written down: Any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

from tinyjax.api.chosen_arguments import Differentiation
from tinyjax.api.jacobian_blocks import jacobian_by
from tinyjax.api.signatures import A, Aux, B, FirstTwo, JustFirst, NoAux, One, P, Two, Untyped, Untyped2, WithAux
from tinyjax.lax.signatures import Arrays, Arrays2, K
from tinyjax.tracebacks import filtered
from tinyjax.tracing.array import Array, ArrayLike


@overload
def jacfwd(
    fun: Untyped,
    argnums: Literal[0] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Any: ...
@overload
def jacfwd(
    fun: Untyped2,
    argnums: Literal[1] | FirstTwo,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Any: ...
@overload
def jacfwd(
    fun: One[ArrayLike, P, Array],
    argnums: Literal[0] = 0,
    has_aux: NoAux = False,
    holomorphic: bool = False,
) -> One[ArrayLike, P, Array]: ...
@overload
def jacfwd(
    fun: One[A, P, Array],
    argnums: Literal[0] = 0,
    has_aux: NoAux = False,
    holomorphic: bool = False,
) -> One[A, P, A]: ...
@overload
def jacfwd(
    fun: One[Array, P, Arrays2],
    argnums: Literal[0] = 0,
    has_aux: NoAux = False,
    holomorphic: bool = False,
) -> One[Array, P, Arrays2]: ...
@overload
def jacfwd(
    fun: One[Array, P, Arrays[K]],
    argnums: Literal[0] = 0,
    has_aux: NoAux = False,
    holomorphic: bool = False,
) -> One[Array, P, Arrays[K]]: ...
@overload
def jacfwd(
    fun: One[A, P, object],
    argnums: Literal[0] = 0,
    has_aux: NoAux = False,
    holomorphic: bool = False,
) -> One[A, P, Any]: ...
@overload
def jacfwd(
    fun: Two[A, ArrayLike, P, Array],
    argnums: Literal[1],
    has_aux: NoAux = False,
    holomorphic: bool = False,
) -> Two[A, ArrayLike, P, Array]: ...
@overload
def jacfwd(
    fun: Two[A, B, P, Array],
    argnums: Literal[1],
    has_aux: NoAux = False,
    holomorphic: bool = False,
) -> Two[A, B, P, B]: ...
@overload
def jacfwd(
    fun: One[A, P, Array],
    argnums: JustFirst,
    has_aux: NoAux = False,
    holomorphic: bool = False,
) -> One[A, P, tuple[A]]: ...
@overload
def jacfwd(
    fun: Two[ArrayLike, ArrayLike, P, Array],
    argnums: FirstTwo,
    has_aux: NoAux = False,
    holomorphic: bool = False,
) -> Two[ArrayLike, ArrayLike, P, Arrays2]: ...
@overload
def jacfwd(
    fun: Two[A, B, P, Array],
    argnums: FirstTwo,
    has_aux: NoAux = False,
    holomorphic: bool = False,
) -> Two[A, B, P, tuple[A, B]]: ...
@overload
def jacfwd(
    fun: One[A, P, tuple[Array, Aux]],
    argnums: Literal[0] = 0,
    *,
    has_aux: WithAux,
    holomorphic: bool = False,
) -> One[A, P, tuple[A, Aux]]: ...
@overload
def jacfwd(
    fun: Callable[..., object],
    argnums: int | Sequence[int],
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Any: ...
@overload
def jacfwd(
    fun: Callable[..., object],
    argnums: int | Sequence[int] = 0,
    *,
    has_aux: bool,
    holomorphic: bool = False,
) -> Any: ...
@filtered
def jacfwd(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False
) -> Callable[..., Any]:
    """A function that returns the Jacobian of `fun` by forward mode: one column for each element of the argument.

    Each leaf of the results is replaced by a tree like the argument's, whose leaves have the result's shape followed by
    the argument's. The derivatives of an integer result are zeros of its dtype. Better than `jacrev` if the argument is
    smaller than the result. Source: Autodidax, part 1.

    >>> import numpy as np
    >>> from tinyjax.numpy import sin
    >>> jacfwd(sin)(np.zeros(2))
    Array([[1., 0.],
           [0., 1.]], dtype=float64)
    """
    return jacobian_by(Differentiation("jacfwd", fun, argnums, has_aux, holomorphic, allow_int=False))


@overload
def jacrev(
    fun: Untyped,
    argnums: Literal[0] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Any: ...
@overload
def jacrev(
    fun: Untyped2,
    argnums: Literal[1] | FirstTwo,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Any: ...
@overload
def jacrev(
    fun: One[ArrayLike, P, Array],
    argnums: Literal[0] = 0,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> One[ArrayLike, P, Array]: ...
@overload
def jacrev(
    fun: One[A, P, Array],
    argnums: Literal[0] = 0,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> One[A, P, A]: ...
@overload
def jacrev(
    fun: One[Array, P, Arrays2],
    argnums: Literal[0] = 0,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> One[Array, P, Arrays2]: ...
@overload
def jacrev(
    fun: One[Array, P, Arrays[K]],
    argnums: Literal[0] = 0,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> One[Array, P, Arrays[K]]: ...
@overload
def jacrev(
    fun: One[A, P, object],
    argnums: Literal[0] = 0,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> One[A, P, Any]: ...
@overload
def jacrev(
    fun: Two[A, ArrayLike, P, Array],
    argnums: Literal[1],
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Two[A, ArrayLike, P, Array]: ...
@overload
def jacrev(
    fun: Two[A, B, P, Array],
    argnums: Literal[1],
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Two[A, B, P, B]: ...
@overload
def jacrev(
    fun: One[A, P, Array],
    argnums: JustFirst,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> One[A, P, tuple[A]]: ...
@overload
def jacrev(
    fun: Two[ArrayLike, ArrayLike, P, Array],
    argnums: FirstTwo,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Two[ArrayLike, ArrayLike, P, Arrays2]: ...
@overload
def jacrev(
    fun: Two[A, B, P, Array],
    argnums: FirstTwo,
    has_aux: NoAux = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Two[A, B, P, tuple[A, B]]: ...
@overload
def jacrev(
    fun: One[A, P, tuple[Array, Aux]],
    argnums: Literal[0] = 0,
    *,
    has_aux: WithAux,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> One[A, P, tuple[A, Aux]]: ...
@overload
def jacrev(
    fun: Callable[..., object],
    argnums: int | Sequence[int],
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Any: ...
@overload
def jacrev(
    fun: Callable[..., object],
    argnums: int | Sequence[int] = 0,
    *,
    has_aux: bool,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Any: ...
@filtered
def jacrev(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """A function that returns the Jacobian of `fun` by reverse mode: one row for each element of the results.

    The result is arranged as that of `jacfwd`; with `allow_int`, derivatives by integer arguments are zeros of their
    dtype. Better if the argument is larger than the result.

    >>> import numpy as np
    >>> jacrev(lambda x: (x * x).sum())(np.arange(3.0))
    Array([0., 2., 4.], dtype=float64)
    """
    return jacobian_by(Differentiation("jacrev", fun, argnums, has_aux, holomorphic, allow_int))


#: The other name that JAX has for it.
jacobian = jacrev
