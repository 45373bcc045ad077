"""Pipelines of passes, and their reports."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.golden import Golden
from tests.transforms.checks import F64, program
from tinyjax import Array, ir, lax, transforms
from tinyjax.errors import InputError, VerificationError
from tinyjax.ir import Jaxpr, Var
from tinyjax.transforms import Pass, PassReport, Pipeline
from tinyjax.transforms.pipeline import as_pass


def f(x: Array, y: Array) -> object:
    scale = tj.jit(lambda z: z * 1.0 * tnp.cos(0.0))
    total, _ = lax.scan(lambda c, r: (scale(c) * tnp.exp(y) + r, tnp.sin(c)), x, tnp.arange(3.0))
    return total + scale(x), tnp.sin(y) + tnp.sin(y)


def test_golden(golden: Golden) -> None:
    shown: list[str] = []
    j = program(f, F64, F64)
    result, reports = transforms.OPTIMIZATION.report(j, show=shown.append, check=True)
    assert result == transforms.optimize(j)
    assert ir.typecheck(result) == j.type
    golden("pipeline", "\n".join([*shown, *map(str, reports)]))


def test_reports() -> None:
    j = program(f, F64, F64)
    pipeline = Pipeline([transforms.dce, ("fold", transforms.fold_constants), transforms.cse, transforms.cse])
    assert pipeline.names == ("dce", "fold", "cse", "cse")
    result, reports = pipeline.report(j)
    assert result == pipeline(j)
    assert [report.name for report in reports] == list(pipeline.names)
    assert [report.changed for report in reports] == [True, True, True, False]
    assert reports[0].before == transforms.count_primitives(j)
    assert reports[-1].after == transforms.count_primitives(result)
    assert reports[2].differences == (("sin", -1),)
    assert str(reports[2]) == f"cse: {reports[2].size_before} -> {reports[2].size_before - 1} equations (-1 sin)"
    assert str(reports[3]) == "cse: nothing"
    assert hash(reports[0]) == hash(
        PassReport(*(getattr(reports[0], name) for name in ("name", "before", "after", "changed")))
    )
    for before, after in pairwise(reports):
        assert before.after == after.before


def test_names_of_passes() -> None:
    def mine(jaxpr: Jaxpr) -> Jaxpr:
        return jaxpr

    limited = partial(transforms.fold_constants, max_size=4)
    pipeline = Pipeline([mine, limited, Pass("named", mine), Pipeline([mine])])
    assert pipeline.names == ("mine", "fold_constants", "named", "Pipeline")
    j = program(tnp.sin, F64)
    assert pipeline(j) is j
    not_a_pass: Any = 3
    with pytest.raises(
        InputError, match="a pass is a function from programs to programs, maybe in a pair with a name, got 3"
    ):
        as_pass(not_a_pass)


def test_closed_programs() -> None:
    table = tnp.asarray([1.0, 2.0])
    closed = tj.make_jaxpr(lambda x: tnp.sum(table * 2.0) * x)(F64)
    assert len(closed.consts) == 1
    result, reports = transforms.OPTIMIZATION.report(closed, check=True)
    assert result.consts == ()
    assert [eqn.primitive.name for eqn in result.eqns] == ["mul"]
    assert reports[-1].size_after == 1
    assert transforms.optimize(closed) == result


def test_invalid_results_are_found() -> None:
    j = program(tnp.sin, F64)

    def broken(jaxpr: Jaxpr) -> Jaxpr:
        return Jaxpr(jaxpr.invars, jaxpr.eqns, (Var(9, F64),))

    with pytest.raises(VerificationError, match="which nothing binds") as caught:
        Pipeline([broken]).report(j, check=True)
    assert caught.value.__notes__ == ["This is the program after the pass 'broken'."]

    def shorter(jaxpr: Jaxpr) -> Jaxpr:
        return Jaxpr(jaxpr.invars, jaxpr.eqns, ())

    with pytest.raises(VerificationError, match=r"the pass 'shorter' changed the type of the program from \(f64\[\]\)"):
        Pipeline([shorter]).report(j, check=True)
