"""What `custom_jvp` and `custom_vjp` share: calls, how they are carried out, and what is checked of rules."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, final

from attrs import frozen
from typing_extensions import override

from tinyjax.api.arguments import WithStatic, as_tuple, names_tuple, resolve_position, resolve_static
from tinyjax.api.rules.cells import NOTHING, Layout, TouchesCells
from tinyjax.api.rules.frames import frame_at
from tinyjax.api.rules.programs import stage_rule
from tinyjax.arrays.elementwise import convert
from tinyjax.contexts.cells import Cells
from tinyjax.control.recursion import Enclosing, refers_to_itself
from tinyjax.errors import ConcretizationError, InputError, LeakedTracerError, RuleResultError, TreeError
from tinyjax.ir.applied import place
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.dtypes import FLOAT0
from tinyjax.ir.merging import completed
from tinyjax.ir.primitive import Primitive, Zero
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.roles import Customised
from tinyjax.ir.tangents import has_tangent
from tinyjax.ir.varying import without
from tinyjax.lax.binding import varied
from tinyjax.primitives.structure import instantiate
from tinyjax.refs.lending import refs_among
from tinyjax.refs.ref import Ref
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import active_frame, top_frame
from tinyjax.tracing.core import TraceFrame, bind
from tinyjax.tracing.frames import OpenFrame, V, outwards
from tinyjax.tracing.functions import (
    FlatFunction,
    argument_path,
    describe,
    flatten_arguments,
    float0_zeros,
    function_name,
)

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef


@final
@frozen(eq=False)
class Call:
    """A call of a function with a derivative of its own: the leaves of the arguments that may be differentiated with
    respect to, and the others. `fixed` are leaves that aren't traced: those of dtype float0, and Refs."""

    transformation: str
    f: Callable[..., Any]
    function: Callable[..., Any]
    nondiff: Mapping[int, object]
    arrays: tuple[Array, ...]
    treedef: PyTreeDef
    fixed: Mapping[int, object]

    @property
    def name(self) -> str:
        return function_name(self.f)

    @property
    def label(self) -> str:
        return describe(self.transformation, self.f)

    def name_input(self, position: int) -> str:
        traced = [i for i in range(self.treedef.num_leaves) if i not in self.fixed]
        return f"argument {self.path(traced[position])}" if position < len(traced) else "an argument of its rule"

    def path(self, position: int) -> str:
        """The n-th leaf of the arguments, as the signature names it."""
        return argument_path(self.function, self.treedef, position)

    @property
    def flat(self) -> FlatFunction:
        """The function as one of the traced leaves."""
        return FlatFunction(self.function, self.transformation, self.treedef, fixed=self.fixed)

    def same_as(self, other: Call) -> bool:
        """Whether two calls are of the same function, with arguments of the same types outside of differentiation."""
        return (
            self.f is other.f
            and self.treedef == other.treedef
            and self.nondiff.keys() == other.nondiff.keys()
            and all(_same(value, other.nondiff[i]) for i, value in self.nondiff.items())
            and [array.aval for array in self.arrays] == [array.aval for array in other.arrays]
            and [*self.refs] == [*other.refs]
        )

    @property
    def refs(self) -> dict[Ref, int]:
        """The Refs among the arguments, and which leaves they are."""
        return {leaf: i for i, leaf in self.fixed.items() if isinstance(leaf, Ref)}

    def arguments(self, leaves: Sequence[object], fixed: Mapping[int, object] | None = None) -> tuple[Any, ...]:
        """The tree of arguments with these leaves in the place of those that are traced."""
        fixed = self.fixed if fixed is None else fixed
        args, _ = tree.unflatten(self.treedef, completed(fixed, leaves, self.treedef.num_leaves))
        return tuple(args)


def _same(x: object, y: object) -> bool:
    return x is y or (type(x) is type(y) and isinstance(x, int | float | str | bytes) and x == y)


def make_call(
    transformation: str,
    f: Callable[..., Any],
    nondiff_argnums: Sequence[int],
    args: Sequence[object],
    kwargs: Mapping[str, object],
    refs: bool = False,
) -> Call:
    """A call of `f`, whose arguments may be `refs`; an InputError if they can't be told by position."""
    values = _positional(transformation, f, args, kwargs)
    chosen = [resolve_position(i, len(values), f"{transformation}: nondiff_argnums") for i in nondiff_argnums]
    nondiff = {i: values[i] for i in chosen}
    function = WithStatic(f, nondiff, {}) if nondiff else f
    dynamic = [value for i, value in enumerate(values) if i not in chosen]
    leaves, treedef = tree.flatten((tuple(dynamic), {}))
    fixed: dict[int, object] = {**refs_among(function, leaves, treedef)} if refs else {}
    if fixed:
        dynamic, _ = tree.unflatten(treedef, [0 if i in fixed else leaf for i, leaf in enumerate(leaves)])
    arrays, _ = flatten_arguments(function, dynamic, {})
    fixed |= {i: float0_zeros(x.aval.shape) for i, x in enumerate(arrays) if x.aval.dtype == FLOAT0}
    traced = tuple(x for i, x in enumerate(arrays) if i not in fixed)
    return Call(transformation, f, function, nondiff, traced, treedef, fixed)


