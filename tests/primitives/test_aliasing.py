"""Nobody can write to the result of a primitive: neither through an operand, nor through what the primitive keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, TypeVar, final

import numpy as np
import numpy.typing as npt
import pytest
from attrs import frozen
from typing_extensions import override

import tinyjax as tj
from tests.primitives.array_catalog import CASES, Case
from tests.primitives.array_checks import samples
from tests.primitives.catalog import ELEMENTWISE, Entry, case_name
from tests.test_aliasing import check_results_stay, write_to
from tinyjax import ShapedArray, extend
from tinyjax.contexts.devices import single_equation
from tinyjax.contexts.evaluation import EvalContext
from tinyjax.ir import ConcreteValue, Primitive, interpret
from tinyjax.ir.dtypes import FLOAT64, HostArray

V = TypeVar("V")


def check(primitive: Primitive, make: Callable[[], list[HostArray]], avals: Sequence[ShapedArray]) -> None:
    """On arrays, in turn; and in evaluation alone, of values whose elements somebody can write to after all."""
    for untouched in range(3):
        check_results_stay(partial(extend.bind, primitive), make, untouched)
    with np.errstate(all="ignore"):
        expected = primitive.evaluate(*make())
    given = make()
    values = [ConcreteValue(x, ShapedArray(x.shape, x.dtype, a.weak_type)) for x, a in zip(given, avals, strict=True)]
    outs = [EvalContext().bind(primitive, *values)]
    outs.append(tuple(interpret(EvalContext(), single_equation(primitive, tuple(avals)), values)))
    for array in given:
        write_to(array)
    for results in outs:
        for result, elements in zip(results, expected, strict=True):
            assert np.asarray(result).tobytes() == elements.tobytes()
            assert not np.asarray(result).flags.writeable


@pytest.mark.parametrize("example", [case for case in CASES if case.avals], ids=lambda example: example.name)
def test_arrays(example: Case) -> None:
    check(example.primitive, lambda: samples(example.avals, np.random.default_rng(0)), example.avals)


@pytest.mark.parametrize("entry", ELEMENTWISE, ids=case_name)
def test_elementwise(entry: Entry) -> None:
    dtype = FLOAT64 if FLOAT64 in entry.dtypes else entry.dtypes[-1]

    def make() -> list[HostArray]:
        return [np.array(array[:4]) for array in entry.samples(dtype)]

    check(entry.primitive, make, [ShapedArray(array.shape, array.dtype) for array in make()])


TABLE: npt.NDArray[np.float64] = np.arange(6.0)


@final
@frozen
class Looked(Primitive):
    """What the user keeps elsewhere, added to nothing."""

    start: int
    stop: int | None
    name: ClassVar[str] = "looked"
    plain: ClassVar[bool] = True

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return (ShapedArray(TABLE[self.start : self.stop].shape, FLOAT64),)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        return (TABLE[self.start : self.stop],)


@pytest.mark.parametrize("part", [Looked(0, None), Looked(1, 3), Looked(5, 6)])
def test_what_a_primitive_keeps(part: Looked) -> None:
    expected = TABLE[part.start : part.stop].copy()
    results = [extend.bind(part, 1.0)[0] for _ in range(3)]
    results.append(tj.vmap(lambda x: x * 0 + extend.bind(part, 1.0)[0])(np.ones(1))[0])
    TABLE[:] += 1
    for result in results:
        np.testing.assert_array_equal(result, expected)
