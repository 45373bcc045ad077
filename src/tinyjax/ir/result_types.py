"""Types of results, and primitives themselves, made once: tracing and the passes ask for them again and again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, ParamSpec, TypeVar

from tinyjax.caching import IdentityCache, bounded, register
from tinyjax.errors import TinyjaxError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom
from tinyjax.ir.varying import UnevenError, spread

P = ParamSpec("P")
R = TypeVar("R")


@bounded(8192, typed=True)
def made_once(make: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """`make(...)`, a primitive: the same object each time, which saves making it, and all that is found by identity."""
    return make(*args, **kwargs)


#: Types of results, which tracing and the passes ask for again and again.
_TYPES: Final[IdentityCache[tuple[ShapedArray, ...]]] = IdentityCache(8192, "ir.result_types")
register(_TYPES)


def result_types(primitive: Primitive, avals: Sequence[ShapedArray]) -> tuple[ShapedArray, ...]:
    """What `type_of` says; asked once for a plain primitive on operands of these types, if they are shared objects."""
    if not primitive.plain:
        return _types_of(primitive, avals)
    if len(avals) == 2:
        found = _TYPES.entries.get((id(primitive), id(avals[0]), id(avals[1])))
    else:
        found = _TYPES.entries.get((id(primitive), *map(id, avals)))
    return _TYPES.keep((primitive, *avals), _types_of(primitive, avals)) if found is None else found[1]


def types_of(primitive: Primitive, atoms: Sequence[Atom]) -> tuple[ShapedArray, ...]:
    """The same for atoms: what is known is found without a list of their types."""
    if primitive.plain:
        if len(atoms) == 2:
            found = _TYPES.entries.get((id(primitive), id(atoms[0].aval), id(atoms[1].aval)))
        elif len(atoms) == 1:
            found = _TYPES.entries.get((id(primitive), id(atoms[0].aval)))
        else:
            found = None
        if found is not None:
            return found[1]
    return result_types(primitive, [atom.aval for atom in atoms])


def _types_of(primitive: Primitive, avals: Sequence[ShapedArray]) -> tuple[ShapedArray, ...]:
    types = unspread(primitive, avals)
    for aval in avals:
        if aval.axes:
            return spread(primitive, avals, types)
    return types


def unspread(primitive: Primitive, avals: Sequence[ShapedArray]) -> tuple[ShapedArray, ...]:
    """What `type_of` says, along whatever axes of a mesh the operands vary."""
    try:
        if primitive.built_in:
            return primitive.type_of(*avals)
        from tinyjax.ir import contracts

        return contracts.type_of(primitive, avals)
    except TinyjaxError:
        raise
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
        from tinyjax.ir.mistakes import refuse_untyped

        refuse_untyped(error, primitive, avals)


def types_after_casts(primitive: Primitive, avals: Sequence[ShapedArray]) -> tuple[ShapedArray, ...]:
    """The same for operands that are cast where they vary along fewer axes of a mesh than they have to."""
    try:
        return result_types(primitive, avals)
    except UnevenError as uneven:
        return result_types(
            primitive, [aval.varying_over(axes) for aval, axes in zip(avals, uneven.wanted, strict=True)]
        )
