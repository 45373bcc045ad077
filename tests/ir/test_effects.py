"""Effects."""

from __future__ import annotations

from typing import ClassVar, final

from attrs import frozen

from tests.ir.examples import F64, Emit, applied, double, program
from tinyjax.ir import Effect, NamedAxisEffect, Primitive
from tinyjax.ir.effects import NO_EFFECTS, axis_names, must_stay


@final
@frozen
class Printing(Effect):
    """Writes something somewhere."""

    stream: str = "out"


def test_effects_are_values() -> None:
    assert NamedAxisEffect("i") == NamedAxisEffect("i")
    assert NamedAxisEffect("i") != NamedAxisEffect("j")
    assert Printing() == Printing("out")
    assert frozenset({Printing(), Printing()}) == {Printing()}
    assert str(NamedAxisEffect("i")) == "NamedAxis(i)"


def test_what_may_be_removed() -> None:
    assert not must_stay(NO_EFFECTS)
    assert not must_stay(frozenset({NamedAxisEffect("i")}))
    assert must_stay(frozenset({Printing()}))
    assert must_stay(frozenset({NamedAxisEffect("i"), Printing()}))


def test_the_axes_that_are_needed() -> None:
    assert axis_names(frozenset({NamedAxisEffect("i"), Printing(), NamedAxisEffect("j")})) == {"i", "j"}
    assert axis_names(NO_EFFECTS) == frozenset()


def test_a_program_has_the_effects_of_its_equations() -> None:
    jaxpr = program([F64], lambda ctx, x: [*ctx.bind(Emit("i"), x), *ctx.bind(Emit("j"), x), *ctx.bind(Emit(), x)])
    assert jaxpr.effects == {NamedAxisEffect("i"), NamedAxisEffect("j")}
    assert applied(jaxpr).effects == jaxpr.effects
    assert double().effects is NO_EFFECTS


def test_a_primitive_has_none_unless_it_says_so() -> None:
    @final
    @frozen
    class Plain(Primitive):
        name: ClassVar[str] = "plain"

    assert Plain().effects == NO_EFFECTS
