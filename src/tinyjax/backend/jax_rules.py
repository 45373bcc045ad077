"""Rules of derivatives of JAX's functions, as its equations hold them: how they are traced, and which are the same.
Imports jax: to be imported at first need."""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import partial
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MappingProxyType, ModuleType
from typing import Any, Final, TypeAlias, final

import jax
import numpy as np
from attrs import frozen
from jax._src import ad_util, core, linear_util, util
from jax._src.interpreters import batching, partial_eval
from jax.extend.core import Jaxpr as JaxJaxpr
from jax.extend.core import JaxprEqn
from typing_extensions import override

from tinyjax.caching import bounded
from tinyjax.ir.dtypes import FLOAT0

#: From 0.11 on, backward rules return logs, too.
_NEW = jax.__version_info__ >= (0, 11)
#: How far functions are followed that others close over.
_CODE_DEPTH: Final = 3
#: A wrapped function of JAX: private, and without types.
_Wrapped: TypeAlias = Any
#: What a function that remembers results has for that.
_MEMORY: Final = ("cells", "sentinel")


@final
@frozen(eq=False)
class TracedRule:
    """A rule as a program of JAX. `consts` are values that it closes over. For a rule of custom_jvp, `out_zeros` says
    which results have no tangent; for the backward rule of a custom_vjp, which arguments have no cotangent."""

    jaxpr: JaxJaxpr
    consts: tuple[object, ...]
    out_zeros: tuple[bool, ...] = ()


def jvp_rule(eqn: JaxprEqn, zeros: Sequence[bool]) -> TracedRule:
    """The rule of a `custom_jvp_call`: from primals and a tangent for each that isn't known to be zero, to results and
    their tangents."""
    thunk: _Wrapped = eqn.params["jvp_jaxpr_fun"]
    jaxpr, consts, out_zeros = thunk.call_wrapped(*zeros)
    return TracedRule(jaxpr, tuple(consts), tuple(out_zeros))


def rule_key(eqn: JaxprEqn) -> tuple[object, ...]:
    """What two calls of one function with derivatives of its own have in common: where the function and its rules are
    written down, and what they close over that is code (many are made by one decorator). Calls with equal keys and
    equal programs may yet be different functions."""
    rules = [eqn.params[name] for name in ("jvp_jaxpr_fun", "fwd_jaxpr_thunk", "bwd") if name in eqn.params]
    infos = [rule.debug_info for rule in rules]
    return (eqn.primitive.name, *(info.func_src_info for info in infos if info is not None), _codes(rules))


def _codes(rules: Sequence[object]) -> frozenset[CodeType]:
    """The code of the user's functions, and of functions that these close over."""
    found: set[CodeType] = set()
    pending: list[tuple[Any, int]] = [(rule, 0) for rule in rules]
    seen: set[int] = set()
    while pending:
        value, depth = pending.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, linear_util.WrappedFun):
            pending += [(value.f, depth), (value.transforms, depth)]
        elif isinstance(value, tuple):
            pending += [(each, depth) for each in value]
        elif isinstance(value, partial):
            pending += [(value.func, depth), (value.args, depth)]
        elif isinstance(value, FunctionType):
            own = not value.__module__.startswith("jax.")
            if own:
                found.add(value.__code__)
            if depth < _CODE_DEPTH:
                pending += [(held, depth + own) for held in _closed_over(value)]
    return frozenset(found)


