"""Partition reports against XLA's HLO, by another reader of it: kinds, axes, bytes, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

import tinyjax as tj
from tests.tools.hlo_text import Told, told
from tests.tools.partition_programs import CASES, MESH, Case
from tinyjax import NamedSharding, backend, hlo, tools
from tinyjax.api.lowered import Lowered
from tinyjax.tools.partitioning import Collective
from tinyjax.transforms import dce

NAMES = [(name, derived) for name in CASES for derived in (False, True)]
#: In every run of the tests; the others are in the sweep.
ALWAYS = {("mlp both", True), ("mlp layers by hand", True)}


def counted(found: Iterable[Collective]) -> Counter[Told]:
    return Counter((c.kind, c.axes, c.bytes, None if c.times.per_iteration else c.times.fixed) for c in found)


def lowered(case: Case, derived: bool) -> Lowered:
    function = case.gradient if derived else case.loss
    shardings = tuple(NamedSharding(MESH, spec) for spec in case.specs)
    return tj.jit(function, in_shardings=shardings).lower(*case.args)


def test_there_are_at_least_fifty() -> None:
    assert len(NAMES) >= 50
    for family in ("mlp", "attention", "convolution", "experts", "pipeline"):
        assert sum(name.startswith(family) for name in CASES) >= 3


@pytest.mark.parametrize(
    ("name", "derived"),
    [pytest.param(*key, marks=() if key in ALWAYS else (pytest.mark.sweep,)) for key in NAMES],
)
def test_reports_say_what_hlo_says(name: str, derived: bool) -> None:
    case = CASES[name]
    stage = lowered(case, derived)
    report = tools.partition(tj.make_jaxpr(case.gradient if derived else case.loss)(*case.args), MESH, case.specs)
    assert report.collectives is not None
    # The usual way to compile it, which writes no places into the text.
    assert counted(report.collectives) == told(stage.compile().as_text(), MESH)
    assert all(c.source is not None and c.source.file.endswith(".py") for c in report.collectives)
    if not case.manual:
        assert not report.written
        return
    # Before XLA has looked at it, there are these and no others.
    text = hlo.lower(dce(stage.closed_jaxpr), in_shardings=[NamedSharding(MESH, spec) for spec in case.specs])
    assert counted(report.written) == told(backend.hlo_text(text), MESH)
    assert all(c.written for c in report.collectives)
    # XLA runs nothing but these; it may run one for several.
    kinds = {(c.kind, c.axes) for c in report.written}
    assert {(c.kind, c.axes) for c in report.collectives} <= kinds
