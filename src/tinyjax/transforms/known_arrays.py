"""Arrays that a program closes over, spelled out in it: those of the same elements once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tinyjax.ir.dtypes import KEYS
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Var
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.constant import Constant
from tinyjax.transforms.rebuild import Rebuilding, constant_atom, read

#: Larger arrays aren't looked into, in bytes: it would take its time to tell whether they are the same.
LARGEST: Final = 1 << 20


def _small(value: ConcreteValue, largest: int | None) -> bool:
    size = LARGEST if largest is None else min(LARGEST, largest)
    return value.on_host and value.aval.nbytes <= size and value.aval.dtype not in KEYS


def _array_of(eqn: Eqn) -> ConcreteValue | None:
    """The array that an equation spells out, if that is small enough."""
    primitive = eqn.primitive
    found = primitive.value if type(primitive) is Constant else None
    return found if found is not None and found.aval.ndim and _small(found, None) else None


def spelled_out(
    jaxpr: Jaxpr, known: Sequence[ConcreteValue | None], largest: int | None = None
) -> tuple[Jaxpr, list[int]]:
    """The program with arrays of the host in the place of its first inputs, where it is `known` what they are, and they
    have no more than `largest` bytes. Which of those inputs are left comes with it.

    Arrays of the same elements are one, also those that the program spelled out before.
    """
    values = {
        i: value
        for i, value in enumerate(known)
        if value is not None and value.aval == jaxpr.in_avals[i] and _small(value, largest)
    }
    kept = [i for i in range(len(jaxpr.invars)) if i not in values]
    first = [i for i in kept if i < len(known)]
    spelled = [array for eqn in jaxpr.eqns if (array := _array_of(eqn)) is not None]
    if not values and len(set(spelled)) == len(spelled):
        return jaxpr, first
    ctx = Rebuilding([Var(at, jaxpr.in_avals[i]) for at, i in enumerate(kept)], jaxpr.names_at(kept))
    arrays: dict[ConcreteValue, Atom] = {}

    def there(value: ConcreteValue) -> Atom:
        if value not in arrays:
            arrays[value] = constant_atom(ctx, value)
        return arrays[value]

    left = dict(zip(kept, ctx.invars, strict=True))
    env: list[Atom] = [there(values[i]) if i in values else left[i] for i in range(len(jaxpr.invars))]
    for eqn in jaxpr.eqns:
        array = _array_of(eqn)
        if array is None:
            env += ctx.again(eqn, read(env, eqn.invars))
        else:
            ctx.cursor.source = eqn.source
            env.append(there(array))
    return ctx.finish(read(env, jaxpr.outvars)), first
