"""`custom_vjp` against jax: values and derivatives in all nestings, on the fly and staged; and its errors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from types import ModuleType
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.api.families import TRANSFORMATIONS
from tests.api.matching import assert_matches
from tinyjax import ir, lax
from tinyjax.api.rules.custom_vjp import CustomVjpFunction
from tinyjax.control.custom_derivatives import CustomVjp, MappedCustom
from tinyjax.control.custom_linear import CustomLin
from tinyjax.errors import (
    ConcretizationError,
    ForwardModeError,
    InputError,
    MissingRuleError,
    StaticArgumentError,
    TreeError,
)

Make = Callable[[ModuleType, ModuleType], Callable[..., Any]]


def clipping(lib: ModuleType, xp: ModuleType) -> Callable[..., Any]:
    """jax's documented example: the identity, which clips gradients."""

    def clip_gradient_of(lo: Any, hi: Any, x: Any) -> Any:
        return x

    clip_gradient = lib.custom_vjp(clip_gradient_of)

    clip_gradient.defvjp(lambda lo, hi, x: (x, (lo, hi)), lambda res, g: (None, None, xp.clip(g, res[0], res[1])))
    return lambda x: xp.sin(clip_gradient(-0.5, 0.75, x) * 2.0)


def marked(lib: ModuleType, xp: ModuleType) -> Callable[..., Any]:
    """A gradient that no program of the function itself has, of two arguments; the rules call the function."""

    def f_of(x: Any, y: Any) -> Any:
        return xp.sin(x) * y

    f = lib.custom_vjp(f_of)

    f.defvjp(
        lambda x, y: (f(x, y), (xp.cos(x), xp.sin(x), y)),
        lambda res, g: (3.0 * res[0] * g * res[2], 2.0 * res[1] * g),
    )
    return lambda x: f(2.0 * x, x + 1.0) * x


def two_results(lib: ModuleType, xp: ModuleType) -> Callable[..., Any]:
    def f_of(p: Any) -> Any:
        return {"y": p["x"] * p["w"], "z": xp.exp(p["x"])}

    f = lib.custom_vjp(f_of)

    def fwd(p: Any) -> Any:
        return f(p), p

    def bwd(p: Any, g: Any) -> Any:
        return ({"x": g["y"] * p["w"] + 2.0 * g["z"], "w": g["y"] * xp.cos(p["x"])},)

    f.defvjp(fwd, bwd)
    return lambda x: f({"x": x, "w": x * x})["y"] + f({"x": x, "w": 2.0})["z"]


def closing_over(lib: ModuleType, xp: ModuleType) -> Callable[..., Any]:
    """The function and its rules close over a value that depends on the argument, but not differentiably."""

    def g(x: Any) -> Any:
        factor = lib.lax.stop_gradient(xp.exp(x))

        def f_of(y: Any) -> Any:
            return factor * y

        f = lib.custom_vjp(f_of)

        f.defvjp(lambda y: (factor * y, y), lambda y, ct: (3.0 * factor * y * ct,))
        return f(x) * x

    return g


FUNCTIONS: Final[dict[str, Make]] = {f.__name__: f for f in (clipping, marked, two_results, closing_over)}
REVERSE: Final = {name: both for name, both in TRANSFORMATIONS.items() if name not in ("jvp", "linearize")}
SINGLES = [(), *product(REVERSE, repeat=1)]
PAIRS = list(product(REVERSE, repeat=2))
TRIPLES = list(product(REVERSE, repeat=3))
POINT = 0.7


@pytest.mark.parametrize("names", SINGLES, ids=".".join)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_singles(function: str, names: tuple[str, ...]) -> None:
    check(function, names)


@pytest.mark.parametrize("names", PAIRS, ids=".".join)
@pytest.mark.parametrize("function", ["closing_over", "two_results"])
def test_pairs(function: str, names: tuple[str, ...]) -> None:
    check(function, names)


@pytest.mark.parametrize("names", TRIPLES, ids=".".join)
@pytest.mark.sweep
def test_triples(names: tuple[str, ...]) -> None:
    check("marked", names)


