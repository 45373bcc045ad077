"""Named values taken out of functions, and put into them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
from tinyjax import checkpoint_name as name
from tinyjax import lax
from tinyjax import numpy as tnp
from tinyjax.errors import InputError
from tinyjax.interpreters import harvest, plant

Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]


def layered(x: Any) -> Any:
    hidden = name(tnp.sin(x), "hidden")
    return name(hidden * 2.0, "logits") + 1.0


WRAPPED: dict[str, Wrapper] = {
    "plain": lambda f: f,
    "jit": lambda f: tj.jit(tj.jit(f)),
    "checkpoint": tj.checkpoint,
    "cond": lambda f: lambda x: lax.cond(True, f, lambda x: f(x + 1.0), x),
}
OUTSIDE: dict[str, Wrapper] = {"plain": lambda f: f, "jit": tj.jit}


@pytest.mark.parametrize("inside", WRAPPED)
@pytest.mark.parametrize("outside", OUTSIDE)
def test_values(inside: str, outside: str) -> None:
    result, found = OUTSIDE[outside](harvest(WRAPPED[inside](layered)))(0.5)
    np.testing.assert_allclose(result, 2 * np.sin(0.5) + 1)
    assert set(found) == {"hidden", "logits"}
    np.testing.assert_allclose(found["hidden"], np.sin(0.5))
    np.testing.assert_allclose(found["logits"], 2 * np.sin(0.5))


@pytest.mark.parametrize("inside", WRAPPED)
@pytest.mark.parametrize("outside", OUTSIDE)
def test_planting(inside: str, outside: str) -> None:
    planted = OUTSIDE[outside](plant(WRAPPED[inside](layered)))
    np.testing.assert_allclose(planted({"hidden": 3.0}, 0.5), 7.0)
    np.testing.assert_allclose(planted({"hidden": 3.0, "logits": 0.0}, 0.5), 1.0)
    np.testing.assert_allclose(planted({}, 0.5), 2 * np.sin(0.5) + 1)


def test_derivatives() -> None:
    np.testing.assert_allclose(tj.grad(lambda x: harvest(layered)(x)[1]["logits"])(0.5), 2 * np.cos(0.5))
    gradient = tj.grad(plant(tj.jit(layered)))({"hidden": 3.0}, 0.5)
    np.testing.assert_allclose(gradient["hidden"], 2.0)
    # A planted value doesn't depend on the argument any more.
    np.testing.assert_allclose(tj.grad(lambda x: plant(layered)({"hidden": 3.0}, x))(0.5), 0.0)


def test_batches() -> None:
    xs = np.arange(3.0)
    _, found = tj.vmap(harvest(tj.jit(layered)))(xs)
    np.testing.assert_allclose(found["hidden"], np.sin(xs))
    np.testing.assert_allclose(harvest(tj.vmap(layered))(xs)[1]["hidden"], np.sin(xs))
    np.testing.assert_allclose(tj.vmap(plant(layered), in_axes=({"hidden": 0}, None))({"hidden": xs}, 0.5), 2 * xs + 1)


def test_names_of_gradients_inside() -> None:
    def f(x: Any) -> Any:
        return tj.grad(lambda x: name(x * x, "square") * x)(x)

    result, found = harvest(f)(3.0)
    np.testing.assert_allclose([result, found["square"]], [27.0, 9.0])


@pytest.mark.parametrize("reverse", [False, True])
def test_loops(reverse: bool) -> None:
    xs = np.array([1.0, 2.0, 3.0])

    def f(xs: Any) -> Any:
        return lax.scan(lambda c, x: (name(c + x, "sum"), c * x), 0.0, xs, reverse=reverse)

    (last, _), found = harvest(f)(xs)
    sums = np.cumsum(xs[::-1])[::-1] if reverse else np.cumsum(xs)
    assert float(last) == 6.0
    np.testing.assert_allclose(found["sum"], sums)
    last, ys = tj.jit(plant(f))({"sum": np.array([10.0, 20.0, 30.0])}, xs)
    assert float(last) == (10.0 if reverse else 30.0)
    np.testing.assert_allclose(ys, [20.0, 60.0, 0.0] if reverse else [0.0, 20.0, 60.0])


def test_custom_rule_with_names_inside() -> None:
    @tj.custom_jvp
    def f(x: Any) -> Any:
        return name(x * x, "square")

    f.defjvp(lambda primals, tangents: (f(primals[0]), tangents[0] * 100.0))
    result, found = harvest(lambda x: f(x) + 1.0)(3.0)
    np.testing.assert_allclose([result, found["square"]], [10.0, 9.0])


def test_programs_without_names_stay_as_they_are() -> None:
    f = tj.jit(lambda x: lax.while_loop(lambda x: x < 10.0, lambda x: x * 2.0, x) + name(x, "x"))
    program = tj.make_jaxpr(lambda x: harvest(f)(x)[0])(1.0)
    assert "while" in str(program)


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: harvest(lambda x: name(name(x, "a"), "a"))(1.0), "two values are named 'a'"),
        (lambda: plant(layered)({"depth": 1.0}, 1.0), "names 'hidden', 'logits', but not 'depth'"),
        (lambda: plant(layered)({"hidden": np.ones(3)}, 1.0), r"'hidden' names a value of type ~f64\[\], got f64\[3\]"),
        (
            lambda: harvest(lambda x: lax.cond(x > 0, lambda x: name(x, "a"), lambda x: x, x))(1.0),
            "branch 0: none; branch 1: a",
        ),
        (
            lambda: harvest(lambda x: lax.while_loop(lambda x: x < 3, lambda x: name(x + 1, "a"), x))(1.0),
            "a is named in a while loop",
        ),
        (
            lambda: plant(lambda xs: lax.map(lambda x: name(x, "a"), xs))({"a": np.ones(2)}, np.ones(3)),
            "stacked along a leading axis of that size",
        ),
    ],
)
def test_errors(run: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        run()


@tj.custom_jvp
def rounded(x: Any) -> Any:
    return tnp.round(tj.checkpoint_name(x * 2.0, "twice"))


rounded.defjvp(lambda primals, tangents: (rounded(*primals), 2.0 * tangents[0]))


@tj.custom_vjp
def reversed_slope(x: Any) -> Any:
    return tj.checkpoint_name(tnp.sin(x), "sine") * 3.0


reversed_slope.defvjp(lambda x: (reversed_slope(x), x), lambda x, ct: (-ct * x,))


@pytest.mark.parametrize("f", [rounded, reversed_slope, lambda x: tj.vmap(rounded)(x[None])[0], tj.jit(rounded)])
@pytest.mark.parametrize("around", [lambda f: f, tj.jit, tj.vmap])
def test_derivatives_of_its_own_stay(f: Any, around: Any) -> None:
    x = np.array([0.3, 1.4])

    def nest(g: Any) -> Any:
        return around(lambda x: g(x * np.ones(2)).sum())

    wanted = tj.grad(lambda x: nest(f)(x).sum())(x)
    found = tj.grad(lambda x: nest(lambda x: harvest(f)(x)[0])(x).sum())(x)
    np.testing.assert_allclose(found, wanted)
    values = harvest(f)(x)[1]
    assert [list(values), np.shape(*values.values())[-1:]] in ([["twice"], (2,)], [["sine"], (2,)])


def test_what_is_planted_in_a_function_with_a_derivative_of_its_own() -> None:
    assert float(plant(rounded)({"twice": 7.2}, 1.0)) == 7.0
