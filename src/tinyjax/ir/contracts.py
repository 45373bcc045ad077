"""What the rules of a user's primitives return, checked against what they have to return.

The library's own primitives are tested, so contexts call their rules as they are. Those of any other class are called
through the functions here, which do the same and refuse what the contexts couldn't use: with a ContractError that names
the primitive, the rule and its line, what came, and what was expected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import compress
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import numpy as np

from tinyjax.errors import TinyjaxError
from tinyjax.ir.applied import AppliedRule, shown
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.effects import NO_EFFECTS, Effect
from tinyjax.ir.fitting import fits_batch, fits_jvp, fits_transpose, known_types
from tinyjax.ir.merging import merged, staged_operands
from tinyjax.ir.mistakes import refuse_mistakes
from tinyjax.ir.primitive import BatchAxis, Outputs, Primitive, Split, UndefPrimal, Zero
from tinyjax.ir.result_types import result_types
from tinyjax.ir.source import is_our_function
from tinyjax.ir.value import ConcreteValue

if TYPE_CHECKING:
    from tinyjax.ir.context import Context
    from tinyjax.ir.roles import Evaluator
    from tinyjax.ir.rules import RuleTable

V = TypeVar("V")
Args = ParamSpec("Args")

# One function for each rule of `Primitive`.


def type_of(primitive: Primitive, avals: Sequence[ShapedArray]) -> tuple[ShapedArray, ...]:
    """What `type_of` says."""
    try:
        found: object = primitive.type_of(*avals)
    except TinyjaxError:
        raise
    except Exception as error:
        AppliedRule(primitive, "type_of", tuple(avals)).explain(error)
        raise
    if isinstance(found, tuple) and primitive.effects is NO_EFFECTS:
        for aval in found:
            if type(aval) is not ShapedArray:
                break
        else:
            return found
    rule = AppliedRule(primitive, "type_of", tuple(avals))
    if isinstance(found, ShapedArray):
        rule.fail(f"returned {found!r} by itself", "a tuple with the type of each output: `return (aval,)`")
    if not isinstance(found, tuple):
        rule.fail(f"returned {shown(found)}", "a tuple with the type of each output")
    types: list[ShapedArray] = []
    for i, aval in enumerate(found):
        if not isinstance(aval, ShapedArray):
            rule.fail(f"returned {shown(aval)} as type {i}", "a ShapedArray")
        types.append(aval)
    effects: object = primitive.effects
    if not isinstance(effects, frozenset) or not all(isinstance(effect, Effect) for effect in effects):
        AppliedRule(primitive, "effects", tuple(avals)).fail(f"is {shown(effects)}", "a frozenset of effects")
    return tuple(types)


def evaluate(
    primitive: Primitive, types: Sequence[ShapedArray] | None, args: Sequence[HostArray]
) -> tuple[HostArray, ...]:
    """What `evaluate` returns: arrays of these types, if `type_of` says what they are."""
    found: object = primitive.evaluate(*args)
    if isinstance(found, tuple) and types is not None and _fits(found, types):
        return found
    rule = AppliedRule(primitive, "evaluate", tuple([ShapedArray(arg.shape, arg.dtype) for arg in args]))
    if not isinstance(found, tuple):
        rule.fail(f"returned {shown(found)}", "a tuple of arrays: `return (array,)` if there is one")
    arrays = [rule.array(i, out) for i, out in enumerate(found)]
    if types is not None:
        rule.count(arrays, types)
        for i, (array, aval) in enumerate(zip(arrays, types, strict=True)):
            rule.match(i, array, aval)
    return tuple(arrays)


def host_function(
    primitive: Primitive, avals: Sequence[ShapedArray], types: Sequence[ShapedArray]
) -> Callable[..., HostArray | np.generic]:
    """What `host_function` returns, where each result is checked: it may depend on the elements."""
    if type(primitive).host_function is Primitive.host_function:
        return lambda *args: evaluate(primitive, types, args)[0]
    rule, (aval,) = AppliedRule(primitive, "host_function", tuple(avals)), types
    function: object = primitive.host_function(*avals)
    if not callable(function):
        rule.fail(f"returned {shown(function)}", "a function of NumPy arrays")
    compute: Callable[..., object] = function

    def run(*args: HostArray) -> HostArray:
        array = rule.array(0, compute(*args))
        rule.match(0, array, aval)
        return array

    return run


def evaluate_with(
    primitive: Primitive, evaluator: Evaluator, args: Sequence[ConcreteValue], types: Sequence[ShapedArray] | None
) -> Sequence[ConcreteValue] | None:
    """What `evaluate_with` returns."""
    if primitive.built_in:
        return primitive.evaluate_with(evaluator, args)
    found: object = primitive.evaluate_with(evaluator, args)
    if found is None:
        return None
    rule = AppliedRule(primitive, "evaluate_with", tuple([arg.aval for arg in args]))
    values: list[ConcreteValue] = []
    outs: Sequence[object] = rule.sequence(found, "the outputs")
    for i, value in enumerate(outs):
        if not isinstance(value, ConcreteValue):
            rule.fail(f"returned {shown(value)} as output {i}", "a ConcreteValue")
        values.append(value)
    if types is not None:
        rule.count(values, types)
        for i, (value, aval) in enumerate(zip(values, types, strict=True)):
            rule.expect(f"output {i}", value.aval, aval)
    return values


def jvp(primitive: Primitive, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
    """What `jvp` returns."""
    try:
        if primitive.built_in:
            return primitive.jvp(ctx, primals, tangents)
        found: object = primitive.jvp(ctx, primals, tangents)
    except Exception as error:
        refuse_mistakes(error, primitive, map(ctx.aval, primals))
        raise
    types = known_types(primitive, list(map(ctx.aval, primals)))
    if isinstance(found, tuple) and len(found) == 2 and fits_jvp(ctx, *found, types):
        return found
    rule = AppliedRule(primitive, "jvp", tuple(map(ctx.aval, primals)))
    first, second = rule.pair(found, "the outputs and their tangents")
    outs: Sequence[V] = rule.sequence(first, "the outputs", "`(out,), (tangent,)`")
    derived: Sequence[V | Zero] = rule.sequence(second, "the tangents of the outputs", "`(out,), (tangent,)`")
    rule.count(outs, types)
    rule.count(derived, outs, "tangents")
    for i, (out, tangent) in enumerate(zip(outs, derived, strict=True)):
        aval = rule.aval(ctx, f"output {i}", out)
        if types is not None:
            rule.expect(f"output {i}", aval, types[i])
        expected = aval.tangent
        if isinstance(tangent, Zero):
            rule.expect(f"the tangent of output {i}, a Zero", tangent.aval, expected)
        elif expected is not aval:
            _ = rule.aval(ctx, f"the tangent of output {i}", tangent)
            rule.fail(
                f"returned a tangent with elements for output {i}, {aval}, which has no derivative",
                "Zero(aval.tangent), where aval is its type",
            )
        else:
            rule.expect(f"the tangent of output {i}", rule.aval(ctx, f"the tangent of output {i}", tangent), expected)
    return outs, derived


def batch(
    primitive: Primitive, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
) -> tuple[Sequence[V], Sequence[int | None]]:
    """What `batch` returns."""
    found: object = primitive.batch(ctx, axis, args, axes)
    avals = [ctx.aval(arg) if at is None else _without(ctx.aval(arg), at) for arg, at in zip(args, axes, strict=True)]
    types = known_types(primitive, avals)
    if isinstance(found, tuple) and len(found) == 2 and fits_batch(ctx, axis, *found, types):
        return found
    rule = AppliedRule(primitive, "batch", tuple(avals), f" mapped at {tuple(axes)}, {axis.size} of each")
    first, second = rule.pair(found, "the outputs and the position of the mapped axis in each")
    outs: Sequence[V] = rule.sequence(first, "the outputs", "`(out,), (0,)`")
    places: Sequence[object] = rule.sequence(second, "the positions of the mapped axis", "`(out,), (0,)`")
    rule.count(outs, types)
    rule.count(places, outs, "positions of the mapped axis")
    checked: list[int | None] = []
    for i, (out, place) in enumerate(zip(outs, places, strict=True)):
        aval = rule.aval(ctx, f"output {i}", out)
        at = rule.place(i, place, aval)
        if at is not None and aval.shape[at] != axis.size:
            rule.fail(f"says that axis {at} of output {i}, {aval}, is the mapped one", f"an axis of size {axis.size}")
        if types is not None:
            element = aval if at is None else _without(aval, at)
            rule.expect(f"output {i}" + ("" if at is None else f", without its mapped axis {at}"), element, types[i])
        checked.append(at)
    return outs, checked


def transpose(
    primitive: Primitive, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
) -> Sequence[V | Zero | None]:
    """What `transpose` returns."""
    if primitive.built_in:
        return ctx.transpose(primitive, cotangents, args)
    found: object = ctx.transpose(primitive, cotangents, args)
    if isinstance(found, tuple | list) and fits_transpose(ctx, found, args):
        return found
    avals = tuple([arg.aval if isinstance(arg, UndefPrimal) else ctx.aval(arg) for arg in args])
    which = ", ".join(str(i) for i, arg in enumerate(args) if isinstance(arg, UndefPrimal))
    rule = AppliedRule(primitive, "transpose", avals, f", linear in operand {which}")
    results: Sequence[V | Zero | None] = rule.sequence(found, "a cotangent or None for each operand")
    rule.count(results, args, "cotangents", "one for each operand, None where that isn't linear")
    for i, (result, arg) in enumerate(zip(results, args, strict=True)):
        what = f"the cotangent of operand {i}"
        if not isinstance(arg, UndefPrimal):
            if result is not None:
                rule.fail(f"returned {shown(result)} as {what}, which isn't linear here", "None")
        elif result is None:
            if arg.aval.tangent is arg.aval:
                rule.fail(f"returned None as {what}, which is linear", "a cotangent; a Zero if there is none")
        elif isinstance(result, Zero):
            rule.expect(f"{what}, a Zero", result.aval, arg.aval.cotangent)
        else:
            rule.expect(what, rule.aval(ctx, what, result), arg.aval.cotangent)
    return results


def expand(primitive: Primitive, ctx: Context[V], args: Sequence[V]) -> Sequence[V] | None:
    """What `expand` returns."""
    if primitive.built_in:
        return primitive.expand(ctx, args)
    found: object = primitive.expand(ctx, args)
    if found is None:
        return None
    rule = AppliedRule(primitive, "expand", tuple(map(ctx.aval, args)))
    outs: Sequence[V] = rule.sequence(found, "the outputs")
    types = rule.types()
    rule.count(outs, types)
    for i, out in enumerate(outs):
        aval = rule.aval(ctx, f"output {i}", out)
        if types is not None:
            rule.expect(f"output {i}", aval, types[i])
    return outs


def partial_eval(primitive: Primitive, unknown: tuple[bool, ...], avals: Sequence[ShapedArray]) -> Split | None:
    """What `partial_eval` returns."""
    split: object = primitive.partial_eval(unknown)
    if split is None:
        return None
    which = ", ".join(str(i) for i, mark in enumerate(unknown) if mark)
    rule = AppliedRule(primitive, "partial_eval", tuple(avals), f", operand {which} unknown")
    if not isinstance(split, Split):
        rule.fail(f"returned {shown(split)}", "a Split, or None")
    _check_split(rule, split, unknown)
    return split


def _check_split(rule: AppliedRule, split: Split, unknown: tuple[bool, ...]) -> None:
    """Whether the parts of a Split fit together, and what they return what the primitive returns."""
    avals, types = rule.avals, rule.types()
    known = [i for i, mark in enumerate(unknown) if not mark]
    parts: tuple[tuple[str, object], ...] = (("known", split.known), ("staged", split.staged))
    for name, part in parts:
        if not isinstance(part, Primitive):
            rule.fail(f"returned {shown(part)} as `{name}`", "a primitive")
    rule.count(split.unknown_out, types, "entries of `unknown_out`")
    for name, positions in (("residuals", split.residuals), ("known_inputs", split.known_inputs or ())):
        for position in positions:
            if not (position is None and name == "residuals") and position not in known:
                rule.fail(f"lists {shown(position)} in `{name}`", f"positions of known operands: {tuple(known)}")
    taken = known if split.known_inputs is None else split.known_inputs
    made = rule.of_part("known", split.known, [avals[i] for i in taken])
    num_known, num_made = split.unknown_out.count(False), split.residuals.count(None)
    if len(made) != num_known + num_made:
        rule.fail(
            f"gave as `known` what returns {len(made)} values",
            f"the {num_known} known outputs and {num_made} residuals",
        )
    count = len(split.residuals) + sum(unknown)
    for position in split.order or ():
        if not 0 <= position < count:
            rule.fail(f"lists {position} in `order`", f"positions from 0 to {count - 1}")
    operands = staged_operands(split, avals, list(compress(avals, unknown)), made[num_known:])
    staged = rule.of_part("staged", split.staged, operands)
    if len(staged) != split.unknown_out.count(True):
        rule.fail(
            f"gave as `staged` what returns {len(staged)} values",
            f"the {split.unknown_out.count(True)} unknown outputs",
        )
    if types is not None:
        outs = merged(split.unknown_out, staged, made)
        for i, (aval, found, mark) in enumerate(zip(types, outs, split.unknown_out, strict=True)):
            rule.expect(f"output {i} (of `{'staged' if mark else 'known'}`)", found, aval)


# Rules that aren't the primitive's own.


def by_table(
    entry: str | None,
    function: object,
    primitive: Primitive,
    ctx: Context[V],
    args: Sequence[V],
    found: Sequence[V],
    *,
    typed: bool,
) -> Sequence[V]:
    """What a function in a table of rules returned: as many outputs as the primitive has, and, where values have the
    types of the program's, of these types."""
    if is_our_function(function):
        return found
    types: Sequence[ShapedArray] | None = None
    avals: tuple[ShapedArray, ...] = ()
    # Values of an interpreter may have other types than those of the program, or none.
    with suppress(TinyjaxError, TypeError, ValueError, LookupError, AttributeError):
        avals = tuple(map(ctx.aval, args))
        types = result_types(primitive, avals)
    rule = AppliedRule(primitive, entry or "?", avals, function=function)
    outs: Sequence[V] = rule.sequence(found, "the outputs")
    rule.count(outs, types)
    if typed:
        for i, out in enumerate(outs):
            aval = rule.aval(ctx, f"output {i}", out)
            if types is not None:
                rule.expect(f"output {i}", aval, types[i])
    return outs


