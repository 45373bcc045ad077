"""`trace`: a function as a program that knows its trees and names, and is called like the function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, ParamSpec, TypeVar, final, overload

from attrs import evolve, field, frozen
from typing_extensions import override

from tinyjax.api.adapting import adapted
from tinyjax.api.arguments import StaticCall, arranged, resolve_static, split_resolved
from tinyjax.api.embedding import launched
from tinyjax.api.jit_shardings import constrained
from tinyjax.api.lowered import Lowered
from tinyjax.api.make_jaxpr import abstractify, closed_values, eval_jaxpr
from tinyjax.api.signature_info import Signature, lying_inputs
from tinyjax.backend import EMBEDDED_BYTES, Asked
from tinyjax.control.call import Call
from tinyjax.errors import InputError, StaticArgumentError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import FLOAT0
from tinyjax.ir.effects import Effects
from tinyjax.ir.holding import HoldsProgram
from tinyjax.ir.immutable import Immutable
from tinyjax.ir.program import ClosedJaxpr, Eqn
from tinyjax.ir.type_lists import all_match, listed
from tinyjax.ir.value import ConcreteValue
from tinyjax.lax.bodies import stage
from tinyjax.lax.carried_cells import without_idle
from tinyjax.meshes import Sharding
from tinyjax.refs.lending import Places, lending
from tinyjax.refs.ref import AnyRef
from tinyjax.refs.staged import StagedRefs, places_among, with_arrays
from tinyjax.tracebacks import filtered
from tinyjax.tracing import programs, tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import ROOT, ConcreteArray, top_frame
from tinyjax.tracing.core import bind
from tinyjax.tracing.functions import (
    argument_paths,
    as_arrays,
    check_callable,
    float0_zeros,
    function_name,
)

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef

P = ParamSpec("P")
R = TypeVar("R")


@final
class _SignatureOfInstance:
    """The function's signature, for `inspect.signature` of a record; the class has its own."""

    def __get__(self, instance: Traced[..., Any] | None, owner: type) -> inspect.Signature:
        if instance is None or instance.signature is None:
            raise AttributeError("__signature__")
        return instance.signature


