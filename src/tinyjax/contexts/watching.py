"""Watching: a context around another one, which notes what is applied there and how."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Generic, TypeVar, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.contexts.batching import BatchContext, Batched
from tinyjax.contexts.evaluation import EvalContext
from tinyjax.contexts.jvp import Dual, JvpContext
from tinyjax.contexts.partial_eval import Known, PartialEvalContext, Unknown
from tinyjax.contexts.staging import StagingContext
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context, Customised, Foreign, Origin
from tinyjax.ir.effects import axis_names
from tinyjax.ir.primitive import Primitive, UndefPrimal, Zero
from tinyjax.ir.printing.spelling import format_literal
from tinyjax.ir.program import Literal
from tinyjax.ir.source import SourceCursor
from tinyjax.ir.value import ConcreteValue

if TYPE_CHECKING:
    from tinyjax.ir.printing.display import Block

V = TypeVar("V")
W = TypeVar("W")
#: Arrays with more elements are shown by their types.
_SHOWN: Final = 8


@final
@frozen
class Seen:
    """A value as it was seen: its type, its elements where they were known, and how it prints."""

    aval: ShapedArray
    concrete: ConcreteValue | None
    text: str

    @override
    def __str__(self) -> str:
        return self.text


@final
@frozen
class Step:
    """A primitive applied in a context, by one of its rules; `steps` is what the rule applied in turn.

    `context` says which: "evaluation", "jvp", "batching", "partial evaluation", "staging", "transposition", "lowering".
    In a transposition, `inputs` are the cotangents of the primitive's results, then its operands, where those that it
    is linear in are undefined; `outputs` are the cotangents of the operands, None for the others. `rule` is the method
    of the primitive that said what to do (in lowering: the entry of the table, such as
    "tinyjax.hlo.RULES[Sin]"), or "" where the context knew by itself. `error` is set if it failed, and then there are
    no outputs.
    """

    context: str
    primitive: Primitive
    rule: str
    inputs: tuple[Seen, ...]
    outputs: tuple[Seen, ...]
    steps: tuple[Step, ...]
    error: str | None

    @override
    def __str__(self) -> str:
        return "\n".join(_lines([self]))


@final
@frozen(repr=False)
class Log:
    """What was applied, in order. `str` gives the text: a line for each step, indented by who asked for it."""

    steps: tuple[Step, ...]

    @override
    def __str__(self) -> str:
        return "\n".join(_lines(self.steps))

    @override
    def __repr__(self) -> str:
        return str(self)

    def blocks(self) -> Iterator[Block]:
        """The steps as a table, indented by who asked for them."""
        from tinyjax.ir.printing.display import table

        rows: list[tuple[str, str, str, str]] = []
        pending = [(0, step) for step in reversed(self.steps)]
        while pending:
            depth, step = pending.pop()
            ins = ", ".join(map(str, step.inputs))
            outs = ", ".join(map(str, step.outputs)) if step.error is None else f"! {step.error}"
            rows.append((f"{'  ' * depth}{step.primitive.name}({ins})", outs, step.context, step.rule))
            pending += [(depth + 1, inner) for inner in reversed(step.steps)]
        yield from table(("applied", "gives", "in", "rule"), rows)

    def _repr_html_(self) -> str:
        from tinyjax.ir.printing.display import page

        return page(block.html for block in self.blocks())

    def __iter__(self) -> Iterator[Step]:
        """Every step, at any depth, each before those within it."""
        stack = list(reversed(self.steps))
        while stack:
            step = stack.pop()
            yield step
            stack += reversed(step.steps)


def _lines(steps: Sequence[Step]) -> Iterator[str]:
    """Lines for these steps and those within them, however deep."""
    pending: list[tuple[str, Step | str]] = [("", step) for step in reversed(steps)]
    while pending:
        indent, step = pending.pop()
        if isinstance(step, str):
            yield indent + step
            continue
        owner = "" if step.context == "lowering" else f"{type(step.primitive).__name__}."
        by = f" by {owner}{step.rule}" if step.rule else ""
        start = f"{indent}{step.context}: {step.primitive.name}({', '.join(map(str, step.inputs))}){by}"
        end = f"! {step.error}" if step.error is not None else f"= {', '.join(map(str, step.outputs)) or '()'}"
        if not step.steps:
            yield f"{start} {end}"
            continue
        yield start
        pending.append((indent, end))
        pending += [(indent + "  ", inner) for inner in reversed(step.steps)]


@final
class Watcher:
    """Gathers steps while they are taken."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        #: The steps that are done, of each step in progress; the outermost first.
        self._open: list[list[Step]] = [[]]

    def log(self) -> Log:
        """What has been seen so far."""
        return Log(tuple(self._open[0]))

    @contextmanager
    def step(self, context: str, primitive: Primitive, rule: str, inputs: Sequence[Seen]) -> Iterator[list[Seen]]:
        """A step in progress: the block adds its outputs to the list."""
        inner: list[Step] = []
        self._open.append(inner)
        outputs: list[Seen] = []
        error: str | None = None
        try:
            yield outputs
        except Exception as raised:
            error = (str(raised).splitlines() or [type(raised).__name__])[0]
            raise
        finally:
            self._open.pop()
            step = Step(context, primitive, rule, tuple(inputs), tuple(outputs), tuple(inner), error)
            self._open[-1].append(step)


class Around(Context[V]):
    """A context that has the values of another one, and leaves most to it."""

    __slots__ = ("cursor", "inner")

    inner: Context[V]


