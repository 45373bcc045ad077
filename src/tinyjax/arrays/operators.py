"""Python's operators on arrays, with NumPy's broadcasting and promotion."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from typing_extensions import override

from tinyjax import arrays
from tinyjax.arrays import arithmetic, comparisons
from tinyjax.arrays.elementwise import astype
from tinyjax.arrays.products import matmul
from tinyjax.errors import ImmutableArrayError, InputError, ShapeError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import INT64, DType
from tinyjax.ir.primitive import Primitive
from tinyjax.tracebacks import filter_class, show_users_frames

if TYPE_CHECKING:
    from tinyjax.arrays.basic_indexing import Index
    from tinyjax.tracing.array import Array, ArrayLike

R = TypeVar("R")


@filter_class
class Operators(ABC):
    """What an array can do with Python's operators. Everything goes through `_bind`.

    The most frequent operators filter tracebacks themselves: a call less.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def aval(self) -> ShapedArray: ...

    @abstractmethod
    def _bind(self, primitive: Primitive, *args: Array) -> tuple[Array, ...]: ...

    def _bind_first(self, primitive: Primitive, *args: Array) -> tuple[Array, ...]:
        """The same for what `_at_once` doesn't know."""
        return self._bind(primitive, *args)

    @abstractmethod
    def _bind_among(self, arrays: Sequence[Array], primitive: Primitive) -> Array:
        """The same for this array alone, where an operation on all of `arrays` belongs."""

    def _at_once(self, primitive: Primitive, operands: Sequence[Array]) -> Array | None:
        """The result of what has been computed before for operands of these types, if nothing else is to be done. Then
        nothing has to be promoted or broadcast, either."""
        return None

    @abstractmethod
    def _operands(self, *others: ArrayLike) -> tuple[Array, ...]:
        """This array, and the others as arrays too."""

    @property
    @abstractmethod
    def _array(self) -> Array:
        """This array."""

    @abstractmethod
    def _binary(self, function: Callable[[Array, Array], R], other: object) -> R:
        """`function(self, other)`; NotImplemented if arrays know nothing of the other's type."""

    @abstractmethod
    def _reflected(self, function: Callable[[Array, Array], R], other: object) -> R:
        """`function(other, self)`; NotImplemented if arrays know nothing of the other's type."""

    def _convert_scalar(self, dtype: DType, weak_type: bool) -> Array | None:
        """A scalar on the host with another dtype, computed at once. None: it isn't one."""
        return None

    def _own(self) -> Array:
        """This array as a result: one whose elements nobody else can write to."""
        return self._array

    # One operand.

    def __neg__(self) -> Array:
        try:
            return arithmetic.negative(self._array)
        except Exception as error:
            show_users_frames(error)
            raise

    def __pos__(self) -> Array:
        return arithmetic.positive(self._array)

    def __abs__(self) -> Array:
        return arithmetic.absolute(self._array)

    def __invert__(self) -> Array:
        return arithmetic.invert(self._array)

    def __round__(self, ndigits: int | None = None) -> Array:
        """Rounded to this many decimals; to an integer, int64, if it isn't given."""
        rounded = arithmetic.round(self._array, ndigits or 0)
        return astype(rounded, INT64) if ndigits is None else rounded

    # Two operands.

    def __add__(self, other: ArrayLike) -> Array:
        try:
            return self._binary(arithmetic.add, other)
        except Exception as error:
            show_users_frames(error)
            raise

    def __radd__(self, other: ArrayLike) -> Array:
        try:
            return self._reflected(arithmetic.add, other)
        except Exception as error:
            show_users_frames(error)
            raise

    def __sub__(self, other: ArrayLike) -> Array:
        try:
            return self._binary(arithmetic.subtract, other)
        except Exception as error:
            show_users_frames(error)
            raise

    def __rsub__(self, other: ArrayLike) -> Array:
        try:
            return self._reflected(arithmetic.subtract, other)
        except Exception as error:
            show_users_frames(error)
            raise

    def __mul__(self, other: ArrayLike) -> Array:
        try:
            return self._binary(arithmetic.multiply, other)
        except Exception as error:
            show_users_frames(error)
            raise

    def __rmul__(self, other: ArrayLike) -> Array:
        try:
            return self._reflected(arithmetic.multiply, other)
        except Exception as error:
            show_users_frames(error)
            raise

    def __truediv__(self, other: ArrayLike) -> Array:
        try:
            return self._binary(arithmetic.divide, other)
        except Exception as error:
            show_users_frames(error)
            raise

    def __rtruediv__(self, other: ArrayLike) -> Array:
        try:
            return self._reflected(arithmetic.divide, other)
        except Exception as error:
            show_users_frames(error)
            raise

    def __floordiv__(self, other: ArrayLike) -> Array:
        return self._binary(arithmetic.floor_divide, other)

    def __rfloordiv__(self, other: ArrayLike) -> Array:
        return self._reflected(arithmetic.floor_divide, other)

    def __mod__(self, other: ArrayLike) -> Array:
        return self._binary(arithmetic.remainder, other)

    def __rmod__(self, other: ArrayLike) -> Array:
        return self._reflected(arithmetic.remainder, other)

    def __divmod__(self, other: ArrayLike) -> tuple[Array, Array]:
        return self._binary(arithmetic.divide_with_remainder, other)

    def __rdivmod__(self, other: ArrayLike) -> tuple[Array, Array]:
        return self._reflected(arithmetic.divide_with_remainder, other)

    def __pow__(self, other: ArrayLike) -> Array:
        try:
            return self._binary(arithmetic.power, other)
        except Exception as error:
            show_users_frames(error)
            raise

    def __rpow__(self, other: ArrayLike) -> Array:
        return self._reflected(arithmetic.power, other)

    def __and__(self, other: ArrayLike) -> Array:
        return self._binary(arithmetic.bitwise_and, other)

    def __rand__(self, other: ArrayLike) -> Array:
        return self._reflected(arithmetic.bitwise_and, other)

    def __or__(self, other: ArrayLike) -> Array:
        return self._binary(arithmetic.bitwise_or, other)

    def __ror__(self, other: ArrayLike) -> Array:
        return self._reflected(arithmetic.bitwise_or, other)

    def __xor__(self, other: ArrayLike) -> Array:
        return self._binary(arithmetic.bitwise_xor, other)

    def __rxor__(self, other: ArrayLike) -> Array:
        return self._reflected(arithmetic.bitwise_xor, other)

    def __lshift__(self, other: ArrayLike) -> Array:
        return self._binary(arithmetic.left_shift, other)

    def __rlshift__(self, other: ArrayLike) -> Array:
        return self._reflected(arithmetic.left_shift, other)

    def __rshift__(self, other: ArrayLike) -> Array:
        return self._binary(arithmetic.right_shift, other)

    def __rrshift__(self, other: ArrayLike) -> Array:
        return self._reflected(arithmetic.right_shift, other)

    def __matmul__(self, other: ArrayLike) -> Array:
        try:
            return self._binary(matmul, other)
        except Exception as error:
            show_users_frames(error)
            raise

    def __rmatmul__(self, other: ArrayLike) -> Array:
        return self._reflected(matmul, other)

    # Comparisons. Those for equality are elementwise, as NumPy's are, so they can't have the types of `object`'s.

    @override
    def __eq__(self, other: ArrayLike) -> Array:  # type: ignore[override]  # elementwise
        return self._binary(comparisons.equal, other)

    @override
    def __ne__(self, other: ArrayLike) -> Array:  # type: ignore[override]  # elementwise
        return self._binary(comparisons.not_equal, other)

    @override
    def __hash__(self) -> int:
        raise InputError("arrays can't be hashed, because == compares their elements; so they can't be keys")

    def __lt__(self, other: ArrayLike) -> Array:
        return self._binary(comparisons.less, other)

    def __le__(self, other: ArrayLike) -> Array:
        return self._binary(comparisons.less_equal, other)

    def __gt__(self, other: ArrayLike) -> Array:
        return self._binary(comparisons.greater, other)

    def __ge__(self, other: ArrayLike) -> Array:
        return self._binary(comparisons.greater_equal, other)

    # As a sequence.

    def __getitem__(self, key: Index) -> Array:
        try:
            return arrays.indexing.getitem(self._array, key)
        except Exception as error:
            show_users_frames(error)
            raise

    def __len__(self) -> int:
        shape = self.aval.shape
        if not shape:
            raise ShapeError(f"an array without axes ({self.aval}) has no length")
        return shape[0]

    def __iter__(self) -> Iterator[Array]:
        if not self.aval.shape:
            raise ShapeError(f"an array without axes ({self.aval}) can't be iterated over")
        return map(self.__getitem__, range(self.aval.shape[0]))

    if not TYPE_CHECKING:  # for a type checker `x[i] = v` is an error already

        def __setitem__(self, key, value):
            raise ImmutableArrayError(
                "arrays are immutable, so x[...] = y can't work. Make a new array: x = x.at[...].set(y), or with "
                "numpy.where(condition, y, x)."
            )
