"""Makes universal functions of functions of arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from tinyjax.ir.dtypes import Scalar
from tinyjax.numpy.ufuncs import ufunc

if TYPE_CHECKING:
    from tinyjax.numpy.universal_methods import Accumulate, At, Reduce

P = ParamSpec("P")
R = TypeVar("R")


def universal(
    nin: int,
    *,
    identity: Scalar | None = None,
    reduce: Reduce | None = None,
    accumulate: Accumulate | None = None,
    at: At | None = None,
) -> Callable[[Callable[P, R]], ufunc[P, R]]:
    """Makes a universal function of a function of arrays; its methods are generic where nothing better is given."""
    return lambda function: ufunc(function, nin, 1, identity=identity, reduce=reduce, accumulate=accumulate, at=at)
