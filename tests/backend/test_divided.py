"""Every primitive, with operands that are divided among devices: the values are those of one device."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import pytest

import tinyjax as tj
from tests.hlo.programs import run, side_by_side
from tests.primitives.array_catalog import CASES
from tests.primitives.array_checks import close, samples
from tests.primitives.catalog import ELEMENTWISE, Entry, check_close
from tests.primitives.matrix_catalog import EXAMPLES
from tinyjax import backend
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import DType, HostArray
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.value import ConcreteValue
from tinyjax.meshes import Mesh, NamedSharding, PartitionSpec

Axis: TypeAlias = str | tuple[str | None, ...] | None

pytestmark = pytest.mark.sweep
MESH = Mesh(np.array(tj.devices("cpu"), object).reshape(4, 2), ("x", "y"))
GROUP = 24


def lying(shape: tuple[int, ...], turn: int) -> NamedSharding:
    """Divided along its first axis, or another one, as far as the sizes allow."""
    for axis in [*range(len(shape))][turn:] + [*range(len(shape))][:turn]:
        for names, count in ((("x", "y"), 8), ("x", 4), ("y", 2)):
            if shape[axis] and shape[axis] % count == 0:
                return NamedSharding(MESH, PartitionSpec(*[None] * axis, names))
    return NamedSharding(MESH, PartitionSpec())


def divided(jaxpr: Jaxpr, args: Sequence[HostArray], turn: int = 0) -> list[HostArray]:
    values = [ConcreteValue(arg, aval) for arg, aval in zip(args, jaxpr.in_avals, strict=True)]
    placed = [backend.put_on(value, lying(value.shape, turn)) for value in values]
    return [np.asarray(out.data) for out in backend.execute(jaxpr, placed, "test")]


SAMPLES = [
    (entry, dtype, [np.resize(x, -(-len(x) // 8) * 8) for x in entry.samples(dtype)])
    for entry in ELEMENTWISE
    if not entry.slow
    for dtype in dict.fromkeys((entry.dtypes[0], entry.dtypes[-1]))
]


@pytest.mark.parametrize("first", range(0, len(SAMPLES), 4 * GROUP))
def test_elementwise(first: int) -> None:
    group: list[tuple[Entry, DType, list[HostArray]]] = SAMPLES[first : first + 4 * GROUP]
    program = side_by_side([(entry.primitive, [array_type(x.shape, x.dtype) for x in xs]) for entry, _, xs in group])
    args = [x for _, _, xs in group for x in xs]
    for (entry, dtype, _), got, expected in zip(group, divided(program, args), run(program, *args), strict=True):
        try:
            check_close(got, expected, entry.ulps, entry.scale)
        except AssertionError as error:
            raise AssertionError(f"{entry.name} of {dtype}: {error}") from error


RNG = np.random.default_rng(0)
OTHERS: list[tuple[str, Primitive, Sequence[ShapedArray], list[HostArray]]] = [
    # XLA's partitioner knows no sum over devices by a function of its caller's, as the larger complex number is one.
    *[(c.name, c.primitive, c.avals, samples(c.avals, RNG)) for c in CASES if c.name != "reduce_max-complex"],
    *[(e.name, e.case.primitive, e.case.avals, e.make(e.case.avals, RNG)) for e in EXAMPLES],
]


def test_padding_inward() -> None:
    """XLA's partitioner ends the process where a divided axis has negative padding."""
    x = np.arange(16.0).reshape(8, 2)
    for low, high, between in product((-9, -3, 4), (-2, 5), (0, 1)):
        if 8 + 7 * between + low + high < 0:
            continue
        config = ((low, high, between), (1, -1, 0))
        pad = partial(tj.lax.pad, padding_value=7.0, padding_config=config)
        found = tj.jit(pad)(tj.device_put(x, NamedSharding(MESH, PartitionSpec("x"))))
        np.testing.assert_array_equal(np.asarray(found), np.asarray(pad(x)))


@pytest.mark.parametrize(
    ("image", "kernel"),
    [("x", None), ((None, None, "x"), ("x",)), (("x", None, "y"), (None, None, None, "y"))],
    ids=str,
)
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("stride", [1, 2])
def test_convolutions(image: Axis, kernel: Axis, groups: int, stride: int) -> None:
    """XLA's partitioner gives wrong numbers where both space and the kernel are divided, and ends the process for the
    derivatives of groups."""
    x, k = (RNG.normal(size=shape) for shape in ((4, 4, 8, 4), (4, 4 // groups, 3, 2)))

    def f(x: Any, k: Any) -> Any:
        return tj.lax.conv_general_dilated(x, k, (stride, 1), "SAME", feature_group_count=groups)

    def loss(x: Any, k: Any) -> Any:
        return (f(x, k) ** 2).sum()

    placed = [
        tj.device_put(
            array, NamedSharding(MESH, PartitionSpec(*axes) if isinstance(axes, tuple) else PartitionSpec(axes))
        )
        for array, axes in ((x, image), (k, kernel))
    ]
    for g in (f, tj.grad(loss), tj.grad(loss, 1)):
        np.testing.assert_allclose(np.asarray(tj.jit(g)(*placed)), np.asarray(g(x, k)), rtol=1e-9, atol=1e-9)


def test_only_what_is_safe_of_a_convolution_is_divided() -> None:
    x, k = np.ones((8, 4, 8)), np.ones((4, 4, 3))
    conv = tj.jit(lambda x, k: tj.lax.conv_general_dilated(x, k, (1,), "SAME"))
    rows = tj.device_put(x, NamedSharding(MESH, PartitionSpec("x")))
    assert conv(rows, k).sharding.is_equivalent_to(rows.sharding, 3)
    assert "all-gather" not in conv.lower(rows, k).compile().as_text()
    assert "sharding" not in conv.lower(x, k).as_text()


@pytest.mark.parametrize("first", range(0, len(OTHERS), GROUP))
@pytest.mark.parametrize("turn", [0, 1])
def test_others(first: int, turn: int) -> None:
    group = OTHERS[first : first + GROUP]
    program = side_by_side([(primitive, avals) for _, primitive, avals, _ in group])
    args = [x for *_, xs in group for x in xs]
    found, expected = divided(program, args, turn), run(program, *args)
    at = 0
    for name, primitive, avals, _ in group:
        for out in primitive.type_of(*avals):
            try:
                close(found[at], expected[at], out.dtype)
            except AssertionError as error:
                raise AssertionError(f"{name}: {error}") from error
            at += 1
