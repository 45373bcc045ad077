"""What programs hold of a primitive that a class of Python methods defines: its application, and its derivative."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypeVar, final

from attrs import field, frozen
from typing_extensions import override

from tinyjax.api.by_python import ensure_compile_time_eval
from tinyjax.arrays.elementwise import convert
from tinyjax.control.call import for_later
from tinyjax.control.composite import Composite
from tinyjax.errors import ForwardModeError, MissingRuleError, RuleResultError
from tinyjax.extend.array_rules import ArrayPrimitive, Results, run_in
from tinyjax.extend.by_methods.accumulators import NullAccum, ValAccum, sums_of
from tinyjax.extend.by_methods.rules import call_rule, parts, spread
from tinyjax.interpreters.ad import instantiate_zeros
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.effects import Effects
from tinyjax.ir.parameters import Opaque
from tinyjax.ir.primitive import BatchAxis, Split, UndefPrimal, Zero
from tinyjax.ir.roles import Evaluator
from tinyjax.ir.tangents import has_tangent, known_operands, nonzero_marks, with_zeros, without_zeros
from tinyjax.ir.type_lists import expect_types
from tinyjax.ir.value import ConcreteValue
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import ConcreteArray, as_array
from tinyjax.tracing.core import bind
from tinyjax.tracing.functions import as_arrays

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef

V = TypeVar("V")

#: What rules return.
_JVP: Final = "the result and its tangent"
_FORWARD: Final = "the result and residuals"


class Methods(Protocol):
    """A user's primitive, as far as equations ask it, but for its rules, which `Definition.call` calls."""

    in_avals_flat: tuple[ShapedArray, ...]
    out_avals_flat: tuple[ShapedArray, ...]
    in_tree: PyTreeDef
    out_tree: PyTreeDef
    effects: Effects

    @abstractmethod
    def defines(self, rule: str) -> bool: ...


@final
@frozen
class Definition(Opaque):
    """A user's primitive as a parameter: equal to those of its class with equal parameters and types."""

    methods: Methods = field(eq=lambda methods: (methods, methods.in_avals_flat, methods.out_avals_flat))

    @override
    def __str__(self) -> str:
        return str(self.methods)

    @property
    def name(self) -> str:
        """The name of its class."""
        return type(self.methods).__name__

    def call(self, rule: str, *args: Any) -> Any:
        """What a rule returns."""
        return call_rule(self.methods, rule, *args)

    def call_for_parts(self, rule: str, what: str, *args: Any) -> tuple[Any, Any, list[Any]]:
        """The two parts of what a rule returns, and the rest."""
        return parts(f"{rule} of {self.name}", self.call(rule, *args), what)

    def given(self, leaves: Sequence[object]) -> Any:  # the user's arguments
        """What has the arguments' structure."""
        return tree.unflatten(self.methods.in_tree, leaves)

    def flat(self, rule: str, result: object) -> list[Array]:
        """The leaves of what a rule returns for the results: of their types."""
        methods = self.methods
        leaves, structure = tree.flatten(result)
        said = f"{rule} of {self.name}"
        if structure != methods.out_tree:
            tree.check_same_structure(said, methods.out_tree, structure, "out_aval", "what it returns")
        arrays = as_arrays(leaves, lambda i: f"{said}: result{tree.paths(structure)[i]}")
        taken = [_weakly(x, aval) for x, aval in zip(arrays, methods.out_avals_flat, strict=True)]
        expect_types(f"{said} has to return", methods.out_avals_flat, [x.aval for x in taken], RuleResultError)
        return taken

    def tangents(self, rule: str, result: object) -> list[Array | Zero]:
        """The leaves of what a rule returns for the tangents of the results."""
        methods = self.methods
        leaves = tree.up_to(f"{rule} of {self.name}", methods.out_tree, result)
        return [_derivative(f"{rule} of {self.name}", leaf, aval.tangent)
                for leaf, aval in zip(leaves, methods.out_avals_flat, strict=True)]  # fmt: skip

    def moved(self, marks: Sequence[bool], moving: Sequence[Array]) -> Any:  # as the user's arguments
        """Tangents for the marked arguments, and Zero for the others."""
        return self.given(with_zeros(moving, marks, self.methods.in_avals_flat))


def _weakly(x: Array, aval: ShapedArray) -> Array:
    """A weakly typed array in the dtype that is wanted."""
    weak = x.aval.weak_type and x.aval.dtype != aval.dtype and x.aval.shape == aval.shape
    return convert(x, aval.dtype) if weak else x


def _derivative(said: str, leaf: object, aval: ShapedArray) -> Array | Zero:
    if leaf is None or isinstance(leaf, Zero) or not has_tangent(aval):
        return Zero(aval)
    (x,) = as_arrays([leaf], lambda _: f"{said}: a derivative")
    x = _weakly(x, aval)
    expect_types(f"{said}: a derivative has to be", [aval], [x.aval], RuleResultError)
    return x


