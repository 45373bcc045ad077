"""`transforms.simplify`: what disappears, and that nothing changes by it, to the bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.golden import Golden
from tests.strategies import STANDARD
from tests.transforms.checks import F64, VECTOR, assert_close, program, run
from tinyjax import ShapedArray, ir, lax, transforms
from tinyjax.contexts.staging import stage
from tinyjax.ir import Atom, Context, DType, HostArray, Jaxpr, Literal, Primitive, Scalar
from tinyjax.ir.dtypes import BFLOAT16, BOOL, COMPLEX64, FLOAT16, FLOAT32, FLOAT64, INT8, INT32, UINT8
from tinyjax.ir.literals import python_scalar
from tinyjax.primitives.arithmetic import IntegerPow, div, max_, min_, rem
from tinyjax.primitives.bitwise import logical_and, logical_not, logical_or, logical_xor
from tinyjax.primitives.comparison import eq, ge, gt, le, lt, ne
from tinyjax.primitives.complex import complex_, conj, imag, real
from tinyjax.primitives.conversion import conversion
from tinyjax.primitives.elementwise import add, mul, neg, sub
from tinyjax.primitives.selection import select_n
from tinyjax.testing import check_laws

DTYPES: Final = (FLOAT64, FLOAT32, FLOAT16, BFLOAT16, COMPLEX64, INT32, INT8, UINT8, BOOL)
BINARY: Final = (add, sub, mul, div, rem, max_, min_, logical_and, logical_or, logical_xor)
COMPARISONS: Final = (eq, ne, lt, le, gt, ge)


def specials(dtype: DType) -> list[Scalar]:
    if dtype == BOOL:
        return [False, True]
    if dtype.kind in "iu":
        bits = 8 * dtype.itemsize
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if dtype.kind == "i" else (0, 2**bits - 1)
        return [*sorted({0, 1, 2, 7, low, low + 1, high, -1 if low else 1, high - 1})]
    inf = float("inf")
    parts = [0.0, -0.0, 1.0, -1.0, 2.5, inf, -inf, float("nan")]
    if dtype.kind == "c":
        return [complex(a, b) for a in parts for b in parts]
    return [*parts, 1e-7, python_scalar(3e38, dtype)]


def array_of(dtype: DType) -> HostArray:
    with np.errstate(all="ignore"):
        return np.asarray([python_scalar(value, dtype) for value in specials(dtype)]).astype(dtype)


def accepted(primitive: Primitive, *avals: ShapedArray) -> bool:
    try:
        primitive.type_of(*avals)
    except TypeError:
        return False
    return True


Body = Callable[[Context[Atom], Atom, Atom], Sequence[Atom]]


def keeps_bits(j: Jaxpr, dtype: DType) -> Jaxpr:
    """Simplifies a program of two arrays; for all pairs of special values, its results must stay."""
    values = array_of(dtype)
    check_laws(j, [np.repeat(values, len(values)), np.tile(values, len(values))], laws=["simplify"])
    return transforms.simplify(j)


def of_arrays(dtype: DType, body: Body) -> Jaxpr:
    aval = ShapedArray((len(specials(dtype)) ** 2,), dtype)
    return stage([aval, aval], lambda ctx, ins: body(ctx, ins[0], ins[1]))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_arithmetic_with_every_literal(dtype: DType) -> None:
    """Each operation with each special literal, on either side, and of a value with itself: on all special values."""
    aval = ShapedArray((), dtype)
    literals = [Literal(python_scalar(value, dtype), aval) for value in specials(dtype)]

    def body(ctx: Context[Atom], x: Atom, y: Atom) -> Sequence[Atom]:
        outs: list[Atom] = []
        for primitive in BINARY:
            if accepted(primitive, aval, aval):
                outs += ctx.bind(primitive, x, x)
                for literal in literals:
                    outs += [*ctx.bind(primitive, x, literal), *ctx.bind(primitive, literal, x)]
        return outs

    short = keeps_bits(of_arrays(dtype, body), dtype)
    assert len(short.eqns) < len(of_arrays(dtype, body).eqns)


#: What each law of arithmetic is for, the dtype of the operands, and what is left of it.
APPLIED: Final[dict[str, tuple[Callable[[tj.Array, tj.Array], object], DType, list[str]]]] = {
    "x + 0": (lambda x, y: x + 0, INT32, []),
    "x + -0.0": (lambda x, y: x + -0.0, FLOAT64, []),
    "x - 0": (lambda x, y: x - 0, INT32, []),
    "x - 0.0": (lambda x, y: x - 0.0, FLOAT64, []),
    "x * 1": (lambda x, y: x * 1.0, FLOAT32, []),
    "x / 1": (lambda x, y: x / 1.0, FLOAT64, []),
    "x * 0": (lambda x, y: x * 0, INT32, []),
    "x - x": (lambda x, y: x - x, INT8, []),
    "x rem 1": (lambda x, y: lax.rem(x, np.int32(1)), INT32, []),
    "x * -1": (lambda x, y: x * -1.0, FLOAT64, ["neg"]),
    "-1 * x": (lambda x, y: -1 * x, INT32, ["neg"]),
    "0 - x": (lambda x, y: 0 - x, INT32, ["neg"]),
    "-0.0 - x": (lambda x, y: -0.0 - x, FLOAT64, ["neg"]),
    "--x": (lambda x, y: -tnp.negative(x), FLOAT64, []),
    "x + -y": (lambda x, y: x + -y, FLOAT64, ["sub"]),
    "-x + y": (lambda x, y: -x + y, FLOAT64, ["sub"]),
    "x - -y": (lambda x, y: x - -y, FLOAT64, ["add"]),
    "-x * -y": (lambda x, y: -x * -y, FLOAT64, ["mul"]),
    "-(x - y)": (lambda x, y: -(x - y), INT32, ["sub"]),
    "x ** 1": (lambda x, y: lax.integer_pow(x, 1), FLOAT64, []),
    "x ** 0": (lambda x, y: lax.integer_pow(x, 0), FLOAT64, []),
    "x + 2 + 3": (lambda x, y: x + 2 + 3, INT32, ["add"]),
    "2 * x * 3": (lambda x, y: 2 * x * 3, INT32, ["mul"]),
    "~~x": (lambda x, y: ~~x, INT32, []),
    "x & x": (lambda x, y: x & x, INT32, []),
    "x | x": (lambda x, y: x | x, UINT8, []),
    "x & -1": (lambda x, y: x & -1, INT32, []),
    "x & 0": (lambda x, y: x & 0, INT32, []),
    "x | 0": (lambda x, y: x | 0, INT32, []),
    "x | -1": (lambda x, y: x | -1, INT32, []),
    "x ^ 0": (lambda x, y: x ^ 0, INT32, []),
    "x & True": (lambda x, y: x & True, BOOL, []),
    "x | True": (lambda x, y: x | True, BOOL, []),
    "x & False": (lambda x, y: x & False, BOOL, []),
    # And what is left alone, as it would change a bit.
    "x + 0.0": (lambda x, y: x + 0.0, FLOAT64, ["add"]),
    "x * 0.0": (lambda x, y: x * 0.0, FLOAT64, ["mul"]),
    "x - x of floats": (lambda x, y: x - x, FLOAT64, ["sub"]),
    "0.0 - x": (lambda x, y: 0.0 - x, FLOAT64, ["sub"]),
    "-(x - y) of floats": (lambda x, y: -(x - y), FLOAT64, ["sub", "neg"]),
    "x + 2.0 + 3.0": (lambda x, y: x + 2.0 + 3.0, FLOAT64, ["add", "add"]),
}


@pytest.mark.parametrize("law", APPLIED)
def test_each_law_applies(law: str) -> None:
    f, dtype, left = APPLIED[law]
    aval = ShapedArray((), dtype)
    assert [eqn.primitive.name for eqn in transforms.simplify(program(f, aval, aval)).eqns] == left


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_compositions(dtype: DType) -> None:
    """Every two operations in a row that there are rules for."""
    aval = ShapedArray((), dtype)

    def body(ctx: Context[Atom], x: Atom, y: Atom) -> Sequence[Atom]:
        outs: list[Atom] = [ctx.bind(IntegerPow(k), x)[0] for k in (0, 1, 2) if dtype != BOOL]
        unary = [p for p in (neg, logical_not) if accepted(p, aval)]
        for first in unary:
            (a,), (b,) = ctx.bind(first, x), ctx.bind(first, y)
            outs += ctx.bind(first, a)
            for second in BINARY:
                if accepted(second, aval, aval):
                    outs += [o for pair in ((a, y), (x, b), (a, b)) for o in ctx.bind(second, *pair)]
                    outs += ctx.bind(first, *ctx.bind(second, x, y))
        for compare in COMPARISONS if dtype.kind != "c" else (eq, ne):
            outs += [*ctx.bind(logical_not, compare(ctx, x, y)), compare(ctx, x, x)]
        return outs

    keeps_bits(of_arrays(dtype, body), dtype)


def test_sums_of_integer_literals_are_one() -> None:
    def body(ctx: Context[Atom], x: Atom, y: Atom) -> Sequence[Atom]:
        outs: list[Atom] = []
        for primitive in (add, mul, logical_and, logical_or, logical_xor):
            for a in (3, -128):
                for b in (5, 127):
                    c, d = (Literal(value, ShapedArray((), INT8)) for value in (a, b))
                    outs += ctx.bind(primitive, d, *ctx.bind(primitive, x, c))
        return outs

    short = keeps_bits(of_arrays(INT8, body), INT8)
    assert len(short.eqns) == 20
    floating = program(lambda x: (x + 1.0) + 2.0, F64)
    assert transforms.simplify(floating) is floating
    assert len(transforms.simplify(floating, fast_math=True).eqns) == 1


@pytest.mark.parametrize("dtype", STANDARD, ids=str)
def test_conversions(dtype: DType) -> None:
    """There and further on, by way of every dtype."""

    def body(ctx: Context[Atom], x: Atom, y: Atom) -> Sequence[Atom]:
        outs: list[Atom] = []
        for middle in STANDARD:
            (a,) = ctx.bind(conversion(middle, False), x)
            outs += [ctx.bind(conversion(last, False), a)[0] for last in STANDARD]
        return outs

    with np.errstate(all="ignore"):
        short = keeps_bits(of_arrays(dtype, body), dtype)
    assert short.eqns != of_arrays(dtype, body).eqns


def test_complex_parts() -> None:
    j = program(lambda x, y: (real_of(x, y), imag_of(x, y), conj_twice(x, y)), VECTOR, VECTOR)
    assert [eqn.primitive.name for eqn in transforms.simplify(j).eqns] == ["complex"]


def real_of(x: tj.Array, y: tj.Array) -> tj.Array:
    return tnp.real(lax.complex(x, y))


def imag_of(x: tj.Array, y: tj.Array) -> tj.Array:
    return tnp.imag(lax.complex(x, y))


def conj_twice(x: tj.Array, y: tj.Array) -> tj.Array:
    return tnp.conj(tnp.conj(lax.complex(x, y)))


def test_choices() -> None:
    def body(ctx: Context[Atom], x: Atom, y: Atom) -> Sequence[Atom]:
        truth = [Literal(value, ShapedArray((), BOOL)) for value in (False, True)]
        numbers = [Literal(value, ShapedArray((), INT32)) for value in (-3, 0, 1, 2, 9)]
        p = gt(ctx, x, y)
        outs: list[Atom] = [ctx.bind(select_n, p, x, x)[0], ctx.bind(select_n, *ctx.bind(logical_not, p), x, y)[0]]
        outs += [ctx.bind(select_n, which, x, y)[0] for which in truth]
        outs += [ctx.bind(select_n, which, x, y, x)[0] for which in numbers]
        return outs

    short = keeps_bits(of_arrays(FLOAT64, body), FLOAT64)
    assert [eqn.primitive.name for eqn in short.eqns] == ["gt", "select_n"]


def test_array_rules() -> None:
    def f(x: tj.Array, m: tj.Array) -> object:
        return (
            lax.transpose(lax.transpose(m, (1, 0)), (1, 0)),
            lax.transpose(lax.broadcast_in_dim(2.0, (2, 3), ()), (1, 0)),
            lax.reshape(lax.reshape(m, (6,)), (3, 2)),
            lax.reshape(m, (2, 3)),
            lax.rev(lax.rev(m, (0, 1)), (1, 0)),
            lax.slice(m, (0, 0), (2, 3)),
            lax.pad(m, 0.0, ((0, 0, 0), (0, 0, 0))),
            lax.broadcast_in_dim(lax.broadcast_in_dim(x, (1, 3), (1,)), (2, 2, 3), (1, 2)),
            m * lax.broadcast_in_dim(x[0], (2, 3), ()),
            lax.concatenate([m], 0),
        )

    matrix = ShapedArray((2, 3), "float64")
    j = program(f, VECTOR, matrix)
    check_laws(j, [np.arange(3.0), np.arange(6.0).reshape(2, 3)], laws=["simplify"])
    assert len(transforms.simplify(j).eqns) == 6


def test_weak_types_stay() -> None:
    weak = ShapedArray((), "float64", weak_type=True)
    j = program(lambda x: x * np.float64(1.0), weak)
    (eqn,) = transforms.simplify(j).eqns
    assert eqn.primitive.name == "convert_element_type"
    assert ir.typecheck(transforms.simplify(j)) == j.type


def test_fast_math() -> None:
    j = program(lambda x: (x * 0.0, x - x, x / x, x + 0.0, 0.0 - x, tnp.log(tnp.exp(x)), tnp.exp(tnp.log(x))), VECTOR)
    assert transforms.simplify(j) is j
    short = transforms.simplify(j, fast_math=True)
    assert ir.typecheck(short) == j.type
    assert {eqn.primitive.name for eqn in short.eqns} == {"broadcast_in_dim", "neg"}
    args = [np.asarray([1.5, 2.0, 3.0])]
    assert_close(run(short, args), run(j, args))


def test_loops_and_branches(golden: Golden) -> None:
    def f(x: tj.Array, y: tj.Array) -> object:
        a = lax.cond(True, tnp.sin, tnp.cos, x)
        b = lax.cond(x > 0.0, lambda z: z * 1.0, lambda z: z - 0.0, y)
        once, rows = lax.scan(lambda c, r: (c * r, c), x, tnp.ones(1))
        never = lax.scan(lambda c, r: (c * r, c), x, tnp.ones(0))
        still = lax.fori_loop(0, y, lambda i, c: (c[0] * c[1], c[1]), (x, y))
        call = tj.jit(lambda u, v: (v, u, u * v, u * v))(x, y)
        return a, b, once, rows, never, still, call

    j = program(f, F64, ShapedArray((), "int64"))
    check_laws(j, [1.25, 3], laws=["simplify"])
    golden("simplify", f"{j}\n\n{transforms.simplify(j)}")


def test_helpers_are_used() -> None:
    """The vocabulary of complex numbers simplifies on any context."""
    j = stage([F64, F64], lambda ctx, ins: [real(ctx, complex_(ctx, *ins)), imag(ctx, complex_(ctx, *ins))])
    assert transforms.simplify(j).eqns == ()
    k = stage([F64], lambda ctx, ins: [conj(ctx, conj(ctx, ins[0]))])
    assert transforms.simplify(k) is k
