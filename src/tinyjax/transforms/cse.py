"""Common subexpressions: what is computed twice from the same values is computed once."""

from __future__ import annotations

from typing import Final, TypeAlias

from tinyjax.ir.effects import must_stay
from tinyjax.ir.equality import same_value
from tinyjax.ir.holding import ProgramT, changed
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Jaxpr, Literal, Var
from tinyjax.ir.rules import RuleTable
from tinyjax.primitives.annotations import OptimizationBarrier
from tinyjax.primitives.bitwise import And, Or, Xor
from tinyjax.primitives.comparison import Eq, Ne
from tinyjax.primitives.elementwise import Add, Mul
from tinyjax.transforms.rebuild import Rebuilding, bottom_up, read

#: Primitives of two operands whose order doesn't matter. (Of two nans the result may be either; `max` and `min` are not
#: here because of 0.0 and -0.0.)
COMMUTATIVE: Final[frozenset[type[Primitive]]] = frozenset({Add, Mul, And, Or, Xor, Eq, Ne})
#: Whether two equations that apply a primitive to the same values may become one. True without a rule.
MERGING: Final[RuleTable[[], bool]] = RuleTable("Merging", name="tinyjax.transforms.MERGING")
MERGING[OptimizationBarrier] = lambda primitive: False

_Key: TypeAlias = tuple[Primitive, tuple["int | Literal", ...]]


def cse(program: ProgramT) -> ProgramT:
    """The program with one equation for all that apply the same primitive to the same values.

        { lambda ; a:f64[]. let b:f64[] = sin a; c:f64[] = sin a; d:f64[] = mul b c in (d,) }
        { lambda ; a:f64[]. let b:f64[] = sin a; c:f64[] = mul b b in (c,) }

    `a + b` and `b + a` are the same too. So is each program within the program treated, by itself. Equations with
    effects stay, and so does what the user keeps from being merged: `optimization_barrier`, and `checkpoint` unless
    `prevent_cse` is off.
    """
    return changed(program, "cse", lambda jaxpr: bottom_up(jaxpr, _merged))


def _merged(jaxpr: Jaxpr) -> Jaxpr:
    ctx = Rebuilding(jaxpr.invars)
    env: list[Atom] = list(jaxpr.invars)
    seen: dict[_Key, tuple[Primitive, tuple[Var, ...]]] = {}
    may_merge: dict[type[Primitive], bool] = {}
    merged = False
    for eqn in jaxpr.eqns:
        primitive = eqn.primitive
        ins = tuple([env[atom.index] if isinstance(atom, Var) else atom for atom in eqn.invars])
        cls = type(primitive)
        if cls not in may_merge:
            may_merge[cls] = MERGING.find(cls) is None
        effects = primitive.effects
        if (effects and must_stay(effects)) or not (may_merge[cls] or MERGING.apply(primitive)):
            env += ctx.again(eqn, ins)
            continue
        places = tuple([atom.index if isinstance(atom, Var) else atom for atom in ins])
        if cls in COMMUTATIVE:
            places = _in_order(places)
        found = seen.get((primitive, places))
        # Equal parameters may still differ: 0.0 and -0.0, or 1 and True.
        if found is not None and (found[0] is primitive or same_value(found[0], primitive)):
            outs = found[1]
            merged = True
        else:
            outs = ctx.again(eqn, ins)
            if found is None:
                seen[primitive, places] = primitive, outs
        env += outs
    if not merged:
        return jaxpr
    return ctx.finish(read(env, jaxpr.outvars))


def _in_order(places: tuple[int | Literal, ...]) -> tuple[int | Literal, ...]:
    """The same for both orders of two operands."""
    x, y = places
    if isinstance(y, Literal):
        return places
    if isinstance(x, Literal):
        return y, x
    return places if x <= y else (y, x)
