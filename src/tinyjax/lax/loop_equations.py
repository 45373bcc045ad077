"""Equations of loops: from staged bodies and arrays to the leaves of the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from attrs import evolve

from tinyjax.arrays.shaping import integer
from tinyjax.control.carry import rearranged
from tinyjax.control.loops import While
from tinyjax.control.scan import Scan
from tinyjax.errors import ChoiceError, ConcretizationError, InputError, ShapeError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import FLOAT0
from tinyjax.ir.merging import completed
from tinyjax.lax.bodies import Body
from tinyjax.lax.carried_cells import carrying_cells, reading_cells
from tinyjax.tracing.array import Array
from tinyjax.tracing.core import bind
from tinyjax.tracing.functions import argument_path, float0_zeros
from tinyjax.tracing.programs import Traced

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef


def slice_type(aval: ShapedArray) -> ShapedArray:
    return aval.of_shape(aval.shape[1:])


def scan_length(
    what: str, f: Callable[..., object], treedef: PyTreeDef, arrays: Sequence[Array], first: int, length: int | None
) -> int:
    """The number of iterations. The arrays from the `first` one on are scanned over."""
    shapes = [x.aval.shape for x in arrays[first:]]
    if length is None and all(shapes) and len({shape[0] for shape in shapes}) == 1:
        return shapes[0][0]
    sizes: dict[str, int] = {}  # by what messages say of each
    for i in range(first, len(arrays)):
        aval = arrays[i].aval
        name = f"{argument_path(f, treedef, i)}, {aval}"
        if aval.ndim == 0:
            raise ShapeError(f"{what} goes along the leading axis of each array, but argument {name}, has none")
        sizes[name] = aval.shape[0]
    if length is not None:
        try:
            length = integer(length, f"{what}: the length")
        except ConcretizationError as error:
            raise ConcretizationError(
                f"{what}: the length must be known when the program is traced; for a number of iterations that isn't, "
                f"use while_loop or fori_loop. {error}"
            ) from None
        if length < 0:
            raise InputError(f"{what}: the length must be at least 0, got {length}")
        sizes = {"length": length, **sizes}
    if not sizes:
        raise ChoiceError(f"{what} needs arrays to go along, or a length")
    if len(set(sizes.values())) > 1:
        lines = "\n".join(f"  {size}: {name}" for name, size in sizes.items())
        raise ShapeError(f"{what}: the leading axes must have one size, but have\n{lines}")
    return next(iter(sizes.values()))


def unrolling(unroll: int | bool, length: int) -> int:
    if isinstance(unroll, bool):
        return max(length, 1) if unroll else 1
    number = integer(unroll, "unroll")
    if number < 0:
        raise ChoiceError(f"`unroll` must be a bool or an integer of at least 0, got {unroll}")
    return number or max(length, 1)


def bind_scan(body: Body, xs: Sequence[Array], length: int, reverse: bool, unroll: int) -> list[Array]:
    """The leaves of the carry at the end, and of the stacks."""
    return carrying_cells(body, lambda whole: _bind_scan(whole, xs, length, reverse, unroll))


def _bind_scan(body: Body, xs: Sequence[Array], length: int, reverse: bool, unroll: int) -> list[Array]:
    jaxpr, consts = body.traced.jaxpr, [*body.traced.captured]
    carry = [x for x in body.carry if x.aval.dtype != FLOAT0]
    moved, kept = _unchanged(body, len(carry))
    if moved:
        n, inputs, outputs = len(consts), range(len(jaxpr.invars)), range(len(jaxpr.outvars))
        order = (*inputs[:n], *(n + i for i in (*moved, *kept)), *inputs[n + len(carry) :])
        jaxpr = rearranged(jaxpr, order, (*kept, *outputs[len(carry) :]))
        consts += [carry[i] for i in moved]
    loop = Scan(jaxpr, length, reverse, len(consts), len(kept), unroll)
    outs = bind(loop, *consts, *[carry[i] for i in kept], *[x for x in xs if x.aval.dtype != FLOAT0])
    if not moved and not body.traced.erased:
        return list(outs)
    return _with_constant(body, carry, kept, outs, length)


def _unchanged(body: Body, num_carry: int) -> tuple[list[int], list[int]]:
    """The carries that the body returns as they are, and the others.

    The former are constants of the loop: so nobody keeps them for each iteration, and they are mapped only if they are
    mapped at the start.
    """
    jaxpr, n = body.traced.jaxpr, len(body.traced.captured)
    same = [jaxpr.outvars[i] == jaxpr.invars[n + i] for i in range(num_carry)]
    return [i for i, mark in enumerate(same) if mark], [i for i, mark in enumerate(same) if not mark]


def _with_constant(
    body: Body, carry: Sequence[Array], kept: Sequence[int], outs: Sequence[Array], length: int
) -> list[Array]:
    """All leaves of the results: the carries at the end, those of them that were `kept` from `outs`, and the stacks."""
    last = dict(enumerate(carry)) | dict(zip(kept, outs, strict=False))
    return with_erased(body.traced, len(body.carry), [*last.values(), *outs[len(kept) :]], length)


def with_erased(traced: Traced, num_carry: int, outs: Sequence[Array], length: int) -> list[Array]:
    """All leaves of the results, carries and then stacks: those without bits, too, which the program doesn't have."""
    erased = {i: x if i < num_carry else float0_zeros((length, *x.aval.shape)) for i, x in traced.erased.items()}
    return completed(erased, outs, traced.treedef.num_leaves)


def bind_while(body: Body, cond: Traced) -> list[Array]:
    """The leaves of the carry at the end."""
    traced, condition = reading_cells(body.traced, cond)
    return carrying_cells(evolve(body, traced=traced), lambda whole: _bind_while(whole, condition))


def _bind_while(body: Body, cond: Traced) -> list[Array]:
    jaxpr, cond_jaxpr = body.traced.jaxpr, cond.jaxpr
    carry = [x for x in body.carry if x.aval.dtype != FLOAT0]
    consts, cond_consts = [*body.traced.captured], [*cond.captured]
    moved, kept = _unchanged(body, len(carry))
    if moved:
        order = [*moved, *kept]
        n, m = len(consts), len(cond_consts)
        jaxpr = rearranged(jaxpr, (*range(n), *(n + i for i in order)), tuple(kept))
        cond_jaxpr = rearranged(cond_jaxpr, (*range(m), *(m + i for i in order)))
        consts += [carry[i] for i in moved]
        cond_consts += [carry[i] for i in moved]
    loop = While(cond_jaxpr, len(cond_consts), jaxpr, len(consts))
    outs = bind(loop, *cond_consts, *consts, *(carry[i] for i in kept))
    return _with_constant(body, carry, kept, outs, 0)