@final
@frozen
class HiCall(ArrayPrimitive):
    """Applies a primitive that a class of Python methods defines."""

    definition: Definition
    name: ClassVar[str] = "call_hi_primitive"
    symbolic_zeros: ClassVar[bool] = True

    @property
    @override
    def effects(self) -> Effects:
        return self.definition.methods.effects

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        expect_types(f"{self.definition.name} takes", self.definition.methods.in_avals_flat, avals)
        return self.definition.methods.out_avals_flat

    @override
    def partial_eval(self, unknown: tuple[bool, ...]) -> Split:
        return for_later(self, unknown, len(self.definition.methods.out_avals_flat))

    def _expanded(self, *args: Array) -> list[Array]:
        definition = self.definition
        return definition.flat("expand", definition.call("expand", *definition.given(args)))

    @override
    def expand(self, ctx: Context[V], args: Sequence[V]) -> Sequence[V]:
        return run_in(ctx, self._expanded, *args)

    @override
    def evaluate_with(self, evaluator: Evaluator, args: Sequence[ConcreteValue]) -> Sequence[ConcreteValue]:
        with ensure_compile_time_eval():
            outs = self._expanded(*map(ConcreteArray, args))
        return [value for out in outs if (value := out.concrete()) is not None]

    @override
    def jvp_arrays(
        self, primals: Sequence[Array], tangents: Sequence[Array | Zero]
    ) -> tuple[Results, Sequence[ArrayLike | Zero]]:
        definition, methods = self.definition, self.definition.methods
        given, marks = definition.given(primals), nonzero_marks(tangents)
        if methods.defines("vjp_fwd"):
            return self._in_reverse(primals, given, marks, list(without_zeros(tangents)))
        if methods.defines("jvp"):
            outs, derived, _ = definition.call_for_parts("jvp", _JVP, given, definition.given(tangents))
            return definition.flat("jvp", outs), definition.tangents("jvp", derived)
        if not methods.defines("lin"):
            raise MissingRuleError(
                f"Differentiation rule for {definition.name!r} not implemented. To add it, define its methods "
                "`vjp_fwd` and `vjp_bwd_retval` for reverse mode, and `jvp` for forward mode."
            )
        outs, residuals, _ = definition.call_for_parts("lin", _FORWARD, definition.given(marks), *given)
        derived = definition.call("linearized", residuals, *definition.given(tangents))
        return definition.flat("lin", outs), definition.tangents("linearized", derived)

    def _in_reverse(
        self, primals: Sequence[Array], given: Any, marks: Sequence[bool], moving: list[Array]
    ) -> tuple[Results, Sequence[ArrayLike | Zero]]:
        """The results by its forward pass, and the tangents as one equation, which knows its transpose."""
        definition, methods = self.definition, self.definition.methods
        outs, residuals, known = definition.call_for_parts("vjp_fwd", _FORWARD, definition.given(marks), *given)
        leaves, structure = tree.flatten(residuals)
        said = f"vjp_fwd of {definition.name}"
        kept = as_arrays(leaves, lambda i: f"{said}: residual{tree.paths(structure)[i]}")
        forward = methods.defines("jvp") or methods.defines("lin")
        tangent = HiTangent(definition, tuple(marks), Residuals(structure, len(kept)), forward)
        found = bind(tangent, *(primals if forward else ()), *kept, *moving)
        avals = methods.out_avals_flat
        derived = with_zeros(found, map(has_tangent, avals), avals)
        if known:  # which of the tangents aren't zero, as the rule says
            alike = isinstance(known[0], bool)
            moves: list[Any] = [known[0]] * len(avals) if alike else tree.up_to(said, methods.out_tree, known[0])
            if not all(isinstance(move, bool) for move in moves):
                raise RuleResultError(f"{said}: which results have a tangent is said by bools, got {known[0]!r}")
            derived = [t if move else Zero(aval.tangent) for t, move, aval in zip(derived, moves, avals, strict=True)]
        return definition.flat("vjp_fwd", outs), derived

    @override
    def batch_arrays(
        self, axis: BatchAxis, args: Sequence[Array], axes: Sequence[int | None]
    ) -> tuple[Results, Sequence[int | None]]:
        definition = self.definition
        what = "the result and where its mapped axis is"
        outs, dims, _ = definition.call_for_parts("batch", what, axis, definition.given(args), definition.given(axes))
        leaves, structure = tree.flatten(outs)
        tree.check_same_structure(f"batch of {definition.name}", definition.methods.out_tree, structure, "out_aval",
                                  "what it returns")  # fmt: skip
        places = spread(definition.methods.out_tree, dims)
        return as_arrays(leaves, lambda i: f"batch of {definition.name}: result {i}"), places

    @override
    def transpose_arrays(
        self, cotangents: Sequence[Array | Zero], args: Sequence[Array | UndefPrimal]
    ) -> Sequence[ArrayLike | Zero | None]:
        definition, methods = self.definition, self.definition.methods
        accumulators = [ValAccum(x.aval.cotangent) if isinstance(x, UndefPrimal) else x for x in args]
        definition.call("transpose", tree.unflatten(methods.out_tree, cotangents), *definition.given(accumulators))
        return sums_of(accumulators)


