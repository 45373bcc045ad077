"""`transforms.fold_constants`."""

from __future__ import annotations

from typing import ClassVar, final

import pytest
from attrs import frozen
from typing_extensions import override

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.golden import Golden
from tests.transforms.checks import F64, program
from tests.transforms.test_cse import program_with_tables
from tests.transforms.test_dce import Emit, Noise, names
from tinyjax import Array, ShapedArray, ir, lax, transforms
from tinyjax.contexts.staging import stage
from tinyjax.control.cond import Cond
from tinyjax.errors import InputError
from tinyjax.ir import HostArray, Jaxpr, Literal, Primitive
from tinyjax.ir.dtypes import BFLOAT16, INT32
from tinyjax.primitives.annotations import Name
from tinyjax.primitives.elementwise import add, mul
from tinyjax.primitives.trigonometric import sin
from tinyjax.testing import check_laws


@final
@frozen
class Failing(Primitive):
    """Can't be evaluated."""

    name: ClassVar[str] = "failing"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return avals

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        raise ZeroDivisionError


def test_golden(golden: Golden) -> None:
    def f(x: Array, y: Array) -> object:
        angle = tnp.cos(0.0) + 1.0
        table = tnp.asarray([1.0, 2.0]) * 3.0
        branch = lax.cond(tnp.asarray(2.0) > 1.0, lambda z: z * tnp.sqrt(4.0), tnp.sin, x)
        total, _ = lax.scan(lambda t, r: (t * (2.0 * tnp.pi) + r, None), y, tnp.arange(3.0) * 2.0)
        return x * angle, y * tnp.zeros(4) * 2.0, table * x, branch, total, tnp.arange(4.0) + x

    j = program_with_tables(f)
    check_laws(j, [0.5, 2.0], laws=["fold_constants"])
    golden("fold_constants", f"{j}\n\n{transforms.fold_constants(j)}")


def test_limit() -> None:
    j = program(lambda x: x + tnp.sin(tnp.arange(2000.0)), F64)
    assert transforms.fold_constants(j) is j
    assert names(transforms.fold_constants(j, max_size=2000)) == ["constant", "add"]
    small = program(lambda x: x + tnp.sin(tnp.arange(1024.0)), F64)
    assert names(transforms.fold_constants(small)) == ["constant", "add"]
    with pytest.raises(InputError, match="max_size must be at least 1, got 0"):
        transforms.fold_constants(j, max_size=0)


def test_what_only_repeats_or_counts_stays() -> None:
    j = program(lambda x: (x + tnp.arange(5.0), x * tnp.ones((2, 3))), F64)
    assert transforms.fold_constants(j) is j
    k = program(lambda x: x + lax.broadcast_in_dim(tnp.arange(3.0) * 2.0, (4, 3), (1,)), F64)
    assert names(transforms.fold_constants(k)) == ["constant", "broadcast_in_dim", "add"]


def test_uniform_arrays_are_broadcast() -> None:
    j = program(lambda x: x + tnp.sin(tnp.ones((2, 3))) * 2.0, F64)
    (repeat, add) = transforms.fold_constants(j).eqns
    assert (repeat.primitive.name, add.primitive.name) == ("broadcast_in_dim", "add")
    assert isinstance(repeat.invars[0], Literal)
    # 0.0 and -0.0 are equal, but not the same.
    signed = program_with_tables(lambda x, y: x + tnp.asarray([0.0, -0.0]) * 1.0)
    assert names(transforms.fold_constants(signed)) == ["constant", "add"]


def applied(primitive: Primitive, *operands: Literal) -> Jaxpr:
    return stage([], lambda ctx, ins: ctx.bind(primitive, *operands))


def sine_of(primitive: Primitive, operand: Literal) -> Jaxpr:
    return stage([], lambda ctx, ins: ctx.bind(sin, *ctx.bind(primitive, operand)))


