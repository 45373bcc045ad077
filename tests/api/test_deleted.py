"""Arrays that are deleted can't be used, wherever they were."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import numpy as np
import pytest

import tinyjax as tj
from tinyjax.errors import DeletedBufferError

#: What reads an array.
USES: dict[str, Callable[[tj.Array], object]] = {
    "+": lambda x: x + 1,
    "-": lambda x: 1 - x,
    "sin": tj.numpy.sin,
    "sum": lambda x: x.sum(),
    "an element": lambda x: x[0],
    "rows": lambda x: x[1:],
    "where": lambda x: tj.numpy.where(x > 0, x, 0),
    "sort": tj.numpy.sort,
    "linalg": tj.numpy.linalg.norm,
    "asarray": np.asarray,
    "repr": repr,
    "str": str,
    "tolist": lambda x: x.tolist(),
    "iter": list,
    "pickle": pickle.dumps,
    "grad": tj.grad(lambda x: (x**2).sum()),
    "vmap": tj.vmap(tj.numpy.sin),
    "device_put": lambda x: np.asarray(tj.device_put(x, "cpu:0")),
    "device_get": tj.device_get,
    "block_until_ready": lambda x: x.block_until_ready(),
    "tinyjax.block_until_ready": tj.block_until_ready,
    "is_ready": lambda x: x.is_ready(),
    "copy": lambda x: x.copy(),
    "scan": lambda x: tj.lax.scan(lambda c, x: (c + x, None), 0.0, x),
    "dlpack": lambda x: x.__dlpack__(),
}


@pytest.mark.parametrize("place", ["host", "cpu:0"])
@pytest.mark.parametrize("use", USES)
def test_what_reads_a_deleted_array(use: str, place: str) -> None:
    def made() -> tj.Array:
        return tj.device_put(tj.numpy.arange(1.0, 4.0), place)

    for _ in range(2):  # for the second, what the first has prepared is there
        USES[use](made())
        x = made()
        assert not x.is_deleted()
        x.delete()
        assert x.is_deleted()
        with pytest.raises(
            DeletedBufferError, match=r"the array f64\[3\] on .* had been (donated or )?deleted"
        ) as error:
            USES[use](x)
        assert isinstance(error.value, RuntimeError)  # which it is in jax


@pytest.mark.parametrize("place", ["host", "cpu:0"])
def test_deleted_arguments_of_compiled_functions(place: str) -> None:
    f = tj.jit(lambda x, y: x + y)
    for _ in range(3):
        x, y = tj.device_put(np.arange(3.0), place), np.ones(3)
        f(x, y)
        x.delete()
        x.delete()
        with pytest.raises(DeletedBufferError, match="deleted"):
            f(x, y)


def test_others_keep_their_elements() -> None:
    elements = np.arange(3.0)
    x = tj.numpy.asarray(elements)
    y, z = x[:2], tj.jit(lambda x: x)(x)
    x.delete()
    assert x.shape == (3,)
    assert x.dtype == np.float64
    np.testing.assert_array_equal(elements, [0, 1, 2])
    np.testing.assert_array_equal(y, [0, 1])
    np.testing.assert_array_equal(z, [0, 1, 2])


def test_numbers_on_the_host_stay() -> None:
    x = tj.numpy.asarray(2.0)
    x.delete()
    assert float(tj.numpy.asarray(2.0)) == 2.0


def test_what_is_traced_cannot_be_deleted() -> None:
    with pytest.raises(tj.errors.ConcretizationError, match="deleted"):
        tj.jit(lambda x: x.delete())(np.ones(3))
