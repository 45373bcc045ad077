"""conv_general_dilated."""

from __future__ import annotations

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.primitives.array_catalog import Case, Reference, case, cases, convolution
from tests.primitives.array_checks import check_all, check_batch, check_transpose, check_value, samples
from tinyjax.ir.primitive import Primitive
from tinyjax.primitives.contractions import Precision


def _more() -> list[Case]:
    one, two = ("NCH", "OIH", "NCH"), ("NHWC", "HWIO", "NHWC")
    same = ((1, 1), (1, 1))
    table: list[tuple[str, tuple[Primitive, Reference], str]] = [
        ("plain", convolution(one, (1,), ((0, 0),)), "float64[2,3,5] float64[4,3,2]"),
        ("same", convolution(two, (1, 1), same), "float32[1,4,3,2] float32[3,3,2,2]"),
        ("mixed-padding", convolution(one, (2,), ((3, -1),)), "float64[1,1,4] float64[2,1,3]"),
        ("depthwise", convolution(two, (1, 2), same, features=3), "float64[1,3,4,3] float64[2,2,1,3]"),
        ("no-space-groups", convolution(("CN", "IO", "CN"), (), (), features=2), "float64[4,2] float64[2,6]"),
        ("nothing", convolution(one, (1,), ((1, 1),)), "float64[0,2,2] float64[1,2,3]"),
        ("no-features", convolution(one, (1,), ((1, 1),)), "float64[1,0,2] float64[1,0,3]"),
        ("highest", convolution(one, (1,), ((0, 0),), precision=Precision.HIGHEST), "float32[1,2,3] float32[1,2,2]"),
        ("mixed-precision", convolution(one, (1,), ((0, 0),), precision=(Precision.HIGH, Precision.DEFAULT)),
         "float32[1,2,3] float32[1,2,2]"),
        ("f16", convolution(one, (1,), ((1, 1),)), "float16[1,2,4] float16[2,2,3]"),
        ("bf16-to-f64", convolution(one, (1,), ((1, 1),), preferred="float64"), "bfloat16[1,2,4] bfloat16[2,2,3]"),
        ("int8-to-int32", convolution(one, (1,), ((0, 0),), preferred="int32"), "int8[1,8,4] int8[1,8,2]"),
        ("uint-wraps", convolution(one, (1,), ((0, 0),)), "uint8[1,90,2] uint8[1,90,2]"),
        ("complex128", convolution(one, (2,), ((1, 0),), features=2), "complex128[1,2,3] complex128[2,1,2]"),
        ("three", convolution(("NCHWD", "OIHWD", "NCHWD"), (1, 2, 1), ((0, 0), (1, 1), (0, 1))),
         "float64[1,2,2,3,2] float64[2,2,2,2,2]"),
    ]  # fmt: skip
    return [case(name, primitive, types, reference) for name, (primitive, reference), types in table]


@pytest.mark.parametrize("example", cases("conv_general_dilated"), ids=lambda example: example.name)
@pytest.mark.sweep
def test_catalog(example: Case) -> None:
    check_all(example)


@pytest.mark.sweep
@pytest.mark.parametrize("example", _more(), ids=lambda example: example.name)
def test_more(example: Case) -> None:
    check_all(example)


@st.composite
def convolutions(draw: st.DrawFn) -> Case:
    """Any parameters that fit together, and axes in any order."""
    ndim = draw(st.integers(0, 2))
    groups = draw(st.integers(1, 3))
    by_batch = draw(st.booleans())
    batch, taken, results = (draw(st.integers(1, 2)) for _ in range(3))
    letters = "HW"[:ndim]
    spec = tuple("".join(draw(st.permutations([*first, *letters]))) for first in ("NC", "OI", "NC"))
    sizes, kernel, strides, padding, spread, holes = [], [], [], [], [], []
    for _ in range(ndim):
        size, width, step = draw(st.integers(0, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
        low = draw(st.integers(-1, 2))
        reach = max(size * step - step + 1, 0) if size else 0
        high = draw(st.integers(max(-1, -reach - low), 2)) if reach + low > 0 else draw(st.integers(max(-low, 0), 3))
        sizes.append(size)
        kernel.append(width)
        spread.append(step)
        padding.append((low, high) if reach + low + high >= 0 else (0, 0))
        strides.append(draw(st.integers(1, 3)))
        holes.append(draw(st.integers(1, 2)))
    features, batches = (1, groups) if by_batch else (groups, 1)
    left = dict(zip("NC" + letters, (batch * batches, taken * features, *sizes), strict=True))
    right = dict(zip("OI" + letters, (results * groups, taken, *kernel), strict=True))
    order = [c for c in spec[1] if c in letters]
    places = [letters.index(c) for c in order]
    steps, widened, gaps = (tuple(values[i] for i in places) for values in (strides, spread, holes))
    pads = tuple(padding[i] for i in places)
    numbers = (spec[0], spec[1], spec[2])
    primitive, reference = convolution(numbers, steps, pads, widened, gaps, features, batches)
    types = " ".join(
        f"float64[{','.join(str(shape[c]) for c in word)}]" for shape, word in ((left, spec[0]), (right, spec[1]))
    )
    return case("any", primitive, types, reference)


@pytest.mark.sweep
@settings(max_examples=8, deadline=None)
@given(convolutions())
def test_any_convolution(example: Case) -> None:
    check_convolution(example)


@pytest.mark.sweep
@settings(max_examples=150, deadline=None)
@given(convolutions())
def test_many_convolutions(example: Case) -> None:
    check_convolution(example)


def check_convolution(example: Case) -> None:
    rng = np.random.default_rng(0)
    args = samples(example.avals, rng)
    check_value(example, args)
    if sum(aval.ndim for aval in example.avals) < 7:
        check_batch(example.primitive, example.avals, rng)
    for linear in ((0,), (1,)):
        check_transpose(evolve(example, linear=linear), args, rng)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex128", "bfloat16"])
@pytest.mark.parametrize("spread", [1, 3])
@pytest.mark.parametrize(("features", "batches"), [(1, 1), (2, 1), (1, 2)])
def test_infinities_of_a_kernel_meet_elements_only(dtype: str, spread: int, features: int, batches: int) -> None:
    """Of what is filled in around elements and between them there are no products."""
    numbers = ("NCH", "OIH", "NCH"), (1,), ((2, 1),), (spread,)
    primitive, _ = convolution(*numbers, features=features, batches=batches)
    x, y = np.ones((2, 2, 4)), np.zeros((2, 2 // features, 3))
    y[0, 0, 0] = 1
    (there,) = primitive.evaluate(x, y)
    with np.errstate(invalid="ignore"):  # infinity times a complex number
        (found,) = primitive.evaluate(x.astype(dtype), np.where(y == 1, np.inf, y).astype(dtype))
    np.testing.assert_array_equal(~np.isfinite(found.astype(np.complex128)), there != 0)
