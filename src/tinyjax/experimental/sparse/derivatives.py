"""Derivatives with respect to sparse arrays: those of their stored elements, in the same places."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias  # Any: of the user's trees

from tinyjax.api import jacobians, values_and_gradients
from tinyjax.api.arguments import resolve_argnums
from tinyjax.api.vectorize import vmap
from tinyjax.experimental.sparse.base import JAXSparse
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.functions import check_callable
from tinyjax.wrapping import wraps

#: A derivative: of a function, and of which of its arguments.
_Derivative: TypeAlias = Callable[..., Callable[..., Any]]


def is_sparse(x: object) -> bool:
    """Whether this is a sparse array of any format."""
    return isinstance(x, JAXSparse)


def _of_data(what: str, derivative: _Derivative, fun: Callable[..., Any], argnums: int | Sequence[int]) -> Any:
    """The derivative with respect to what is dense, and to the data of what is sparse. What it returns is a function of
    the arguments, which returns what `derivative` does and the function that puts its gradients into trees."""
    check_callable(what, fun)

    def derived(*args: Any, **kwargs: Any) -> tuple[Any, Callable[[Any], Any]]:
        chosen = resolve_argnums(what, argnums, len(args))
        flat = [tree.flatten(args[i], is_sparse) for i in chosen]
        moving = [[x.data if isinstance(x, JAXSparse) else x for x in leaves] for leaves, _ in flat]

        def function(values: list[list[Any]], *rest: Any, **named: Any) -> Any:
            full = list(rest)
            for i, (leaves, treedef), given in zip(chosen, flat, values, strict=True):
                full[i] = tree.unflatten(treedef, [_with(x, value) for x, value in zip(leaves, given, strict=True)])
            return fun(*full, **named)

        def rebuilt(found: Any) -> Any:
            """Gradients, where the arguments are."""
            parts = [
                tree.unflatten(treedef, [_with(x, value) for x, value in zip(leaves, given, strict=True)])
                for (leaves, treedef), given in zip(flat, found, strict=True)
            ]
            return parts[0] if isinstance(argnums, int) else tuple(parts)

        rest = [None if i in chosen else arg for i, arg in enumerate(args)]
        return derivative(function)(moving, *rest, **kwargs), rebuilt

    return derived


def _with(x: Any, value: Any) -> Any:
    """An argument with another value, or its derivative; that of a sparse array with axes in front is one of each."""
    if not isinstance(x, JAXSparse):
        return value
    own, *others = tree.flatten(x)[0]
    treedef = tree.flatten(x)[1]
    make: Callable[[Any], Any] = lambda data: tree.unflatten(treedef, [data, *others])  # noqa: E731
    if isinstance(value, Array) and isinstance(own, Array):
        for _ in range(value.ndim - own.ndim):
            make = vmap(make)
    return make(value)


def grad(fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any) -> Any:
    """`tinyjax.grad`, where arguments may be sparse: their gradients are sparse arrays with elements in the same
    places. `kwargs` as there.

    >>> import numpy as np
    >>> from tinyjax.experimental.sparse import BCOO
    >>> x = BCOO.fromdense(np.array([0.0, 2.0, 3.0]))
    >>> grad(lambda x, y: x @ y)(x, np.array([4.0, 5.0, 6.0])).data
    Array([5., 6.], dtype=float64)
    """
    both = value_and_grad(fun, argnums, has_aux, **kwargs)

    @wraps(fun)
    def gradient(*args: Any, **named: Any) -> Any:
        value, found = both(*args, **named)
        return (found, value[1]) if has_aux else found

    return gradient


def value_and_grad(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Any:
    """`tinyjax.value_and_grad`, where arguments may be sparse, as for `grad`.

    >>> import numpy as np
    >>> from tinyjax.experimental.sparse import BCOO
    >>> x = BCOO.fromdense(np.array([0.0, 2.0, 3.0]))
    >>> value_and_grad(lambda x: (x * x).sum())(x)
    (Array(13., dtype=float64), BCOO(float64[3], nse=2))
    """
    derived = _of_data(
        "sparse.value_and_grad",
        lambda f: values_and_gradients.value_and_grad(f, has_aux=has_aux, **kwargs),
        fun,
        argnums,
    )

    @wraps(fun)
    def both(*args: Any, **named: Any) -> Any:
        (value, found), rebuilt = derived(*args, **named)
        return value, rebuilt(found)

    return both


def _jacobian(what: str, derivative: _Derivative, fun: Any, argnums: Any, has_aux: bool, kwargs: Any) -> Any:
    derived = _of_data(what, lambda f: derivative(f, has_aux=has_aux, **kwargs), fun, argnums)

    @wraps(fun)
    def jacobian(*args: Any, **named: Any) -> Any:
        found, rebuilt = derived(*args, **named)
        return (rebuilt(found[0]), found[1]) if has_aux else rebuilt(found)

    return jacobian


def jacfwd(fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any) -> Any:
    """`tinyjax.jacfwd` of a function that returns an array, where arguments may be sparse: the Jacobian is a sparse
    array with the axes of the result as batch dimensions in front.

    >>> import numpy as np
    >>> from tinyjax.experimental.sparse import eye
    >>> jacfwd(lambda x: x @ np.array([3.0, 4.0]))(eye(2))
    BCOO(float64[2, 2, 2], nse=2, n_batch=1)
    """
    return _jacobian("sparse.jacfwd", jacobians.jacfwd, fun, argnums, has_aux, kwargs)


def jacrev(fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any) -> Any:
    """`jacfwd`, in reverse mode.

    >>> import numpy as np
    >>> from tinyjax.experimental.sparse import eye
    >>> jacrev(lambda x: x @ np.array([3.0, 4.0]))(eye(2)).todense()[0]
    Array([[3., 0.],
           [0., 0.]], dtype=float64)
    """
    return _jacobian("sparse.jacrev", jacobians.jacrev, fun, argnums, has_aux, kwargs)


jacobian = jacrev