@final
@frozen(repr=False)
class Traced(HoldsProgram, Immutable, Generic[P, R]):
    """A function as a program, for arguments of one signature: what `trace` and `jit(f).trace` return.

    It is called like the function: with trees of the same structure, arrays of the same types, and equal static
    arguments. If it comes from `jit`, it runs compiled, as one call; else equation by equation. It can be transformed
    like any function, and `transforms` and `tools` take it as a program. Compared by value: what the function and its
    arguments are called is no part of that, but whether it runs compiled is. So `jit(f).trace(x)` isn't equal to
    `trace(f, x)`; their programs are.

    `jaxpr` is the program, `in_tree` and `out_tree` are the structures of `(args, kwargs)`, without static arguments,
    and of the results. If the function takes Refs or closes over them, what they hold before and after is among the
    inputs and results of the program (see `make_jaxpr`); a call reads and writes the Refs themselves.
    """

    jaxpr: ClosedJaxpr
    in_tree: PyTreeDef
    out_tree: PyTreeDef
    compiled: bool
    #: Where leaves of dtype float0 are, which are no inputs of the program, nor outputs.
    _without_inputs: tuple[tuple[int, ShapedArray], ...]
    _without_outputs: tuple[tuple[int, ShapedArray], ...]
    #: Which arguments are static, what they are, and which are donated.
    _static: tuple[tuple[int, ...], tuple[str, ...]]
    _key: tuple[Hashable, ...]
    _donated: tuple[bool, ...]
    #: How inputs and outputs are asked to lie on a mesh, and how the arguments it was traced for lie.
    _asked: Asked | None
    _lie: tuple[Sharding | None, ...]
    #: How large the constants of the compiled program are, in bytes; None for any size.
    _largest: int | None
    #: Whether the program has loops of layers, and is compiled for stacks.
    _rolled: bool
    #: The Refs that it takes and closes over, if there are any.
    _refs: StagedRefs | None
    fun_name: str = field(eq=False)
    #: The names of all leaves of the arguments, and the function's signature, if it is known.
    _paths: tuple[str, ...] = field(eq=False)
    signature: inspect.Signature | None = field(eq=False)

    @property
    @override
    def closed_jaxpr(self) -> ClosedJaxpr:
        return self.jaxpr

    @override
    def with_program(self, program: ClosedJaxpr) -> Traced[P, R]:
        """The same function as another program, say one that a pass has made of this one.

        An InputError unless inputs and outputs have the same types.
        """
        ins, outs = self.jaxpr.in_avals, self.jaxpr.out_avals
        if not all_match(program.in_avals, ins) or not all_match(program.out_avals, outs):
            raise InputError(
                f"{self._label}: the program must take {listed(ins)} and return {listed(outs)}, but takes "
                f"{listed(program.in_avals)} and returns {listed(program.out_avals)}"
            )
        named = program.jaxpr.with_names([*[""] * len(program.consts), *self.input_names])
        return evolve(self, jaxpr=ClosedJaxpr(named, program.consts))

    @property
    def __name__(self) -> str:
        return self.fun_name

    __signature__: ClassVar[_SignatureOfInstance] = _SignatureOfInstance()

    @property
    def eqns(self) -> tuple[Eqn, ...]:
        return self.jaxpr.eqns

    @property
    def consts(self) -> tuple[ConcreteValue, ...]:
        return self.jaxpr.consts

    @property
    def effects(self) -> Effects:
        return self.jaxpr.effects

    @property
    def in_avals(self) -> Any:  # the user's own trees
        """The types of the arguments, `(args, kwargs)`: along which Explicit axes of a mesh they lie, too."""
        return self._signature.in_avals

    @property
    def out_avals(self) -> Any:  # the user's own tree
        """The types of the results, which say the same. Those of the program are in its `jaxpr`."""
        return self._signature.out_avals(self.jaxpr.jaxpr, self._lie, self._asked)

    @property
    def has_refs(self) -> bool:
        """Whether it takes Refs, or closes over them."""
        return self._refs is not None

    @property
    def input_names(self) -> tuple[str, ...]:
        """What the function calls the leaves of its arguments: `params['w']`."""
        cells = () if self._refs is None else self._refs.cells
        return (*[path for i, path in enumerate(self._paths) if i not in self._erased], *[""] * len(cells))

    @property
    def out_info(self) -> Any:  # the user's own tree
        """The tree of the types of the results."""
        return self._signature.out_types(self.jaxpr.jaxpr, self._lie, () if self._asked is None else self._asked.outs)

    @property
    def args_info(self) -> Any:  # the user's own trees
        """The trees of the arguments, `(args, kwargs)`: for each leaf its type, and whether it is donated."""
        return self._signature.args_info

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """Which leaves of the arguments are donated."""
        return self._signature.donate_argnums

    @property
    def _signature(self) -> Signature:
        (ins, outs), without = self._own_avals, (self._without_inputs, self._without_outputs)
        given = self._donated[: len(ins)] or (False,) * len(ins)
        lying = lying_inputs(len(self.jaxpr.in_avals), self._lie, self._asked)[: len(ins)]
        return Signature(self.in_tree, self.out_tree, ins, outs, given, *without, lying)

    @property
    def _own_avals(self) -> tuple[tuple[ShapedArray, ...], tuple[ShapedArray, ...]]:
        """The types of inputs and outputs of the program that are leaves of arguments and results."""
        found = self.jaxpr.in_avals, self.jaxpr.out_avals
        return found if self._refs is None else self._refs.own(*found)

    @property
    def _erased(self) -> frozenset[int]:
        return frozenset([i for i, _ in self._without_inputs])

    def _with_float0(self, found: Sequence[Any], make: Callable[[ShapedArray], Any]) -> list[Any]:
        """The leaves of the results, with those of dtype float0."""
        leaves = list(found)
        for i, aval in self._without_outputs:
            leaves.insert(i, make(aval))
        return leaves

    @filtered
    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        call = split_resolved(self, args, kwargs, *self._static)
        if call.key != self._key:
            raise StaticArgumentError(
                f"{self._label}: the static arguments are part of the program, and these are others than those that it "
                "was traced with. Trace the function again, or call it."
            )
        arrays, refs = self._arrays(call)
        if self._refs is None:
            outs = self._run(arrays)
        else:
            outs = self._refs.run(self.jaxpr.jaxpr, refs, lambda held: self._run([*arrays, *held]))
        result: R = tree.unflatten(self.out_tree, self._with_float0(outs, lambda aval: float0_zeros(aval.shape)))
        return result

    def _run(self, arrays: Sequence[Array]) -> Sequence[Array]:
        if not self.compiled:
            return eval_jaxpr(self.jaxpr, (), *arrays)
        consts, program = self.jaxpr.consts, self.jaxpr.jaxpr
        if self._asked is None and top_frame(arrays, program.effects) is ROOT:
            values = [*consts, *[array.value for array in arrays if isinstance(array, ConcreteArray)]]
            _, found = launched(program, values, len(consts), self.fun_name, self._largest)
            return list(map(ConcreteArray, found))
        program = program if self._asked is None else constrained(program, self._asked)
        return bind(Call(self.fun_name, program), *map(ConcreteArray, consts), *arrays)

    def _arrays(self, call: StaticCall) -> tuple[list[Array], tuple[AnyRef, ...]]:
        """The leaves of the arguments, which must be of the types that the function was traced for; and the Refs among
        them."""
        leaves, treedef = tree.flatten((call.args, call.kwargs))
        if treedef != self.in_tree:
            leaves, treedef = tree.flatten(arranged(None if self._key else self.signature, self.in_tree, call))
        wanted = "the arguments that it was traced for"
        tree.check_same_structure(self._label, self.in_tree, treedef, wanted, "the arguments")
        refs: tuple[AnyRef, ...] = ()
        if self._refs is not None:
            leaves, refs = self._refs.taken(self._label, self, leaves, treedef, alike=True)
        arrays = as_arrays(leaves, lambda i: f"argument {self._paths[i]} of {self.fun_name}")
        avals = self._own_avals[0]
        kept = adapted([array for i, array in enumerate(arrays) if i not in self._erased], avals)
        for name, array, aval in zip(self.input_names, kept, avals, strict=False):
            if not array.aval.matches(aval):
                raise InputError(
                    f"{self._label}: argument {name} must be {aval}, as it was traced for, got {array.aval}. Convert "
                    "it, or trace the function again."
                )
        return kept, refs

    def lower(self, *, lowering_platforms: Sequence[str] | None = None) -> Lowered:
        """The StableHLO of the function. `lowering_platforms` names what it is for, if that isn't the default platform
        here: one platform, such as `("cuda",)`.

        >>> from tinyjax import ShapedArray, jit
        >>> traced = jit(lambda x: x + 1.0).trace(ShapedArray((3,), "float32"))
        >>> "stablehlo.add" in traced.lower(lowering_platforms=("cuda",)).as_text()
        True
        """
        platform = None
        if lowering_platforms is not None:
            given = (lowering_platforms,) if isinstance(lowering_platforms, str) else tuple(lowering_platforms)
            if len(given) != 1:
                raise InputError(f"lower: a module is for one platform, got lowering_platforms={given}")
            (platform,) = given
        captured = tuple(map(ConcreteArray, self.jaxpr.consts))
        erased = {i: float0_zeros(aval.shape) for i, aval in self._without_outputs}
        program = programs.Traced(self.jaxpr.jaxpr, captured, self.out_tree, erased)
        donated = (False,) * len(captured) + (self._donated or (False,) * len(self.jaxpr.in_avals))
        more = platform, self._largest, self._without_inputs, self._rolled, self._refs
        return Lowered(program, self.fun_name, donated, self.in_tree, self._asked, self._lie, *more)

    def self_contained(self) -> Traced[P, R]:
        """The same without static arguments, which its program is for, and with a program that says itself how inputs
        and outputs lie on a mesh: as `jit` was told, or else as the arguments did."""
        found, asked = self, evolve(self._asked or Asked(), mesh=None)
        if self._asked is not None or any(self._lie):
            lie = lying_inputs(len(self.jaxpr.jaxpr.invars), self._lie, asked)
            closed = ClosedJaxpr(constrained(self.jaxpr.jaxpr, evolve(asked, ins=lie)), self.jaxpr.consts)
            found = evolve(self, jaxpr=closed, asked=None, lie=())
        return evolve(found, static=((), ()), key=(), signature=None) if self._key else found

    @property
    def _label(self) -> str:
        return f"traced {self.fun_name}"

    @override
    def __str__(self) -> str:
        return str(self.jaxpr)

    @override
    def __repr__(self) -> str:
        named = zip(self.input_names, self._own_avals[0], strict=False)
        arguments = ", ".join(f"{name}: {aval}" for name, aval in named)
        return f"<traced {self.fun_name}({arguments}), {len(self.eqns)} equation{'' if len(self.eqns) == 1 else 's'}>"

    def _repr_html_(self) -> str:
        """What notebooks show."""
        return self.jaxpr._repr_html_()