def check(function: str, names: tuple[str, ...]) -> None:
    ours, theirs = FUNCTIONS[function](tj, tnp), FUNCTIONS[function](jax, jnp)
    for name in reversed(names):
        our_transformation, their_transformation = REVERSE[name]
        ours = our_transformation(ours)
        if name != "jit" or function != "closing_over":  # jax itself can't differentiate that one under jit
            theirs = their_transformation(theirs)
    if function == "closing_over" and "vmap" in names:
        expected = None  # nor under vmap; what is staged must agree with what runs on the fly
    else:
        expected = theirs(jnp.asarray(POINT))
    point = tnp.asarray(np.float64(POINT))
    found = ours(point)
    closed = tj.make_jaxpr(ours)(point)
    ir.typecheck(closed)
    np.testing.assert_allclose(tj.eval_jaxpr(closed, (), point)[0], found, rtol=1e-9, atol=1e-9)
    if expected is not None:
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: tj.jvp(f, (1.0,), (1.0,)),
        lambda f: tj.jvp(tj.jit(f), (1.0,), (1.0,)),
        lambda f: tj.jit(lambda x: tj.jvp(f, (x,), (1.0,)))(1.0),
        lambda f: tj.linearize(f, 1.0)[1](1.0),
        lambda f: tj.jvp(tj.vmap(f), (np.ones(3),), (np.ones(3),)),
        lambda f: tj.vmap(lambda x: tj.jvp(f, (x,), (1.0,)))(np.ones(3)),
        lambda f: tj.jvp(tj.vmap(tj.jit(f)), (np.ones(3),), (np.ones(3),)),
        lambda f: tj.jvp(lambda x: tj.jvp(f, (x,), (1.0,))[1], (1.0,), (1.0,)),
        lambda f: tj.grad(lambda x: tj.jvp(f, (x,), (1.0,))[1])(1.0),
        lambda f: tj.jacfwd(f)(1.0),
    ],
)
def test_forward_mode(transform: Callable[[Callable[..., Any]], object]) -> None:
    message = r"can't apply forward-mode differentiation \(jvp\) to a custom_vjp function: the rule of 'f'"
    with pytest.raises(ForwardModeError, match=message):
        transform(marked_of_one())


def marked_of_one() -> CustomVjpFunction[[Any], Any]:
    @tj.custom_vjp
    def f(x: Any) -> Any:
        return tnp.sin(x)

    f.defvjp(lambda x: (f(x), x), lambda x, g: (5.0 * g * x * x,))
    return f


def test_forward_over_reverse() -> None:
    f = marked_of_one()
    # As jax does, it follows fwd: where that applies f itself, forward mode has to give up.
    with pytest.raises(ForwardModeError):
        tj.jvp(tj.grad(f), (3.0,), (1.0,))
    f.defvjp(lambda x: (tnp.sin(x), x), lambda x, g: (5.0 * g * x * x,))
    np.testing.assert_allclose(tj.jvp(tj.grad(f), (3.0,), (1.0,))[1], 30.0)
    np.testing.assert_allclose(tj.hessian(f)(3.0), 30.0)
    np.testing.assert_allclose(tj.jvp(tj.grad(tj.jit(f)), (3.0,), (1.0,))[1], 30.0)


def test_python_control_flow() -> None:
    """Known values can be branched on in the function, in fwd, and of the residuals in bwd."""

    @tj.custom_vjp
    def f(x: Any) -> Any:
        return x * x if x > 0 else -x

    def fwd(x: Any) -> tuple[Any, Any]:
        return (f(x), x) if x > 0 else (f(x), -x)

    def bwd(x: Any, ct: Any) -> tuple[Any]:
        return (10.0 * ct * x,) if 2.0 * x > 4.0 else (ct,)

    f.defvjp(fwd, bwd)
    gradients = [float(tj.grad(f)(x)) for x in (3.0, 1.0, -1.0, -3.0)]
    assert gradients == [30.0, 1.0, 1.0, 30.0]
    assert float(tj.grad(tj.grad(f))(3.0)) == 10.0
    with pytest.raises(ConcretizationError):
        tj.jit(tj.grad(f))(3.0)

    def branches_on_cotangent(x: Any, ct: Any) -> tuple[Any]:
        return (ct,) if ct > 0 else (x,)

    f.defvjp(lambda x: (x, x), branches_on_cotangent)
    with pytest.raises(ConcretizationError, match="traced by custom_vjp of f"):
        tj.grad(f)(3.0)


