"""Linearization of programs: forward-mode differentiation, of which what doesn't depend on tangents is computed now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, final, overload

from attrs import field, frozen

from tinyjax.caching import remembered
from tinyjax.contexts.jvp import Dual, JvpContext
from tinyjax.contexts.partial_eval import Partial, PartialEvalContext
from tinyjax.ir.holding import AnyProgram, HoldsProgram, as_closed
from tinyjax.ir.interpret import interpret
from tinyjax.ir.primitive import Zero
from tinyjax.ir.printing.shown import Record
from tinyjax.ir.program import Atom, ClosedJaxpr, Jaxpr
from tinyjax.ir.tangents import with_zeros
from tinyjax.ir.verify import verify
from tinyjax.primitives.casts import cast
from tinyjax.transforms.arguments import tangent_marks
from tinyjax.transforms.forms import Form, derived_names, names_with_tangents, tangent_names
from tinyjax.transforms.partial_eval import Outputs, divide
from tinyjax.transforms.residuals import Residual, as_residuals, close_over


@final
@frozen(repr=False)
class Linearization(Record, Generic[Form]):
    """A program divided into its value and its derivative.

    `primal` takes the inputs and returns the outputs, then every residual that isn't an input. `linear` takes all
    residuals, then a tangent for each input marked in `nonzero_in`; it returns a tangent for each output marked in
    `nonzero_out`, and is linear in the tangents.
    """

    primal: Form
    linear: Form
    nonzero_in: tuple[bool, ...]
    nonzero_out: tuple[bool, ...]
    residuals: tuple[Residual, ...] = field(converter=as_residuals)


@overload
def linearize(jaxpr: Jaxpr, nonzero: Sequence[bool] | None = None) -> Linearization[Jaxpr]: ...
@overload
def linearize(
    jaxpr: ClosedJaxpr | HoldsProgram, nonzero: Sequence[bool] | None = None
) -> Linearization[ClosedJaxpr]: ...
def linearize(
    jaxpr: AnyProgram, nonzero: Sequence[bool] | None = None
) -> Linearization[Jaxpr] | Linearization[ClosedJaxpr]:
    """The value of a program, and its derivative as a linear program.

    { lambda ; a:f64[]. let b:f64[] = sin a in (b,) }
    primal  { lambda ; a:f64[]. let b:f64[] = sin a; c:f64[] = cos a in (b, c) }
    linear  { lambda ; a:f64[] b:f64[]. let c:f64[] = mul b a in (c,) }

    The constants of a closed program have no tangents, and are no residuals: the linear program has those
    that it needs.
    """
    if not isinstance(jaxpr, Jaxpr):
        closed = as_closed(jaxpr, "linearize")
        verify(closed)
        n = len(closed.consts)
        found = linearize(closed.jaxpr, (*[False] * n, *tangent_marks("linearize", closed, nonzero)))
        kept, nonzero_in = [residual.input for residual in found.residuals], found.nonzero_in
        names = derived_names(
            closed.jaxpr, lambda own: [*("" if i is None else own[i] for i in kept), *tangent_names(own, nonzero_in)]
        )
        linear, residuals = close_over(closed, found.linear.named_by(names), found.residuals)
        primal = ClosedJaxpr(found.primal.named_by(closed.jaxpr.names), closed.consts)
        return Linearization(primal, linear, found.nonzero_in[n:], found.nonzero_out, residuals)
    verify(jaxpr)
    return _linearize(jaxpr, tangent_marks("linearize", jaxpr, nonzero))


@remembered
def _linearize(jaxpr: Jaxpr, nonzero: tuple[bool, ...]) -> Linearization:
    nonzero_out: list[bool] = []

    def run(ctx: PartialEvalContext[Atom], args: Sequence[Partial[Atom]]) -> Outputs:
        n = len(jaxpr.invars)
        duals = map(Dual, args[:n], with_zeros(args[n:], nonzero, jaxpr.in_avals))
        inner = JvpContext(ctx)
        outs = interpret(inner, jaxpr, list(duals))
        with inner.cursor.attributing():
            tangents = [
                cast(ctx, out.tangent, ctx.aval(out.primal).axes) for out in outs if not isinstance(out.tangent, Zero)
            ]
        nonzero_out.extend(not isinstance(out.tangent, Zero) for out in outs)
        # The primal outputs can't depend on a tangent, so they are all known.
        return [*(out.primal for out in outs), *tangents], [*[False] * len(outs), *[True] * len(tangents)]

    avals = [*jaxpr.in_avals, *(aval.tangent for aval, mark in zip(jaxpr.in_avals, nonzero, strict=True) if mark)]
    unknown = (False,) * len(jaxpr.invars) + (True,) * sum(nonzero)
    parts = divide(avals, unknown, run, names_with_tangents(jaxpr, nonzero))
    return Linearization(parts.known, parts.staged, nonzero, tuple(nonzero_out), parts.residuals)
