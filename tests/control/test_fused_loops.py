"""Loops over what another loop has stacked become part of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import ir, lax
from tinyjax.api.make_jaxpr import eval_jaxpr
from tinyjax.control.fused_loops import computes_of_rows, fused
from tinyjax.control.scan import Scan
from tinyjax.ir.typecheck import typecheck

A, B = np.linspace(-1.0, 1.0, 27).reshape(9, 3), np.linspace(0.5, 1.5, 27).reshape(9, 3)


def loops(jaxpr: ir.Jaxpr) -> int:
    return sum(isinstance(eqn.primitive, Scan) for eqn in jaxpr.eqns)


def mapped(f: Callable[..., Any], *xs: Any, reverse: bool = False) -> Any:
    return lax.scan(lambda c, row: (c, f(*row)), None, xs, reverse=reverse)[1]


def summed(f: Callable[..., Any], *xs: Any, reverse: bool = False) -> tuple[Any, Any]:
    def body(carry: Any, row: Any) -> tuple[Any, Any]:
        total = carry + f(*row)
        return total, total

    carry, stack = lax.scan(body, tnp.zeros(3), xs, reverse=reverse)
    return carry, stack


def two_maps(a: Any, b: Any) -> Any:
    return mapped(lambda x, y: x - y, b, mapped(tnp.exp, a))


def map_of_sums_the_other_way(a: Any, b: Any) -> Any:
    _, stack = summed(tnp.sin, a, reverse=True)
    return mapped(lambda x, y: x * y, stack, b)


def sums_of_a_map(a: Any, b: Any) -> Any:
    return summed(lambda x, y: x * y, mapped(tnp.exp, a), b, reverse=True)


def chain(a: Any, b: Any) -> Any:
    x = mapped(tnp.exp, a)
    y = mapped(lambda u, v: u + v, x, b)
    return mapped(lambda u, v: u * v, y, x), tnp.sum(x)


def something_between(a: Any, b: Any) -> Any:
    x = mapped(tnp.exp, a)
    norm = tnp.sum(x)
    return mapped(lambda u, v: u * v, x, tnp.cos(b)), norm


@pytest.mark.parametrize("f", [two_maps, map_of_sums_the_other_way, sums_of_a_map, chain, something_between])
def test_loops_become_one(f: Callable[..., Any]) -> None:
    closed = tj.make_jaxpr(f)(A, B)
    result = fused(closed.jaxpr)
    typecheck(result)
    assert loops(closed.jaxpr) > loops(result) == 1
    for found, wanted in zip(eval_jaxpr(result, closed.consts, A, B), tj.tree.leaves(f(A, B)), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-14)


def test_a_stack_that_nobody_else_reads_is_gone() -> None:
    (eqn,) = fused(tj.make_jaxpr(two_maps)(A, B).jaxpr).eqns
    assert len(eqn.outvars) == 1


def test_a_stack_that_is_returned_stays() -> None:
    result = fused(tj.make_jaxpr(lambda a, b: (mapped(tnp.exp, a), two_maps(a, b)))(A, B).jaxpr)
    assert {out.aval.shape for out in result.outvars} == {(9, 3)}
    assert len(result.outvars) == 2


def two_ways(a: Any, b: Any) -> Any:
    _, stack = summed(tnp.sin, a)
    return summed(lambda x, y: x * y, stack, b, reverse=True)


def all_rows_needed(a: Any, b: Any) -> Any:
    x = mapped(tnp.exp, a)
    return mapped(lambda u: u / tnp.sum(x), x)


def rows_moved(a: Any, b: Any) -> Any:
    return mapped(lambda u, v: u * v, mapped(tnp.exp, a)[::-1], b)


def of_another_length(a: Any, b: Any) -> Any:
    return mapped(lambda u, v: u * v, mapped(tnp.exp, a)[1:], b[1:])


def said_between(a: Any, b: Any) -> Any:
    x = mapped(tnp.exp, a)
    tj.debug.print("{}", b[0, 0])
    return mapped(lambda u, v: u * v, x, b)


@pytest.mark.parametrize("f", [two_ways, all_rows_needed, rows_moved, of_another_length, said_between])
def test_others_stay_two(f: Callable[..., Any]) -> None:
    jaxpr = tj.make_jaxpr(f)(A, B).jaxpr
    assert loops(fused(jaxpr)) == loops(jaxpr) == 2


def test_loops_within_loops() -> None:
    def f(a: Any, b: Any) -> Any:
        return lax.fori_loop(0, 3, lambda _, x: two_maps(x, b), a)

    closed = tj.make_jaxpr(f)(A, B)
    result = fused(closed.jaxpr)
    assert [loops(inner) for inner in result.inner if loops(inner)] == [1]
    np.testing.assert_allclose(eval_jaxpr(result, closed.consts, A, B)[0], f(A, B), rtol=1e-14)


def backwards(a: Any, b: Any, update: Callable[[Any], Any]) -> Any:
    """A loop, one that goes back through its stacks, and what becomes of those of the latter."""
    _, kept = summed(tnp.sin, a)
    _, gradients = summed(lambda x, y: x * y, kept, b, reverse=True)
    return update(gradients)


def divided(a: Any, b: Any) -> Any:
    return mapped(lambda x: x / b, a)


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        (lambda g: g, False),
        (lambda g: [g[0], tnp.concatenate([g[:2], g[3:]]), g.T], False),
        (lambda g: g - 1.0, False),
        (lambda g: 2.0 * g[:-1], True),
        (lambda g: 2.0 * g[0], True),
        (lambda g: tnp.pad(g[::-1][1:], ((1, 0), (0, 0))), False),
        (lambda g: summed(tnp.sin, g)[1], False),
        (lambda g: lax.scan(lambda c, row: (tnp.sin(c + row), None), g[0], g[1:])[0], False),
        (lambda g: lax.scan(lambda c, row: (c + tnp.sum(row**2), row * 2.0), 0.0, g), True),
        (lambda g: mapped(tnp.exp, g), True),
        (lambda g: mapped(tnp.exp, g[1:]), True),
        (lambda g: divided(g, tnp.sum(g * g)), False),
        (lambda g: [g[i] / tnp.sum(tnp.concatenate([g.ravel(), g.ravel()])) for i in range(len(g))], False),
        (lambda g: sum(g[i, 0] for i in range(len(g))), False),
    ],
    ids=[
        *("as they are", "placed", "of a stack", "of some rows", "of a row"),
        *("placed the other way round", "another layers' loop", "one that begins with a row", "numbers are handed on"),
        *("a loop", "a loop over some"),
        *("a loop that waits for all", "rows that wait for all", "of numbers"),
    ],
)
def test_what_is_computed_of_a_backward_loops_rows(update: Callable[[Any], Any], expected: bool) -> None:
    jaxpr = tj.make_jaxpr(lambda a, b: backwards(a, b, update))(A, B).jaxpr
    assert computes_of_rows(jaxpr) is expected
    within = tj.make_jaxpr(tj.checkpoint(lambda a, b: backwards(a, b, update)))(A, B).jaxpr
    assert computes_of_rows(within) is expected
