"""The cost of decompositions and of equations: operations on numbers, as textbooks count them. XLA, which calls a
library, counts none."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Eqn
from tinyjax.ir.shapes import Shape
from tinyjax.primitives import determinants, factorizations, solutions, spectral, triangular, tridiagonal
from tinyjax.primitives.matrices import OfMatrices


def _factors(m: int, n: int) -> float:
    """Of reflections that make a matrix triangular."""
    k = min(m, n)
    return 2 * k * k * (max(m, n) - k / 3)


def _solution(a: Shape, b: Shape) -> float:
    return a[0] * math.prod(b)


#: The number of operations for one of each operand, given their shapes.
OPERATIONS: Final[Mapping[type[Primitive], Callable[..., float]]] = {
    triangular.Cholesky: lambda a: a[0] ** 3 / 3,
    triangular.TriangularSolve: _solution,
    triangular.CholeskyUpdate: lambda r, w: 6 * w[0] ** 2,
    triangular.SymmetricProduct: lambda a, c: 2 * a[0] * a[0] * a[1] + 3 * a[0] ** 2,
    factorizations.Lu: lambda a: _factors(*a) / 2,
    factorizations.LuPivotsToPermutation: lambda p: 0,
    factorizations.Geqrf: lambda a: _factors(*a),
    factorizations.Geqp3: lambda a, p: _factors(*a),
    factorizations.HouseholderProduct: lambda a, t: _factors(*a),
    factorizations.Ormqr: lambda a, t, c: 4 * t[0] * math.prod(c),
    factorizations.Qr: lambda a: 2 * _factors(*a),
    solutions.Solve: lambda a, b: _factors(*a) / 2 + 2 * _solution(a, b),
    solutions.Stein: lambda a, b, v, w, u, r: 8 * min(a) * math.prod(a),
    determinants.Det: lambda a: _factors(*a) / 2,
    determinants.Slogdet: lambda a: _factors(*a) / 2,
    solutions.Pinv: lambda a, r: 4 * max(a) ** 2 * min(a) + 22 * min(a) ** 3 + 2 * min(a) * math.prod(a),
    spectral.Eigh: lambda a: 9 * a[0] ** 3,
    spectral.Svd: lambda a: 4 * max(a) ** 2 * min(a) + 22 * min(a) ** 3,
    spectral.Eig: lambda a: 25 * a[0] ** 3,
    spectral.Schur: lambda a: 25 * a[0] ** 3,
    spectral.Hessenberg: lambda a: 10 * a[0] ** 3 / 3,
    spectral.Tridiagonal: lambda a: 4 * a[0] ** 3 / 3,
    tridiagonal.TridiagonalSolve: lambda dl, d, du, b: 8 * math.prod(b),
}


def operations(primitive: OfMatrices, eqn: Eqn) -> int:
    """How many operations an equation is, for all of its matrices."""
    shapes = [atom.aval.shape for atom in eqn.invars]
    cut = [len(shape) - rank for shape, rank in zip(shapes, primitive.ranks, strict=True)]
    own = [shape[n:] for shape, n in zip(shapes, cut, strict=True)]
    each = OPERATIONS[type(primitive)](*own) if all(math.prod(shape) for shape in own) else 0
    return math.ceil(each) * math.prod(shapes[0][: cut[0]])
