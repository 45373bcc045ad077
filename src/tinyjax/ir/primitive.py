"""The interface of a primitive: its parameters and its rules."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, ParamSpec, TypeAlias, TypeVar, final

import attrs
import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.caching import IdentityCache, Keyed, bounded, register
from tinyjax.errors import InputError, MissingRuleError, ParameterError
from tinyjax.ir.aval import Shape, ShapedArray
from tinyjax.ir.dtypes import DType, HostArray
from tinyjax.ir.effects import NO_EFFECTS, Effects
from tinyjax.ir.immutable import Immutable
from tinyjax.ir.nans import settled
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.source import is_ours
from tinyjax.ir.value import ConcreteValue

if TYPE_CHECKING:
    from tinyjax.ir.context import Context, Evaluator

V = TypeVar("V")
P = ParamSpec("P")
R = TypeVar("R")


@final
@frozen
class Zero:
    """A tangent or cotangent that is zero everywhere, without its elements. `aval` is a tangent type."""

    aval: ShapedArray

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


@final
@frozen
class UndefPrimal:
    """Stands, during transposition, for an argument that the equation is linear in."""

    aval: ShapedArray


#: What becomes of a `cond` whose predicate differs from element to element of a batch; see `vmap`.
CondPolicy: TypeAlias = Literal["select", "map", "error"]


@final
@frozen
class BatchAxis:
    """The axis that a batching context maps over: how long it is, its name if it has one, and what becomes of a `cond`
    whose predicate is mapped."""

    size: int
    name: str | None = None
    cond: CondPolicy = "select"


@final
@frozen
class Split:
    """A primitive divided in two by partial evaluation.

    `known` takes the known arguments. It returns the known outputs, then some residuals. `staged` takes the inputs that
    `residuals` lists, then the unknown arguments, and returns the unknown outputs. An entry of `residuals` is the
    position (among all arguments) of a known argument that is passed on, or None for the next residual that `known`
    returned. `unknown_out` says which outputs are unknown. `order` is for a `staged` that takes these inputs otherwise:
    for each of its operands, which of them it is, counted residuals first, then unknown arguments. `known_inputs` is
    for a `known` that takes only some of the known arguments: their positions among all.
    """

    known: Primitive
    staged: Primitive
    unknown_out: tuple[bool, ...]
    residuals: tuple[int | None, ...]
    order: tuple[int, ...] | None = None
    known_inputs: tuple[int, ...] | None = None


Outputs: TypeAlias = tuple[Sequence[V], Sequence["V | Zero"]]


@frozen
class Opaque(ABC):
    """A parameter whose content can't be written down, such as a Python function that a program calls.

    A subclass is a frozen attrs class that says with `==` and `hash` which of its instances are interchangeable within
    this process. Programs with such parameters can be compared and compiled like others, but have no `content_hash`.
    """

    @abstractmethod
    @override
    def __str__(self) -> str:
        """What printed programs show: the same in every process."""


#: The types of parameters that hold nothing else.
PLAIN_TYPES: frozenset[type] = frozenset({int, float, complex, bool, str, bytes, type(None)})
#: Those of which equal ones are interchangeable.
_SETTLED_TYPES: Final = PLAIN_TYPES - {float, complex}


def is_value(parameter: object) -> bool:
    """Whether this may be a parameter: an immutable value, compared and hashed by its content."""
    cls = type(parameter)
    if cls in PLAIN_TYPES:
        return True
    if isinstance(parameter, tuple | frozenset):
        plain = PLAIN_TYPES.issuperset(map(type, parameter))
        return cls in (tuple, frozenset) and (plain or all(map(is_value, parameter)))
    if isinstance(parameter, Jaxpr):
        return _is_settled(parameter)
    if isinstance(parameter, ShapedArray | ConcreteValue | np.dtype | enum.Enum | type | Opaque):
        return True
    if not attrs.has(cls) or cls.__eq__ is object.__eq__ or cls.__hash__ is None:
        return False
    return all(is_value(getattr(parameter, attribute.name)) for attribute in attrs.fields(cls) if attribute.eq)


def _plain(parameter: object) -> object:
    """The parameter with Python's integers and bools in the place of NumPy's, also within tuples."""
    if isinstance(parameter, np.integer | np.bool_):
        return parameter.item()
    if type(parameter) is tuple:
        return tuple([_plain(item) for item in parameter])
    return parameter


def _is_settled(jaxpr: Jaxpr) -> bool:
    """Whether a program is hashable. What it caches is computed now if there are programs within, so that asking for it
    never recurses through them, however deep they nest."""
    if not jaxpr.inner:  # and so nothing that wasn't looked at when its primitives were made, but their classes
        return None not in {type(eqn.primitive).__hash__ for eqn in jaxpr.eqns}
    try:
        hash(jaxpr)
        hash(jaxpr.effects)
        hash(jaxpr.lines)
    except TypeError:
        return False
    return True


@bounded(4096)
def _parameter_names(cls: type[Primitive]) -> tuple[str, ...]:
    return tuple([attribute.name for attribute in attrs.fields(cls)])


def _made_again(cls: type[Primitive], fields: Mapping[str, object]) -> Primitive:
    return cls(**fields)


@frozen
class Primitive(Immutable, Keyed, ABC):
    """An operation that programs apply. Subclass it as a frozen attrs class; the fields are the parameters.

    Rules are methods, generic in the value type `V` of the context they run in, so a rule can only use what the context
    offers and works for evaluation, staging and every nesting of transformations alike. A rule that isn't there raises
    MissingRuleError when it is needed, and not before.
    """

    name: ClassVar[str]
    #: Whether `evaluate` depends on nothing but the elements of its arguments: not on programs, effects or the
    #: surroundings. It runs where NumPy warns of nothing, and what types alone decide is found out once.
    plain: ClassVar[bool] = False
    #: Whether this class is the library's own. What the rules of others return is checked, see `ir.contracts`.
    built_in: ClassVar[bool] = True

    @override
    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.built_in = is_ours(cls)

    def __attrs_post_init__(self) -> None:
        for name in _parameter_names(type(self)):
            parameter = getattr(self, name)
            if type(parameter) in _SETTLED_TYPES:
                continue
            if not is_value(parameter):
                plain = _plain(parameter)
                if plain is not parameter and is_value(plain):
                    object.__setattr__(self, name, settled(plain))
                    continue
                raise ParameterError(
                    f"parameter {name!r} of primitive {self.name!r} is a {type(parameter).__name__}: "
                    f"{parameter!r}. Parameters must be immutable, hashable values: numbers, strings, tuples, enums, "
                    "dtypes, frozen attrs classes or jaxprs."
                )
            one = settled(parameter)
            if one is not parameter:
                object.__setattr__(self, name, one)

    @override
    def __reduce__(self) -> tuple[object, ...]:
        # Made again by the class, so that what holds of every primitive of this process holds of it.
        fields = [attribute for attribute in attrs.fields(type(self)) if attribute.init]
        return _made_again, (type(self), {field.alias: getattr(self, field.name) for field in fields})

    @property
    @override
    def remembered_by(self) -> Hashable:
        """Itself; and what tells it from those whose equal programs are from other lines of user code."""
        from tinyjax.ir.traverse import subjaxprs

        return self, *[program.remembered_by for program in subjaxprs(self)]

    @property
    def params(self) -> Mapping[str, object]:
        """The parameters by name, read-only."""
        fields = attrs.fields(type(self))
        return MappingProxyType({attribute.name: getattr(self, attribute.name) for attribute in fields})

    @property
    def effects(self) -> Effects:
        """What applying this primitive does besides computing its outputs."""
        return NO_EFFECTS

    @property
    def applied_programs(self) -> tuple[Jaxpr, ...]:
        """The programs that applying this primitive may run: all that it holds, unless it says otherwise."""
        from tinyjax.ir.traverse import subjaxprs

        return subjaxprs(self)

    # To type checkers, (*Any, **Any) is every signature: a rule may name the operands that its primitive has.

    def type_of(self, *avals: Any, **_: Any) -> tuple[ShapedArray, ...]:
        """The types of the outputs for inputs of these types; a TypingError if it doesn't accept them."""
        raise self._missing("Abstract evaluation", "type_of")

    def evaluate(self, *args: Any, **_: Any) -> tuple[HostArray, ...]:
        """The outputs for NumPy arrays whose types `type_of` has accepted."""
        raise self._missing("Evaluation rule", "evaluate")

    def host_function(self, *avals: ShapedArray) -> Callable[..., HostArray | np.generic]:
        """What computes the only output for NumPy arrays of these types: `evaluate`, or what does the same faster."""
        evaluate = self.evaluate
        return lambda *args: evaluate(*args)[0]

    def evaluate_with(self, evaluator: Evaluator, args: Sequence[ConcreteValue], /) -> Sequence[ConcreteValue] | None:
        """For primitives with programs as parameters: the outputs, computed by the evaluator. None: use `evaluate`."""
        return None

    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero], /) -> Outputs[V]:
        """The outputs and their tangents. At least one tangent isn't Zero."""
        raise self._missing("Differentiation rule", "jvp")

    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None], /
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        """The outputs, and the position of the mapped axis in each (None: not mapped), for arguments some of which have
        the mapped axis at `axes[i]`. At least one is mapped, or the primitive refers to `axis.name`."""
        raise self._missing("Batching rule", "batch")

    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal], /
    ) -> Sequence[V | Zero | None]:
        """The cotangents of the arguments that are UndefPrimal; None elsewhere. Not all cotangents are Zero."""
        raise self._missing("Transpose rule (for reverse-mode differentiation)", "transpose")

    def partial_eval(self, unknown: tuple[bool, ...], /) -> Split | None:
        """How to divide the primitive when some arguments are known. None: it is staged whole, or expanded."""
        return None

    def expand(self, ctx: Context[V], args: Sequence[V], /) -> Sequence[V] | None:
        """The outputs by way of other primitives. None: the primitive isn't defined by others.

        What partial evaluation, lowering, and any interpreter use where they have no rule for the primitive itself.
        """
        return None

    def _missing(self, rule: str, method: str) -> MissingRuleError:
        return MissingRuleError(
            f"{rule} for '{self.name}' not implemented. To add it, define the method "
            f"`{method}` of {type(self).__name__}."
        )


@bounded(8192, typed=True)
def made_once(make: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """`make(...)`, a primitive: the same object each time, which saves making it, and all that is found by identity."""
    return make(*args, **kwargs)


#: Types of results, which tracing and the passes ask for again and again.
_TYPES: Final[IdentityCache[tuple[ShapedArray, ...]]] = IdentityCache(8192, "ir.primitive.result_types")
register(_TYPES)


def result_types(primitive: Primitive, avals: Sequence[ShapedArray]) -> tuple[ShapedArray, ...]:
    """What `type_of` says; asked once for a plain primitive on operands of these types, if they are shared objects."""
    if not primitive.plain:
        return _types_of(primitive, avals)
    if len(avals) == 2:
        found = _TYPES.entries.get((id(primitive), id(avals[0]), id(avals[1])))
    else:
        found = _TYPES.entries.get((id(primitive), *map(id, avals)))
    return _TYPES.keep((primitive, *avals), _types_of(primitive, avals)) if found is None else found[1]


def _types_of(primitive: Primitive, avals: Sequence[ShapedArray]) -> tuple[ShapedArray, ...]:
    if primitive.built_in:
        return primitive.type_of(*avals)
    from tinyjax.ir import contracts

    return contracts.type_of(primitive, avals)
