"""A call of a `custom_vjp` function, while it is carried out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, final

from attrs import frozen
from typing_extensions import override

from tinyjax.api.arguments import WithStatic
from tinyjax.api.rules.applications import (
    MAX_DEPTH,
    Application,
    Call,
    RuleInProgress,
    check_pair,
    check_types,
    check_zero,
    locating,
    with_elements,
)
from tinyjax.api.rules.cases import MAX_CASES, Asked, ask, choices
from tinyjax.api.rules.cells import ByPython
from tinyjax.api.rules.frames import frame_at
from tinyjax.api.rules.hinted import HintedContext
from tinyjax.api.rules.programs import Program, captured_arrays, stage_with_cells, with_common_captures
from tinyjax.api.rules.threaded import StagedRules, threaded
from tinyjax.api.rules.vjp_cases import StagedBackward, StagedCase, checked_cotangent, linear
from tinyjax.contexts.cells import Cell, Cells
from tinyjax.control.custom_derivatives import CustomVjp
from tinyjax.control.custom_linear import linear_part
from tinyjax.control.recursion import in_general
from tinyjax.errors import InputError, RefError, RuleResultError, TreeError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.merging import completed
from tinyjax.ir.primitive import Outputs, Primitive, Zero
from tinyjax.ir.program import Atom, Jaxpr, Var
from tinyjax.ir.tangents import cotangent_avals, has_tangent, nonzero_marks, spread_marks, with_zeros, without_zeros
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.structure import instantiate
from tinyjax.refs.ref import AnyRef, Ref
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import ROOT, ConcreteArray, active_frame
from tinyjax.tracing.core import activate
from tinyjax.tracing.frames import V
from tinyjax.tracing.functions import as_arrays, function_name

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef

P = ParamSpec("P")
R = TypeVar("R")


@final
@frozen(eq=False)
class CustomVJPPrimal:
    """An argument of a `fwd` rule with symbolic_zeros=True: its value, and whether it is differentiated with respect
    to, as far as that is known."""

    value: Array
    perturbed: bool


@final
class VjpApplication(Application):
    """A call of a custom_vjp function. `_residuals` is the tree of what `fwd` hands to `bwd`."""

    def __init__(
        self,
        call: Call,
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        symbolic_zeros: bool,
        optimize_remat: bool,
    ) -> None:
        super().__init__(call)
        self._optimize_remat = optimize_remat
        self._symbolic_zeros = symbolic_zeros
        self._fwd = fwd
        self._bwd = bwd
        self._residuals: PyTreeDef | None = None
        self._kept: Mapping[int, AnyRef] = {}

    @override
    def cells(self) -> Cells[Array] | None:
        return None if active_frame().parent is ROOT else ByPython()

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        with frame_at(ctx, self.at) as frame:
            frame.cells = ByPython()
            perturbed = nonzero_marks(tangents)
            found = self._run_fwd([frame.wrap(primal) for primal in primals], perturbed)
            outs, residuals = ([frame.read(array) for array in arrays] for arrays in found)
        out_avals = [ctx.aval(out) for out in outs]
        known = [(ctx.aval(value), ctx.concrete(value)) for value in residuals]
        possible = cotangent_avals(out_avals)
        cases = ask(
            choices(len(possible)) if self._tells_apart(len(possible)) else [(True,) * len(possible)],
            lambda given: self._stage_bwd(known, given, out_avals),
        )
        # A cotangent that is zero in one case may be another thing in the next one, or an exception.
        columns = zip(*[cts for _, cts in cases.found], strict=True)
        marks = [
            not isinstance(tangent, Zero) and (bool(cases.refused) or any(not isinstance(ct, Zero) for ct in column))
            for tangent, column in zip(tangents, columns if cases.found else [()] * len(tangents), strict=True)
        ]
        programs: list[tuple[Jaxpr, tuple[Array, ...]]] = []
        for context, cts in cases.found:
            chosen = [ct for ct, mark in zip(cts, marks, strict=True) if mark]
            programs.append(captured_arrays(context.finish([instantiate(context, ct) for ct in chosen])))
        jaxprs, captured = with_common_captures(programs)
        leading = [
            ctx.constant(array.value) if isinstance(array, ConcreteArray) else array.into(frame.context)
            for array in captured
        ]
        moving = [t for t, mark in zip(tangents, marks, strict=True) if mark and not isinstance(t, Zero)]
        count = len(leading) + len(residuals)
        ins = [*(array.aval for array in captured), *(aval for aval, _ in known), *possible]
        outs_of_bwd = [ctx.aval(t) for t in moving]
        lin = linear(self.at.name, count, Asked(cases.given, tuple(jaxprs), cases.refused), ins, outs_of_bwd)
        return outs, linear_part(ctx, lin, [*leading, *residuals], moving, out_avals)

    def _stage_bwd(
        self,
        residuals: Sequence[tuple[ShapedArray, ConcreteValue | None]],
        given: Sequence[bool],
        out_avals: Sequence[ShapedArray],
    ) -> tuple[HintedContext, list[Atom | Zero]]:
        """Python runs `bwd` now, on residuals with their elements, if they are known, and on cotangents without."""
        context = HintedContext()
        leading = [context.argument(aval, value) for aval, value in residuals]
        cts: list[Var | Zero] = [
            context.argument(aval) if mark else Zero(aval)
            for aval, mark in zip(cotangent_avals(out_avals), given, strict=True)
        ]
        with activate(context, self.at) as inner, inner:
            inner.cells = ByPython(reads=False)
            wrapped = [ct if isinstance(ct, Zero) else inner.wrap(ct) for ct in cts]
            returned, _ = self._run_bwd([*map(inner.wrap, leading)], wrapped, out_avals)
            return context, [ct if isinstance(ct, Zero) else inner.read(ct) for ct in returned]

    def _run_fwd(self, primals: Sequence[Array], perturbed: Sequence[bool]) -> tuple[list[Array], list[Array]]:
        """The leaves of the results and of the residuals."""
        call = self.at
        what = f"the fwd rule {function_name(self._fwd)} of custom_vjp function {call.name}"
        fwd = WithStatic(self._fwd, call.nondiff, {}) if call.nondiff else self._fwd
        if self._symbolic_zeros:
            fixed = {i: CustomVJPPrimal(x, False) if isinstance(x, Array) else x for i, x in call.fixed.items()}
            pair = fwd(*call.arguments(list(map(CustomVJPPrimal, primals, perturbed)), fixed))
        else:
            pair = fwd(*call.arguments(primals))
        with locating(self._fwd):
            out, residuals = check_pair(what, pair, "the results", "residuals")
            leaves, treedef = tree.flatten(out)
            if self.treedef is not None:
                tree.check_same_structure(what, self.treedef, treedef, f"the result of {call.name}", "that of fwd")
            self.treedef = treedef
            found, structure = tree.flatten(residuals)
            self._residuals, paths = structure, tree.paths(structure)
            self._kept = {i: leaf for i, leaf in enumerate(found) if isinstance(leaf, AnyRef)}
            for i, ref in self._kept.items():
                if ref.whole.made_here:
                    raise RefError(
                        f"{what} returned a Ref that it made, of type {ref.aval}, as residual{paths[i]}: it is gone "
                        "when bwd runs. Return what it holds, or a Ref from outside."
                    )
            places = [i for i in range(len(found)) if i not in self._kept]
            return (
                as_arrays(leaves, lambda i: f"{what} result{tree.paths(treedef)[i]}"),
                as_arrays([found[i] for i in places], lambda i: f"{what} residual{paths[places[i]]}"),
            )

    def _run_bwd(
        self, residuals: Sequence[Array], cotangents: Sequence[Array | Zero], out_avals: Sequence[ShapedArray]
    ) -> tuple[list[Array | Zero], dict[Ref, Array]]:
        """The cotangent of each traced leaf of the arguments, for cotangents of the results that can have one; and
        those of what Refs held that are arguments."""
        call = self.at
        what = f"the bwd rule {function_name(self._bwd)} of custom_vjp function {call.name}"
        if self.treedef is None or self._residuals is None:
            raise InputError(f"{what} was called before fwd")
        avals = [array.aval.cotangent for array in call.arrays]
        results: list[Array | Zero] = [Zero(aval) for aval in avals]
        of_refs: dict[Ref, Array] = {}
        if not cotangents:  # no result has a derivative
            return results, of_refs
        cts = with_zeros(cotangents, map(has_tangent, out_avals), out_avals)
        if not self._symbolic_zeros:
            cts = list(map(with_elements, cts))
        kept = completed(self._kept, residuals, self._residuals.num_leaves)
        found = self._bwd(
            *call.nondiff.values(), tree.unflatten(self._residuals, kept), tree.unflatten(self.treedef, cts)
        )
        with locating(self._bwd):
            count = len(call.arguments(call.arrays))
            if not isinstance(found, tuple | list) or len(found) != count:
                got = f"one of length {len(found)}" if isinstance(found, tuple | list) else repr(found)
                raise RuleResultError(
                    f"{what} must return a tuple of length {count}, with the cotangent of each argument (None for "
                    f"zero); got {got}"
                )
            every = self._spread(what, tuple(found))
            for ref, i in call.refs.items():
                if every[i] is not None and not isinstance(every[i], Zero) and has_tangent(ref.aval):
                    where = f"the cotangent of argument {call.path(i)}"
                    of_refs[ref] = checked_cotangent(what, every[i], ref.aval.cotangent, where)
            leaves = [ct for i, ct in enumerate(every) if i not in call.fixed]
            traced = [i for i in range(call.treedef.num_leaves) if i not in call.fixed]
            for i, (ct, aval) in enumerate(zip(leaves, avals, strict=True)):
                # Whatever a rule returns for an argument without a derivative, it stands for zero.
                where = f"the cotangent of argument {call.path(traced[i])}"
                if isinstance(ct, Zero):
                    check_zero(what, ct, aval, where, ". None stands for zero of any type")
                elif ct is not None and has_tangent(aval):
                    results[i] = checked_cotangent(what, ct, aval, where)
        return results, of_refs

    def _spread(self, what: str, cotangents: tuple[Any, ...]) -> list[Any]:
        """A cotangent for each leaf of the arguments, where one, or None, may stand for each leaf of a subtree."""
        args = self.at.arguments(self.at.arrays)
        leaves, treedef = tree.flatten(cotangents, is_leaf=_is_none)
        try:
            subtrees = treedef.flatten_up_to(args)
        except (ValueError, TypeError):
            subtrees = None
        spread: list[Any] = []
        for leaf, subtree in zip(leaves, subtrees or (), strict=False):
            spread += [leaf] * len(tree.flatten(subtree)[0])
        if subtrees is None:
            at = tree.prefix_difference(cotangents, args)
            raise TreeError(
                f"{what} must return cotangents with the structure of the arguments (or None for zero), but they differ"
                f"{f' at {at}' if at else ''}:\n"
                f"  the arguments: {tree.shown(tree.flatten(args)[1])}\n"
                f"  the cotangents: {tree.shown(tree.flatten(cotangents)[1])}"
            )
        return spread

    @override
    def make(self, captured: Sequence[Array]) -> tuple[Primitive, Sequence[Array]]:
        count = sum(has_tangent(array.aval) for array in self.at.arrays)
        self.treedef = None
        function, cells = stage_with_cells(self.at, [array.aval for array in self.at.arrays], self.run)
        out_avals = function[0].out_avals[: len(function[0].outvars) - len(cells)]
        distinct = self._tells_apart(count + len(cotangent_avals(out_avals)))
        staged = self._stage(captured, function, cells, out_avals, distinct)
        if staged.uses_cells:  # what they hold is never known to be zero
            staged = self._stage(captured, function, cells, out_avals, False) if distinct else staged
            primitive, found, layout = threaded(self.at, staged, captured, self._optimize_remat)
            self.layout = layout
            return primitive, found
        if staged.cases is None:
            return CustomVjp(self.at.name, function[0], num_captured=len(function[1])), function[1]
        return self._without_cells(staged.cases, captured, function, out_avals, distinct)

    def _stage(
        self,
        captured: Sequence[Array],
        function: Program,
        cells: tuple[Cell[Array], ...],
        out_avals: tuple[ShapedArray, ...],
        distinct: bool,
    ) -> StagedRules:
        """The rules, unless too many of the same function are being staged already."""
        avals, layout = [array.aval for array in self.at.arrays], self.layout
        if self.depth >= MAX_DEPTH:
            return StagedRules(function, cells, out_avals, None)
        last = [cell.aval for cell in (*layout.written, *layout.states)]
        rule = RuleInProgress(self, (*out_avals, *last), captured, layout)
        count = sum(map(has_tangent, avals))
        cases = ask(
            choices(count) if distinct else [(True,) * count],
            lambda given: self._stage_case(rule, avals, out_avals, given, distinct),
        )
        return StagedRules(function, cells, out_avals, cases)

    def _without_cells(
        self,
        cases: Asked[StagedCase],
        captured: Sequence[Array],
        function: Program,
        out_avals: tuple[ShapedArray, ...],
        distinct: bool,
    ) -> tuple[Primitive, Sequence[Array]]:
        avals = [array.aval for array in self.at.arrays]
        programs = [function, *(each for case in cases.found for each in case.programs)]
        (jaxpr, *others), captured = with_common_captures(programs, captured)
        found = iter(others)
        finished = [case.finished(found, avals, out_avals) for case in cases.found]
        # A rule that tells cases apart needn't know the one where everything moves.
        general = next((case for case in finished if all(case.given)), None)
        refused = general is not None and in_general(general.refused) is not None
        return CustomVjp(
            self.at.name,
            jaxpr,
            general and general.jaxpr,
            general and general.bwd,
            general.returned if general else (),
            len(captured),
            tuple(finished) if distinct or refused else None,
            cases.refused or None,
            self._optimize_remat or None,
        ), captured

    def _tells_apart(self, count: int) -> bool:
        """Whether the rules are asked about each choice of so many tangents and cotangents that aren't zero."""
        return self._symbolic_zeros and 2**count <= MAX_CASES

    def _stage_case(
        self,
        rule: RuleInProgress,
        avals: Sequence[ShapedArray],
        out_avals: Sequence[ShapedArray],
        given: tuple[bool, ...],
        distinct: bool,
    ) -> StagedCase:
        """The rules for a choice of arguments that are differentiated with respect to, and every one of cotangents if
        these are to be told apart."""
        perturbed = spread_marks(given, avals)

        def run_fwd(arrays: list[Array]) -> Sequence[Array]:
            outs, residuals = self._run_fwd(arrays, perturbed)
            what = f"the fwd rule {function_name(self._fwd)} of custom_vjp function {self.at.name}"
            where = f"that of the result of {self.at.name}"
            return [*check_types(what, outs, out_avals, lambda i: f"result {i}", where), *residuals]

        fwd, cells = stage_with_cells(rule, avals, run_fwd)
        residuals = fwd[0].out_avals[len(out_avals) : len(fwd[0].outvars) - len(cells)]
        n, possible = len(residuals), cotangent_avals(out_avals)

        def stage_bwd(present: tuple[bool, ...]) -> StagedBackward:
            nonzero, own = list[bool](), list[Ref]()

            def run_bwd(arrays: list[Array]) -> Sequence[Array]:
                cts = with_zeros(arrays[n:], present, possible)
                returning, of_refs = self._run_bwd(arrays[:n], cts, out_avals)
                nonzero.extend(nonzero_marks(returning))
                own.extend(of_refs)
                return [*without_zeros(returning), *of_refs.values()]

            ins = [*residuals, *compress(possible, present)]
            program, cells = stage_with_cells(rule, ins, run_bwd, backward=True)
            return StagedBackward(program, tuple(nonzero), tuple(own), cells)

        choose = choices(len(possible)) if distinct else [(True,) * len(possible)]
        return StagedCase(given, fwd, residuals, ask(choose, stage_bwd), cells)


def _is_none(x: object) -> bool:
    return x is None
