"""The types of elements as functions: what makes an array of a number, also of one that is traced or differentiated."""

from __future__ import annotations

from typing import Final, final

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from tinyjax.ir.dtypes import DType
from tinyjax.numpy.creation import asarray
from tinyjax.numpy.signatures import Nested
from tinyjax.tracing.array import Array


@final
class ScalarType:
    """A type of elements, wherever a dtype is taken; called, it makes an array of its dtype. Equal to NumPy's type, and
    to the dtype.

    NumPy's own types would make constants of traced values, which have no derivative.

    >>> import tinyjax as tj
    >>> import tinyjax.numpy as tnp
    >>> tj.grad(lambda x: tnp.float64(x) * x)(1.0)
    Array(2., dtype=float64, weak_type=True)
    >>> tnp.float32(0.5), tnp.float32 == np.float32, tnp.zeros(2, tnp.int8).dtype
    (Array(0.5, dtype=float32), True, dtype('int8'))
    """

    __slots__ = ("__name__", "dtype")

    def __init__(self, kind: npt.DTypeLike) -> None:
        self.dtype: Final[DType] = np.dtype(kind)
        self.__name__: Final[str] = self.dtype.name

    def __call__(self, x: Nested = 0) -> Array:
        return asarray(x, self.dtype)

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, self.dtype.type)

    @override
    def __eq__(self, other: object) -> bool:
        found = other.dtype if isinstance(other, ScalarType) else other
        return self.dtype == found if isinstance(found, np.dtype) else self.dtype.type is found

    @override
    def __hash__(self) -> int:
        return hash(self.dtype.type)

    @override
    def __repr__(self) -> str:
        return f"tinyjax.numpy.{self.__name__}"

    @override
    def __reduce__(self) -> tuple[type[ScalarType], tuple[DType]]:
        return ScalarType, (self.dtype,)
