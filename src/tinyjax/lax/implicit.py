"""Solutions of equations that whatever function may compute: their derivatives are those of the equations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, final, overload

import numpy as np
from attrs import frozen

from tinyjax.arrays.elementwise import astype
from tinyjax.control.call import Call
from tinyjax.control.implicit import CustomRoot, LinearSolve
from tinyjax.errors import InputError, ShapeError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import INEXACT
from tinyjax.ir.program import Jaxpr
from tinyjax.lax.bodies import stage
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind
from tinyjax.tracing.functions import check_callable, flatten_arguments, located
from tinyjax.tracing.programs import Traced
from tinyjax.transforms.arguments import flag
from tinyjax.transforms.linearize import linearize
from tinyjax.transforms.transpose import transpose

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef

_T = TypeVar("_T")
_U = TypeVar("_U")
#: A linear function, or its transpose, as the functions that solve get it: it takes a tree, and returns one like it.
_Operator = Callable[[_T], _T]


@final
@frozen(eq=False)
class _Unknown:
    """The tree and the types of what is looked for."""

    what: str
    like: str
    treedef: PyTreeDef
    avals: tuple[ShapedArray, ...]

    @staticmethod
    def of(what: str, f: Callable[..., object], like: str, given: object) -> tuple[_Unknown, list[Array]]:
        """The tree of arrays that the unknown is like, called so, and its leaves, strongly typed."""
        arrays, _ = flatten_arguments(f, (given,), {})
        arrays = [astype(x, x.aval.dtype) for x in arrays]
        for x in arrays:
            if x.aval.dtype not in INEXACT:
                raise InputError(f"{what}: the unknowns must be floating-point or complex numbers, got {x.aval}")
        return _Unknown(what, like, tree.flatten(given)[1], tuple(x.aval for x in arrays)), arrays

    def unflatten(self, leaves: Sequence[object]) -> Any:  # the user's own tree
        return tree.unflatten(self.treedef, leaves)

    def leaves(self, value: object, role: str, f: Callable[..., object]) -> list[Array]:
        """Those of a tree that a function returns for one like this, converted to the same dtypes."""
        found, treedef = tree.flatten(value)
        what = f"{self.what}: {role}() output pytree must match that of {self.like}"
        tree.check_same_structure(what, self.treedef, treedef, self.like, f"what {located(f)} returns")
        arrays = [as_array(x) for x in found]
        shapes = [x.aval.shape for x in arrays]
        if shapes != [aval.shape for aval in self.avals]:
            raise ShapeError(
                f"{self.what}: {role}() output shapes must match {self.like}, which is "
                f"{', '.join(map(str, self.avals))}; {located(f)} returns {', '.join(str(x.aval) for x in arrays)}"
            )
        return [astype(x, aval.dtype) for x, aval in zip(arrays, self.avals, strict=True)]

    def checked(
        self, f: Callable[..., object], role: str, by: Callable[..., object], has_aux: bool
    ) -> Callable[..., object]:
        """The function, which returns a tree like the unknown, or a pair of one and more; `by` is for messages."""

        def run(*args: object) -> object:
            found = f(*args)
            if not has_aux:
                return self.leaves(found, role, by)
            if not isinstance(found, tuple | list) or len(found) != 2:
                raise InputError(f"{self.what}: {role}() output pytree: with has_aux, {located(by)} must return a pair")
            return self.leaves(found[0], role, by), found[1]

        return run

    def staged(
        self, f: Callable[..., object], role: str, by: Callable[..., object], count: int = 1, aux: bool = False
    ) -> Traced:
        """A function of so many trees like the unknown, as a program."""
        run = self.checked(f, role, by, aux)
        treedef = tree.flatten(((self.unflatten(self.avals),) * count, {}))[1]
        return stage(self.what, run, treedef, self.avals * count)

    def function(self, name: str, jaxpr: Jaxpr, consts: Sequence[Array]) -> Callable[..., Any]:
        """A program as a function of trees like the unknown: what it takes after these constants."""
        wanted = jaxpr.in_avals[len(consts) :]

        def apply(x: object) -> Any:
            leaves = [astype(as_array(leaf), aval.dtype) for leaf, aval in zip(tree.flatten(x)[0], wanted, strict=True)]
            return self.unflatten(bind(Call(name, jaxpr), *consts, *leaves))

        return apply


def _results(unknown: _Unknown, traced: Traced, outs: Sequence[Array], has_aux: bool) -> Any:
    n = len(unknown.avals)
    if not has_aux:
        return unknown.unflatten(outs)
    return unknown.unflatten(outs[:n]), traced.results(outs)[1]


@overload
def custom_linear_solve(
    matvec: Callable[[_T], _T],
    b: _T,
    solve: Callable[[_Operator[_T], _T], _T],
    transpose_solve: Callable[[_Operator[_T], _T], _T] | None = None,
    symmetric: bool = False,
    has_aux: Literal[False] = False,
) -> _T: ...


@overload
def custom_linear_solve(
    matvec: Callable[[_T], _T],
    b: _T,
    solve: Callable[[_Operator[_T], _T], tuple[_T, _U]],
    transpose_solve: Callable[[_Operator[_T], _T], tuple[_T, _U]] | None = None,
    symmetric: bool = False,
    *,
    has_aux: Literal[True],
) -> tuple[_T, _U]: ...


def custom_linear_solve(
    matvec: Callable[[Any], Any],  # the user's trees
    b: object,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    transpose_solve: Callable[[Callable[[Any], Any], Any], Any] | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """The solution x of `matvec(x) = b`, computed by `solve(matvec, b)`, with the derivatives of the equation.

    So `solve` needs no derivatives: it may loop until x is good enough. Those of x come from solving the same equation
    with another right side, in reverse mode the transposed one, by `transpose_solve(vecmat, y)`.

    Args:
      matvec: a linear function, of a tree of arrays like b to one like it. It may close over values, with respect to
        which x is differentiated too.
      b: the right side.
      solve: takes the linear function and a right side, and returns the solution; a pair of it and more if `has_aux`.
      transpose_solve: the same for the transpose of the linear function. Without it there is no reverse mode.
      symmetric: the linear function is its own transpose, so that `solve` serves for both.
      has_aux: `solve` returns more, which has no derivatives.

    Raises:
      TreeError: a function returns another tree than b.
      ShapeError: it returns arrays of other shapes.

    >>> import numpy as np
    >>> d = np.array([2.0, 4.0])
    >>> custom_linear_solve(
    ...     lambda x: d * x, np.ones(2), lambda matvec, b: b / matvec(np.ones(2)), symmetric=True
    ... )
    Array([0.5 , 0.25], dtype=float64)
    """
    for f in (matvec, solve, *([] if transpose_solve is None else [transpose_solve])):
        check_callable("custom_linear_solve", f)
    has_aux = flag("custom_linear_solve: has_aux", has_aux)
    if flag("custom_linear_solve: symmetric", symmetric) and transpose_solve is None:
        transpose_solve = solve
    unknown, right = _Unknown.of("custom_linear_solve", matvec, "b", b)
    forward = unknown.staged(matvec, "matvec", matvec)
    apply = unknown.function("matvec", forward.jaxpr, forward.captured)
    solution = unknown.staged(lambda y: solve(apply, y), "solve", solve, aux=has_aux)
    consts = [forward.captured, (), solution.captured, ()]
    backward: Jaxpr | None = None
    back: Traced | None = None
    if transpose_solve is not None:
        own, solver = len(forward.captured), transpose_solve
        backward = forward.jaxpr
        if not symmetric:
            linear = [False] * own + [True] * len(right)
            backward = transpose(forward.jaxpr, linear, check=False).jaxpr
        apply_back = unknown.function("vecmat", backward, forward.captured)
        back = unknown.staged(lambda y: solver(apply_back, y), "transpose_solve", solver, aux=has_aux)
        consts[1], consts[3] = forward.captured, back.captured
    lengths = tuple(map(len, consts))
    primitive = LinearSolve(solution.jaxpr, lengths, forward.jaxpr, backward, None if back is None else back.jaxpr)
    outs = bind(primitive, *[x for group in consts for x in group], *right)
    return _results(unknown, solution, outs, has_aux)


@overload
def custom_root(
    f: Callable[[_T], _T],
    initial_guess: _T,
    solve: Callable[[Callable[[_T], _T], _T], _T],
    tangent_solve: Callable[[_Operator[_T], _T], _T],
    has_aux: Literal[False] = False,
) -> _T: ...


@overload
def custom_root(
    f: Callable[[_T], _T],
    initial_guess: _T,
    solve: Callable[[Callable[[_T], _T], _T], tuple[_T, _U]],
    tangent_solve: Callable[[_Operator[_T], _T], _T],
    has_aux: Literal[True],
) -> tuple[_T, _U]: ...


def custom_root(
    f: Callable[[Any], Any],  # the user's trees
    initial_guess: object,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    tangent_solve: Callable[[Callable[[Any], Any], Any], Any],
    has_aux: bool = False,
) -> Any:
    """A solution x of `f(x) = 0`, computed by `solve(f, initial_guess)`, with the derivatives of the equation.

    Those are with respect to what f closes over, by the implicit function theorem; the guess has none.

    Args:
      f: takes a tree of arrays, and returns one like it.
      initial_guess: a tree like the solution.
      solve: takes f and the guess, and returns the solution; a pair of it and more if `has_aux`.
      tangent_solve: takes f's linearization g at the solution, and y, and returns t with `g(t) = y`. Of scalars that is
        `lambda g, y: y / g(1.0)`.
      has_aux: `solve` returns more, which has no derivatives.

    Raises:
      TreeError: a function returns another tree than the guess.
      ShapeError: it returns arrays of other shapes.

    >>> import numpy as np
    >>> import tinyjax as tj
    >>> def root(a):
    ...     return custom_root(
    ...         lambda x: x * x - a, 1.0, lambda f, x: tj.numpy.sqrt(a), lambda g, y: y / g(1.0)
    ...     )
    >>> root(4.0), tj.grad(root)(np.float64(4.0))
    (Array(2., dtype=float64), Array(0.25, dtype=float64))
    """
    for each in (f, solve, tangent_solve):
        check_callable("custom_root", each)
    has_aux = flag("custom_root: has_aux", has_aux)
    unknown, guess = _Unknown.of("custom_root", f, "initial_guess", initial_guess)
    equation = unknown.staged(f, "f", f)
    solution = unknown.staged(lambda x: solve(f, x), "solve", solve, aux=has_aux)
    moves = [False] * len(equation.captured) + [True] * len(guess)
    linear = linearize(equation.jaxpr, moves)
    n = len(guess)

    def tangents(x: object, y: object) -> object:
        ins = [*equation.captured, *map(as_array, tree.flatten(x)[0])]
        outs = bind(Call("f", linear.primal), *ins)[n:]
        made = iter(outs)
        residuals = [next(made) if r.input is None else ins[r.input] for r in linear.residuals]

        def derivative(t: object) -> Any:
            given = tree.flatten(t)[0]
            wanted = linear.linear.in_avals[len(residuals) :]
            leaves = [astype(as_array(leaf), aval.dtype) for leaf, aval in zip(given, wanted, strict=True)]
            found = iter(bind(Call("derivative_of_f", linear.linear), *residuals, *leaves))
            zeros = [_zero(aval) for aval in unknown.avals]
            marks = linear.nonzero_out
            return unknown.unflatten([next(found) if mark else z for mark, z in zip(marks, zeros, strict=True)])

        return tangent_solve(derivative, y)

    solver = unknown.staged(tangents, "tangent_solve", tangent_solve, 2)
    consts = (equation.captured, solution.captured, solver.captured)
    primitive = CustomRoot(solution.jaxpr, tuple(map(len, consts)), equation.jaxpr, solver.jaxpr)
    outs = bind(primitive, *[x for group in consts for x in group], *guess)
    return _results(unknown, solution, outs, has_aux)


def _zero(aval: ShapedArray) -> Array:
    return as_array(np.zeros(aval.shape, aval.dtype))
