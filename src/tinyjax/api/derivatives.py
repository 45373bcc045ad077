"""Forward mode, linearization and reverse mode, on functions of lists of arrays.

Each works at the innermost active frame: what it computes there can be traced further by the transformations outside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, final

import numpy as np
from attrs import evolve, frozen
from typing_extensions import TypeVar

from tinyjax.api.linearizing import Linearizing
from tinyjax.arrays.elementwise import convert
from tinyjax.contexts import transposition
from tinyjax.contexts.cells import Leaving
from tinyjax.contexts.jvp import Dual, JvpContext
from tinyjax.contexts.partial_eval import Partial, PartialEvalContext
from tinyjax.contexts.rebuilding import Known
from tinyjax.contexts.recording import Equations, Tape
from tinyjax.contexts.watching import alike
from tinyjax.control.carry import rearranged
from tinyjax.errors import LinearityError, RefError, TangentError, VaryingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import COMPLEXES, FLOAT0, INEXACT
from tinyjax.ir.interpret import interpret
from tinyjax.ir.primitive import UndefPrimal, Zero
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.tangents import has_tangent, nonzero_marks, with_zeros
from tinyjax.lax.explicit import explicit_shardings, lying_as
from tinyjax.lax.layouts import left_to_xla
from tinyjax.lax.placing import beside, mesh_of
from tinyjax.meshes import Mesh, NamedSharding
from tinyjax.primitives.boundaries import fit
from tinyjax.primitives.casts import cast
from tinyjax.primitives.structure import instantiate
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import active_frame, as_array, top_frame
from tinyjax.tracing.core import activate
from tinyjax.tracing.frames import OpenFrame, V
from tinyjax.tracing.functions import FlatFunction, Results, float0_zeros
from tinyjax.transforms.kept import needed
from tinyjax.transforms.unread import but_for_unread

if TYPE_CHECKING:
    from tinyjax.refs.backward import BackwardState


@final
@frozen(eq=False)
class JvpResults:
    """A function's results and their tangents."""

    primals: Results
    tangents: list[Array]


#: A program, or the tape of one, which is all that it takes to run it backwards.
L = TypeVar("L", bound=Equations, default=Jaxpr)


@final
@frozen
class LinearProgram(Generic[L]):
    """The derivative of a function of values of these types, as a linear program that residuals feed.

    `nonzero_in` and `nonzero_out` mark the inputs and results whose tangents the program takes and returns; all other
    tangents are zero.
    """

    jaxpr: L
    in_avals: tuple[ShapedArray, ...]
    out_avals: tuple[ShapedArray, ...]
    nonzero_in: tuple[bool, ...]
    nonzero_out: tuple[bool, ...]
    #: How the values lie on a mesh with Explicit axes, and so do their cotangents. Empty: there is none.
    lies: tuple[NamedSharding | None, ...] = ()
    #: Refs that rules read and write: their states are inputs of the program before those, and results before others.
    states: tuple[BackwardState, ...] = ()
    #: The mesh on which a result lies: cotangents of the host go there.
    mesh: Mesh | None = None


@final
@frozen(eq=False)
class Linearized(Generic[L]):
    """A function's results at a point, and its derivative there: a linear program and the residuals that feed it."""

    results: Results
    program: LinearProgram[L]
    residuals: tuple[Array, ...]


def tangent_array(frame: OpenFrame[V], tangent: V | Zero, aval: ShapedArray) -> Array:
    """A tangent or cotangent of type `aval`, as an array as weak as that; those of integers have no bits."""
    ctx = frame.context
    if isinstance(tangent, Zero):
        expected = aval.tangent
        return float0_zeros(aval.shape) if expected.dtype == FLOAT0 else frame.wrap(instantiate(ctx, Zero(expected)))
    return frame.wrap(fit(ctx, tangent, aval))


def check_tangents(
    what: str,
    names: tuple[str, str],
    avals: Sequence[ShapedArray],
    tangents: Sequence[Array],
    where: Callable[[int], str],
    *,
    any_dtype: bool = False,
) -> list[Array]:
    """The tangents (or cotangents), which must have the tangent types of `avals`; weak scalars take their dtype. With
    `any_dtype`, what is given for values without derivatives needs the right shape only."""
    checked: list[Array] = []
    for i, (aval, tangent) in enumerate(zip(avals, tangents, strict=True)):
        expected, found = aval.tangent, tangent.aval
        if found.axes:
            check_varying(f"{what}: the {names[1]} of {where(i)}", found, names[0], aval)
        lossless = expected.dtype in INEXACT and (found.dtype not in COMPLEXES or expected.dtype in COMPLEXES)
        if found.weak_type and found.shape == expected.shape and lossless:
            checked.append(convert(tangent, expected.dtype))
            continue
        if any_dtype and expected.dtype == FLOAT0 and found.shape == expected.shape:
            checked.append(float0_zeros(expected.shape))
            continue
        if not found.matches(expected):
            hint = ""
            if expected.dtype == FLOAT0:
                hint = f" A value of type {aval} has no derivative: pass zeros of dtype tinyjax.float0."
            raise TangentError(
                f"{what}: the {names[1]} of {where(i)} must have type {expected}, that of its {names[0]}; "
                f"got {found}.{hint}"
            )
        checked.append(tangent)
    return checked