def nondiff_positions(
    f: Callable[..., Any], numbers: int | Sequence[int], names: str | Sequence[str]
) -> tuple[int, ...]:
    """The positions of arguments outside of differentiation, which are given by position or by name."""
    if not names_tuple(names):
        return as_tuple(numbers)
    return resolve_static(f, numbers, names, "outside of differentiation (nondiff_argnames)", together=False)[0]


def _positional(
    transformation: str, f: Callable[..., Any], args: Sequence[object], kwargs: Mapping[str, object]
) -> Sequence[object]:
    """All arguments by position, with those that have a default."""
    try:
        bound = inspect.signature(f).bind(*args, **kwargs)
    except ValueError:  # a function that doesn't tell its signature
        if kwargs:
            raise InputError(
                f"{describe(transformation, f)} needs its arguments by position: it has no signature"
            ) from None
        return args
    if bound.kwargs:
        names = ", ".join(bound.kwargs)
        raise InputError(
            f"{describe(transformation, f)} takes arguments that can be given by position only, as rules do; {names} "
            "can't"
        )
    bound.apply_defaults()
    return bound.args


#: How many rules of one function, each for other arguments, are staged within each other. The next one is left out.
MAX_DEPTH: Final = 4


class Application(Customised, ABC):
    """One call, while it is carried out. `treedef` is the tree of the results, once they are there."""

    def __init__(self, call: Call) -> None:
        self.at = call
        self.treedef: PyTreeDef | None = None
        #: The cells that its programs take and return.
        self.layout: Layout = NOTHING

    def cells(self) -> Cells[Array] | None:
        """What becomes of cells where Python runs the function."""
        return None

    @override
    def call(self, ctx: Context[V], args: Sequence[V]) -> Sequence[V]:
        with frame_at(ctx, self.at) as frame:
            frame.cells = self.cells()
            results = self.at.flat([frame.wrap(arg) for arg in args])
            self.treedef = results.treedef
            return [frame.read(array) for array in results.arrays]

    def stage(self) -> tuple[Primitive, Sequence[Array]]:
        """The primitive that holds the function and its rules as programs, and the values that these close over."""
        return self.enclosing() or self.programs()

    def stage_function(self) -> tuple[Jaxpr, tuple[Array, ...]]:
        """The function itself as a program, and what it closes over."""
        self.treedef = None
        return stage_rule(self.at, [array.aval for array in self.at.arrays], self.run)

    def run(self, arrays: list[Array]) -> Sequence[Array]:
        """The leaves of the function's results, whose tree is `treedef` then."""
        results = self.at.flat(arrays)
        self.treedef = results.treedef
        return results.arrays

    def programs(self) -> tuple[Primitive, Sequence[Array]]:
        """The primitive, made of programs newly staged, and what these close over.

        A rule that applies the function itself hands on to it what they close over, which is known only when all are
        staged: then they are staged again.
        """
        captured: Sequence[Array] = ()
        while True:
            layout = self.layout
            primitive, found = self.make(captured)
            if not refers_to_itself(primitive) or (len(found) == len(captured) and layout == self.layout):
                return primitive, found
            captured = found

    @abstractmethod
    def make(self, captured: Sequence[Array]) -> tuple[Primitive, Sequence[Array]]:
        """The primitive, made of programs newly staged, and what these close over: `captured`, then what else there is.
        In its own rules it takes `captured`."""

    def enclosing(self) -> tuple[Primitive, Sequence[Array]] | None:
        """What stands for the primitive within its own rule, if it is being staged right now."""
        for level, rule in enumerate(rules_in_progress()):
            if rule.application.at.same_as(self.at):
                self.treedef, self.layout = rule.application.treedef, rule.layout
                return Enclosing(self.at.name, level, rule.out_avals), rule.captured
        return None

    @property
    def depth(self) -> int:
        """How many rules of the same function, for other arguments, are being staged right now."""
        return sum(rule.application.at.f is self.at.f for rule in rules_in_progress())


