"""The interface of a primitive: its parameters and its rules."""

from __future__ import annotations

import enum
from abc import ABC
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, TypeAlias, TypeVar, final

import attrs
import numpy as np
from attrs import frozen

from tinyjax.errors import MissingRuleError, ParameterError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.effects import NO_EFFECTS, Effects
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.value import ConcreteValue

if TYPE_CHECKING:
    from tinyjax.ir.context import Context, Evaluator

V = TypeVar("V")


@final
@frozen
class Zero:
    """A tangent or cotangent that is zero everywhere, without its elements. `aval` is a tangent type."""

    aval: ShapedArray


@final
@frozen
class UndefPrimal:
    """Stands, during transposition, for an argument that the equation is linear in."""

    aval: ShapedArray


@final
@frozen
class BatchAxis:
    """The axis that a batching context maps over: how long it is, and its name if it has one."""

    size: int
    name: str | None = None


@final
@frozen
class Split:
    """A primitive divided in two by partial evaluation.

    `known` takes the known arguments. It returns the known outputs, then some residuals. `staged` takes the inputs that
    `residuals` lists, then the unknown arguments, and returns the unknown outputs. An entry of `residuals` is the
    position (among all arguments) of a known argument that is passed on, or None for the next residual that `known`
    returned. `unknown_out` says which outputs are unknown.
    """

    known: Primitive
    staged: Primitive
    unknown_out: tuple[bool, ...]
    residuals: tuple[int | None, ...]


Outputs: TypeAlias = tuple[Sequence[V], Sequence["V | Zero"]]
#: The types of parameters that hold nothing else.
PLAIN_TYPES: frozenset[type] = frozenset({int, float, complex, bool, str, bytes, type(None)})


def is_value(parameter: object) -> bool:
    """Whether this may be a parameter: an immutable value, compared and hashed by its content."""
    cls = type(parameter)
    if cls in PLAIN_TYPES:
        return True
    if isinstance(parameter, tuple | frozenset):
        return cls in (tuple, frozenset) and all(map(is_value, parameter))
    if isinstance(parameter, Jaxpr):
        return _is_settled(parameter)
    if isinstance(parameter, ShapedArray | ConcreteValue | np.dtype | enum.Enum | type):
        return True
    if not attrs.has(cls) or cls.__eq__ is object.__eq__ or cls.__hash__ is None:
        return False
    return all(is_value(getattr(parameter, attribute.name)) for attribute in attrs.fields(cls) if attribute.eq)


def _is_settled(jaxpr: Jaxpr) -> bool:
    """Whether a program is hashable. What it caches is computed now, so that asking for it never recurses through the
    programs within, however deep they nest."""
    try:
        hash(jaxpr)
        hash(jaxpr.effects)
    except TypeError:
        return False
    return True


@frozen
class Primitive(ABC):
    """An operation that programs apply. Subclass it as a frozen attrs class; the fields are the parameters.

    Rules are methods, generic in the value type `V` of the context they run in, so a rule can only use what the context
    offers and works for evaluation, staging and every nesting of transformations alike. A rule that isn't there raises
    MissingRuleError when it is needed, and not before.
    """

    name: ClassVar[str]

    def __attrs_post_init__(self) -> None:
        for attribute in attrs.fields(type(self)):
            parameter = getattr(self, attribute.name)
            if not is_value(parameter):
                raise ParameterError(
                    f"parameter {attribute.name!r} of primitive {self.name!r} is a {type(parameter).__name__}: "
                    f"{parameter!r}. Parameters must be immutable, hashable values: numbers, strings, tuples, enums, "
                    "dtypes, frozen attrs classes or jaxprs."
                )

    @property
    def params(self) -> Mapping[str, object]:
        """The parameters by name, read-only."""
        fields = attrs.fields(type(self))
        return MappingProxyType({attribute.name: getattr(self, attribute.name) for attribute in fields})

    @property
    def effects(self) -> Effects:
        """What applying this primitive does besides computing its outputs."""
        return NO_EFFECTS

    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        """The types of the outputs for inputs of these types; a TypingError if it doesn't accept them."""
        raise self._missing("Abstract evaluation", "type_of")

    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        """The outputs for NumPy arrays whose types `type_of` has accepted."""
        raise self._missing("Evaluation", "evaluate")

    def evaluate_with(self, evaluator: Evaluator, args: Sequence[ConcreteValue]) -> Sequence[ConcreteValue] | None:
        """For primitives with programs as parameters: the outputs, computed by the evaluator. None: use `evaluate`."""
        return None

    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        """The outputs and their tangents. At least one tangent isn't Zero."""
        raise self._missing("Differentiation", "jvp")

    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        """The outputs, and the position of the mapped axis in each (None: not mapped), for arguments some of which have
        the mapped axis at `axes[i]`. At least one is mapped, or the primitive refers to `axis.name`."""
        raise self._missing("Batching", "batch")

    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        """The cotangents of the arguments that are UndefPrimal; None elsewhere. Not all cotangents are Zero."""
        raise self._missing("Transpose", "transpose")

    def partial_eval(self, unknown: tuple[bool, ...]) -> Split | None:
        """How to divide the primitive when some arguments are known. None: it is staged whole."""
        return None

    def _missing(self, rule: str, method: str) -> MissingRuleError:
        return MissingRuleError(
            f"{rule} rule for '{self.name}' not implemented. To add it, define the method "
            f"`{method}` of {type(self).__name__}."
        )
