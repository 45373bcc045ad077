"""What partial evaluation knows of known values: which it can make again from something smaller, for next to nothing.

What the staged program reads of them is then handed over as that, and made again there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar, final

from attrs import frozen

from tinyjax.ir.context import Context
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Literal, Var
from tinyjax.ir.result_types import result_types
from tinyjax.ir.slots import made_by_slots
from tinyjax.primitives.arithmetic import Abs, IntegerPow, Max, Min, Square
from tinyjax.primitives.bitwise import And, Not, Or, Xor
from tinyjax.primitives.comparison import Eq, Ge, Gt, Le, Lt, Ne
from tinyjax.primitives.constant import Constant
from tinyjax.primitives.conversion import ConvertElementType
from tinyjax.primitives.elementwise import Add, Elementwise, Mul, Neg, Sub
from tinyjax.primitives.rounding import Sign
from tinyjax.primitives.selection import SelectN
from tinyjax.primitives.shaping import Iota, Reshape, Squeeze
from tinyjax.primitives.structure import BroadcastInDim, Transpose

V = TypeVar("V")

#: What costs next to nothing, and makes nothing that is smaller than its operand; of conversions, that is so for some.
_CHEAP: Final = frozenset({BroadcastInDim, Constant, ConvertElementType, Iota, Reshape, Squeeze, Transpose})


@final
@made_by_slots
@frozen
class Known(Generic[V]):
    """A value that the parent has. `literal` is set where the program itself spells it out, and `recipe` where a
    primitive that costs next to nothing makes it of something no larger, or of nothing."""

    value: V
    literal: Literal | None = None
    recipe: tuple[Primitive, Known[V] | None] | None = None
    #: What else gives it, of values that may be as large: by it, it is made again if these are handed over anyway.
    formula: tuple[Primitive, tuple[Known[V], ...]] | None = None
    #: How deep formulas are in its formula, which keeps what they are of.
    depth: int = 0
    #: Whether partial evaluation has had the parent compute it, so that nobody else may hold it.
    computed: bool = False


def computed(value: V) -> Known[V]:
    """A value that the parent has just computed."""
    return Known(value, None, None, None, 0, True)


def apply_known(parent: Context[V], primitive: Primitive, args: Sequence[Known[V]]) -> tuple[Known[V], ...]:
    """What a primitive makes of known values, on the parent."""
    for arg in args:
        if arg.recipe is not None and isinstance(primitive, Elementwise):
            lifted = _repeated(parent, primitive, args)
            if lifted is not None:
                return (lifted,)
            break
    values = parent.bind(primitive, *[arg.value for arg in args])
    if len(values) > 1:
        return tuple(map(computed, values))
    if type(primitive) not in _CHEAP or (args and _shrinks(parent, primitive, args[0])):
        if type(primitive) in QUICK:
            depth = 1 + max([arg.depth for arg in args])
            if depth > DEPTH and isinstance(values[0], Var):
                args, depth = [_shortened(arg) for arg in args], 2
            if depth <= DEPTH:
                return (Known(values[0], None, None, (primitive, tuple(args)), depth, True),)
        return (computed(values[0]),) if values else ()
    return (Known(values[0], None, (primitive, args[0] if args else None)),)


#: What takes next to no time to compute of values that are there, with the same result to the bit.
QUICK: Final = frozenset(
    {Abs, Add, And, Eq, Ge, Gt, IntegerPow, Le, Lt, Max, Min, Mul, Ne, Neg, Not, Or, SelectN, Sign, Square, Sub, Xor}
)
#: How many of these are done for one value, of others that are there. It bounds how long values are held that formulas
#: are of. Where these are staged there is nothing to hold: what is deeper is known by the last two.
DEPTH: Final = 4


def _shortened(known: Known[V]) -> Known[V]:
    """A value that is known by a formula of what no formula is known for."""
    if known.formula is None or known.depth == 1:
        return known
    primitive, operands = known.formula
    roots = tuple([one if one.formula is None else Known(one.value, one.literal, one.recipe) for one in operands])
    return Known(known.value, known.literal, known.recipe, (primitive, roots), 1, known.computed)


def _shrinks(parent: Context[V], primitive: Primitive, operand: Known[V]) -> bool:
    if not isinstance(primitive, ConvertElementType):
        return False
    return parent.aval(operand.value).dtype.itemsize > primitive.new_dtype.itemsize


def _repeated(parent: Context[V], primitive: Elementwise, args: Sequence[Known[V]]) -> Known[V] | None:
    """What an elementwise primitive makes of arrays that repeat smaller ones in the same way: computed of the smaller
    ones, and repeated. None if that isn't what the operands are; scalars may be among them."""
    repeat: Primitive | None = None
    small: list[V] = []
    for arg in args:
        if arg.recipe is not None and arg.recipe[1] is not None and isinstance(arg.recipe[0], BroadcastInDim):
            if repeat is not None and arg.recipe[0] != repeat:
                return None
            repeat = arg.recipe[0]
            small.append(arg.recipe[1].value)
        elif arg.literal is not None or not parent.aval(arg.value).shape:
            small.append(arg.value)
        else:
            return None
    if repeat is None:
        return None
    types = [parent.aval(x) for x in small]
    shape = max([aval.shape for aval in types], key=len)
    if any(aval.shape not in (shape, ()) for aval in types):  # repeated along other axes
        return None
    if result_types(primitive, types)[0].shape != shape:
        return None
    (found,) = parent.bind(primitive, *small)
    (whole,) = parent.bind(repeat, found)
    return Known(whole, None, (repeat, computed(found)))


def rebuild(
    value: Known[V], made: dict[int, Atom], hand_over: Callable[[Known[V]], Atom], bind: Callable[..., Sequence[Atom]]
) -> tuple[Atom, list[V]]:
    """The atom that stands for a value in the staged program, and the values that have been made there for it.

    `made` are the atoms that stand for values, by identity. `hand_over` makes an input of a value, `bind` an equation.
    """
    steps: list[tuple[V, Primitive]] = []  # last first
    known: Known[V] | None = value
    found: Atom | None = None
    while known is not None and found is None:
        found = made.get(id(known.value)) if known.literal is None else known.literal
        if found is None and known.recipe is None:
            found = made[id(known.value)] = hand_over(known)
        elif found is None and known.recipe is not None:
            primitive, operand = known.recipe
            steps.append((known.value, primitive))
            known = operand
    rebuilt: list[V] = []
    for out, primitive in reversed(steps):
        (found,) = bind(primitive, *(() if found is None else (found,)))
        made[id(out)] = found
        rebuilt.append(out)
    return made[id(value.value)], rebuilt