def _closed_over(function: FunctionType) -> list[object]:
    """What a function closes over, but for what JAX remembers there."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return [_held(cell) for name, cell in cells if not (function.__name__ == "memoized" and name in _MEMORY)]


def fwd_rule(eqn: JaxprEqn, perturbed: Sequence[bool]) -> tuple[TracedRule, tuple[int | None, ...]]:
    """The forward rule of a `custom_vjp_call`: from arguments to residuals, then results. For each residual of the
    backward rule, which operand of the equation it is; None for the next one that the program returns. It is told
    which arguments are differentiated with respect to."""
    thunk: _Wrapped = eqn.params["fwd_jaxpr_thunk"]
    remembered = _remembered(thunk)
    if any(
        len(known) > 1 or (i == 0 and known and tuple(perturbed) not in known) for i, known in enumerate(remembered)
    ):
        _forget(remembered)
    try:
        jaxpr, consts = thunk.call_wrapped(*perturbed)
        _, _, forwarded = eqn.params["out_trees"]()
    except linear_util.StoreException:  # it raised an error the last time
        _forget(remembered)
        jaxpr, consts = thunk.call_wrapped(*perturbed)
        _, _, forwarded = eqn.params["out_trees"]()
    return TracedRule(jaxpr, tuple(consts)), tuple(forwarded)


def _remembered(thunk: _Wrapped) -> list[dict[tuple[bool, ...], object]]:
    """What JAX remembers of a forward rule, by what it was told: for the equation, then for those that it was made of.
    There is one place only for the trees of what the rule returned, which holds those of the last time that the rule
    was asked, or nothing if it raised an error then. So what was found before another time isn't right as a whole."""
    found: list[dict[tuple[bool, ...], object]] = []
    pending: list[object] = [thunk]
    seen: set[int] = set()
    while pending:
        each = pending.pop()
        function = each.f if isinstance(each, linear_util.WrappedFun) else each
        if not isinstance(function, FunctionType) or id(function) in seen or not function.__module__.startswith("jax."):
            continue
        seen.add(id(function))
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        inner = {name: cell.cell_contents for name, cell in cells}
        if function.__name__ == "memoized":
            found.append(inner["cells"])
        pending.extend(inner.values())
    return found


def _forget(remembered: Sequence[dict[tuple[bool, ...], object]]) -> None:
    for known in remembered:
        known.clear()


def bwd_rule(
    eqn: JaxprEqn, residuals: Sequence[object], cotangents: Sequence[object], known: Mapping[int, object]
) -> TracedRule:
    """The backward rule of a `custom_vjp_call`, traced for these types: from residuals and cotangents of the results to
    cotangents of those arguments that get one. A cotangent without bits is given by its shape. Residuals that are
    `known`, by their places, may decide branches of the rule."""
    wrapped: _Wrapped = eqn.params["bwd"]
    zeros: list[bool] = []

    def run(*args: jax.Array) -> list[jax.Array]:
        given = iter(args[len(residuals) :])
        cts = [np.zeros(ct, FLOAT0) if isinstance(ct, tuple) else next(given) for ct in cotangents]
        found = wrapped.call_wrapped(*[known.get(i, arg) for i, arg in enumerate(args[: len(residuals)])], *cts)
        if _NEW:  # with what the rule logs
            found, _ = found
        zeros[:] = [isinstance(ct, ad_util.Zero) for ct in found]
        return [ct for ct, zero in zip(found, zeros, strict=True) if not zero]

    closed = jax.make_jaxpr(run)(*residuals, *(ct for ct in cotangents if not isinstance(ct, tuple)))
    return TracedRule(closed.jaxpr, tuple(closed.consts), tuple(zeros))


def value_or_variable(const: object) -> object:
    """What a traced value of a program that is finished is there: a variable, or the value of a literal. Anything else
    is what it is."""
    if not isinstance(const, partial_eval.DynamicJaxprTracer):
        return const
    return const.val.val if isinstance(const.val, core.Literal) else const.val


# Which rules are the same.

#: What is the same if it looks the same: 1 isn't 1.0, nor 0.0 -0.0.
_PLAIN: Final = (bool, int, float, complex, str, bytes, type(None), np.dtype)
#: Of what surrounds a rule, what rules don't depend on that close over nothing traced: the traces, which have
#: been left; what has been found; texts.
_UNREAD: Final = (
    partial_eval.DynamicJaxprTrace, core.TraceTag, linear_util.Store, linear_util.EqualStore, core.DebugInfo
)  # fmt: skip


