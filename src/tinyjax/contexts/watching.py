"""Watching: a context around another one, which notes what is applied there and how."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, TypeVar, final

from attrs import frozen
from typing_extensions import override

from tinyjax.contexts.around import Around
from tinyjax.contexts.evaluation import EvalContext
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.primitive import Primitive, UndefPrimal, Zero
from tinyjax.ir.roles import Customised
from tinyjax.ir.value import ConcreteValue

if TYPE_CHECKING:
    from tinyjax.ir.printing.display import Block

V = TypeVar("V")
W = TypeVar("W")


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


@final
class WatchingContext(Around[V], Generic[V]):
    """The context within, with every application of a primitive noted by the watcher."""

    __slots__ = ("watcher",)

    def __init__(self, inner: Context[V], watcher: Watcher) -> None:
        super().__init__(inner)
        self.watcher: Watcher = watcher

    @override
    def bind(self, primitive: Primitive, *args: V) -> tuple[V, ...]:
        inner = self.inner
        rule = inner.rule_of(primitive, args)
        with self.watcher.step(inner.label, primitive, rule, self.see(args)) as outputs:
            outs = inner.bind(primitive, *args)
            outputs.extend(self.see(outs))
        return outs

    def see(self, values: Sequence[V | Zero | UndefPrimal]) -> list[Seen]:
        """How values look now."""
        return [seen(self.inner, value) for value in values]

    @override
    def transpose(
        self, primitive: Primitive, cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        inputs = [*self.see(cotangents), *self.see(args)]
        with self.watcher.step("transposition", primitive, "transpose", inputs) as outputs:
            results = super().transpose(primitive, cotangents, args)
            for arg, result in zip(args, results, strict=True):
                aval = arg.aval if isinstance(arg, UndefPrimal) else self.aval(arg)
                outputs.append(Seen(aval, None, "None") if result is None else self.see([result])[0])
        return results

    @override
    def call_custom(self, function: Customised, args: Sequence[V]) -> Sequence[V] | None:
        if isinstance(self.inner, EvalContext):
            return function.call(self, args)
        return self.inner.call_custom(function, args)


def watched_by(watcher: Watcher, context: Context[V]) -> Context[V]:
    """The context, watched; itself if it only stands around another one, which is watched already."""
    return context if isinstance(context, Around) else WatchingContext(context, watcher)


def alike(model: Context[V], context: Context[W]) -> Context[W]:
    """The context, watched by whoever watches the other one."""
    return WatchingContext(context, model.watcher) if isinstance(model, WatchingContext) else context


def describe_value(context: Context[V], value: V) -> str:
    """What a context does, and what is known of a value of it besides its type."""
    text = context.shown(value)
    return context.label if text == str(context.aval(value)) else f"{context.label}: {text}"


def unwatched(context: Context[V]) -> Context[V]:
    """The context itself, if somebody is watching it."""
    return context.inner if isinstance(context, WatchingContext) else context


def seen(context: Context[V], value: V | Zero | UndefPrimal) -> Seen:
    """A value of a context, as it is now."""
    if isinstance(value, Zero):
        return Seen(value.aval, None, "0")
    if isinstance(value, UndefPrimal):
        return Seen(value.aval, None, f"undefined {value.aval}")
    return Seen(context.aval(value), context.concrete(value), context.shown(value))
