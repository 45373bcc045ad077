"""`default_matmul_precision`: products in a block that don't say how they are computed, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import Jaxpr, lax
from tinyjax.api.differences import PrecisionChanged
from tinyjax.errors import UnsupportedError
from tinyjax.ir.traverse import subjaxprs
from tinyjax.lax import DotAlgorithmPreset, Precision
from tinyjax.primitives.contractions import Bilinear

x = np.linspace(-1.0, 1.0, 9, dtype="float32").reshape(3, 3)


def precisions(jaxpr: Jaxpr) -> list[object]:
    """Those of all products, also in programs within."""
    found: list[object] = []
    for eqn in jaxpr.eqns:
        if isinstance(eqn.primitive, Bilinear):
            found.append(eqn.params["precision"])
        for inner in subjaxprs(eqn.primitive):
            found += precisions(inner)
    return found


def traced(f: Callable[[Any], object]) -> list[object]:
    return precisions(tj.make_jaxpr(f)(x).jaxpr)


def convolved(a: Any) -> Any:
    return lax.conv(a[None, None], a[None, None], (1, 1), "SAME")[0, 0]


def rule(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    run = tj.custom_jvp(f)
    run.defjvp(lambda primals, tangents: tj.jvp(f, primals, tangents))
    return run


def reverse_rule(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    run = tj.custom_vjp(f)
    run.defvjp(lambda a: (f(a), a), lambda a, ct: (tj.vjp(f, a)[1](ct)[0],))
    return run


PRODUCTS: dict[str, Callable[[Any], Any]] = {
    "@": lambda a: a @ a,
    "matmul": lambda a: tnp.matmul(a, a),
    "dot": lambda a: tnp.dot(a, a),
    "tensordot": lambda a: tnp.tensordot(a, a, 1),
    "einsum": lambda a: tnp.einsum("ij,jk->ik", a, a),
    "inner": lambda a: tnp.inner(a, a),
    "vecdot": lambda a: tnp.vecdot(a, a),
    "lax.dot": lambda a: lax.dot(a, a),
    "batch_matmul": lambda a: lax.batch_matmul(a[None], a[None])[0],
    "ragged_dot": lambda a: lax.ragged_dot(a, a[None], np.array([3])),
    "conv": convolved,
    "cov": tnp.cov,
}
WRAPPERS: dict[str, Callable[[Callable[[Any], Any]], Callable[[Any], Any]]] = {
    "call": lambda f: f,
    "jit": tj.jit,
    "jit of jit": lambda f: tj.jit(tj.jit(f)),
    "vmap": lambda f: lambda a: tj.vmap(f)(a[None]),
    "grad": lambda f: tj.grad(lambda a: tnp.sum(f(a) ** 2)),
    "linearize": lambda f: lambda a: tj.linearize(f, a)[1](a),
    "checkpoint": lambda f: tj.grad(lambda a: tnp.sum(tj.checkpoint(f)(a))),
    "custom_jvp": lambda f: tj.grad(lambda a: tnp.sum(rule(f)(a))),
    "custom_vjp": lambda f: tj.grad(lambda a: tnp.sum(reverse_rule(f)(a))),
    "scan": lambda f: lambda a: lax.scan(lambda c, _: (f(c), None), a, None, 3)[0],
    "while": lambda f: lambda a: lax.while_loop(lambda c: c[0, 0] < 0, f, a),
    "cond": lambda f: lambda a: lax.cond(a[0, 0] < 0, f, lambda b: b, a),
}


@pytest.mark.parametrize("product", PRODUCTS)
def test_every_product_in_the_block_is_computed_so(product: str) -> None:
    f = PRODUCTS[product]
    for _ in range(3):  # what is met again is prepared
        outside = traced(f)
        with tj.default_matmul_precision("highest"):
            inside = traced(f)
            with tj.default_matmul_precision("high"):
                assert set(traced(f)) == {Precision.HIGH}
            with tj.default_matmul_precision(None):
                assert set(traced(f)) == {None}
        assert set(outside) == {None}
        assert set(inside) == {Precision.HIGHEST}


@pytest.mark.parametrize("product", ["matmul", "conv"])
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_it_reaches_into_everything_that_is_traced(wrapper: str, product: str) -> None:
    f = WRAPPERS[wrapper](PRODUCTS[product])
    for _ in range(3):
        assert set(traced(f)) == {None}
        with tj.default_matmul_precision("float32"):
            assert set(traced(f)) == {Precision.HIGHEST}
            assert set(traced(tj.jit(f))) == {Precision.HIGHEST}
    expected = f(x)
    with tj.default_matmul_precision("float32"):
        found = f(x)
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-4, atol=1e-5)


def test_what_says_itself_stays_so() -> None:
    with tj.default_matmul_precision("highest"):
        assert traced(lambda a: tnp.matmul(a, a, precision="default")) == [Precision.DEFAULT]
        assert traced(lambda a: tnp.einsum("ij,jk", a, a, precision=("high", "highest"))) == [
            (Precision.HIGH, Precision.HIGHEST)
        ]


def test_a_function_that_was_traced_outside_of_it_is_traced_again() -> None:
    traces: list[object] = []

    @tj.jit
    def f(a: Any) -> Any:
        traces.append(a)
        return a @ a

    for _ in range(3):
        f(x)
        with tj.default_matmul_precision("highest"):
            f(x)
            assert "HIGHEST" in f.lower(x).as_text()
    assert len(traces) == 2
    with tj.default_matmul_precision("high"):
        (difference,) = f.explain(x).differences
        f(x)
        assert f.explain(x).hit
    assert difference == PrecisionChanged(Precision.HIGHEST, Precision.HIGH)
    assert str(difference) == "the precision of products: HIGH, was HIGHEST"
    assert "HIGHEST" not in f.lower(x).as_text()
    assert len(traces) == 3


@pytest.mark.parametrize("given", ["default", "bfloat16", "tensorfloat32", "highest", "F32_F32_F32"])
def test_programs_are_those_of_jax(given: str) -> None:
    for mine, theirs in (
        (lambda a: a @ a, lambda a: a @ a),
        (lambda a: tnp.einsum("ij,kj", a, a), lambda a: jnp.einsum("ij,kj", a, a)),
    ):
        with tj.default_matmul_precision(given):
            (found,) = traced(mine)
        with jax.default_matmul_precision(given):
            expected = jax.make_jaxpr(theirs)(x).eqns[-1].params["precision"]
        one = expected[0] if isinstance(expected, tuple) else expected
        assert isinstance(found, Precision | DotAlgorithmPreset)
        assert found.name == one.name


def test_an_algorithm_is_for_products_of_matrices() -> None:
    with tj.default_matmul_precision(DotAlgorithmPreset.F32_F32_F32):
        assert traced(PRODUCTS["matmul"]) == [DotAlgorithmPreset.F32_F32_F32]
        assert traced(convolved) == [None]


def test_it_is_in_force_in_one_thread_and_until_the_block_ends() -> None:
    seen: list[list[object]] = []
    with tj.default_matmul_precision("high"):
        thread = threading.Thread(target=lambda: seen.append(traced(PRODUCTS["@"])))
        thread.start()
        thread.join()
    assert seen == [[None]]
    with pytest.raises(ZeroDivisionError), tj.default_matmul_precision("high"):
        _ = 1 // 0
    assert traced(PRODUCTS["@"]) == [None]


def test_it_decorates_and_is_entered_within_functions() -> None:
    @tj.default_matmul_precision("high")
    def f(a: Any) -> Any:
        return a @ a

    def g(a: Any) -> Any:
        return f(a) @ f(a)

    assert traced(g) == [Precision.HIGH, Precision.HIGH, None]
    assert traced(tj.grad(lambda a: tnp.sum(f(a)))) == [Precision.HIGH] * 3
    np.testing.assert_allclose(np.asarray(tj.jit(g)(x)), x @ x @ x @ x, rtol=1e-4, atol=1e-5)


def test_programs_keep_it_and_are_not_changed_by_another_one() -> None:
    with tj.default_matmul_precision("high"):
        program = tj.make_jaxpr(PRODUCTS["matmul"])(x)
    with tj.default_matmul_precision("highest"):
        assert traced(lambda a: tj.eval_jaxpr(program.jaxpr, program.consts, a)) == [Precision.HIGH]


def test_what_is_no_precision_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="a precision is 'default', 'high' or 'highest'"):
        tj.default_matmul_precision("exact")


def test_precisions_are_written_as_jaxs() -> None:
    assert [str(one) for one in Precision] == [str(one) for one in jax.lax.Precision] == ["DEFAULT", "HIGH", "HIGHEST"]
    algorithms = lax.RandomAlgorithm, jax.lax.RandomAlgorithm  # which are written in the same way
    assert [str(one) for one in algorithms[0]] == [one.name for one in algorithms[1]] == list(map(str, algorithms[1]))
