"""Inverse functions: what comes out goes back in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from jax import numpy as jnp

import tinyjax as tj
from tests.primitives.test_user_primitives import softplus
from tinyjax import lax
from tinyjax import numpy as tnp
from tinyjax.errors import InputError, MissingRuleError, TreeError
from tinyjax.interpreters import inverse
from tinyjax.interpreters.inverse import INVERSE_RULES

A = np.array([0.3, 0.7, 0.2, 0.9])
X3 = np.array([0.5, 1.0, 2.0])


def seed(x: Any) -> Any:
    return tnp.exp(tnp.tanh(x))


UNARY: dict[str, Callable[[Any], Any]] = {
    "exp": tnp.exp,
    "exp2": tnp.exp2,
    "expm1": tnp.expm1,
    "log": tnp.log,
    "log1p": tnp.log1p,
    "sin": tnp.sin,
    "cos": tnp.cos,
    "tan": tnp.tan,
    "sinh": tnp.sinh,
    "cosh": tnp.cosh,
    "tanh": tnp.tanh,
    "arcsin": tnp.arcsin,
    "arccos": tnp.arccos,
    "arctan": tnp.arctan,
    "arcsinh": tnp.arcsinh,
    "arctanh": tnp.arctanh,
    "sqrt": tnp.sqrt,
    "cbrt": tnp.cbrt,
    "rsqrt": lax.rsqrt,
    "logistic": lax.logistic,
    "erf": lax.erf,
    "erfc": lax.erfc,
    "square": tnp.square,
    "integer_pow": lambda x: x**3 + 0.0,
    "negative power": lambda x: x**-2,
    "add": lambda x: 2.0 + x,
    "sub": lambda x: A - x,
    "mul": lambda x: x * A,
    "div": lambda x: A / x,
    "divided": lambda x: x / A,
    "power": lambda x: x**1.5,
    "exponent": lambda x: 3.0**x,
    "shapes": lambda x: tnp.flip(x.reshape(2, 2).T),
    "broadcast": lambda x: x[:, None] * np.ones((4, 3)),
    "concatenate": lambda x: tnp.concatenate([np.ones(2), x]),
    "cumsum": tnp.cumsum,
    "fft": lambda x: tnp.fft.ifft(tnp.fft.rfft(x * 2.0)),
    "float32": lambda x: x.astype("float32").astype("float64"),
    "name": lambda x: tj.checkpoint_name(x * 2.0, "twice"),
    "seed": seed,
    "jit": tj.jit(lambda x: tj.jit(tnp.sin)(x) * 2.0),
    "checkpoint": tj.checkpoint(seed),
}


@pytest.mark.parametrize("name", UNARY)
def test_back_and_forth(name: str) -> None:
    f = UNARY[name]
    np.testing.assert_allclose(inverse(f, like=A)(f(A)), A, rtol=1e-6)


def test_seed_document() -> None:
    f_inv = inverse(seed)
    np.testing.assert_allclose(f_inv(seed(1.0)), 1.0)
    xs = (np.arange(5) + 1.0) / 5.0
    found = tj.jit(tj.vmap(tj.grad(f_inv)))(xs)
    expected = jax.vmap(jax.grad(lambda y: jnp.arctanh(jnp.log(y))))(xs)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert str(tj.make_jaxpr(f_inv)(seed(1.0))).split("\n")[1:3] == ["    b:~f64[] = log a", "    c:~f64[] = atanh b"]


def test_some_known() -> None:
    def f(w: Any, x: Any, b: Any) -> Any:
        return tnp.sin(x * w) + b

    result = f(0.5, 0.75, 2.0)
    np.testing.assert_allclose(inverse(f, argnums=1)(result, 0.5, 2.0), 0.75)
    np.testing.assert_allclose(inverse(f)(result, 0.75, 2.0), 0.5)
    np.testing.assert_allclose(inverse(f, argnums=-1)(result, 0.5, 0.75), 2.0)


def test_several_unknown() -> None:
    def f(x: Any, y: Any) -> Any:
        return x + 1.0, tnp.log(y) * x

    np.testing.assert_allclose(inverse(f, argnums=(0, 1))(f(2.0, 3.0)), (2.0, 3.0))
    np.testing.assert_allclose(inverse(f, argnums=(1, 0))(f(2.0, 3.0)), (3.0, 2.0))


def test_coupling_layer() -> None:
    """What is found goes forwards again, to find the rest."""

    @tj.jit
    def f(x: Any) -> Any:
        a, b = tnp.split(x, 2)
        return tnp.concatenate([a, b * tnp.exp(tnp.floor(a) + a * a) + tnp.sin(a)])

    np.testing.assert_allclose(inverse(f)(f(A)), A)
    jacobian = tj.jacfwd(inverse(f))(f(A))
    np.testing.assert_allclose(jacobian @ tj.jacfwd(f)(A), np.eye(4), atol=1e-9)


def test_trees() -> None:
    def f(params: Any) -> Any:
        return {"u": params["a"] * 2.0, "v": [params["b"] + params["a"]]}

    like = {"a": 0.0, "b": np.zeros(2)}
    found = inverse(f, like=like)(f({"a": 3.0, "b": np.ones(2)}))
    np.testing.assert_allclose(found["b"], np.ones(2))
    assert float(found["a"]) == 3.0


def test_closure_and_scalar_operand() -> None:
    def outer(w: Any, y: Any) -> Any:
        return inverse(lambda x: x * w)(y)

    np.testing.assert_allclose(tj.grad(outer)(2.0, 3.0), -3.0 / 4.0)
    np.testing.assert_allclose(inverse(lambda x: x * A, like=0.0)(2.0 * A), 2.0)


@pytest.mark.parametrize("outside", [lambda f: f, tj.jit])
def test_branches(outside: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    def f(flag: Any, x: Any) -> Any:
        return lax.cond(flag, lambda x: x * 2.0, tnp.exp, x)

    f_inv = outside(inverse(f, argnums=1))
    for flag in (True, False):
        np.testing.assert_allclose(f_inv(f(flag, 0.5), flag), 0.5, rtol=1e-6)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("outside", [lambda f: f, tj.jit])
def test_loops(reverse: bool, outside: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    xs = np.array([0.1, 0.2, 0.3])

    def f(w: Any, start: Any, xs: Any) -> Any:
        return lax.scan(lambda c, x: (tnp.sinh(c * x) * w, c + x), start, xs, reverse=reverse)

    result = f(2.0, 0.5, xs)
    np.testing.assert_allclose(outside(inverse(f, argnums=1, like=0.5))(result, 2.0, xs), 0.5, rtol=1e-5)
    np.testing.assert_allclose(outside(inverse(f, argnums=2, like=xs))(result, 2.0, 0.5), xs, rtol=1e-5)


@tj.custom_jvp
def special(x: Any) -> Any:
    return tnp.exp(x)


special.defjvp(lambda primals, tangents: (special(primals[0]), tangents[0]))


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (tnp.cumprod, X3),
        (lambda x: lax.cumprod(x, reverse=True), X3),
        (lambda x: tnp.pad(x, ((1, 2),)) + 1.0, X3),
        (lambda x: lax.pad(x, 0.0, ((2, 0, 1),)), X3),
        (lambda x: ~(x ^ 5), np.array([1, 2, 3])),
        (lambda x: tnp.conj(x) * 2.0, X3 + 1j),
        (lambda x: lax.complex(x, 2.0 * x), X3),
        (lambda x: tnp.arctan2(x, 2.0), X3),
        (lambda x: tnp.arctan2(2.0, x), X3),
        (softplus, X3),
        (tj.vmap(special), X3),
        (tj.jit(tj.vmap(special)), X3),
    ],
)
def test_more_primitives(f: Any, x: Any) -> None:
    np.testing.assert_allclose(inverse(f, like=x)(f(x)), x, rtol=1e-6)


def test_what_it_was_padded_with() -> None:
    def f(x: Any, value: Any) -> Any:
        return lax.pad(x, value, ((1, 2, 0),))

    x, value = inverse(f, argnums=(0, 1), like=(X3, 0.0))(f(X3, 7.0))
    np.testing.assert_allclose(x, X3)
    assert float(value) == 7.0


def test_rule_of_ones_own() -> None:
    with pytest.raises(MissingRuleError, match=r"Inverse rule for 'is_finite'.*INVERSE_RULES.register\(IsFinite\)"):
        inverse(tnp.isfinite, like=0.0)(tnp.isfinite(1.0))
    program = tj.make_jaxpr(lambda x: tnp.isfinite(x) & (tnp.exp(x) > 0))(1.0)
    assert {cls.name for cls in INVERSE_RULES.missing(program)} == {"is_finite", "gt", "and"}


@pytest.mark.parametrize(
    ("f", "result", "kwargs", "message"),
    [
        (lambda x: x * x + x, 2.0, {}, "'add' .*test_inverse.py.* can't be solved"),
        (tnp.sum, 2.0, {"like": np.ones(3)}, "Inverse rule for 'reduce_sum'"),
        (lambda x: tnp.ones(()), 2.0, {}, "don't determine all inputs"),
        (lambda x: x[None], np.ones(3), {}, "Say with `like`"),
        (lambda x, y: x + y, 2.0, {"argnums": (0, 1), "like": (1.0,)}, "`like` has 1 entries"),
        (lambda x: (x, x), 2.0, {}, "returns"),
    ],
)
def test_errors(f: Any, result: Any, kwargs: Any, message: str) -> None:
    with pytest.raises((InputError, TreeError, MissingRuleError), match=message):
        inverse(f, **kwargs)(result)


def counted(x: Any) -> Any:
    return lax.fori_loop(0, 3, lambda i, c: c * 2.0 + i, x)


def stepped(x: Any) -> Any:
    return lax.while_loop(lambda c: c[0] < 10.0, lambda c: (c[0] * 2.0, c[1] * c[0] + 1.0), (1.5, x))[1]


#: Functions of a number whose loops keep a count, or something else that is known, beside what is to be found.
LOOPS: dict[str, Callable[[Any], Any]] = {
    "fori_loop": counted,
    "from elsewhere": lambda x: lax.fori_loop(-2, 5, lambda i, c: c * (i + 0.5) - i, x),
    "no iterations": lambda x: lax.fori_loop(3, 3, lambda i, c: c * 0.0, x) + 1.0,
    "nested": lambda x: lax.fori_loop(0, 3, lambda i, c: lax.fori_loop(0, 2, lambda j, d: d * 1.5 + i - j, c), x),
    "jit": tj.jit(lambda x: tj.jit(counted)(x) * 2.0),
    "branches": lambda x: lax.fori_loop(
        0, 4, lambda i, c: lax.cond(i % 2 == 0, lambda: c * 2.0, lambda: tnp.arcsinh(c)), x
    ),
    "scan": lambda x: lax.scan(lambda c, v: ((c[0] + 1, c[1] * 2.0 + v * c[0]), None), (0, x), np.arange(4.0))[0][1],
    "while": stepped,
    "while of while": lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, stepped(c[1]) / 99.0), (0, x))[
        1
    ],
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_that_count(name: str) -> None:
    f = LOOPS[name]
    x = np.array([0.4, -1.3, 2.0])
    inv = inverse(f, like=0.0)
    np.testing.assert_allclose([inv(f(v)) for v in x], x, rtol=1e-9)
    np.testing.assert_allclose(tj.jit(tj.vmap(lambda x: inv(f(x))))(x), x, rtol=1e-9)
    np.testing.assert_allclose(tj.jvp(lambda x: inv(f(x)), (x[0],), (1.0,))[1], 1.0, rtol=1e-9)


def test_loops_with_bounds_that_are_traced() -> None:
    def f(n: Any, x: Any) -> Any:
        return lax.fori_loop(0, n, lambda i, c: tnp.tanh(c) * 0.5 + i, x)

    found = tj.jit(lambda n, x: inverse(f, argnums=1)(f(n, x), n))(3, 0.7)
    np.testing.assert_allclose(found, 0.7)
    slope = tj.jit(tj.jacfwd(lambda y: inverse(f, argnums=1)(y, 3)))(f(3, 0.7))
    np.testing.assert_allclose(slope * tj.jacfwd(lambda x: f(3, x))(0.7), 1.0)


def test_loops_that_dont_tell_how_often() -> None:
    with pytest.raises(InputError, match=r"'while' .* can't be solved"):
        inverse(lambda x: lax.while_loop(lambda c: c < 10.0, lambda c: c * 2.0, x))(16.0)
    with pytest.raises(InputError, match=r"'mul' .* can't be solved"):
        inverse(lambda x: lax.fori_loop(0, 3, lambda i, c: tnp.sin(c) * c, x))(3.0)