@final
@frozen
class HiTangent(Composite):
    """The tangents of such a primitive's results, of those of arguments that aren't zero: it takes the arguments,
    residuals of the forward pass, then tangents. Backwards it is the backward pass; forward, the derivative by the
    other rules, without which it takes no arguments."""

    definition: Definition
    moving: tuple[bool, ...]
    residuals: Residuals
    forward: bool
    name: ClassVar[str] = "call_hi_primitive_linearized"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return tuple([aval.tangent for aval in self.definition.methods.out_avals_flat if has_tangent(aval)])

    @property
    def _arguments(self) -> int:
        """How many of the first operands are arguments."""
        return len(self.moving) if self.forward else 0

    @override
    def partial_eval(self, unknown: tuple[bool, ...]) -> Split:
        return for_later(self, unknown, sum(map(has_tangent, self.definition.methods.out_avals_flat)))

    @override
    def decompose(self, ctx: Context[V], *args: V) -> Sequence[V]:
        if not self.forward:
            raise ForwardModeError(
                f"can't apply forward-mode differentiation (jvp) to {self.definition.name}: its rules are for reverse "
                "mode. Use grad or vjp, or define its method `jvp`."
            )
        n = self._arguments
        return run_in(ctx, self._forward, *args[:n], *args[n + self.residuals.count :])

    def _forward(self, *args: Array) -> list[Array]:
        definition, methods, n = self.definition, self.definition.methods, len(self.moving)
        given, tangents = definition.given(args[:n]), definition.moved(self.moving, args[n:])
        if methods.defines("jvp"):
            derived = definition.tangents("jvp", definition.call_for_parts("jvp", _JVP, given, tangents)[1])
        else:
            _, residuals, _ = definition.call_for_parts("lin", _FORWARD, definition.given(self.moving), *given)
            derived = definition.tangents("linearized", definition.call("linearized", residuals, *tangents))
        return [as_array(instantiate_zeros(t)) for t in derived if has_tangent(t.aval)]

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        n, count = self._arguments, self.residuals.count
        if any(isinstance(x, UndefPrimal) for x in args[: n + count]):
            return Composite.transpose(self, ctx, cotangents, args)
        given = [*known_operands(args[n : n + count]), *without_zeros(cotangents)]
        marks, wanted = nonzero_marks(cotangents), [isinstance(x, UndefPrimal) for x in args[n + count :]]
        zeros: list[bool] = []

        def backward(*arrays: Array) -> list[Array]:
            sums = self._backward(arrays[:count], marks, arrays[count:], wanted)
            zeros[:] = [isinstance(ct, Zero) for ct in sums]
            return [ct for ct in sums if not isinstance(ct, Zero)]

        found = iter(run_in(ctx, backward, *given))
        moved = [x.aval if isinstance(x, UndefPrimal) else None for x in args[n + count :]]
        is_zero = iter(zeros)
        return [
            *[None] * (n + count),
            *[None if aval is None else Zero(aval.cotangent) if next(is_zero) else next(found) for aval in moved],
        ]

    def _backward(
        self, residuals: Sequence[Array], marks: Sequence[bool], cts: Sequence[Array], wanted: Sequence[bool]
    ) -> list[Array | Zero]:
        """The cotangents of the wanted ones among what moves."""
        definition, methods = self.definition, self.definition.methods
        own, rest = [aval for aval in methods.out_avals_flat if has_tangent(aval)], iter(wanted)
        accumulators = [
            ValAccum(aval.cotangent) if mark and next(rest) else NullAccum(aval.cotangent)
            for mark, aval in zip(self.moving, methods.in_avals_flat, strict=True)
        ]
        given = iter(with_zeros(cts, marks, own))
        outs = [next(given) if has_tangent(aval) else Zero(aval.tangent) for aval in methods.out_avals_flat]
        held = tree.unflatten(self.residuals.structure, residuals)
        _ = definition.call("vjp_bwd", held, tree.unflatten(methods.out_tree, outs), *definition.given(accumulators))
        said = f"vjp_bwd of {definition.name}"
        return [_derivative(said, x.total, x.aval) for x in accumulators if isinstance(x, ValAccum)]


@final
@frozen
class Residuals(Opaque):
    """The structure of what a forward pass hands to the backward pass."""

    structure: PyTreeDef
    count: int

    @override
    def __str__(self) -> str:
        return f"{self.count} residuals"
