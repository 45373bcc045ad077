"""`checkpoint`: a program whose derivative computes values a second time instead of keeping them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, final

from attrs import evolve, frozen
from typing_extensions import override

from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.control.call import Calling
from tinyjax.control.keeping import plan, without_calls
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.interpret import interpret
from tinyjax.ir.merging import sourced
from tinyjax.ir.parameters import Opaque
from tinyjax.ir.primitive import Primitive, Split
from tinyjax.ir.program import Atom, Jaxpr
from tinyjax.ir.program_value import well_typed
from tinyjax.ir.roles import Evaluator
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.annotations import Name
from tinyjax.primitives.contractions import DotGeneral
from tinyjax.transforms.dce import dce
from tinyjax.transforms.partial_eval import PartialEvaluation, partial_eval
from tinyjax.transforms.rebuild import read
from tinyjax.transforms.unread import evaluate


@frozen
class Policy(ABC):
    """Says which values the derivative of a checkpointed function may keep. Subclass it as a frozen attrs class: it
    becomes a parameter of programs."""

    @abstractmethod
    def __call__(self, primitive: Primitive, *avals: ShapedArray) -> bool:
        """Whether to keep what `primitive` computes from operands of these types, if the derivative needs it."""


@final
@frozen
class PolicyOfFunction(Policy, Opaque):
    """What a Python function says, which JAX's policies are: it gets the primitive, the types of the operands, and the
    parameters by name. It is the function of this process: a program that has it can't be saved."""

    function: Callable[..., bool]

    @override
    def __call__(self, primitive: Primitive, *avals: ShapedArray) -> bool:
        return bool(self.function(primitive, *avals, **primitive.params))

    @override
    def __str__(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)


@final
@frozen
class NothingSaveable(Policy):
    """Keeps nothing: everything that the derivative needs is computed again from the arguments."""

    @override
    def __call__(self, primitive: Primitive, *avals: ShapedArray) -> bool:
        return False


@final
@frozen
class EverythingSaveable(Policy):
    """Keeps all that the derivative needs, as without a checkpoint."""

    @override
    def __call__(self, primitive: Primitive, *avals: ShapedArray) -> bool:
        return True


@final
@frozen
class DotsSaveable(Policy):
    """Keeps the results of contractions; without `batch`, only of those that have no batch axes."""

    batch: bool = True

    @override
    def __call__(self, primitive: Primitive, *avals: ShapedArray) -> bool:
        if not isinstance(primitive, DotGeneral):
            return False
        return self.batch or primitive.dimension_numbers[1] == ((), ())


@final
@frozen
class SaveNames(Policy):
    """Keeps the values that `checkpoint_name` gave one of these names."""

    names: frozenset[str]

    @override
    def __call__(self, primitive: Primitive, *avals: ShapedArray) -> bool:
        return isinstance(primitive, Name) and primitive.label in self.names


@final
@frozen
class SaveNamesExcept(Policy):
    """Keeps the values that `checkpoint_name` gave a name, unless it is one of these."""

    names: frozenset[str]

    @override
    def __call__(self, primitive: Primitive, *avals: ShapedArray) -> bool:
        return isinstance(primitive, Name) and primitive.label not in self.names


@final
@frozen
class SaveAnythingExceptNames(Policy):
    """Keeps everything but the values that `checkpoint_name` gave one of these names."""

    names: frozenset[str]

    @override
    def __call__(self, primitive: Primitive, *avals: ShapedArray) -> bool:
        return not (isinstance(primitive, Name) and primitive.label in self.names)


@final
@frozen
class SaveFromBoth(Policy):
    """Keeps what at least one of two policies keeps."""

    first: Policy
    second: Policy

    @override
    def __call__(self, primitive: Primitive, *avals: ShapedArray) -> bool:
        return self.first(primitive, *avals) or self.second(primitive, *avals)


@final
@frozen
class Checkpoint(Calling):
    """Applies `jaxpr`. Partial evaluation keeps of it only what the policy allows (none: nothing), and stages the
    computation of everything else once more. `differentiated` marks the equations that do so; unless `prevent_cse` is
    off, the compiler is kept from merging them with the first computation."""

    policy: Policy | None = None
    prevent_cse: bool = True
    differentiated: bool = False
    name: ClassVar[str] = "checkpoint"

    @override
    def evaluate_with(self, evaluator: Evaluator, args: Sequence[ConcreteValue]) -> Sequence[ConcreteValue]:
        return evaluate(evaluator, self.jaxpr, args, self.function_name)

    @override
    def partial_eval(self, unknown: tuple[bool, ...]) -> Split:
        parts = partial_eval(without_calls(self.jaxpr), unknown)
        return _split(self, parts, NothingSaveable() if self.policy is None else self.policy)


def _split(primitive: Checkpoint, parts: PartialEvaluation, policy: Policy) -> Split:
    known, num_outs = without_calls(parts.known), parts.unknown_out.count(False)
    positions = [i for i, mark in enumerate(parts.unknown_in) if not mark]
    computed = known.outvars[num_outs:]
    found = plan(known.eqns, computed, policy, within=not isinstance(policy, NothingSaveable))
    passed = {positions.index(residual.input) for residual in parts.residuals if residual.input is not None}
    inputs = sorted(passed | {var.index for var in found.needed if var.index < len(positions)})

    def run_now(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        env = dict(enumerate(ins))
        kept = found.first(ctx, env)
        return [*read(env, known.outvars[:num_outs]), *kept]

    def run(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        env = dict(zip(inputs, ins, strict=False))
        end = len(inputs) + len(found.kept)
        found.compute(ctx, env, ins[len(inputs) : end])
        made = read(env, computed)
        places = [None if residual.input is None else positions.index(residual.input) for residual in parts.residuals]
        residuals = sourced(places, env, made)
        return interpret(ctx, parts.staged, [*residuals, *ins[end:]])

    unknown_avals = parts.staged.in_avals[len(parts.residuals) :]
    avals = [*(known.in_avals[i] for i in inputs), *found.kept, *unknown_avals]
    if found.opened:
        now = stage(known.in_avals, run_now)
    else:
        now = well_typed(Jaxpr(known.invars, known.eqns, (*known.outvars[:num_outs], *found.saved)))
    return Split(
        evolve(primitive, jaxpr=dce(now)),
        evolve(primitive, jaxpr=dce(stage(avals, run)), differentiated=True),
        parts.unknown_out,
        (*(positions[i] for i in inputs), *(None for _ in found.kept)),
    )
