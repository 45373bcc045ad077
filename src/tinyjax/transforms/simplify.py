"""Simplification: algebra that leaves every result as it is, to the bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tinyjax.ir.holding import ProgramT, changed
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Literal
from tinyjax.ir.source import SourceInfo
from tinyjax.transforms.arguments import flag
from tinyjax.transforms.decided import SHORTCUTS, ShortcutRule
from tinyjax.transforms.rebuild import Rebuilding, bottom_up, read
from tinyjax.transforms.rewrite import Rewriter
from tinyjax.transforms.simplify_arrays import ARRAY_RULES
from tinyjax.transforms.simplify_numbers import EXACT_RULES, FAST_RULES

_EXACT: Final = Rewriter((*EXACT_RULES, *ARRAY_RULES))
_FAST: Final = Rewriter((*EXACT_RULES, *ARRAY_RULES, *FAST_RULES))


def simplify(program: ProgramT, *, fast_math: bool = False) -> ProgramT:
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
    rewriter = _FAST if flag("simplify: fast_math", fast_math) else _EXACT

    def simpler(jaxpr: Jaxpr) -> Jaxpr:
        return bottom_up(jaxpr, lambda inner: rewriter.rewrite_one(_shortened(inner)), before=_shortened)

    return changed(program, "simplify", simpler)


def _shortened(jaxpr: Jaxpr) -> Jaxpr:
    """The program with what stands for primitives that hold programs, where there is something shorter; also within
    what stands for them, so that loops of one iteration around each other are taken apart in one go."""
    rules: dict[type[Primitive], ShortcutRule | None] = {}
    ctx = Rebuilding(jaxpr.invars)
    shortened = False
    if not any(SHORTCUTS.find(cls) for cls in {type(eqn.primitive) for eqn in jaxpr.eqns}):
        return jaxpr
    # The program at hand and those around it: its variables so far, what is left of it, what it stands for, and where.
    path: list[tuple[list[Atom], Iterator[Eqn], Jaxpr, Eqn | None, SourceInfo | None]] = [
        (list(jaxpr.invars), iter(jaxpr.eqns), jaxpr, None, None)
    ]
    while True:
        env, left, program, place, source = path[-1]
        for eqn in left:
            cls = type(eqn.primitive)
            if cls not in rules:
                rules[cls] = SHORTCUTS.find(cls)
            rule = rules[cls]
            ins = read(env, eqn.invars)
            shorter = None
            if rule is not None:
                shorter = rule(eqn.primitive, [atom if isinstance(atom, Literal) else None for atom in ins])
            if shorter is not None:
                shortened = True
                ctx.cursor.source = source = eqn.source or source
                args = [ctx.converted(arg, var.aval) for arg, var in zip(ins, shorter.invars, strict=True)]
                path.append((args, iter(shorter.eqns), shorter, eqn, source))
                break
            if eqn.source is None and source is not None:
                env += ctx.emit(eqn.primitive, ins, [var.aval for var in eqn.outvars], source)
            else:
                env += ctx.again(eqn, ins)
        else:
            path.pop()
            outs = read(env, program.outvars)
            if place is None:
                return ctx.finish(outs) if shortened else jaxpr
            ctx.cursor.source = source
            outs = tuple([ctx.converted(out, var.aval) for out, var in zip(outs, place.outvars, strict=True)])
            path[-1][0].extend(outs)
