"""Interpreters follow what derivative rules compute, and don't guess: functions whose rules say something else than
what the functions do, and primitives that no interpreter has heard of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
import pytest
from attrs import frozen
from typing_extensions import override

import tinyjax as tj
from tinyjax import ShapedArray, lax
from tinyjax import numpy as tnp
from tinyjax.errors import ForwardModeError
from tinyjax.extend import BatchAxis, Context, Outputs, Primitive, Zero, as_array, bind
from tinyjax.hlo import RULES, on_host
from tinyjax.interpreters import jacobian_sparsity, jet, sparse_jacobian
from tinyjax.ir import DType, HostArray
from tinyjax.ir.dtypes import FLOATS
from tinyjax.primitives.elementwise import Stepwise
from tinyjax.primitives.structure import Transpose, instantiate

V = TypeVar("V")
X = np.array([0.3, 1.2, 2.6, 3.1])
Function = Callable[[Any], Any]


@tj.custom_jvp
def straight_through(x: Any) -> Any:
    return tnp.round(x)


straight_through.defjvp(lambda primals, tangents: (straight_through(primals[0]), tangents[0]))


@tj.custom_jvp
def flat(x: Any) -> Any:
    return tnp.sin(x)


flat.defjvp(lambda primals, tangents: (flat(primals[0]), tnp.zeros_like(tangents[0])))


@tj.custom_jvp
def reversing(x: Any, y: Any) -> Any:
    return x * y


@reversing.defjvp
def _reversing(primals: Any, tangents: Any) -> Any:
    (x, y), (s, t) = primals, tangents
    return reversing(x, y), straight_through(y) * s[::-1] + tnp.where(x > 1.0, t, 0.0)


@tj.custom_jvp
def rolling(x: Any) -> Any:
    return tnp.floor(x)


rolling.defjvp(lambda p, t: (rolling(p[0]), lax.fori_loop(0, 1, lambda i, c: tnp.roll(c, 1) + t[0], t[0])))


@tj.custom_jvp
def picky(x: Any) -> Any:
    """Its rule isn't linear."""
    return x


picky.defjvp(
    lambda p, t: (picky(p[0]), lax.cond(t[0][1] > 0.0, lambda: tnp.sign(t[0][::-1]), lambda: tnp.ones_like(t[0])))
)


@tj.custom_vjp
def swapped(x: Any, y: Any) -> Any:
    return tnp.round(x) + y


swapped.defvjp(lambda x, y: (swapped(x, y), x), lambda x, ct: (ct[::-1], tnp.cos(x) * tnp.roll(ct, 1)))


@tj.custom_vjp
def signed(x: Any) -> Any:
    return x


signed.defvjp(lambda x: (signed(x), None), lambda _, ct: (tnp.sign(ct) * (tnp.abs(ct) > 0.0),))


@tj.custom_vjp
def while_positive(x: Any) -> Any:
    return x


while_positive.defvjp(
    lambda x: (x, None), lambda _, ct: (lax.while_loop(lambda c: (c[0] > 0.0) & (c[1] < 9.0), lambda c: c + 1.0, ct),)
)


@frozen
class Passing(Stepwise):
    """Rounds, with another derivative than the one of the class it is based on."""

    name: ClassVar[str] = "passing"
    accepts: ClassVar[frozenset[DType]] = FLOATS

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        return (np.floor(np.asarray(args[0], np.float64)),)

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        return ctx.bind(self, *primals), [instantiate(ctx, t) for t in tangents]


@frozen
class Reversal(Primitive):
    """A primitive without any rule for interpreters."""

    name: ClassVar[str] = "reversal"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return avals

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        return tuple(arg[..., ::-1] for arg in args)

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        return ctx.bind(self, *primals), ctx.bind(self, *[instantiate(ctx, t) for t in tangents])

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        (x,), (at,) = args, axes
        assert at == 0 or ctx.aval(x).ndim == 2
        return ctx.bind(self, x if at == 0 else ctx.bind(Transpose((1, 0)), x)[0]), [0]


RULES[Passing] = on_host
RULES[Reversal] = on_host


def passing(x: Any) -> Any:
    return bind(Passing(), as_array(x))[0]


def reversal(x: Any) -> Any:
    return bind(Reversal(), as_array(x))[0]


