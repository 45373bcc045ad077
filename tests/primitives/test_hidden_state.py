"""`rng_uniform`, whose results are no function of its operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
from tinyjax import Array, lax
from tinyjax.errors import MissingRuleError, ShapeError, TypingError
from tinyjax.interop import jax as interop

PROGRAM = tj.make_jaxpr(lambda a, b: (lax.rng_uniform(a, b, (2,)), lax.rng_uniform(a, b, (2,))))(0.0, 1.0)
RUNS: dict[str, Callable[..., Sequence[Array]]] = {
    "eager": lambda a, b: (lax.rng_uniform(a, b, (2,)), lax.rng_uniform(a, b, (2,))),
    "jit": tj.jit(lambda a, b: (lax.rng_uniform(a, b, (2,)), lax.rng_uniform(a, b, (2,)))),
    "eval": lambda a, b: tj.eval_jaxpr(PROGRAM.jaxpr, (), a, b),
}


@pytest.mark.parametrize("run", RUNS)
def test_each_time_other_numbers(run: str) -> None:
    found = [out for _ in range(3) for out in RUNS[run](0.0, 1.0)]
    assert len({float(x) for out in found for x in out}) == 12


@pytest.mark.parametrize("pass_", [tj.transforms.cse, tj.transforms.dce, tj.transforms.fold_constants])
def test_no_pass_merges_removes_or_computes_it(pass_: Callable[[tj.Jaxpr], tj.Jaxpr]) -> None:
    def f(x: Array) -> Array:
        lax.rng_uniform(0.0, 1.0, (2,))
        return x + lax.rng_uniform(0.0, 1.0, (2,)) - lax.rng_uniform(0.0, 1.0, (2,))

    program = tj.make_jaxpr(f)(1.0).jaxpr
    assert str(program.effects) == "frozenset({RandomEffect()})"
    assert [eqn.primitive.name for eqn in pass_(program).eqns].count("rng_uniform") == 3


def test_what_is_known_is_drawn_once() -> None:
    """The numbers of the forward pass are those of the backward pass, also where it is computed again."""

    def f(x: Any) -> Any:
        return x * lax.rng_uniform(0.0, 1.0, ())

    for g in (f, tj.jit(f), tj.checkpoint(f), tj.jit(tj.checkpoint(f))):
        y, slope = tj.value_and_grad(g)(2.0)
        assert float(y) == 2.0 * float(slope)
    rows = tj.vmap(f)(np.ones(3))
    assert len(np.unique(np.asarray(rows))) == 1


@pytest.mark.parametrize("run", [lax.rng_uniform, tj.jit(lax.rng_uniform, static_argnums=2)])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int32", "uint32", "int64", "uint64"])
def test_numbers_lie_within_the_bounds(run: Callable[..., Array], dtype: str) -> None:
    a, b = (np.asarray(v).astype(jax.numpy.dtype(dtype)) for v in (3, 5))
    found = np.asarray(run(a, b, (300,)))
    assert found.dtype == a.dtype
    wide = found.astype(np.float64)
    assert ((wide >= 3) & (wide < 5)).all()
    assert len(set(wide)) > 1
    if found.dtype.kind in "iu":
        assert set(wide) == {3.0, 4.0}
        assert len(set(np.asarray(run(a, a, (300,))).tolist())) == 300
    else:
        assert abs(wide.mean() - 4) < 0.3
        assert (np.asarray(run(a, a, (3,))) == a).all()


def test_numbers_are_never_the_upper_bound() -> None:
    a = np.float32(1.0)
    b = np.nextafter(a, np.float32(2))
    assert (np.asarray(lax.rng_uniform(a, b, (1000,))) == a).all()


def test_numbers_that_the_bounds_have_no_way_to() -> None:
    assert np.isnan(np.asarray(lax.rng_uniform(np.nan, 1.0, (3,)))).all()
    assert np.isinf(np.asarray(lax.rng_uniform(1.0, np.inf, (3,)))).all()


def test_to_jax_and_back() -> None:
    f = interop.to_jax(lambda a: lax.rng_uniform(a, a + 1.0, (3,)))
    found = np.asarray(f(np.float32(2.0)))
    assert ((found >= 2) & (found < 3)).all()
    printed = str(jax.make_jaxpr(lambda a: jax.lax.rng_uniform(a, a, (3,)))(np.float32(1)))
    read = tj.ir.parse(printed)
    assert read == tj.make_jaxpr(lambda a: lax.rng_uniform(a, a, (3,)))(np.float32(1)).jaxpr
    assert interop.from_jax(jax.make_jaxpr(lambda a: jax.lax.rng_uniform(a, a, (3,)))(np.float32(1))).jaxpr == read


def test_what_it_refuses() -> None:
    with pytest.raises(TypingError, match=r"rng_uniform: a and b have one dtype, got f32\[\] and f64\[\]"):
        lax.rng_uniform(np.float32(1), np.float64(2), ())
    with pytest.raises(ShapeError, match=r"a and b are scalars, got f64\[2\]"):
        lax.rng_uniform(np.ones(2), 2.0, ())
    with pytest.raises(TypingError, match="rng_uniform takes bf16, f16"):
        lax.rng_uniform(False, True, ())
    with pytest.raises(MissingRuleError, match=r"Differentiation rule.*Write `a \+ \(b - a\) \* lax.rng_uniform"):
        tj.grad(lambda a: lax.rng_uniform(a, 2.0, ()))(1.0)
    with pytest.raises(MissingRuleError, match="Batching rule for 'rng_uniform' not implemented: its numbers are no"):
        tj.vmap(lambda a: lax.rng_uniform(a, 2.0, ()))(np.ones(3))
