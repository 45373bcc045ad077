"""Meshes with Explicit and Auto axes, and batches along Explicit ones: arrays lie as JAX's do."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
from tinyjax import NamedSharding, P, lax

X = np.arange(64.0, dtype=np.float32).reshape(8, 8)

#: What both libraries do to an array `x` of the library `m`; `spec` makes its specifications.
CASES: dict[str, Callable[[Any, Any, Any], Any]] = {  # Any: modules and arrays of two libraries
    "rows along an Auto axis": lambda m, spec, x: m.lax.with_sharding_constraint(x, spec("y")),
    "columns along an Auto axis": lambda m, spec, x: m.lax.with_sharding_constraint(x, spec(None, "y")),
    "computed on": lambda m, spec, x: m.numpy.sin(m.lax.with_sharding_constraint(x * 2, spec(None, "y"))) + 1,
    "twice": lambda m, spec, x: x * 2,
    "transposed": lambda m, spec, x: x.T,
    "sum": lambda m, spec, x: x.sum(0),
    "gradient": lambda m, spec, x: m.grad(lambda x: (x * x).sum())(x),
    "mapped": lambda m, spec, x: m.vmap(lambda row: row * 2)(x),
    "exp": lambda m, spec, x: m.numpy.exp(x),
    "constant of rows": lambda m, spec, x: m.vmap(lambda row: m.numpy.ones(3, "float32"))(x),
}


def both(parts: tuple[Any, ...], kinds: tuple[str, str]) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """An array of ours and one of jax's that lie so, with their meshes."""
    ours = tj.make_mesh((2, 4), ("x", "y"), tuple(tj.sharding.AxisType[kind] for kind in kinds))
    theirs = jax.make_mesh((2, 4), ("x", "y"), tuple(jax.sharding.AxisType[kind] for kind in kinds))
    x = tj.device_put(X, NamedSharding(ours, P(*parts)))
    y = jax.device_put(X, jax.sharding.NamedSharding(theirs, jax.P(*parts)))
    return (x, ours), (y, theirs)


def lies(x: Any, typeof: Callable[[Any], Any]) -> tuple[list[Any], str]:
    """How an array lies, without parts that say nothing, and what its type shows."""
    parts = list(getattr(x.sharding, "spec", ()))  # on one device nothing is divided
    while parts and parts[-1] is None:
        parts.pop()
    return parts, str(typeof(x)).replace("float32", "f32").replace("int32", "i32")


LAYOUTS: list[tuple[Any, ...]] = [("x", None), ("x", "y"), (("x", "y"), None), ("y", None), (None, "x")]


@pytest.mark.parametrize(
    ("name", "parts", "eager"),
    [
        (name, parts, eager)
        for name in CASES
        for parts in LAYOUTS
        for eager in (False, True)
        # An axis divides an array once, and JAX's single operations in derivatives lie as each of them likes.
        if not ("Auto" in name and "y" in str(parts)) and not (eager and name in ("gradient", "computed on"))
    ],
)
def test_as_jax(name: str, parts: tuple[Any, ...], eager: bool) -> None:
    f = CASES[name]
    same(*both(parts, ("Explicit", "Auto")), f, eager)


def same(ours: tuple[Any, Any], theirs: tuple[Any, Any], f: Callable[[Any, Any, Any], Any], eager: bool) -> None:
    """Both libraries' results have the same elements, and lie alike, unless JAX refuses it."""
    call: Any = partial(f, jax, jax.P)
    expected: list[Any] | None = None
    with jax.set_mesh(theirs[1]), suppress(TypeError, ValueError):
        expected = jax.tree.leaves((call if eager else jax.jit(call))(theirs[0]))
    whole = jax.tree.leaves(call(jax.numpy.asarray(X))) if expected is None else expected
    with tj.set_mesh(ours[1]):
        own: Any = partial(f, tj, P)
        found = tj.tree.leaves((own if eager else tj.jit(own))(ours[0]))
    for x, y in zip(found, whole, strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-6)
    if expected is not None:
        assert [lies(x, tj.typeof) for x in found] == [lies(x, jax.typeof) for x in expected]


def counted(m: Any, x: Any) -> Any:
    """A while loop, which begins at what is the same for each row."""
    return m.lax.while_loop(lambda c: (c < 30.0).all(), lambda c: c + x * x + 1, m.numpy.zeros(8, "float32"))


#: What they do to the rows of an array. It begins with what is the same for each row, or ends with it.
MAPPED: dict[str, Callable[[Any, Any], Any]] = {
    "constant": lambda m, x: m.numpy.ones(3, "float32"),
    "constant beside": lambda m, x: (x, m.numpy.ones(2, "float32")),
    "zeros like": lambda m, x: m.numpy.zeros_like(x),
    "scan": lambda m, x: m.lax.scan(lambda c, r: (c * 0.5 + r, c), m.numpy.zeros((), "float32"), x),
    "while": counted,
    "cond": lambda m, x: m.lax.cond(x.sum() > 3, lambda: m.numpy.ones(8, "float32"), lambda: x),
    "update": lambda m, x: m.lax.dynamic_update_slice(m.numpy.zeros(12, "float32"), x, (2,)),
    "element": lambda m, x: m.numpy.zeros(12, "float32").at[3].set(x[0]),
    "joined": lambda m, x: m.numpy.concatenate([x, m.numpy.ones(2, "float32")]),
    "product": lambda m, x: m.numpy.ones((3, 8), "float32") @ x,
}


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize(
    ("name", "parts", "into"),
    [
        (name, parts, into)
        for name in MAPPED
        for parts in [("x", None), ("x", "y")]
        for into in (0, 1)
        if parts[1 - into] is None or name not in ("update", "element", "joined", "product", "scan")  # whole rows
    ],
)
def test_batches_along_explicit_axes(name: str, parts: tuple[Any, ...], into: int, eager: bool) -> None:
    def f(m: Any, spec: Any, x: Any) -> Any:
        return m.vmap(partial(MAPPED[name], m), into)(x)

    same(*both(parts, ("Explicit", "Explicit")), f, eager)


def test_along_axes_and_further_as_xla_likes(tmp_path: Path) -> None:
    spec = P(("x", P.UNCONSTRAINED), None)
    assert spec == P(spec[0], None)
    assert repr(spec) == "P(('x', UNCONSTRAINED), None)"
    assert spec.names == ("x",)
    assert P((P.UNCONSTRAINED,)) == P(P.UNCONSTRAINED)
    (x, mesh), _ = both((("x", "y"), None), ("Auto", "Auto"))

    def f(x: tj.Array) -> tj.Array:
        return lax.with_sharding_constraint(x * 2.0, NamedSharding(mesh, spec))

    program = tj.make_jaxpr(f)(x).jaxpr
    assert tj.ir.parse(str(program)) == program
    tj.ir.save(tmp_path / "program", program)
    assert tj.ir.load(tmp_path / "program") == program
    assert lies(tj.jit(f)(x), tj.typeof)[0] == [("x", "y")]
    np.testing.assert_array_equal(f(tj.numpy.asarray(X)), 2.0 * X)
