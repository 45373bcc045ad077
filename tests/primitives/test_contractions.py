"""dot_general."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from tests.primitives.array_catalog import Case, aval, case, cases
from tests.primitives.array_checks import EVAL, check_all, check_batch, check_transpose, check_value, samples
from tinyjax.contexts.devices import single_equation
from tinyjax.contexts.staging import StagingContext
from tinyjax.contexts.transposition import transpose
from tinyjax.errors import LinearityError, ShapeError, TinyjaxError, TypingError
from tinyjax.ir.dtypes import BFLOAT16, FLOAT0, FLOAT16, FLOAT32, INT8, INT32, UINT32, DType
from tinyjax.ir.primitive import BatchAxis, UndefPrimal
from tinyjax.ir.program import Atom, Var
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.contractions import MATMUL, DimensionNumbers, DotGeneral, Precision, dot


@pytest.mark.parametrize("example", cases("dot_general"), ids=lambda example: example.name)
@pytest.mark.sweep
def test_catalog(example: Case) -> None:
    check_all(example)


@st.composite
def products(draw: st.DrawFn) -> tuple[DimensionNumbers, list[int], list[int]]:
    """Dimension numbers, and shapes that fit them: axes of all kinds, in any order."""
    shared = draw(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=3))
    orders, shapes = [], []
    for _ in range(2):
        free = draw(st.lists(st.integers(0, 3), max_size=2))
        sizes = [size for size, _ in shared] + free
        order = draw(st.permutations(range(len(sizes))))
        orders.append([order.index(i) for i in range(len(shared))])
        shapes.append([sizes[i] for i in order])
    summed, batch = (
        tuple(
            tuple(at for at, (_, is_batch) in zip(order, shared, strict=True) if is_batch == kind) for order in orders
        )
        for kind in (False, True)
    )
    return ((summed[0], summed[1]), (batch[0], batch[1])), shapes[0], shapes[1]


@pytest.mark.sweep
@settings(max_examples=25, deadline=None)
@given(products(), st.sampled_from(["float64", "int32", "bool"]))
def test_any_dimension_numbers(product: tuple[DimensionNumbers, list[int], list[int]], dtype: str) -> None:
    numbers, *shapes = product
    types = " ".join(f"{dtype}[{','.join(map(str, shape))}]" for shape in shapes)
    example = case("", DotGeneral(numbers), types, lambda x, y: lax.dot_general(x, y, numbers))
    rng = np.random.default_rng(0)
    args = samples(example.avals, rng)
    check_value(example, args)
    if sum(map(len, shapes)) < 6:
        check_batch(example.primitive, example.avals, rng)
    if dtype == "float64":
        for operand in (0, 1):
            check_transpose(case("", DotGeneral(numbers), types, example.reference, (operand,)), args, rng)


def test_half_precision_accumulates_in_single() -> None:
    ones = np.ones(4096, np.float16)
    (total,) = DotGeneral((((0,), (0,)), ((), ()))).evaluate(ones, ones)
    assert total.dtype == np.float16
    assert float(total) == 4096.0


def test_precision_and_preferred_type_survive_every_rule() -> None:
    primitive = DotGeneral(MATMUL, Precision.HIGHEST, FLOAT32)
    staging = StagingContext()
    x, y = staging.argument(aval("float16[5,2,3]")), staging.argument(aval("float16[3,4]"))
    (out,), (at,) = primitive.batch(staging, BatchAxis(5), [x, y], [0, None])
    assert at == 0
    ct: Atom = staging.argument(aval("float32[2,4]"))
    operands: list[Atom | UndefPrimal] = [UndefPrimal(aval("float16[2,3]")), y]
    x_bar, y_bar = primitive.transpose(staging, [ct], operands)
    assert isinstance(x_bar, Var)
    assert y_bar is None
    jaxpr = staging.finish([out]).jaxpr
    dots = [eqn.primitive for eqn in jaxpr.eqns if isinstance(eqn.primitive, DotGeneral)]
    assert [(p.precision, p.preferred_element_type) for p in dots] == [(Precision.HIGHEST, FLOAT32)] * 2
    assert jaxpr.eqns[-1].primitive.name == "convert_element_type"
    assert x_bar.aval == aval("float16[2,3]")


def test_not_linear_in_both() -> None:
    matrix = aval("float32[2,2]")
    ct = ConcreteValue.of(np.ones((2, 2), np.float32))
    with pytest.raises(LinearityError, match="not in both together"):
        transpose(EVAL, single_equation(DotGeneral(MATMUL), (matrix, matrix)), [UndefPrimal(matrix)] * 2, [ct])


def test_vocabulary() -> None:
    x = ConcreteValue.of(np.arange(4.0).reshape(2, 2))
    assert dot(EVAL, x, x) == ConcreteValue.of(np.array([[2.0, 3.0], [6.0, 11.0]]))


@pytest.mark.parametrize(
    ("numbers", "preferred", "types", "error", "message"),
    [
        (MATMUL, None, "float32[2,3] float32[4,2]", ShapeError, r"contracting axes \(1,\) of f32\[2,3\] and \(0,\)"),
        ((((1,), ()), ((), ())), None, "float32[2,3] float32[4,2]", ShapeError, "contracting axes .* differ in number"),
        ((((), ()), ((0,), (0,))), None, "float32[2] float32[3]", ShapeError, "batch axes"),
        (
            (((2,), (0,)), ((), ())),
            None,
            "float32[2,3] float32[3]",
            ShapeError,
            r"left operand f32\[2,3\]: axes \(2,\)",
        ),
        ((((0,), (1,)), ((), ())), None, "float32[3] float32[3]", ShapeError, r"right operand f32\[3\]"),
        ((((0,), (0,)), ((0,), (0,))), None, "float32[3] float32[3]", ShapeError, "not distinct"),
        (MATMUL, None, "float32[2,3]", TypingError, "takes 2 operands, got 1"),
        (MATMUL, INT8, "int32[2,3] int32[3,2]", TypingError, "i8 can't hold products of i32"),
        (MATMUL, INT32, "float32[2,3] float32[3,2]", TypingError, "i32 can't hold products of f32"),
        (MATMUL, FLOAT32, "complex64[2,3] complex64[3,2]", TypingError, "f32 can't hold products of c64"),
        (MATMUL, FLOAT0, "float32[2,3] float32[3,2]", TypingError, "does not accept float0"),
    ],
)
def test_errors(
    numbers: DimensionNumbers, preferred: DType | None, types: str, error: type[TinyjaxError], message: str
) -> None:
    with pytest.raises(error, match=message):
        DotGeneral(numbers, None, preferred).type_of(*map(aval, types.split()))


@pytest.mark.parametrize(
    ("types", "preferred", "expected"),
    [
        ("float16[1,1] float32[1,1]", None, FLOAT32),
        ("float16[1,1] bfloat16[1,1]", None, BFLOAT16),
        ("bool[1,1] uint32[1,1]", None, UINT32),
        ("int32[1,1] uint32[1,1]", None, INT32),
        ("int32[1,1] float16[1,1]", None, FLOAT16),
        ("int32[1,1] int32[1,1]", UINT32, UINT32),
        ("float32[1,1] float32[1,1]", BFLOAT16, BFLOAT16),
    ],
)
def test_result_dtype(types: str, preferred: DType | None, expected: DType) -> None:
    (out,) = DotGeneral(MATMUL, None, preferred).type_of(*map(aval, types.split()))
    assert out.dtype == expected
