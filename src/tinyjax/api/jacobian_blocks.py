"""What `jacfwd` and `jacrev` compute: whole derivatives, by mapping a linearized function over a basis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any

from tinyjax.api import derivatives
from tinyjax.api.chosen_arguments import Differentiation
from tinyjax.api.vectorize import vmap
from tinyjax.errors import InputError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import COMPLEXES, FLOAT0, FLOATS
from tinyjax.ir.tangents import has_tangent
from tinyjax.numpy import eye, zeros
from tinyjax.tracebacks import filtered
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.wrapping import wraps


def jacobian_by(asked: Differentiation) -> Callable[..., Any]:
    """A function that returns the Jacobian of the user's: a tree like the results, of trees like the arguments."""

    @filtered
    @wraps(asked.fun)
    def jacobian(*args: Any, **kwargs: Any) -> Any:  # the user's; a tree of trees of arrays
        treedef, linearized = asked.linearize(args, kwargs)
        check_results(asked.what, asked.said, linearized.program.out_avals, asked.holomorphic)
        blocks = (_by_columns if asked.what == "jacfwd" else _by_rows)(linearized)
        outer = tree.unflatten(linearized.results.treedef, [asked.by_argument(treedef, row) for row in blocks])
        return (outer, linearized.results.aux()) if asked.has_aux else outer

    return jacobian


def _by_columns(linearized: derivatives.Linearized) -> list[list[Array]]:
    """For each result and each input, the block of the Jacobian, found by forward mode."""
    ins, outs = linearized.program.in_avals, linearized.program.out_avals
    if not ins:
        return [[] for _ in outs]
    push = vmap(
        lambda *tangents: derivatives.push_forward(linearized.program, linearized.residuals, tangents), out_axes=-1
    )
    columns = push(*_basis(ins))
    return [
        [_block(part, out, out, aval) for part, aval in zip(_split(column, ins, -1), ins, strict=True)]
        for column, out in zip(columns, outs, strict=True)
    ]


def _by_rows(linearized: derivatives.Linearized) -> list[list[Array]]:
    """The same, found by reverse mode."""
    ins, outs = linearized.program.in_avals, linearized.program.out_avals
    program, kept = linearized.program, linearized.residuals
    pull = vmap(lambda *cotangents: derivatives.pull_back(program, kept, cotangents))
    columns = [
        [_block(part, aval, out, aval) for part, out in zip(_split(rows, outs, 0), outs, strict=True)]
        for rows, aval in zip(pull(*_basis(outs)), ins, strict=True)
    ]
    return [[column[i] for column in columns] for i in range(len(outs))]


def _block(part: Array, moved: ShapedArray, out: ShapedArray, aval: ShapedArray) -> Array:
    """The derivatives of a result by an input. Where what was moved has no derivative they are zeros of its own dtype,
    as in jax."""
    shape = (*out.shape, *aval.shape)
    return part.reshape(shape) if has_tangent(moved) else zeros(shape, moved.dtype)


def _basis(avals: Sequence[ShapedArray]) -> list[Array]:
    """For each type, a batch of arrays that together are the unit vectors of the whole space."""
    total = sum(aval.size for aval in avals if has_tangent(aval))
    basis: list[Array] = []
    offset = 0
    for aval in avals:
        if not has_tangent(aval):
            basis.append(zeros((total, *aval.shape), FLOAT0))
            continue
        unit = eye(total, aval.size, k=-offset, dtype=aval.dtype)
        basis.append(unit.reshape((total, *aval.shape)))
        offset += aval.size
    return basis


def _split(x: Array, avals: Sequence[ShapedArray], axis: int) -> list[Array]:
    """x divided along its first or last axis into one part for each type."""
    ends = list(accumulate((aval.size for aval in avals), initial=0))
    if axis == 0:
        return [x[start:end] for start, end in pairwise(ends)]
    return [x[..., start:end] for start, end in pairwise(ends)]


def check_results(what: str, where: str, avals: Sequence[ShapedArray], holomorphic: bool) -> None:
    """An InputError for results that have no Jacobian. `what`: by which of the functions here."""
    accepted, kind = (COMPLEXES, "complex") if holomorphic else (FLOATS | COMPLEXES, "floating-point")
    if what == "jacrev" and not holomorphic:
        accepted = FLOATS
    for aval in avals:
        if what == "jacfwd" and not holomorphic and not has_tangent(aval):
            continue
        if aval.dtype not in accepted:
            raise InputError(f"{where} needs {kind} results; it returned {aval}")