def test_bwd_is_staged_whole() -> None:
    """What bwd computes of residuals alone isn't computed, and kept, before it is needed."""

    @tj.custom_vjp
    def f(x: Any) -> Any:
        return tnp.sum(x)

    def bwd(x: Any, ct: Any) -> tuple[Any]:
        return (tnp.exp(tnp.outer(x, x)) @ x * ct,)

    f.defvjp(lambda x: (f(x), x), bwd)
    for g in (f, tj.jit(f)):
        (residual,) = tj.saved_residuals(g, np.arange(3.0))
        assert residual.aval.shape == (3,)
    _, pull_back = tj.vjp(f, np.arange(3.0))
    np.testing.assert_allclose(
        pull_back(2.0)[0], 2.0 * np.exp(np.outer(np.arange(3.0), np.arange(3.0))) @ np.arange(3.0)
    )


def test_program() -> None:
    (eqn,) = tj.make_jaxpr(marked_of_one())(1.0).eqns
    primitive = eqn.primitive
    assert isinstance(primitive, CustomVjp)
    assert set(primitive.rules) == {"fwd_jaxpr", "bwd_jaxpr"}
    first, second = (tj.make_jaxpr(marked_of_one())(1.0) for _ in range(2))
    assert first == second
    assert ir.content_hash(first) == ir.content_hash(second)
    (eqn,) = tj.make_jaxpr(tj.vmap(marked_of_one()))(np.arange(3.0)).eqns
    assert isinstance(eqn.primitive, MappedCustom)
    parts = tj.transforms.linearize(tj.make_jaxpr(marked_of_one())(1.0).jaxpr)
    (eqn,) = parts.linear.eqns
    assert isinstance(eqn.primitive, CustomLin)
    ir.typecheck(parts.linear)
    ir.typecheck(tj.transforms.transpose(parts.linear, [False, True]).jaxpr)


def test_linear_part_over_a_batch() -> None:
    """The linear program of one example, transposed over a batch: also where only some operands are mapped."""

    @tj.custom_vjp
    def f(x: Any, w: Any) -> Any:
        return x * w

    f.defvjp(lambda x, w: (x * w, (x, w)), lambda res, g: (2.0 * g * res[1], 3.0 * g * res[0]))

    def loss(w: Any, xs: Any) -> Any:
        return tnp.sum(tj.vmap(f, (0, None))(xs, w))

    xs = np.arange(1.0, 4.0)
    for g in (loss, tj.jit(loss)):
        np.testing.assert_allclose(tj.grad(g)(2.0, xs), 3.0 * xs.sum())
        np.testing.assert_allclose(tj.grad(g, 1)(2.0, xs), np.full(3, 4.0))
        np.testing.assert_allclose(tj.vmap(tj.grad(g), (0, None))(np.ones(2), xs), np.full(2, 3.0 * xs.sum()))

    def staged(w: Any) -> Any:
        return tj.vmap(tj.jit(lambda x: tj.vjp(lambda v: f(x, v), w)[1](1.0)[0]))(xs)

    np.testing.assert_allclose(staged(tnp.asarray(2.0)), 3.0 * xs)


@pytest.mark.sweep
def test_fixed_point() -> None:
    """jax's documented example of implicit differentiation: bwd solves with the function itself, for another f."""

    def make(lib: ModuleType, xp: ModuleType) -> Callable[..., Any]:
        def fixed_point_of(f: Callable[..., Any], a: Any, guess: Any) -> Any:
            def body(pair: Any) -> Any:
                return pair[1], f(a, pair[1])

            return lib.lax.while_loop(lambda pair: xp.abs(pair[0] - pair[1]) > 1e-12, body, (guess, f(a, guess)))[1]

        fixed_point = lib.custom_vjp(fixed_point_of, nondiff_argnums=(0,))

        def fwd(f: Callable[..., Any], a: Any, guess: Any) -> Any:
            x = fixed_point(f, a, guess)
            return x, (a, x)

        def bwd(f: Callable[..., Any], residuals: Any, ct: Any) -> Any:
            a, x = residuals
            _, by_a = lib.vjp(lambda a: f(a, x), a)
            return *by_a(fixed_point(partial(backwards, f), (a, x, ct), ct)), xp.zeros_like(x)

        def backwards(f: Callable[..., Any], point: Any, u: Any) -> Any:
            a, x, ct = point
            _, by_x = lib.vjp(lambda x: f(a, x), x)
            return ct + by_x(u)[0]

        fixed_point.defvjp(fwd, bwd)
        return lambda a: fixed_point(lambda a, x: 0.5 * (x + a / x), a, a)

    ours, theirs = make(tj, tnp), make(jax, jnp)
    transforms: list[Callable[[Any, Any], Callable[..., Any]]] = [
        lambda lib, f: f,
        lambda lib, f: lib.grad(f),
        lambda lib, f: lib.jit(lib.grad(f)),
        lambda lib, f: lib.grad(lib.jit(f)),
        lambda lib, f: lib.grad(lib.grad(f)),
    ]
    for transform in transforms:
        np.testing.assert_allclose(transform(tj, ours)(2.0), transform(jax, theirs)(2.0), rtol=1e-9)
    xs = np.arange(1.0, 4.0)
    np.testing.assert_allclose(tj.vmap(tj.grad(ours))(xs), 0.5 / np.sqrt(xs), rtol=1e-9)


