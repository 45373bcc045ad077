"""`transforms.dce`."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, final

import numpy as np
import pytest
from attrs import frozen
from hypothesis import given, settings
from typing_extensions import override

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.golden import Golden
from tests.transforms.checks import F64, checked, float_programs, program, run
from tinyjax import ShapedArray, ir, lax, transforms
from tinyjax.contexts.staging import stage
from tinyjax.control.call import Call
from tinyjax.errors import InputError
from tinyjax.ir import Effect, Effects, Jaxpr, NamedAxisEffect, Primitive
from tinyjax.primitives.collectives import AxisIndex, PSum
from tinyjax.primitives.elementwise import neg
from tinyjax.testing import check_laws


@final
@frozen
class Noise(Effect):
    """An effect that must happen."""


@final
@frozen
class Emit(Primitive):
    """Has an effect, and returns its operand."""

    effect: Effect
    name: ClassVar[str] = "emit"

    @property
    @override
    def effects(self) -> Effects:
        return frozenset({self.effect})

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return avals


def names(jaxpr: Jaxpr) -> list[str]:
    return [eqn.primitive.name for eqn in jaxpr.eqns]


def test_golden(golden: Golden) -> None:
    def f(x: tj.Array, y: tj.Array) -> tj.Array:
        unused = tnp.sin(x) * y
        tj.jit(lambda z: z * unused)(x)
        tj.jit(lambda z: tnp.cos(z) * 2.0)(unused)
        return tnp.exp(y) + 1.0

    j = program(f, F64, F64)
    golden("dce", f"{j}\n\n{transforms.dce(j)}")


def test_inputs_stay() -> None:
    j = program(lambda x, y: (y, 2.0), F64, F64)
    assert transforms.dce(j) is j
    assert transforms.dce(program(lambda x, y: (tnp.sin(x), y)[1], F64, F64)) == program(lambda x, y: y, F64, F64)


def test_equations_with_effects_stay_in_order() -> None:
    def body(ctx: ir.Context[ir.Atom], x: ir.Atom) -> list[ir.Atom]:
        ctx.bind(neg, x)
        (y,) = ctx.bind(Emit(Noise()), x)
        (z,) = ctx.bind(neg, y)
        ctx.bind(Emit(Noise()), z)
        ctx.bind(neg, z)
        return [x]

    j = stage([F64], lambda ctx, ins: body(ctx, ins[0]))
    assert names(transforms.dce(j)) == ["emit", "neg", "emit"]
    assert transforms.dce(j).effects == j.effects == {Noise()}
    outer = stage([F64], lambda ctx, ins: (ctx.bind(Call("f", j), *ins), ins)[1])
    assert names(transforms.dce(outer)) == ["call"]


def test_droppable_effects_do_not_keep_equations() -> None:
    assert NamedAxisEffect("i").droppable
    j = stage([F64], lambda ctx, ins: (ctx.bind(PSum("i"), *ins), ctx.bind(AxisIndex("i")), ins)[2])
    assert j.effects == {NamedAxisEffect("i")}
    assert transforms.dce(j).eqns == ()
    assert not transforms.dce(j).effects


def test_sources_are_kept() -> None:
    j = program(lambda x: (tnp.sin(x), tnp.cos(x))[1], F64)
    (eqn,) = transforms.dce(j).eqns
    assert eqn.source is not None
    assert eqn.source.file == __file__


@given(float_programs)
@settings(max_examples=20, deadline=None)
def test_random_programs(j: Jaxpr) -> None:
    check_laws(j, laws=["dce"])
    clean = transforms.dce(j)
    assert transforms.dce(clean) is clean
    live = {atom for atom in clean.outvars} | {atom for eqn in clean.eqns for atom in eqn.invars}  # noqa: C416
    assert all(any(out in live for out in eqn.outvars) for eqn in clean.eqns)


@pytest.mark.parametrize("keep", [0, 1])
def test_one_of_several_results_is_enough(keep: int) -> None:
    pair = program(lambda x: (tnp.sin(x), tnp.cos(x)), F64)
    j = stage([F64], lambda ctx, ins: [ctx.bind(Call("f", pair), *ins)[keep]])
    assert names(transforms.dce(j)) == ["call"]


def test_within_programs(golden: Golden) -> None:
    """Results, operands, carries and residuals that nothing needs, in everything that holds a program."""

    @tj.custom_jvp
    def pair(x: tj.Array, y: tj.Array) -> tuple[tj.Array, tj.Array]:
        return tnp.sin(x), tnp.cos(y)

    pair.defjvp(lambda primals, tangents: (pair_of(*primals), (tangents[0] * 2.0, tangents[1] * 3.0)))

    def pair_of(x: tj.Array, y: tj.Array) -> tuple[tj.Array, tj.Array]:
        return tnp.sin(x), tnp.cos(y)

    @tj.custom_vjp
    def both(x: tj.Array, y: tj.Array) -> tuple[tj.Array, tj.Array]:
        return x * 2.0, y * 3.0

    both.defvjp(
        lambda x, y: ((x * 2.0, y * 3.0), (x, y, tnp.exp(y))),
        lambda residuals, cts: (cts[0] * residuals[0], cts[1] * residuals[1]),
    )

    def f(x: tj.Array, y: tj.Array) -> object:
        a, _ = tj.jit(lambda u, v: (tnp.sin(u), tnp.exp(v)))(x, y)
        b, _ = lax.cond(x > 0.0, lambda u, v: (u, v), lambda u, v: (u + 1.0, tnp.exp(v)), x, y)
        (c, _, _), (d, _) = lax.scan(
            lambda s, r: ((s[0] * r, s[1] + s[2], s[2] * y), (s[0], s[1])), (x, x, x), tnp.arange(3.0)
        )
        e, _, _ = lax.while_loop(lambda s: s[0] < 9.0, lambda s: (s[0] * 2.0, s[1] + s[2], s[2] * y), (x, x, x))
        g, _ = tj.checkpoint(lambda u, v: (tnp.sin(u), tnp.exp(v)))(x, y)
        h, _ = pair(x, y)
        i, _ = both(x, y)
        return a, b, c, d, e, g, h, i

    j = program(f, F64, F64)
    clean = checked(transforms.dce(j), j.in_avals, j.out_avals)
    assert transforms.dce(clean) is clean
    args = [np.asarray(0.5), np.asarray(1.5)]
    np.testing.assert_array_equal(run(clean, args)[0], run(j, args)[0])
    golden("dce_within", f"{j}\n\n{clean}")


def first_result(j: Jaxpr) -> Callable[[tj.Array, tj.Array], tj.Array]:
    return lambda x, y: tj.eval_jaxpr(j, (), x, y)[0]


def test_custom_derivatives_stay() -> None:
    """What a rule says of the results that are left stays, also of an argument that the function ignores."""

    @tj.custom_vjp
    def f(x: tj.Array, y: tj.Array) -> tuple[tj.Array, tj.Array]:
        return x * 2.0, x * 3.0

    f.defvjp(
        lambda x, y: ((x * 2.0, x * 3.0), tnp.exp(x)),
        lambda residual, cts: (cts[0] * 5.0, cts[0] * 7.0 + cts[1] * 100.0),
    )
    j = program(lambda x, y: f(x, y)[0], F64, F64)
    for program_ in (j, transforms.dce(j)):
        gradient = tj.grad(first_result(program_), (0, 1))(tnp.asarray(1.0), tnp.asarray(2.0))
        assert [float(g) for g in gradient] == [5.0, 7.0]
    assert "exp" not in str(transforms.dce(j))

    @tj.custom_jvp
    def g(x: tj.Array, y: tj.Array) -> tuple[tj.Array, tj.Array]:
        return x * 2.0, y * 3.0

    g.defjvp(lambda primals, tangents: (g(*primals), (tangents[1] * 7.0, tangents[0])))
    k = program(lambda x, y: g(x, y)[0], F64, F64)
    for program_ in (k, transforms.dce(k)):
        out = tj.jvp(first_result(program_), (1.0, 2.0), (1.0, 10.0))
        assert [float(v) for v in out] == [2.0, 70.0]


def test_primals_of_gradients_disappear_within_branches() -> None:
    def f(x: tj.Array) -> tj.Array:
        out: tj.Array = lax.cond(x > 0.0, lambda z: tnp.sin(z) * tnp.exp(z), lambda z: z * z, x)
        return out

    j = program(tj.grad(f), F64)
    first = [p for p in ir.nested_programs(transforms.dce(j)) if len(p.outvars) == 3]
    assert sorted(len(p.eqns) for p in first) == [0, 3]


def test_prune() -> None:
    j = program(lambda x, y: (tnp.sin(x), tnp.cos(y)), F64, F64)
    pruned = transforms.prune(j, (False, True))
    assert pruned.used_inputs == (False, True)
    assert pruned.jaxpr == program(tnp.cos, F64)
    assert transforms.prune(j, (False, True), (True, False)).used_inputs == (True, True)
    with pytest.raises(InputError, match="prune: used_outputs has 1 entries, but the program has 2 outputs"):
        transforms.prune(j, (True,))


def test_constants_that_nothing_reads() -> None:
    used, unused = tnp.asarray([1.0, 2.0]), tnp.asarray([3.0, 4.0, 5.0])
    closed = tj.make_jaxpr(lambda x: (x * used, tnp.sum(unused) * x)[0])(F64)
    clean = transforms.dce(closed)
    assert len(closed.consts) == 2
    assert len(clean.consts) == 1
    assert ir.typecheck(clean) == ir.typecheck(closed)


def test_user_primitives_with_programs() -> None:
    """Without a rule, all results stay, and the programs are cleaned up within."""
    j = program(lambda x: (tnp.exp(x), tnp.sin(x))[1], F64)
    held = stage([F64], lambda ctx, ins: ctx.bind(Holding(j), *ins))
    (eqn,) = transforms.dce(held).eqns
    assert names(ir.subjaxprs(eqn.primitive)[0]) == ["sin"]


@final
@frozen
class Holding(Primitive):
    """Says nothing of the program that it holds."""

    held: Jaxpr
    name: ClassVar[str] = "holding"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return self.held.out_avals
