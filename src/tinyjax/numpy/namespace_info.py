"""What devices and dtypes there are, as the array API standard wants to be told."""

from __future__ import annotations

from typing import Final, final

from attrs import frozen

from tinyjax import backend
from tinyjax.backend import Device, DeviceLike
from tinyjax.errors import ChoiceError
from tinyjax.ir.dtypes import (
    BOOL,
    COMPLEX64,
    COMPLEX128,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    DType,
)

#: The dtypes that the standard has, each under the kind that `isdtype` knows.
_KINDS: Final[dict[str, tuple[DType, ...]]] = {
    "bool": (BOOL,),
    "signed integer": (INT8, INT16, INT32, INT64),
    "unsigned integer": (UINT8, UINT16, UINT32, UINT64),
    "real floating": (FLOAT32, FLOAT64),
    "complex floating": (COMPLEX64, COMPLEX128),
}
_UNIONS: Final = {
    "integral": ("signed integer", "unsigned integer"),
    "numeric": ("signed integer", "unsigned integer", "real floating", "complex floating"),
}


@final
@frozen
class ArrayNamespaceInfo:
    """What there is: see `__array_namespace_info__`."""

    def capabilities(self) -> dict[str, bool | int]:
        """Whether arrays can be indexed with arrays of bools, and whether shapes may depend on elements: yes, outside
        of `jit` and `vmap`; and how many axes an array may have."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Device:
        """Where new arrays are: on the host."""
        return backend.HOST

    def devices(self) -> list[Device]:
        """The host, and all devices that arrays can be put on."""
        return list(backend.local_devices())

    def default_dtypes(self, *, device: DeviceLike | None = None) -> dict[str, DType]:
        """The dtypes that new arrays have if none is given; the same on every device."""
        return {"real floating": FLOAT64, "complex floating": COMPLEX128, "integral": INT64, "indexing": INT64}

    def dtypes(
        self, *, device: DeviceLike | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, DType]:
        """The standard's dtypes by name, of these kinds; the same on every device. (There are more: float16, bfloat16.)

        >>> ArrayNamespaceInfo().dtypes(kind="real floating")
        {'float32': dtype('float32'), 'float64': dtype('float64')}
        """
        kinds = tuple(_KINDS) if kind is None else (kind,) if isinstance(kind, str) else kind
        listed: list[str] = []
        for name in kinds:
            if name not in _KINDS and name not in _UNIONS:
                raise ChoiceError(f"dtypes: the kinds are {', '.join((*_KINDS, *_UNIONS))}, not {name!r}")
            listed += _UNIONS.get(name, (name,))
        return {dtype.name: dtype for name in _KINDS if name in listed for dtype in _KINDS[name]}
