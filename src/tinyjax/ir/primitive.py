"""The interface of a primitive: its parameters and its rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, TypeVar, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.errors import MissingRuleError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.effects import NO_EFFECTS, Effects
from tinyjax.ir.parameters import Parameters
from tinyjax.ir.source import is_ours
from tinyjax.ir.typed import Typed
from tinyjax.ir.value import ConcreteValue
from tinyjax.ir.varying import Spreading

if TYPE_CHECKING:
    from tinyjax.ir.context import Context
    from tinyjax.ir.roles import Evaluator

V = TypeVar("V")


@final
@frozen
class Zero(Typed):
    """A tangent or cotangent that is zero everywhere, without its elements. `aval` is a tangent type."""

    aval: ShapedArray


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
    whose predicate is mapped. One that stands for all devices of a `mesh` has names and sizes of several. `spmd` are
    the axes of a mesh along which the batch is divided."""

    size: int
    name: str | None = None
    cond: CondPolicy = "select"
    mesh: tuple[tuple[str, int], ...] = ()
    spmd: tuple[str, ...] = ()


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
class Primitive(Spreading, Parameters):
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

    @property
    def effects(self) -> Effects:
        """What applying this primitive does besides computing its outputs."""
        return NO_EFFECTS

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
        return MissingRuleError.of(self.name, type(self), rule, method)