def check_varying(what: str, found: ShapedArray, whose: str, aval: ShapedArray) -> None:
    """A VaryingError for a tangent that varies along axes of a mesh along which the value doesn't whose it is."""
    own, given = aval.mat, found.mat
    more = sorted(given.varying - own.varying - own.unreduced - own.reduced)
    if more:
        raise VaryingError(
            f"{what} is {found}, which varies along axis {more[0]!r} of the mesh, but its {whose} is {aval}, the same "
            f"on all devices. For what each device has by itself, have that vary, too, before it is differentiated: "
            f"lax.pcast(x, {more[0]!r}, to='varying'); for the sum over devices, write lax.psum of the former."
        )


def jvp(f: FlatFunction, primals: Sequence[Array], tangents: Sequence[Array]) -> JvpResults:
    """The results of f and their tangents."""

    def run(frame: OpenFrame[V]) -> JvpResults:
        context = JvpContext(frame.context)
        duals = [dual(frame, primal, tangent) for primal, tangent in zip(primals, tangents, strict=True)]
        with activate(context, f) as inner, inner:
            inner.cells = Leaving(lambda x: frame.wrap(_not_moving(inner.read(x), f).primal))
            results = f([inner.wrap(pair) for pair in duals])
            outs = [inner.read(array) for array in results.arrays]
            values = [frame.wrap(out.primal) for out in outs]
            lowered = results.replace(values, lambda x: frame.wrap(inner.read(x).primal))
        with context.cursor.attributing():
            found = [tangent_array(frame, o.tangent, value.aval) for o, value in zip(outs, values, strict=True)]
        return JvpResults(lowered, found)

    return active_frame().open(run)


def dual(frame: OpenFrame[V], primal: Array, tangent: Array) -> Dual[V]:
    value = frame.read(primal)
    return Dual(value, Zero(tangent.aval) if tangent.aval.dtype == FLOAT0 else frame.read(tangent))


def _not_moving(pair: Dual[V], f: FlatFunction) -> Dual[V]:
    """A pair whose tangent is zero, which is put into a cell outside of the function that is differentiated."""
    if isinstance(pair.tangent, Zero):
        return pair
    raise RefError(
        f"{f.label} writes a value that is differentiated to a Ref that was made outside. Write "
        "tinyjax.lax.stop_gradient(value) to it, or make the Ref inside, or differentiate with respect to it: pass it "
        "to vjp."
    )


def linearize(f: FlatFunction, primals: Sequence[Array]) -> Linearized:
    """The results of f, and its derivative as a linear program."""
    return _linearized(f, primals, Tape.numbered)


def record(f: FlatFunction, primals: Sequence[Array]) -> Linearized[Tape]:
    """The same, with the linear program as it was recorded: for who runs it backwards, and nothing else."""
    return _linearized(f, primals, lambda tape: tape)


def _linearized(f: FlatFunction, primals: Sequence[Array], form: Callable[[Tape], L]) -> Linearized[L]:
    """Forward mode over partial evaluation."""
    lies = explicit_shardings(primals)

    def run(frame: OpenFrame[V]) -> Linearized[L]:
        partial = PartialEvalContext(frame.context)
        context = JvpContext(alike(frame.context, partial))
        avals = tuple(primal.aval for primal in primals)
        duals: list[Dual[Partial[V]]] = []
        for primal, aval in zip(primals, avals, strict=True):
            tangent = partial.unknown(aval) if has_tangent(aval) else Zero(aval.tangent)
            duals.append(Dual(Known(frame.read(primal)), tangent))
        with activate(context, f) as inner, inner:
            cells = Linearizing(
                lambda x: inner.wrap(Dual(Known(frame.read(x)), partial.unknown(x.aval))),
                lambda x: frame.wrap(known_value(_not_moving(inner.read(x), f).primal)),
                lambda x: frame.wrap(known_value(inner.read(x).primal)),
            )
            inner.cells = cells
            results = f([inner.wrap(pair) for pair in duals])
            outs = [inner.read(array) for array in results.arrays]
            values = [frame.wrap(known_value(out.primal)) for out in outs]
            lowered = results.replace(values, lambda x: frame.wrap(known_value(inner.read(x).primal)))
            last = [inner.read(array).tangent for array in cells.states.values()]
        tangents = [partial.instantiate(instantiate(partial, tangent)) for tangent in last]
        tangents += [
            partial.instantiate(cast(partial, out.tangent, value.aval.axes))
            for out, value in zip(outs, values, strict=True)
            if not isinstance(out.tangent, Zero)
        ]
        unfinished = needed(partial.finish(tangents), partial.parent)
        program = LinearProgram(
            form(_states_first(unfinished.tape, len(unfinished.known), len(last))),
            avals,
            tuple(value.aval for value in values),
            nonzero_marks(pair.tangent for pair in duals),
            nonzero_marks(out.tangent for out in outs),
            lies,
            tuple(cells.states),
            mesh_of(values),
        )
        return Linearized(lowered, program, tuple(map(frame.wrap, unfinished.residuals)))

    return active_frame().open(run)