def bind_by(
    rules: RuleTable[Args, Sequence[V]],
    primitive: Primitive,
    ctx: Context[V],
    operands: Sequence[V],
    *args: Args.args,
    **kwargs: Args.kwargs,
) -> tuple[V, ...]:
    """What the rule for a primitive in a table returns for `args`, or else what those return that define it."""
    rule = rules.find(type(primitive))
    if rule is not None:
        found, entry = rule(primitive, *args, **kwargs), rules.entry(type(primitive))
        return tuple(by_table(entry, rule, primitive, ctx, operands, found, typed=False))
    outs = expand(primitive, ctx, operands)
    if outs is None:
        raise rules.missing_rule(type(primitive))
    return tuple(outs)


def decomposed(primitive: Primitive, ctx: Context[V], args: Sequence[V], found: object) -> Sequence[V]:
    """What `decompose` returned."""
    rule = AppliedRule(primitive, "decompose", tuple(map(ctx.aval, args)))
    outs: Sequence[V] = rule.sequence(found, "the outputs")
    for i, out in enumerate(outs):
        rule.aval(ctx, f"output {i}", out)
    return outs


def _fits(found: tuple[object, ...], types: Sequence[ShapedArray]) -> bool:
    """Whether these are NumPy arrays of these types."""
    return len(found) == len(types) and all(
        isinstance(x, np.ndarray | np.generic) and x.shape == aval.shape and x.dtype == aval.dtype
        for x, aval in zip(found, types, strict=True)
    )


def _without(aval: ShapedArray, axis: int) -> ShapedArray:
    return aval.of_shape(aval.shape[:axis] + aval.shape[axis + 1 :])
