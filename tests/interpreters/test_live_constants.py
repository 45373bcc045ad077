"""Contexts that interpret operations on constants too, whose own methods compute with arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, final

import numpy as np
from attrs import frozen
from typing_extensions import override

import tinyjax as tj
from tinyjax import ir, lax
from tinyjax import numpy as tnp
from tinyjax.extend import as_array, bind
from tinyjax.interpreters import interpreting


@final
@frozen
class Normal(ir.Primitive):
    """A sample."""

    name: ClassVar[str] = "normal"
    site: str

    @override
    def type_of(self, *args: ir.ShapedArray) -> tuple[ir.ShapedArray, ...]:
        return (args[0],)


def normal(site: str, mean: tj.ArrayLike, scale: tj.ArrayLike) -> tj.Array:
    return bind(Normal(site), as_array(mean), as_array(scale))[0]


class Score(ir.Context[tj.Array]):
    """The logarithm of the density of samples that are given."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given, self.total = given, as_array(0.0)
        self.steps = 0

    @override
    def bind(self, primitive: ir.Primitive, *args: tj.Array) -> tuple[tj.Array, ...]:
        self.steps += 1
        if isinstance(primitive, Normal):
            x, (mean, scale) = as_array(self.given[primitive.site]), args
            self.total = self.total - 0.5 * ((x - mean) / scale) ** 2 - tnp.log(scale)
            return (x,)
        # A jitted function and a loop of the context's own: nothing of it comes back here.
        tj.jit(lambda x: lax.fori_loop(0, 3, lambda i, c: c + i, x))(1.0)
        return tuple(bind(primitive, *args))

    @override
    def constant(self, value: ir.ConcreteValue | ir.Literal) -> tj.Array:
        x = as_array(value.value if isinstance(value, ir.Literal) else value)
        return x + tnp.zeros_like(x)

    @override
    def lift(self, value: ir.Foreign) -> tj.Array:
        return as_array(value) * 1.0

    @override
    def aval(self, value: tj.Array) -> ir.ShapedArray:
        return value.aval

    @override
    def concrete(self, value: tj.Array) -> ir.ConcreteValue | None:
        return value.concrete()


def scored(model: Callable[[Any], Any], x: Any, **given: Any) -> tuple[Any, int]:
    context = Score(given)
    with interpreting(lambda _: context, constants=True) as run:
        model(run.inside.wrap(as_array(x)))
    return context.total, context.steps


def model(x: Any) -> Any:
    w = normal("w", 0.5 - tnp.asarray(0.5), 1.0)  # nothing but constants
    return normal("y", w * x if w > 0 else x, 0.5)


def test_methods_of_the_context_run_outside_of_it() -> None:
    total, steps = scored(model, 2.0, w=1.0, y=3.0)
    np.testing.assert_allclose(total, -0.5 - 2.0 + np.log(2.0))
    assert steps == 5  # sub, normal, gt, mul, normal


def test_within_transformations_and_itself() -> None:
    def loss(w: Any) -> Any:
        return scored(model, 2.0, w=w, y=3.0)[0]

    def expected(w: float) -> float:
        return -w + 4.0 * (3.0 - 2.0 * w) * 2.0

    np.testing.assert_allclose(tj.grad(loss)(1.0), expected(1.0))

    def straight(x: Any) -> Any:
        return normal("y", normal("w", 0.0, 1.0) * x, 0.5)

    batch = tj.jit(tj.vmap(tj.grad(lambda w: scored(straight, 2.0, w=w, y=3.0)[0])))(np.array([1.0, -2.0]))
    np.testing.assert_allclose(batch, [expected(1.0), expected(-2.0)])
    inner: list[Any] = []

    def nested(x: Any) -> Any:
        inner.append(scored(straight, 2.0, w=1.0, y=3.0))
        return normal("z", x, 1.0)

    total, steps = scored(nested, 0.0, z=1.0)
    np.testing.assert_allclose(total, -0.5)
    np.testing.assert_allclose(np.asarray(inner[0][1]), 3)
    assert steps > 1  # the inner one's methods compute in the outer one
