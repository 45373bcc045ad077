"""Functions of scalars with NumPy's methods: `reduce`, `accumulate`, `outer`, `at`, `reduceat`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any, SupportsIndex, final

import numpy.typing as npt
from typing_extensions import override

from tinyjax.arrays import shaping
from tinyjax.arrays.basic_indexing import Index
from tinyjax.arrays.elementwise import astype, broadcast_to, user_dtype, where
from tinyjax.arrays.intake import refuse_out
from tinyjax.arrays.shaping import canonical_axes, canonical_axis, moveaxis, ravel, reshape
from tinyjax.errors import InputError, ShapeError, TypingError, UnsupportedError
from tinyjax.ir.dtypes import Scalar
from tinyjax.lax.loops import fori_loop
from tinyjax.lax.scanning import scan
from tinyjax.numpy.creation import arange, asarray
from tinyjax.numpy.joining import concatenate
from tinyjax.numpy.signatures import Nested
from tinyjax.numpy.vectorization import vectorize
from tinyjax.tracing.array import Array


@final
class ufunc:  # noqa: N801 (NumPy's name)
    """A function of `nin` scalars with `nout` results, applied to arrays element by element: see `frompyfunc`."""

    __slots__ = ("_call", "_function", "identity", "nin", "nout")

    def __init__(self, func: Callable[..., Any], /, nin: int, nout: int, *, identity: Scalar | None = None) -> None:
        if not callable(func):
            raise InputError(f"frompyfunc takes a function, got {func!r}")
        self.nin: int = operator.index(nin)
        self.nout: int = operator.index(nout)
        self.identity: Scalar | None = identity
        self._function: Callable[..., Any] = func
        self._call: Callable[..., Any] = vectorize(func)

    @property
    def nargs(self) -> int:
        """The number of arguments and results."""
        return self.nin + self.nout

    @property
    def __name__(self) -> str:
        return getattr(self._function, "__name__", "<function>")

    @override
    def __repr__(self) -> str:
        return f"<tinyjax.numpy.ufunc {self.__name__!r}>"

    def __call__(self, *args: Nested, out: None = None, where: None = None) -> Any:  # an array, or a tuple of them
        """The function of each element; arguments are broadcast."""
        refuse_out(self.__name__, out)
        if where is not None:
            raise UnsupportedError(f"{self.__name__}: where is not supported. Use numpy.where on the result.")
        if len(args) != self.nin:
            raise InputError(f"{self.__name__} takes {self.nin} arguments, got {len(args)}")
        return self._call(*args)

    def _binary(self, method: str) -> None:
        if (self.nin, self.nout) != (2, 1):
            raise TypingError(f"{method} is for functions of two arguments with one result, not for {self!r}")

    def reduce(
        self,
        a: Nested,
        axis: SupportsIndex | Iterable[SupportsIndex] | None = 0,
        dtype: npt.DTypeLike | None = None,
        out: None = None,
        keepdims: bool = False,
        initial: Nested | None = None,
        where: Nested | None = None,
    ) -> Array:
        """The elements along an axis (or, for None or several, in row-major order) combined one after the other.

        >>> import numpy as np
        >>> frompyfunc(lambda x, y: x * y, 2, 1).reduce(np.array([1, 2, 3]))
        Array(6, dtype=int64)
        """
        self._binary("reduce")
        refuse_out("reduce", out)
        chosen, x = user_dtype(dtype), asarray(a)
        x = x if chosen is None else astype(x, chosen)
        axes = canonical_axes(axis, x.ndim, "reduce")
        rest = [i for i in range(x.ndim) if i not in axes]
        rows = reshape(shaping.transpose(x, (*axes, *rest)), (-1 if x.size else _product(x, axes), *_sizes(x, rest)))
        mask = None
        if where is not None:
            if initial is None and self.identity is None:
                raise InputError("reduce with where needs initial: the function has no identity")
            marks = broadcast_to(asarray(where), x.shape)
            mask = reshape(shaping.transpose(marks, (*axes, *rest)), rows.shape)
        start = self.identity if initial is None and (mask is not None or not rows.shape[0]) else initial
        if start is None:
            if not rows.shape[0]:
                raise ShapeError(
                    f"{self.__name__}.reduce of no elements isn't defined: it has no identity. Pass initial."
                )
            found, rows, mask = rows[0], rows[1:], None
        else:
            found = broadcast_to(astype(asarray(start), rows.dtype), rows.shape[1:])
        found = self._fold(found, rows, mask)
        return shaping.expand_dims(found, axes) if keepdims else found

    def _fold(self, start: Array, rows: Array, mask: Array | None) -> Array:
        dtype = start.dtype

        def step(i: Array, value: Array) -> Array:
            new = astype(self._call(value, rows[i]), dtype)
            return new if mask is None else where(mask[i], new, value)

        return fori_loop(0, rows.shape[0], step, astype(start, dtype)) if rows.shape[0] else start

    def accumulate(
        self, a: Nested, axis: SupportsIndex = 0, dtype: npt.DTypeLike | None = None, out: None = None
    ) -> Array:
        """All that `reduce` comes by along an axis.

        >>> import numpy as np
        >>> frompyfunc(lambda x, y: x * y, 2, 1).accumulate(np.array([1, 2, 3]))
        Array([1, 2, 6], dtype=int64)
        """
        self._binary("accumulate")
        refuse_out("accumulate", out)
        chosen, x = user_dtype(dtype), asarray(a)
        x = x if chosen is None else astype(x, chosen)
        at = canonical_axis(axis, x.ndim, "accumulate")
        rows = moveaxis(x, at, 0)
        if not rows.shape[0]:
            return x

        def step(value: Array, row: Array) -> tuple[Array, Array]:
            new = astype(self._call(value, row), rows.dtype)
            return new, new

        first = astype(rows[0], rows.dtype)
        return moveaxis(concatenate([first[None], scan(step, first, rows[1:])[1]]), 0, at)

    def outer(self, A: Nested, B: Nested, /) -> Any:  # an array, or a tuple of them
        """The function of all pairs of elements: the axes of the second argument follow those of the first.

        >>> import numpy as np
        >>> frompyfunc(lambda x, y: x * y, 2, 1).outer(np.array([1, 2]), np.array([3, 4])).tolist()
        [[3, 4], [6, 8]]
        """
        if self.nin != 2:
            raise TypingError(f"outer is for functions of two arguments, not for {self!r}")
        x, y = asarray(A), asarray(B)
        return self._call(reshape(x, (*x.shape, *[1] * y.ndim)), y)

    def at(self, a: Nested, indices: Index, b: Nested | None = None, /, *, inplace: bool = True) -> Array:
        """A copy of an array with the function applied to the elements at these positions, and to those of b: one after
        the other, so positions may be listed twice. `inplace` must be False, because arrays are immutable.

        >>> import numpy as np
        >>> frompyfunc(lambda x, y: x + y, 2, 1).at(np.array([1, 2]), np.array([0, 0]), 5, inplace=False)
        Array([11,  2], dtype=int64)
        """
        if inplace:
            raise InputError("at: arrays are immutable, so the result is a new array. Pass inplace=False.")
        x = asarray(a)
        if self.nin == 1:
            return x.at[indices].set(astype(self._call(x[indices]), x.dtype))
        if b is None:
            raise InputError("at needs a second operand for a function of two arguments")
        places = reshape(arange(x.size), x.shape)[indices]
        values = ravel(broadcast_to(astype(asarray(b), x.dtype), places.shape))
        where_to, flat = ravel(places), ravel(x)

        def step(i: Array, out: Array) -> Array:
            return out.at[where_to[i]].set(astype(self._call(out[where_to[i]], values[i]), out.dtype))

        return reshape(fori_loop(0, where_to.size, step, flat), x.shape) if where_to.size else x

    def reduceat(
        self,
        a: Nested,
        indices: Nested,
        axis: SupportsIndex = 0,
        dtype: npt.DTypeLike | None = None,
        out: None = None,
    ) -> Array:
        """The elements from each of these positions up to the next, combined; where the next isn't larger, the element
        at the position.

        >>> import numpy as np
        >>> frompyfunc(lambda x, y: x + y, 2, 1).reduceat(np.array([1, 2, 3]), np.array([0, 2]))
        Array([3, 3], dtype=int64)
        """
        self._binary("reduceat")
        refuse_out("reduceat", out)
        chosen, x, starts = user_dtype(dtype), asarray(a), asarray(indices)
        x = x if chosen is None else astype(x, chosen)
        if starts.ndim != 1:
            raise ShapeError(f"reduceat: the positions must be a vector, got {starts.aval}")
        at = canonical_axis(axis, x.ndim, "reduceat")
        rows = moveaxis(x, at, 0)
        ends = concatenate([starts[1:], asarray([rows.shape[0]]).astype(starts.dtype)]) if starts.size else starts
        shape = (-1, *[1] * (rows.ndim - 1))

        def step(i: Array, value: Array) -> Array:
            inside = reshape((i > starts) & (i < ends), shape)
            return where(inside, astype(self._call(value, rows[i]), value.dtype), value)

        return moveaxis(fori_loop(0, rows.shape[0], step, rows[starts]), 0, at)


def _sizes(x: Array, axes: Iterable[int]) -> tuple[int, ...]:
    return tuple(x.shape[i] for i in axes)


def _product(x: Array, axes: Iterable[int]) -> int:
    size = 1
    for i in axes:
        size *= x.shape[i]
    return size


def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Scalar | None = None) -> ufunc:
    """A function of scalars as one of arrays, with the methods `reduce`, `accumulate`, `outer`, `at` and `reduceat`.

    >>> import numpy as np
    >>> frompyfunc(lambda x, y: x + 2 * y, 2, 1)(np.array([1, 2]), 10)
    Array([21, 22], dtype=int64)
    """
    return ufunc(func, nin, nout, identity=identity)
