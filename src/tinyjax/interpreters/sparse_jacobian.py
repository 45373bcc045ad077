"""Jacobians from few directional derivatives: columns (or rows) that share no row (or column) are found together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, final

import numpy as np
import numpy.typing as npt
from attrs import field, frozen
from typing_extensions import override

from tinyjax.api import derivatives
from tinyjax.api.arguments import resolve_argnums
from tinyjax.api.chosen_arguments import ChosenArguments, check_inputs
from tinyjax.api.jacobian_blocks import check_results
from tinyjax.api.vectorize import vmap
from tinyjax.arrays.shaping import reshape
from tinyjax.control.custom_linear import CustomLin
from tinyjax.errors import InputError
from tinyjax.interpreters.sparsity import Bools, jacobian_sparsity
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.printing.shown import Shown
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.traverse import nested_programs
from tinyjax.numpy import concatenate, result_type, zeros
from tinyjax.tracebacks import filtered
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.functions import FlatFunction, check_callable, describe, flatten_arguments

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef

    from tinyjax.ir.printing.display import Block

Positions: TypeAlias = npt.NDArray[np.intp]
#: Directional derivatives of which kind.
Mode: TypeAlias = Literal["auto", "forward", "reverse"]


@final
@frozen(eq=False, repr=False)
class SparseJacobian(Shown):
    """A Jacobian as the elements that may be other than zero, and where they are.

    `rows` and `columns` count the elements of the results and of the arguments, leaf by leaf. `colors` says in which
    directional derivative each column was found; each row, if it was in reverse mode. `shape` is that of the dense
    array, if the result and the argument are one array each; otherwise that of the matrix.
    """

    values: Array
    rows: Positions
    columns: Positions
    colors: Positions
    shape: tuple[int, ...]
    matrix_shape: tuple[int, int]
    reverse: bool = False
    _results: tuple[ShapedArray, ...] = field(kw_only=True)
    _arguments: tuple[ShapedArray, ...] = field(kw_only=True)
    _results_tree: PyTreeDef = field(kw_only=True)
    _arguments_tree: PyTreeDef = field(kw_only=True)
    _one: bool = field(kw_only=True)

    @property
    def num_colors(self) -> int:
        """How many directional derivatives were needed."""
        return int(np.max(self.colors, initial=-1)) + 1

    def todense(self) -> Any:  # the user's own tree
        """What `jacfwd` returns: a tree like the results, of trees like the argument, of arrays, each of which has the
        axes of the result, then those of the argument."""
        dense = zeros(self.matrix_shape, self.values.dtype).at[self.rows, self.columns].set(self.values)
        across = _ends(self._arguments)
        inner = []
        for aval, (top, bottom) in zip(self._results, _ends(self._results), strict=True):
            blocks = [
                reshape(dense[top:bottom, left:right], (*aval.shape, *argument.shape)).astype(aval.dtype)
                for argument, (left, right) in zip(self._arguments, across, strict=True)
            ]
            found, _ = tree.unflatten(self._arguments_tree, blocks)
            inner.append(found[0] if self._one else tuple(found))
        return tree.unflatten(self._results_tree, inner)

    @override
    def _blocks(self) -> Iterator[Block]:
        from tinyjax.ir.printing.display import MOST, Note, table

        across, down = self.matrix_shape
        kind = "reverse-mode" if self.reverse else "directional"
        yield Note(
            f"Jacobian of {across:,} \N{MULTIPLICATION SIGN} {down:,} elements, {len(self.rows):,} of which may be "
            f"other than zero, from {self.num_colors} {kind} derivative{'' if self.num_colors == 1 else 's'}"
        )
        known = self.values.concrete()
        shown = [str(self.values.aval.dtype)] * len(self.rows) if known is None else np.asarray(known)[: MOST + 1]
        rows = [(f"{i}", f"{j}", str(value)) for i, j, value in zip(self.rows, self.columns, shown, strict=False)]
        yield from table(("row", "column", "value"), rows, numbers=0)


def _ends(avals: Sequence[ShapedArray]) -> list[tuple[int, int]]:
    """Where the elements of each array begin and end among those of all."""
    return list(pairwise(accumulate((aval.size for aval in avals), initial=0)))


def color_columns(pattern: Bools) -> Positions:
    """A color for each column, such that no two columns of one color are true in the same row.

    Greedy, columns with the most others in their way first.

    >>> color_columns(np.eye(4, dtype=bool) | np.eye(4, k=1, dtype=bool))
    array([1, 0, 1, 0])
    """
    weights = pattern.astype(np.float32)
    conflicts = weights.T @ weights > 0
    np.fill_diagonal(conflicts, False)
    colors = np.full(pattern.shape[1], -1, np.intp)
    for column in np.argsort(-conflicts.sum(axis=0), kind="stable"):
        taken = set(colors[conflicts[column]].tolist())
        colors[column] = next(color for color in range(len(colors)) if color not in taken)
    return colors


def sparse_jacobian(
    fun: Callable[..., object],
    argnums: int | Sequence[int] = 0,
    *,
    holomorphic: bool = False,
    mode: Mode = "auto",
) -> Callable[..., SparseJacobian]:
    """The Jacobian of `fun`, from as many directional derivatives as columns need colors.

    That is what `jacfwd` needs a derivative in each direction for. Arguments and results are trees, as for `jacfwd`.
    `mode` "reverse" colors rows, which takes fewer where results are few. "auto" is "forward", and "reverse" for what
    has a `custom_vjp` function in it, whose rule is for reverse mode only.

    >>> import tinyjax.numpy as tnp
    >>> jacobian = sparse_jacobian(lambda x: tnp.diff(x) ** 2)(np.array([1.0, 2.0, 4.0, 8.0]))
    >>> jacobian.todense(), jacobian.num_colors
    (Array([[-2.,  2.,  0.,  0.],
           [ 0., -4.,  4.,  0.],
           [ 0.,  0., -8.,  8.]], dtype=float64), 2)
    """
    check_callable("sparse_jacobian", fun)
    if mode not in ("auto", "forward", "reverse"):
        raise InputError(f"sparse_jacobian: mode is 'auto', 'forward' or 'reverse', not {mode!r}")

    @filtered
    def jacobian(*args: Any, **kwargs: Any) -> SparseJacobian:  # the user's arguments
        what = "sparse_jacobian"
        chosen = resolve_argnums(what, argnums, len(args))
        selected = ChosenArguments(fun, args, kwargs, chosen)
        own = [args[i] for i in chosen]
        values, treedef = flatten_arguments(selected, own, {})
        check_inputs(what, selected, values, treedef, holomorphic, allow_int=False)
        linearized = derivatives.linearize(FlatFunction(selected, what, treedef), values)
        program = linearized.program
        reverse = mode == "reverse" or (mode == "auto" and _only_reverse(program.jaxpr))
        check_results("jacrev" if reverse else what, describe(what, fun), program.out_avals, holomorphic)
        pattern = jacobian_sparsity(selected, *own, argnums=tuple(range(len(own))))
        outs, ins = program.out_avals, program.in_avals
        rows, columns = np.nonzero(pattern)
        colors = color_columns(pattern.T if reverse else pattern)
        if reverse:
            found = _compressed(
                colors, outs, lambda *cotangents: derivatives.pull_back(program, linearized.residuals, cotangents)
            )
            elements = found[colors[rows], columns]
        else:
            found = _compressed(
                colors, ins, lambda *tangents: derivatives.push_forward(program, linearized.residuals, tangents)
            )
            elements = found[colors[columns], rows]
        single = len(outs) == len(ins) == 1
        return SparseJacobian(
            elements.astype(result_type(*(aval.dtype for aval in outs))) if outs else elements,
            rows,
            columns,
            colors,
            (*outs[0].shape, *ins[0].shape) if single else pattern.shape,
            pattern.shape,
            reverse,
            results=outs,
            arguments=ins,
            results_tree=linearized.results.treedef,
            arguments_tree=treedef,
            one=not isinstance(argnums, Sequence),
        )

    return jacobian


def _only_reverse(jaxpr: Jaxpr) -> bool:
    """Whether part of a derivative is known by its transpose alone."""
    return any(isinstance(eqn.primitive, CustomLin) for program in nested_programs(jaxpr) for eqn in program.eqns)


def _compressed(colors: Positions, avals: Sequence[ShapedArray], derive: Callable[..., list[Array]]) -> Array:
    """The derivatives in the direction of each color, as rows."""
    count = int(np.max(colors, initial=-1)) + 1
    seeds = [
        (colors[start:end] == np.arange(count)[:, None]).astype(aval.dtype).reshape(count, *aval.shape)
        for aval, (start, end) in zip(avals, _ends(avals), strict=True)
    ]
    parts = vmap(derive)(*seeds) if count else []
    if not parts:
        return zeros((count, 0))
    return concatenate([reshape(part, (count, -1)) for part in parts], axis=1)
