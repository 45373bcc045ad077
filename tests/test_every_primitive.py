"""Every primitive of the standard registry occurs in random programs, and these obey the laws of what programs are."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.every_primitive import applications, classes_in, holding, programs
from tinyjax import ir, transforms
from tinyjax.contexts.abstract import AbstractContext
from tinyjax.contexts.batching import BatchContext, Batched
from tinyjax.errors import CallbackError, ForwardModeError, MissingRuleError, TinyjaxError, UnsupportedError
from tinyjax.ir import BatchAxis, Jaxpr, ShapedArray
from tinyjax.ir.dtypes import DType
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.shapes import Shape
from tinyjax.testing import check_laws

#: What doesn't compute anything.
_STATIC = ["typecheck", "text", "files", "pickle", "staging"]


def test_every_primitive_occurs() -> None:
    """A new primitive joins a grid of tests/hlo/every_type.py, or a program of tests/every_primitive.py."""
    names = {cls.name for cls in ir.STANDARD if issubclass(cls, Primitive)}
    occurring = {*applications(), *(name for program in holding().values() for name in classes_in(program))}
    assert names <= occurring, names - occurring


def test_elements_of_batches_are_typed() -> None:
    """What a primitive refuses it refuses for the elements of a batch, though with the batch's axis it may seem to fit;
    else the types of the elements are those of its results."""

    def types_of(find: Callable[[], Iterable[ShapedArray]]) -> list[tuple[Shape, DType]] | None:
        try:
            return [(x.shape, x.dtype) for x in find()]
        except TinyjaxError:
            return None

    def batched(primitive: Primitive, avals: Sequence[ShapedArray], axes: Sequence[int | None], size: int) -> Any:
        ctx = BatchContext(AbstractContext(), BatchAxis(size))
        return map(ctx.aval, ctx.bind(primitive, *map(Batched, avals, axes)))

    wrong, seen = [], 0
    for primitive, avals in itertools.chain.from_iterable(each[:3] for each in applications().values()):
        for first in itertools.product((None, 0, -1), repeat=min(len(avals), 4)):
            places = (*first, *(None for _ in avals[4:]))
            mapped = [x for x, place in zip(avals, places, strict=True) if place is not None]
            if not mapped or () in [x.shape for x in mapped]:
                continue
            axes = [None if at is None else at % x.ndim for x, at in zip(avals, places, strict=True)]
            sizes = {x.shape[at] for x, at in zip(avals, axes, strict=True) if at is not None}
            if len(sizes) > 1:
                continue
            each = [
                x if at is None else ShapedArray(x.shape[:at] + x.shape[at + 1 :], x.dtype)
                for x, at in zip(avals, axes, strict=True)
            ]
            found = types_of(partial(batched, primitive, avals, axes, *sizes))
            if found != types_of(partial(primitive.type_of, *each)):
                wrong.append(f"{primitive} of {', '.join(map(str, avals))} along {axes}")
            seen += found is None
    assert not wrong, "\n".join(wrong)
    assert seen > 50


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
