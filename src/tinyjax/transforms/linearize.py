"""Linearization of programs: forward-mode differentiation, then partial evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from attrs import frozen

from tinyjax.caching import remembered
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.verify import verify
from tinyjax.transforms.jvp import jvp, tangent_marks
from tinyjax.transforms.partial_eval import Residual, partial_eval


@final
@frozen
class Linearization:
    """A program divided into its value and its derivative.

    `primal` takes the inputs and returns the outputs, then every residual that isn't an input. `linear` takes all
    residuals, then a tangent for each input marked in `nonzero_in`; it returns a tangent for each output marked in
    `nonzero_out`, and is linear in the tangents.
    """

    primal: Jaxpr
    linear: Jaxpr
    nonzero_in: tuple[bool, ...]
    nonzero_out: tuple[bool, ...]
    residuals: tuple[Residual, ...]


def linearize(jaxpr: Jaxpr, nonzero: Sequence[bool] | None = None) -> Linearization:
    """The value of a program, and its derivative as a linear program.

    { lambda ; a:f64[]. let b:f64[] = sin a in (b,) }
    primal  { lambda ; a:f64[]. let b:f64[] = sin a; c:f64[] = cos a in (b, c) }
    linear  { lambda ; a:f64[] b:f64[]. let c:f64[] = mul b a in (c,) }
    """
    verify(jaxpr)
    return _linearize(jaxpr, tangent_marks("linearize", jaxpr, nonzero))


@remembered
def _linearize(jaxpr: Jaxpr, nonzero: tuple[bool, ...]) -> Linearization:
    derived = jvp(jaxpr, nonzero)
    num_primal, num_tangents = len(jaxpr.outvars), sum(derived.nonzero_out)
    unknown = (False,) * len(jaxpr.invars) + (True,) * sum(nonzero)
    # The primal outputs can't depend on a tangent, so they are all known.
    parts = partial_eval(derived.jaxpr, unknown, force_unknown=(False,) * num_primal + (True,) * num_tangents)
    return Linearization(parts.known, parts.staged, nonzero, derived.nonzero_out, parts.residuals)
