"""The rules of `simplify` for arithmetic, logic and conversions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from tinyjax.caching import bounded
from tinyjax.contexts.evaluation import EvalContext
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import (
    BFLOAT16,
    BOOL,
    COMPLEX64,
    COMPLEX128,
    COMPLEXES,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    FLOATS,
    INEXACT,
    INTEGERS,
    SIGNED,
    WIDE,
    DType,
    all_numbers,
)
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom
from tinyjax.primitives import numpy_values as numeric
from tinyjax.primitives.arithmetic import Div, IntegerPow, Max, Min, Rem
from tinyjax.primitives.bitwise import And, Not, Or, Xor, logical_not
from tinyjax.primitives.comparison import Eq, Ge, Gt, Le, Lt, Ne, eq, ne
from tinyjax.primitives.complex import Complex, Conj, Imag, Real
from tinyjax.primitives.conversion import ConvertElementType, StopGradient, convert
from tinyjax.primitives.elementwise import Add, Mul, Neg, Sub, add, mul, neg, sub
from tinyjax.primitives.exponential import Exp, Log
from tinyjax.primitives.structure import broadcast_scalar, full
from tinyjax.transforms.patterns import AnyLiteral, Apply, Match, Operand, Variable, pattern
from tinyjax.transforms.rebuild import literal_of
from tinyjax.transforms.rewrite import Replacement, Rewrite

x: Final = Variable("x")
y: Final = Variable("y")
c: Final = AnyLiteral("c")
d: Final = AnyLiteral("d")
_EVALUATION: Final = EvalContext()


def integers(match: Match) -> bool:
    """Integers wrap around: every law of a ring holds."""
    return match.dtype in INTEGERS


def bits(match: Match) -> bool:
    return match.dtype in INTEGERS or match.dtype == BOOL


def real_numbers(match: Match) -> bool:
    """Not complex: there, infinities make nan of a product with 1."""
    return match.dtype not in COMPLEXES


def floats(match: Match) -> bool:
    return match.dtype in FLOATS


def _unordered_by_nan(match: Match) -> bool:
    return match.aval(x).dtype not in INEXACT


def _x(ctx: Context[Atom], match: Match) -> Atom:
    return broadcast_scalar(ctx, match[x], match.out.shape)


def _constantly(value: int) -> Replacement:
    return lambda ctx, match: full(ctx, match.out, value)


def _is_x(form: Apply[Primitive], where: Callable[[Match], bool] | None = None) -> Rewrite:
    """The rule that a pattern is x itself."""
    return Rewrite(f"{_shown(form)} = x", form, _x, where, shared=True)


def _is(form: Apply[Primitive], value: int, where: Callable[[Match], bool] | None = None) -> Rewrite:
    """The rule that a pattern is a number."""
    return Rewrite(f"{_shown(form)} = {value}", form, _constantly(value), where, shared=True)


def _shown(form: Apply[Primitive]) -> str:
    """A pattern, for the names of rules."""
    operands = [
        f"({_shown(part)})" if isinstance(part, Apply) else str(getattr(part, "name", getattr(part, "value", part)))
        for part in form.operands
    ]
    return " ".join([form.primitive.name, *operands])


def _together(form: Apply[Primitive], inner: Apply[Primitive], where: Callable[[Match], bool]) -> Rewrite:
    """(x ∘ c) ∘ d is x ∘ (c ∘ d)."""

    def replacement(ctx: Context[Atom], match: Match) -> Atom:
        primitive = match.primitive(form)
        (both,) = _EVALUATION.bind(primitive, *[_EVALUATION.constant(literal) for literal in match.literals(c, d)])
        return ctx.bind(match.primitive(inner), match[x], literal_of(both))[0]

    return Rewrite(_shown(form), form, replacement, where)


def _associative(cls: type[Primitive], where: Callable[[Match], bool]) -> Rewrite:
    inner = pattern(cls, x, c)
    return _together(pattern(cls, inner, d), inner, where)


# The format of what a dtype holds: bits of the mantissa, largest exponent; integers: bits without the sign.
_DIGITS: Final = {FLOAT16: (11, 15), BFLOAT16: (8, 127), FLOAT32: (24, 127), FLOAT64: (53, 1023)}
_PARTS: Final = {COMPLEX64: FLOAT32, COMPLEX128: FLOAT64}


def lossless(old: DType, new: DType) -> bool:
    """Whether each number of a dtype has its place in another one, so that converting it changes nothing.

    >>> lossless(FLOAT16, FLOAT32), lossless(FLOAT16, BFLOAT16), lossless(BOOL, FLOAT16)
    (True, False, True)
    """
    if new in COMPLEXES:
        return lossless(_PARTS.get(old, old), _PARTS[new])
    if old in COMPLEXES or new == BOOL:
        return old == new
    if old in WIDE or new in WIDE:
        return _keeps_all(old, new)
    if old == BOOL:
        return True
    if new in FLOATS:
        digits, exponent = _DIGITS[new]
        if old in FLOATS:
            return _DIGITS[old][0] <= digits and _DIGITS[old][1] <= exponent
        width = 8 * old.itemsize - (old in SIGNED)
        return width <= digits and width <= exponent
    if old in FLOATS:
        return False
    if old in SIGNED:
        return new in SIGNED and old.itemsize <= new.itemsize
    return old.itemsize < new.itemsize or old == new


@bounded(1024)
def _keeps_all(old: DType, new: DType) -> bool:
    """The same, of narrow dtypes: all numbers of the first are tried."""
    if old == new or (old not in WIDE and old != BOOL):
        return old == new
    numbers = np.asarray([False, True]) if old == BOOL else all_numbers(old)
    there, wide = numeric.QUIET.copy().run(numeric.convert, numbers, new), numbers.astype(FLOAT64)
    found = there.astype(FLOAT64)
    same = (found == wide) & (np.signbit(found) == np.signbit(wide))
    return bool((same | (np.isnan(found) & np.isnan(wide))).all())


_first = pattern(ConvertElementType, x)
_second = pattern(ConvertElementType, _first)


def _first_is_needless(match: Match) -> bool:
    old, middle, new = match.aval(x).dtype, match.primitive(_first).new_dtype, match.dtype
    if old in INTEGERS and middle in INEXACT and new in INTEGERS and not lossless(old, new):
        return False  # floats don't wrap around
    return lossless(old, middle)


def _convert_once(ctx: Context[Atom], match: Match) -> Atom:
    last = match.primitive(_second)
    return convert(ctx, match[x], last.new_dtype, last.weak_type)


def _rule(
    form: Apply[Primitive],
    replacement: Replacement,
    where: Callable[[Match], bool] | None = None,
    *,
    shared: bool = True,
) -> Rewrite:
    return Rewrite(_shown(form), form, replacement, where, shared)


def _neg(operand: Operand) -> Apply[Neg]:
    return pattern(Neg, operand)


def _whole(operand: Operand, power: int) -> Apply[IntegerPow]:
    return pattern(IntegerPow, operand, where=lambda primitive: primitive.y == power)


#: Laws that hold to the bit. Of two nans the result may be either.
EXACT_RULES: Final[tuple[Rewrite, ...]] = (
    _is_x(pattern(Add, x, 0), integers),
    _is_x(pattern(Add, x, -0.0), floats),
    _is_x(pattern(Sub, x, 0)),
    _is_x(pattern(Mul, x, 1), real_numbers),
    _is_x(pattern(Div, x, 1), real_numbers),
    _is(pattern(Mul, x, 0), 0, integers),
    _is(pattern(Sub, x, x), 0, integers),
    _is(pattern(Rem, x, 1), 0, integers),
    _rule(pattern(Mul, x, -1), lambda ctx, m: neg(ctx, _x(ctx, m)), real_numbers),
    _rule(pattern(Sub, 0, x), lambda ctx, m: neg(ctx, m[x]), integers),
    _rule(pattern(Sub, -0.0, x), lambda ctx, m: neg(ctx, m[x]), floats),
    _is_x(_neg(_neg(x))),
    _rule(pattern(Add, x, _neg(y)), lambda ctx, m: sub(ctx, m[x], m[y])),
    _rule(pattern(Sub, x, _neg(y)), lambda ctx, m: add(ctx, m[x], m[y])),
    _rule(pattern(Mul, _neg(x), _neg(y)), lambda ctx, m: mul(ctx, m[x], m[y])),
    _rule(_neg(pattern(Sub, x, y)), lambda ctx, m: sub(ctx, m[y], m[x]), integers, shared=False),
    _is_x(_whole(x, 1), real_numbers),
    _is(_whole(x, 0), 1),
    _associative(Add, integers),
    _associative(Mul, integers),
    # Bits, and truth.
    _is_x(pattern(Not, pattern(Not, x))),
    _is_x(pattern(And, x, x)),
    _is_x(pattern(Or, x, x)),
    _is(pattern(Xor, x, x), 0),
    _is(pattern(And, x, 0), 0),
    _is_x(pattern(Or, x, 0)),
    _is_x(pattern(Xor, x, 0)),
    _is_x(pattern(And, x, -1)),
    _is(pattern(Or, x, -1), -1),
    _is_x(pattern(And, x, True), lambda m: m.dtype == BOOL),
    _is(pattern(Or, x, True), 1, lambda m: m.dtype == BOOL),
    _rule(pattern(Xor, x, True), lambda ctx, m: logical_not(ctx, _x(ctx, m)), lambda m: m.dtype == BOOL),
    _associative(And, bits),
    _associative(Or, bits),
    _associative(Xor, bits),
    _is_x(pattern(Max, x, x), bits),
    _is_x(pattern(Min, x, x), bits),
    # Comparisons. nan differs from itself.
    _rule(pattern(Not, pattern(Eq, x, y)), lambda ctx, m: ne(ctx, m[x], m[y]), shared=False),
    _rule(pattern(Not, pattern(Ne, x, y)), lambda ctx, m: eq(ctx, m[x], m[y]), shared=False),
    *(_is(pattern(cls, x, x), 1, _unordered_by_nan) for cls in (Eq, Le, Ge)),
    *(_is(pattern(cls, x, x), 0, _unordered_by_nan) for cls in (Ne, Lt, Gt)),
    # Conversions, and complex numbers.
    _rule(
        pattern(ConvertElementType, x),
        lambda ctx, m: m[x],
        lambda m: m.aval(x) == m.out,
    ),
    _rule(_second, _convert_once, _first_is_needless),
    _is_x(pattern(Real, pattern(Complex, x, y))),
    _rule(pattern(Imag, pattern(Complex, x, y)), lambda ctx, m: broadcast_scalar(ctx, m[y], m.out.shape)),
    _is_x(pattern(Conj, pattern(Conj, x)), lambda m: m.aval(x).dtype in COMPLEXES),
    _rule(pattern(StopGradient, pattern(StopGradient, x)), lambda ctx, m: ctx.bind(StopGradient(), m[x])[0]),
)

#: Laws of the real numbers, which floats break where there are infinities, nans, zeros with a sign, or digits to lose.
FAST_RULES: Final[tuple[Rewrite, ...]] = (
    _is_x(pattern(Add, x, 0)),
    _is_x(pattern(Mul, x, 1)),
    _is_x(pattern(Div, x, 1)),
    _is(pattern(Mul, x, 0), 0),
    _is(pattern(Sub, x, x), 0),
    _is(pattern(Div, x, x), 1, floats),
    _is(pattern(Div, 0, x), 0, floats),
    _rule(pattern(Sub, 0, x), lambda ctx, m: neg(ctx, m[x])),
    _rule(_neg(pattern(Sub, x, y)), lambda ctx, m: sub(ctx, m[y], m[x]), shared=False),
    _associative(Add, lambda m: True),
    _associative(Mul, lambda m: True),
    _is_x(pattern(Log, pattern(Exp, x)), floats),
    _is_x(pattern(Exp, pattern(Log, x)), floats),
)
