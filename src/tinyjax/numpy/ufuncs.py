"""NumPy's universal functions: of each element, with the methods `reduce`, `accumulate`, `outer`, `at`, `reduceat`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import WRAPPER_ASSIGNMENTS
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, SupportsIndex, TypeVar, final

import numpy.typing as npt
from typing_extensions import override

from tinyjax import lax
from tinyjax import numpy as tnp
from tinyjax.arrays import shaping
from tinyjax.arrays.elementwise import astype, broadcast_to, user_dtype, where
from tinyjax.arrays.intake import refuse_out
from tinyjax.arrays.shaping import canonical_axes, canonical_axis, integer, moveaxis, ravel, reshape
from tinyjax.errors import InputError, ShapeError, TypingError, UnsupportedError
from tinyjax.ir.dtypes import BOOL, Scalar
from tinyjax.tracebacks import entry_of_function, filter_class
from tinyjax.tracing.array import Array
from tinyjax.wrapping import wraps

if TYPE_CHECKING:
    from tinyjax.arrays.basic_indexing import Index
    from tinyjax.numpy.signatures import Nested
    from tinyjax.numpy.universal_methods import Accumulate, At, Reduce

_P = ParamSpec("_P")
_R = TypeVar("_R")


@final
@filter_class
class ufunc(Generic[_P, _R]):  # noqa: N801 (NumPy's name)
    """A function of `nin` elements with `nout` results, applied to arrays element by element: `numpy.add`, or what
    `frompyfunc` makes.

    >>> import tinyjax.numpy as tnp
    >>> tnp.multiply.outer(tnp.arange(3), tnp.arange(3)).tolist()
    [[0, 0, 0], [0, 1, 2], [0, 2, 4]]
    """

    if TYPE_CHECKING:
        __name__: str

        def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
            """The function of each element; arguments are broadcast."""

    else:
        # Python looks a call up in the class: what it finds there is the slot, and in the slot the function. Pyright
        # would take what is declared to be in a slot for no method.
        __slots__ = ("__call__", "__dict__")

    def __init__(
        self,
        function: Callable[_P, _R],
        /,
        nin: SupportsIndex,
        nout: SupportsIndex,
        *,
        identity: Scalar | None = None,
        reduce: Reduce | None = None,
        accumulate: Accumulate | None = None,
        at: At | None = None,
    ) -> None:
        object.__setattr__(
            self, "__call__", entry_of_function(function) if isinstance(function, FunctionType) else function
        )
        vars(self).update({name: getattr(function, name) for name in WRAPPER_ASSIGNMENTS if hasattr(function, name)})
        self.__wrapped__ = function
        self._function: Callable[..., Any] = function
        self._counts = (integer(nin, "ufunc: nin"), integer(nout, "ufunc: nout"))
        self._identity = identity
        #: Functions of the same function are equal.
        self._key = (getattr(function, "__wrapped__", function), self._counts, identity)
        self._reduce, self._accumulate, self._at = reduce, accumulate, at

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, ufunc) and self._key == other._key

    @override
    def __hash__(self) -> int:
        return hash(self._key)

    @override
    def __reduce__(self) -> str:
        return self.__name__

    @property
    def nin(self) -> int:
        """The number of arguments."""
        return self._counts[0]

    @property
    def nout(self) -> int:
        """The number of results."""
        return self._counts[1]

    @property
    def nargs(self) -> int:
        """The number of arguments, as in JAX: there is no `out`."""
        return self.nin

    @property
    def identity(self) -> Scalar | None:
        """What other operands are left alone by."""
        return self._identity

    @override
    def __repr__(self) -> str:
        return f"<tinyjax.numpy.ufunc {self.__name__!r}>"

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
        chosen, x = user_dtype(dtype), tnp.asarray(a)
        x = x if chosen is None else astype(x, chosen)
        start, mask = (None if given is None else tnp.asarray(given) for given in (initial, where))
        if start is None and mask is not None and self.identity is None:
            raise InputError(f"{self.__name__}.reduce: where needs initial, because the function has no identity")
        if self._reduce is not None and (start is None or not start.shape):
            done = self._reduce(x, axis, keepdims, start, mask)
            return done if chosen is None else astype(done, chosen)
        return self._fold(x, canonical_axes(axis, x.ndim, "reduce"), keepdims, start, mask)

    def _fold(
        self, x: Array, axes: tuple[int, ...], keepdims: bool, initial: Array | None, mask: Array | None
    ) -> Array:
        rest = [i for i in range(x.ndim) if i not in axes]
        rows = reshape(shaping.transpose(x, (*axes, *rest)), (-1 if x.size else _product(x, axes), *_sizes(x, rest)))
        rows = self._values(rows)
        if mask is not None:
            mask = reshape(shaping.transpose(broadcast_to(mask, x.shape), (*axes, *rest)), rows.shape)
        start = self.identity if initial is None and (mask is not None or not rows.shape[0]) else initial
        if start is not None:
            found = broadcast_to(astype(tnp.asarray(start), rows.dtype), rows.shape[1:])
        elif rows.shape[0]:
            found, rows, mask = rows[0], rows[1:], None
        else:
            raise ShapeError(f"{self.__name__}.reduce of no elements isn't defined: it has no identity. Pass initial.")

        def step(i: Array, value: Array) -> Array:
            new = self._step(value, rows[i])
            return new if mask is None else where(mask[i], new, value)

        found = lax.fori_loop(0, rows.shape[0], step, found) if rows.shape[0] else found
        return shaping.expand_dims(found, axes) if keepdims else found

    def _values(self, rows: Array) -> Array:
        """Elements as results, with their dtype."""
        none = rows[:0]
        start = tnp.asarray(0)
        found = self._function(none, none) if self._reduce is None else self._reduce(none, 0, False, start, None)
        return astype(rows, tnp.asarray(found).dtype)

    def _step(self, value: Array, row: Array) -> Array:
        """The function of two arrays, as one of the dtype of the first."""
        return astype(tnp.asarray(self._function(value, row)), value.dtype)

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
        chosen, x = user_dtype(dtype), tnp.asarray(a)
        x = x if chosen is None else astype(x, chosen)
        at = canonical_axis(axis, x.ndim, "accumulate")
        if self._accumulate is not None:
            done = self._accumulate(x, at)
            return done if chosen is None else astype(done, chosen)
        rows = self._values(moveaxis(x, at, 0))
        if not rows.shape[0]:
            return moveaxis(rows, 0, at)

        def step(value: Array, row: Array) -> tuple[Array, Array]:
            new = self._step(value, row)
            return new, new

        return moveaxis(tnp.concatenate([rows[:1], lax.scan(step, rows[0], rows[1:])[1]]), 0, at)

    def outer(self, A: Nested, B: Nested, /) -> _R:
        """The function of all pairs of elements: the axes of the second argument follow those of the first.

        >>> import numpy as np
        >>> frompyfunc(lambda x, y: x * y, 2, 1).outer(np.array([1, 2]), np.array([3, 4])).tolist()
        [[3, 4], [6, 8]]
        """
        if self.nin != 2:
            raise TypingError(f"outer is for functions of two arguments, not for {self!r}")
        x, y = tnp.asarray(A), tnp.asarray(B)
        result: _R = self._function(reshape(x, (*x.shape, *[1] * y.ndim)), y)
        return result

    def at(self, a: Nested, indices: Index, b: Nested | None = None, /, *, inplace: bool = True) -> Array:
        """A copy of an array with the function applied to the elements at these positions, and to those of b: one after
        the other, so positions may be listed twice. `inplace` must be False, because arrays are immutable.

        >>> import numpy as np
        >>> frompyfunc(lambda x, y: x + y, 2, 1).at(np.array([1, 2]), np.array([0, 0]), 5, inplace=False)
        Array([11,  2], dtype=int64)
        """
        if inplace:
            raise InputError("at: arrays are immutable, so the result is a new array. Pass inplace=False.")
        x = tnp.asarray(a)
        positions: Index = tnp.asarray(indices) if isinstance(indices, list) else indices
        if self.nin == 1:
            return x.at[positions].apply(self._function)
        if b is None:
            raise InputError("at needs a second operand for a function of two arguments")
        if self._at is not None and x.dtype != BOOL:
            return self._at(x, positions, tnp.asarray(b))
        places = reshape(tnp.arange(x.size), x.shape)[positions]
        values = ravel(broadcast_to(astype(tnp.asarray(b), x.dtype), places.shape))
        where_to, flat = ravel(places), ravel(x)

        def step(i: Array, out: Array) -> Array:
            return out.at[where_to[i]].set(self._step(out[where_to[i]], values[i]))

        return reshape(lax.fori_loop(0, where_to.size, step, flat), x.shape) if where_to.size else x

    def reduceat(
        self,
        a: Nested,
        indices: Nested,
        axis: SupportsIndex = 0,
        dtype: npt.DTypeLike | None = None,
        out: None = None,
    ) -> Array:
        """The elements from each of these positions up to the next, combined; where the next isn't larger, the element
        at the position. The dtype is that of the function's results, as in JAX: NumPy's `add` widens small integers.

        >>> import numpy as np
        >>> frompyfunc(lambda x, y: x + y, 2, 1).reduceat(np.array([1, 2, 3]), np.array([0, 2]))
        Array([3, 3], dtype=int64)
        """
        self._binary("reduceat")
        refuse_out("reduceat", out)
        chosen, x, starts = user_dtype(dtype), tnp.asarray(a), tnp.asarray(indices)
        x = x if chosen is None else astype(x, chosen)
        if starts.ndim != 1:
            raise ShapeError(f"reduceat: the positions must be a vector, got {starts.aval}")
        at = canonical_axis(axis, x.ndim, "reduceat")
        rows = moveaxis(x, at, 0)
        rows = astype(rows, tnp.asarray(self._function(rows[:0], rows[:0])).dtype)
        last = tnp.asarray([rows.shape[0]]).astype(starts.dtype)
        ends = tnp.concatenate([starts[1:], last]) if starts.size else starts
        shape = (-1, *[1] * (rows.ndim - 1))

        def step(i: Array, value: Array) -> Array:
            inside = reshape((i > starts) & (i < ends), shape)
            return where(inside, self._step(value, rows[i]), value)

        return moveaxis(lax.fori_loop(0, rows.shape[0], step, rows[starts]), 0, at)


def _sizes(x: Array, axes: Iterable[int]) -> tuple[int, ...]:
    return tuple(x.shape[i] for i in axes)


def _product(x: Array, axes: Iterable[int]) -> int:
    size = 1
    for i in axes:
        size *= x.shape[i]
    return size


def frompyfunc(
    func: Callable[..., Any], /, nin: SupportsIndex, nout: SupportsIndex, *, identity: Scalar | None = None
) -> ufunc[..., Any]:
    """A function of scalars as one of arrays, with the methods `reduce`, `accumulate`, `outer`, `at` and `reduceat`.

    >>> import numpy as np
    >>> frompyfunc(lambda x, y: x + 2 * y, 2, 1)(np.array([1, 2]), 10)
    Array([21, 22], dtype=int64)
    """
    if not callable(func):
        raise InputError(f"frompyfunc takes a function, got {func!r}")
    count, made = integer(nin, "frompyfunc: nin"), integer(nout, "frompyfunc: nout")
    mapped = tnp.vectorize(func)
    name = getattr(func, "__name__", "<function>")

    @wraps(func)
    def call(*args: Nested, out: None = None, where: None = None) -> Any:  # an array, or a tuple of them
        refuse_out(name, out)
        if where is not None:
            raise UnsupportedError(f"{name}: where is not supported. Use numpy.where on the result.")
        if len(args) != count:
            raise InputError(f"{name} takes {count} arguments, got {len(args)}")
        return mapped(*args)

    return ufunc(call, count, made, identity=identity)
