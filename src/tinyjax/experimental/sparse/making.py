"""Sparse arrays of nothing, of ones on a diagonal, and of random numbers; and dense ones of sparse."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from operator import index
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

import tinyjax.numpy as tnp
from tinyjax import lax, random
from tinyjax.api.vectorize import vmap
from tinyjax.errors import ChoiceError, InputError
from tinyjax.experimental.sparse.base import JAXSparse
from tinyjax.experimental.sparse.bcoo import BCOO, empty_bcoo, eye_bcoo
from tinyjax.experimental.sparse.bcsr import empty_bcsr
from tinyjax.experimental.sparse.matrices import empty_coo, empty_csc, empty_csr, eye_coo, eye_csc, eye_csr
from tinyjax.experimental.sparse.storage import check_layout
from tinyjax.ir.shapes import as_shape
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array

#: What `todense` of an array is called in programs, for `sparsify` to know it by.
TODENSE: Final = "tinyjax.todense"
_Maker: TypeAlias = Callable[..., JAXSparse]
EMPTY: Final[Mapping[str, _Maker]] = {
    "bcoo": empty_bcoo, "bcsr": empty_bcsr, "coo": empty_coo, "csr": empty_csr, "csc": empty_csc,
}  # fmt: skip
EYE: Final[Mapping[str, _Maker]] = {"bcoo": eye_bcoo, "coo": eye_coo, "csr": eye_csr, "csc": eye_csc}


def _maker(what: str, makers: Mapping[str, _Maker], sparse_format: str) -> _Maker:
    if sparse_format not in makers:
        raise ChoiceError(f"{what}: sparse_format is one of {sorted(makers)}, not {sparse_format!r}")
    return makers[sparse_format]


def todense(arr: JAXSparse | ArrayLike) -> Array:
    """The array that a sparse one stands for; of an array, itself. In a function that is given to `sparsify`, what is
    sparse is made dense.

    >>> from tinyjax.experimental.sparse import eye
    >>> todense(eye(2))
    Array([[1., 0.],
           [0., 1.]], dtype=float64)
    """
    if isinstance(arr, JAXSparse):
        return arr.todense()
    array = as_array(arr)
    if array.concrete() is not None:
        return array
    dense: Array = lax.composite(lambda x: x, TODENSE)(array)
    return dense


def empty(
    shape: Sequence[int],
    dtype: npt.DTypeLike | None = None,
    index_dtype: npt.DTypeLike = "int32",
    sparse_format: str = "bcoo",
    **kwds: Any,
) -> Any:
    """A sparse array of zeros. `kwds`: `n_batch`, `n_dense` and `nse` of a BCOO.

    >>> empty((3, 4))
    BCOO(float64[3, 4], nse=0)
    """
    make = _maker("empty", EMPTY, sparse_format)
    return make(as_shape(shape), dtype=dtype, index_dtype=index_dtype, **kwds)


def eye(
    N: int,  # noqa: N803
    M: int | None = None,  # noqa: N803
    k: int = 0,
    dtype: npt.DTypeLike | None = None,
    index_dtype: npt.DTypeLike = "int32",
    sparse_format: str = "bcoo",
    **kwds: Any,
) -> Any:
    """A sparse matrix with ones on the k-th diagonal. `kwds`: `n_batch` and `n_dense` of a BCOO.

    >>> eye(3, k=1)
    BCOO(float64[3, 3], nse=2)
    """
    make = _maker("eye", EYE, sparse_format)
    rows, columns = as_shape((N, N if M is None else M))
    return make(rows, columns, index(k), dtype=dtype, index_dtype=index_dtype, **kwds)


def random_bcoo(
    key: ArrayLike,
    shape: Sequence[int],
    *,
    dtype: npt.DTypeLike = np.float64,
    indices_dtype: npt.DTypeLike | None = None,
    nse: float = 0.2,
    n_batch: int = 0,
    n_dense: int = 0,
    unique_indices: bool = True,
    sorted_indices: bool = False,
    generator: Callable[..., Array] = random.uniform,
    **kwds: Any,
) -> BCOO:
    """A BCOO with random elements in random places: the same as JAX's for the same key.

    Args:
      nse: how many elements are stored, or if it is less than 1, which part of them.
      generator: what makes the elements, called with a key, `shape=`, `dtype=` and `kwds`.

    >>> from tinyjax.random import key
    >>> random_bcoo(key(0), (3, 4), nse=0.5)
    BCOO(float64[3, 4], nse=6)
    """
    sizes = as_shape(shape)
    n_batch, n_sparse, _ = check_layout("random_bcoo", len(sizes), n_batch, n_dense)
    batch, sparse, dense = sizes[:n_batch], sizes[n_batch : n_batch + n_sparse], sizes[n_batch + n_sparse :]
    room = math.prod(sparse)
    if not 0 <= nse < room:
        raise ChoiceError(
            f"random_bcoo: nse must be at least 0 and less than the number of elements, {room}; got {nse}"
        )
    count = math.ceil(nse * room) if 0 < nse < 1 else index(nse) if isinstance(nse, int) else int(nse)
    dtype_of_indices = np.dtype(indices_dtype or np.int64)
    if room > np.iinfo(dtype_of_indices).max:
        raise ChoiceError(f"random_bcoo: {dtype_of_indices} is too small for indices of {room} elements")
    if not callable(generator):
        raise InputError(f"random_bcoo: generator must be a function such as random.uniform, got {generator!r}")

    def places(key: Array) -> Array:
        if not sparse:
            return tnp.zeros((count, 0), dtype_of_indices)
        flat = random.choice(key, room, (count,), replace=not unique_indices).astype(dtype_of_indices)
        return tnp.stack(tnp.unravel_index(flat, sparse), axis=-1).astype(dtype_of_indices)

    keys = random.split(key, math.prod(batch) + 1)
    data = generator(keys[0], shape=(*batch, count, *dense), dtype=dtype, **kwds)
    indices = vmap(places)(keys[1:]).reshape(*batch, count, n_sparse)
    found = BCOO((data, indices), shape=sizes)
    return found.sort_indices() if sorted_indices else found
