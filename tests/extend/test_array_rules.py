"""Rules written with arrays, in every nesting of transformations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
from attrs import frozen
from typing_extensions import override

import tinyjax as tj
from tinyjax import Array, ArrayLike, ShapedArray, lax
from tinyjax import numpy as tnp
from tinyjax.errors import InputError, LeakedTracerError, MissingRuleError
from tinyjax.extend import ArrayPrimitive, BatchAxis, UndefPrimal, Zero, as_array, bind, run_in
from tinyjax.interpreters import jet
from tinyjax.ir import HostArray

Function = Callable[..., Any]


@frozen
class MultiplyAdd(ArrayPrimitive):
    """x * y + z, for operands of one shape."""

    name: ClassVar[str] = "multiply_add"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        x, y, z = avals
        if not x.shape == y.shape == z.shape:
            raise tj.TinyjaxError(f"multiply_add needs operands of equal shapes, got {x}, {y}, {z}")
        return (ShapedArray(x.shape, x.dtype),)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        x, y, z = args
        return (np.asarray(np.add(np.multiply(x, y), z)),)

    @override
    def jvp_arrays(self, primals: Sequence[Array], tangents: Sequence[Array | Zero]) -> tuple[Array, Array]:
        x, y, z = primals
        tx, ty, tz = tangents
        assert not isinstance(tx, Zero)
        assert not isinstance(ty, Zero)
        assert not isinstance(tz, Zero)
        return multiply_add(x, y, z), multiply_add(tx, y, x * ty + tz)

    @override
    def batch_arrays(
        self, axis: BatchAxis, args: Sequence[Array], axes: Sequence[int | None]
    ) -> tuple[Array, int | None]:
        def leading(x: Array, at: int | None) -> Array:
            return tnp.stack([x] * axis.size) if at is None else tnp.moveaxis(x, at, 0)

        return multiply_add(*map(leading, args, axes)), 0

    @override
    def transpose_arrays(
        self, cotangents: Sequence[Array | Zero], args: Sequence[Array | UndefPrimal]
    ) -> list[Array | None]:
        (ct,), (x, y, z) = cotangents, args
        assert not isinstance(ct, Zero)
        return [
            ct * y if isinstance(x, UndefPrimal) and not isinstance(y, UndefPrimal) else None,
            x * ct if isinstance(y, UndefPrimal) and not isinstance(x, UndefPrimal) else None,
            ct if isinstance(z, UndefPrimal) else None,
        ]


def multiply_add(x: Array, y: Array, z: Array) -> Array:
    return bind(MultiplyAdd(), x, y, z)[0]


@tj.hlo.RULES.register(MultiplyAdd)
def _lower(
    primitive: MultiplyAdd, ctx: tj.hlo.LoweringContext, args: Sequence[tj.hlo.SSA], types: Sequence[ShapedArray]
) -> Sequence[tj.hlo.SSA]:
    return run_in(ctx, lambda x, y, z: x * y + z, *args)


@frozen
class Softsign(ArrayPrimitive):
    """Rules that branch on what is known, and that use transformations."""

    name: ClassVar[str] = "softsign"
    symbolic_zeros: ClassVar[bool] = True

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return avals

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        return (np.divide(args[0], np.add(1.0, np.abs(args[0]))),)

    @override
    def jvp_arrays(self, primals: Sequence[Array], tangents: Sequence[Array | Zero]) -> tuple[Array, Array]:
        (x,), (t,) = primals, tangents
        assert not isinstance(t, Zero)
        return softsign(x), tj.jit(lambda x, t: t / (1.0 + tnp.abs(x)) ** 2)(x, t)

    @override
    def batch_arrays(
        self, axis: BatchAxis, args: Sequence[Array], axes: Sequence[int | None]
    ) -> tuple[Array, int | None]:
        return softsign(args[0]), axes[0]


def softsign(x: Any) -> Array:
    return bind(Softsign(), as_array(x))[0]


@tj.hlo.RULES.register(Softsign)
def _lower_softsign(
    primitive: Softsign, ctx: tj.hlo.LoweringContext, args: Sequence[tj.hlo.SSA], types: Sequence[ShapedArray]
) -> Sequence[tj.hlo.SSA]:
    return run_in(ctx, lambda x: x / (1.0 + tnp.abs(x)), *args)


def mine(x: Any, y: Any) -> Any:
    x, y = as_array(x), as_array(y)
    return multiply_add(x, softsign(y), multiply_add(x, x, tnp.sin(y)))


def plain(x: Any, y: Any) -> Any:
    return x * (y / (1.0 + tnp.abs(y))) + (x * x + tnp.sin(y))


X, Y = np.array([0.5, -1.5, 2.0]), np.array([1.0, -2.0, 0.25])
#: Nestings, of functions of two vectors.
NESTINGS: dict[str, Callable[[Function], Function]] = {
    "plain": lambda f: f,
    "jit": tj.jit,
    "jvp": lambda f: lambda x, y: tj.jvp(f, (x, y), (y, x)),
    "jvp of one": lambda f: lambda x, y: tj.jvp(lambda x: f(x, y), (x,), (y,)),
    "grad": lambda f: tj.grad(lambda x, y: f(x, y).sum(), argnums=(0, 1)),
    "vmap": tj.vmap,
    "vmap of one": lambda f: lambda x, y: tj.vmap(f, in_axes=(None, 0))(x, np.stack([y, x])),
    "jit of grad": lambda f: tj.jit(tj.grad(lambda x, y: f(x, y).sum())),
    "grad of jit": lambda f: tj.grad(lambda x, y: tj.jit(f)(x, y).sum()),
    "jit of vmap of grad of grad": lambda f: tj.jit(
        tj.vmap(tj.grad(lambda x, y: tj.grad(f)(x, y) * tj.grad(f, 1)(x, y)))
    ),
    "vmap of jit of vmap": lambda f: lambda x, y: tj.vmap(tj.jit(tj.vmap(f)))(np.stack([x, y]), np.stack([y, y])),
    "hessian": lambda f: tj.hessian(lambda x, y: (f(x, y) ** 2).sum()),
    "jacobians": lambda f: lambda x, y: (tj.jacfwd(f)(x, y), tj.jacrev(f, 1)(x, y)),
    "linearize": lambda f: lambda x, y: tj.linearize(f, x, y)[1](y, x),
    "checkpoint": lambda f: tj.grad(lambda x, y: tj.checkpoint(f)(x, y).sum()),
    "scan": lambda f: tj.grad(lambda x, y: lax.scan(lambda c, v: (f(c, v), c), x, tnp.stack([y, x]))[0].sum()),
    "cond": lambda f: tj.vmap(tj.grad(lambda x, y: lax.cond(x > 0.0, f, lambda x, y: x, x, y))),
    "while": lambda f: (
        lambda x, y: tj.jvp(
            lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, f(c[1], y)), (0, x))[1], (x,), (y,)
        )
    ),
    "jet": lambda f: lambda x, y: jet(f, (x, y), ((y, x, x), (x, y, x))),
    "vjp of jvp": lambda f: lambda x, y: tj.vjp(lambda x: tj.jvp(f, (x, y), (x, x))[1], x)[1](y),
}


@pytest.mark.parametrize("name", NESTINGS)
def test_nestings(name: str) -> None:
    nest = NESTINGS[name]
    tj.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), nest(mine)(X, Y), nest(plain)(X, Y))


def test_rules_branch_on_what_is_known() -> None:
    seen: list[str] = []

    class Clever(Softsign):
        name = "clever"

        @override
        def jvp_arrays(self, primals: Sequence[Array], tangents: Sequence[Array | Zero]) -> tuple[Array, Array]:
            (x,), (t,) = primals, tangents
            seen.append("positive" if x > 0.0 else "negative")
            return super().jvp_arrays(primals, [t])

    def f(x: ArrayLike) -> Array:
        return bind(Clever(), as_array(x))[0]

    np.testing.assert_array_equal(tj.grad(f)(1.0), tj.grad(softsign)(1.0))
    tj.jvp(f, (-1.0,), (1.0,))
    tj.grad(tj.grad(f))(-1.0)
    assert seen == ["positive", "negative", "negative"]
    with pytest.raises(tj.errors.ConcretizationError, match="traced by jit of"):
        tj.jit(tj.grad(f))(1.0)


def test_weak_results_take_the_dtype() -> None:
    class Constant(Softsign):
        name = "constant_slope"

        @override
        def jvp_arrays(self, primals: Sequence[Array], tangents: Sequence[Array | Zero]) -> Any:
            return softsign(primals[0]), 3.0

    (_, t) = tj.jvp(lambda x: bind(Constant(), as_array(x))[0], (np.float32(1.0),), (np.float32(1.0),))
    assert t.dtype == np.float32


def test_zeros_are_symbolic_where_asked_for() -> None:
    seen: list[object] = []

    @frozen
    class Second(ArrayPrimitive):
        name: ClassVar[str] = "second"
        symbolic_zeros: ClassVar[bool] = True

        @override
        def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
            return avals[1:]

        @override
        def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
            return args[1:]

        @override
        def jvp_arrays(self, primals: Sequence[Array], tangents: Sequence[Array | Zero]) -> Any:
            seen.extend(tangents)
            return primals[1], tangents[1]

    out = tj.jvp(lambda x: bind(Second(), x, as_array(3.0))[0], (as_array(1.0),), (1.0,))
    assert [float(x) for x in out] == [3.0, 0.0]
    assert [type(t) for t in seen][1] is Zero


def test_what_goes_wrong() -> None:
    class Nothing(Softsign):
        name = "nothing"

        @override
        def jvp_arrays(self, primals: Sequence[Array], tangents: Sequence[Array | Zero]) -> Any:
            return softsign(primals[0]), [tangents[0], tangents[0]]

    with pytest.raises(InputError, match="the derivative rule of 'nothing' returns 1 outputs and 2 tangents"):
        tj.grad(lambda x: bind(Nothing(), as_array(x))[0])(1.0)

    @frozen
    class Bare(ArrayPrimitive):
        name: ClassVar[str] = "bare"

        @override
        def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
            return avals

        @override
        def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
            return args

    def bare(x: Any) -> Array:
        return bind(Bare(), as_array(x))[0]

    with pytest.raises(MissingRuleError, match=r"Differentiation rule for 'bare' .* `jvp_arrays` of Bare"):
        tj.grad(bare)(1.0)
    with pytest.raises(MissingRuleError, match=r"Batching rule for 'bare' .* `batch_arrays` of Bare"):
        tj.vmap(bare)(X)
    with pytest.raises(MissingRuleError, match=r"Transpose rule .* for 'bare' .* `transpose_arrays` of Bare"):
        tj.linear_transpose(bare, 1.0)(1.0)

    kept: list[Array] = []

    class Leaky(Softsign):
        name = "leaky"

        @override
        def jvp_arrays(self, primals: Sequence[Array], tangents: Sequence[Array | Zero]) -> Any:
            kept.extend(primals)
            return super().jvp_arrays(primals, tangents)

    tj.grad(lambda x: bind(Leaky(), as_array(x))[0])(1.0)
    with pytest.raises(LeakedTracerError, match="the derivative rule of 'leaky'"):
        kept[0] + 1.0
    outer: list[Array] = []

    class Closing(Softsign):
        name = "closing"

        @override
        def jvp_arrays(self, primals: Sequence[Array], tangents: Sequence[Array | Zero]) -> Any:
            return primals[0] * outer[0], tangents[0]

    def closing(x: Any) -> Any:
        outer[:] = [x]
        return bind(Closing(), x)[0]

    with pytest.raises(LeakedTracerError):
        tj.grad(closing)(1.0)
