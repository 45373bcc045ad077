"""Linear functions with a transpose of their own: against jax's, in every nesting."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.custom_derivatives import linear_call as jax_linear_call

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import ir
from tinyjax.custom_derivatives import linear_call
from tinyjax.errors import MissingRuleError, ShapeError, TreeError
from tinyjax.interop.jax import from_jax, to_jax
from tinyjax.testing import check_laws

X = np.array([0.5, -2.0, 3.0])
W = np.array([2.0, 4.0, -1.0])
SCALE = np.array([1.0, 2.0, 3.0])


def scaled(j: Any, np_: Any, call: Callable[..., Any], r: Any, x: Any) -> Any:  # jax's modules, or ours
    """A function whose transpose is told from its real one by a factor of 10, in trees, which closes over an array."""
    scale = SCALE

    def g(x: Any) -> Any:
        out = call(lambda r, x: {"y": x[0] * r["w"] * scale, "z": x[1] * r["k"]}, back, {"w": r, "k": r[0]}, x)
        return out["y"] * out["z"]

    def back(r: Any, ct: Any) -> Any:
        return 10 * ct["y"] * r["w"] * scale, 10 * ct["z"] * r["k"]

    return g((x, np_.sin(x[0])))


OURS = partial(scaled, tj, tnp, linear_call)
THEIRS = partial(scaled, jax, jnp, jax_linear_call)
FORMS: dict[str, Callable[[Any, Any, Callable[..., Any]], Any]] = {
    "value": lambda j, np_, f: f(W, X),
    "jit": lambda j, np_, f: j.jit(f)(W, X),
    "jvp": lambda j, np_, f: j.jvp(lambda x: f(W, x), (X,), (W,)),
    "grad": lambda j, np_, f: j.grad(lambda x: (f(W, x) ** 2).sum())(X),
    "jit of grad": lambda j, np_, f: j.jit(j.grad(lambda x: (f(W, x) ** 2).sum()))(X),
    "grad of jit": lambda j, np_, f: j.grad(lambda x: (j.jit(f)(W, x) ** 2).sum())(X),
    "reverse over reverse": lambda j, np_, f: j.grad(lambda x: (j.grad(lambda x: (f(W, x) ** 2).sum())(x) * W).sum())(
        X
    ),
    "forward over reverse": lambda j, np_, f: j.jvp(j.grad(lambda x: (f(W, x) ** 2).sum()), (X,), (W,)),
    "linearize": lambda j, np_, f: j.linearize(lambda x: f(W, x), X)[1](W),
}


@pytest.mark.parametrize("form", FORMS)
def test_as_in_jax(form: str) -> None:
    want = jax.tree.leaves(FORMS[form](jax, jnp, THEIRS))
    found = tj.tree.leaves(FORMS[form](tj, tnp, OURS))
    for a, b in zip(found, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=2.0**-40)


def gradient(w: Any, x: Any) -> Any:
    return tj.grad(lambda x: (OURS(w, x) ** 2).sum())(x)


@pytest.mark.parametrize("axes", [(None, 0), (0, None), (0, 0), (1, 0)])
@pytest.mark.parametrize("f", [OURS, gradient])
def test_mapped(f: Callable[[Any, Any], Any], axes: tuple[int | None, int | None]) -> None:
    """Which jax doesn't."""
    w, x = (v if at is None else np.stack([v, 2 * v + 1, -v], at) for v, at in zip((W, X), axes, strict=True))
    each = [[v if at is None else v.take(i, at) for v, at in zip((w, x), axes, strict=True)] for i in range(3)]
    want = [f(*args) for args in each]
    np.testing.assert_allclose(tj.vmap(f, axes)(w, x), np.stack(want), rtol=2.0**-40)
    np.testing.assert_allclose(tj.jit(tj.vmap(f, axes))(w, x), np.stack(want), rtol=2.0**-40)
    total = tj.grad(lambda x: (tj.vmap(f, axes)(w, x)).sum())(x)
    parts = [tj.grad(lambda x, w=w: f(w, x).sum())(x) for w, x in each]
    np.testing.assert_allclose(total, sum(parts) if axes[1] is None else np.stack(parts), rtol=2.0**-40)


def transpose(f: Callable[..., Any], like: Any) -> Callable[..., Any]:
    return lambda y: tj.linear_transpose(f, like)(y)[0]


