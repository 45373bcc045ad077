"""Names of parts of programs: in sources, in StableHLO, in what XLA compiles; programs are equal without them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import lax
from tinyjax.errors import InputError

X = np.ones((2, 2))


def plain(x: Any) -> tj.Array:
    y = lax.fori_loop(0, 3, lambda i, c: 2.0 * c, x @ x)
    y = lax.cond(tnp.sum(y) > 0.0, tnp.sin, lambda y: y, y)
    return tnp.sum(tnp.sort(tnp.cumsum(y)))


def named(x: Any) -> tj.Array:
    with tj.named_scope("layer"):
        with tj.named_scope("product"):
            y = x @ x
        y = lax.fori_loop(0, 3, lambda i, c: 2.0 * c, y)
        y = lax.cond(tnp.sum(y) > 0.0, tnp.sin, lambda y: y, y)
    return tj.named_call(lambda y: tnp.sum(tnp.sort(tnp.cumsum(y))), name='"the" end')(y)


def scopes(f: Any, *args: object) -> dict[str, set[str]]:
    """The names of equations' parts, by primitive."""
    found: dict[str, set[str]] = {}
    for eqn in tj.make_jaxpr(f)(*args).eqns:
        assert eqn.source is not None
        found.setdefault(eqn.primitive.name, set()).add(eqn.source.scope)
    return found


def test_sources_have_names() -> None:
    found = scopes(named, X)
    assert found["dot_general"] == {"layer/product"}
    assert found["scan"] == found["cond"] == {"layer"}
    assert found["sort"] == {'"the" end'}
    assert set().union(*scopes(plain, X).values()) == {""}


@pytest.mark.parametrize("transformed", [tj.grad, tj.jacfwd, tj.vmap, lambda f: tj.vmap(tj.grad(f))])
def test_what_is_made_of_them_keeps_names(transformed: Any) -> None:
    x = np.ones((3, 2, 2)) if transformed not in (tj.grad, tj.jacfwd) else X
    assert scopes(transformed(named), x)["dot_general"] == {"layer/product"}
    (source,) = {str(eqn.source) for eqn in tj.make_jaxpr(tj.grad(named))(X).eqns if eqn.primitive.name == "transpose"}
    assert source.endswith("(named) in layer/product")


@pytest.mark.sweep
def test_names_change_no_program_and_no_result() -> None:
    assert tj.make_jaxpr(named)(X) == tj.make_jaxpr(plain)(X)
    for around in (lambda f: f, tj.jit, tj.value_and_grad, lambda f: tj.jit(tj.value_and_grad(f))):
        transformed: Any = around
        for x, y in zip(tj.tree.leaves(transformed(named)(X)), tj.tree.leaves(transformed(plain)(X)), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12)


def test_stablehlo_has_names() -> None:
    lowered = tj.jit(tj.value_and_grad(named)).lower(X)
    text = lowered.as_text()
    assert 'loc("layer/product/dot_general")' in text
    assert r'loc("\"the\" end/sort")' in text
    assert all(line.count(" loc(") <= 1 for line in text.splitlines())
    assert "layer/product/dot_general" in lowered.as_text(dialect="hlo") or lowered.compile() is not None
    assert " loc(" not in tj.jit(lambda x: plain(x) + 0.5).lower(X).as_text()


def test_a_scope_ends_with_its_block() -> None:
    def f(x: Any) -> Any:
        try:
            with tj.named_scope("failing"):
                raise ValueError
        except ValueError:
            pass
        return tnp.sin(x)

    assert scopes(f, X)["sin"] == {""}
    with tj.named_scope("outside"):
        assert scopes(tnp.sin, X)["sin"] == {""}
        np.testing.assert_array_equal(tnp.sin(X), np.sin(X))


def test_decorators() -> None:
    @tj.named_scope("inner")
    def inner(x: Any) -> tj.Array:
        return tnp.sin(x)

    @tj.named_call
    def outer(x: Any) -> tj.Array:
        return inner(inner(x))

    assert scopes(outer, X)["sin"] == {"outer/inner"}
    assert outer.__name__ == "outer"


def test_errors() -> None:
    name: Any = 3
    with pytest.raises(InputError, match="named_scope takes a name, got 3 of type int"), tj.named_scope(name):
        pass
    with pytest.raises(TypeError, match="named_call"):
        tj.named_call(name)
