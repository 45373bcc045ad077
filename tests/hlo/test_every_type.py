"""What a type rule accepts, XLA compiles: nothing ends in an error of XLA."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.hlo.every_type import GRIDS, Application, Grid, accepted
from tests.hlo.programs import run, side_by_side
from tinyjax import Array, lax
from tinyjax.errors import MissingRuleError, TypingError, UnsupportedError, XlaError
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.text.registry import STANDARD
from tinyjax.primitives.elementwise import Elementwise
from tinyjax.primitives.windows import GatherDimensionNumbers

#: Primitives that need the axis of a `vmap`, hold programs, or have messages and no results.
ELSEWHERE = {
    "psum", "pmax", "pmin", "axis_index", "all_gather", "all_to_all", "reduce_scatter", "ppermute", "pvary",
    "preduced", "vary_unreduced_cast", "reduced_vary_cast",
    "unreduced_psum", "unreduced_reduce_scatter", "all_gather_reduced",
    "call", "shard_map", "sharding_constraint", "cond", "scan", "while", "checkpoint", "custom_jvp", "forward_pass",
    "custom_linear_solve", "custom_root", "custom_vmap", "composite", "linear_call",
    "custom_vjp", "custom_lin", "mapped_custom", "enclosing", "pure_callback", "io_callback", "debug_callback",
    "ffi_call", "call_exported", "check", "platform_index", "reduce", "reduce_window", "select_and_scatter",
}  # fmt: skip


def refused_by_xla(applications: list[Application]) -> list[Application]:
    """Those that don't compile, found by halving."""
    program = side_by_side(applications)
    try:
        run(program, *[np.zeros(aval.shape, aval.dtype) for aval in program.in_avals])
    except (XlaError, MissingRuleError, OverflowError, ValueError, TypeError):
        if len(applications) == 1:
            return applications
        half = len(applications) // 2
        return refused_by_xla(applications[:half]) + refused_by_xla(applications[half:])
    return []


@pytest.mark.sweep
@pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: grid.__name__)
def test_everything_compiles(grid: Grid) -> None:
    found = accepted(grid)
    for start in range(0, len(found), 100):
        assert not refused_by_xla(found[start : start + 100])


@pytest.mark.sweep
def test_one_of_each_kind_compiles() -> None:
    """Of those that aren't elementwise; these are compiled in `test_values`."""
    kinds: defaultdict[str, list[Application]] = defaultdict(list)
    for grid in GRIDS:
        for application in accepted(grid):
            kinds[application[0].name].append(application)
    primitives = [cls for cls in STANDARD if issubclass(cls, Primitive)]
    assert {cls.name for cls in primitives} - set(kinds) == ELSEWHERE
    chosen = [name for name, found in kinds.items() if not isinstance(found[0][0], Elementwise)]
    draw = random.Random(9)
    assert not refused_by_xla([draw.choice(kinds[name]) for name in chosen])


@pytest.mark.parametrize(("old", "new"), [("float32", "int8"), ("uint8", "float64"), ("int16", "bfloat16")])
def test_bits_between_widths(old: str, new: str) -> None:
    x = tnp.asarray(np.arange(24).reshape(3, 8).astype(old))

    def f(x: Array) -> Array:
        return lax.bitcast_convert_type(x, new)

    expected = jax.lax.bitcast_convert_type(np.asarray(x), new)
    for found in (f(x), tj.jit(f)(x), tj.vmap(f)(x), tj.jit(tj.vmap(f))(x)):
        assert np.asarray(found).tobytes() == np.asarray(expected).tobytes()
        assert found.shape == expected.shape


HIGHEST, DEFAULT, HIGH = lax.Precision.HIGHEST, lax.Precision.DEFAULT, lax.Precision.HIGH