def test_named_axes_in_rules() -> None:
    def make(lib: ModuleType) -> Callable[..., Any]:
        def f_of(x: Any) -> Any:
            return x * 2.0

        f = lib.custom_vjp(f_of)

        f.defvjp(lambda x: (x * 2.0, x), lambda x, g: (lib.lax.psum(g * x, "i"),))
        mapped: Callable[..., Any] = lib.vmap(lib.grad(f), axis_name="i")
        return mapped

    x = np.arange(3.0)
    np.testing.assert_allclose(make(tj)(x), make(jax)(x))


def test_nondiff_argnums() -> None:
    @tj.custom_vjp(nondiff_argnums=(0,))
    def apply(f: Callable[[Any], Any], x: Any) -> Any:
        return f(x)

    apply.defvjp(lambda f, x: (f(x), x), lambda f, x, g: (100.0 * f(x) * g,))
    for g in (tj.grad(apply, 1), tj.jit(tj.grad(apply, 1), static_argnums=0)):
        np.testing.assert_allclose(g(tnp.exp, 0.0), 100.0)
    np.testing.assert_allclose(tj.grad(tj.jit(lambda x: apply(tnp.exp, x)))(0.0), 100.0)


@pytest.mark.parametrize("jit", [False, True])
def test_integers(jit: bool) -> None:
    def make(lib: ModuleType) -> Callable[..., Any]:
        def f_of(x: Any, n: Any) -> Any:
            return x * n, n

        f = lib.custom_vjp(f_of)

        f.defvjp(lambda x, n: (f(x, n), n), lambda n, g: (5.0 * g[0] * n, None))
        function = lib.jit(f) if jit else f
        return lambda x, n: function(x, n)[0]

    assert_matches(tj.grad(make(tj))(2.0, 3), jax.grad(make(jax))(2.0, 3))
    assert_matches(
        tj.grad(make(tj), (0, 1), allow_int=True)(2.0, 3), jax.grad(make(jax), (0, 1), allow_int=True)(2.0, 3)
    )


def test_differentiating_with_respect_to_a_closed_over_value() -> None:
    def outer(a: Any, x: Any) -> Any:
        @tj.custom_vjp
        def f(x: Any) -> Any:
            return a * x

        f.defvjp(lambda x: (a * x, None), lambda _, ct: (a * ct * 10.0,))
        return f(x)

    for f in (outer, tj.jit(outer)):
        np.testing.assert_allclose(tj.grad(f, 1)(2.0, 3.0), 20.0)
        np.testing.assert_allclose(tj.vmap(tj.grad(f, 1))(np.arange(3.0), np.ones(3)), [0.0, 10.0, 20.0])
        with pytest.raises(InputError, match="Pass the value to 'f' as an argument"):
            tj.grad(f)(2.0, 3.0)


# Errors.


