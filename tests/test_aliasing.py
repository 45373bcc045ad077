"""Nothing that the library returns or keeps changes when the user writes to an array afterwards.

The law is tried on every public function, with whatever arguments of a long list it takes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import get_origin

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import ir, lax
from tinyjax.errors import TinyjaxError
from tinyjax.ir.dtypes import HostArray


def floats(*shape: int) -> HostArray:
    return (np.arange(1.0, 1 + np.prod(shape)) / 7).reshape(shape)


def integers(*shape: int) -> HostArray:
    return np.arange(np.prod(shape, dtype=int)).reshape(shape)


MAKERS: list[Callable[[], HostArray]] = [
    lambda: floats(4),
    lambda: floats(2, 2),
    lambda: floats(1),
    lambda: np.array(0.5),
    lambda: integers(4),
    lambda: integers(2, 2),
    lambda: np.array([True, False, True, True]),
    lambda: floats(4).astype(np.complex128),
    lambda: floats(1, 4, 1),
    lambda: floats(2, 1),
    lambda: np.array(1),
    lambda: floats(4).astype(np.float32),
]
#: What may follow an array.
FOLLOWING: list[tuple[object, ...]] = [
    *((), (0,), (1,), ((),), ((0,),), ((4,),), ((2, 2),), ((0, 1),), (None,), (None, None), (2,), (4,), (64,)),
    *((0, 0), (1, 0), (0, 1), (0, 4), (0, 4, 1, 0), (0, 0, 1), ((4,), (0,)), ((2, 2), (0, 1)), ((0,), (4,))),
    *(((0, 0), (2, 2)), ("float64",), (np.int64,), (0.0, [(0, 0, 0)]), (lambda x: x,)),
]


#: Argument lists with arrays that nobody else has.
CALLS: list[Callable[[Callable[[], HostArray]], tuple[object, ...]]] = [
    *(lambda make, rest=rest: (make(), *rest) for rest in FOLLOWING),
    lambda make: (make(), make()),
    lambda make: (make(), make(), make()),
    lambda make: ([make()],),
    lambda make: ([make(), make()],),
    lambda make: ([make(), make()], 0),
    lambda make: (lambda x: x, make()),
    lambda make: (lambda c, x: (c, x), make(), make()),
    lambda make: (lambda x: x.sum() < 0, lambda x: x, make()),
    lambda make: (0, 2, lambda _, x: x, make()),
    lambda make: (True, lambda x: x, lambda x: x, make()),
    lambda make: (0, [lambda x: x, lambda x: x], make()),
    lambda make: (make(), 0, 0, make()),
    lambda make: (make(), make(), 0),
    lambda make: (make(), make(), 0, 0),
    lambda make: (make(), make(), (0,)),
]


def arrays_in(args: Sequence[object]) -> list[HostArray]:
    return [leaf for leaf in tj.tree.leaves(list(args)) if isinstance(leaf, np.ndarray)]


def write_to(array: HostArray) -> None:
    array[...] = np.logical_not(array) if array.dtype == np.bool_ else np.add(array, 77)


#: Functions that take no arrays, or return none, and those with arguments of their own, which other tests write to.
APART = {
    *("broadcast_shapes", "can_cast", "einsum_path", "finfo", "iinfo", "iscomplexobj", "isdtype", "isrealobj"),
    *("isscalar", "issubdtype", "ndim", "promote_types", "result_type", "shape", "size", "put", "put_along_axis"),
    *(
        "__array_namespace_info__",
        "axis_index",
        "axis_size",
        "broadcasted_iota",
        "rng_bit_generator",
        "iota",
        "argmax",
        "argmin",
        "dot_general",
        "gather",
    ),
    *("associative_scan", "scatter", "scatter_add", "scatter_apply", "scatter_max", "scatter_min", "scatter_mul"),
    "scatter_sub",
    *("custom_linear_solve", "custom_root"),
    *(
        "all_to_all",
        "ragged_all_to_all",
        "pcast",
        "pvary",
        "ppermute",
        "pshuffle",
        "pswapaxes",
        "pbroadcast",
        "fft",
        "padtype_to_pads",
    ),
    *("conv", "conv_dimension_numbers", "conv_general_dilated", "conv_general_dilated_local"),
    *("conv_general_dilated_patches", "conv_transpose", "conv_with_general_padding", "reduce", "reduce_window"),
    *(
        "after_all",
        "composite",
        "dce_sink",
        "with_sharding_constraint",
        "conv_general_permutations",
        "conv_general_shape_tuple",
        "conv_shape_tuple",
    ),
    *("conv_transpose_shape_tuple", "dtype", "platform_dependent", "ragged_dot", "ragged_dot_general"),
    *("shape_as_value",),
    *("apply_along_axis", "apply_over_axes", "array_repr", "array_str", "fill_diagonal", "fromfile", "fromiter"),
    *("frompyfunc", "fromstring", "get_printoptions", "histogramdd", "iterable", "load", "mask_indices", "place"),
    *("printoptions", "ravel_multi_index", "save", "savez", "set_printoptions", "unpackbits", "vectorize"),
    *("reduce_window_shape_tuple", "select_and_gather_add", "select_and_scatter", "select_and_scatter_add"),
}
#: Some of these, where the result could be the operand.
OWN_ARGUMENTS: dict[str, Callable[[HostArray], object]] = {
    "ppermute": tj.vmap(lambda x: lax.ppermute(x, "i", [(i, i) for i in range(4)]), axis_name="i"),
    "pshuffle": tj.vmap(lambda x: lax.pshuffle(x, "i", range(4)), axis_name="i"),
    "all_gather": tj.vmap(lambda x: lax.all_gather(x, "i"), axis_name="i", out_axes=None),
    "all_to_all": lambda a: tj.vmap(lambda x: lax.all_to_all(x, "i", 0, 0), axis_name="i")(a.reshape(2, 2)),
    "pswapaxes": lambda a: tj.vmap(lambda x: lax.pswapaxes(x, "i", 0), axis_name="i")(a.reshape(1, 4)[:, :1]),
    "conv": lambda a: lax.conv(a.reshape(1, 1, 4), np.ones((1, 1, 1)), (1,), "VALID"),
    "conv_general_dilated_patches": lambda a: lax.conv_general_dilated_patches(a.reshape(1, 1, 4), (1,), (1,), "VALID"),
    "reduce": lambda a: lax.reduce(a, np.float64(0), lax.add, ()),
    "reduce_window": lambda a: lax.reduce_window(a, np.float64(0), lax.add, (1,), (1,), "VALID"),
    "composite": lax.composite(lambda x: x, "same"),
    "with_sharding_constraint": lambda a: lax.with_sharding_constraint(
        a, tj.NamedSharding(tj.make_mesh((1,), ("i",)), tj.P())
    ),
    "platform_dependent": lambda a: lax.platform_dependent(a, cpu=lambda x: x),
    "ragged_dot": lambda a: lax.ragged_dot(a.reshape(4, 1), np.ones((1, 1, 1)), np.array([4])),
    "fill_diagonal": lambda a: tnp.fill_diagonal(a.reshape(1, 4)[:0], 1, inplace=False),
    "place": lambda a: tnp.place(a, np.zeros(a.shape), a, inplace=False),
    "vectorize": tnp.vectorize(lambda x: x),
    "apply_along_axis": lambda a: tnp.apply_along_axis(lambda x: x, 0, a),
    "unpackbits": lambda a: tnp.unpackbits(a.astype("uint8")),
    "ravel_multi_index": lambda a: tnp.ravel_multi_index((a.astype(int),), (100,), "clip"),
    "fft": lambda a: lax.fft(a.astype(np.complex128).reshape(4, 1), "fft", (1,)),
}
FUNCTIONS = [
    pytest.param(getattr(module, name), id=f"{module.__name__}.{name}")
    for module in (tnp, lax)
    for name in module.__all__
    if callable(getattr(module, name)) and not inspect.isclass(getattr(module, name))
    if get_origin(getattr(module, name)) is None  # such as PrecisionLike
    if name not in {"set_printoptions", "save", "savez", "rng_uniform"}  # what they do lasts
]


def results_of(f: Callable[..., object], args: Sequence[object]) -> list[tj.Array]:
    return [leaf for leaf in tj.tree.leaves(f(*args)) if isinstance(leaf, tj.Array)]


def check_results_stay(f: Callable[..., object], make: Callable[[], Sequence[object]], untouched: int = 1) -> bool:
    """Whether there are results; they must not change with the arguments.

    The first time the long way is taken; what is prepared for the second and the third time keeps the law too. Nobody
    writes to the arguments of the call `untouched`, which says what is expected: to look at a result may be what makes
    it safe, so none is looked at before.
    """
    all_args = [make() for _ in range(3)]
    all_results = [results_of(f, args) for args in all_args]
    for n, args in enumerate(all_args):
        for array in arrays_in(args) if n != untouched else ():
            write_to(array)
    expected = [np.asarray(result).tobytes() for result in all_results[untouched]]
    for args, results in zip(all_args, all_results, strict=True):
        for result, elements in zip(results, expected, strict=True):
            found = np.asarray(result)
            assert found.tobytes() == elements
            assert not found.flags.writeable
            assert not any(np.shares_memory(found, array) for array in arrays_in(args))
    return bool(expected and arrays_in(all_args[0]))


@pytest.mark.sweep
@pytest.mark.parametrize("f", FUNCTIONS)
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_results_do_not_change(f: Callable[..., object]) -> None:
    called = False
    for n, make in enumerate(MAKERS):
        for i, call in enumerate(CALLS):
            try:
                called |= check_results_stay(f, partial(call, make), (n + i) % 3)
            except (TinyjaxError, TypeError, ValueError, LookupError, NotImplementedError, AttributeError):
                continue
    assert called or f.__name__ in APART, "no arguments were found that this function takes"


@pytest.mark.parametrize("f", OWN_ARGUMENTS.values(), ids=OWN_ARGUMENTS)
def test_results_with_own_arguments_do_not_change(f: Callable[[HostArray], object]) -> None:
    for untouched in range(3):
        assert check_results_stay(f, lambda: (floats(4),), untouched)


@pytest.mark.parametrize("positions", [[0], []])
@pytest.mark.parametrize("along", [False, True])
def test_put_returns_a_new_array(along: bool, positions: list[int]) -> None:
    def arguments() -> tuple[HostArray, HostArray, HostArray]:
        return floats(4), np.array(positions, int), floats(len(positions))

    def put(a: HostArray, at: HostArray, new: HostArray) -> object:
        return tnp.put_along_axis(a, at, new, 0, inplace=False) if along else tnp.put(a, at, new, inplace=False)

    assert check_results_stay(put, arguments)


# Transformations and operators of functions that return what they are given.


@tj.custom_jvp
def custom_jvp_identity(x: tj.Array) -> tj.Array:
    return x


@custom_jvp_identity.defjvp
def _(primals: tuple[tj.Array], tangents: tuple[tj.Array]) -> tuple[tj.Array, tj.Array]:
    return primals[0], tangents[0]


@tj.custom_vjp
def custom_vjp_identity(x: tj.Array) -> tj.Array:
    return x


custom_vjp_identity.defvjp(lambda x: (x, None), lambda _, cotangent: (cotangent,))

IDENTITIES: dict[str, Callable[[HostArray], object]] = {
    "jit": tj.jit(lambda x: x),
    "vmap": tj.vmap(lambda x: x),
    "vmap of a constant": lambda a: tj.vmap(lambda x, y: (x, y), in_axes=(0, None))(a, a),
    "jvp": lambda a: tj.jvp(lambda x: x, (a,), (a,)),
    "vjp": lambda a: tj.vjp(lambda x: x, a)[0],
    "pullback": tj.vjp(lambda x: x, np.ones(4))[1],
    "linearize": lambda a: tj.linearize(lambda x: x, a)[0],
    "linear": tj.linearize(lambda x: x, np.ones(4))[1],
    "linear_transpose": tj.linear_transpose(lambda x: x, tj.ShapedArray((4,), "float64")),
    "value_and_grad": tj.value_and_grad(lambda x: (x.sum(), x), has_aux=True),
    "jacfwd": tj.jacfwd(lambda x: x),
    "jacrev": tj.jacrev(lambda x: x),
    "checkpoint": tj.checkpoint(lambda x: x),
    "custom_jvp": lambda a: custom_jvp_identity(tnp.asarray(a)),
    "custom_vjp": lambda a: custom_vjp_identity(tnp.asarray(a)),
    "closed over": lambda a: tj.vmap(lambda x: (x, a))(np.ones(3)),
    "closed over by jit": lambda a: tj.jit(lambda x: (x, a))(np.ones(3)),
    "eval_jaxpr": lambda a: tj.eval_jaxpr(tj.make_jaxpr(lambda x: x)(a), (), a),
    "pure_callback": lambda a: tj.pure_callback(lambda x: x, tj.ShapedArray((4,), "float64"), a),
    "pure_callback, jitted": tj.jit(lambda x: tj.pure_callback(lambda x: x, tj.ShapedArray((4,), "float64"), x)),
    "device_put": tj.device_put,
    "at.set": tnp.zeros(4).at[:].set,
    "at.get": lambda a: tnp.asarray(a).at[()].get(),
    "index": lambda a: tnp.asarray(a)[...],
    "copy": lambda a: tnp.asarray(a).copy(),
    "reversed power": lambda a: tnp.power(a, 1) ** 1,
    "exponent": lambda a: a ** tnp.asarray(1),
    "jax": lambda a: tnp.asarray(_Foreign(a)),
    "barrier": lax.optimization_barrier,
    "stop_gradient": lambda a: lax.stop_gradient({"a": a}),
    "ConcreteValue": lambda a: tj.eval_jaxpr(tj.make_jaxpr(lambda x: x)(a).jaxpr, [ir.ConcreteValue.of(a)]),
}


class _Foreign:
    """Something else that converts to an array, which is still its own."""

    def __init__(self, array: HostArray) -> None:
        self._array = array

    def __array__(self, dtype: object = None, copy: bool | None = None) -> HostArray:
        return self._array


@pytest.mark.parametrize("f", [pytest.param(f, id=name) for name, f in IDENTITIES.items()])
def test_identities(f: Callable[[HostArray], object]) -> None:
    for untouched in range(3):
        assert check_results_stay(f, lambda: (floats(4),), untouched)


def test_views_of_writable_arrays_are_taken_in() -> None:
    owner = floats(8)
    for view in (owner[::2], owner[:4], np.broadcast_to(owner[:1], (4,)), owner.reshape(2, 4)[0]):
        view.flags.writeable = False
        result = tnp.positive(view)
        before = np.array(result)
        write_to(owner)
        np.testing.assert_array_equal(result, before)


def test_read_only_arrays_are_not_copied() -> None:
    array = np.arange(4.0)
    array.flags.writeable = False
    assert np.shares_memory(np.asarray(tnp.asarray(array)), array)


# What is closed over counts when it is used.


@pytest.mark.parametrize("jitted", [False, True])
def test_closed_over_arrays_are_read_when_they_are_used(jitted: bool) -> None:
    a = floats(3)

    def f(x: tj.Array) -> tj.Array:
        return tnp.sin(x * a) @ a

    _, pull = tj.vjp(tj.jit(f) if jitted else f, np.ones(3))
    _, push = tj.linearize(tj.jit(f) if jitted else f, np.ones(3))
    expected = np.asarray(tnp.cos(a) * a * a)
    transposed = tj.linear_transpose(lambda x: x * a, np.ones(3))
    scale = a.copy()
    a[:] = np.nan
    np.testing.assert_allclose(pull(1.0)[0], expected)
    np.testing.assert_allclose(push(np.ones(3)), expected.sum())
    np.testing.assert_array_equal(np.asarray(transposed(np.ones(3))[0]), scale)


def test_an_array_that_is_written_to_during_a_trace_is_two_constants() -> None:
    def f(x: tj.Array) -> tj.Array:
        a = np.ones(3)
        x = x * a + a
        a[:] = 2
        return x * a + a

    closed = tj.make_jaxpr(f)(np.ones(3))
    assert len(closed.consts) == 2, "the same elements are one constant"
    np.testing.assert_array_equal(tj.jit(f)(tnp.ones(3)), [6, 6, 6])
    np.testing.assert_array_equal(tj.vmap(f, in_axes=1)(tnp.ones((3, 2))), np.full((2, 3), 6))


def test_elements_of_constants_are_out_of_reach() -> None:
    a = floats(3)
    value = ir.ConcreteValue.of(a)
    closed = tj.make_jaxpr(lambda x: x + a)(1.0)
    printed = ir.format_closed(closed)
    write_to(a)
    assert value == ir.ConcreteValue.of(floats(3))
    assert ir.format_closed(closed) == printed
    with pytest.raises(ValueError, match="read-only"):
        write_to(np.asarray(value))