#: What users write, and what the program says. Members of JAX's enumeration count, and its aliases.
PRECISIONS: list[tuple[Any, object]] = [
    ("highest", HIGHEST),
    ("float32", HIGHEST),
    ("tensorfloat32", HIGH),
    ("fastest", DEFAULT),
    (HIGH, HIGH),
    (None, None),
    (jax.lax.Precision.HIGH, HIGH),
    (("highest", "highest"), HIGHEST),
    (("default", "highest"), (DEFAULT, HIGHEST)),
    ((jax.lax.Precision.HIGH, None), (HIGH, DEFAULT)),
]


@pytest.mark.parametrize(("given", "settled"), PRECISIONS)
def test_precisions(given: Any, settled: object) -> None:
    def f(x: Array) -> Array:
        return tnp.matmul(x, x, precision=given)

    x = tnp.ones((2, 2), np.float32)
    program = tj.make_jaxpr(f)(x)
    assert program.eqns[0].params["precision"] == settled
    assert tj.ir.parse(str(program.jaxpr)) == program.jaxpr
    np.testing.assert_array_equal(tj.jit(f)(x), np.full((2, 2), 2.0))
    if isinstance(settled, tuple):
        assert f"precision = [{settled[0].name}, {settled[1].name}]" in tj.jit(f).lower(x).as_text()


def test_each_operand_keeps_its_precision() -> None:
    x = tnp.ones((2, 2), np.float32)

    def f(x: Array, y: Array) -> Array:
        return tnp.sum(tnp.matmul(x, y, precision=("high", "highest")))

    program = tj.make_jaxpr(tj.grad(f, (0, 1)))(x, 2 * x)
    products = [eqn.params["precision"] for eqn in program.eqns if eqn.primitive.name == "dot_general"]
    # The product itself; what the cotangent, in x's place, meets y with; what the one in y's place meets x with.
    assert products == [(HIGH, HIGHEST), (HIGHEST, HIGH), (HIGH, HIGHEST)]
    dx, dy = tj.jit(tj.grad(f, (0, 1)))(x, 2 * x)
    np.testing.assert_array_equal(dx, 4 * x)
    np.testing.assert_array_equal(dy, 2 * x)


@pytest.mark.parametrize("given", ["f32", "F32", ("high",), ("high", "high", "high"), 3, ("f32", "high")])
def test_other_precisions_are_refused(given: Any) -> None:
    def f(x: Array) -> Array:
        return tnp.matmul(x, x, precision=given)

    for g in (f, tj.jit(f)):
        with pytest.raises(UnsupportedError, match=r"precision is 'default', 'high' or 'highest'.*DotAlgorithmPreset"):
            g(tnp.ones((2, 2), np.float32))


def test_a_fill_value_must_fit() -> None:
    dims = GatherDimensionNumbers((), (0,), (0,))
    for fill in (2**70, -1, 300, float("nan"), 1j):
        with pytest.raises(TypingError, match=r"the fill value .* doesn't fit in u8"):
            lax.gather(np.zeros(3, np.uint8), np.array([7]), dims, (1,), mode="fill", fill_value=fill)
    assert int(lax.gather(np.zeros(3, np.uint8), np.array([7]), dims, (1,), mode="fill", fill_value=255)) == 255


@pytest.mark.parametrize(
    "name",
    ["my-loss", "2x", "0", "", "a b", "é", "日本", 'q"uo\\te', "a\nb", "main", "private@x", "\x00", "\ud800", "-"],
)
def test_functions_have_any_name(name: str) -> None:
    def f(x: Array) -> Array:
        return x * 2.0

    def g(x: Array) -> Array:
        return x * 3.0

    f.__name__ = g.__name__ = name
    own = tj.custom_jvp(g)
    own.defjvp(lambda primals, tangents: (primals[0] * 3.0, tangents[0] * 3.0))

    def inner(x: Array) -> Array:
        return tj.jit(f)(x) + tj.jit(g)(x) + tj.checkpoint(f)(x) + own(x)

    one = tnp.asarray(1.0)
    assert float(tj.jit(f)(one)) == 2.0
    assert float(tj.jit(inner)(one)) == 10.0
    assert float(tj.jit(tj.grad(inner))(one)) == 10.0
