"""How arrays show themselves."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import Final

import numpy as np
from typing_extensions import override

from tinyjax import backend
from tinyjax.arrays.conversions import host_array
from tinyjax.errors import AddressError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import KEYS, HostArray, numbers_of, short_name
from tinyjax.ir.value import ConcreteValue

#: Longer axes are shown by so many of their first and last elements.
_LONGEST: Final = 12
_EDGE: Final = 4


class Displayed(ABC):
    """An array that shows its elements; of keys, their words."""

    __slots__ = ()

    aval: ShapedArray
    value: ConcreteValue

    @override
    def __str__(self) -> str:
        try:
            return str(_shown(self.value))
        except AddressError:
            return repr(self)

    @override
    def __repr__(self) -> str:
        try:
            return self._text()
        except AddressError:
            dtype = short_name(self.aval.dtype) if self.aval.dtype in KEYS else self.aval.dtype.name
            return f"Array(shape={self.aval.shape}, dtype={dtype}, with elements on devices of other processes)"

    def _text(self) -> str:
        if self.aval.dtype in KEYS:
            return f"Array({self.aval.shape}, dtype={short_name(self.aval.dtype)}) overlaying:\n{self}"
        text = np.array2string(host_array(self.value), separator=", ", prefix="Array(")
        weak = ", weak_type=True" if self.aval.weak_type else ""
        shape = "" if self.aval.size else f", shape={self.aval.shape}"  # which no brackets show
        return f"Array({text}{shape}, dtype={self.aval.dtype.name}{weak})"

    def _repr_html_(self) -> str:
        """A table of the elements of a vector or a matrix, and the text of anything else; and how they lie on several
        devices."""
        sharding = backend.sharding_of_value(self.value)
        if sharding.num_devices == 1:
            return array_html(_shown(self.value), self.aval)
        from tinyjax.ir.printing.display import Note, page
        from tinyjax.meshes.pictures import ShardingPicture

        picture = ShardingPicture(self.aval.shape, sharding).parts
        if sharding.is_fully_addressable:
            return array_html(_shown(self.value), self.aval, picture)
        return page([Note(f"{self.aval}, with elements on devices of other processes").html, *picture])


def _shown(value: ConcreteValue) -> HostArray:
    return numbers_of(host_array(value))


def array_html(elements: HostArray, aval: ShapedArray, more: Sequence[str] = ()) -> str:
    """The type, and a table of the elements of a vector or a matrix; of others their text; and more elements."""
    from tinyjax.ir.printing.display import Note, Table, page

    head = Note(str(aval))
    if elements.ndim not in (1, 2) or not elements.size:
        return page([head.html, Note(np.array2string(elements, separator=", ")).html, *more])
    rows = elements[None] if elements.ndim == 1 else elements
    down, across = _places(rows.shape[0]), _places(rows.shape[1])
    corner = rows[np.ix_([i for i in down if i >= 0], [i for i in across if i >= 0])]
    texts = iter(_texts(corner))
    cells = [tuple("\N{HORIZONTAL ELLIPSIS}" if i < 0 or j < 0 else next(texts) for j in across) for i in down]
    labels = ["\N{HORIZONTAL ELLIPSIS}" if i < 0 else str(i) for i in down] if elements.ndim == 2 else [""]
    heads = ("", *("\N{HORIZONTAL ELLIPSIS}" if j < 0 else str(j) for j in across))
    body = tuple((label, *row) for label, row in zip(labels, cells, strict=True))
    return page([head.html, Table(heads, body, numbers=0).html, *more])


def _places(size: int) -> Sequence[int]:
    """The positions that are shown, and -1 where some are left out."""
    if size <= _LONGEST:
        return range(size)
    return [*range(_EDGE), -1, *range(size - _EDGE, size)]


def _texts(elements: HostArray) -> list[str]:
    """Elements as an array prints them."""
    if elements.dtype.kind in "fc":
        return [np.array2string(x, precision=6) for x in elements.reshape(-1)]
    return [str(x) for x in elements.reshape(-1)]
