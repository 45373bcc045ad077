"""Equations with tridiagonal matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar, final

from attrs import frozen
from typing_extensions import override

from tinyjax.errors import LinearityError
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.primitive import BatchAxis, Outputs, UndefPrimal, Zero
from tinyjax.ir.shapes import Shape
from tinyjax.primitives import lapack
from tinyjax.primitives.elementwise import add, mul, neg
from tinyjax.primitives.matrices import OfMatrices, as_columns
from tinyjax.primitives.shaping import reshape
from tinyjax.primitives.slicing import pad
from tinyjax.primitives.structure import move_axis, shape_error

V = TypeVar("V")


@final
@frozen
class TridiagonalSolve(OfMatrices):
    """The solution of A x = b for right sides in the columns of b, and A given by the diagonals below, on and above its
    main one. Each has an element for every row: the first one below and the last one above are outside of A.

    `perturb_singular`: pivots that are next to nothing are made so large that the solution is finite."""

    perturb_singular: bool = False
    name: ClassVar[str] = "tridiagonal_solve"
    ranks: ClassVar[tuple[int, ...]] = (1, 1, 1, 2)

    @override
    def own_shapes(self, *shapes: Shape) -> tuple[Shape, ...]:
        *diagonals, b = shapes
        if any(diagonal != b[:1] for diagonal in diagonals):
            raise shape_error(self.name, f"the diagonals must have an element for each of the {b[0]} rows of b, got "
                              f"shapes {', '.join(map(str, diagonals))}")  # fmt: skip
        return (b,)

    @override
    def of_one(self, *args: HostArray) -> tuple[HostArray, ...]:
        return (lapack.tridiagonal_solve_perturbed if self.perturb_singular else lapack.tridiagonal_solve)(*args)

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        *diagonals, _ = primals
        *moving, right = tangents
        (out,) = ctx.bind(self, *primals)
        for t, offset in zip(moving, (-1, 0, 1), strict=True):
            if not isinstance(t, Zero):
                part = neg(ctx, _product(ctx, t, out, offset))
                right = part if isinstance(right, Zero) else add(ctx, right, part)
        if isinstance(right, Zero):
            return [out], [right]
        return [out], ctx.bind(self, *diagonals, right)

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        (ct,), (below, on, above, b) = cotangents, args
        if isinstance(below, UndefPrimal) or isinstance(on, UndefPrimal) or isinstance(above, UndefPrimal):
            raise LinearityError(f"{self.name} is linear in the right side, but not in the diagonals")
        if isinstance(ct, Zero) or not isinstance(b, UndefPrimal):
            return [None] * 4
        axis = ctx.aval(on).ndim - 1
        return [None, None, None, *ctx.bind(self, _moved(ctx, above, 1, axis), on, _moved(ctx, below, -1, axis), ct)]

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        """For one matrix, all right sides are those of one equation."""
        (*diagonals, b), (*others, at) = args, axes
        if at is None or any(other is not None for other in others):
            return OfMatrices.batch(self, ctx, axis, args, axes)
        place = ctx.aval(b).ndim - 1
        b = move_axis(ctx, b, at, place)
        shape = ctx.aval(b).shape
        (out,) = ctx.bind(self, *diagonals, reshape(ctx, b, (*shape[:-2], shape[-2] * shape[-1])))
        return [reshape(ctx, out, shape)], [place]


def _product(ctx: Context[V], diagonal: V, x: V, offset: int) -> V:
    """The product of a matrix that is zero but for one diagonal, and x."""
    aval = ctx.aval(x)
    return mul(ctx, as_columns(ctx, diagonal, aval.shape), _moved(ctx, x, -offset, aval.ndim - 2))


def _moved(ctx: Context[V], x: V, by: int, axis: int) -> V:
    """x with its elements moved along an axis: some fall off at one end, zeros come in at the other."""
    config = tuple((by, -by, 0) if i == axis else (0, 0, 0) for i in range(ctx.aval(x).ndim))
    return pad(ctx, x, config) if by else x
