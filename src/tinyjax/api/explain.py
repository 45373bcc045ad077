"""Why a call of a jitted function is traced anew: what its signature differs in from those met before."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from types import CodeType, MethodType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, final
from weakref import WeakKeyDictionary

from attrs import frozen
from typing_extensions import override

from tinyjax.api.arguments import StaticCall, WithStatic, static_key
from tinyjax.api.differences import (
    Difference,
    KeysChanged,
    LeafChanged,
    MeshChanged,
    PrecisionChanged,
    StaticChanged,
    StructureChanged,
)
from tinyjax.caching import CacheInfo
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.effects import axis_names
from tinyjax.ir.program import Jaxpr
from tinyjax.lax.mesh_in_force import mesh_in_force
from tinyjax.lax.within import defaults_in_force
from tinyjax.meshes import Mesh
from tinyjax.primitives.defaults import Defaults
from tinyjax.tracing import tree
from tinyjax.tracing.concrete import active_frame
from tinyjax.tracing.core import Tracer
from tinyjax.tracing.functions import argument_paths, describe
from tinyjax.tracing.programs import Traced

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef

#: How many signatures of a function are remembered, to compare others with.
_KEPT: Final = 256
#: Values of static arguments longer than this are cut in messages.
_SHOWN: Final = 120


Reason: TypeAlias = Literal["hit", "first call", "new function", "changed", "never kept", "dropped", "cleared"]


@final
@frozen(repr=False)
class Explanation:
    """Whether a call finds its program, and why if it doesn't.

    `reason` is one of

    - "hit": the program of this signature is there;
    - "first call": the function was never traced;
    - "new function": it wasn't, but others with the same code were: the function is made anew, such as a lambda in a
      loop, and each object has programs of its own;
    - "changed": it was traced for other signatures; `differences` are those from the nearest;
    - "never kept": it was traced for this signature, and its program can't be used again, as `notes` say;
    - "dropped": it was traced for this signature, and the program has made room for others since;
    - "cleared": it was, before `tinyjax.clear_caches`.

    For a hit, `differences` are those that made it necessary to trace once, and `notes` say which keys are
    used twice. `signatures` counts those known.
    """

    function: str
    reason: Reason
    differences: tuple[Difference, ...] = ()
    notes: tuple[str, ...] = ()
    signatures: int = 0

    @property
    def hit(self) -> bool:
        """Whether nothing needs to be traced."""
        return self.reason == "hit"

    @override
    def __str__(self) -> str:
        lines = [f"{'hit' if self.hit else 'miss'}: {self.function} {self._summary()}"]
        lines += [f"  {difference}" for difference in self.differences]
        lines += [f"  {note}" for note in self.notes]
        return "\n".join(lines)

    @override
    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from tinyjax.ir.printing.display import Note, page, table

        blocks = [Note(str(self).splitlines()[0])]
        rows = [difference.row for difference in self.differences]
        tables = table(("what differs", "now", "before"), rows) if rows else ()
        return page(block.html for block in (*blocks, *tables, *map(Note, self.notes)))

    def _summary(self) -> str:
        known = f"{self.signatures} other signature{'' if self.signatures == 1 else 's'}"
        match self.reason:
            case "hit":
                return "was traced for this signature" + ("; the call that did it differed in" * bool(self.differences))
            case "first call":
                return "was never traced"
            case "new function":
                return "is a new function object, and has no programs yet"
            case "changed":
                return f"was traced for {known}; from the nearest differs"
            case "never kept":
                return "is traced at each call of this signature"
            case "dropped":
                return "was traced for this signature, but the program made room for others since"
            case "cleared":
                return "was not traced since the caches were cleared"


# What is remembered of misses.


@final
@frozen(eq=False)
class Signature:
    """What a program is found by: the tree of the arguments, the types of their leaves, the static arguments, and the
    mesh and the defaults in force.

    `unkept` says why the program wasn't kept, if it wasn't. The function isn't part of it, which would keep it alive.
    """

    treedef: PyTreeDef
    avals: tuple[ShapedArray, ...]
    static: Mapping[int | str, object]
    mesh: Mesh | None
    defaults: Defaults
    unkept: str | None = None

    @staticmethod
    def of(call: StaticCall, avals: Sequence[ShapedArray], treedef: PyTreeDef, unkept: str | None = None) -> Signature:
        static = call.function.filled if isinstance(call.function, WithStatic) else {}
        mesh = _abstract(mesh_in_force())
        return Signature(treedef, tuple(avals), static, mesh, defaults_in_force(), unkept)

    def leaves(self, fun: Callable[..., object]) -> dict[str, ShapedArray]:
        """The types of the leaves, by their paths in the arguments of the function."""
        positional = {at: value for at, value in self.static.items() if isinstance(at, int)}
        rest = WithStatic(fun, positional, {}) if positional else fun
        return dict(zip(argument_paths(rest, self.treedef), self.avals, strict=True))


@final
class MissLog:
    """The signatures that a function was traced for, in order. Bounded."""

    __slots__ = ("__weakref__", "_made", "cleared", "name", "signatures")

    def __init__(self) -> None:
        self.name: str = "signatures of traced functions"
        self.signatures: OrderedDict[Hashable, Signature] = OrderedDict()
        self.cleared: bool = False
        self._made = 0

    def add(self, key: Hashable, signature: Signature) -> None:
        self._made += 1
        self.signatures[key] = signature
        while len(self.signatures) > _KEPT:
            self.signatures.popitem(last=False)

    def info(self) -> CacheInfo:
        return CacheInfo(self._made, len(self.signatures), _KEPT)

    def clear(self) -> None:
        self.cleared = self.cleared or bool(self.signatures)
        self.signatures.clear()


#: The logs of functions; they go with the function.
_LOGS: Final[WeakKeyDictionary[Callable[..., object], MissLog]] = WeakKeyDictionary()
#: How many function objects of the same code were traced, by what they are wrapped in.
_OBJECTS: Final[WeakKeyDictionary[CodeType, dict[tuple[Hashable, ...], int]]] = WeakKeyDictionary()


def _log_of(fun: Callable[..., object], own: MissLog) -> MissLog:
    """The log of a function: `own` if there is none yet, or if the function can't be referred to weakly."""
    try:
        return _LOGS.setdefault(fun, own)
    except TypeError:
        return own