def record(
    fun: Callable[P, R],
    what: str,
    traced: programs.Traced,
    call: StaticCall,
    static: tuple[tuple[int, ...], tuple[str, ...]],
    in_tree: PyTreeDef,
    avals: Sequence[ShapedArray],
    donated: tuple[bool, ...] = (),
    asked: Asked | None = None,
    lie: Sequence[Sharding | None] = (),
    largest: int | None = EMBEDDED_BYTES,
    rolled: bool = False,
    places: Places | None = None,
) -> Traced[P, R]:
    """The record of a function that was traced for a call. `avals`: of the leaves of its arguments. `asked` and `lie`:
    how inputs and outputs of the program are to lie on a mesh, and how the inputs do. `places`: of those leaves that
    are lent by Refs, if the function is one that `lending` has made."""
    closed = ClosedJaxpr(traced.jaxpr, closed_values(traced, what))
    try:
        signature = inspect.signature(fun)
    except (TypeError, ValueError):
        signature = None
    return Traced(
        closed,
        in_tree,
        traced.treedef if places is None else traced.treedef.children()[0],
        what == "jit",
        tuple((i, aval) for i, aval in enumerate(avals) if aval.dtype == FLOAT0),
        tuple((i, array.aval) for i, array in sorted(traced.erased.items())),
        static,
        call.key,
        donated[len(closed.consts) :] if any(donated) else (),
        asked,
        tuple(lie) if any(lie) else (),
        largest,
        rolled,
        StagedRefs.of(places, traced.cells, fun),
        function_name(fun),
        tuple(argument_paths(call.function, in_tree)),
        signature,
    )