def _states_first(tape: Tape, residuals: int, states: int) -> Tape:
    """A linear program whose last inputs are states, with them after the residuals."""
    if not states:
        return tape
    inputs = tape.invars
    return evolve(tape, invars=(*inputs[:residuals], *inputs[-states:], *inputs[residuals:-states]))


def first_results(program: LinearProgram, count: int) -> LinearProgram:
    """The derivative of the first results alone."""
    marks = program.nonzero_out[:count]
    jaxpr = rearranged(program.jaxpr, None, tuple(range(len(program.states) + sum(marks))))
    return evolve(program, jaxpr=jaxpr, out_avals=program.out_avals[:count], nonzero_out=marks)


def known_value(primal: Partial[V]) -> V:
    """The value of a primal: in linearization only tangents are unknown."""
    if isinstance(primal, Known):
        return primal.value
    raise LinearityError(f"a primal of type {primal.atom.aval} depends on a tangent: some derivative rule is wrong")


def push_forward(program: LinearProgram, residuals: Sequence[Array], tangents: Sequence[Array]) -> list[Array]:
    """Tangents of the results for tangents of the inputs."""
    given = [t for t, mark in zip(tangents, program.nonzero_in, strict=True) if mark]
    states = [as_array(np.zeros(state.aval.shape, state.aval.dtype)) for state in program.states]
    arrays = [*residuals, *states, *given]

    def run(frame: OpenFrame[V]) -> list[Array]:
        values = [frame.read(array) for array in arrays]
        found = but_for_unread(lambda jaxpr: interpret(frame.context, jaxpr, values), program.jaxpr)
        outs = with_zeros(found[len(states) :], program.nonzero_out, program.out_avals)
        return [tangent_array(frame, t, aval) for t, aval in zip(outs, program.out_avals, strict=True)]

    return top_frame(arrays, program.jaxpr.effects).open(run)


def pull_back(program: LinearProgram[L], residuals: Sequence[Array], cotangents: Sequence[Array]) -> list[Array]:
    """Cotangents of the inputs for cotangents of the results. Refs that rules write to hold what they have written."""
    given = [beside(ct, program.mesh) for ct, mark in zip(cotangents, program.nonzero_out, strict=True) if mark]
    varying = [aval.cotangent.axes for aval, mark in zip(program.out_avals, program.nonzero_out, strict=True) if mark]
    if program.lies:
        plain = evolve(program, lies=(), mesh=None)
        found = pull_back(plain, list(map(left_to_xla, residuals)), list(map(left_to_xla, cotangents)))
        return [lying_as(ct, sharding) for ct, sharding in zip(found, program.lies, strict=True)]

    states = [state.hand_in() for state in program.states]

    def run(frame: OpenFrame[V]) -> list[Array]:
        kept: list[V | UndefPrimal] = [frame.read(array) for array in residuals]
        moving = [UndefPrimal(aval) for aval, mark in zip(program.in_avals, program.nonzero_in, strict=True) if mark]
        unknown = [*[UndefPrimal(state.aval) for state in program.states], *moving]
        ctx = frame.context
        cts: list[V | Zero] = [cast(ctx, frame.read(ct), axes) for ct, axes in zip(given, varying, strict=True)]
        found = transposition.transpose(ctx, program.jaxpr, [*kept, *unknown], [*map(frame.read, states), *cts])
        linear, n = [ct for ct in found if ct is not None], len(states)
        results = with_zeros(linear[n:], program.nonzero_in, program.in_avals)
        both = [*zip(linear[:n], [x.aval for x in states], strict=True), *zip(results, program.in_avals, strict=True)]
        return [tangent_array(frame, ct, aval.cotangent) for ct, aval in both]

    outs = top_frame([*residuals, *states, *given], program.jaxpr.effects).open(run)
    for state, last in zip(program.states, outs, strict=False):
        state.take_out(last)
    return outs[len(states) :]


def transpose_at(jaxpr: Jaxpr, constants: Sequence[Array], cotangents: Sequence[Array]) -> list[Array]:
    """Cotangents of the inputs of a linear program, whose first inputs are constants."""

    def run(frame: OpenFrame[V]) -> list[Array]:
        known: list[V | UndefPrimal] = [frame.read(array) for array in constants]
        avals = jaxpr.in_avals[len(known) :]
        unknown = list(map(UndefPrimal, avals))
        cts: list[V | Zero] = [frame.read(array) for array in cotangents]
        found = transposition.transpose(frame.context, jaxpr, [*known, *unknown], cts)
        results = [ct for ct in found if ct is not None]
        return [tangent_array(frame, ct, aval.cotangent) for ct, aval in zip(results, avals, strict=True)]

    return top_frame([*constants, *cotangents], jaxpr.effects).open(run)
