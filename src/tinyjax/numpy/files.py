"""Arrays from buffers, texts, functions and files; arrays as texts; how arrays are printed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyjax.arrays.elementwise import user_dtype
from tinyjax.deferred import VMAP
from tinyjax.errors import ChoiceError, InputError, TinyjaxError
from tinyjax.ir.dtypes import BFLOAT16, as_dtype
from tinyjax.numpy.arguments import shape_of
from tinyjax.numpy.creation import arange, asarray
from tinyjax.numpy.signatures import File, ShapeLike
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.transforms.arguments import function as check_function


@contextmanager
def _by_numpy(name: str) -> Iterator[None]:
    """NumPy's errors become ours."""
    try:
        yield
    except TinyjaxError:
        raise
    except (TypeError, OverflowError) as error:
        raise InputError(f"{name}: {error}") from None
    except ValueError as error:
        raise ChoiceError(f"{name}: {error}") from None


def frombuffer(buffer: Any, dtype: npt.DTypeLike = float, count: int = -1, offset: int = 0) -> Array:
    """The elements in a buffer, such as bytes, from a place on: so many, or all.

    >>> frombuffer(b"ab", "uint8")
    Array([97, 98], dtype=uint8)
    """
    with _by_numpy("frombuffer"):
        return as_array(np.frombuffer(buffer, user_dtype(dtype), count, offset).copy())


def fromstring(string: str, dtype: npt.DTypeLike = float, count: int = -1, *, sep: str) -> Array:
    """The numbers in a text, with `sep` between them: so many, or all.

    >>> fromstring("1 2", sep=" ")
    Array([1., 2.], dtype=float64)
    """
    with _by_numpy("fromstring"):
        return as_array(np.fromstring(string, user_dtype(dtype), count, sep=sep))


def fromfile(file: File, dtype: npt.DTypeLike = float, count: int = -1, sep: str = "", offset: int = 0) -> Array:
    """The elements in a file, from a place on: so many, or all. With a `sep`, numbers in a text.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "elements")
    >>> _ = path.write_bytes(b"ab")
    >>> fromfile(path, "uint8")
    Array([97, 98], dtype=uint8)
    """
    with _by_numpy("fromfile"):
        return as_array(np.fromfile(file, user_dtype(dtype), count, sep, offset))


def fromiter(iter: Iterable[Any], dtype: npt.DTypeLike, count: int = -1) -> Array:
    """The numbers that an iterable gives: so many, or all.

    >>> fromiter((i * i for i in range(3)), "int32")
    Array([0, 1, 4], dtype=int32)
    """
    with _by_numpy("fromiter"):
        return as_array(np.fromiter(iter, as_dtype(dtype), count))


def fromfunction(function: Callable[..., Any], shape: ShapeLike, *, dtype: npt.DTypeLike = float, **kwargs: Any) -> Any:
    """What a function of the positions on each axis, which are scalars, gives for each element of this shape.

    >>> fromfunction(lambda i, j: 10 * i + j, (2, 2), dtype=int)
    Array([[ 0,  1],
           [10, 11]], dtype=int64)
    """
    sizes, chosen = shape_of(shape), user_dtype(dtype)
    check_function("fromfunction: function", function)
    mapped: Callable[..., Any] = lambda *args: function(*args, **kwargs)  # noqa: E731 (it is wrapped below)
    for axis in range(len(sizes) - 1, -1, -1):
        mapped = VMAP.use(mapped, tuple(0 if i == axis else None for i in range(len(sizes))))
    return mapped(*[arange(size, dtype=chosen) for size in sizes])


def load(file: File, *args: Any, **kwargs: Any) -> Any:  # an array, or an archive of them
    """The array in a file that `save` wrote; of one that `savez` wrote NumPy's archive, with arrays by name. Arguments
    as for numpy.load.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "x.npy")
    >>> save(path, as_array(np.arange(3)))
    >>> load(path)
    Array([0, 1, 2], dtype=int64)
    """
    found = np.load(file, *args, **kwargs)
    if not isinstance(found, np.ndarray):
        return found
    # NumPy writes dtypes that it doesn't know as so many bytes.
    return as_array(found.view(BFLOAT16) if found.dtype == np.dtype("V2") else found)


def save(file: File, arr: ArrayLike, allow_pickle: bool = True) -> None:
    """Writes an array to a file, in NumPy's format: see `load`.

    >>> import io
    >>> file = io.BytesIO()
    >>> save(file, np.arange(2))
    >>> len(file.getvalue())
    144
    """
    np.save(file, np.asarray(asarray(arr)), allow_pickle)


def savez(file: File, *args: ArrayLike, allow_pickle: bool = True, **kwds: ArrayLike) -> None:
    """Writes arrays to an archive in NumPy's format, those given by name under it: see `load`.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "x.npz")
    >>> savez(path, weights=np.arange(3))
    >>> load(path)["weights"]
    array([0, 1, 2])
    """
    named = {name: np.asarray(asarray(x)) for name, x in kwds.items()}
    np.savez(file, *[np.asarray(asarray(x)) for x in args], allow_pickle=allow_pickle, **named)


# As texts.


def array_repr(
    arr: ArrayLike,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """The text that stands for an array.

    >>> array_repr(np.array([1.0, 2.0]))
    'Array([1., 2.], dtype=float64)'
    """
    if max_line_width is None and precision is None and suppress_small is None:
        return repr(as_array(arr))
    with _by_numpy("array_repr"), _shown(max_line_width, precision, suppress_small):
        return repr(as_array(arr))


def array_str(
    a: ArrayLike,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """The elements of an array as a text.

    >>> array_str(np.array([1.0, 2.0]))
    '[1. 2.]'
    """
    with _by_numpy("array_str"), _shown(max_line_width, precision, suppress_small):
        return str(as_array(a))


def _shown(
    width: int | None, precision: int | None, suppress: bool | None
) -> AbstractContextManager[Any]:  # NumPy's class of options
    return np.printoptions(linewidth=width, precision=precision, suppress=suppress)


def get_printoptions() -> dict[str, Any]:
    """How arrays are printed: NumPy's options, which count for these too.

    >>> get_printoptions()["precision"]
    8
    """
    return dict(np.get_printoptions())


def set_printoptions(*args: Any, **kwargs: Any) -> None:
    """Says how arrays are printed: NumPy's options, which count for these too. `printoptions` does it for a while.

    >>> set_printoptions(precision=8)
    """
    np.set_printoptions(*args, **kwargs)


def printoptions(*args: Any, **kwargs: Any) -> AbstractContextManager[Any]:
    """Says, in a `with` statement, how arrays are printed: NumPy's options, which count for these too.

    >>> with printoptions(precision=2):
    ...     print(as_array(np.array([1 / 3])))
    [0.33]
    """
    return np.printoptions(*args, **kwargs)


def iterable(y: object) -> bool:
    """Whether one can iterate over it.

    >>> iterable([1]), iterable(1)
    (True, False)
    """
    return np.iterable(y)
