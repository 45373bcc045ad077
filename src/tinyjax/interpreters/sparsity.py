"""Which elements of a Jacobian can be other than zero, found from the program alone.

Values of this interpreter have no parts: a pattern is all there is, known while the program is transformed. So
calls, branches and `while` need nothing here but `join`: patterns grow until a loop changes them no more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import accumulate, pairwise
from typing import Any, Final, Self, TypeAlias, final

import numpy as np
import numpy.typing as npt
from attrs import evolve, field, frozen
from typing_extensions import override

from tinyjax.api.arguments import resolve_argnums
from tinyjax.api.make_jaxpr import abstractify
from tinyjax.contexts.evaluation import EvalContext
from tinyjax.control.cond import Cond
from tinyjax.control.custom_linear import CustomLin
from tinyjax.control.loops import While
from tinyjax.errors import InputError
from tinyjax.interpreters.base import RuleContext, Rules, overridden, rule_table
from tinyjax.interpreters.hidden import Hidden, staged
from tinyjax.ir import contracts
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.effects import NO_EFFECTS
from tinyjax.ir.interpret import interpret
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Literal
from tinyjax.ir.result_types import result_types
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.tangents import has_tangent
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.arithmetic import IntegerPow
from tinyjax.primitives.elementwise import Elementwise, Stepwise
from tinyjax.primitives.selection import SelectN
from tinyjax.tracing import tree
from tinyjax.tracing.concrete import ConcreteArray
from tinyjax.tracing.functions import FlatFunction, check_callable
from tinyjax.tracing.programs import trace

Bools: TypeAlias = npt.NDArray[np.bool_]


def _content(array: Bools) -> tuple[tuple[int, ...], bytes]:
    return array.shape, array.tobytes()


@final
@frozen
class Pattern:
    """A value of which is known on which inputs its elements may depend: `depends[i, j]`, for element i and input j.

    `value` are the elements themselves, where they are known: then they depend on nothing.
    """

    aval: ShapedArray
    depends: Bools = field(eq=_content)
    value: ConcreteValue | None = None

    @property
    def constant(self) -> bool:
        return not self.depends.any()


PatternRules: TypeAlias = Rules[Pattern, Pattern]
SPARSITY_RULES: PatternRules = rule_table("Sparsity", name="tinyjax.interpreters.SPARSITY_RULES")
EVALUATION: Final = EvalContext()


def anywhere(primitive: Primitive, ctx: RuleContext[Pattern, Pattern], args: Sequence[Pattern]) -> Sequence[Pattern]:
    """Every element of the results may depend on every element of the operands: what is safe where no more is known."""
    union = union_of(args)
    types = result_types(primitive, [arg.aval for arg in args])
    return [Pattern(aval, np.tile(union, (aval.size, 1))) for aval in types]


def union_of(args: Sequence[Pattern]) -> Bools:
    """What some element of some of these depends on: a row."""
    return np.logical_or.reduce(np.concatenate([arg.depends for arg in args]), axis=0, keepdims=True)


def each_spread(aval: ShapedArray, args: Sequence[Pattern]) -> Pattern:
    """The result of an elementwise operation. The row of a scalar is that of every element."""
    shape = (aval.size, args[0].depends.shape[1])
    return Pattern(aval, reduce(np.logical_or, [np.broadcast_to(arg.depends, shape) for arg in args]))


@final
class SparsityContext(RuleContext[Pattern, Pattern]):
    """Finds patterns for `columns` inputs. What is known is computed; what depends on nothing needs no rule, and the
    results of what has no rule depend on everything.

    It is for derivatives, so that what is rounded, compared or an integer depends on nothing. With `any_dependence` it
    does: that is for users' rules, which take tangents for ordinary values.
    """

    __slots__ = ("any_dependence", "columns")
    rules = SPARSITY_RULES

    def __init__(self, parent: Context[Hidden], columns: int, *, any_dependence: bool = False) -> None:
        super().__init__(parent)
        self.columns: int = columns
        self.any_dependence: bool = any_dependence

    @override
    def over(self, parent: Context[Hidden]) -> Self:
        return type(self)(parent, self.columns, any_dependence=self.any_dependence)

    @override
    def bind(self, primitive: Primitive, *args: Pattern) -> tuple[Pattern, ...]:
        if not primitive.applied_programs:
            known = [arg.value for arg in args if arg.value is not None]
            if len(known) == len(args) and primitive.effects == NO_EFFECTS and not isinstance(primitive, CustomLin):
                return tuple(self.known(out) for out in EVALUATION.bind(primitive, *known))
            types = result_types(primitive, [arg.aval for arg in args])
            if all(arg.constant for arg in args):
                return tuple(map(self.independent, types))
            without = not any(map(has_tangent, types))  # integers and truth values
            decided = any(not has_tangent(arg.aval) and not arg.constant for arg in args)
            if self.any_dependence and (without or decided or isinstance(primitive, Stepwise | IntegerPow)):
                elementwise = isinstance(primitive, Elementwise | SelectN)
                return (each_spread(types[0], args),) if elementwise else tuple(anywhere(primitive, self, args))
            if without:
                return tuple(map(self.independent, types))
        elif self.any_dependence:
            return tuple(self._decided(primitive, args))
        if overridden(self.rules, type(primitive), "jvp"):
            return tuple(anywhere(primitive, self, args))
        return self._applied(primitive, args)

    def _applied(self, primitive: Primitive, args: Sequence[Pattern]) -> tuple[Pattern, ...]:
        """What the rule says, or what the primitive is defined by; otherwise it may be anything."""
        if self.rules.find(type(primitive)) is None and self.rules.reason(type(primitive)) is None:
            outs = contracts.expand(primitive, self, args)
            return tuple(anywhere(primitive, self, args) if outs is None else outs)
        return super().bind(primitive, *args)

    def _decided(self, primitive: Primitive, args: Sequence[Pattern]) -> Sequence[Pattern]:
        """The results of a primitive that holds programs. What decides which of them runs, and how often, counts."""
        outs = self._applied(primitive, args)
        if isinstance(primitive, Cond):
            deciding = args[:1]
        elif isinstance(primitive, While):
            consts, _, _ = primitive.operands(args)
            deciding = interpret(self, primitive.cond_jaxpr, [*consts, *outs])
        else:
            return outs
        if all(arg.constant for arg in deciding):
            return outs
        row = union_of(deciding)
        return [Pattern(out.aval, out.depends | row) for out in outs]

    @classmethod
    @override
    def covers(cls, primitive: Primitive, avals: Sequence[ShapedArray]) -> bool:
        return cls.rules.reason(type(primitive)) is None or type(primitive) in cls.rules

    def independent(self, aval: ShapedArray) -> Pattern:
        """A value that depends on no input."""
        return Pattern(aval, np.zeros((aval.size, self.columns), np.bool_))

    def known(self, value: ConcreteValue) -> Pattern:
        return evolve(self.independent(value.aval), value=value)

    @override
    def constant(self, value: ConcreteValue | Literal) -> Pattern:
        if isinstance(value, Literal):
            value = EVALUATION.constant(value)
        return self.known(value)

    @override
    def flatten(self, value: Pattern) -> tuple[Sequence[Hidden], Pattern]:
        return (), value

    @override
    def unflatten(self, structure: Pattern, parts: Sequence[Hidden]) -> Pattern:
        return structure

    @override
    def pure(self, value: Hidden) -> Pattern:
        return self.independent(self.parent.aval(value))

    @override
    def primal(self, value: Pattern) -> Hidden:
        raise InputError("jacobian_sparsity: an effect depends on a value, and a pattern has none")

    @override
    def aval(self, value: Pattern) -> ShapedArray:
        return value.aval

    @override
    def concrete(self, value: Pattern) -> ConcreteValue | None:
        return value.value

    @override
    def join(self, first: Pattern, second: Pattern) -> Pattern:
        if first == second:
            return first
        weak = first.aval.weak_type and second.aval.weak_type
        aval = array_type(first.aval.shape, first.aval.dtype, weak)
        return Pattern(aval, first.depends | second.depends)

    @override
    def widen(self, value: Pattern, structure: Pattern) -> Pattern:
        return structure


def jacobian_sparsity(fun: Callable[..., object], *args: Any, argnums: int | Sequence[int] = 0) -> Bools:
    """Which elements of the Jacobian of `fun` may be other than zero, whatever the values of the arguments are.

    What that is, the derivative rules say, as for `jacfwd`: those of a function with a derivative of its own are
    followed. The results of a primitive that nothing is known of depend on all of its operands.

    Returns a NumPy array with a row for each element of the results, and a column for each element of the arguments at
    `argnums`, leaf by leaf. Arguments are arrays or their types (ShapedArray).

    >>> import tinyjax.numpy as tnp
    >>> from tinyjax import ShapedArray
    >>> jacobian_sparsity(lambda x: tnp.diff(x) ** 2, ShapedArray((4,), "float64")).astype(int)
    array([[1, 1, 0, 0],
           [0, 1, 1, 0],
           [0, 0, 1, 1]])
    """
    check_callable("jacobian_sparsity", fun)
    numbers = resolve_argnums("jacobian_sparsity", argnums, len(args))
    leaves, treedef = tree.flatten((args, {}))
    avals = list(map(abstractify, leaves))
    traced = trace(FlatFunction(fun, "jacobian_sparsity", treedef), avals)
    ends = list(pairwise(accumulate((len(tree.flatten(arg)[0]) for arg in args), initial=0)))
    chosen = [i for number in numbers for i in range(*ends[number])]
    starts = dict(zip(chosen, accumulate((avals[i].size for i in chosen), initial=0), strict=False))
    columns = sum(avals[i].size for i in chosen)
    found: list[Pattern] = []

    def run(parent: Context[Hidden], parts: list[Hidden]) -> Sequence[Hidden]:
        ctx = SparsityContext(parent, columns)
        ins = [ctx.known(x.value) if isinstance(x, ConcreteArray) else ctx.independent(x.aval) for x in traced.captured]
        for i, aval in enumerate(avals):
            depends = np.zeros((aval.size, columns), np.bool_)
            if i in starts:
                elements = np.arange(aval.size)
                depends[elements, starts[i] + elements] = has_tangent(aval)
            ins.append(Pattern(aval, depends))
        found.extend(interpret(ctx, traced.jaxpr, ins))
        return ()

    staged((), run)  # nothing is staged, as patterns have no parts
    return np.concatenate([np.zeros((0, columns), np.bool_), *[pattern.depends for pattern in found]])