def signature_key(call: StaticCall, avals: Sequence[ShapedArray], treedef: PyTreeDef) -> Hashable:
    """What a program is found by, also the mesh and the defaults in force."""
    return treedef, tuple(avals), call.key, _abstract(mesh_in_force()), defaults_in_force()


def _abstract(mesh: Mesh | None) -> Mesh | None:
    return None if mesh is None else mesh.abstract_mesh


def note_miss(
    fun: Callable[..., object],
    own: MissLog,
    call: StaticCall,
    avals: Sequence[ShapedArray],
    treedef: PyTreeDef,
    unkept: Traced | None,
) -> None:
    """Remembers that a function was traced for a signature. `unkept`: the program, if it wasn't kept."""
    log = _log_of(fun, own)
    if not log.signatures and not log.cleared:
        code, wrappers = _code_of(fun)
        if code is not None:
            counts = _OBJECTS.setdefault(code, {})
            counts[wrappers] = counts.get(wrappers, 0) + 1
    signature = Signature.of(call, avals, treedef, None if unkept is None else _why_unkept(unkept))
    log.add(signature_key(call, avals, treedef), signature)


def _why_unkept(traced: Traced) -> str | None:
    """Why a program is of use for one call only."""
    effects = traced.jaxpr.effects
    for array in traced.captured:
        if isinstance(array, Tracer):
            return (
                f"it closes over a value of type {array.aval} of {array.frame.function.label}: pass it as an argument"
            )
    names = axis_names(effects)
    if names:
        return f"it uses the axis {', '.join(sorted(names))}, which a transformation outside of it maps"
    from tinyjax.control.recursion import is_open  # only here, as it takes a while to load

    if is_open(effects):
        return "it belongs to a rule that calls the function it is a rule of"
    return _axes_in_scope()


def _axes_in_scope() -> str | None:
    names = [repr(axis.name) for axis, _ in active_frame().axes]
    return f"a program that is traced where axes are in scope isn't kept; here: {', '.join(names)}" if names else None


def _code_of(fun: Callable[..., object]) -> tuple[CodeType | None, tuple[Hashable, ...]]:
    """The code at the heart of a function, and the kinds of wrappers around it."""
    around: list[Hashable] = []
    f: object = fun
    code: CodeType | None = None
    for _ in range(100):
        around.append(type(f).__qualname__)
        if isinstance(f, partial):
            f = f.func
            continue
        if isinstance(f, MethodType):
            f = f.__func__
            continue
        found = getattr(f, "__code__", None) or getattr(
            inspect.getattr_static(type(f), "__call__", None), "__code__", None
        )
        if isinstance(found, CodeType):
            around.append(code)
            code = found
        inner = getattr(f, "__wrapped__", None)
        if inner is None:
            break
        f = inner
    return code, tuple(around)


