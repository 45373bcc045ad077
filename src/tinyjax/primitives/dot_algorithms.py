"""How the products of arrays are to be computed: in which types, and in how many steps. The presets are JAX's."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, TypeAlias, final

from attrs import field, frozen
from typing_extensions import override

from tinyjax.errors import ParameterError
from tinyjax.ir.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, DType, as_dtype

#: The types to read the operands in, and to add and return products in. None: as they are.
ComputeTypes: TypeAlias = tuple[DType, DType, DType]


@final
@frozen
class DotAlgorithm:
    """Both operands are rounded to types of their own, and products added in a third one. Where numbers are taken apart
    into several of a narrower type, the counts say how many, and how many products of these are added.

    >>> DotAlgorithm("float16", "float16", "float32").accumulation_type
    dtype('float32')
    """

    lhs_precision_type: DType = field(converter=as_dtype)
    rhs_precision_type: DType = field(converter=as_dtype)
    accumulation_type: DType = field(converter=as_dtype)
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False

    def compute_types(self, x: DType, y: DType, out: DType) -> ComputeTypes:
        """What to convert the operands to, and the type of the product before it is converted to `out`."""
        return self.lhs_precision_type, self.rhs_precision_type, self.accumulation_type


@final
class DotAlgorithmPreset(enum.Enum):
    """Algorithms that some platforms have. Their names are types: of the left operand, of the right one, of the sum;
    those that end in X3, X6 or X9 take numbers apart into several of a narrower type, and add so many products."""

    DEFAULT = 1
    ANY_F8_ANY_F8_F32 = 2
    ANY_F8_ANY_F8_F32_FAST_ACCUM = 3
    ANY_F8_ANY_F8_ANY = 4
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = 5
    F16_F16_F16 = 6
    F16_F16_F32 = 7
    BF16_BF16_BF16 = 8
    BF16_BF16_F32 = 9
    BF16_BF16_F32_X3 = 10
    BF16_BF16_F32_X6 = 11
    BF16_BF16_F32_X9 = 12
    TF32_TF32_F32 = 13
    TF32_TF32_F32_X3 = 14
    F32_F32_F32 = 15
    F64_F64_F64 = 16

    @override
    def __str__(self) -> str:
        return self.name

    @property
    def accumulation_type(self) -> DType | None:
        """What products are added in; None: whatever the result is."""
        if self.name.endswith(("DEFAULT", "_ANY", "ANY_FAST_ACCUM")):
            return None
        return _ADDED_IN.get(self, FLOAT32)

    def compute_types(self, x: DType, y: DType, out: DType) -> ComputeTypes:
        """What to convert the operands to, and the type of the product before it is converted to `out`."""
        stored = _STORED.get(self, ())
        left, right = (dtype if not stored or dtype in stored else stored[0] for dtype in (x, y))
        added = self.accumulation_type
        if added is None or (self in _KEPT and x == y == out == _KEPT[self]) or (not stored and out.itemsize <= 4):
            return left, right, out
        return left, right, added

    def requires_float8(self) -> bool:
        """Whether it is for operands of eight bits only."""
        return self.name.startswith("ANY_F8")


_P: Final = DotAlgorithmPreset
#: What operands are stored as: they are converted to the first, unless they have one of these types.
_STORED: Final[Mapping[DotAlgorithmPreset, tuple[DType, ...]]] = {
    _P.F16_F16_F16: (FLOAT16,),
    _P.F16_F16_F32: (FLOAT16,),
    _P.BF16_BF16_BF16: (BFLOAT16, FLOAT32),
    _P.BF16_BF16_F32: (BFLOAT16, FLOAT32),
    **dict.fromkeys((_P.BF16_BF16_F32_X3, _P.BF16_BF16_F32_X6, _P.BF16_BF16_F32_X9), (FLOAT32,)),
    **dict.fromkeys((_P.TF32_TF32_F32, _P.TF32_TF32_F32_X3, _P.F32_F32_F32), (FLOAT32,)),
    _P.F64_F64_F64: (FLOAT64,),
}
#: What products are added in, where that isn't float32.
_ADDED_IN: Final = {_P.F16_F16_F16: FLOAT16, _P.BF16_BF16_BF16: BFLOAT16, _P.F64_F64_F64: FLOAT64}
#: Those whose result may be as narrow as the operands, without a conversion.
_KEPT: Final = {_P.F16_F16_F32: FLOAT16, _P.BF16_BF16_F32: BFLOAT16}


def as_algorithm(given: object) -> DotAlgorithm | DotAlgorithmPreset | None:
    """The algorithm that this is, or a preset of this name, also one of JAX's; None for anything else.

    >>> as_algorithm("F32_F32_F32"), as_algorithm("highest")
    (<DotAlgorithmPreset.F32_F32_F32: 15>, None)
    """
    if isinstance(given, DotAlgorithm | DotAlgorithmPreset):
        return given
    if isinstance(given, str):
        return None if given == "DEFAULT" else DotAlgorithmPreset.__members__.get(given)
    if isinstance(given, enum.Enum) and type(given).__name__ == DotAlgorithmPreset.__name__:
        return DotAlgorithmPreset.__members__.get(given.name)
    if isinstance(given, tuple) and type(given).__name__ == DotAlgorithm.__name__ and len(given) == 7:
        try:
            return DotAlgorithm(*given)
        except TypeError as error:
            raise ParameterError(f"dot_general: {given!r} is no algorithm: {error}") from None
    return None
