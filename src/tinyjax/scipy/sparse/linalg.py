"""Linear equations solved step by step: `cg`, `bicgstab` and `gmres`, for trees of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar

import numpy as np

import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.api.make_jaxpr import eval_shape
from tinyjax.arrays.shaping import integer
from tinyjax.errors import ChoiceError, InputError, ShapeError
from tinyjax.flatten_util import ravel_pytree
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import COMPLEXES
from tinyjax.ir.shapes import Shape
from tinyjax.primitives.conversion import ConvertElementType
from tinyjax.scipy.sparse import krylov
from tinyjax.scipy.sparse.krylov import Operator
from tinyjax.tracebacks import filter_package
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef

__all__ = ["bicgstab", "cg", "gmres"]

T = TypeVar("T")


class Multiplying(Protocol):
    """What multiplies vectors by `@`, as matrices do."""

    def __matmul__(self, x: Any, /) -> Any: ...


#: A linear function of trees like the right side, or for vectors a matrix, or what multiplies like one.
Linear: TypeAlias = Callable[[T], T] | ArrayLike | Multiplying
_Solver: TypeAlias = Callable[[Operator, Array, Array, Array, int, Operator | None], Array]


def cg(
    A: Linear[T],
    b: T,
    x0: T | None = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Linear[T] | None = None,
) -> tuple[T, None]:
    """The solution of A x = b for a Hermitian, positive definite A, by conjugate gradients; and None.

    It goes on from x0 (zeros) until the norm of b - A x is at most `tol` times the norm of b, or `atol`, or until there
    were `maxiter` steps (ten times the number of unknowns). M is about the inverse of A. Derivatives are those of the
    equation, see `tinyjax.lax.custom_linear_solve`.

    Raises:
      ShapeError: A or M is no square matrix; A x isn't like b.
      InputError: A or M can neither be called nor multiplied by.

    >>> import numpy as np
    >>> cg(lambda x: 2.0 * x, np.array([2.0, 4.0]))
    (Array([1., 2.], dtype=float64), None)
    """
    return _solve("cg", krylov.conjugate_gradients, A, b, x0, tol, atol, maxiter, M, symmetric=True)


def bicgstab(
    A: Linear[T],
    b: T,
    x0: T | None = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Linear[T] | None = None,
) -> tuple[T, None]:
    """The solution of A x = b for any A that can be inverted, by stabilised biconjugate gradients. See `cg`.

    >>> import numpy as np
    >>> bicgstab(np.array([[2.0, 1.0], [0.0, 1.0]]), np.array([3.0, 1.0]))[0].round(6)
    Array([1., 1.], dtype=float64)
    """
    return _solve("bicgstab", krylov.stabilized, A, b, x0, tol, atol, maxiter, M)


def gmres(
    A: Linear[T],
    b: T,
    x0: T | None = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    restart: int = 20,
    maxiter: int | None = None,
    M: Linear[T] | None = None,
    solve_method: Literal["batched", "incremental"] = "batched",
) -> tuple[T, None]:
    """The solution of A x = b for any A that can be inverted, by generalised minimal residuals. See `cg`.

    After `restart` steps it begins anew from where it is, `maxiter` times at most. It is always incremental: it stops
    within the steps, too, so `solve_method` makes no difference.

    Raises:
      ChoiceError: there is no such `solve_method`.

    >>> import numpy as np
    >>> gmres(np.array([[2.0, 1.0], [0.0, 1.0]]), np.array([3.0, 1.0]))[0].round(6)
    Array([1., 1.], dtype=float64)
    """
    if solve_method not in ("batched", "incremental"):
        raise ChoiceError(f"gmres: solve_method is 'batched' or 'incremental', got {solve_method!r}")

    def solve(
        a: Operator, y: Array, start: Array, tolerance: Array, limit: int, precondition: Operator | None
    ) -> Array:
        near = y if precondition is None else precondition(y)
        size, scale = tnp.linalg.norm(y), tnp.linalg.norm(near)
        relative = tnp.minimum(1, tolerance / tnp.where(size > 0, size, 1))
        most = min(integer(restart, "gmres: restart"), y.shape[0])
        return krylov.minimal_residuals(a, y, start, scale * relative, limit, most, precondition)

    return _solve("gmres", solve, A, b, x0, tol, atol, maxiter, M)


def _solve(
    name: str,
    solver: _Solver,
    a: Linear[T],
    b: T,
    x0: T | None,
    tol: float,
    atol: float,
    maxiter: int | None,
    m: Linear[T] | None,
    symmetric: bool = False,
) -> tuple[T, None]:
    """On vectors: trees are made one, and the solution becomes a tree like b again."""
    if not tree.flatten(b)[0]:
        raise InputError(f"{name}: b is an array or a tree of arrays, got {b!r}")
    right, back = ravel_pytree(b)
    given, like = tree.flatten(b)
    shapes = [as_array(x).shape for x in given]
    start = tnp.zeros_like(right) if x0 is None else _start(name, x0, like, shapes).astype(right.dtype)

    def on_vectors(what: str, linear: Linear[T]) -> Operator:
        rows = shapes[0][0] if tree.is_leaf(like) and shapes[0] else None
        apply = _function(f"{name}: {what}", linear, rows)

        def run(x: Array) -> Array:
            found = apply(back(x))
            tree.check_same_structure(f"{name}: {what}", like, tree.flatten(found)[1], "b", f"what {what} returns")
            flat = ravel_pytree(found)[0]
            if flat.shape != x.shape:
                raise ShapeError(f"{name}: {what} must return {x.size} elements, as b has, got {flat.size}")
            return flat.astype(x.dtype)

        return run

    precondition = None if m is None else on_vectors("M", m)
    limit = 10 * right.size if maxiter is None else integer(maxiter, f"{name}: maxiter")

    def solve(matvec: Operator, y: Array, from_where: Array | None = None) -> Array:
        size = tnp.linalg.norm(y)
        x = tnp.zeros_like(y) if from_where is None else from_where
        return solver(matvec, y, x, tnp.maximum(as_array(tol) * size, atol), limit, precondition)

    found = lax.custom_linear_solve(
        on_vectors("A", a),
        right,
        partial(solve, from_where=lax.stop_gradient(start)),
        solve,
        symmetric=symmetric and right.dtype not in COMPLEXES,
    )
    result: T = back(found)
    if any(as_array(x).aval.weak_type for x in given):
        result = _weak_as(result, b, eval_shape(_function(f"{name}: A", a, None), b))
    return result, None


def _weak_as(result: T, *others: object) -> T:
    """Its arrays are of weak types where those of the right side are, and of what A makes of it."""
    leaves, treedef = tree.flatten(result)
    marks = [[_weak(x) for x in tree.flatten(other)[0]] for other in others]
    arrays = map(as_array, leaves)
    made: T = tree.unflatten(treedef, [_weaken(x) if all(m) else x for x, *m in zip(arrays, *marks, strict=True)])
    return made


def _weak(x: object) -> bool:
    return (x if isinstance(x, ShapedArray) else as_array(x).aval).weak_type


def _weaken(x: Array) -> Array:
    return bind(ConvertElementType(x.dtype, weak_type=True), x)[0]


def _start(name: str, x0: object, like: PyTreeDef, shapes: Sequence[Shape]) -> Array:
    """As a vector; a ShapeError if its shapes aren't those of b."""
    leaves, treedef = tree.flatten(x0)
    tree.check_same_structure(f"{name}: x0 and b must have matching tree structure", like, treedef, "b", "x0")
    found = [as_array(x).shape for x in leaves]
    if found != list(shapes):
        raise ShapeError(f"{name}: x0 and b must have matching shape, got {found} and {list(shapes)}")
    return ravel_pytree(x0)[0]


def _function(name: str, linear: Linear[T], size: int | None) -> Callable[[Any], Any]:
    """What is applied to a tree; `size` is the number of rows of the right side if it is one array."""
    if callable(linear):
        return linear
    shape = getattr(linear, "shape", None)
    if isinstance(shape, tuple):
        if len(shape) != 2 or shape[0] != shape[1] or size not in (None, shape[0]):
            raise ShapeError(f"{name} must be a square matrix for a right side with {size} rows, got shape {shape}")
        matrix: Any = as_array(linear) if isinstance(linear, np.ndarray) else linear
        return lambda x: matrix @ x
    raise InputError(f"{name}: a linear operator must be either a function or ndarray, got {linear!r}")


filter_package(__name__, ["bicgstab", "cg", "gmres"])