@final
@frozen(eq=False)
class RuleInProgress:
    """A rule while it is staged: what a frame says it belongs to."""

    application: Application
    out_avals: tuple[ShapedArray, ...]
    captured: Sequence[Array] = ()
    layout: Layout = NOTHING

    @property
    def label(self) -> str:
        return self.application.at.label

    def name_input(self, position: int) -> str:
        return self.application.at.name_input(position)


def rules_in_progress() -> Iterator[RuleInProgress]:
    """The rules that are being staged, innermost first."""
    for frame in outwards(active_frame()):
        if isinstance(frame, TraceFrame) and isinstance(frame.function, RuleInProgress):
            yield frame.function


def apply(application: Application) -> Any:  # the tree of the results of the user's function
    """The results: Python computes them if the innermost transformation of the arguments can go on by itself, and
    otherwise one equation is bound."""
    arrays = application.at.arrays

    def run(frame: OpenFrame[V]) -> list[Array] | None:
        with frame.context.cursor.attributing():
            outs = frame.context.call_custom(application, [frame.read(array) for array in arrays])
        return None if outs is None else list(map(frame.wrap, outs))

    closes_over = False
    try:
        outs: Sequence[Array] | None = top_frame(arrays).open(run)
    except LeakedTracerError:
        # The function or a rule closes over a value of a transformation further in. In a program it is one more input.
        outs, closes_over = None, True
    except TouchesCells:
        outs = None
    if outs is None:
        try:
            primitive, captured = application.stage()
        except ConcretizationError as error:
            if closes_over:
                error.add_note(
                    f"{application.at.label} was staged because it or a rule of it closes over a traced value. Pass "
                    "that value as an argument to have Python run it."
                )
            raise
        layout = application.layout
        outs = layout.store(bind(primitive, *layout.operands(captured, arrays)))
    if application.treedef is None:
        raise InputError(f"{application.at.label} has no results")
    return tree.unflatten(application.treedef, outs)


# Results of rules.


def check_pair(what: str, pair: object, first: str, second: str) -> tuple[Any, Any]:
    """A pair that a rule returned; a RuleResultError for anything else."""
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise RuleResultError(f"{what} must return a pair of {first} and {second}, got {pair!r}")
    return pair[0], pair[1]


@contextmanager
def locating(rule: Callable[..., object]) -> Iterator[None]:
    """Says of an error about what a rule returned where the rule is."""
    try:
        yield
    except (InputError, TreeError) as error:
        where = place(rule)
        if where:
            error.add_note(f"The rule {function_name(rule)} is at {where[2:-1]}.")
        raise


def check_types(
    what: str, arrays: Sequence[Array], avals: Sequence[ShapedArray], where: Callable[[int], str], expected_as: str
) -> list[Array]:
    """The arrays, which must have these types; weak scalars take the dtype, and what is the same on all devices may
    stand for what varies."""
    checked: list[Array] = []
    for i, (array, aval) in enumerate(zip(arrays, avals, strict=True)):
        found = array.aval
        if found.weak_type and found.shape == aval.shape and aval.dtype not in (found.dtype, FLOAT0):
            checked.append(convert(array, aval.dtype))
        elif more := without(found.varying, (*aval.varying, *aval.unreduced)):
            raise RuleResultError(
                f"{what}: {where(i)} is {found}, which varies along {', '.join(map(repr, more))}, but must be {aval}, "
                f"{expected_as}: the same on all devices. It is what each device contributes, perhaps: then return "
                f"lax.psum(y, {more[0]!r})"
            )
        elif found.matches(aval):
            checked.append(varied(array, aval.axes))
        else:
            hint = " (zeros of dtype tinyjax.float0, or a SymbolicZero)" if aval.dtype == FLOAT0 else ""
            raise RuleResultError(f"{what}: {where(i)} must have type {aval}{hint}, {expected_as}; got {found}")
    return checked


def check_zero(what: str, zero: Zero, aval: ShapedArray, where: str, hint: str = "") -> None:
    """A RuleResultError if a symbolic zero that a rule returned stands for something of another type."""
    if has_tangent(aval) and (zero.aval.shape, zero.aval.dtype) != (aval.shape, aval.dtype):
        raise RuleResultError(f"{what}: {where} must have type {aval}; got a SymbolicZero of type {zero.aval}{hint}")


def zeros_like(zero: Zero) -> Array:
    """A symbolic zero with its elements, in the innermost frame; those of integers have no bits."""
    if zero.aval.dtype == FLOAT0:
        return float0_zeros(zero.aval.shape)

    def run(frame: OpenFrame[V]) -> Array:
        return frame.wrap(instantiate(frame.context, zero))

    return active_frame().open(run)


def with_elements(tangent: Array | Zero) -> Array:
    """A tangent or cotangent for a rule that wants no symbolic zeros."""
    return zeros_like(tangent) if isinstance(tangent, Zero) else tangent
