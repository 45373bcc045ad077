"""What an array's type says, asked of whatever has one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinyjax.errors import InputError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import DType
from tinyjax.ir.shapes import Shape


class Typed:
    """Something of the type `aval`."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def aval(self) -> ShapedArray: ...

    @property
    def shape(self) -> Shape:
        return self.aval.shape

    @property
    def dtype(self) -> DType:
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        return self.aval.ndim

    @property
    def size(self) -> int:
        return self.aval.size

    @property
    def weak_type(self) -> bool:
        return self.aval.weak_type

    def __len__(self) -> int:
        if not self.aval.shape:
            raise InputError("an array without axes has no length")
        return self.aval.shape[0]
