"""What is linear is transposed, and what isn't is refused, however it is wrapped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias, TypeVar

import numpy as np
import pytest
from attrs import frozen
from typing_extensions import override

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.transforms.checks import VECTOR
from tinyjax import lax, transforms
from tinyjax.contexts.staging import stage
from tinyjax.control.composite import Composite
from tinyjax.errors import LinearityError, MissingRuleError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.interpret import interpret
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Jaxpr
from tinyjax.primitives.elementwise import add, mul
from tinyjax.tracing.core import bind

V = TypeVar("V")


def program(f: Callable[..., object], *avals: ShapedArray) -> Jaxpr:
    """The program of a function, with equations for the arrays that it closes over."""
    closed = tj.make_jaxpr(f)(*avals)
    return stage(avals, lambda ctx, ins: interpret(ctx, closed.jaxpr, [*map(ctx.constant, closed.consts), *ins]))


Function: TypeAlias = Callable[[tj.Array], tj.Array]

X: Final = np.array([0.5, -1.0, 2.0])
MATRIX: Final = np.arange(6.0).reshape(3, 2)
SOME: Final = np.array([True, False, True])


@frozen
class Doubled(Composite):
    """twice(x) = x + x."""

    name = "doubled"

    @override
    def decompose(self, ctx: Context[V], *args: V) -> list[V]:
        (x,) = args
        return [add(ctx, x, x)]


@frozen
class Squared(Composite):
    """x times itself."""

    name = "squared"

    @override
    def decompose(self, ctx: Context[V], *args: V) -> list[V]:
        (x,) = args
        return [mul(ctx, x, x)]


LINEAR: Final[dict[str, Function]] = {
    "identity": lambda x: x,
    "scaled": lambda x: 2.0 * x / 3.0,
    "negative": lambda x: -x - x,
    "plus zero": lambda x: x + 0.0,
    "plus zeros": lambda x: x + np.zeros(3),
    "plus zeros made": lambda x: x + tnp.zeros(3) * np.ones(3),
    "zeros": lambda x: tnp.zeros(3),
    "sum": lambda x: tnp.sum(x) * np.ones(3),
    "matrix": lambda x: x @ MATRIX,
    "where": lambda x: tnp.where(SOME, x, 0.0),
    "where, both": lambda x: tnp.where(SOME, 2.0 * x, -x),
    "concatenated": lambda x: tnp.concatenate([x, np.zeros(2), x]),
    "padded": lambda x: tnp.pad(x, 1),
    "gathered": lambda x: x[np.array([0, 0, 2])],
    "sliced": lambda x: x[::2],
    "dynamic": lambda x: lax.dynamic_slice(x, (np.int32(1),), (2,)),
    "scattered": tnp.zeros(5).at[np.array([1, 1, 4])].add,
    "updated": tnp.zeros(5).at[1:4].set,
    "reversed cumsum": lambda x: tnp.cumsum(x[::-1]),
    "complex": lambda x: tnp.real(1j * (1j * x)),
    "converted": lambda x: x.astype("float32").astype("float64"),
    "diff": tnp.diff,
    "mean": lambda x: x - tnp.mean(x),
    "transposed": lambda x: tnp.outer(x, np.ones(2)).T,
    "derivative": lambda x: tj.jvp(tnp.sin, (X,), (x,))[1],
    "composite": lambda x: bind(Doubled(), x)[0],
    "scan": lambda x: lax.scan(lambda c, y: (c + 2.0 * y, c), np.zeros(()), x)[1],
    "scan of a counter": lambda x: lax.scan(lambda c, y: ((c[0] + 1, c[1] * c[0] + y), c[1]), (0, 0.0), x)[1],
    "cond": lambda x: lax.cond(np.array(True), lambda y: 2.0 * y, lambda y: y * 0.0, x),
    "plus zeros set in zeros": lambda x: x + tnp.zeros(3).at[1:].set(tnp.zeros(2)),
    "unused": lambda x: (x > 0.0, tnp.cos(x), x)[2],
}

NONLINEAR: Final[dict[str, tuple[Function, str]]] = {
    "plus one": (lambda x: x + 1.0, "add is linear in its operands together, but operand 1 .* = add . 1.0"),
    "one minus": (lambda x: 1.0 - x, "sub is linear in its operands together, but operand 0 .* = sub 1.0 ."),
    "plus an array": (lambda x: x + np.ones(3), "add is linear in its operands together"),
    "cos": (tnp.cos, "cos is not linear.* = cos ."),
    "square": (lambda x: x * x, "mul is linear in each of its operands, but not in both together.* = mul (.) \\1"),
    "power": (lambda x: x**3, "integer_pow is not linear"),
    "reciprocal": (lambda x: 1.0 / x, "div is linear in the dividend, but not in the divisor"),
    "abs": (tnp.abs, "abs is not linear"),
    "max": (lambda x: tnp.maximum(x, 0.0), "max is not linear"),
    "sort": (tnp.sort, "sort.* is not linear"),
    "where of itself": (lambda x: tnp.where(x > 0.0, x, 0.0), "gt is not linear"),
    "where, else one": (lambda x: tnp.where(SOME, x, 1.0), "select_n is linear in its operands together"),
    "matrix of itself": (lambda x: x @ x, "dot_general is linear in each of its operands"),
    "padded with ones": (lambda x: tnp.pad(x, 1, constant_values=1.0), "is linear in its operands together"),
    "joined with ones": (lambda x: tnp.concatenate([x, np.ones(1)]), "concatenate is linear in its operands together"),
    "set in ones": (tnp.ones(5).at[1:4].set, "is linear in its operands together"),
    "constant": (lambda x: tnp.ones(3), "output 0 doesn't depend on the linear inputs"),
    "plus products in place": (lambda x: x + tnp.ones(3).at[0].multiply(2.0), "add is linear in its operands"),
    "composite": (lambda x: bind(Squared(), x)[0], "mul is linear in each of its operands"),
    "rounded": (lambda x: x.astype("int32").astype("float64"), r"convert_element_type gives i32\[3\]"),
    "scan": (lambda x: lax.scan(lambda c, y: (c * y, c), 1.0, x)[1], ""),
    "scan from one": (lambda x: lax.scan(lambda c, y: (c + y, c), 1.0, x)[0], "add is linear in its operands"),
    "cond": (lambda x: lax.cond(np.array(True), lambda y: y, lambda y: y * 0.0 + 1.0, x), ""),
    "cond of itself": (lambda x: lax.cond(x[0] > 0.0, lambda y: y, lambda y: 2.0 * y, x), ""),
}


def custom(f: Function) -> Function:
    def of_one(x: tj.Array) -> tj.Array:
        return f(x)

    wrapped = tj.custom_jvp(of_one)
    wrapped.defjvp(lambda primals, tangents: tj.jvp(f, primals, tangents))
    return wrapped


WRAPPED: Final[dict[str, Callable[[Function], Function]]] = {
    "plain": lambda f: f,
    "jit": tj.jit,
    "checkpoint": tj.checkpoint,
    "cond": lambda f: lambda x: lax.cond(np.array(False), f, f, x),
    "scan": lambda f: lambda x: lax.scan(lambda c, y: (c, f(y)), 0.0, x[None])[1][0],
    "custom_jvp": custom,
}


@pytest.mark.parametrize("wrap", WRAPPED.values(), ids=WRAPPED.keys())
@pytest.mark.parametrize("f", LINEAR.values(), ids=LINEAR.keys())
def test_what_is_linear_is_transposed(f: Function, wrap: Callable[[Function], Function]) -> None:
    wrapped = wrap(f)
    out = np.asarray(f(tnp.asarray(X)))
    ct = np.cos(np.arange(out.size, dtype=out.dtype).reshape(out.shape))
    (found,) = tj.linear_transpose(wrapped, X)(ct)
    np.testing.assert_allclose(np.sum(np.asarray(found) * X), np.sum(ct * out), rtol=1e-6, atol=1e-12)
    transforms.transpose(program(wrapped, VECTOR), [True])


@pytest.mark.parametrize("wrap", WRAPPED.values(), ids=WRAPPED.keys())
@pytest.mark.parametrize(("f", "message"), NONLINEAR.values(), ids=NONLINEAR.keys())
def test_what_is_not_is_refused(f: Function, message: str, wrap: Callable[[Function], Function]) -> None:
    """And the error names the equation."""
    pattern = f"the program is not linear: .*{message}"
    with pytest.raises(LinearityError, match=f"(?s)^linear_transpose of .*{pattern}"):
        tj.linear_transpose(wrap(f), X)
    with pytest.raises(LinearityError, match=f"(?s)^transpose: {pattern}"):
        transforms.transpose(program(wrap(f), VECTOR), [True])


def test_what_is_not_asked_for_may_be_anything() -> None:
    both = program(lambda x: (2.0 * x, tnp.cos(x), 1.0), VECTOR)
    transforms.transpose(both, [True], [True, False, False])
    with pytest.raises(LinearityError, match="cos is not linear"):
        transforms.transpose(both, [True])
    with pytest.raises(LinearityError, match="output 2 doesn't depend on the linear inputs"):
        transforms.transpose(both, [True], [True, False, True])


def test_known_inputs_are_known() -> None:
    product = program(lambda a, x: tnp.sin(a) * x, VECTOR, VECTOR)
    transforms.transpose(product, [False, True])
    with pytest.raises(LinearityError, match="sin is not linear"):
        transforms.transpose(product, [True, False])
    with pytest.raises(LinearityError, match="but operand 0 doesn't depend"):
        transforms.transpose(program(lambda a, x: a + x, VECTOR, VECTOR), [False, True])


@pytest.mark.parametrize("f", [f for f, _ in NONLINEAR.values()], ids=NONLINEAR.keys())
def test_the_derivative_of_anything_is_linear(f: Function) -> None:
    for wrap in WRAPPED.values():
        parts = transforms.linearize(program(wrap(f), VECTOR))
        linear = [False] * len(parts.residuals) + [True] * sum(parts.nonzero_in)
        transforms.transpose(parts.linear, linear)


@frozen
class Opaque(Primitive):
    """A primitive of a user's that says nothing of its transpose."""

    name = "opaque"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return avals


def test_a_users_primitive_is_linear_if_it_can_be_transposed() -> None:
    with pytest.raises(MissingRuleError, match=r"Transpose rule .*for 'opaque' not implemented.*define the method"):
        transforms.transpose(program(lambda x: bind(Opaque(), x)[0], VECTOR), [True])


def test_lines_are_told() -> None:
    with pytest.raises(LinearityError, match=rf"(?s)= cos a.*The equation comes from {__file__}:\d+"):
        tj.linear_transpose(lambda x: 2.0 * tnp.cos(x), X)
