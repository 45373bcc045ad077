"""`disable_jit` and `ensure_compile_time_eval`: what Python runs, and what is computed at once, in a block only."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.errors import ConcretizationError
from tinyjax.sharding import AbstractMesh


def program(x: Any) -> Any:
    total = lax.fori_loop(0, 3, lambda i, c: c + i * x, x)
    total = lax.cond(total > 2.0, tnp.sqrt, lambda y: y * 2.0, total)
    total, rows = lax.scan(lambda c, row: (c + row, {"c": c}), total, tnp.arange(4.0), reverse=True)
    total = lax.while_loop(lambda c: c < 100.0, lambda c: 2.0 * c, total)
    return {"sum": total, **rows}, lax.switch(1, [tnp.sin, tnp.cos], total), lax.map(tnp.sin, tnp.arange(3.0) * x)


def results(x: Any) -> list[Any]:
    return [np.asarray(leaf) for leaf in tj.tree.leaves(x)]


@pytest.mark.parametrize("x", [0.25, 2.0])
def test_the_results_are_the_same(x: float) -> None:
    f: Any = tj.jit(program)

    def loss(x: Any) -> Any:
        outs, y, z = f(x)
        return tnp.sum(outs["c"]) + y + tnp.sum(z)

    expected, derivative = f(x), tj.jvp(loss, (x,), (1.0,))
    with tj.disable_jit():
        found, directly = f(x), tj.jvp(loss, (x,), (1.0,))
        inside = tj.jit(tj.vmap(f))(tnp.asarray([x]))  # what isn't known stays a loop
    for one, other, row in zip(results(found), results(expected), results(inside), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
        np.testing.assert_allclose(row[0], other, rtol=1e-12)
        assert one.dtype == other.dtype
    np.testing.assert_allclose(results(directly), results(derivative), rtol=1e-12)


def test_python_sees_values_in_the_block_only() -> None:
    seen: list[object] = []

    @tj.jit
    def f(x: Any) -> Any:
        seen.append(x)
        return lax.fori_loop(0, 2, lambda i, c: c + int(i), x)

    with pytest.raises(ConcretizationError):
        f(1.0)
    with tj.disable_jit():
        assert float(f(1.0)) == 2.0
        assert seen[-1] == 1.0
        with tj.disable_jit(disable=False), pytest.raises(ConcretizationError):
            f(2.0)
        with tj.sharding.use_abstract_mesh(AbstractMesh((1,), ("x",))):  # other blocks within change nothing
            assert float(f(3.0)) == 4.0
        others: list[BaseException] = []

        def elsewhere() -> None:
            try:
                f(4.0)
            except ConcretizationError as error:
                others.append(error)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert others
    with pytest.raises(ConcretizationError):
        f(5.0)

    @tj.disable_jit()
    def decorated(x: float) -> float:
        return float(f(x))

    assert decorated(6.0) == 7.0


def test_a_loop_without_iterations_is_staged() -> None:
    with tj.disable_jit():
        carry, ys = lax.scan(lambda c, x: (c, x + 1), 1.0, tnp.zeros((0, 2)))
    assert (float(carry), ys.shape) == (1.0, (0, 2))


def test_what_is_known_is_computed_at_once() -> None:
    @tj.jit
    def f(x: Any) -> Any:
        with pytest.raises(ConcretizationError):
            int(tnp.sum(np.arange(3)))
        with tj.ensure_compile_time_eval():
            n = int(tnp.sum(np.arange(3)))
            factor = tj.jit(tnp.sin)(2.0)
            assert isinstance(float(factor), float)
            y = x + factor  # traced values stay traced
        with pytest.raises(ConcretizationError):
            float(y)
        with pytest.raises(ConcretizationError):
            int(tnp.sum(np.arange(3)))
        return y**n

    np.testing.assert_allclose(f(2.0), (2.0 + np.sin(2.0)) ** 3)
    np.testing.assert_allclose(tj.grad(f)(2.0), 3.0 * (2.0 + np.sin(2.0)) ** 2)
    names = {eqn.primitive.name for eqn in tj.make_jaxpr(f.__wrapped__)(2.0).eqns}
    assert "sin" not in names