@overload
def trace(
    fun: Callable[P, R], /, *, static_argnums: int | Sequence[int] = (), static_argnames: str | Sequence[str] = ()
) -> Callable[..., Traced[P, R]]: ...
@overload
def trace(
    fun: Callable[P, R],
    /,
    *args: Any,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    **kwargs: Any,
) -> Traced[P, R]: ...
@filtered
def trace(
    fun: Callable[P, R],
    /,
    *args: Any,  # the user's arguments
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    **kwargs: Any,
) -> Traced[P, R] | Callable[..., Traced[P, R]]:
    """`fun` as a program for given arguments, which is itself called like `fun`: `trace(fun)(*args)`, or in short
    `trace(fun, *args)`.

    Arguments are trees of arrays or of their types, as those of `make_jaxpr`. See `Traced` for what is returned.

    >>> import tinyjax as tj
    >>> traced = trace(lambda p, x: {"y": p["w"] * x})({"w": 2.0}, ShapedArray((3,), "f64"))
    >>> traced
    <traced <lambda>(p['w']: ~f64[], x: f64[3]), 1 equation>
    >>> traced({"w": 2.0}, tj.numpy.ones(3))
    {'y': Array([2., 2., 2.], dtype=float64)}
    """
    check_callable("trace", fun)

    @filtered
    def make(*args: Any, **kwargs: Any) -> Traced[P, R]:
        static = resolve_static(fun, static_argnums, static_argnames)
        call = split_resolved(fun, args, kwargs, *static)
        places = places_among(call.function, call.args, call.kwargs)
        function: Callable[..., Any] = fun
        if places is not None:
            whole = places_among(fun, args, kwargs) or places  # static arguments have leaves, too
            function = lending(fun, whole, linked=True)
            call = split_resolved(function, *with_arrays(args, kwargs), *static)
        leaves, treedef = tree.flatten((call.args, call.kwargs))
        avals = [abstractify(leaf) for leaf in leaves]
        traced = without_idle(stage("trace", call.function, treedef, avals, writes=True))
        return record(function, "trace", traced, call, static, treedef, avals, places=places)

    return make(*args, **kwargs) if args or kwargs else make