@pytest.mark.parametrize("wrap", [lambda f: f, tj.jit, tj.checkpoint])
def test_each_is_the_transpose_of_the_other(wrap: Callable[[Any], Any]) -> None:
    f = wrap(lambda x: linear_call(lambda _, x: x, lambda _, ct: 7.0, (), x))
    found = [g(1.0) for g in (f, transpose(f, 1.0), transpose(transpose(f, 1.0), 1.0))]
    assert [float(x) for x in found] == [1.0, 7.0, 1.0]


def test_the_derivative_with_respect_to_residuals_is_that_of_the_function() -> None:
    """jax fails there, by an assertion."""

    def f(r: Any, x: Any) -> Any:
        return linear_call(lambda r, x: x / r, lambda r, ct: 10 * ct / r, r, x).sum()

    found = tj.grad(f, (0, 1))(W, X)
    np.testing.assert_allclose(found[0], -X / W**2)
    np.testing.assert_allclose(found[1], 10 / W)


def test_closes_over_what_is_traced() -> None:
    def f(k: Any, x: Any) -> Any:
        return linear_call(lambda _, x: x * k, lambda _, ct: ct * k * 2, (), x).sum()

    np.testing.assert_allclose(tj.grad(f, 1)(3.0, X), np.full(3, 6.0))
    np.testing.assert_allclose(tj.grad(f)(3.0, X), X.sum())


def test_discrete_operands_pass() -> None:
    def f(n: Any, x: Any) -> Any:
        return linear_call(lambda _, a: (a[0], a[1] * 2), lambda _, a: (a[0], a[1] * 3), (), (n, x))

    assert [int(v) for v in f(4, np.int64(2))] == [4, 4]
    assert float(tj.grad(lambda x: f(4, x)[1])(1.0)) == 3.0


def test_programs() -> None:
    program = tj.make_jaxpr(lambda x, w, k: linear_call(lambda r, x: x * r, lambda r, ct: ct * r * k, w, x))(X, W, 2.0)
    assert ir.parse(str(program)) == program.jaxpr
    check_laws(tj.make_jaxpr(lambda x: linear_call(lambda r, x: x * r, lambda r, ct: ct * r, W, x))(X), [X])
    for f, args in ((OURS, (W, X)), (tj.grad(lambda x: OURS(W, x).sum()), (X,))):
        np.testing.assert_allclose(to_jax(tj.make_jaxpr(f)(*args))(*args), f(*args), rtol=2.0**-40)


def test_exported_with_its_transpose() -> None:
    f = to_jax(tj.make_jaxpr(lambda x: OURS(W, x))(X))
    found = jax.grad(lambda x: (f(x) ** 2).sum())(X)
    np.testing.assert_allclose(found, tj.grad(lambda x: (OURS(W, x) ** 2).sum())(X), rtol=2.0**-40)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit])
def test_imported_with_its_transpose(wrap: Callable[[Any], Any]) -> None:
    program = from_jax(jax.make_jaxpr(wrap(lambda x: THEIRS(W, x)))(X))

    def run(x: Any) -> Any:
        return tj.eval_jaxpr(program.jaxpr, program.consts, x)[0]

    found = tj.grad(lambda x: (run(x) ** 2).sum())(X)
    np.testing.assert_allclose(found, jax.grad(lambda x: (THEIRS(W, x) ** 2).sum())(X), rtol=2.0**-40)


def test_read_without_its_transpose() -> None:
    """JAX prints no more of it than that it is a function."""
    text = str(jax.make_jaxpr(lambda x: jax_linear_call(lambda r, x: x * r, lambda r, ct: ct * r, 2.0, x))(X))
    program = ir.parse(text)
    np.testing.assert_allclose(tj.eval_jaxpr(program, (), X)[0], X * 2)
    np.testing.assert_allclose(tj.jvp(lambda x: tj.eval_jaxpr(program, (), x)[0], (X,), (W,))[1], W * 2)
    with pytest.raises(MissingRuleError, match="Transposition for 'linear_call'"):
        tj.grad(lambda x: tj.eval_jaxpr(program, (), x)[0].sum())(X)


def test_errors() -> None:
    pair: Any = lambda _, ct: (ct, ct)  # noqa: E731
    with pytest.raises(TreeError, match=r"linear_call: linear_args .*what .*returns"):
        linear_call(lambda _, x: x, pair, (), X)
    with pytest.raises(ShapeError, match=r"shapes of linear_args, \(f64\[3\]\); got \(f64\[2\]\)"):
        linear_call(lambda _, x: x, lambda _, ct: ct[:2], (), X)
