"""What the array API standard asks for beyond NumPy's functions: devices, the namespace, exchange, repetition."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax.backend import Device
from tinyjax.errors import ChoiceError, ConcretizationError, InputError

CREATORS = {
    "arange": (3,),
    "asarray": ([1.0, 2.0],),
    "array": ([1.0, 2.0],),
    "astype": (np.ones(2), "int32"),
    "empty": (3,),
    "empty_like": (np.ones(3),),
    "eye": (3,),
    "from_dlpack": (np.arange(3),),
    "full": (3, 2.0),
    "full_like": (np.ones(3), 2),
    "linspace": (0, 1, 5),
    "ones": (3,),
    "ones_like": (np.ones(3),),
    "zeros": (3,),
    "zeros_like": (np.ones(3),),
}


@pytest.mark.parametrize("name", CREATORS)
def test_new_arrays_are_where_they_should_be(name: str) -> None:
    function, args = getattr(tnp, name), CREATORS[name]
    assert function(*args).device == Device("host")
    for device in ("cpu", "cpu:0", jax.devices()[0], Device("cpu"), jnp.ones(1).sharding):
        x = function(*args, device=device)
        assert str(x.device) == "cpu:0"
        assert x.platform == "cpu"
        back = x.to_device("host")
        assert back.device == tnp.zeros(1).device
        np.testing.assert_array_equal(back, function(*args))
    with pytest.raises(ChoiceError, match=r"there is no device gpu:9 here, only 'host', 'cpu:0'"):
        function(*args, device="gpu:9")


def test_frequencies_are_where_they_should_be() -> None:
    assert tnp.fft.fftfreq(4, device="cpu").platform == tnp.fft.rfftfreq(4, device="cpu").platform == "cpu"


def test_what_is_traced_has_a_device_too() -> None:
    def f(x: tj.ArrayLike) -> tj.Array:
        x = tnp.asarray(x)
        return tnp.zeros_like(x, device=x.device) + x.to_device("cpu")

    np.testing.assert_array_equal(tj.jit(f)(np.ones(2)), 1)
    np.testing.assert_array_equal(tj.vmap(f)(np.ones(2)), 1)
    np.testing.assert_array_equal(tj.grad(lambda x: f(x).sum())(np.ones(2)), 1)


def test_arrays_know_their_functions() -> None:
    x = tnp.ones(2)
    assert x.__array_namespace__() is tnp
    assert x.__array_namespace__(api_version="2024.12").__array_api_version__ == "2024.12"
    with pytest.raises(ChoiceError, match="or an earlier one"):
        x.__array_namespace__(api_version="2099.01")


def test_what_there_is() -> None:
    info = tnp.__array_namespace_info__()
    assert info.default_device() in info.devices()
    assert all(tnp.ones(1, device=device).device == device for device in info.devices())
    assert info.default_dtypes()["real floating"] == tnp.ones(1).dtype
    assert set(info.dtypes(kind=("bool", "complex floating"))) == {"bool", "complex64", "complex128"}
    assert set(info.dtypes()) == set(info.dtypes(kind=("bool", "numeric")))
    for kind in ("integral", "numeric", "real floating", "unsigned integer"):
        assert all(tnp.isdtype(dtype, kind) for dtype in info.dtypes(kind=kind).values())
    with pytest.raises(ChoiceError, match="the kinds are bool, signed integer"):
        info.dtypes(kind="floats")


def test_exchange() -> None:
    elements = np.arange(3.0)
    shared, copied = tnp.from_dlpack(elements, copy=False), tnp.from_dlpack(elements)
    assert np.shares_memory(np.asarray(shared), elements)
    assert not np.shares_memory(np.asarray(copied), elements)
    for dtype in ("float32", "bfloat16", "int8", "bool", "complex64"):
        x = jnp.ones(3, dtype)
        assert tnp.from_dlpack(x).dtype == x.dtype
        assert tnp.from_dlpack(tnp.ones(3, dtype), device="cpu").platform == "cpu"
    with pytest.raises(ChoiceError, match="without a copy"):
        tnp.from_dlpack(elements, device="cpu", copy=False)
    with pytest.raises(InputError, match="__dlpack__"):
        tnp.from_dlpack(3)


def test_copies_are_refused_or_made() -> None:
    x = tnp.ones(2)
    assert tnp.asarray(x, copy=False) is x
    assert tnp.asarray(x, copy=True) is not x
    with pytest.raises(ValueError, match="without a copy"):
        tnp.asarray(x, "int8", copy=False)
    with pytest.raises(ValueError, match="copy can't be False"):
        tnp.asarray([1.0], copy=False)


@pytest.mark.parametrize("wrong", [2, -4])
def test_no_such_axis(wrong: int) -> None:
    with pytest.raises(IndexError, match="out of range"):
        tnp.squeeze(tnp.ones((1, 2))[0:1], axis=wrong)
    with pytest.raises(IndexError, match=r"expand_dims: axis .* is out of range for an array with 3 axes"):
        tnp.expand_dims(tnp.ones((1, 2)), wrong - 1 if wrong < 0 else wrong + 1)


def test_wide_sums_and_positions() -> None:
    for dtype in ("int8", "uint8", "bool", "float32"):
        x = np.ones(3, dtype)
        assert tnp.cumulative_prod(x).dtype == tnp.cumulative_sum(x).dtype == tnp.prod(x).dtype
    assert tnp.searchsorted(np.arange(3), 1).dtype == np.int64


REPEATS = [2, 0, np.array(2), [1, 0, 2], np.array([2]), np.array([0, 0, 0]), np.array([3, 1, 1], "uint8")]


@pytest.mark.parametrize("repeats", REPEATS, ids=str)
def test_repeat(repeats: int) -> None:
    x = np.arange(6).reshape(2, 3)
    np.testing.assert_array_equal(tnp.repeat(x, repeats, axis=1), np.repeat(x, repeats, axis=1))
    np.testing.assert_array_equal(tnp.asarray(x).repeat(repeats, -1), np.repeat(x, repeats, axis=-1))
    for total in (0, 2, 7):
        expected = jnp.repeat(x, np.asarray(repeats), axis=1, total_repeat_length=total)
        found = tj.jit(lambda r, total=total: tnp.repeat(x, r, 1, total_repeat_length=total))(np.asarray(repeats))
        if np.sum(np.broadcast_to(repeats, 3)):
            np.testing.assert_array_equal(found, expected)
        assert found.shape == (2, total)


@pytest.mark.parametrize("axis", [0, -1, None])
@pytest.mark.parametrize("repeats", [0, 3, np.array([2])])
def test_repeat_of_a_number(axis: int | None, repeats: Any) -> None:
    """As in NumPy, also where a derivative is taken of it."""
    for x in (3, np.float32(2.5), np.array(True)):
        found, expected = tnp.repeat(x, repeats, axis), np.repeat(x, repeats, axis)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    slope = tj.grad(lambda x: tnp.repeat(x, repeats, axis).sum())(1.5)
    assert float(slope) == np.sum(repeats)
    for module in (np, tnp):
        with pytest.raises(ValueError, match="axis 1 is out of"):
            module.repeat(3, 2, 1)


@pytest.mark.parametrize("repeats", [[2], [1, 3, 2]])
def test_repeat_by_what_is_closed_over(repeats: list[int]) -> None:
    """An array that a compiled function closes over is known, also one of a single number, as in jax."""
    x, counts = np.arange(3), tnp.asarray(repeats)
    found = tj.jit(lambda x: tnp.repeat(x, counts))(x)
    theirs = jnp.asarray(repeats)
    np.testing.assert_array_equal(found, jax.jit(lambda x: jnp.repeat(x, theirs))(x))


def test_repeat_says_what_to_do() -> None:
    with pytest.raises(ConcretizationError, match="Pass total_repeat_length"):
        tj.jit(lambda r: tnp.repeat(np.arange(2), r))(np.array([1, 2]))
    with pytest.raises(ValueError, match="there must be a number for each place"):
        tnp.repeat(np.arange(3), np.array([1, 2]))
    with pytest.raises(ValueError, match="at least 0, got -1"):
        tnp.repeat(np.arange(2), np.array([1, -1]))
    np.testing.assert_allclose(
        tj.grad(lambda x: (tnp.repeat(x, np.array([1, 2])) ** 2).sum())(np.array([1.0, 3.0])), [2, 12]
    )


def test_roll_by_what_is_traced() -> None:
    x = np.arange(6).reshape(2, 3)
    for shift, axis in ((1, None), (-2, 1), (5, 0)):
        found = tj.jit(lambda s, axis=axis: tnp.roll(x, s, axis))(shift)
        np.testing.assert_array_equal(found, np.roll(x, shift, axis))
    np.testing.assert_array_equal(tnp.roll(x, np.array([1, 2]), (0, 1)), np.roll(x, (1, 2), (0, 1)))


def test_weights_of_several_axes_are_in_their_order() -> None:
    x, weights = np.arange(24.0).reshape(2, 3, 4), np.arange(8.0).reshape(4, 2)
    np.testing.assert_allclose(tnp.average(x, (2, 0), weights), np.average(x, (2, 0), weights))