def rules(fwd: Callable[..., object], bwd: Callable[..., object]) -> Callable[..., Any]:
    @tj.custom_vjp
    def f(x: Any, y: Any) -> Any:
        return x

    f.defvjp(fwd, bwd)
    return f


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize(
    ("fwd", "bwd", "error", "message"),
    [
        (lambda x, y: x, None, InputError, "must return a pair of the results and residuals, got"),
        (lambda x, y: (x, "text"), None, InputError, "the fwd rule .* of custom_vjp function f residual: "),
        (None, lambda _, g: g, InputError, "must return a tuple of length 2.*got Tracer"),
        (None, lambda _, g: (g,), InputError, "got one of length 1"),
        (None, lambda _, g: (g, g, g), InputError, "got one of length 3"),
        (None, lambda _, g: ((g,), g), TreeError, "(?s)with the structure of the arguments.*the cotangents: "),
        (
            None,
            lambda _, g: (g[:1], g),
            InputError,
            r"the cotangent of argument x must have type f64\[3\].*got f64\[1\]",
        ),
        (None, lambda _, g: (g * 1j, g), InputError, r"argument x must have type f64\[3\].*got c128\[3\]"),
    ],
)
def test_rules_that_do_not_fit(
    jit: bool,
    fwd: Callable[..., object] | None,
    bwd: Callable[..., object] | None,
    error: type[Exception],
    message: str,
) -> None:
    f = rules(fwd or (lambda x, y: (x, None)), bwd or (lambda _, g: (g, g)))
    with pytest.raises(error, match=message) as info:
        tj.vjp(tj.jit(f) if jit else f, np.ones(3), np.ones(3))[1](np.ones(3))
    rule = fwd or bwd
    assert rule is not None
    assert f"The rule <lambda> is at {__file__}:{rule.__code__.co_firstlineno}." in info.value.__notes__


def test_missing_rule() -> None:
    with pytest.raises(MissingRuleError, match="No VJP defined for custom_vjp function <lambda> using defvjp"):
        tj.custom_vjp(lambda x: x)(1.0)


def symbolic(lib: ModuleType, xp: ModuleType, log: list[object]) -> Callable[..., Any]:
    """A function whose rule notes what is zero."""
    zero: type = tj.SymbolicZero if lib is tj else jax.custom_derivatives.SymbolicZero

    def function(x: Any, y: Any, n: Any) -> Any:
        return xp.sin(x) * y, x * y * n

    f: Any = lib.custom_vjp(function)

    def fwd(x: Any, y: Any, n: Any) -> Any:
        log.append((x.perturbed, y.perturbed, n.perturbed))
        x, y, n = x.value, y.value, n.value
        return (xp.sin(x) * y, x * y * n), (x, y, n)

    def bwd(residuals: Any, cts: Any) -> Any:
        x, y, n = residuals
        first, second = (isinstance(ct, zero) for ct in cts)
        assert not (first and second)
        gx = (0.0 if first else cts[0] * xp.cos(x) * y) + (0.0 if second else cts[1] * y * n)
        # Marked, so that it shows which case was taken.
        return gx + (100.0 if first else 0.0) + (1000.0 if second else 0.0), None if second else cts[1] * x * n, None

    f.defvjp(fwd, bwd, symbolic_zeros=True)
    found: Callable[..., Any] = f
    return found


@pytest.mark.parametrize(
    ("name", "of"),
    [
        ("both", lambda f: lambda x: sum(f(x, 2.0, 3))),
        ("first", lambda f: lambda x: f(x, 2.0, 3)[0]),
        ("second", lambda f: lambda x: f(x, 2.0, 3)[1]),
        ("y", lambda f: lambda y: f(2.0, y, 3)[1]),
    ],
)
def test_symbolic_zeros(name: str, of: Callable[..., Callable[..., Any]]) -> None:
    ours: list[object] = []
    theirs: list[object] = []
    f, g = symbolic(tj, tnp, ours), symbolic(jax, jnp, theirs)
    np.testing.assert_allclose(tj.grad(of(f))(1.5), jax.grad(of(g))(1.5), rtol=1e-9)
    assert ours == theirs
    xs = np.array([1.0, 2.0])
    np.testing.assert_allclose(tj.vmap(tj.grad(of(f)))(xs), jax.vmap(jax.grad(of(g)))(xs), rtol=1e-9)
    np.testing.assert_allclose(tj.jit(tj.grad(of(f)))(1.5), jax.jit(jax.grad(of(g)))(1.5), rtol=1e-6)


def test_symbolic_zeros_in_programs() -> None:
    log: list[object] = []
    f = symbolic(tj, tnp, log)
    program = tj.make_jaxpr(lambda x: f(x, 2.0, 3)[0])(1.5)
    asked = {entry for entry in log if isinstance(entry, tuple) and len(entry) == 3}
    assert asked == {(True, True, False), (True, False, False), (False, True, False)}  # a program has rules for each
    derived = tj.eval_jaxpr(program, (), 1.5)
    np.testing.assert_allclose(derived[0], np.sin(1.5) * 2.0)
    slope = tj.grad(lambda x: tj.eval_jaxpr(program, (), x)[0])(1.5)
    np.testing.assert_allclose(slope, tj.grad(lambda x: f(x, 2.0, 3)[0])(1.5), rtol=1e-9)