@final
class WatchingContext(Around[V], Generic[V]):
    """The context within, with every application of a primitive noted by the watcher."""

    __slots__ = ("watcher",)

    def __init__(self, inner: Context[V], watcher: Watcher) -> None:
        self.inner: Context[V] = inner
        self.watcher: Watcher = watcher
        self.cursor: SourceCursor = inner.cursor

    @override
    def bind(self, primitive: Primitive, *args: V) -> tuple[V, ...]:
        inner = self.inner
        rule = rule_of(inner, primitive, args)
        with self.watcher.step(context_name(inner), primitive, rule, self.see(args)) as outputs:
            outs = inner.bind(primitive, *args)
            outputs.extend(self.see(outs))
        return outs

    def see(self, values: Sequence[V | Zero | UndefPrimal]) -> list[Seen]:
        """How values look now."""
        return [seen(self.inner, value) for value in values]

    @override
    def constant(self, value: ConcreteValue | Literal) -> V:
        return self.inner.constant(value)

    @override
    def aval(self, value: V) -> ShapedArray:
        return self.inner.aval(value)

    @override
    def holds(self, value: object) -> bool:
        return self.inner.holds(value)

    @override
    def lift(self, value: Foreign) -> V:
        return value.into(self.inner)

    @override
    def concrete(self, value: V) -> ConcreteValue | None:
        return self.inner.concrete(value)

    @override
    def carries_tangent(self, value: V) -> bool:
        return self.inner.carries_tangent(value)

    @override
    def call_custom(self, function: Customised, args: Sequence[V]) -> Sequence[V] | None:
        if isinstance(self.inner, EvalContext):
            return function.call(self, args)
        return self.inner.call_custom(function, args)

    @override
    def origin(self, value: V) -> Origin:
        return self.inner.origin(value)


def watched_by(watcher: Watcher, context: Context[V]) -> Context[V]:
    """The context, watched; itself if it only stands around another one, which is watched already."""
    return context if isinstance(context, Around) else WatchingContext(context, watcher)


def alike(model: Context[V], context: Context[W]) -> Context[W]:
    """The context, watched by whoever watches the other one."""
    return WatchingContext(context, model.watcher) if isinstance(model, WatchingContext) else context


def describe_value(context: Context[V], value: V) -> str:
    """What a context does, and what is known of a value of it besides its type."""
    context = innermost(context)
    text = shown(context, value)
    name = context_name(context)
    return name if text == str(context.aval(value)) else f"{name}: {text}"


def innermost(context: Context[V]) -> Context[V]:
    """The context within those that only stand around it."""
    while isinstance(context, Around):
        context = context.inner
    return context


def unwatched(context: Context[V]) -> Context[V]:
    """The context itself, if somebody is watching it."""
    return context.inner if isinstance(context, WatchingContext) else context


def context_name(context: Context[V]) -> str:
    """What the contexts of a class do, as logs say it."""
    name = type(context).__name__.removesuffix("Context")
    return _NAMES.get(name) or name.lower()


_NAMES: Final = {"Eval": "evaluation", "Batch": "batching", "PartialEval": "partial evaluation"}


def rule_of(context: Context[V], primitive: Primitive, args: Sequence[V]) -> str:
    """The method of the primitive that the context will call, or "" if it hands the primitive on to its parent."""
    if isinstance(context, EvalContext):
        overridden = type(primitive).evaluate_with is not Primitive.evaluate_with
        return "evaluate_with" if overridden else "evaluate"
    if isinstance(context, StagingContext):
        return "type_of"
    if isinstance(context, JvpContext):
        return "jvp" if any(isinstance(arg, Dual) and not isinstance(arg.tangent, Zero) for arg in args) else ""
    if isinstance(context, BatchContext):
        mapped = any(isinstance(arg, Batched) and arg.axis is not None for arg in args)
        return "batch" if mapped or context.axis.name in axis_names(primitive.effects) else ""
    if isinstance(context, PartialEvalContext):
        unknown = sum(isinstance(arg, Unknown) for arg in args)
        return "partial_eval" if 0 < unknown < len(args) else "type_of" if unknown else ""
    return ""


def seen(context: Context[V], value: V | Zero | UndefPrimal) -> Seen:
    """A value of a context, as it is now."""
    if isinstance(value, Zero):
        return Seen(value.aval, None, "0")
    if isinstance(value, UndefPrimal):
        return Seen(value.aval, None, f"undefined {value.aval}")
    return Seen(context.aval(value), context.concrete(value), shown(context, value))


def shown(context: Context[V], value: V) -> str:
    """A value as text: what is known of it now, in the way of its context; its type if nothing else is."""
    context = innermost(context)
    if isinstance(context, JvpContext) and isinstance(value, Dual):
        tangent = "0" if isinstance(value.tangent, Zero) else shown(context.parent, value.tangent)
        return f"dual({shown(context.parent, value.primal)}, {tangent})"
    if isinstance(context, BatchContext) and isinstance(value, Batched):
        text = shown(context.parent, value.value)
        return text if value.axis is None else f"{text} over axis {value.axis}"
    if isinstance(context, PartialEvalContext):
        if isinstance(value, Known):
            return shown(context.parent, value.value)
        return f"unknown {value.atom.aval}" if isinstance(value, Unknown) else ""
    concrete = context.concrete(value)
    if concrete is None and isinstance(value, Literal):
        return format_literal(value)
    aval = context.aval(value)
    if concrete is None or aval.size > _SHOWN:
        return str(aval)
    return np.array2string(np.asarray(concrete), separator=", ", max_line_width=1000, precision=6).replace("\n", "")
