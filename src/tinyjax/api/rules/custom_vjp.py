"""`custom_vjp`: functions whose derivative the user gives, for reverse mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, update_wrapper
from itertools import compress
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, final, overload

from attrs import frozen
from typing_extensions import override

from tinyjax.api.arguments import WithStatic
from tinyjax.api.bound import Bound
from tinyjax.api.rules.applications import (
    MAX_DEPTH,
    Application,
    Call,
    RuleInProgress,
    apply,
    captured_arrays,
    check_pair,
    check_types,
    check_zero,
    locating,
    make_call,
    nondiff_positions,
    stage_rule,
    with_common_captures,
    with_elements,
)
from tinyjax.api.rules.cases import MAX_CASES, Asked, ask, choices
from tinyjax.api.rules.frames import frame_at
from tinyjax.api.rules.hinted import HintedContext
from tinyjax.api.rules.vjp_cases import StagedBackward, StagedCase, checked_cotangent, linear
from tinyjax.control.custom_derivatives import CustomVjp
from tinyjax.control.custom_linear import linear_part
from tinyjax.control.recursion import in_general
from tinyjax.errors import InputError, RuleResultError, TreeError, UndefinedRuleError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.context import Context
from tinyjax.ir.primitive import Outputs, Primitive, Zero
from tinyjax.ir.program import Atom, Jaxpr, Var
from tinyjax.ir.tangents import cotangent_avals, has_tangent, nonzero_marks, spread_marks, with_zeros, without_zeros
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives.structure import instantiate
from tinyjax.tracebacks import filter_class, filtered
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import ConcreteArray
from tinyjax.tracing.core import activate
from tinyjax.tracing.frames import V
from tinyjax.tracing.functions import as_arrays, check_callable, function_name

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


@overload
def custom_vjp(
    fun: Callable[P, R], nondiff_argnums: int | Sequence[int] = (), nondiff_argnames: str | Sequence[str] = ()
) -> CustomVjpFunction[P, R]: ...
@overload
def custom_vjp(
    *, nondiff_argnums: int | Sequence[int] = (), nondiff_argnames: str | Sequence[str] = ()
) -> Callable[[Callable[P, R]], CustomVjpFunction[P, R]]: ...
@filtered
def custom_vjp(
    fun: Callable[..., Any] | None = None,
    nondiff_argnums: int | Sequence[int] = (),
    nondiff_argnames: str | Sequence[str] = (),
) -> Any:
    """`fun` with a derivative of its own for reverse mode, which `defvjp` of the result gives.

    Arguments at `nondiff_argnums`, or of the names `nondiff_argnames`, may be anything, such as functions; `fwd` gets
    them where `fun` does, `bwd` gets them first. While values are known, Python runs the function, `fwd`, and `bwd` on
    residuals whose elements are known; cotangents have none there yet, as `bwd` is staged when the function is
    linearized.

    >>> from tinyjax import numpy as tnp, grad
    >>> @custom_vjp
    ... def clip_gradient(lo, hi, x):
    ...     return x
    >>> def fwd(lo, hi, x):
    ...     return x, (lo, hi)
    >>> def bwd(residuals, ct):
    ...     return None, None, tnp.clip(ct, *residuals)
    >>> clip_gradient.defvjp(fwd, bwd)
    >>> grad(lambda x: 10.0 * clip_gradient(-1.0, 1.0, x))(3.0)
    Array(1., dtype=float64, weak_type=True)
    """
    if fun is None:
        return partial(custom_vjp, nondiff_argnums=nondiff_argnums, nondiff_argnames=nondiff_argnames)
    check_callable("custom_vjp", fun)
    return CustomVjpFunction(fun, nondiff_positions(fun, nondiff_argnums, nondiff_argnames))


@final
@filter_class
class CustomVjpFunction(Bound[P, R]):
    """What `custom_vjp` returns: the function, once it has a rule."""

    def __init__(self, fun: Callable[P, R], nondiff_argnums: tuple[int, ...]) -> None:
        update_wrapper(self, fun)
        self._fun: Final = fun
        self._nondiff_argnums: Final = nondiff_argnums
        self._rules: tuple[Callable[..., Any], Callable[..., Any]] | None = None
        self._symbolic_zeros = self._optimize_remat = False

    def defvjp(
        self,
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Sets the rule.

        `fwd` takes what the function takes and returns a pair: the results, and residuals, a tree of arrays.
        `bwd(*nondiff_args, residuals, cotangents)` returns a tuple with the cotangent of each argument: of the same
        tree and shapes as the argument, or None for zero; of another dtype they are converted, but not from complex
        to real.

        With `symbolic_zeros`, `fwd` gets each array as a CustomVJPPrimal, which says whether it is differentiated with
        respect to; and cotangents known to be zero are SymbolicZero objects. Where the function is staged, the rules
        are asked at once about every choice, and an exception says that they don't know a case: it is reported if the
        case is needed. Of functions with more than eight arguments and results that can have a derivative, all
        arguments count as perturbed there, and all cotangents are arrays.

        With `optimize_remat`, the function itself computes its results wherever no residual is read: within
        `checkpoint`, `fwd` is then left to the second computation. It is for a `fwd` of which nothing can be left out.
        """
        check_callable("defvjp", fwd)
        check_callable("defvjp", bwd)
        self._rules, self._symbolic_zeros, self._optimize_remat = (fwd, bwd), symbolic_zeros, optimize_remat

    @override
    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._rules is None:
            raise UndefinedRuleError(
                f"No VJP defined for custom_vjp function {function_name(self._fun)} using defvjp. Call "
                f"{function_name(self._fun)}.defvjp(fwd, bwd)."
            )
        call = make_call("custom_vjp", self._fun, self._nondiff_argnums, args, kwargs)
        result: R = apply(_VjpApplication(call, *self._rules, self._symbolic_zeros, self._optimize_remat))
        return result


