"""Programs that devices run together, on meshes of several shapes: on the host and on devices they compute what one
device does, and the report of what is sent says what XLA's HLO says."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import tinyjax as tj
from tests.tools.divided_programs import PROGRAMS
from tests.tools.hlo_text import told
from tests.tools.test_partition_hlo import counted
from tinyjax import NamedSharding, P, backend, hlo, tools
from tinyjax.sharding import AbstractMesh, Mesh
from tinyjax.transforms import dce

#: Axes of which the last one is communicated along.
MESHES: Final = {
    "8": AbstractMesh((8,), ("x",)),
    "2x4": AbstractMesh((2, 4), ("a", "x")),
    "2x2x2": AbstractMesh((2, 2, 2), ("a", "b", "x")),
    "1x8": AbstractMesh((1, 8), ("a", "x")),
    "8x1": AbstractMesh((8, 1), ("a", "x")),
}


@pytest.mark.parametrize(
    ("name", "on", "derived"),
    [
        pytest.param(
            name, on, derived, marks=() if (name, on, derived) == ("neighbours", "2x4", True) else pytest.mark.sweep
        )
        for name in PROGRAMS
        for on in MESHES
        for derived in (False, True)
    ],
)
def test_values_and_what_is_sent(name: str, on: str, derived: bool) -> None:
    program, mesh = PROGRAMS[name], MESHES[on]
    specs, args = program.specs("x"), program.args

    def derivative(f: Any) -> Any:
        return tj.grad(f, argnums=tuple(range(len(args)))) if derived else f

    local = program.local("x", mesh.shape["x"])
    divided = derivative(tj.shard_map(local, mesh=mesh, in_specs=specs, out_specs=P()))
    expected = tj.tree.leaves(derivative(program.alone)(*args))
    placed = Mesh(np.array(tj.devices("cpu")[:8]).reshape(mesh.axis_sizes), mesh.axis_names)
    on_devices = tj.jit(divided, in_shardings=tuple(NamedSharding(placed, spec) for spec in specs))
    for found in (divided(*args), tj.block_until_ready(on_devices(*args))):
        for one, wanted in zip(tj.tree.leaves(found), expected, strict=True):
            np.testing.assert_allclose(np.asarray(one), np.asarray(wanted), rtol=2.0**-30, atol=1e-10)

    shardings = tuple(NamedSharding(mesh, spec) for spec in specs)
    stage = tj.jit(divided, in_shardings=shardings).lower(*args)
    report = tools.partition(tj.make_jaxpr(divided)(*args), mesh, specs)
    assert report.collectives is not None
    assert counted(report.collectives) == told(stage.compile().as_text() or "", mesh)
    text = hlo.lower(dce(stage.closed_jaxpr), in_shardings=list(shardings))
    assert counted(report.written) == told(backend.hlo_text(text), mesh)
    assert all(c.source is not None and c.source.file.endswith("divided_programs.py") for c in report.collectives)
