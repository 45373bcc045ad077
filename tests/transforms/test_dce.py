"""`transforms.dce`."""

from __future__ import annotations

from typing import ClassVar, final

import pytest
from attrs import frozen
from hypothesis import given, settings
from typing_extensions import override

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.golden import Golden
from tests.transforms.checks import F64, assert_close, checked, float_programs, numbers, program, run
from tinyjax import ShapedArray, ir, transforms
from tinyjax.contexts.staging import stage
from tinyjax.control.call import Call
from tinyjax.ir import Effect, Effects, Jaxpr, NamedAxisEffect, Primitive
from tinyjax.primitives.collectives import AxisIndex, PSum
from tinyjax.primitives.elementwise import NEG


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
        ctx.bind(NEG, x)
        (y,) = ctx.bind(Emit(Noise()), x)
        (z,) = ctx.bind(NEG, y)
        ctx.bind(Emit(Noise()), z)
        ctx.bind(NEG, z)
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
    clean = checked(transforms.dce(j), j.in_avals, j.out_avals)
    assert transforms.dce(clean) is clean
    args = numbers(j.in_avals)
    assert_close(run(clean, args), run(j, args))
    live = {atom for atom in clean.outvars} | {atom for eqn in clean.eqns for atom in eqn.invars}  # noqa: C416
    assert all(any(out in live for out in eqn.outvars) for eqn in clean.eqns)


@pytest.mark.parametrize("keep", [0, 1])
def test_one_of_several_results_is_enough(keep: int) -> None:
    pair = program(lambda x: (tnp.sin(x), tnp.cos(x)), F64)
    j = stage([F64], lambda ctx, ins: [ctx.bind(Call("f", pair), *ins)[keep]])
    assert names(transforms.dce(j)) == ["call"]