@final
class _VjpApplication(Application):
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

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        with frame_at(ctx, self.at) as frame:
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
            wrapped = [ct if isinstance(ct, Zero) else inner.wrap(ct) for ct in cts]
            returned = self._run_bwd([*map(inner.wrap, leading)], wrapped, out_avals)
            return context, [ct if isinstance(ct, Zero) else inner.read(ct) for ct in returned]

    def _run_fwd(self, primals: Sequence[Array], perturbed: Sequence[bool]) -> tuple[list[Array], list[Array]]:
        """The leaves of the results and of the residuals."""
        call = self.at
        what = f"{function_name(self._fwd)}, the fwd rule of custom_vjp function {call.name},"
        fwd = WithStatic(self._fwd, call.nondiff, {}) if call.nondiff else self._fwd
        if self._symbolic_zeros:
            fixed = {i: CustomVJPPrimal(x, False) for i, x in call.fixed.items()}
            pair = fwd(*call.arguments(list(map(CustomVJPPrimal, primals, perturbed)), fixed))
        else:
            pair = fwd(*call.arguments(primals))
        with locating(self._fwd):
            out, residuals = check_pair(what, pair, "the results", "residuals")
            leaves, treedef = tree.flatten(out)
            if self.treedef is not None:
                tree.check_same_structure(what, self.treedef, treedef, f"the result of {call.name}", "that of fwd")
            self.treedef = treedef
            kept, self._residuals = structure = tree.flatten(residuals)
            return (
                as_arrays(leaves, lambda i: f"{what} result{tree.paths(treedef)[i]}"),
                as_arrays(kept, lambda i: f"{what} residual{tree.paths(structure[1])[i]}"),
            )

    def _run_bwd(
        self, residuals: Sequence[Array], cotangents: Sequence[Array | Zero], out_avals: Sequence[ShapedArray]
    ) -> list[Array | Zero]:
        """The cotangent of each traced leaf of the arguments, for cotangents of the results that can have one."""
        call = self.at
        what = f"{function_name(self._bwd)}, the bwd rule of custom_vjp function {call.name},"
        if self.treedef is None or self._residuals is None:
            raise InputError(f"{what} was called before fwd")
        avals = [array.aval.cotangent for array in call.arrays]
        results: list[Array | Zero] = [Zero(aval) for aval in avals]
        if not cotangents:  # no result has a derivative
            return results
        cts = with_zeros(cotangents, map(has_tangent, out_avals), out_avals)
        if not self._symbolic_zeros:
            cts = list(map(with_elements, cts))
        found = self._bwd(
            *call.nondiff.values(), tree.unflatten(self._residuals, residuals), tree.unflatten(self.treedef, cts)
        )
        with locating(self._bwd):
            count = len(call.arguments(call.arrays))
            if not isinstance(found, tuple | list) or len(found) != count:
                got = f"one of length {len(found)}" if isinstance(found, tuple | list) else repr(found)
                raise RuleResultError(
                    f"{what} must return a tuple of length {count}, with the cotangent of each argument (None for "
                    f"zero); got {got}"
                )
            leaves = [ct for i, ct in enumerate(self._spread(what, tuple(found))) if i not in call.fixed]
            traced = [i for i in range(call.treedef.num_leaves) if i not in call.fixed]
            for i, (ct, aval) in enumerate(zip(leaves, avals, strict=True)):
                # Whatever a rule returns for an argument without a derivative, it stands for zero.
                where = f"the cotangent of argument {call.path(traced[i])}"
                if isinstance(ct, Zero):
                    check_zero(what, ct, aval, where, ". None stands for zero of any type")
                elif ct is not None and has_tangent(aval):
                    results[i] = checked_cotangent(what, ct, aval, where)
        return results

    def _spread(self, what: str, cotangents: tuple[Any, ...]) -> list[Any]:
        """A cotangent for each leaf of the arguments, where None stands for a whole subtree."""
        args = self.at.arguments(self.at.arrays)
        leaves, treedef = tree.flatten(cotangents, is_leaf=_is_none)
        try:
            subtrees = treedef.flatten_up_to(args)
        except (ValueError, TypeError):
            subtrees = None
        spread: list[Any] = []
        for leaf, subtree in zip(leaves, subtrees or (), strict=False):
            inner, structure = tree.flatten(subtree)
            if leaf is not None and structure != tree.flatten(0)[1]:
                subtrees = None
                break
            spread += [leaf] * len(inner)
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
        call = self.at
        avals = [array.aval for array in call.arrays]
        program = self.stage_function()
        out_avals = program[0].out_avals
        if self.depth >= MAX_DEPTH:
            return CustomVjp(call.name, program[0], num_captured=len(program[1])), program[1]
        rule = RuleInProgress(self, out_avals, captured)
        count = sum(map(has_tangent, avals))
        distinct = self._tells_apart(count + len(cotangent_avals(out_avals)))
        cases = ask(
            choices(count) if distinct else [(True,) * count],
            lambda given: self._stage_case(rule, avals, out_avals, given, distinct),
        )
        programs = [program, *(each for case in cases.found for each in case.programs)]
        (jaxpr, *others), captured = with_common_captures(programs, captured)
        found = iter(others)
        finished = [case.finished(found, avals, out_avals) for case in cases.found]
        # A rule that tells cases apart needn't know the one where everything moves.
        general = next((case for case in finished if all(case.given)), None)
        refused = general is not None and in_general(general.refused) is not None
        return CustomVjp(
            call.name,
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
            what = f"{function_name(self._fwd)}, the fwd rule of custom_vjp function {self.at.name},"
            where = f"that of the result of {self.at.name}"
            return [*check_types(what, outs, out_avals, lambda i: f"result {i}", where), *residuals]

        fwd = stage_rule(rule, avals, run_fwd)
        residuals = fwd[0].out_avals[len(out_avals) :]
        n, possible = len(residuals), cotangent_avals(out_avals)

        def stage_bwd(present: tuple[bool, ...]) -> StagedBackward:
            nonzero: list[bool] = []

            def run_bwd(arrays: list[Array]) -> Sequence[Array]:
                cts = with_zeros(arrays[n:], present, possible)
                returning = self._run_bwd(arrays[:n], cts, out_avals)
                nonzero.extend(nonzero_marks(returning))
                return without_zeros(returning)

            program = stage_rule(rule, [*residuals, *compress(possible, present)], run_bwd)
            return StagedBackward(program, tuple(nonzero))

        choose = choices(len(possible)) if distinct else [(True,) * len(possible)]
        return StagedCase(given, fwd, residuals, ask(choose, stage_bwd))


def _is_none(x: object) -> bool:
    return x is None