# The comparison.


def explain(
    fun: Callable[..., object],
    own: MissLog,
    call: StaticCall,
    avals: Sequence[ShapedArray],
    treedef: PyTreeDef,
    found: Jaxpr | None,
) -> Explanation:
    """Why a call of this signature is, or was, a miss. `found`: the program, if it is there."""
    log = _log_of(fun, own)
    label = describe("jit", fun)
    key = signature_key(call, avals, treedef)
    now = Signature.of(call, avals, treedef)
    known = list(log.signatures)
    if found is not None:
        from tinyjax.control.key_reuse import reuse_notes  # only here, as it takes a while to load

        before = known[: known.index(key)] if key in log.signatures else []
        return Explanation(label, "hit", _nearest(fun, [log.signatures[k] for k in before], now),
                           reuse_notes(found), len(before))  # fmt: skip
    earlier = [signature for k, signature in log.signatures.items() if k != key]
    same = log.signatures.get(key)
    if same is not None:
        if same.unkept is None:
            return Explanation(label, "dropped", (), (), len(earlier))
        return Explanation(label, "never kept", (), (same.unkept,), len(earlier))
    axes = _axes_in_scope()
    notes = () if axes is None else (axes,)
    if earlier:
        return Explanation(label, "changed", _nearest(fun, earlier, now), notes, len(earlier))
    if log.cleared:
        return Explanation(label, "cleared", (), notes)
    code, wrappers = _code_of(fun)
    objects = 0 if code is None else _OBJECTS.get(code, {}).get(wrappers, 0)
    if objects:
        others = f"{objects} other object{'' if objects == 1 else 's'} with the same code"
        advice = f"{others} had been traced: make the function, and its jit, once and outside of what is repeated"
        return Explanation(label, "new function", (), (advice, *notes))
    return Explanation(label, "first call", (), notes)


def _nearest(fun: Callable[..., object], earlier: Sequence[Signature], now: Signature) -> tuple[Difference, ...]:
    """The differences from the signature that has the fewest; of several, from the last one."""
    compared = [_differences(fun, signature, now) for signature in reversed(earlier)]
    return min(compared, key=len, default=())


def _differences(fun: Callable[..., object], earlier: Signature, now: Signature) -> tuple[Difference, ...]:
    found: list[Difference] = []
    before, after = earlier.leaves(fun), now.leaves(fun)
    if earlier.treedef != now.treedef:
        added = tuple(path for path in after if path not in before)
        removed = tuple(path for path in before if path not in after)
        found.append(StructureChanged(added, removed, tree.shown(earlier.treedef), tree.shown(now.treedef)))
    found += [LeafChanged(path, before[path], aval) for path, aval in after.items() if before.get(path, aval) != aval]
    if earlier.mesh != now.mesh:
        found.append(MeshChanged(earlier.mesh, now.mesh))
    if earlier.defaults.precision != now.defaults.precision:
        found.append(PrecisionChanged(earlier.defaults.precision, now.defaults.precision))
    if earlier.defaults.keys != now.defaults.keys:
        found.append(KeysChanged(earlier.defaults.keys, now.defaults.keys))
    return (*found, *_static_differences(_static(fun, earlier), _static(fun, now)))


def _static_differences(
    before: Mapping[str, tuple[Hashable, str]], after: Mapping[str, tuple[Hashable, str]]
) -> list[StaticChanged]:
    found: list[StaticChanged] = []
    for name in dict.fromkeys([*before, *after]):
        (was, earlier), (is_now, now) = before.get(name, (None, None)), after.get(name, (None, None))
        if was != is_now:
            alike = earlier is not None and earlier == now
            found.append(StaticChanged(name, f"another {earlier}" if alike else earlier, now))
    return found


def _static(fun: Callable[..., object], signature: Signature) -> dict[str, tuple[Hashable, str]]:
    """The static arguments by the names that the function gives them: what they are found by, and how they print."""
    try:
        names = list(inspect.signature(fun).parameters)
    except (TypeError, ValueError):
        names = []
    found: dict[str, tuple[Hashable, str]] = {}
    for at, value in signature.static.items():
        text = repr(value)
        text = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
        if isinstance(at, str):
            found[at] = ("by name", static_key(value)), f"{text} by name"
        else:
            found[names[at] if at < len(names) else str(at)] = static_key(value), text
    return found
