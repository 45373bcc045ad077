"""Operations outside of all transformations take a short way once they have been met. It leads to the same place."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.numpy.oracle import DTYPES
from tinyjax import Array, lax
from tinyjax.errors import InputError, ShapeError, TinyjaxError, TypingError
from tinyjax.ir.primitive import Primitive
from tinyjax.prepared.table import TABLE
from tinyjax.primitives.arithmetic import div, max_, min_, rem
from tinyjax.primitives.bitwise import logical_and, logical_or, logical_xor, shift_left
from tinyjax.primitives.comparison import eq, lt, ne
from tinyjax.primitives.elementwise import add, mul, sub
from tinyjax.primitives.exponential import pow_
from tinyjax.primitives.selection import select_n
from tinyjax.primitives.trigonometric import atan2
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind

Binary = Callable[[Array, Array], Array]
OPERATIONS: dict[str, Binary] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">=": operator.ge,
    "maximum": tnp.maximum,
    "minimum": tnp.minimum,
    "arctan2": tnp.arctan2,
    "float_power": tnp.float_power,
    "nextafter": tnp.nextafter,
    "where": lambda x, y: tnp.where(x == y, x, y),
    "where not zero": lambda x, y: tnp.where(-x, x, y),
    "matmul": lambda x, y: tnp.matmul(tnp.ravel(x), tnp.ravel(y)) if x.shape == y.shape else x,
}
PRIMITIVES: list[Primitive] = [
    add,
    sub,
    mul,
    div,
    rem,
    max_,
    min_,
    logical_and,
    logical_or,
    logical_xor,
    shift_left,
    eq,
    ne,
    lt,
    pow_,
    atan2,
]
SCALARS = [True, 3, 2.5, 1.5 - 0.5j]


@pytest.fixture(autouse=True)
def _nothing_met() -> Iterator[None]:
    TABLE.clear()
    yield
    TABLE.clear()


def outcome(f: Binary, x: Array, y: Array) -> object:
    """The type and the bits of the result, or the error. All nan are one: nothing fixes their bits."""
    try:
        found = f(x, y)
    except TinyjaxError as error:
        return type(error), str(error)
    values = np.array(found).reshape(-1)
    parts = values.view(values.real.dtype) if np.iscomplexobj(values) else values
    if np.isnan(parts).any():
        parts[np.isnan(parts)] = np.nan
    return found.aval, values.tobytes()


def operands() -> list[Array]:
    arrays = [tnp.asarray(np.asarray([1, 0, 3]).astype(dtype)) for dtype in DTYPES]
    arrays += [tnp.asarray(np.asarray(2).astype(dtype)) for dtype in ("bool", "int32", "float32", "float64")]
    return [*arrays, tnp.asarray(np.ones((2, 1))), *map(as_array, SCALARS)]


@pytest.mark.sweep
@pytest.mark.parametrize("name", OPERATIONS)
def test_the_same_when_met_before(name: str) -> None:
    """Whatever else has been applied to such operands, and as often as one likes."""
    f = OPERATIONS[name]
    pairs = list(itertools.product(operands(), operands()))
    first = []
    for x, y in pairs:
        TABLE.clear()
        first.append(outcome(f, x, y))
    TABLE.clear()
    for primitive in PRIMITIVES:
        for x, y in pairs:
            outcome(lambda x, y: bind(primitive, x, y)[0], x, y)  # noqa: B023 (called at once)
    for x, y in pairs:
        outcome(lambda x, y: bind(select_n, x, y, y)[0], x, y)
    assert len(TABLE.entries) > 500
    for _ in range(2):
        assert [outcome(f, x, y) for x, y in pairs] == first


@pytest.mark.parametrize("primitive", PRIMITIVES, ids=lambda primitive: primitive.name)
def test_primitives_neither_promote_nor_broadcast(primitive: Primitive) -> None:
    x, row = tnp.ones((2, 3)), tnp.ones(3)
    for f in OPERATIONS.values():
        outcome(f, x, row)
        outcome(f, x, tnp.ones((2, 3), "float32"))
    with pytest.raises((ShapeError, TypingError)):
        bind(primitive, x, row)
    if primitive is not pow_:
        with pytest.raises(TypingError):
            bind(primitive, x, tnp.ones((2, 3), "float32"))


def test_operands_without_promotion_are_reported_each_time() -> None:
    x = tnp.asarray(np.ones(3, np.int8))
    for _ in range(2):
        assert (x + 1).dtype == np.int8
        with pytest.raises(InputError, match="1000 doesn't fit in int8"):
            x + 1000


def test_signs_of_zeros() -> None:
    """They are one key, but not one number."""
    one = tnp.asarray(np.float32(1))
    for zero in (0.0, -0.0, 0.0):
        assert np.signbit(np.asarray(one * zero)) == np.signbit(zero)
        number = complex(1.0, zero)
        assert np.signbit(np.asarray(as_array(number)).imag) == np.signbit(zero)
        chosen = tnp.where(tnp.ones(1, bool), number, tnp.ones(1, "complex64"))
        assert chosen.dtype == np.complex64
        assert np.signbit(np.asarray(chosen).imag) == np.signbit(zero)


VIEWS: dict[str, Callable[[Array], Array]] = {
    "reshape": lambda x: x.reshape(3, 2),
    "ravel": tnp.ravel,
    "transpose": lambda x: x.T,
    "squeeze": lambda x: tnp.squeeze(x[None]),
    "slice": lambda x: x[1:],
    "element": lambda x: x[0, 1],
    "strided": lambda x: x[:, ::2],
    "reversed": lambda x: x[::-1],
    "new axis": lambda x: x[None],
    "broadcast": lambda x: tnp.broadcast_to(x, (4, 2, 3)),
    "diagonal": tnp.diagonal,
    "sum of nothing": lambda x: tnp.sum(x, axis=()),
    "sum": lambda x: tnp.sum(x, 0),
    "maximum": lambda x: tnp.max(x, 1),
    "astype": lambda x: x.astype("float64"),
    "copy": lambda x: x.copy(),
    "stop_gradient": lax.stop_gradient,
    "select": lambda x: lax.select_n(tnp.zeros((2, 3), bool), x),
    "real": tnp.real,
    "sort": lambda x: tnp.sort(x, 0),
    "concatenate": lambda x: tnp.concatenate([x]),
}


@pytest.mark.parametrize("name", VIEWS)
def test_results_are_nobody_elses(name: str) -> None:
    """Neither writing to the operand's elements nor to the result's can change a result."""
    for _ in range(3):
        elements = np.arange(6.0).reshape(2, 3)
        x = tnp.asarray(elements)
        found = VIEWS[name](x)
        before = np.array(found)
        if found is not x:
            elements[:] = -1
        np.testing.assert_array_equal(np.asarray(found), before)
        assert not np.asarray(found).flags.writeable


def test_in_a_transformation_nothing_is_computed_at_once() -> None:
    x = tnp.arange(3.0)
    assert float(tnp.sum(x * x)) == 5.0
    program = tj.make_jaxpr(lambda: tnp.sum(x * x))().jaxpr
    assert [eqn.primitive.name for eqn in program.eqns] == ["mul", "reduce_sum"]
    assert len(tj.make_jaxpr(lambda y: y + x * x)(1.0).jaxpr.eqns) == 2
    watched = tj.watch(lambda: x * x)()
    assert "mul" in str(watched)
    np.testing.assert_array_equal(np.asarray(tj.grad(lambda y: tnp.sum(x * x * y))(2.0)), 5.0)
    np.testing.assert_array_equal(
        np.asarray(tj.vmap(lambda y: x * x * y)(x)), np.outer(np.arange(3), np.arange(3) ** 2)
    )


def test_numpy_says_nothing() -> None:
    zero, x = tnp.zeros(3), tnp.arange(3.0)
    with np.errstate(all="raise"):
        for _ in range(2):
            assert np.isinf(np.asarray(1.0 / zero)).all()
            assert np.isnan(np.asarray(tnp.sum(x / zero)))
            assert np.isinf(np.asarray(tnp.prod(tnp.full(3, 1e300))))
            assert np.isinf(np.asarray((x + 1e300).astype("float32"))).all()
        with pytest.raises(FloatingPointError):
            np.ones(3) / np.zeros(3)


def test_elements_are_seen_wherever_they_are() -> None:
    """A result keeps its NumPy array; its value is made when it is asked for, and so is what was on a device."""
    x = tnp.arange(3.0) * 2.0
    assert x.concrete() == (tnp.arange(3.0) + tnp.arange(3.0)).concrete()
    on_device = tj.device_put(x)
    mixed = [x * on_device, on_device * x, tnp.sum(on_device), on_device[1:] + x[0]]
    again = [x * on_device, on_device * x, tnp.sum(on_device), on_device[1:] + x[0]]
    for a, b in zip(mixed, again, strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
        assert a.platform == b.platform == "cpu"
    assert x.platform == (x * x).platform == "host"
