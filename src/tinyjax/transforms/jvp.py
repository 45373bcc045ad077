"""Forward-mode differentiation of programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, final, overload

from attrs import frozen

from tinyjax.contexts.jvp import Dual, JvpContext
from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.ir.dtypes import FLOAT0
from tinyjax.ir.holding import AnyProgram, HoldsProgram, as_closed
from tinyjax.ir.interpret import interpret
from tinyjax.ir.primitive import Zero
from tinyjax.ir.program import Atom, ClosedJaxpr, Jaxpr
from tinyjax.ir.tangents import with_zeros
from tinyjax.ir.verify import verify
from tinyjax.primitives.casts import cast
from tinyjax.primitives.structure import instantiate
from tinyjax.transforms.arguments import marks, tangent_marks
from tinyjax.transforms.forms import DerivedProgram, Form, names_with_tangents
from tinyjax.transforms.once import derived_once


@final
@frozen(repr=False)
class JvpProgram(DerivedProgram, Generic[Form]):
    """A differentiated program.

    `jaxpr` takes the primal inputs, then a tangent for each input marked in `nonzero_in`. It returns the primal
    outputs, then a tangent for each output marked in `nonzero_out`; the tangents of the others are zero.
    """

    jaxpr: Form
    nonzero_in: tuple[bool, ...]
    nonzero_out: tuple[bool, ...]


@overload
def jvp(
    jaxpr: Jaxpr, nonzero: Sequence[bool] | None = None, *, force: Sequence[bool] | None = None
) -> JvpProgram[Jaxpr]: ...
@overload
def jvp(
    jaxpr: ClosedJaxpr | HoldsProgram, nonzero: Sequence[bool] | None = None, *, force: Sequence[bool] | None = None
) -> JvpProgram[ClosedJaxpr]: ...
def jvp(
    jaxpr: AnyProgram, nonzero: Sequence[bool] | None = None, *, force: Sequence[bool] | None = None
) -> JvpProgram[Jaxpr] | JvpProgram[ClosedJaxpr]:
    """The program that also computes tangents.

        { lambda ; a:f64[]. let b:f64[] = sin a in (b,) }
        { lambda ; a:f64[] b:f64[]. let c:f64[] = sin a; d:f64[] = cos a; e:f64[] = mul b d in (c, e) }

    `nonzero` marks the inputs that have a tangent (default: all that can have one). `force` marks outputs whose
    tangent is returned even if it is known to be zero; those of integers have none to return. The constants of a closed
    program have no tangents, and are those of the result.
    """
    if not isinstance(jaxpr, Jaxpr):
        closed = as_closed(jaxpr, "jvp")
        verify(closed)
        n = len(closed.consts)
        found = jvp(closed.jaxpr, (*[False] * n, *tangent_marks("jvp", closed, nonzero)), force=force)
        named = found.jaxpr.named_by(names_with_tangents(closed.jaxpr, found.nonzero_in))
        return JvpProgram(ClosedJaxpr(named, closed.consts), found.nonzero_in[n:], found.nonzero_out)
    verify(jaxpr)
    n = len(jaxpr.outvars)
    forced = (False,) * n if force is None else marks("jvp: force", force, n, "outputs")
    return derived_once(_jvp, jaxpr, tangent_marks("jvp", jaxpr, nonzero), forced)


def _jvp(jaxpr: Jaxpr, nonzero: tuple[bool, ...], force: tuple[bool, ...]) -> JvpProgram:
    marked: list[bool] = []

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        duals = list(map(Dual, ins, with_zeros(ins[len(nonzero) :], nonzero, jaxpr.in_avals)))
        inner = JvpContext(ctx)
        outs = interpret(inner, jaxpr, duals)
        for out, keep in zip(outs, force, strict=True):
            tangent = out.tangent
            marked.append(keep and tangent.aval.dtype != FLOAT0 if isinstance(tangent, Zero) else True)
        with inner.cursor.attributing():
            results = [
                cast(ctx, instantiate(ctx, out.tangent), out.primal.aval.axes)
                for out, mark in zip(outs, marked, strict=True)
                if mark
            ]
        return [*(out.primal for out in outs), *results]

    avals = jaxpr.in_avals
    with_tangents = [aval.tangent for aval, mark in zip(avals, nonzero, strict=True) if mark]
    program = stage([*avals, *with_tangents], run).named_by(names_with_tangents(jaxpr, nonzero))
    return JvpProgram(program, nonzero, tuple(marked))
