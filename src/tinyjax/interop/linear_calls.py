"""Linear functions of JAX that have a transpose of their own, as ours: the transpose is asked for in advance."""

from __future__ import annotations

import jax
from jax.extend.core import JaxprEqn

from tinyjax.control.linear_call import LinearCall
from tinyjax.interop.open_rules import OpenRules
from tinyjax.interop.requests import Request, Step, request
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom


def transposable(eqn: JaxprEqn, args: list[Atom], rules: OpenRules) -> Step[tuple[Primitive, list[Atom]]]:
    """The primitive for a `linear_call`, and its operands."""
    captured, own = eqn.params["num_callee_consts"], eqn.params["num_res"]
    body = yield request(eqn.params["callee"], rules)
    n = captured + own
    operands = [*args[:n], *args[captured:n], *args[n:]]
    try:
        program, consts = eqn.params["transpose_thunk"]()
    except (TypeError, ValueError):  # which JAX would raise only when it transposes
        return LinearCall(body, (n, own)), operands
    if any(isinstance(const, jax.core.Tracer) for const in consts):  # JAX doesn't transpose it either
        return LinearCall(body, (n, own)), operands
    asked = request(program, rules)
    back = yield Request(asked.jaxpr, (*asked.consts, *consts), rules)
    return LinearCall(body, (n, own), back), operands
