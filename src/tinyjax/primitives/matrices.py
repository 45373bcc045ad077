"""What primitives on matrices share: their types, batches of them, and the arithmetic that their derivatives need.

The last axes of an operand are those of a matrix, or of a vector; those before, which all operands have alike, are a
batch of them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, Final, TypeVar

import numpy as np
from attrs import fields, frozen
from typing_extensions import override

from tinyjax.errors import ParameterError, UnsupportedDtypeError, UnsupportedError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import (
    COMPLEX64,
    COMPLEX128,
    COMPLEXES,
    FLOAT32,
    FLOAT64,
    FLOATS,
    INT32,
    DType,
    HostArray,
    names_of,
)
from tinyjax.ir.primitive import BatchAxis, Primitive
from tinyjax.ir.result_types import result_types
from tinyjax.ir.shapes import Shape
from tinyjax.ir.shared_types import array_type
from tinyjax.primitives.comparison import eq, ge, le
from tinyjax.primitives.complex import conj
from tinyjax.primitives.contractions import DimensionNumbers, Precision, dot_general
from tinyjax.primitives.conversion import convert
from tinyjax.primitives.elementwise import Dtypes, add, check_dtype, common_dtype, mul, scale, unmapped
from tinyjax.primitives.gather import Gather
from tinyjax.primitives.selection import select
from tinyjax.primitives.shaping import expand_dims, iota, reshape
from tinyjax.primitives.slicing import slice_in_dim
from tinyjax.primitives.structure import (
    broadcast_in_dim,
    check_arity,
    check_elements,
    constant_like,
    move_axis,
    shape_error,
    with_leading_axis,
)
from tinyjax.primitives.windows import GatherDimensionNumbers

V = TypeVar("V")
#: The dtypes that LAPACK knows.
MATRICES: Final = frozenset({FLOAT32, FLOAT64, COMPLEX64, COMPLEX128})


@frozen
class OfMatrices(Primitive):
    """A subclass says what becomes of one matrix, or of one of each operand."""

    plain: ClassVar[bool] = True
    accepts: ClassVar[Dtypes] = MATRICES
    #: How many axes of each operand are its own; those before are batches.
    ranks: ClassVar[tuple[int, ...]] = (2,)

    @override
    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        for part in fields(type(self)):
            value = getattr(self, part.name)
            if part.type == "bool" and (not isinstance(value, bool | int | np.bool_) or value not in (0, 1)):
                raise ParameterError(f"{self.name}: {part.name} is True or False, not {value!r}", part.name)

    @abstractmethod
    def own_shapes(self, *shapes: Shape) -> tuple[Shape, ...]:
        """The shapes of the results for one of each operand; a ShapeError if those of the operands don't fit."""

    @abstractmethod
    def of_one(self, *args: HostArray) -> tuple[HostArray, ...]:
        """The results for one of each operand. At least one of them has elements."""

    def result_dtypes(self, dtype: DType, count: int) -> tuple[DType, ...]:
        """The dtypes of so many results."""
        return (dtype,) * count

    def operand_dtype(self, avals: Sequence[ShapedArray]) -> DType:
        """The dtype of the operands; a TypingError if it isn't accepted."""
        dtype = common_dtype(self.name, avals)
        if dtype in FLOATS - self.accepts:
            raise UnsupportedDtypeError(
                f"Unsupported dtype {dtype.name}: {self.name} accepts {names_of(self.accepts)}. Convert the matrix "
                'first: x.astype("float32").'
            )
        check_dtype(self.name, dtype, self.accepts)
        return dtype

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        check_arity(self.name, avals, len(self.ranks))
        dtype = self.operand_dtype(avals)
        for aval, rank in zip(avals, self.ranks, strict=True):
            if aval.ndim < rank:
                raise shape_error(self.name, f"an operand of at least {rank} axes is needed, got {aval}")
        cut = [aval.ndim - rank for aval, rank in zip(avals, self.ranks, strict=True)]
        batch = avals[0].shape[: cut[0]]
        if any(aval.shape[:n] != batch for aval, n in zip(avals, cut, strict=True)):
            raise shape_error(self.name, f"the axes of batches differ: {', '.join(map(str, avals))}")
        shapes = self.own_shapes(*[aval.shape[n:] for aval, n in zip(avals, cut, strict=True)])
        weak = all(aval.weak_type for aval in avals)
        dtypes = self.result_dtypes(dtype, len(shapes))
        return tuple(array_type((*batch, *own), of, weak) for own, of in zip(shapes, dtypes, strict=True))

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        types = result_types(self, [array_type(arg.shape, arg.dtype) for arg in args])
        if self.is_one(args[0].ndim, types):
            only = self.of_one(*args)
            return tuple(np.array(out, aval.dtype, order="C") for out, aval in zip(only, types, strict=True))
        outs = tuple(np.zeros(aval.shape, aval.dtype) for aval in types)
        if any(out.size for out in outs):
            for i in np.ndindex(args[0].shape[: args[0].ndim - self.ranks[0]]):
                for out, found in zip(outs, self.of_one(*[arg[i] for arg in args]), strict=True):
                    out[i] = found
        return outs

    def is_one(self, ndim: int, types: Sequence[ShapedArray]) -> bool:
        """Whether the first operand is no batch, and results of these types have elements, so that `of_one` computes
        them."""
        return ndim == self.ranks[0] and all(0 not in aval.shape for aval in types)

    @override
    def host_function(self, *avals: ShapedArray) -> Callable[..., HostArray | np.generic]:
        types = result_types(self, avals)
        if type(self).evaluate is not OfMatrices.evaluate or not self.is_one(avals[0].ndim, types):
            return super().host_function(*avals)
        of_one, dtype = self.of_one, types[0].dtype
        return lambda *args: np.array(of_one(*args)[0], dtype, order="C")

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        avals = list(map(ctx.aval, args))
        if any(x.ndim - (at is not None) < rank for x, at, rank in zip(avals, axes, self.ranks, strict=True)):
            check_elements(self, avals, axes)
        moved = [
            with_leading_axis(ctx, arg, at, axis.size, unmapped(x.shape, at))
            for arg, x, at in zip(args, avals, axes, strict=True)
        ]
        outs = ctx.bind(self, *moved)
        return outs, [0] * len(outs)


