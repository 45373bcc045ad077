"""Transposition of linear programs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Generic, final, overload

from attrs import frozen

from tinyjax.caching import remembered
from tinyjax.contexts import transposition
from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.ir.holding import AnyProgram, HoldsProgram, as_closed
from tinyjax.ir.merging import merged
from tinyjax.ir.naming import InputNames
from tinyjax.ir.primitive import UndefPrimal, Zero
from tinyjax.ir.printing.shown import Record
from tinyjax.ir.program import Atom, ClosedJaxpr, Jaxpr
from tinyjax.ir.tangents import with_zeros
from tinyjax.ir.verify import verify
from tinyjax.primitives.structure import instantiate
from tinyjax.transforms.arguments import flag
from tinyjax.transforms.arguments import marks as marks_each
from tinyjax.transforms.forms import Form, derived_names


@final
@frozen(repr=False)
class TransposedProgram(Record, Generic[Form]):
    """A linear program, transposed.

    `jaxpr` takes the inputs that aren't linear, then a cotangent for each output marked in `nonzero_in`. It returns a
    cotangent for each linear input marked in `nonzero_out` (positions among the linear inputs).
    """

    jaxpr: Form
    nonzero_in: tuple[bool, ...]
    nonzero_out: tuple[bool, ...]


@overload
def transpose(
    jaxpr: Jaxpr,
    linear: Sequence[bool],
    nonzero: Sequence[bool] | None = None,
    *,
    force: bool = True,
    check: bool = True,
) -> TransposedProgram[Jaxpr]: ...
@overload
def transpose(
    jaxpr: ClosedJaxpr | HoldsProgram,
    linear: Sequence[bool],
    nonzero: Sequence[bool] | None = None,
    *,
    force: bool = True,
    check: bool = True,
) -> TransposedProgram[ClosedJaxpr]: ...
def transpose(
    jaxpr: AnyProgram,
    linear: Sequence[bool],
    nonzero: Sequence[bool] | None = None,
    *,
    force: bool = True,
    check: bool = True,
) -> TransposedProgram[Jaxpr] | TransposedProgram[ClosedJaxpr]:
    """The program that maps cotangents of the outputs to cotangents of the linear inputs.

        { lambda ; a:f64[] b:f64[]. let c:f64[] = mul a b in (c,) }                       # linear in b
        { lambda ; a:f64[] b:f64[]. let c:f64[] = mul a b in (c,) }                       # b is now the cotangent of c

    `nonzero` marks the outputs that have a cotangent (default: all). With `force`, cotangents known to be zero are
    returned too. The constants of a closed program aren't linear, and are those of the result.

    A LinearityError, which names the equation, if the program isn't linear in the inputs marked `linear`: a sum with
    something known that isn't zero is not, nor is an output that doesn't depend on them. With `check=False` that isn't
    looked for, and what is known in a sum is taken for zero: for rules of primitives that hold programs, which are
    linear because of how they were made, and where a zero may have become an operand.
    """
    closed = as_closed(jaxpr, "transpose")
    verify(closed)
    n, program = len(closed.out_avals), closed.jaxpr
    marks = (True,) * n if nonzero is None else marks_each("transpose: nonzero", nonzero, n, "outputs")
    of_inputs = marks_each("transpose: linear", linear, len(closed.in_avals), "inputs", closed)
    if flag("transpose: check", check):
        from tinyjax.transforms.linearity import Kind, check_linear, kind_of  # which knows most primitives

        kinds = [*map(kind_of, closed.consts), *(Kind.LINEAR if mark else Kind.KNOWN for mark in of_inputs)]
        check_linear("transpose", program, kinds, marks)
    forced = flag("transpose: force", force)
    found = transpose_linear(program, (*[False] * len(closed.consts), *of_inputs), marks, forced)
    if isinstance(jaxpr, Jaxpr):
        return found
    named = found.jaxpr.named_by(_names(program, (*[False] * len(closed.consts), *of_inputs), marks))
    return TransposedProgram(ClosedJaxpr(named, closed.consts), found.nonzero_in, found.nonzero_out)


@remembered
def transpose_linear(
    jaxpr: Jaxpr, linear: tuple[bool, ...], nonzero: tuple[bool, ...], force: bool = True
) -> TransposedProgram[Jaxpr]:
    """The same for a program that is linear because of how it was made: it isn't looked at, and what is known in a sum
    is taken for zero."""
    marked: list[bool] = []
    num_known = linear.count(False)

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        args = merged(linear, map(UndefPrimal, compress(jaxpr.in_avals, linear)), ins)
        cts = with_zeros(ins[num_known:], nonzero, jaxpr.out_avals)
        found = transposition.transpose(ctx, jaxpr, args, cts)
        results = [ct for ct, mark in zip(found, linear, strict=True) if mark and ct is not None]
        marked.extend(force or not isinstance(ct, Zero) for ct in results)
        with ctx.cursor.within("transpose").attributing():
            return [instantiate(ctx, ct) for ct, mark in zip(results, marked, strict=True) if mark]

    known_avals = [var.aval for var, mark in zip(jaxpr.invars, linear, strict=True) if not mark]
    ct_avals = [atom.aval.cotangent for atom, mark in zip(jaxpr.outvars, nonzero, strict=True) if mark]
    program = stage([*known_avals, *ct_avals], run).named_by(_names(jaxpr, linear, nonzero))
    return TransposedProgram(program, nonzero, tuple(marked))


def _names(jaxpr: Jaxpr, linear: Sequence[bool], nonzero: Sequence[bool]) -> InputNames | None:
    cotangents = [f"cotangent of output {i}" for i, mark in enumerate(nonzero) if mark]
    return derived_names(jaxpr, lambda own: [*compress(own, [not mark for mark in linear]), *cotangents])
