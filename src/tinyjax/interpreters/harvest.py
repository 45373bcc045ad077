"""Named intermediate values: taken out of a function, or put into it.

`checkpoint_name(x, name)` marks a value. This interpreter's values are the parent's own, so it has rules only for names
and for the primitives that hold programs: inside a call, a branch or a loop the named values become more results of the
program there, and those of a loop are stacked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, final

from attrs import evolve
from typing_extensions import override

from tinyjax.caching import remembered
from tinyjax.control.call import Call, Calling
from tinyjax.control.carry import rearranged
from tinyjax.control.cond import Cond
from tinyjax.control.custom_derivatives import CustomCall, CustomJvp, CustomVjp, MappedCustom
from tinyjax.control.loops import While
from tinyjax.control.scan import Scan
from tinyjax.errors import InputError
from tinyjax.interpreters.hidden import Hidden, staged
from tinyjax.interpreters.running import stage_call
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.effects import must_stay
from tinyjax.ir.interpret import interpret
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Jaxpr, Literal
from tinyjax.ir.roles import Foreign, Origin
from tinyjax.ir.rules import RuleTable
from tinyjax.ir.source import SourceCursor
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.annotations import Name
from tinyjax.stack import with_room
from tinyjax.tracebacks import filtered
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.frames import OpenFrame
from tinyjax.transforms.dce import dce


@final
class HarvestContext(Context[Hidden]):
    """`planted` are put in the place of the values of these names; `found` are the named values so far."""

    __slots__ = ("cursor", "found", "parent", "planted")

    def __init__(self, parent: Context[Hidden], planted: Mapping[str, Hidden]) -> None:
        self.parent: Context[Hidden] = parent
        self.cursor: SourceCursor = parent.cursor
        self.planted: Final = planted
        self.found: Final[dict[str, Hidden]] = {}

    @override
    def bind(self, primitive: Primitive, *args: Hidden) -> tuple[Hidden, ...]:
        if isinstance(primitive, Name) or any(map(names_in, primitive.applied_programs)):
            return tuple(HARVEST_RULES.apply(primitive, self, args))
        return self.parent.bind(primitive, *args)

    def note(self, name: str, value: Hidden) -> None:
        """Notes a named value; an InputError if there is another one of the name."""
        if name in self.found:
            raise InputError(
                f"harvest: two values are named {name!r}. Give them different names; a loop may name one in each "
                "iteration."
            )
        self.found[name] = value

    @override
    def constant(self, value: ConcreteValue | Literal) -> Hidden:
        return self.parent.constant(value)

    @override
    def aval(self, value: Hidden) -> ShapedArray:
        return self.parent.aval(value)

    @override
    def lift(self, value: Foreign) -> Hidden:
        return value.into(self.parent)

    @override
    def concrete(self, value: Hidden) -> ConcreteValue | None:
        return self.parent.concrete(value)

    @override
    def carries_tangent(self, value: Hidden) -> bool:
        return self.parent.carries_tangent(value)

    @override
    def origin(self, value: Hidden) -> Origin:
        return self.parent.origin(value)


HarvestRules: TypeAlias = RuleTable[[HarvestContext, Sequence[Hidden]], Sequence[Hidden]]
HARVEST_RULES: HarvestRules = RuleTable("Harvest", name="tinyjax.interpreters.HARVEST_RULES")


@remembered
def names_in(jaxpr: Jaxpr) -> frozenset[str]:
    """The names that a program gives to values, also in programs within it."""
    own = frozenset(eqn.primitive.label for eqn in jaxpr.eqns if isinstance(eqn.primitive, Name))
    return own.union(*[names_in(inner) for eqn in jaxpr.eqns for inner in eqn.primitive.applied_programs])


def harvested(jaxpr: Jaxpr, planted: Sequence[tuple[str, ShapedArray]]) -> tuple[Jaxpr, tuple[str, ...]]:
    """The program that takes the planted values after its inputs, and returns the named ones after its results, in the
    order of their names, which are returned too."""
    n = len(jaxpr.invars)
    names: list[str] = []

    def run(parent: Context[Hidden], ins: list[Hidden]) -> Sequence[Hidden]:
        ctx = HarvestContext(parent, dict(zip([name for name, _ in planted], ins[n:], strict=True)))
        outs = interpret(ctx, jaxpr, ins[:n])
        names.extend(sorted(ctx.found))
        return [*outs, *(ctx.found[name] for name in names)]

    program = with_room(lambda: staged([*jaxpr.in_avals, *(aval for _, aval in planted)], run))
    return program, tuple(names)


def _planted_in(ctx: HarvestContext, programs: Iterable[Jaxpr]) -> dict[str, Hidden]:
    """The values to plant somewhere in these programs."""
    names = frozenset[str]().union(*map(names_in, programs))
    return {name: value for name, value in ctx.planted.items() if name in names}


@HARVEST_RULES.register(Name)
def _name(primitive: Name, ctx: HarvestContext, args: Sequence[Hidden]) -> Sequence[Hidden]:
    (x,) = args
    value = ctx.planted.get(primitive.label, x)
    expected, found = ctx.aval(x), ctx.aval(value)
    if not found.matches(expected):
        raise InputError(f"plant: {primitive.label!r} names a value of type {expected}, got {found}")
    outs = ctx.parent.bind(primitive, value)
    ctx.note(primitive.label, outs[0])
    return outs


@HARVEST_RULES.register(Calling)
def _calling(primitive: Calling, ctx: HarvestContext, args: Sequence[Hidden]) -> Sequence[Hidden]:
    return _apply(primitive.of, primitive.jaxpr, ctx, args)


def _custom(primitive: CustomCall, ctx: HarvestContext, args: Sequence[Hidden]) -> Sequence[Hidden]:
    """The function as it is, with its own derivative, and beside it what is named in it.

    With something planted inside, it isn't the function any more that the rules are for, and it is differentiated like
    any other. So is one with effects, which must not happen twice.
    """
    if not _planted_in(ctx, [primitive.jaxpr]) and not must_stay(primitive.effects):
        program, names = harvested(primitive.jaxpr, ())
        count = len(primitive.jaxpr.outvars)
        named = dce(rearranged(program, None, tuple(range(count, count + len(names)))))
        _noted(ctx, ctx.parent.bind(Call(primitive.function_name, named), *args), 0, names)
        return ctx.parent.bind(primitive, *args)
    return _apply(lambda jaxpr: Call(primitive.function_name, jaxpr), primitive.jaxpr, ctx, args)


HARVEST_RULES[CustomJvp] = _custom
HARVEST_RULES[CustomVjp] = _custom
HARVEST_RULES[MappedCustom] = _custom


def _apply(
    make: Callable[[Jaxpr], Primitive], jaxpr: Jaxpr, ctx: HarvestContext, args: Sequence[Hidden]
) -> Sequence[Hidden]:
    planted = _planted_in(ctx, [jaxpr])
    program, names = harvested(jaxpr, [(name, ctx.aval(value)) for name, value in planted.items()])
    return _noted(ctx, ctx.parent.bind(make(program), *args, *planted.values()), len(jaxpr.outvars), names)


def _noted(ctx: HarvestContext, outs: Sequence[Hidden], count: int, names: Sequence[str]) -> Sequence[Hidden]:
    """The first `count` outputs; the others are values of these names."""
    for name, value in zip(names, outs[count:], strict=True):
        ctx.note(name, value)
    return outs[:count]


@HARVEST_RULES.register(Cond)
def _cond(primitive: Cond, ctx: HarvestContext, args: Sequence[Hidden]) -> Sequence[Hidden]:
    planted = _planted_in(ctx, primitive.branches)
    types = [(name, ctx.aval(value)) for name, value in planted.items()]
    programs, names = zip(*[harvested(branch, types) for branch in primitive.branches], strict=True)
    if len(set(names)) > 1:
        listed = "; ".join(f"branch {i}: {', '.join(own) or 'none'}" for i, own in enumerate(names))
        raise InputError(f"harvest: the branches of a cond must name the same values, but name {listed}")
    outs = ctx.parent.bind(evolve(primitive, branches=programs), *args, *planted.values())
    return _noted(ctx, outs, len(primitive.branches[0].outvars), names[0])


@HARVEST_RULES.register(Scan)
def _scan(primitive: Scan, ctx: HarvestContext, args: Sequence[Hidden]) -> Sequence[Hidden]:
    planted = _planted_in(ctx, [primitive.jaxpr])
    types: list[tuple[str, ShapedArray]] = []
    for name, value in planted.items():
        aval = ctx.aval(value)
        if aval.shape[:1] != (primitive.length,):
            raise InputError(
                f"plant: {name!r} names a value in each of {primitive.length} iterations of a loop, so they must be "
                f"stacked along a leading axis of that size; got {aval}"
            )
        types.append((name, aval.of_shape(aval.shape[1:])))
    program, names = harvested(primitive.jaxpr, types)
    outs = ctx.parent.bind(evolve(primitive, jaxpr=program), *args, *planted.values())
    return _noted(ctx, outs, len(primitive.jaxpr.outvars), names)


@HARVEST_RULES.register(While)
def _while(primitive: While, ctx: HarvestContext, args: Sequence[Hidden]) -> Sequence[Hidden]:
    names = ", ".join(sorted(frozenset[str]().union(*map(names_in, primitive.applied_programs))))
    raise InputError(
        f"harvest: {names} is named in a while loop, whose number of iterations isn't known. Use lax.scan, or "
        "lax.fori_loop with a known number of iterations, or return the value from the loop."
    )


def harvest(fun: Callable[..., object]) -> Callable[..., Any]:
    """`fun`, returning also the values in it that have names, as a dictionary: `(result, {name: value})`.

    Values are named with `checkpoint_name(x, name)`. Those named in the body of a `scan` are stacked. All branches of a
    `cond` must name the same ones.

    >>> from tinyjax import checkpoint_name
    >>> harvest(lambda x: checkpoint_name(x * x, "square") + 1.0)(3.0)
    (Array(10., dtype=float64, weak_type=True), {'square': Array(9., dtype=float64, weak_type=True)})
    """

    @filtered
    def harvesting(*args: Any, **kwargs: Any) -> Any:  # the user's arguments
        return _run("harvest", fun, {}, args, kwargs)

    return harvesting


def plant(fun: Callable[..., object]) -> Callable[..., Any]:
    """`fun`, with a dictionary of values as first argument, which take the places of the values of these names.

    >>> import tinyjax as tj
    >>> double = lambda x: tj.checkpoint_name(x * x, "square") + x
    >>> plant(double)({"square": 5.0}, 3.0)
    Array(8., dtype=float64, weak_type=True)
    >>> tj.grad(plant(double))({"square": 5.0}, 3.0)
    {'square': Array(1., dtype=float64, weak_type=True)}
    """

    @filtered
    def planting(values: Mapping[str, Any], /, *args: Any, **kwargs: Any) -> Any:  # the user's arguments
        return _run("plant", fun, values, args, kwargs)[0]

    return planting


def _run(
    what: str,
    fun: Callable[..., object],
    values: Mapping[str, Any],
    args: Sequence[object],
    kwargs: Mapping[str, object],
) -> tuple[Any, dict[str, Any]]:
    call = stage_call(what, fun, args, kwargs)
    unknown = sorted(values.keys() - names_in(call.jaxpr))
    if unknown:
        names = ", ".join(map(repr, sorted(names_in(call.jaxpr)))) or "no values"
        raise InputError(f"{what}: the function names {names}, but not {', '.join(map(repr, unknown))}")

    def run(frame: OpenFrame[Hidden], inputs: list[Hidden], planted: list[Hidden]) -> tuple[Any, dict[str, Any]]:
        ctx = HarvestContext(frame.context, dict(zip(values, planted, strict=True)))
        outs = interpret(ctx, call.jaxpr, inputs)
        return call.results(list(map(frame.wrap, outs))), {name: frame.wrap(x) for name, x in ctx.found.items()}

    return call.run(list(map(as_array, values.values())), run)
