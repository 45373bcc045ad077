"""`jit`: functions staged out once per signature, and run as compiled programs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, final, overload

from attrs import evolve
from typing_extensions import override

from tinyjax import api
from tinyjax import backend as machine
from tinyjax.api.ahead_of_time import AheadOfTime
from tinyjax.api.arguments import StaticCall, resolve_static, split_resolved
from tinyjax.api.donating import Donating
from tinyjax.api.embedding import checked_size
from tinyjax.api.jit_intake import INTAKE, brought, is_put
from tinyjax.api.jit_refs import Lendings
from tinyjax.api.jit_reroll import Choice, Rerolling, launched_first, remembered_by, staged_alone
from tinyjax.api.jit_shardings import JitShardings, constrained, in_force, kept_leaves, lying_already, on_device
from tinyjax.api.jit_traces import TRACES_PER_FUNCTION, reusable, traces_of
from tinyjax.api.make_jaxpr import abstractify, eval_jaxpr
from tinyjax.api.misses import MissLog, note_miss, signature_key
from tinyjax.api.named_functions import name_in_module
from tinyjax.api.non_finite import Check, checked_program
from tinyjax.backend import EMBEDDED_BYTES
from tinyjax.caching import BoundedCache, register
from tinyjax.control.call import Call
from tinyjax.errors import RefError, StaticArgumentError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import FLOAT0
from tinyjax.ir.program import Jaxpr
from tinyjax.lax.explicit import Given, given
from tinyjax.lax.within import runs_by_python
from tinyjax.prepared.jitted import CallsByMesh, JittedCalls
from tinyjax.prepared.runners import Equation
from tinyjax.prepared.stacked import AnyLaunch
from tinyjax.prepared.straight import MISS
from tinyjax.refs.lending import Lent, Places
from tinyjax.tracebacks import filtered, show_users_frames
from tinyjax.tracing import tree
from tinyjax.tracing.concrete import ROOT, active_frame, innermost, is_outside, top_frame
from tinyjax.tracing.core import bind
from tinyjax.tracing.frames import Frame
from tinyjax.tracing.functions import check_callable, flatten_arguments, function_name
from tinyjax.tracing.programs import Traced

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef

    from tinyjax.api.explain import Explanation
    from tinyjax.api.traced import Traced as Record

P = ParamSpec("P")
R = TypeVar("R")


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
    keep_unused: bool = False,
    device: Any = None,
    backend: str | None = None,
    inline: bool = False,
    compiler_options: Mapping[str, str | bool | int | float] | None = None,
    debug_nans: bool = False,
    debug_infs: bool = False,
    warn_replicated: int | None = None,
    embedded_constants_max_bytes: int | None = EMBEDDED_BYTES,
    reroll: Choice = False,
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
    keep_unused: bool = False,
    device: Any = None,
    backend: str | None = None,
    inline: bool = False,
    compiler_options: Mapping[str, str | bool | int | float] | None = None,
    debug_nans: bool = False,
    debug_infs: bool = False,
    warn_replicated: int | None = None,
    embedded_constants_max_bytes: int | None = EMBEDDED_BYTES,
    reroll: Choice = False,
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
    keep_unused: bool = False,
    device: Any = None,
    backend: str | None = None,
    inline: bool = False,
    compiler_options: Mapping[str, str | bool | int | float] | None = None,
    debug_nans: bool = False,
    debug_infs: bool = False,
    warn_replicated: int | None = None,
    embedded_constants_max_bytes: int | None = EMBEDDED_BYTES,
    reroll: Choice = False,
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

    With `warn_replicated`, a ReplicationWarning tells of each input or result of so many bytes that isn't divided.

    It runs on `device`, or on a `backend`'s first one; else where the arguments are. `compiler_options` are XLA's. In
    another transformation, whoever runs the whole says both. Inputs that nothing reads are kept, as by `keep_unused`.

    Arrays that `fun` closes over are constants of the compiled program, so that XLA can compute with them: scalars, and
    arrays of at most `embedded_constants_max_bytes` each (None: of any size) that aren't divided among devices. Others
    are passed at each call. Functions that are equal but for constants are compiled each for itself; with 0, once.

    With `reroll`, layers that a Python loop repeats become one loop of the program, which takes less to compile and may
    take more to run: `transforms.reroll`, where it saves 100 equations. With "auto" only if all loops save 1000, for
    less of which they and their stacks take as long to compile. A function's call within another
    transformation has these loops, too; `jit(grad(f), reroll=True)` finds them in the gradient. On the CPU, what is
    compiled takes and returns stacks: arguments and results are their rows from then on, and a row keeps its stack.
    Results are written over donated stacks; what isn't donated takes more memory than without loops.

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
            keep_unused=keep_unused,
            device=device,
            backend=backend,
            compiler_options=compiler_options,
            in_shardings=in_shardings,
            out_shardings=out_shardings,
            debug_nans=debug_nans,
            debug_infs=debug_infs,
            warn_replicated=warn_replicated,
            embedded_constants_max_bytes=embedded_constants_max_bytes,
            reroll=reroll,
        )
    check_callable("jit", fun)
    said = None not in (static_argnums, static_argnames), None not in (donate_argnums, donate_argnames)
    static = resolve_static(fun, static_argnums, static_argnames, stand=said[0])
    donated = resolve_static(fun, donate_argnums, donate_argnames, "donated", stand=said[1])
    both = {*static[0]} & {*donated[0]} or {*static[1]} & {*donated[1]}
    if both:
        raise StaticArgumentError(f"jit: arguments can't be both static and donated: {sorted(map(str, both))}")
    check = Check.asked("jit", fun, debug_nans, debug_infs)
    where = in_shardings, out_shardings
    shardings = JitShardings.of(*where, warn_replicated, compiler_options, device, backend)
    largest = checked_size(embedded_constants_max_bytes)
    rerolling = Rerolling.of(reroll, largest)
    return Jitted(fun, static, donated if check is None else ((), ()), inline, check, shardings, largest, rerolling)


@final
class Jitted(AheadOfTime[P, R]):
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
        largest: int | None = EMBEDDED_BYTES,
        rerolling: Rerolling | None = None,
    ) -> None:
        update_wrapper(self, fun)
        self._fun = fun
        self.static = static
        self._donated = donated
        self._donation = Donating(static, donated)
        self._inline = inline
        self._check = check
        self._shardings = shardings
        self._largest = largest
        self._rerolling = rerolling
        self._plain = static == ((), ()) and check is None
        self._direct = self._plain and donated == ((), ())
        self._own: BoundedCache[Hashable, Traced] = BoundedCache(TRACES_PER_FUNCTION, "traced functions")
        self._calls = JittedCalls(INTAKE)
        self._by_mesh, self._misses = CallsByMesh(INTAKE), MissLog()
        self._refs = Lendings(
            fun, shardings, lambda f, said: Jitted(f, static, donated, inline, check, said, largest, rerolling)
        )
        for cache in (self._own, self._calls, self._by_mesh, self._misses):
            register(cache, temporary=True)

    @override
    def __reduce__(self) -> str | tuple[object, ...]:
        marks = self._inline, self._check, self._shardings, self._largest, self._rerolling
        return name_in_module(self) or (Jitted, (self._fun, self.static, self._donated, *marks))

    @override
    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:  # costs nothing, unlike the decorator
            frame = innermost()
            if frame is ROOT and self._direct:
                ready: R = self._calls.run(args, kwargs, ())
                if ready is not MISS:
                    return ready
            outside = frame is ROOT or is_outside(frame := active_frame())
            if frame is not ROOT and runs_by_python():
                return self._fun(*args, **kwargs)
            calls = self._calls if frame is ROOT else self._calls_within(frame)
            ask = calls.run if outside else calls.bind
            call = None if self._plain else split_resolved(self._fun, args, kwargs, *self.static)
            if call is not None and self._check is not None:
                return self._checked(self._check, call, args, kwargs)
            result = ask(args, kwargs, ()) if call is None else ask(call.args, call.kwargs, call.key)
            if result is MISS:
                result = self._call(call or StaticCall(self._fun, args, kwargs, ()), args, kwargs)
        except Exception as error:
            result = self._refs.of(args, kwargs) if isinstance(error, RefError) else None
            if result is None:
                show_users_frames(error)
                raise
        else:
            if outside and self._donated != ((), ()):
                self._donation.use_up(args, kwargs, result)
        found: R = self._refs.run(result) if type(result) is Lent else result
        return found

    def call_with_states(self, lent: Lent) -> R:
        """A call of a function of arrays in the place of Refs, whose states it takes."""
        call = split_resolved(self._fun, lent.args, lent.kwargs, *self.static)
        call = evolve(call, link=lambda traced: lent.linked(traced, self._fun))
        given = call, lent.args, lent.kwargs
        return self._call(*given) if self._check is None else self._checked(self._check, *given)

    def _call(self, call: StaticCall, args: tuple[object, ...], kwargs: dict[str, object]) -> R:
        """A call that isn't prepared: the next one with such arguments will be."""
        arrays, treedef = flatten_arguments(call.function, call.args, call.kwargs)
        avals = [array.aval for array in arrays]
        lies = self._lies(call, arrays, avals, treedef)
        traced, kept = self._trace(call, avals, treedef, lies)
        donated = self._donation(args, kwargs, traced, avals) if self._donated != ((), ()) else ()
        captured = brought(traced, arrays, self._shardings)
        inputs = (*captured, *arrays, *(cell.current() for cell in traced.cells))
        complete = captured is traced.captured and len(inputs) == len(traced.jaxpr.invars) and not traced.cells
        inputs = inputs if complete else tuple(array for array in inputs if array.aval.dtype != FLOAT0)
        name = function_name(self._fun)
        runner: AnyLaunch | Equation | None
        if top_frame(inputs, traced.jaxpr.effects) is ROOT:
            inputs = on_device(self._shardings, inputs)
            donated = donated if any(donated) else ()
            rolled, asked = self._rerolling is not None, self._asked(call, traced, avals, treedef)
            outs, launch = launched_first(traced, inputs, name, self._largest, donated, asked, rolled)
            runner = launch() if complete and kept else None
        elif self._inline:
            outs, runner = eval_jaxpr(self._lying(call, traced, avals, treedef), (), *inputs), None
        else:
            equation = Call(name, self._lying(call, traced, avals, treedef))
            outs = bind(equation, *inputs)
            kept = complete and kept and lies is None and not (self._shardings and self._shardings.options)
            runner = Equation(equation, captured) if kept and not any(map(is_put, captured)) else None
        if runner is not None:
            calls = self._calls_within(active_frame())
            calls.keep(call.args, call.kwargs, call.key, treedef, avals, traced.assemble, runner)
        result: R = traced.results(outs)
        return result

    def _calls_within(self, frame: Frame) -> JittedCalls:
        plain = frame.mesh is None and frame.defaults is None
        return self._calls if plain else self._by_mesh.under(frame.mesh, frame.defaults)

    def _checked(self, check: Check, call: StaticCall, args: tuple[object, ...], kwargs: dict[str, object]) -> R:
        """A call whose results are looked at."""
        arrays, treedef = flatten_arguments(call.function, call.args, call.kwargs)
        avals = [array.aval for array in arrays]
        traced, _ = self._trace(call, avals, treedef, self._lies(call, arrays, avals, treedef))
        before = (*traced.captured, *arrays, *(cell.current() for cell in traced.cells))
        result = self._call(call, args, kwargs)
        checked_program(check, result, traced.jaxpr, [array for array in before if array.aval.dtype != FLOAT0])
        return result

    @override
    def record_of(self, args: tuple[Any, ...], kwargs: dict[str, Any], places: Places | None) -> Record[P, R]:
        call = split_resolved(self._fun, args, kwargs, *self.static)
        leaves, treedef = tree.flatten((call.args, call.kwargs))
        avals = [abstractify(leaf) for leaf in leaves]
        traced, _ = self._trace(call, avals, treedef, self._lies(call, leaves, avals, treedef))
        donated = self._donation(args, kwargs, traced, avals)
        asked, lie = self._asked(call, traced, avals, treedef), lying_already(call, traced, avals)
        more = donated, asked, lie, self._largest, self._rerolling is not None, places
        return api.traced.record(self._fun, "jit", traced, call, self.static, treedef, avals, *more)

    @override
    def explanation_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Explanation:
        from tinyjax.api.explain import explain  # only here, as it takes a while to load

        call = split_resolved(self._fun, args, kwargs, *self.static)
        leaves, treedef = tree.flatten((call.args, call.kwargs))
        key = remembered_by(signature_key(call, avals := tuple(map(abstractify, leaves)), treedef), self._rerolling)
        return explain(self._fun, self._misses, call, avals, treedef, traces_of(self._fun, self._own).get(key))

    def clear_cache(self) -> None:
        """Forgets what the function was traced as: its next call traces it again. What XLA has made of a program is
        still found by that; `tinyjax.clear_caches()` forgets it, too.

        >>> scale = 2.0
        >>> f = jit(lambda x: scale * x)
        >>> first, scale, again = float(f(1.0)), 3.0, float(f(1.0))
        >>> f.clear_cache()
        >>> first, again, float(f(1.0))
        (2.0, 2.0, 3.0)
        """
        for cache in (traces_of(self._fun, self._own), self._calls, self._by_mesh, self._misses, self._refs):
            cache.clear()

    @override
    def __repr__(self) -> str:
        return f"<jit of {self._fun!r}>"

    def _lies(
        self, call: StaticCall, leaves: Sequence[object], avals: Sequence[ShapedArray], treedef: PyTreeDef
    ) -> Given | None:
        """How arguments lie on a mesh with Explicit axes."""
        if self._shardings is not None:
            leaves = self._shardings.chosen(call, leaves, avals, treedef)
        return given(*kept_leaves(leaves, avals))

    def _trace(
        self, call: StaticCall, avals: Sequence[ShapedArray], treedef: PyTreeDef, lies: Given | None
    ) -> tuple[Traced, bool]:
        """The program for a signature, and whether it is kept: traced once, unless it depends on another transformation
        in progress."""
        key: Hashable = remembered_by(signature_key(call, avals, treedef), self._rerolling)
        if lies is not None:
            key = key, lies
        cache = traces_of(self._fun, self._own)
        found = cache.get(key)
        kept = found is not None
        if found is None:
            stage = staged_alone if self._rerolling is None else self._rerolling.staged
            found = stage(call.function, treedef, avals, lies)
            if kept := reusable(found):
                cache.put(key, found)
            note_miss(self._fun, self._misses, call, avals, treedef, None if kept else found)
        return found if call.link is None else call.link(found), kept

    def _asked(
        self, call: StaticCall, traced: Traced, avals: Sequence[ShapedArray], treedef: PyTreeDef
    ) -> machine.Asked | None:
        said = self._shardings
        return in_force(None if said is None else said.asked(call, traced, avals, treedef), active_frame().mesh)

    def _lying(self, call: StaticCall, traced: Traced, avals: Sequence[ShapedArray], treedef: PyTreeDef) -> Jaxpr:
        """The program that says itself how its inputs and outputs lie."""
        said = self._shardings
        return traced.jaxpr if said is None else constrained(traced.jaxpr, said.within(call, traced, avals, treedef))