@pytest.mark.parametrize("weak", [(True, False, False), (False, True, False), (False, False, True), (True, True, True)])
def test_operands_are_converted_to_what_a_program_takes(weak: tuple[bool, ...]) -> None:
    """The branch that is chosen takes strong operands, and any may be weak."""
    inner = program(lambda a, b, c: (a * 2.0 - b, tnp.sin(c) / b), F64, F64, F64)
    given = [ShapedArray((), "float64", mark) for mark in weak]
    j = stage(given, lambda ctx, ins: ctx.bind(Cond((inner, inner)), Literal.of(1, INT32), *ins))
    for change in ("fold_constants", "simplify", "inline", "optimize"):
        check_laws(j, [1.5, 2.5, 3.5], laws=[change])
    assert "cond" not in names(transforms.fold_constants(j)) + names(transforms.simplify(j))


def test_special_values_and_dtypes() -> None:
    inf, nan = float("inf"), float("nan")
    for values in ((inf, 0.0), (-0.0, 1.0), (nan, 1.0), (1e308, 10.0)):
        j = applied(mul, *map(Literal.of, values))
        (out,) = transforms.fold_constants(j).outvars
        assert isinstance(out, Literal)
        assert out.aval == j.out_avals[0]
        check_laws(j, laws=["fold_constants"])
    half = [Literal.of(1.5, BFLOAT16), Literal.of(0.3, BFLOAT16)]
    k = stage([], lambda ctx, ins: ctx.bind(add, *half))
    assert ir.typecheck(transforms.fold_constants(k)) == k.type
    assert transforms.fold_constants(k).eqns == ()
    complex_sum = stage([], lambda ctx, ins: ctx.bind(add, Literal.of(1j), Literal.of(2.0 + 0j)))
    assert transforms.fold_constants(complex_sum).outvars == (Literal.of(2 + 1j),)


def test_what_is_not_folded() -> None:
    one = Literal.of(1.0)
    for primitive in (Emit(Noise()), Failing(), Name("x")):
        j = sine_of(primitive, one)
        assert transforms.fold_constants(j) is j
    called: list[float] = []

    def look(x: HostArray) -> HostArray:
        called.append(float(x))
        return x

    k = program(lambda x: tj.pure_callback(look, F64, 1.0) + x, F64)
    assert transforms.fold_constants(k) is k
    assert called == []
    call = program(lambda x: tj.jit(tnp.sin)(1.0) + x, F64)
    assert transforms.fold_constants(call) is call
    assert names(transforms.fold_constants(transforms.inline(call))) == ["add"]


def test_branches_within_branches() -> None:
    """A known index is known within the branch, too."""

    def f(x: Array) -> Array:
        def inner(i: Array, z: Array) -> Array:
            out: Array = lax.switch(i, [tnp.sin, tnp.cos, tnp.exp], z)
            return out

        out: Array = lax.switch(tnp.asarray(1), [lambda i, z: z, lambda i, z: inner(i * 2, z) + z], 1, x)
        return out

    j = program(f, F64)
    k = transforms.fold_constants(j)
    assert ir.typecheck(k) == j.type
    assert names(k) == ["exp", "add"]


def test_constants_of_closed_programs() -> None:
    table = tnp.asarray([1.0, 2.0])
    closed = tj.make_jaxpr(lambda x: table * 2.0 + x)(F64)
    folded = transforms.fold_constants(closed)
    assert [eqn.primitive.name for eqn in folded.eqns] == ["constant", "add"]
    assert folded.consts == closed.consts
    clean = transforms.dce(folded)
    assert clean.consts == ()
    assert ir.typecheck(clean) == ir.typecheck(closed)
    big = tnp.zeros(3000) + 1.0
    large = tj.make_jaxpr(lambda x: big * 2.0 + x)(F64)
    assert transforms.fold_constants(large) is large


def test_long_chains_of_repetitions() -> None:
    """What is only repeated is written down when it is read, however often it was."""

    def f(x: Array) -> Array:
        y = tnp.arange(2.0)
        for _ in range(3000):
            y = lax.broadcast_in_dim(y, (2,), (0,))
        return y + x

    j = program(f, F64)
    assert ir.typecheck(transforms.fold_constants(j)) == j.type
