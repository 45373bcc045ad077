"""What is remembered of the calls of a jitted function that were traced, so that it can be said why."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from types import CodeType, MethodType
from typing import TYPE_CHECKING, Final, final
from weakref import WeakKeyDictionary

from attrs import frozen

from tinyjax.api.arguments import StaticCall, WithStatic
from tinyjax.caching import CacheInfo
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.effects import axis_names
from tinyjax.lax.mesh_in_force import mesh_in_force
from tinyjax.lax.within import defaults_in_force
from tinyjax.meshes import Mesh
from tinyjax.primitives.defaults import Defaults
from tinyjax.tracing.concrete import active_frame
from tinyjax.tracing.core import Tracer
from tinyjax.tracing.functions import argument_paths
from tinyjax.tracing.programs import Traced

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef

#: How many signatures of a function are remembered, to compare others with.
_KEPT: Final = 256


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


def log_of(fun: Callable[..., object], own: MissLog) -> MissLog:
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
    log = log_of(fun, own)
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
    return axes_in_scope()


def axes_in_scope() -> str | None:
    """Why nothing is kept of what is traced here and now, if so."""
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


def others_with_the_code_of(fun: Callable[..., object]) -> int:
    """How many function objects with the same code were traced."""
    code, wrappers = _code_of(fun)
    return 0 if code is None else _OBJECTS.get(code, {}).get(wrappers, 0)
