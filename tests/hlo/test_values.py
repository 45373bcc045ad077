"""What the lowered primitives compute, compared with what they evaluate to in NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.hlo.programs import run, side_by_side
from tests.primitives import array_catalog
from tests.primitives.array_checks import close, samples
from tests.primitives.catalog import ELEMENTWISE, Entry, check_close, compiled
from tinyjax.ir.dtypes import SHORT_NAMES
from tinyjax.ir.shared_types import array_type

#: How much farther from NumPy's results than evaluation's are from jax's, where XLA's own algorithms are less exact.
FARTHER = {"sinh": 2, "cosh": 2, "atan2": 8}


@pytest.mark.sweep
@pytest.mark.parametrize("entry", compiled(ELEMENTWISE))
def test_elementwise(entry: Entry) -> None:
    operands = [entry.samples(dtype) for dtype in entry.dtypes]
    program = side_by_side([(entry.primitive, [array_type(x.shape, x.dtype) for x in xs]) for xs in operands])
    results = run(program, *itertools.chain(*operands))
    for dtype, xs, got in zip(entry.dtypes, operands, results, strict=True):
        with np.errstate(all="ignore"):
            (expected,) = entry.primitive.evaluate(*xs)
        try:
            check_close(got, expected, entry.ulps * FARTHER.get(entry.primitive.name, 1), entry.scale)
        except AssertionError as error:
            raise AssertionError(f"{SHORT_NAMES[dtype]}: {error}") from error


@pytest.mark.parametrize("entry", compiled([entry for entry in ELEMENTWISE if entry.arity > 1]))
def test_scalar_operands_are_repeated(entry: Entry) -> None:
    dtype = entry.dtypes[0]
    vectors = entry.samples(dtype)
    combinations = [c for c in itertools.product((False, True), repeat=entry.arity) if True in c and False in c]
    operands = [[x[-1] if scalar else x for x, scalar in zip(vectors, choice, strict=True)] for choice in combinations]
    program = side_by_side([(entry.primitive, [array_type(x.shape, x.dtype) for x in xs]) for xs in operands])
    for xs, got in zip(operands, run(program, *itertools.chain(*operands)), strict=True):
        with np.errstate(all="ignore"):
            (expected,) = entry.primitive.evaluate(*[np.asarray(x) for x in xs])
        check_close(got, expected, entry.ulps * FARTHER.get(entry.primitive.name, 1), entry.scale)


#: The cases of each primitive, which are compiled together.
BY_PRIMITIVE = {
    name: list(group)
    for name, group in itertools.groupby(
        sorted(array_catalog.CASES, key=lambda case: case.primitive.name), lambda case: case.primitive.name
    )
}


@pytest.mark.parametrize("name", BY_PRIMITIVE)
def test_arrays(name: str) -> None:
    rng = np.random.default_rng(0)
    cases = BY_PRIMITIVE[name]
    operands = [samples(case.avals, rng) for case in cases]
    results = iter(run(side_by_side([(case.primitive, case.avals) for case in cases]), *itertools.chain(*operands)))
    for case, xs in zip(cases, operands, strict=True):
        with np.errstate(all="ignore"):
            expected = case.primitive.evaluate(*xs)
        for want in expected:
            got = next(results)
            assert (got.shape, got.dtype) == (want.shape, want.dtype), case.name
            close(got, want, want.dtype)
    assert not list(results)