#: With a rule for forward mode.
FORWARD: dict[str, Function] = {
    "straight through": lambda x: 2.0 * straight_through(x) ** 2,
    "flat": lambda x: flat(x) * x[0],
    "reversing": lambda x: reversing(x, tnp.roll(x, 1)),
    "rolling": rolling,
    "of a rule": lambda x: tj.jvp(lambda x: reversing(x, x), (x,), (x * x,))[1],
    "stop_gradient": lambda x: lax.stop_gradient(x) * x + lax.stop_gradient(tnp.roll(x, 1)),
    "passing": passing,
    "reversal": lambda x: reversal(x) * x,
}
#: In which a function stands.
AROUND: dict[str, Callable[[Function], Function]] = {
    "plain": lambda f: f,
    "jit": tj.jit,
    "checkpoint": tj.checkpoint,
    "vmap": lambda f: lambda x: tj.vmap(f)(tnp.stack([x, x[::-1]])),
    "scan": lambda f: lambda x: lax.scan(lambda c, _: (f(c), c), x, None, length=2),
    "while": lambda f: lambda x: lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, f(c[1])), (0, x))[1],
    "cond": lambda f: lambda x: lax.cond(x[0] > 2.0, lambda x: x, f, x),
}


def dense(f: Function, mode: Callable[..., Any]) -> Any:
    rows = tj.tree.leaves(mode(f)(X))
    return np.concatenate([np.asarray(row).reshape(-1, X.size) for row in rows])


@pytest.mark.parametrize(
    ("name", "around"),
    [(f, a) for f in FORWARD for a in AROUND if a == "plain" or f in ("straight through", "reversal")],
)
def test_patterns_cover_what_forward_rules_compute(name: str, around: str) -> None:
    f = AROUND[around](FORWARD[name])
    found = dense(f, tj.jacfwd)
    pattern = jacobian_sparsity(f, ShapedArray(X.shape, "float64"))
    assert not np.any(found[~pattern])
    if not isinstance(f(X), tuple):
        values = sparse_jacobian(f)(X).todense()
        np.testing.assert_allclose(np.asarray(values).reshape(found.shape), found)


BACKWARD: dict[str, Function] = {
    "swapped": lambda x: swapped(x, x * x),
    "swapped of constants": lambda x: swapped(x, X),
    "signed": signed,
    "while positive": while_positive,
}


@pytest.mark.parametrize(
    ("name", "around"), [(f, a) for f in BACKWARD for a in AROUND if a == "plain" or (f == "swapped" and a != "while")]
)
def test_patterns_cover_what_backward_rules_compute(name: str, around: str) -> None:
    f = AROUND[around](BACKWARD[name])
    pattern = jacobian_sparsity(f, X)
    assert not np.any(dense(f, tj.jacrev)[~pattern])


def test_patterns_of_rules_are_exact_where_they_can_be() -> None:
    for f, expected in (
        (straight_through, np.eye(4)),
        (flat, np.zeros((4, 4))),
        (rolling, np.eye(4) + np.roll(np.eye(4), 1, 0)),
        (lambda x: swapped(x, X), np.eye(4)[::-1]),
        (signed, np.eye(4)),
        (lambda x: reversing(x, X)[1:], np.eye(4)[::-1][1:]),
    ):
        np.testing.assert_array_equal(jacobian_sparsity(f, X), expected != 0)


def test_rules_that_arent_linear() -> None:
    """What a tangent decides depends on it."""
    pattern = jacobian_sparsity(picky, X)
    for point in np.eye(4):
        for other in np.eye(4):
            changed = np.asarray(tj.jvp(picky, (X,), (point,))[1]) != tj.jvp(picky, (X,), (other,))[1]
            moved = pattern[:, (point != other)].any(axis=1)
            assert not np.any(changed & ~moved)


def along(f: Function, order: int) -> list[Any]:
    """The derivatives of f along a curve, by forward mode within forward mode."""

    curve: Function = lambda t: (  # noqa: E731
        f(X + t * np.array([1.0, 0.5, -1.0, 2.0]) + t * t)
    )

    def derivative(g: Function) -> Function:
        return lambda t: tj.jvp(g, (t,), (1.0,))[1]

    found = []
    for _ in range(order):
        curve = derivative(curve)
        found.append(curve(0.0))
    return found


@pytest.mark.parametrize("name", FORWARD)
def test_jet_agrees_with_nested_jvp(name: str) -> None:
    f, direction = FORWARD[name], np.array([1.0, 0.5, -1.0, 2.0])
    series = (direction, np.full(4, 2.0), np.zeros(4))
    _, found = jet(f, (X,), (series,))
    np.testing.assert_allclose(np.stack(found), np.stack(along(f, 3)), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", BACKWARD)
def test_jet_refuses_what_jvp_refuses(name: str) -> None:
    with pytest.raises(ForwardModeError, match="custom_vjp"):
        tj.jvp(BACKWARD[name], (X,), (X,))
    with pytest.raises(ForwardModeError, match="custom_vjp"):
        jet(BACKWARD[name], (X,), ((X, X),))
