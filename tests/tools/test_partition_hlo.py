"""Partition reports against XLA's HLO, by another reader of it: kinds, axes, bytes, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any  # modules and arrays of two libraries

import jax
import numpy as np
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


def test_what_a_branch_would_send_for_nobody_is_not_sent() -> None:
    """The sums in the branches are values of the loss, and its gradient needs none of them."""

    def text(m: Any) -> str:
        def loss(w: Any, x: Any) -> Any:
            mean = m.lax.psum(x.sum(), "d")
            one = lambda: m.lax.psum(m.numpy.sin(x @ w).sum(), "d")  # noqa: E731
            other = lambda: m.lax.psum(m.numpy.cos(x @ w).sum(), "d")  # noqa: E731
            return m.lax.cond(mean > 0.0, one, other)

        mesh = m.make_mesh((4, 2), ("d", "m"), (m.sharding.AxisType.Auto,) * 2, devices=m.devices("cpu")[:8])
        specs = (m.P(), m.P("d"))
        mapped = m.shard_map(loss, mesh=mesh, in_specs=specs, out_specs=m.P())
        args = [m.ShapeDtypeStruct(shape, np.float32) for shape in ((8, 8), (16, 8))]
        shardings = tuple(m.sharding.NamedSharding(mesh, spec) for spec in specs)
        found: str = m.jit(m.grad(mapped), in_shardings=shardings).lower(*args).compile().as_text()
        return found

    expected = Counter({("all-reduce", ("d",), 4, 1): 1, ("all-reduce", ("d",), 256, 1): 2})
    assert told(text(tj), MESH) == told(text(jax), MESH) == expected
