"""Tools and interpreters know programs over meshes: they say of them what they say of what one device computes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
from tests.control.shard_map_programs import MESH, PROGRAMS, ours
from tests.tools.test_display import Balanced
from tinyjax import ClosedJaxpr, NamedSharding, P, interpreters, lax, tools, transforms
from tinyjax.ir import content_hash

X = np.linspace(-1.0, 1.0, 32).reshape(8, 4)
W = np.linspace(0.1, 1.0, 16).reshape(4, 4)
ROWS = NamedSharding(MESH, P("x"))
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: lambda x, w, f=f: f(ours(), x, w) for name, f in PROGRAMS.items()},
    "constraint": lambda x, w: lax.with_sharding_constraint(tj.numpy.sin(x @ w), ROWS) * x,
    "reshard": lambda x, w: tj.reshard(tj.numpy.sin(x @ w), ROWS).sum(),
}
#: What asks for a gradient of a loop without end.
ENDLESS = {"loop_as_long_as_each_likes"}
SAMPLE = {"one_within_another", "constraint"}
NAMES = [pytest.param(name, marks=() if name in SAMPLE else pytest.mark.sweep) for name in FUNCTIONS]


def leaves(tree: object) -> list[Any]:
    return list(tj.tree.leaves(tree))


def agree(found: object, expected: object) -> None:
    for a, b in zip(leaves(found), leaves(expected), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-10, atol=1e-12)


def programs_of(name: str) -> list[ClosedJaxpr]:
    f = FUNCTIONS[name]
    found = [tj.make_jaxpr(f)(X, W)]
    if name not in ENDLESS:
        total = lambda x, w: sum(leaf.sum() for leaf in leaves(f(x, w)))  # noqa: E731
        found.append(tj.make_jaxpr(tj.grad(total, argnums=(0, 1)))(X, W))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_they_are_shown(name: str) -> None:
    for program in programs_of(name):
        for shown in (
            program,
            tools.diff(program, transforms.optimize(program)),
            tools.program_cost(program),
            tools.live_memory(program),
            tools.residual_memory(program),
            tools.liveness(program),
            tools.constancy(program),
            tools.dependence(program),
            tools.memory_plot(program),
            tools.to_html(program),
            tools.to_svg(program, engine="own"),
            tools.to_dot(program),
        ):
            found = Balanced(shown._repr_html_())
            assert not found.open
            assert "object at" not in repr(shown)
        assert not tools.key_reuse(program)
        assert transforms.count_primitives(program)


@pytest.mark.parametrize("name", NAMES)
def test_interpreters_compute_the_same(name: str) -> None:
    f = FUNCTIONS[name]
    expected = f(X, W)
    lower, upper = interpreters.bounds(lambda x: f(x, W))(X - 1e-3, X + 1e-3)
    for low, value, high in zip(leaves(lower), leaves(expected), leaves(upper), strict=True):
        assert np.all((np.asarray(low) <= value) & (np.asarray(value) <= high))
    agree(interpreters.partial_eval(f, X, tj.ShapedArray((4, 4), "float64"))(W), expected)
    agree(interpreters.jet(lambda x: f(x, W), (X,), ((X,),)), tj.jvp(lambda x: f(x, W), (X,), (X,)))
    first = lambda x: leaves(f(x, W))[0]  # noqa: E731
    agree(interpreters.sparse_jacobian(first)(X).todense(), tj.jacfwd(first)(X))
    watched = tj.watch(f)(X, W)
    assert "object at" not in repr(watched)
    agree(watched.result, expected)
    agree(tj.jit(f, debug_nans=True)(X, W), expected)
    assert str(tj.jit(f).explain(X, W))
    tools.check_key_reuse(f, X, W)


HASHES = """
from tests.tools.test_mesh_programs import FUNCTIONS, programs_of
from tinyjax.ir import content_hash
for name in FUNCTIONS:
    print(name, *[content_hash(program) for program in programs_of(name)])
"""


@pytest.mark.sweep
def test_hashes_are_those_of_every_process() -> None:
    """Names of axes come in sets, whose order is another in each process."""
    here = [f"{name} {' '.join(map(str, map(content_hash, programs_of(name))))}" for name in FUNCTIONS]
    root = Path(__file__).parents[2]
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join([str(root), *sys.path])}
        command = [sys.executable, "-c", "import tests.conftest\n" + HASHES]
        done = subprocess.run(command, env=environment, capture_output=True, check=True, encoding="utf-8", cwd=root)
        assert done.stdout.splitlines() == here
