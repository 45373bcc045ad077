"""`custom_jvp` against jax: values and derivatives in all nestings, on the fly and staged; and its errors."""

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
from tinyjax import ir
from tinyjax.control.custom_derivatives import CustomJvp, MappedCustom
from tinyjax.control.recursion import Enclosing
from tinyjax.errors import ConcretizationError, InputError, MissingRuleError, TreeError

# Functions written once: given the library and its numpy.
Make = Callable[[ModuleType, ModuleType], Callable[..., Any]]


def log1pexp(lib: ModuleType, xp: ModuleType) -> Callable[..., Any]:
    def f_of(x: Any) -> Any:
        return xp.log(1.0 + xp.exp(x))

    f = lib.custom_jvp(f_of)

    def rule(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        return f(x), (1.0 - 1.0 / (1.0 + xp.exp(x))) * t

    f.defjvp(rule)
    function: Callable[..., Any] = f
    return function


def marked(lib: ModuleType, xp: ModuleType) -> Callable[..., Any]:
    """A derivative that no program of the function itself has; the rule doesn't call the function."""

    def f_of(x: Any) -> Any:
        return xp.sin(x)

    f = lib.custom_jvp(f_of)

    f.defjvp(lambda p, t: (xp.sin(p[0]), 3.0 * xp.cos(p[0]) * t[0]))
    return lambda x: f(2.0 * x) * x


def per_argument(lib: ModuleType, xp: ModuleType) -> Callable[..., Any]:
    def f_of(x: Any, y: Any) -> Any:
        return xp.sin(x) * y

    f = lib.custom_jvp(f_of)

    f.defjvps(lambda t, out, x, y: xp.cos(x) * t * y * 2.0, lambda t, out, x, y: xp.sin(x) * t)
    return lambda x: f(x, x + 1.0)


def closing_over(lib: ModuleType, xp: ModuleType) -> Callable[..., Any]:
    """Both the function and its rule close over a value that depends on the argument, but not differentiably."""

    def g(x: Any) -> Any:
        factor = lib.lax.stop_gradient(xp.exp(x))

        def f_of(y: Any) -> Any:
            return factor * y

        f = lib.custom_jvp(f_of)

        f.defjvp(lambda p, t: (factor * p[0], 3.0 * factor * t[0] * p[0]))
        return f(x) * x

    return g


def calling_another(lib: ModuleType, xp: ModuleType) -> Callable[..., Any]:
    """Two functions whose rules refer to each other, one of them through jit."""

    def sine_of(x: Any) -> Any:
        return xp.sin(x)

    sine = lib.custom_jvp(sine_of)

    def cosine_of(x: Any) -> Any:
        return xp.cos(x)

    cosine = lib.custom_jvp(cosine_of)

    sine.defjvp(lambda p, t: (sine(p[0]), 2.0 * lib.jit(cosine)(p[0]) * t[0]))
    cosine.defjvp(lambda p, t: (cosine(p[0]), -sine(p[0]) * t[0]))
    return lambda x: sine(x) * cosine(x)


FUNCTIONS: Final[dict[str, Make]] = {
    f.__name__: f for f in (log1pexp, marked, per_argument, closing_over, calling_another)
}
SINGLES = [(), *product(TRANSFORMATIONS, repeat=1)]
PAIRS = list(product(TRANSFORMATIONS, repeat=2))
TRIPLES = list(product(("jit", "vmap", "grad"), repeat=3))
POINT = 0.7


def check(function: str, names: tuple[str, ...]) -> None:
    ours, theirs = FUNCTIONS[function](tj, tnp), FUNCTIONS[function](jax, jnp)
    for name in reversed(names):
        our_transformation, their_transformation = TRANSFORMATIONS[name]
        ours = our_transformation(ours)
        if name != "jit" or function != "closing_over":  # jax itself can't differentiate that one under jit
            theirs = their_transformation(theirs)
    expected = theirs(jnp.asarray(POINT))
    point = tnp.asarray(np.float64(POINT))
    np.testing.assert_allclose(ours(point), expected, rtol=1e-9, atol=1e-9)
    closed = tj.make_jaxpr(ours)(point)
    ir.typecheck(closed)
    np.testing.assert_allclose(tj.eval_jaxpr(closed, (), point)[0], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("names", SINGLES, ids=".".join)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_singles(function: str, names: tuple[str, ...]) -> None:
    check(function, names)


@pytest.mark.sweep
@pytest.mark.parametrize("names", PAIRS, ids=".".join)
@pytest.mark.parametrize("function", ["closing_over", "calling_another"])
def test_pairs(function: str, names: tuple[str, ...]) -> None:
    check(function, names)


@pytest.mark.parametrize("names", TRIPLES, ids=".".join)
@pytest.mark.parametrize("function", ["log1pexp"])
@pytest.mark.sweep
def test_triples(function: str, names: tuple[str, ...]) -> None:
    check(function, names)


def test_python_control_flow() -> None:
    """Known values can be branched on in the function and in its rule, at every order of differentiation."""
    seen: list[bool] = []

    @tj.custom_jvp
    def f(x: Any) -> Any:
        return x * x if x > 0 else -x

    @f.defjvp
    def rule(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
        (x,), (t,) = primals, tangents
        seen.append(bool(x > 0))
        return f(x), (10.0 * x * t if x > 0 else -t)

    assert float(f(tnp.asarray(3.0))) == 9.0
    assert not seen
    assert float(tj.grad(f)(3.0)) == 30.0
    assert float(tj.grad(f)(-3.0)) == -1.0
    assert seen == [True, False]
    assert float(tj.grad(tj.grad(f))(3.0)) == 10.0
    assert float(tj.jvp(tj.grad(f), (3.0,), (1.0,))[1]) == 10.0
    assert float(tj.linearize(f, 3.0)[1](1.0)) == 30.0
    with pytest.raises(ConcretizationError, match="custom_jvp of f"):
        tj.jit(f)(3.0)


def test_a_function_that_is_not_differentiated_needs_no_rule_to_run() -> None:
    calls: list[str] = []

    @tj.custom_jvp
    def f(x: Any) -> Any:
        calls.append("f")
        return x

    f.defjvp(lambda p, t: calls.append("rule"))
    tj.grad(lambda x: x * f(tnp.asarray(2.0)))(1.0)
    tj.grad(lambda x: x * f(tj.lax.stop_gradient(x)))(1.0)
    assert calls == ["f", "f"]


def test_program() -> None:
    """The equation holds the programs; it is a value, and depends on nothing else."""
    (eqn,) = tj.make_jaxpr(log1pexp(tj, tnp))(1.0).eqns
    primitive = eqn.primitive
    assert isinstance(primitive, CustomJvp)
    assert [eqn.primitive.name for eqn in primitive.jaxpr.eqns] == ["exp", "add", "log"]
    assert primitive.jvp_jaxpr is not None
    assert isinstance(primitive.jvp_jaxpr.eqns[0].primitive, Enclosing)
    (other,) = tj.make_jaxpr(log1pexp(tj, tnp))(1.0).eqns
    assert other.primitive == primitive
    assert hash(other.primitive) == hash(primitive)
    first, second = (tj.make_jaxpr(log1pexp(tj, tnp))(1.0) for _ in range(2))
    assert ir.content_hash(first) == ir.content_hash(second)
    assert first != tj.make_jaxpr(marked(tj, tnp))(1.0)
    assert "jvp_jaxpr={" in str(first)


def test_mapped_program() -> None:
    (eqn,) = tj.make_jaxpr(tj.vmap(log1pexp(tj, tnp)))(np.arange(3.0)).eqns
    primitive = eqn.primitive
    assert isinstance(primitive, MappedCustom)
    assert isinstance(primitive.original, CustomJvp)
    assert primitive.jaxpr.out_avals == (tj.ShapedArray((3,), "float64"),)


def test_lowering_calls_the_function() -> None:
    text = tj.jit(log1pexp(tj, tnp)).lower(1.0).as_text()
    assert "call @f_of(" in text


def test_jit_within_a_rule_is_not_remembered() -> None:
    """What a rule stages refers to the function it belongs to, so it is no program to use elsewhere."""

    @tj.custom_jvp
    def f(x: Any) -> Any:
        return tnp.sin(x)

    jitted = tj.jit(lambda x: f(x) * 2.0)
    f.defjvp(lambda p, t: (f(p[0]), jitted(p[0]) * t[0]))
    np.testing.assert_allclose(tj.grad(tj.jit(f))(1.0), 2.0 * np.sin(1.0))
    np.testing.assert_allclose(jitted(1.0), 2.0 * np.sin(1.0))
    np.testing.assert_allclose(tj.grad(tj.grad(tj.jit(f)))(1.0), 4.0 * np.sin(1.0))


def test_trees() -> None:
    def make(lib: ModuleType, xp: ModuleType) -> Callable[..., Any]:
        def f_of(params: Any, x: Any) -> Any:
            return {"y": params["w"] * x, "n": (params["w"] + x,)}

        f = lib.custom_jvp(f_of)

        def rule(primals: Any, tangents: Any) -> Any:
            (p, x), (tp, tx) = primals, tangents
            tangent = {"y": 2.0 * tp["w"] * x + p["w"] * tx, "n": (tp["w"] - tx,)}
            return f(p, x), tangent

        f.defjvp(rule)
        return lambda w, x: f({"w": w}, x)

    ours, theirs = make(tj, tnp), make(jax, jnp)
    args = (np.float32(2.0), np.float32(3.0)), (np.float32(1.0), np.float32(0.5))
    assert_matches(tj.jvp(ours, *args), jax.jvp(theirs, *args))
    assert_matches(tj.jvp(tj.jit(ours), *args), jax.jvp(theirs, *args))


def test_keyword_and_default_arguments() -> None:
    @tj.custom_jvp
    def f(x: Any, scale: float = 2.0) -> Any:
        return scale * x

    f.defjvp(lambda p, t: (p[0] * p[1], 100.0 * t[0]))
    assert float(f(tnp.asarray(3.0))) == 6.0
    assert float(f(scale=4.0, x=tnp.asarray(3.0))) == 12.0
    assert float(tj.grad(f)(3.0)) == 100.0

    @tj.custom_jvp
    def g(x: Any, *, scale: float = 2.0) -> Any:
        return scale * x

    g.defjvp(lambda p, t: (p[0], t[0]))
    assert float(tj.grad(g)(3.0)) == 1.0
    with pytest.raises(InputError, match="scale can't"):
        g(tnp.asarray(1.0), scale=3.0)


def test_functions_with_arguments_filled_in() -> None:
    def f(x: Any, y: Any, a: float) -> Any:
        return x + y * a

    filled = partial(f, a=0.1)
    g = tj.custom_jvp(filled)
    g.defjvp(lambda primals, tangents: tj.jvp(filled, primals, tangents))
    assert tuple(map(float, tj.grad(lambda args: g(*args))((1.0, 2.0)))) == (1.0, 0.1)


def test_nondiff_argnums() -> None:
    @tj.custom_jvp(nondiff_argnums=(0, 2))
    def apply(f: Callable[[Any], Any], x: Any, n: int) -> Any:
        return f(x) * n

    @apply.defjvp
    def rule(f: Callable[[Any], Any], n: int, primals: tuple[Any], tangents: tuple[Any]) -> object:
        (x,), (t,) = primals, tangents
        return apply(f, x, n), 100.0 * n * t

    assert float(apply(tnp.sin, tnp.asarray(0.0), 3)) == 0.0
    for transformed in (tj.grad(apply, 1), tj.jit(tj.grad(apply, 1), static_argnums=(0, 2))):
        assert float(transformed(tnp.sin, 1.0, 3)) == 300.0
    assert float(tj.grad(tj.jit(lambda x: apply(tnp.sin, x, 3)))(1.0)) == 300.0


def test_a_rule_that_never_ends_as_a_program() -> None:
    """Staged, a rule that applies the function to ever new static arguments is cut off, with an error that says so."""

    @tj.custom_jvp(nondiff_argnums=(0,))
    def power(n: int, x: Any) -> Any:
        return x**n

    power.defjvp(lambda n, p, t: (power(n, p[0]), n * power(n - 1, p[0]) * t[0]))

    def staged(x: Any) -> Any:
        return tj.jit(lambda y: power(9, y))(x)

    f: Callable[..., Any] = staged
    for _ in range(4):
        f = tj.grad(f)
    np.testing.assert_allclose(f(tnp.asarray(1.0)), 9 * 8 * 7 * 6)
    with pytest.raises(MissingRuleError, match="no derivative of 'power' of this order"):
        tj.grad(f)(1.0)
    g: Callable[..., Any] = lambda x: power(9, x)  # noqa: E731
    for _ in range(6):
        g = tj.grad(g)
    np.testing.assert_allclose(g(1.0), 9 * 8 * 7 * 6 * 5 * 4)


@pytest.mark.parametrize("jit", [False, True])
def test_integers(jit: bool) -> None:
    def make(lib: ModuleType, xp: ModuleType) -> Callable[..., Any]:
        def f_of(x: Any, n: Any) -> Any:
            return x * n, n + 1

        f = lib.custom_jvp(f_of)

        def rule(primals: Any, tangents: Any) -> Any:
            (x, n), (tx, tn) = primals, tangents
            assert tn.dtype == jax.dtypes.float0
            return f(x, n), (5.0 * tx, tn)

        f.defjvp(rule)
        function: Callable[..., Any] = lib.jit(f) if jit else f
        return function

    args = (2.0, 3), (1.0, np.zeros((), jax.dtypes.float0))
    assert_matches(tj.jvp(make(tj, tnp), *args), jax.jvp(make(jax, jnp), *args))


def test_symbolic_zeros() -> None:
    kinds: list[tuple[bool, ...]] = []

    @tj.custom_jvp
    def f(x: Any, y: Any) -> tuple[Any, Any]:
        return x * y, y

    def rule(primals: tuple[Any, Any], tangents: tuple[object, object]) -> object:
        kinds.append(tuple(isinstance(t, tj.SymbolicZero) for t in tangents))
        x, y = primals
        (tx, _) = tangents
        return (x * y, y), (tx, tj.SymbolicZero(y.aval))

    f.defjvp(rule, symbolic_zeros=True)
    assert float(tj.grad(lambda x: f(x, 2.0)[0])(3.0)) == 1.0
    assert kinds == [(False, True)]
    assert float(tj.grad(lambda x: f(x, x)[1])(3.0)) == 0.0
    assert float(tj.grad(tj.jit(lambda x: f(x, 2.0)[0]))(3.0)) == 1.0
    assert kinds[1] == (False, False)
    assert sorted(kinds[2:]) == [(False, False), (False, True), (True, False)]  # a program has a rule for each


def test_differentiating_with_respect_to_a_closed_over_value() -> None:
    def outer(a: Any, x: Any) -> Any:
        @tj.custom_jvp
        def f(x: Any) -> Any:
            return a * x

        f.defjvp(lambda p, t: (a * p[0], a * t[0] * 10.0))
        return f(x)

    for f in (outer, tj.jit(outer)):
        np.testing.assert_allclose(tj.grad(f, 1)(2.0, 3.0), 20.0)
        np.testing.assert_allclose(tj.vmap(tj.grad(f, 1))(np.arange(3.0), np.ones(3)), [0.0, 10.0, 20.0])
        np.testing.assert_allclose(tj.vmap(f, (0, None))(np.arange(3.0), 2.0), [0.0, 2.0, 4.0])
        for argnums in (0, (0, 1)):
            with pytest.raises(InputError, match="Pass the value to 'f' as an argument"):
                tj.grad(f, argnums)(2.0, 3.0)


def test_methods() -> None:
    class Model:
        def __init__(self, scale: float) -> None:
            self.scale = scale

        @tj.custom_jvp(nondiff_argnums=(0,))
        def apply(self, x: Any) -> Any:
            return self.scale * x

        @apply.defjvp
        def _(self, primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
            return self.apply(*primals), 100.0 * tangents[0]

    assert float(tj.grad(Model(3.0).apply)(2.0)) == 100.0


# Errors.


def identity(rule: Callable[..., object]) -> Callable[[Any], Any]:
    @tj.custom_jvp
    def f(x: Any) -> Any:
        return x

    f.defjvp(rule)
    return f


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize(
    ("rule", "error", "message"),
    [
        (lambda p, t: p[0], InputError, "must return a pair of the results and their tangents, got"),
        (lambda p, t: (p[0], (t[0],)), TreeError, r"must have the same structure.*the results: \*"),
        (lambda p, t: (p[0], t[0][:1]), InputError, r"tangent must have type f64\[3\].*got f64\[1\]"),
        (lambda p, t: (p[0], t[0].astype("float32")), InputError, r"must have type f64\[3\].*got f32\[3\]"),
        (lambda p, t: (p[0], "text"), InputError, "rule <lambda> of custom_jvp function f: tangent"),
    ],
)
def test_rules_that_do_not_fit(jit: bool, rule: Callable[..., object], error: type[Exception], message: str) -> None:
    f = identity(rule)
    with pytest.raises(error, match=f"(?s){message}") as info:
        tj.jvp(tj.jit(f) if jit else f, (np.ones(3),), (np.ones(3),))
    assert f"The rule <lambda> is at {__file__}:{rule.__code__.co_firstlineno}." in info.value.__notes__


def test_results_of_staged_rules_that_do_not_fit() -> None:
    """Only a staged function is run together with its rule."""
    with pytest.raises(TreeError, match=r"(?s)the result of f: .*that of its rule: "):
        tj.grad(tj.jit(identity(lambda p, t: ((p[0],), (t[0],)))))(1.0)
    with pytest.raises(InputError, match=r"result 0 must have type f64\[3\], that of the result of f; got f64\[1\]"):
        tj.linearize(tj.jit(identity(lambda p, t: (p[0][:1], t[0][:1]))), np.ones(3))


def test_missing_rule() -> None:
    f = tj.custom_jvp(lambda x: x)
    with pytest.raises(MissingRuleError, match="No JVP defined for custom_jvp function <lambda> using defjvp"):
        f(1.0)


def test_defjvps_errors() -> None:
    with pytest.raises(InputError, match="Can't use defjvps with nondiff_argnums"):
        tj.custom_jvp(lambda n, x: x, nondiff_argnums=(0,)).defjvps(None)
    f = tj.custom_jvp(lambda x, y: x)
    f.defjvps(lambda t, out, x, y: t)
    with pytest.raises(InputError, match="got 1 rules for 2 arguments"):
        tj.jvp(f, (1.0, 2.0), (1.0, 1.0))
    g = tj.custom_jvp(lambda x, y: x)
    g.defjvps(None, None)
    assert float(tj.jvp(g, (1.0, 2.0), (1.0, 1.0))[1]) == 0.0


def test_wrong_positions() -> None:
    f = tj.custom_jvp(lambda x: x, nondiff_argnums=(3,))
    f.defjvp(lambda *args: args)
    with pytest.raises(InputError, match="nondiff_argnums 3 is out of range"):
        f(1.0)