def square_matrix(name: str, shape: Shape) -> int:
    """The size of a square matrix; a ShapeError if this isn't the shape of one."""
    if shape[0] != shape[1]:
        raise shape_error(name, f"the operand must be a square matrix, got one of shape {shape}")
    return shape[0]


def refuse_subset(name: str, subset: tuple[int, int] | None, count: int) -> None:
    """LAPACK's routines that take less time for a part of the values aren't used, by JAX neither."""
    if subset is not None and subset != (0, count):
        raise UnsupportedError(
            f"{name}: subset_by_index={subset} is not supported: all {count} are computed. Slice the result."
        )


# What derivatives are made of.


def matmul(ctx: Context[V], x: V, y: V) -> V:
    """The products of matrices, as exact as their dtype allows."""
    n = ctx.aval(x).ndim
    batch = tuple(range(n - 2))
    numbers: DimensionNumbers = (((n - 1,), (n - 2,)), (batch, batch))
    return dot_general(ctx, x, y, numbers, Precision.HIGHEST)


def transposed(ctx: Context[V], x: V) -> V:
    """Matrices with rows and columns exchanged."""
    n = ctx.aval(x).ndim
    return move_axis(ctx, x, n - 1, n - 2)


def conjugated(ctx: Context[V], x: V) -> V:
    """The complex conjugate; a real x itself."""
    return conj(ctx, x) if ctx.aval(x).dtype in COMPLEXES else x