def test_arguments_by_name_outside_of_differentiation() -> None:
    def make(lib: ModuleType, xp: ModuleType) -> tuple[Callable[..., Any], Callable[..., Any]]:
        f = lib.custom_vjp(lambda x, k, g: g(x) ** k, nondiff_argnames=("k", "g"))
        f.defvjp(lambda x, k, g: (g(x) ** k, x), lambda k, g, x, ct: (ct * k * g(x) * 7.0,))
        h = lib.custom_jvp(lambda x, k, g: g(x) ** k, nondiff_argnums=(2,), nondiff_argnames="k")
        h.defjvp(lambda k, g, primals, tangents: (h(primals[0], k, g), 7.0 * k * tangents[0]))
        return f, h

    for ours, theirs in zip(make(tj, tnp), make(jax, jnp), strict=True):
        np.testing.assert_allclose(tj.grad(ours)(2.0, 3, tnp.sin), jax.grad(theirs)(2.0, 3, jnp.sin), rtol=1e-9)
        got = tj.jit(tj.grad(lambda x, f=ours: f(x, g=tnp.sin, k=2)))(1.0)
        np.testing.assert_allclose(got, jax.grad(lambda x, f=theirs: f(x, g=jnp.sin, k=2))(1.0), rtol=1e-6)
    with pytest.raises(StaticArgumentError, match="no argument 'z', which is marked outside of differentiation"):
        tj.custom_jvp(lambda x: x, nondiff_argnames="z")


@pytest.mark.parametrize("jitted", [False, True])
def test_cotangents_of_integers_are_whatever_the_rule_returns(jitted: bool) -> None:
    for zero in (1, np.int64(0), tnp.zeros((), tj.float0), None):

        @tj.custom_vjp
        def f(x: Any, n: Any) -> Any:
            return x * n

        f.defvjp(lambda x, n: (x * n, n), lambda n, ct, zero=zero: (10.0 * n * ct, zero))
        g = tj.jit(f) if jitted else f
        assert float(tj.grad(lambda x, g=g: g(x, 3))(2.0)) == 30.0


def _returning(lib: Any, numpy: Any, dtype: str) -> Callable[..., Any]:
    f: Any = lib.custom_vjp(numpy.sin)
    f.defvjp(lambda x: (f(x), x), lambda x, ct: ((ct * numpy.cos(x)).real.astype(dtype),))
    return lambda x: f(x).real


@pytest.mark.sweep
@pytest.mark.parametrize("returned", ["bool", "int32", "bfloat16", "float16", "float32", "float64"])
@pytest.mark.parametrize("of", ["float16", "float32", "float64", "complex64"])
def test_cotangents_of_another_dtype_are_converted(of: str, returned: str) -> None:
    """JAX's gradient has the dtype that the rule returns, and the rest of a program refuses it. Here it is that of the
    argument."""
    x = np.asarray(0.5, of)
    expected = np.asarray(jax.grad(_returning(jax, jnp, returned))(x)).astype(of)
    f = _returning(tj, tnp, returned)
    for derived in (tj.grad(f), tj.jit(tj.grad(f)), tj.grad(tj.jit(f)), tj.grad(tj.checkpoint(f))):
        assert_matches(derived(x), expected, 0.02)
    assert_matches(tj.vmap(tj.grad(f))(x[None])[0], expected, 0.02)
    assert_matches(tj.grad(lambda x: f(x) + f(x))(x), expected + expected, 0.02)
    loop = tj.grad(lambda x: lax.scan(lambda c, _: (f(c).astype(of), None), x, None, 2)[0].real)
    assert loop(x).dtype == of


def test_a_rule_without_cotangents_is_not_run() -> None:
    @tj.custom_vjp
    def f(x: Any, y: Any) -> None:
        return None

    def bwd(residuals: Any, ct: Any) -> Any:
        raise AssertionError("there is nothing to differentiate")

    f.defvjp(lambda x, y: (None, y), bwd)

    def step(x: Any, _: Any) -> Any:
        _, pull = tj.vjp(tj.vmap(f, in_axes=(0, None), out_axes=None), x, tnp.zeros(1))
        return x + pull(None)[0], None

    np.testing.assert_array_equal(lax.scan(step, tnp.ones(5), None, 10)[0], np.ones(5))