#: What leads to nothing traced that a rule reads.
_LEAVES: Final = (
    *_PLAIN, *_UNREAD, core.AbstractValue, core.Primitive, jax.tree_util.PyTreeDef, ModuleType, BuiltinFunctionType,
    type, CodeType, np.ndarray, jax.Array
)  # fmt: skip
#: Of how many objects it is looked up.
_MOST_OBJECTS: Final = 4096


@final
@frozen(eq=False)
class _Itself:
    """Only itself."""

    value: object

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and other.value is self.value

    @override
    def __hash__(self) -> int:
        return id(self.value)


def may_close_over_traced(eqn: JaxprEqn) -> bool:
    """Whether the rules of a call may close over a value that was traced around it. Asking them tells for sure, this is
    said without: of all that they lead to, whether anything is such a value."""
    pending: list[object] = [
        eqn.params[name] for name in ("jvp_jaxpr_fun", "fwd_jaxpr_thunk", "bwd") if name in eqn.params
    ]
    seen: dict[int, object] = {}
    while pending:
        value = pending.pop()
        if isinstance(value, core.Tracer):
            return True
        if id(value) in seen or isinstance(value, _LEAVES):
            continue
        seen[id(value)] = value
        if len(seen) > _MOST_OBJECTS:
            return True
        if isinstance(value, JaxJaxpr):
            pending += getattr(value, "consts", ())  # from 0.11 on
        elif isinstance(value, FunctionType):  # not the module's variables
            pending += [value.__closure__, value.__defaults__, value.__kwdefaults__, value.__dict__]
        else:
            pending += gc.get_referents(value)
    return False


def rules_of(eqn: JaxprEqn) -> Hashable:
    """What calls have in common whose rules are traced alike: the user's functions are the same objects, and JAX has
    wrapped them in the same way. Anything that isn't known to be alike is only like itself."""
    names = ("jvp_jaxpr_fun", "fwd_jaxpr_thunk", "bwd", "num_consts", "symbolic_zeros")
    return (eqn.primitive.name, *(_key(eqn.params[name], frozenset()) for name in names if name in eqn.params))


def _key(value: Any, within: frozenset[int]) -> Hashable:  # anything that JAX keeps with a rule
    kind = _kind(type(value))
    if kind in _SAME:
        return _SAME[kind](value)
    if id(value) in within:
        return len(within)
    inside = within | {id(value)}
    match kind:
        case "tuple":
            return type(value), tuple([_key(each, inside) for each in value])
        case "hashed":
            return type(value), _key(value.val, inside)
        case "axis":
            return tuple([_key(getattr(value, each.name), inside) for each in fields(value)])
        case "wrapped":
            parts = (value.f, value.params, value.in_type, value.transforms)
            return type(value), tuple([_key(part, inside) for part in parts])
        case "function" if value.__module__.startswith("jax."):
            read = (_closed_over(value), value.__defaults__, value.__kwdefaults__)
            return _Itself(value.__code__), tuple([_key(part, inside) for part in read])
        case "tree":
            with suppress(TypeError):  # of a user's class, with what can't be hashed
                hash(value)
                return value, str(value)
        case _:
            pass
    return _Itself(value)


#: What says all that there is to say of values of a kind.
_SAME: Final[Mapping[str, Callable[[Any], Hashable]]] = MappingProxyType({
    "plain": lambda value: (type(value), repr(value)),
    "unread": lambda value: type(value).__name__,
    "aval": lambda value: value,
})  # fmt: skip
_KINDS: Final[tuple[tuple[type | tuple[type, ...], str], ...]] = (
    (_PLAIN, "plain"),
    (_UNREAD, "unread"),
    (core.ShapedArray, "aval"),
    ((tuple, list), "tuple"),
    ((util.Hashable, util.Unhashable), "hashed"),
    (batching.AxisData, "axis"),
    (linear_util.WrappedFun, "wrapped"),
    (FunctionType, "function"),
    (jax.tree_util.PyTreeDef, "tree"),
)


@bounded(256)
def _kind(of: type) -> str:
    """What values of a class are to `_key`."""
    return next((kind for classes, kind in _KINDS if issubclass(of, classes)), "other")


def _held(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # nothing yet
        return None