def adjoint(ctx: Context[V], x: V) -> V:
    """The conjugate transpose."""
    return conjugated(ctx, transposed(ctx, x))


def symmetrized(ctx: Context[V], x: V) -> V:
    """The mean of x and its conjugate transpose."""
    return scale(ctx, add(ctx, x, adjoint(ctx, x)), 0.5)


def tril(ctx: Context[V], x: V, k: int = 0) -> V:
    """What is on and below the k-th diagonal."""
    rows, columns = _places(ctx, x)
    return _where(ctx, ge(ctx, _shifted(ctx, rows, k), columns), x)


def triu(ctx: Context[V], x: V, k: int = 0) -> V:
    """What is on and above the k-th diagonal."""
    rows, columns = _places(ctx, x)
    return _where(ctx, le(ctx, _shifted(ctx, rows, k), columns), x)


def half_diagonal(ctx: Context[V], x: V) -> V:
    """Matrices with half of what was on their diagonals."""
    factors = add(ctx, scale(ctx, _eye(ctx, x, ctx.aval(x).dtype), -0.5), constant_like(ctx, x, 1))
    return mul(ctx, x, _for_all(ctx, factors, x))


def eye_like(ctx: Context[V], x: V, dtype: DType | None = None) -> V:
    """Ones on the diagonal of matrices shaped as x, and zeros elsewhere."""
    return _for_all(ctx, _eye(ctx, x, dtype or ctx.aval(x).dtype), x)


def diagonal_of(ctx: Context[V], x: V) -> V:
    """The diagonals of square matrices, as vectors: in row-major order their elements are n + 1 apart."""
    *batch, _, n = ctx.aval(x).shape
    return slice_in_dim(ctx, reshape(ctx, x, (*batch, n * n)), 0, n * n, n + 1, len(batch))


def as_columns(ctx: Context[V], v: V, shape: Shape) -> V:
    """Matrices of this shape whose columns are each the vector: row i holds its element i."""
    return broadcast_in_dim(ctx, v, shape, (*range(len(shape) - 2), len(shape) - 2))


def as_rows(ctx: Context[V], v: V, shape: Shape) -> V:
    """Matrices of this shape whose rows are each the vector."""
    return broadcast_in_dim(ctx, v, shape, (*range(len(shape) - 2), len(shape) - 1))


def rows_taken(ctx: Context[V], x: V, order: V) -> V:
    """The rows of matrices in another order, one for each."""
    aval = ctx.aval(x)
    n, batch = aval.ndim, tuple(range(aval.ndim - 2))
    dims = GatherDimensionNumbers((n - 1,), (n - 2,), (n - 2,), batch, batch)
    taking = Gather(dims, (*(min(size, 1) for size in aval.shape[:-2]), 1, aval.shape[-1]))
    return ctx.bind(taking, x, expand_dims(ctx, order, (n - 1,)))[0]


def _places(ctx: Context[V], x: V) -> tuple[V, V]:
    """For each element of one of the matrices of x, its row and its column."""
    shape = ctx.aval(x).shape[-2:]
    return iota(ctx, INT32, shape, 0), iota(ctx, INT32, shape, 1)


def _eye(ctx: Context[V], x: V, dtype: DType) -> V:
    return convert(ctx, eq(ctx, *_places(ctx, x)), dtype)


def _for_all(ctx: Context[V], matrix: V, x: V) -> V:
    """One matrix for each of those of x."""
    shape = ctx.aval(x).shape
    return matrix if len(shape) == 2 else broadcast_in_dim(ctx, matrix, shape, (len(shape) - 2, len(shape) - 1))


def _shifted(ctx: Context[V], rows: V, k: int) -> V:
    return add(ctx, rows, constant_like(ctx, rows, k)) if k else rows


def _where(ctx: Context[V], kept: V, x: V) -> V:
    return select(ctx, _for_all(ctx, kept, x), x, constant_like(ctx, x, 0))
