"""Simplification: algebra that leaves every result as it is, to the bit."""

from __future__ import annotations

from typing import Final, overload

from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, ClosedJaxpr, Jaxpr, Literal
from tinyjax.transforms.rebuild import Rebuilding, bottom_up, on_closed, read
from tinyjax.transforms.rewrite import Rewriter
from tinyjax.transforms.shortcuts import SHORTCUTS, ShortcutRule
from tinyjax.transforms.simplify_arrays import ARRAY_RULES
from tinyjax.transforms.simplify_numbers import EXACT_RULES, FAST_RULES

_EXACT: Final = Rewriter((*EXACT_RULES, *ARRAY_RULES))
_FAST: Final = Rewriter((*EXACT_RULES, *ARRAY_RULES, *FAST_RULES))


@overload
def simplify(program: Jaxpr, *, fast_math: bool = False) -> Jaxpr: ...
@overload
def simplify(program: ClosedJaxpr, *, fast_math: bool = False) -> ClosedJaxpr: ...
def simplify(program: Jaxpr | ClosedJaxpr, *, fast_math: bool = False) -> Jaxpr | ClosedJaxpr:
    """The program without equations that algebra does without, also within the programs in it.

        { lambda ; a:f64[]. let b:f64[] = mul a 1.0; c:f64[] = neg b; d:f64[] = sub 2.0 c in (d,) }
        { lambda ; a:f64[]. let b:f64[] = add 2.0 a in (b,) }

    Types, values and derivatives stay, for floats too, with nan, infinities and both zeros: so `x * 1`, `x - 0.0` and
    `x + -0.0` are x, but not `x + 0.0` (-0.0 + 0.0 is 0.0), `x * 0.0` and `x - x` (of infinity they are nan). Which nan
    it is doesn't count. Integers, which wrap around, allow more.

    Loops that never run, branches that are known, calls that only hand values on, and carries that never change
    disappear too. `fast_math` adds what holds for real numbers, such as `x + 0.0`, `x * 0.0`, `x - x`, `x / x` and
    `(x + 1.0) + 2.0`: for programs in which no infinity or nan occurs and the last digit and the sign of zero don't
    count. The rules are in `transforms.EXACT_RULES`, `ARRAY_RULES` and `FAST_RULES`, for `transforms.rewrite`.
    """
    if isinstance(program, ClosedJaxpr):
        return on_closed(program, lambda jaxpr: simplify(jaxpr, fast_math=fast_math))
    rewriter = _FAST if fast_math else _EXACT
    return bottom_up(program, lambda jaxpr: rewriter.rewrite_one(_shortened(jaxpr)))


def _shortened(jaxpr: Jaxpr) -> Jaxpr:
    """The program with what stands for primitives that hold programs, where there is something shorter."""
    rules: dict[type[Primitive], ShortcutRule | None] = {}
    ctx = Rebuilding(jaxpr.invars)
    env: list[Atom] = list(jaxpr.invars)
    changed = False
    for cls in {type(eqn.primitive) for eqn in jaxpr.eqns}:
        rules[cls] = SHORTCUTS.find(cls)
    if not any(rules.values()):
        return jaxpr
    for eqn in jaxpr.eqns:
        ins = read(env, eqn.invars)
        rule = rules[type(eqn.primitive)]
        program = None
        if rule is not None:
            program = rule(eqn.primitive, [atom if isinstance(atom, Literal) else None for atom in ins])
        if program is None:
            env += ctx.again(eqn, ins)
            continue
        changed = True
        outs = ctx.splice(program, ins, eqn.source)
        env += [ctx.converted(out, var.aval) for out, var in zip(outs, eqn.outvars, strict=True)]
    return ctx.finish(read(env, jaxpr.outvars)) if changed else jaxpr
