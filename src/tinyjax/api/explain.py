"""Why a call of a jitted function is traced anew: what its signature differs in from those met before."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, final

from attrs import frozen
from typing_extensions import override

from tinyjax.api.arguments import StaticCall, static_key
from tinyjax.api.differences import (
    Difference,
    KeysChanged,
    LeafChanged,
    MeshChanged,
    PrecisionChanged,
    StaticChanged,
    StructureChanged,
)
from tinyjax.api.misses import (
    MissLog,
    Signature,
    axes_in_scope,
    log_of,
    others_with_the_code_of,
    signature_key,
)
from tinyjax.ir.aval import ShapedArray
from tinyjax.tracing import tree
from tinyjax.tracing.functions import describe
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


def explain(
    fun: Callable[..., object],
    own: MissLog,
    call: StaticCall,
    avals: Sequence[ShapedArray],
    treedef: PyTreeDef,
    found: Traced | None,
) -> Explanation:
    """Why a call of this signature is, or was, a miss. `found`: the program, if it is there."""
    log = log_of(fun, own)
    label = describe("jit", fun)
    key = signature_key(call, avals, treedef)
    now = Signature.of(call, avals, treedef)
    known = list(log.signatures)
    if found is not None:
        from tinyjax.control.key_reuse import reuse_notes  # only here, as it takes a while to load

        before = known[: known.index(key)] if key in log.signatures else []
        return Explanation(label, "hit", _nearest(fun, [log.signatures[k] for k in before], now),
                           reuse_notes(found.jaxpr), len(before))  # fmt: skip
    earlier = [signature for k, signature in log.signatures.items() if k != key]
    same = log.signatures.get(key)
    if same is not None:
        if same.unkept is None:
            return Explanation(label, "dropped", (), (), len(earlier))
        return Explanation(label, "never kept", (), (same.unkept,), len(earlier))
    axes = axes_in_scope()
    notes = () if axes is None else (axes,)
    if earlier:
        return Explanation(label, "changed", _nearest(fun, earlier, now), notes, len(earlier))
    if log.cleared:
        return Explanation(label, "cleared", (), notes)
    if objects := others_with_the_code_of(fun):
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
