"""`jit`: functions staged out once per signature, and run as compiled programs."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, final, overload

from typing_extensions import override

from tinyjax import backend
from tinyjax.api.arguments import StaticCall, resolve_position, resolve_static, split_resolved
from tinyjax.api.bound import Bound
from tinyjax.api.explain import Explanation, MissLog, explain, note_miss, signature_key
from tinyjax.api.jit_intake import INTAKE
from tinyjax.api.jit_shardings import JitShardings, constrained, in_force, lying
from tinyjax.api.lowered import Lowered
from tinyjax.api.make_jaxpr import abstractify, eval_jaxpr
from tinyjax.api.non_finite import Check, checked_program
from tinyjax.api.traced import Traced as Record
from tinyjax.api.traced import record
from tinyjax.caching import BoundedCache, register
from tinyjax.control.call import Call
from tinyjax.control.recursion import is_open
from tinyjax.errors import StaticArgumentError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import FLOAT0
from tinyjax.ir.effects import axis_names
from tinyjax.ir.program import Jaxpr
from tinyjax.lax.bodies import stage
from tinyjax.lax.mesh_in_force import mesh_in_force
from tinyjax.meshes import Sharding
from tinyjax.prepared.jitted import MISS, CallsByMesh, JittedCalls
from tinyjax.prepared.runners import Equation, Launch
from tinyjax.tracebacks import filtered, show_users_frames
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import ROOT, ConcreteArray, active_frame, innermost, is_outside, top_frame
from tinyjax.tracing.core import bind
from tinyjax.tracing.functions import check_callable, flatten_arguments, function_name
from tinyjax.tracing.programs import Traced

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef

P = ParamSpec("P")
R = TypeVar("R")

#: Traced programs by function, so that every `jit` of a function shares them; they go with the function.
_TRACES: Final[weakref.WeakKeyDictionary[Callable[..., object], BoundedCache[Hashable, Traced]]] = (
    weakref.WeakKeyDictionary()
)
_TRACES_PER_FUNCTION: Final = 1024


@overload
def jit(
    fun: Callable[P, R],
    *,
    in_shardings: Any = None,
    out_shardings: Any = None,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None,
    inline: bool = False,
    debug_nans: bool = False,
    debug_infs: bool = False,
    warn_replicated: int | None = None,
) -> Jitted[P, R]: ...
@overload
def jit(
    *,
    in_shardings: Any = None,
    out_shardings: Any = None,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None,
    inline: bool = False,
    debug_nans: bool = False,
    debug_infs: bool = False,
    warn_replicated: int | None = None,
) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...
@filtered
def jit(
    fun: Callable[..., Any] | None = None,
    *,
    in_shardings: Any = None,
    out_shardings: Any = None,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None,
    inline: bool = False,
    debug_nans: bool = False,
    debug_infs: bool = False,
    warn_replicated: int | None = None,
) -> Any:
    """`fun`, staged out on its first call with each signature, and compiled.

    A signature is the tree of the arguments, the types of their leaves, and the values of static arguments, which must
    be hashable. Inside another transformation the call stays a call: one equation. Results stay on the device. The
    memory of donated arguments may be reused for results; they can't be used afterwards. Source: Autodidax, part 3.

    `in_shardings` and `out_shardings` say how arguments and results lie on a mesh: trees of shardings, prefixes of
    those of the arguments by position and of the results; None where nothing is said. A PartitionSpec is about the mesh
    in force (`set_mesh`). Where nothing is said, an argument lies as it does, or on every device if it doesn't, and XLA
    chooses for results. All must be on the same devices. A call within another transformation says so by constraints in
    its program, and where that runs decides on which devices.

    With `warn_replicated`, a number of bytes, there is a ReplicationWarning for each input or result at least as large
    that isn't divided, when the program is compiled for several devices.

    With `inline`, a call inside another transformation is spelled out there, equation by equation.

    With `debug_nans` or `debug_infs`, results are looked at after each call: where one has nan or inf, the program is
    run once more on the host, and a NonFiniteError says which operation gave the first one, and its line. Nothing is
    donated then. Inside of a transformation that doesn't know the values, only who is outside can look at them.

    >>> @jit
    ... def f(x):
    ...     print("tracing")
    ...     return 2.0 * x
    >>> f(1.0), f(2.0)
    tracing
    (Array(2., dtype=float64, weak_type=True), Array(4., dtype=float64, weak_type=True))
    """
    if fun is None:
        return partial(
            jit,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
            donate_argnums=donate_argnums,
            donate_argnames=donate_argnames,
            inline=inline,
            in_shardings=in_shardings,
            out_shardings=out_shardings,
            debug_nans=debug_nans,
            debug_infs=debug_infs,
            warn_replicated=warn_replicated,
        )
    check_callable("jit", fun)
    static = resolve_static(fun, static_argnums, static_argnames)
    donated = resolve_static(fun, donate_argnums, donate_argnames, "donated")
    both = {*static[0]} & {*donated[0]} or {*static[1]} & {*donated[1]}
    if both:
        raise StaticArgumentError(f"jit: arguments can't be both static and donated: {sorted(map(str, both))}")
    check = Check.asked("jit", fun, debug_nans, debug_infs)
    shardings = JitShardings.of(in_shardings, out_shardings, warn_replicated)
    return Jitted(fun, static, donated if check is None else ((), ()), inline, check, shardings)


@final
class Jitted(Bound[P, R]):
    """What `jit` returns: the function, staged out and compiled when it is called."""

    __name__: str
    __qualname__: str
    __wrapped__: Callable[P, R]

    def __init__(
        self,
        fun: Callable[P, R],
        static: tuple[tuple[int, ...], tuple[str, ...]],
        donated: tuple[tuple[int, ...], tuple[str, ...]],
        inline: bool = False,
        check: Check | None = None,
        shardings: JitShardings | None = None,
    ) -> None:
        update_wrapper(self, fun)
        self._fun = fun
        self._static = static
        self._donated = donated
        self._inline = inline
        self._check = check
        self._shardings = shardings
        self._plain = static == ((), ()) and check is None
        self._own: BoundedCache[Hashable, Traced] = BoundedCache(_TRACES_PER_FUNCTION, "traced functions")
        self._calls = JittedCalls(INTAKE)
        self._by_mesh = CallsByMesh(INTAKE)
        self._misses = MissLog()
        for cache in (self._own, self._calls, self._by_mesh, self._misses):
            register(cache, temporary=True)

    @override
    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:  # costs nothing, unlike the decorator
            frame = innermost()
            outside = frame is ROOT or is_outside(frame := active_frame())
            calls = self._calls if frame.mesh is None else self._by_mesh.under(frame.mesh)
            if self._plain:
                result = calls.run(args, kwargs, ()) if outside else calls.bind(args, kwargs, ())
                if result is MISS:
                    return self._call(StaticCall(self._fun, args, kwargs, ()), args, kwargs)
            elif self._check is not None:
                return self._checked(self._check, args, kwargs)
            else:
                call = split_resolved(self._fun, args, kwargs, *self._static)
                ask = calls.run if outside else calls.bind
                result = ask(call.args, call.kwargs, call.key)
                if result is MISS:
                    return self._call(call, args, kwargs)
        except Exception as error:
            show_users_frames(error)
            raise
        found: R = result
        return found

    def _call(self, call: StaticCall, args: tuple[object, ...], kwargs: dict[str, object]) -> R:
        """A call that isn't prepared: the next one with such arguments will be."""
        arrays, treedef = flatten_arguments(call.function, call.args, call.kwargs)
        avals = [array.aval for array in arrays]
        traced, kept = self._trace(call, avals, treedef)
        donated = self._donation(args, kwargs, traced, avals) if self._donated != ((), ()) else ()
        inputs = (*traced.captured, *arrays)
        complete = len(inputs) == len(traced.jaxpr.invars)
        if not complete:
            inputs = tuple(array for array in inputs if array.aval.dtype != FLOAT0)
        name = function_name(self._fun)
        runner: Launch | Equation | None
        if top_frame(inputs, traced.jaxpr.effects) is ROOT:
            donated = donated if any(donated) else ()
            values = [array.value for array in inputs if isinstance(array, ConcreteArray)]
            asked = self._asked(call, traced, avals, treedef)
            executable = backend.execute.executable(traced.jaxpr, values, name, donated, asked=asked)
            outs: Sequence[Array] = list(map(ConcreteArray, executable(values, name)))
            captured = values[: len(traced.captured)]
            runner = Launch.of(executable, captured, traced.jaxpr.out_avals, name) if complete and kept else None
        elif self._inline:
            outs, runner = eval_jaxpr(self._lying(call, traced, avals, treedef), (), *inputs), None
        else:
            equation = Call(name, self._lying(call, traced, avals, treedef))
            outs = bind(equation, *inputs)
            runner = Equation(equation, traced.captured) if complete and kept else None
        if runner is not None:
            assemble = None if traced.single else traced.results
            mesh = mesh_in_force()
            calls = self._calls if mesh is None else self._by_mesh.under(mesh)
            calls.keep(call.args, call.kwargs, call.key, treedef, avals, assemble, runner)
        result: R = traced.results(outs)
        return result

    def _checked(self, check: Check, args: tuple[object, ...], kwargs: dict[str, object]) -> R:
        """A call whose results are looked at."""
        call = split_resolved(self._fun, args, kwargs, *self._static)
        result = self._call(call, args, kwargs)
        arrays, treedef = flatten_arguments(call.function, call.args, call.kwargs)
        traced, _ = self._trace(call, [array.aval for array in arrays], treedef)
        inputs = [array for array in (*traced.captured, *arrays) if array.aval.dtype != FLOAT0]
        checked_program(check, result, traced.jaxpr, inputs)
        return result

    @filtered
    def trace(self, /, *args: P.args, **kwargs: P.kwargs) -> Record[P, R]:
        """The program for these arguments, which may be types (ShapedArray), as a record that is called like the
        function: see `tinyjax.trace`."""
        call = split_resolved(self._fun, args, kwargs, *self._static)
        traced, avals, treedef = self._trace_abstract(args, kwargs)
        donated = self._donation(args, kwargs, traced, avals)
        asked, lie = self._asked(call, traced, avals, treedef), _lying_already(call, traced, avals)
        return record(self._fun, "jit", traced, call, self._static, treedef, avals, donated, asked, lie)

    @filtered
    def lower(self, /, *args: P.args, **kwargs: P.kwargs) -> Lowered:
        """The StableHLO of the function for these arguments, which may be types (ShapedArray)."""
        call = split_resolved(self._fun, args, kwargs, *self._static)
        traced, avals, treedef = self._trace_abstract(args, kwargs)
        donated = self._donation(args, kwargs, traced, avals)
        asked, lie = self._asked(call, traced, avals, treedef), _lying_already(call, traced, avals)
        return Lowered(traced, function_name(self._fun), donated, treedef, asked, lie)

    @filtered
    def eval_shape(self, /, *args: P.args, **kwargs: P.kwargs) -> Any:  # the user's tree
        """The tree of types that the function returns for these arguments, which may be types (ShapedArray), without
        computing."""
        return self.trace(*args, **kwargs).out_info

    @filtered
    def explain(self, /, *args: P.args, **kwargs: P.kwargs) -> Explanation:
        """Whether these arguments, which may be types (ShapedArray), find their program, and why if they don't.

        Nothing is traced. After a call, it says why that was a miss, and which keys of random numbers are used twice.

        >>> f = jit(lambda x: 2.0 * x)
        >>> y = f(1.0)
        >>> f.explain(ShapedArray((3,), "float32")).differences
        (LeafChanged(path='x', earlier=ShapedArray(~f64[]), now=ShapedArray(f32[3])),)
        """
        call = split_resolved(self._fun, args, kwargs, *self._static)
        leaves, treedef = tree.flatten((call.args, call.kwargs))
        avals = tuple(map(abstractify, leaves))
        found = self._cache().get(signature_key(call, avals, treedef))
        return explain(self._fun, self._misses, call, avals, treedef, None if found is None else found.jaxpr)

    @override
    def __repr__(self) -> str:
        return f"<jit of {self._fun!r}>"

    def _trace_abstract(
        self, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> tuple[Traced, list[ShapedArray], PyTreeDef]:
        call = split_resolved(self._fun, args, kwargs, *self._static)
        leaves, treedef = tree.flatten((call.args, call.kwargs))
        avals = [abstractify(leaf) for leaf in leaves]
        return self._trace(call, avals, treedef)[0], avals, treedef

    def _trace(self, call: StaticCall, avals: Sequence[ShapedArray], treedef: PyTreeDef) -> tuple[Traced, bool]:
        """The program for a signature, and whether it is kept: traced once, unless it depends on another transformation
        in progress."""
        key = signature_key(call, avals, treedef)
        cache = self._cache()
        found = cache.get(key)
        kept = found is not None
        if found is None:
            found = stage("jit", call.function, treedef, avals)
            kept = _reusable(found)
            if kept:
                cache.put(key, found)
            note_miss(self._fun, self._misses, call, avals, treedef, None if kept else found)
        return found, kept

    def _asked(
        self, call: StaticCall, traced: Traced, avals: Sequence[ShapedArray], treedef: PyTreeDef
    ) -> backend.Asked | None:
        asked = None if self._shardings is None else self._shardings.asked(call, traced, avals, treedef)
        return in_force(asked, mesh_in_force())

    def _lying(self, call: StaticCall, traced: Traced, avals: Sequence[ShapedArray], treedef: PyTreeDef) -> Jaxpr:
        """The program that says itself how its inputs and outputs lie."""
        said = self._shardings
        return traced.jaxpr if said is None else constrained(traced.jaxpr, said.asked(call, traced, avals, treedef))

    def _cache(self) -> BoundedCache[Hashable, Traced]:
        try:
            return _TRACES.setdefault(self._fun, self._own)
        except TypeError:  # can't be hashed, or referred to weakly
            return self._own

    def _donation(
        self,
        args: Sequence[object],
        kwargs: Mapping[str, object],
        traced: Traced,
        avals: Sequence[ShapedArray],
    ) -> tuple[bool, ...]:
        """Which inputs of the program are donated; `avals` are the types of the leaves of the arguments."""
        positions, names = self._donated
        chosen = {resolve_position(n, len(args), "jit: donate_argnums") for n in positions if n < len(args)}
        static = {n % len(args) for n in self._static[0] if -len(args) <= n < len(args)}
        marked = tuple(
            tree.map_leaves(lambda _, mark=i in chosen: mark, arg) for i, arg in enumerate(args) if i not in static
        )
        named = {
            name: tree.map_leaves(lambda _, mark=name in names: mark, value)
            for name, value in kwargs.items()
            if name not in self._static[1]
        }
        marks, _ = tree.flatten((marked, named))
        kept = [mark for mark, aval in zip(marks, avals, strict=True) if aval.dtype != FLOAT0]
        return (False,) * len(traced.captured) + tuple(mark is True for mark in kept)


def _lying_already(call: StaticCall, traced: Traced, avals: Sequence[ShapedArray]) -> list[Sharding | None]:
    """How the inputs of the program lie."""
    leaves = tree.flatten((call.args, call.kwargs))[0]
    return lying([*traced.captured, *[x for x, aval in zip(leaves, avals, strict=True) if aval.dtype != FLOAT0]])


def _reusable(traced: Traced) -> bool:
    """Whether a program depends on no other transformation in progress, so that it serves other calls too."""
    effects = traced.jaxpr.effects
    if effects and (axis_names(effects) or is_open(effects)):
        return False
    return traced.closed and not active_frame().axes
