"""Python's operators on arrays and on tracers: values, dtypes and weak types as jax has them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typing_extensions import override

import tinyjax.numpy as tnp
from tests.numpy.oracle import DTYPES, Function, agree, compare, numbers, sample
from tinyjax import Array, float0, grad, jit, jvp, make_jaxpr, vmap
from tinyjax.errors import ConcretizationError, ImmutableArrayError, InputError, ShapeError, TypingError
from tinyjax.tracing.concrete import ConcreteArray
from tinyjax.tracing.core import Tracer

BINARY: dict[str, Function] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "divmod": divmod,
    "**": operator.pow,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
UNARY: dict[str, Function] = {"-": operator.neg, "+": operator.pos, "abs": abs, "~": operator.invert}


@pytest.mark.parametrize("dtype", DTYPES)
def test_unary(dtype: str) -> None:
    x = sample(dtype)
    compare({name: (f, f) for name, f in UNARY.items()}, [tnp.asarray(x)], [jnp.asarray(x)])


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64", "bfloat16"])
def test_round(dtype: str) -> None:
    x = numbers(dtype, 5) * np.asarray(3, dtype)
    agree(round(tnp.asarray(x)), round(jnp.asarray(x)))
    agree(round(tnp.asarray(x), 1), round(jnp.asarray(x), 1))


@pytest.mark.parametrize("pair", [*zip(DTYPES, DTYPES, strict=True), ("int32", "float64"), ("uint8", "int8")], ids=str)
def test_binary(pair: tuple[str, str]) -> None:
    x, y = numbers(pair[0], 3, 1), numbers(pair[1], 4, seed=1)
    compare({name: (f, f) for name, f in BINARY.items()}, [tnp.asarray(x), tnp.asarray(y)], [jnp.asarray(x), y])


def _left(f: Function, scalar: object) -> Function:
    return lambda x: f(scalar, x)


def _right(f: Function, scalar: object) -> Function:
    return lambda x: f(x, scalar)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["bool", "int8", "bfloat16", "float64", "complex64"])
@pytest.mark.parametrize("scalar", [2, 2.5, True, np.float32(2), 1 + 2j], ids=repr)
def test_scalars_on_either_side(scalar: float, dtype: str) -> None:
    x = numbers(dtype, 5)
    calls: dict[str, tuple[Function, Function]] = {}
    for name, f in BINARY.items():
        if name == "**" and isinstance(scalar, complex) and 0 in x:
            continue  # nan in XLA
        calls["x " + name] = _right(f, scalar), _right(f, scalar)
        calls[name + " x"] = _left(f, scalar), _left(f, scalar)
    compare(calls, [tnp.asarray(x)], [jnp.asarray(x)])


@pytest.mark.sweep
@pytest.mark.parametrize("left", [2, 2.5, True, 1j], ids=repr)
@pytest.mark.parametrize("right", [3, 0.5, False], ids=repr)
def test_weak_scalars(left: float, right: float) -> None:
    x, y = tnp.asarray(left), tnp.asarray(right)
    calls = {name: (f, f) for name, f in BINARY.items() if name != "**"}
    compare(calls, [x, y], [jnp.asarray(left), jnp.asarray(right)])
    if right is not False:  # not an index in jax
        agree(x**y, jnp.asarray(left) ** jnp.asarray(right))


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, -1, -2, True, np.int8(3)], ids=repr)
@pytest.mark.parametrize("dtype", ["bool", "int32", "float32"])
def test_whole_powers(dtype: str, exponent: int) -> None:
    x = sample(dtype)
    compare(
        {"**": (_right(operator.pow, exponent), _right(operator.pow, exponent))}, [tnp.asarray(x)], [jnp.asarray(x)]
    )


def test_powers_of_integers() -> None:
    x, y = np.meshgrid(np.arange(-4, 5), np.arange(0, 70, 7))
    agree(tnp.asarray(x) ** y, jnp.asarray(x) ** y)


OTHERS: list[object] = [
    np.array([1.0, 2.0, 3.0], np.float32),
    np.arange(1, 4),
    np.array(2.0),
    np.float64(2.0),
    np.float32(2.0),
    np.int64(2),
    np.bool_(True),
]


def _tracers() -> list[Callable[[Callable[[Array], None]], object]]:
    """Ways to run a function on an array of each kind."""
    x = np.array([1.0, 2.0, 3.0])

    def nothing(f: Callable[[Array], None]) -> Callable[[Array], Array]:
        def g(x: Array) -> Array:
            f(x)
            return x

        return g

    return [
        lambda f: f(tnp.asarray(x)),
        lambda f: make_jaxpr(nothing(f))(x),
        lambda f: jvp(nothing(f), (x,), (x,)),
        lambda f: vmap(nothing(f))(tnp.asarray([x, x])),
        lambda f: jit(nothing(f))(tnp.asarray(x)),
        lambda f: f(jit(lambda x: x)(tnp.asarray(x))),
    ]


@pytest.mark.parametrize("run", _tracers())
@pytest.mark.parametrize("other", OTHERS, ids=repr)
def test_numpy_on_either_side(other: object, run: Callable[[Callable[[Array], None]], object]) -> None:
    seen: list[str] = []

    def check(x: Array) -> None:
        for name, f in BINARY.items():
            if name in ("&", "|", "^", "<<", ">>"):
                continue
            for result in (f(other, x), f(x, other)):
                for part in result if isinstance(result, tuple) else (result,):
                    assert type(part) is type(x), name
                    assert part.shape == (3,), name
            seen.append(name)
        if isinstance(other, np.ndarray) and other.ndim:
            assert type(operator.matmul(other, x)) is type(operator.matmul(x, other)) is type(x)

    run(check)
    assert len(seen) == 14


def test_numpy_functions_take_arrays() -> None:
    x = tnp.asarray([1.0, 4.0, 9.0])
    roots = np.sqrt(x)
    assert isinstance(roots, np.ndarray)
    assert roots.tolist() == [1.0, 2.0, 3.0]


def test_methods_that_numpy_calls() -> None:
    x = tnp.asarray([[1.0, 4.0, 9.0]])
    for name in ("sum", "mean", "max", "std", "cumsum", "argmax", "round", "squeeze", "ravel", "transpose"):
        function = getattr(np, name)
        np.testing.assert_allclose(np.asarray(function(x)), function(np.asarray(x)))
    assert isinstance(np.sum(x), Array)


def test_literals_stay_literals() -> None:
    assert (
        str(make_jaxpr(lambda x: 2.0 * x)(np.float64(3.0))) == "{ lambda ; a:f64[]. let b:f64[] = mul 2.0 a in (b,) }"
    )
    text = str(make_jaxpr(lambda x: 2 * x + 1.5)(np.ones(3, np.float32)))
    assert "convert" not in text
    assert "mul 2.0:f32[] a" in text


def test_squares_are_whole_powers() -> None:
    assert "integer_pow[y=2] a" in str(make_jaxpr(lambda x: x**2)(2.0))
    assert "pow a 2.5" in str(make_jaxpr(lambda x: x**2.5)(2.0))


def test_augmented_assignment_makes_a_new_array() -> None:
    x = y = tnp.arange(3)
    x += 1
    assert (x.tolist(), y.tolist()) == ([1, 2, 3], [0, 1, 2])


@pytest.mark.parametrize("other", [[1, 2], (1, 2), {1: 2}])
@pytest.mark.parametrize("name", ["+", "=="])
def test_containers_are_not_operands(name: str, other: object) -> None:
    with pytest.raises(InputError, match="is not an array"):
        BINARY[name](tnp.arange(2), other)
    with pytest.raises(InputError, match="is not an array"):
        BINARY[name](other, tnp.arange(2))


def test_other_types_may_know_what_to_do() -> None:
    class Meters:
        def __radd__(self, other: object) -> str:
            return "meters"

        @override
        def __eq__(self, other: object) -> bool:
            return isinstance(other, Array)

        @override
        def __hash__(self) -> int:
            return 0

    assert BINARY["+"](tnp.arange(2), Meters()) == "meters"
    assert BINARY["=="](tnp.arange(2), Meters()) is True
    assert BINARY["=="](tnp.arange(2), None) is False
    assert BINARY["!="](tnp.arange(2), "text") is True
    with pytest.raises(TypeError, match="unsupported operand"):
        BINARY["+"](tnp.arange(2), "text")


def test_arrays_of_jax_on_the_right() -> None:
    out = tnp.arange(3.0) + jax.device_put(np.ones(3))
    assert isinstance(out, Array)
    assert out.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("dtype", "value"), [("int8", 200), ("uint8", -1), ("uint64", -1), ("int32", 2**31), ("int64", 2**63)]
)
def test_integers_that_do_not_fit(dtype: str, value: int) -> None:
    with pytest.raises(InputError, match="doesn't fit in"):
        _ = tnp.zeros(2, dtype) + value


def test_arrays_are_immutable() -> None:
    x = tnp.arange(3)
    with pytest.raises(ImmutableArrayError, match="arrays are immutable"):
        operator.setitem(x, 0, 1)  # type: ignore[call-overload]
    with pytest.raises(InputError, match="can't be hashed"):
        hash(x)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: x + np.ones(4), ShapeError, r"arrays of shapes \(3,\), \(4,\) can't be broadcast together"),
        (lambda x: x & x, TypingError, "and does not accept f64 operands"),
        (lambda x: ~x, TypingError, "not does not accept f64 operands"),
        (lambda x: (x > 1) - (x > 2), TypingError, "sub does not accept bool operands"),
        (lambda x: -(x > 1), TypingError, "neg does not accept bool operands"),
        (lambda x: (x + 1j) // 2, TypingError, r"floor_divide does not accept complex operands, got c128\[3\]"),
        (lambda x: (x + 1j) % 2, TypingError, "remainder does not accept complex operands"),
        (lambda x: x.astype(int) ** -1, TypingError, "to the negative power -1"),
        (lambda x: len(x.sum()), ShapeError, r"an array without axes \(f64\[\]\) has no length"),
        (lambda x: list(x.sum()), ShapeError, "can't be iterated over"),
        (bool, ValueError, r"truth value of f64\[3\] is ambiguous, as it has 3"),
    ],
)
def test_errors(call: Callable[[Array], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(tnp.asarray([1.0, 2.0, 3.0]))


def test_branches_on_staged_values() -> None:
    with pytest.raises(ConcretizationError, match="can't decide a branch"):
        make_jaxpr(lambda x: 1 if x > 0 else 2)(1.0)


def test_iteration() -> None:
    x = tnp.asarray([[1.0, 2.0], [3.0, 4.0]])
    assert [row.tolist() for row in x] == [[1.0, 2.0], [3.0, 4.0]]
    assert len(x) == 2
    assert float(grad(lambda x: sum(row[0] * i for i, row in enumerate(x)))(x)[1, 0]) == 1.0


def test_kinds_of_arrays() -> None:
    kinds: list[type] = []
    make_jaxpr(lambda x: kinds.append(type(x + 1)))(1.0)
    kinds.append(type(tnp.arange(2) + 1))
    assert kinds == [Tracer, ConcreteArray]


OF_NO_BITS: Final[dict[str, Callable[[Array], object]]] = {
    "mul": lambda t: t * 2.0,
    "radd": lambda t: np.ones(2) + t,
    "at": lambda t: t.at[0].set(0),
    "sum": lambda t: t.sum(),
    "result_type": lambda t: tnp.result_type(t, np.ones(2)),
    "where": lambda t: tnp.where(np.ones(2) > 0, t, 1.0),
}


@pytest.mark.parametrize("name", OF_NO_BITS)
@pytest.mark.parametrize("staged", [False, True])
def test_tangents_without_bits_take_part_in_no_arithmetic(name: str, staged: bool) -> None:
    tangent = jvp(lambda n: n, (np.zeros(2, int),), (np.zeros(2, float0),))[1]
    with pytest.raises(TypingError, match="float0"):
        (jit(OF_NO_BITS[name]) if staged else OF_NO_BITS[name])(tangent)


@pytest.mark.parametrize("shapes", [((), ()), ((3,), (3,)), ((2, 1), (3,)), ((0,), ()), ((2,), (3,))])
def test_tangents_without_bits_are_compared_as_in_numpy(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    left, right = (np.zeros(shape, float0) for shape in shapes)
    x, y = (jvp(lambda n: n, (np.zeros(shape, int),), (np.zeros(shape, float0),))[1] for shape in shapes)
    assert isinstance(x, Array)
    for compare_ in (operator.eq, operator.ne):
        for pair in ((x, y), (x, right), (left, y)):
            try:
                expected = compare_(left, right)
            except ValueError:
                with pytest.raises(ShapeError, match="can't be broadcast"):
                    compare_(*pair)
                continue
            found = compare_(*pair)
            assert isinstance(found, Array)
            assert found.dtype == np.dtype(bool)
            np.testing.assert_array_equal(np.asarray(found), expected)
    others: list[object] = [0.0, True, np.zeros(left.shape), jnp.zeros(left.shape)]
    for other in others:
        with pytest.raises(TypingError, match="can't be compared: tangents of integers and booleans"):
            operator.eq(x, other)


@pytest.mark.parametrize("container", [tuple, list, dict, set])
def test_a_class_made_of_a_container_may_say_what_an_operator_means(container: type) -> None:
    pair: Any = type("Pair", (container,), {"__rmul__": lambda self, other: ["ours", other]})()
    x = tnp.ones(2)
    assert (x * pair)[0] == "ours"
    assert jit(lambda x: (x * pair)[1])(x).tolist() == [1.0, 1.0]
    with pytest.raises(InputError, match=f"{container.__name__} is not an array|array"):
        x * container()
