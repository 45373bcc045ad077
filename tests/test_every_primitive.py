"""Every primitive of the standard registry occurs in random programs, and these obey the laws of what programs are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings

from tests.every_primitive import applications, classes_in, holding, programs
from tinyjax import ir, transforms
from tinyjax.errors import CallbackError, ForwardModeError, MissingRuleError, UnsupportedError
from tinyjax.ir import BatchAxis, Jaxpr
from tinyjax.ir.primitive import Primitive
from tinyjax.testing import check_laws

#: What doesn't compute anything.
_STATIC = ["typecheck", "text", "files", "pickle", "staging"]


def test_every_primitive_occurs() -> None:
    """A new primitive joins a grid of tests/hlo/every_type.py, or a program of tests/every_primitive.py."""
    names = {cls.name for cls in ir.STANDARD if issubclass(cls, Primitive)}
    occurring = {*applications(), *(name for program in holding().values() for name in classes_in(program))}
    assert names <= occurring, names - occurring


@pytest.mark.sweep
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs())
def test_programs_of_all_primitives(program: Jaxpr) -> None:
    check_laws(program, laws=_STATIC)
    passed = transforms.simplify(transforms.cse(transforms.dce(program)))
    assert passed.in_avals == program.in_avals
    assert passed.out_avals == program.out_avals
    check_laws(passed, laws=_STATIC)


@pytest.mark.parametrize("name", [*holding()])
def test_programs_that_hold_programs(name: str) -> None:
    check_laws(holding()[name], laws=_STATIC)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs(max_parts=1))
def test_transformed_programs_are_valid(program: Jaxpr) -> None:
    """Or it is said which rule there isn't."""

    def transformed() -> Iterator[Jaxpr]:
        yield transforms.batch(program, BatchAxis(3), [0] * len(program.invars)).jaxpr
        yield transforms.jvp(program).jaxpr
        linearized = transforms.linearize(program)
        yield linearized.primal
        yield linearized.linear

    with suppress(CallbackError, MissingRuleError, UnsupportedError, ForwardModeError):
        for found in transformed():
            ir.typecheck(found)
