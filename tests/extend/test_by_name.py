"""Primitives that are defined by name: one source for JAX's modules and for ours, and the same results."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.extend.core
import jax.interpreters.ad
import jax.interpreters.batching
import jax.interpreters.mlir
import jax.interpreters.xla
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax.errors import InputError, MissingRuleError, ParameterError, UnsupportedError
from tinyjax.extend.core import Primitive
from tinyjax.interpreters import ad, batching, mlir, xla

THEIRS = SimpleNamespace(
    jax=jax,
    np=jnp,
    Primitive=jax.extend.core.Primitive,
    ShapedArray=jax.core.ShapedArray,
    ad=jax.interpreters.ad,
    batching=jax.interpreters.batching,
    mlir=jax.interpreters.mlir,
    xla=jax.interpreters.xla,
)
OURS = SimpleNamespace(
    jax=tj,
    np=tnp,
    Primitive=Primitive,
    ShapedArray=tj.ShapedArray,
    ad=ad,
    batching=batching,
    mlir=mlir,
    xla=xla,
)
BOTH = pytest.mark.parametrize("j", [THEIRS, OURS], ids=["jax", "tinyjax"])
X, Y, Z = (np.array(x, "float32") for x in ([1.0, -2.0, 0.5], [0.3, 2.0, 1.5], [4.0, 5.0, 6.0]))


def weighted(j: SimpleNamespace) -> Any:
    """x * y * by + z, with rules that distinguish tangents that are zero, and transpose by the operand."""
    p: Any = j.Primitive("weighted")

    def impl(x: Any, y: Any, z: Any, *, by: float) -> Any:
        return np.asarray(x) * np.asarray(y) * np.asarray(by, "float32") + np.asarray(z)

    def types(x: Any, y: Any, z: Any, *, by: float) -> Any:
        assert x.shape == y.shape == z.shape
        return j.ShapedArray(x.shape, x.dtype)

    def jvp(primals: Any, tangents: Any, *, by: float) -> Any:
        x, y, z = primals
        tx, ty, tz = tangents

        def full(t: Any) -> Any:
            return j.np.zeros_like(x) if type(t) is j.ad.Zero else t

        first = p.bind(full(tx), y, full(tz), by=by)
        return p.bind(x, y, z, by=by), p.bind(x, full(ty), first, by=by)

    def transpose(ct: Any, x: Any, y: Any, z: Any, *, by: float) -> Any:
        zero = j.np.zeros(ct.shape, ct.dtype)
        if j.ad.is_undefined_primal(x):
            assert x.aval.shape == ct.shape
            return p.bind(ct, y, zero, by=by), None, ct if j.ad.is_undefined_primal(z) else None
        return None, p.bind(x, ct, zero, by=by), ct if j.ad.is_undefined_primal(z) else None

    def batch(args: Any, axes: Any, *, by: float) -> Any:
        size = next(a.shape[at] for a, at in zip(args, axes, strict=True) if at is not None)
        front = [j.batching.bdim_at_front(a, at, size) for a, at in zip(args, axes, strict=True)]
        return p.bind(*front, by=by), 0

    p.def_impl(impl)
    p.def_abstract_eval(types)
    j.ad.primitive_jvps[p] = jvp
    j.ad.primitive_transposes[p] = transpose
    j.batching.primitive_batchers[p] = batch
    j.mlir.register_lowering(p, j.mlir.lower_fun(lambda x, y, z, *, by: x * y * by + z, multiple_results=False))
    return lambda x, y, z: p.bind(x, y, z, by=2.0)


def results(j: SimpleNamespace) -> list[Any]:
    f, api = weighted(j), j.jax
    rows = np.stack([X, Y])

    def total(x: Any, y: Any, z: Any) -> Any:
        return j.np.sum(f(x, y, z) ** 2)

    return [
        f(X, Y, Z),
        api.jit(f)(X, Y, Z),
        api.jvp(f, (X, Y, Z), (Y, Z, X)),
        api.jvp(lambda x: f(x, Y, Z), (X,), (Y,)),
        api.grad(total, (0, 1, 2))(X, Y, Z),
        api.jit(api.grad(total, 2))(X, Y, Z),
        api.vmap(f, in_axes=(0, None, 0))(rows, Y, rows),
        api.jit(api.vmap(f, in_axes=(0, 1, None)))(rows, rows.T, Z),
        api.vmap(api.grad(total))(rows, rows, rows),
        api.jacfwd(api.grad(total))(X, Y, Z),
    ]


def same(found: Any, expected: Any) -> None:
    ours, theirs = jax.tree.leaves(found), jax.tree.leaves(expected)
    assert len(ours) == len(theirs)
    for x, y in zip(ours, theirs, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=2e-6, atol=1e-6)


@pytest.mark.sweep
def test_every_rule_as_in_jax() -> None:
    for found, expected in zip(results(OURS), results(THEIRS), strict=True):
        same(found, expected)


def short_cuts(j: SimpleNamespace) -> list[Any]:
    """What `defjvp`, `deflinear`, `defbilinear`, `defvectorized`, `defbroadcasting` make, and several results."""
    api = j.jax

    def defined(name: str, function: Any, several: bool = False) -> Any:
        p = j.Primitive(name)
        p.multiple_results = several
        p.def_impl(partial(j.xla.apply_primitive, p))

        def types(*avals: Any, **_: Any) -> Any:
            aval = j.ShapedArray(np.broadcast_shapes(*(a.shape for a in avals)), avals[0].dtype)
            return [aval] * 2 if several else aval

        p.def_abstract_eval(types)
        j.mlir.register_lowering(p, j.mlir.lower_fun(function, multiple_results=several))
        return p

    power = defined("power", lambda x, *, name: x**name)
    j.ad.defjvp(power, lambda t, x, *, name: t * name * x ** (name - 1))
    j.batching.defvectorized(power)
    half = defined("half", lambda x: x / 2)
    j.ad.deflinear(half, lambda ct: [half.bind(ct)])
    j.batching.defvectorized(half)
    product = defined("product", lambda x, y: x * y)
    j.ad.defbilinear(product, lambda ct, x, y: product.bind(ct, y), lambda ct, x, y: product.bind(x, ct))
    j.batching.defbroadcasting(product)
    both = defined("both", lambda x: [x + 1, x * x], several=True)
    j.batching.primitive_batchers[both] = lambda args, axes: (both.bind(*args), [axes[0]] * 2)

    def jvp(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        return both.bind(x), [t, 2 * x * t]

    j.ad.primitive_jvps[both] = jvp

    def f(x: Any, y: Any) -> Any:
        a, b = both.bind(product.bind(half.bind(x), y))
        return j.np.sum(power.bind(a, name=3) * b)

    rows = np.stack([X, Z])
    return [
        f(X, Y),
        api.jit(f)(X, Y),
        api.grad(f, (0, 1))(X, Y),
        api.vmap(f, in_axes=(0, None))(rows, Y),
        api.jit(api.vmap(api.grad(f), in_axes=(0, None)))(rows, Y),
        api.hessian(f)(X, Y),
        api.vmap(product.bind, in_axes=(1, None))(rows.T[:, :, None] * Y, Y),
    ]


@pytest.mark.sweep
def test_short_cuts_as_in_jax() -> None:
    for found, expected in zip(short_cuts(OURS), short_cuts(THEIRS), strict=True):
        same(found, expected)


def test_programs_hold_it_by_name() -> None:
    program = tj.make_jaxpr(weighted(OURS))(X, Y, Z)
    (eqn,) = program.eqns
    assert (eqn.primitive.name, dict(eqn.params)) == ("weighted", {"by": 2.0})
    assert isinstance(eqn.primitive, Primitive)
    assert isinstance(tj.make_jaxpr(tnp.sin)(1.0).eqns[0].primitive, Primitive)
    assert not isinstance(1, Primitive)
    p = Primitive("f")
    p.def_abstract_eval(lambda x, **_: x)
    one, other = (tj.make_jaxpr(lambda x, n=n: p.bind(x, n=n))(X) for n in (1, 2))
    assert one == tj.make_jaxpr(lambda x: p.bind(x, n=1))(X) != other
    q = Primitive("f")
    q.def_abstract_eval(lambda x, **_: x)
    assert one != tj.make_jaxpr(lambda x: q.bind(x, n=1))(X), "another definition of the same name"


@BOTH
def test_what_is_missing_is_said_when_it_is_needed(j: SimpleNamespace) -> None:
    p = j.Primitive("nothing")
    with pytest.raises(NotImplementedError, match="Evaluation rule for 'nothing'"):
        p.bind(X)
    p.def_impl(lambda x: x)
    p.def_abstract_eval(lambda x: j.ShapedArray(x.shape, x.dtype))
    for transformed in (
        j.jax.jit(p.bind),
        j.jax.grad(lambda x: p.bind(x).sum()),
        j.jax.vmap(p.bind),
    ):
        with pytest.raises(NotImplementedError, match="nothing"):
            transformed(X)


def test_errors_say_what_to_set() -> None:
    p = Primitive("nothing")
    with pytest.raises(MissingRuleError, match="call its `def_impl`"):
        p.bind(X)
    p.def_impl(lambda x, *_, **__: x)
    p.def_abstract_eval(lambda x, *_, **__: x)
    with pytest.raises(MissingRuleError, match=r"entry of `interpreters.ad.primitive_jvps`"):
        tj.grad(lambda x: tnp.sum(p.bind(x)))(X)
    with pytest.raises(MissingRuleError, match=r"interpreters.batching.primitive_batchers"):
        tj.vmap(p.bind)(X)
    with pytest.raises(ParameterError, match="parameter 'sizes' of primitive 'nothing'"):
        tj.jit(lambda x: p.bind(x, sizes=[1, 2]))(X)
    rule: Any = lambda ctx, x: [x]  # noqa: E731
    with pytest.raises(UnsupportedError, match=r"mlir.lower_fun"):
        mlir.register_lowering(p, rule)
    of_a_class: Any = tj.make_jaxpr(tnp.sin)(1.0).eqns[0].primitive
    with pytest.raises(InputError, match="has its rules in its class"):
        ad.primitive_jvps[of_a_class] = rule
    with pytest.raises(InputError, match="is a class's"):
        mlir.register_lowering(of_a_class, mlir.lower_fun(np.sin))
    batching.defvectorized(p)
    with pytest.raises(InputError, match="defbroadcasting"):
        tj.vmap(p.bind, in_axes=(0, None))(X, 1.0)


def test_lowering_by_platform_and_without_an_implementation() -> None:
    p = Primitive("placed")
    p.def_abstract_eval(lambda x: tj.ShapedArray(x.shape, x.dtype))
    mlir.register_lowering(p, mlir.lower_fun(lambda x: x + 1, multiple_results=False))
    mlir.register_lowering(p, mlir.lower_fun(lambda x: x - 1, multiple_results=False), platform="cuda")
    assert tj.jit(p.bind)(X).tolist() == (X + 1).tolist()
    assert p.bind(X).tolist() == (X + 1).tolist()
    text = tj.hlo.lower(tj.make_jaxpr(p.bind)(X), platform="cuda")
    assert "subtract" in text
    assert "stablehlo.add" not in text
