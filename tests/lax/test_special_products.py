"""Products of groups and with scales, algorithms of products, approximate choices, and what the platform decides: with
the values of JAX on the host and compiled, through programs from JAX and for JAX, and under transformations."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
from tests.numpy.oracle import agree, numbers
from tinyjax import hlo, ir, lax, transforms
from tinyjax.errors import InputError, LoweringError, ShapeError, TinyjaxError, TypingError, UnsupportedError
from tinyjax.interop.jax import from_jax, of_jax, to_jax
from tinyjax.registered.jax_expansions import candidates

ROWS, BY_GROUP = numbers("float32", 6, 5), numbers("float32", 3, 5, 4)
BATCH, BATCH_BY_GROUP = numbers("float64", 2, 6, 5), numbers("float64", 3, 2, 5, 4)
SIZES, SIZES_OF_EACH = np.array([2, 3, 0]), np.array([[1, 2, 3], [2, 2, 1]], np.int32)
CONTRACTED: Final = ((((0,), (0,)), ((), ())), (0,), ())
BATCHED: Final = ((((2,), (2,)), ((0,), (1,))), (1,), (0,))
OF_BATCH: Final = ((((2,), (1,)), ((0,), (0,))), (0,), ())
SCALE, OTHER_SCALE = np.array([[2.0], [0.5]], np.float32), np.ones((2, 3), np.float32) * 3


def chosen(lib: Any, numpy: Any, x: Any) -> Any:
    """Three functions, of which two are one."""
    twice = lambda x: x * 2.0  # noqa: E731
    return lib.platform_dependent(x, cuda=twice, cpu=lambda x: numpy.sin(x) * x, rocm=twice, default=lambda x: x)


#: What is called, with `lax` and `numpy` as the first arguments; and with what.
CALLS: Final[dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]] = {
    "ragged": (lambda m, _, *args: m.ragged_dot(*args), (ROWS, BY_GROUP, SIZES)),
    "ragged-preferred": (
        lambda m, _, *args: m.ragged_dot(*args, preferred_element_type="float64"), (ROWS, BY_GROUP, SIZES)
    ),
    "ragged-contracted": (
        lambda m, _, *args: m.ragged_dot_general(*args, m.RaggedDotDimensionNumbers(*CONTRACTED)),
        (ROWS, numbers("float32", 6, 2), SIZES),
    ),
    "ragged-batched": (
        lambda m, _, *args: m.ragged_dot_general(*args, m.RaggedDotDimensionNumbers(*BATCHED)),
        (BATCH, BATCH_BY_GROUP, SIZES_OF_EACH),
    ),
    "ragged-batch": (
        lambda m, _, *args: m.ragged_dot_general(*args, m.RaggedDotDimensionNumbers(*OF_BATCH)),
        (BATCH, numbers("float64", 2, 5, 3), np.array([1, 1])),
    ),
    "scaled": (
        lambda m, _, x, y, s, t: m.scaled_dot(x, y, lhs_scale=s, rhs_scale=t, preferred_element_type="float32"),
        (numbers("float32", 2, 4), numbers("float32", 4, 3), SCALE, OTHER_SCALE),
    ),
    "approx-max": (lambda m, _, x: m.approx_max_k(x, 2), (ROWS,)),
    "approx-min": (lambda m, _, x: m.approx_min_k(x, 3, reduction_dimension=0), (ROWS,)),
    "approx-candidates": (lambda m, _, x: m.approx_max_k(x, 5, aggregate_to_topk=False), (numbers("float32", 700),)),
    "approx-candidates-by-row": (
        lambda m, _, x: m.approx_min_k(x, 3, recall_target=0.5, aggregate_to_topk=False), (numbers("float32", 2, 700),)
    ),
    "approx-candidates-for-one": (
        lambda m, _, x: m.approx_max_k(x, 1, 0, aggregate_to_topk=False), (numbers("float32", 300, 2),)
    ),
    "approx-candidates-of-a-part": (
        lambda m, _, x: m.approx_max_k(
            x, 4, reduction_input_size_override=9000, recall_target=0.5, aggregate_to_topk=False
        ),
        (numbers("float32", 2, 700),),
    ),
    "mul": (lambda m, _, x, y: m.mul(x, y, out_dtype="float64"), (ROWS, ROWS)),
    "mul-integers": (
        lambda m, _, x, y: m.mul(x, y, out_dtype="int32"), (np.array([100, 3], "int8"), np.array([100, 3], "int16"))
    ),
    "algorithm": (lambda m, _, x, y: m.dot(x, y, precision="F64_F64_F64"), (ROWS, ROWS.T)),
    "platform": (chosen, (ROWS,)),
    "composite": (lambda m, n, x: m.composite(lambda x, *, k: n.sin(x) * k, "my.sine")(x, k=2.0), (ROWS,)),
}  # fmt: skip


@pytest.mark.sweep
@pytest.mark.parametrize("name", CALLS)
def test_values(name: str) -> None:
    call, args = CALLS[name]
    expected = call(jax.lax, jnp, *args)
    agree(call(lax, tj.numpy, *args), expected)
    found = tj.jit(lambda *args: call(lax, tj.numpy, *args))(*args)
    agree(found, expected)
    program = from_jax(jax.jit(lambda *args: call(jax.lax, jnp, *args)), *args)
    assert ir.parse_closed(str(program)) == program
    leaves = jax.tree.leaves(expected)
    for out, want in zip(tj.eval_jaxpr(program, (), *args), leaves, strict=True):
        agree(out, want)
    ours = tj.make_jaxpr(lambda *args: call(lax, tj.numpy, *args))(*args)
    for out, want in zip(jax.tree.leaves(to_jax(ours)(*args)), leaves, strict=True):
        np.testing.assert_allclose(out, want, rtol=1e-6)


@pytest.mark.parametrize(
    "name", ["ragged", "ragged-contracted", "scaled", "approx-max", "mul", "algorithm", "platform"]
)
@pytest.mark.sweep
def test_derivatives_and_batches(name: str) -> None:
    call, args = CALLS[name]
    floats = [i for i, x in enumerate(args) if x.dtype.kind == "f"]

    def total(lib: Any, numpy: Any) -> Callable[..., Any]:
        return lambda *args: sum((out**2).sum() for out in jax.tree.leaves(call(lib, numpy, *args))[:1])

    if name not in ("scaled", "ragged-contracted"):  # which JAX doesn't differentiate
        expected = jax.grad(total(jax.lax, jnp), floats)(*args)
        for out, want in zip(tj.grad(total(lax, tj.numpy), floats)(*args), expected, strict=True):
            np.testing.assert_allclose(out, want, rtol=2e-5, atol=1e-5)
    stacked = np.stack([args[0], 2 * args[0]])
    axes = (0, *[None] * (len(args) - 1))
    mapped = tj.vmap(lambda *args: call(lax, tj.numpy, *args), in_axes=axes)(stacked, *args[1:])
    for i in range(2):
        each = call(lax, tj.numpy, stacked[i], *args[1:])
        for out, want in zip(jax.tree.leaves(mapped), jax.tree.leaves(each), strict=True):
            np.testing.assert_allclose(out[i], want, rtol=2e-2 if name == "scaled" else 2e-5, atol=1e-6)


def _squared(x: Any, precision: lax.DotAlgorithmPreset) -> tj.Array:
    return lax.dot(x, x, precision=precision)


@pytest.mark.sweep
@pytest.mark.parametrize("preset", list(lax.DotAlgorithmPreset), ids=str)
def test_algorithms(preset: lax.DotAlgorithmPreset) -> None:
    theirs = jax.lax.DotAlgorithmPreset[preset.name]
    for dtype in ("bfloat16", "float64"):
        x = numbers(dtype, 3, 3)
        product: Callable[[Any], tj.Array] = partial(_squared, precision=preset)
        program = from_jax(lambda x: jax.lax.dot(x, x, precision=theirs), x)
        assert program == tj.make_jaxpr(product)(x)
        assert ir.parse_closed(str(program)) == program
        assert from_jax(to_jax(program), x) == program
        try:
            expected = jax.lax.dot(x, x, precision=theirs)
        except ValueError:  # not supported on CPU
            with pytest.raises(
                LoweringError, match=f"The dot algorithm {preset} is not supported on CPU: choose one of"
            ):
                hlo.lower(program)
            continue
        # In 32 bits, LLVM may round a product and a sum at once.
        agree(tj.jit(product)(x), expected, scale=1e6 if dtype == "float64" and "F64" not in preset.name else 1.0)
        host: Any = product(x)
        device: Any = expected
        np.testing.assert_allclose(host.astype("f8"), device.astype("f8"), rtol=5e-3, atol=5e-3)
        jitted: Any = jax.jit(jax.lax.dot, static_argnames="precision")
        text = jitted.lower(x, x, precision=theirs).as_text()
        lowered = [line for line in text.splitlines() if "algorithm" in line]
        clause = lowered[0].partition("algorithm = ")[2].partition(">")[0] if lowered else "dot_general"
        assert clause in hlo.lower(program)
    own = lax.DotAlgorithm("float32", "float16", "float32", num_primitive_operations=2)
    program = tj.make_jaxpr(lambda x: lax.dot(x, x, precision=own))(numbers("float32", 2, 2))
    assert "rhs_precision_type = f16" in hlo.lower(program, platform="cuda")
    assert from_jax(to_jax(program), numbers("float32", 2, 2)) == program


def test_only_the_function_of_the_platform_is_lowered() -> None:
    program = tj.make_jaxpr(lambda x: chosen(lax, tj.numpy, x))(ROWS)
    assert program.eqns[0].primitive.params == {"platforms": (("cuda", "rocm"), ("cpu",), None)}
    for platform, operation in (("cpu", "sine"), ("cuda", "multiply"), ("tpu", None)):
        text = hlo.lower(program, platform=platform)
        assert "case" not in text
        assert operation is None or f"stablehlo.{operation}" in text
        assert ("sine" in text) == (platform == "cpu")
    assert transforms.fold_constants(program) == program  # it may run elsewhere
    alone = tj.make_jaxpr(lambda x: lax.platform_dependent(x, cuda=tj.numpy.sin))(ROWS)
    assert "sine" in hlo.lower(alone, platform="cuda")
    with pytest.raises(UnsupportedError, match="platform_dependent has nothing for the platform 'cpu', only for cuda"):
        hlo.lower(alone)
    inside = tj.make_jaxpr(tj.jit(tj.vmap(tj.grad(lambda x: chosen(lax, tj.numpy, x)))))(ROWS[0])
    assert "case" not in hlo.lower(inside)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: lax.platform_dependent(1.0, gpu=np.sin), InputError, "'gpu' is no platform: say `cuda` or `rocm`"),
        (lambda: lax.platform_dependent(1.0), InputError, "needs a function for some platform, or a `default`"),
        (lambda: lax.ragged_dot(ROWS, BY_GROUP, ROWS[:, 0]), TypingError, "group_sizes is an array of integers"),
        (lambda: lax.ragged_dot(ROWS, ROWS, SIZES), ShapeError, "dot_general"),
        (
            lambda: lax.ragged_dot_general(
                ROWS, BY_GROUP, SIZES, lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (1,), (0,))
            ),
            ShapeError,
            "the right operand has groups only if a kept axis",
        ),
        (lambda: lax.approx_max_k(SIZES, 1), TypingError, "approx_max_k: the operand must be floats, got i64"),
        (lambda: lax.approx_min_k(ROWS, 9), ShapeError, "k must be between 0 and the size"),
        (
            lambda: lax.approx_max_k(numbers("float32", 9), 2, -1, 0.5, 8, False),
            ShapeError,
            "reduction_input_size_override is at least the size of the axis, 9, or -1; got 8",
        ),
        (
            lambda: lax.scaled_dot(ROWS, ROWS.T, lhs_scale=ROWS[:, :2]),
            ShapeError,
            "lhs_scale f32[6,2] has a size along axis 1 that divides that of f32[6,5]",
        ),
        (
            lambda: lax.scaled_dot(ROWS, ROWS.T, rhs_scale=ROWS.T[:1, :2]),
            ShapeError,
            "rhs_scale f32[1,2] has an element for each of its operand f32[5,6] along axis 1, which isn't summed over",
        ),
        (lambda: lax.scaled_dot(ROWS, ROWS.T, rhs_scale=ROWS[0]), ShapeError, "as many axes as its operand f32[5,6]"),
        (
            lambda: lax.scaled_dot(ROWS, ROWS.T, lhs_scale=ROWS),
            ShapeError,
            "lhs_scale f32[6,5] has an element for two of f32[6,5] at least along axis 1",
        ),
        (lambda: lax.composite(np.sin, ""), InputError, "the operation needs a name"),
        (lambda: lax.after_all(1.0), InputError, "after_all takes what create_token returns"),
        (lambda: lax.dot(ROWS, ROWS.T, precision="F8"), UnsupportedError, "lax.DotAlgorithmPreset.F32_F32_F32"),
    ],
)
def test_errors(call: Callable[[], object], error: type[TinyjaxError], message: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert message in str(caught.value)


@pytest.mark.sweep
@pytest.mark.parametrize("size", [100, 129, 1024, 1025, 5000, 70_000])
@pytest.mark.parametrize("rank", [1, 2])
def test_as_many_candidates_as_in_jax(rank: int, size: int) -> None:
    x = jax.ShapeDtypeStruct((size,) if rank == 1 else (2, size), "float32")
    for k, recall, more in itertools.product((1, 2, 64), (0.3, 0.95, 1.0), (None, 0, 1000, 10**8)):
        whole = -1 if more is None else size + more

        def chosen(x: jax.Array) -> tuple[jax.Array, jax.Array]:
            return jax.lax.approx_max_k(
                x, k, recall_target=recall, reduction_input_size_override=whole, aggregate_to_topk=False  # noqa: B023
            )  # fmt: skip

        assert candidates(size, rank, k, recall, whole) == jax.eval_shape(chosen, x)[0].shape[-1]


def test_groups_begin_with_the_first() -> None:
    ragged_dot: Callable[..., object] = lax.ragged_dot  # JAX's says the same
    with pytest.raises(NotImplementedError, match="group_offset is not supported: leave the groups before it out"):
        ragged_dot(ROWS, BY_GROUP, SIZES, group_offset=SIZES[:1])


def test_shapes_of_convolutions() -> None:
    names = ("NHWC", "HWOI", "NHWC")
    assert lax.conv_general_permutations(names) == jax.lax.conv_general_permutations(names)
    pads: Any
    for pads in ("SAME", "VALID", [(1, 2), (0, 3)]):
        shapes = (4, 3, 8, 9), (5, 3, 3, 2), (2, 1), pads
        assert lax.conv_shape_tuple(*shapes, 2) == jax.lax.conv_shape_tuple(*shapes, 2)
        if pads == "SAME":  # JAX can't read it
            continue
        general = (1, 6, 7, 3), (3, 2, 5, 3), (2, 3), pads, names
        assert lax.conv_general_shape_tuple(*general) == jax.lax.conv_general_shape_tuple(*general)
        assert lax.conv_transpose_shape_tuple(*general) == jax.lax.conv_transpose_shape_tuple(*general)
    with pytest.raises(ShapeError, match="negative padding"):
        lax.conv_shape_tuple((1, 1, 2), (1, 1, 1), (1,), [(-2, -2)])


def test_numbers_of_dimensions_may_be_lists() -> None:
    made: Callable[..., object] = lax.RaggedDotDimensionNumbers
    assert made((([1], [1]), ([], [])), [0], [0]) == made((((1,), (1,)), ((), ())), (0,), (0,))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_scaled_matmul_is_read(dtype: str) -> None:
    """JAX compiles it for GPUs only."""
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(2, n, 64)).astype("float8_e4m3fn") for n in (3, 4))
    x_scale, y_scale = (np.exp2(rng.integers(-2, 3, size=(2, n, 2))).astype("float8_e8m0fnu") for n in (3, 4))

    def f(x: Any, y: Any, x_scale: Any, y_scale: Any) -> Any:
        return jax.nn.scaled_matmul(x, y, x_scale, y_scale, np.dtype(dtype))

    found = of_jax(f)(x, y, x_scale, y_scale)
    wide = [np.repeat(s.astype("f8"), 32, -1) * a.astype("f8") for a, s in [(x, x_scale), (y, y_scale)]]
    assert found.dtype == dtype
    np.testing.assert_allclose(
        np.asarray(found, "f8"), np.einsum("bmk,bnk->bmn", *wide), rtol=2e-2 if dtype == "bfloat16" else 1e-5, atol=0.1
    )
    np.testing.assert_array_equal(found, tj.nn.scaled_matmul(x, y, x_scale, y_scale, dtype))
    batched = tj.jit(tj.vmap(of_jax(f)))(*(a[None] for a in (x, y, x_scale, y_scale)))
    np.testing.assert_allclose(np.asarray(batched[0], "f8"), np.asarray(found, "f8"), rtol=1e-2, atol=0.1)
