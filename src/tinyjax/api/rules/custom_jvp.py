"""`custom_jvp`: functions whose derivative the user gives, for both modes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import compress
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar, final, overload

from attrs import frozen
from typing_extensions import override

from tinyjax.api.bound import Bound
from tinyjax.api.rules.applications import (
    MAX_DEPTH,
    Application,
    Call,
    RuleInProgress,
    apply,
    check_pair,
    check_types,
    check_zero,
    locating,
    make_call,
    nondiff_positions,
    with_elements,
    zeros_like,
)
from tinyjax.api.rules.cases import MAX_CASES, ask, choices
from tinyjax.api.rules.frames import frame_at
from tinyjax.api.rules.programs import stage_rule, with_common_captures
from tinyjax.arrays.arithmetic import add
from tinyjax.control.branches import with_types
from tinyjax.control.custom_derivatives import CustomJvp
from tinyjax.control.recursion import JvpCase
from tinyjax.errors import InputError, UndefinedRuleError
from tinyjax.ir.context import Context
from tinyjax.ir.primitive import Outputs, Primitive, Zero
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.tangents import has_tangent, spread_marks, tangent_avals, with_zeros, without_zeros
from tinyjax.primitives.structure import instantiate
from tinyjax.tracebacks import filter_class, filtered
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.frames import V
from tinyjax.tracing.functions import as_arrays, check_callable, float0_zeros, function_name
from tinyjax.wrapping import update_wrapper

P = ParamSpec("P")
R = TypeVar("R")
#: A tangent that is known to be zero, without elements. Rules with symbolic_zeros=True get them, and any rule may
#: return them.
SymbolicZero: TypeAlias = Zero


@overload
def custom_jvp(
    fun: Callable[P, R], nondiff_argnums: int | Sequence[int] = (), nondiff_argnames: str | Sequence[str] = ()
) -> CustomJvpFunction[P, R]: ...
@overload
def custom_jvp(
    *, nondiff_argnums: int | Sequence[int] = (), nondiff_argnames: str | Sequence[str] = ()
) -> Callable[[Callable[P, R]], CustomJvpFunction[P, R]]: ...
@filtered
def custom_jvp(
    fun: Callable[..., Any] | None = None,
    nondiff_argnums: int | Sequence[int] = (),
    nondiff_argnames: str | Sequence[str] = (),
) -> Any:
    """`fun` with a derivative of its own, which `defjvp` or `defjvps` of the result gives.

    Arguments at `nondiff_argnums`, or of the names `nondiff_argnames`, may be anything, such as functions; the rule
    gets them first. While values are known, Python runs the function and its rule, so both may branch on them; staged,
    both are programs within one equation.

    >>> from tinyjax import numpy as tnp, grad
    >>> @custom_jvp
    ... def log1pexp(x):
    ...     return tnp.log(1.0 + tnp.exp(x))
    >>> @log1pexp.defjvp
    ... def log1pexp_jvp(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return log1pexp(x), (1.0 - 1.0 / (1.0 + tnp.exp(x))) * t
    >>> grad(log1pexp)(100.0)
    Array(1., dtype=float64, weak_type=True)
    """
    if fun is None:
        return partial(custom_jvp, nondiff_argnums=nondiff_argnums, nondiff_argnames=nondiff_argnames)
    check_callable("custom_jvp", fun)
    return CustomJvpFunction(fun, nondiff_positions(fun, nondiff_argnums, nondiff_argnames))


@final
@filter_class
class CustomJvpFunction(Bound[P, R]):
    """What `custom_jvp` returns: the function, once it has a rule."""

    def __init__(self, fun: Callable[P, R], nondiff_argnums: tuple[int, ...]) -> None:
        update_wrapper(self, fun)
        self._fun: Final = fun
        self._nondiff_argnums: Final = nondiff_argnums
        self._rule: Callable[..., Any] | None = None
        self._symbolic_zeros = False

    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Sets the rule, and returns it, so it is a decorator.

        `jvp(*nondiff_args, primals, tangents)` takes tuples with an entry for each argument, and returns a pair: the
        results, and their tangents, of the same tree, shapes and dtypes. The tangents of integers are zeros of dtype
        float0. With `symbolic_zeros`, tangents known to be zero are SymbolicZero objects, which have a shape and a
        dtype. Where the function is staged, the rule is asked at once about every choice of tangents that are zero (of
        up to eight arguments; of more, all tangents are arrays). An exception says that it doesn't know a case: it is
        reported if the case is needed.
        """
        check_callable("defjvp", jvp)
        self._rule, self._symbolic_zeros = jvp, symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Sets the rule from one for each argument: `jvp(tangent, result, *primals)` returns what its tangent
        contributes; None: nothing. Not with `nondiff_argnums`."""
        if self._nondiff_argnums:
            raise InputError("Can't use defjvps with nondiff_argnums: define the whole rule with defjvp.")

        def rule(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
            if len(jvps) != len(primals):
                raise InputError(
                    f"defjvps of {function_name(self._fun)} got {len(jvps)} rules for {len(primals)} arguments"
                )
            function: Callable[..., Any] = self
            result = function(*primals)
            parts = [f(t, result, *primals) for f, t in zip(jvps, tangents, strict=True) if f is not None]
            if not parts:
                return result, tree.map_leaves(lambda x: Zero(as_array(x).aval.tangent), result)
            return result, tree.map_leaves(lambda first, *rest: sum_of([first, *rest]), *parts)

        self.defjvp(rule)

    @override
    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._rule is None:
            name = function_name(self._fun)
            raise UndefinedRuleError(
                f"No JVP defined for custom_jvp function {name} using defjvp. Decorate its rule with @{name}.defjvp."
            )
        call = make_call("custom_jvp", self._fun, self._nondiff_argnums, args, kwargs)
        result: R = apply(_JvpApplication(call, self._rule, self._symbolic_zeros))
        return result


def sum_of(tangents: Sequence[Any]) -> Array | Zero:
    """The sum of tangents, some of which may be symbolic zeros."""
    given = list(map(as_array, without_zeros(tangents)))
    if not given:
        zero: Zero = tangents[0]
        return zero
    total = given[0]
    for t in given[1:]:
        total = add(total, t)
    return total


@final
class _JvpApplication(Application):
    """A call of a custom_jvp function."""

    def __init__(self, call: Call, rule: Callable[..., Any], symbolic_zeros: bool) -> None:
        super().__init__(call)
        self._rule = rule
        self._symbolic_zeros = symbolic_zeros

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        with frame_at(ctx, self.at) as frame:

            def given(tangent: V | Zero) -> Array | Zero:
                if not isinstance(tangent, Zero):
                    return frame.wrap(tangent)
                if self._symbolic_zeros:
                    return tangent
                return frame.wrap(instantiate(ctx, tangent)) if has_tangent(tangent.aval) else zeros_like(tangent)

            outs, derived = self._run_rule([frame.wrap(x) for x in primals], [given(t) for t in tangents])
            return (
                [frame.read(array) for array in outs],
                [t if isinstance(t, Zero) else frame.read(t) for t in derived],
            )

    def _run_rule(
        self, primals: Sequence[Array], tangents: Sequence[Array | Zero]
    ) -> tuple[list[Array], list[Array | Zero]]:
        """The leaves of the results and of their tangents; an InputError if they don't fit."""
        call = self.at
        what = f"the rule {function_name(self._rule)} of custom_jvp function {call.name}"
        fixed = [(i, x) for i, x in call.fixed.items() if isinstance(x, Array)]
        zeros = {i: Zero(x.aval) if self._symbolic_zeros else x for i, x in fixed}
        pair = self._rule(*call.nondiff.values(), call.arguments(primals), call.arguments(tangents, zeros))
        with locating(self._rule):
            out, tangent = check_pair(what, pair, "the results", "their tangents")
            leaves, treedef = tree.flatten(out)
            found, structure = tree.flatten(tangent)
            tree.check_same_structure(what, treedef, structure, "the results", "their tangents")
            if self.treedef is not None:
                tree.check_same_structure(what, self.treedef, treedef, f"the result of {call.name}", "that of its rule")
            self.treedef = treedef

            def where(kind: str, i: int) -> str:
                return f"{kind}{tree.paths(treedef)[i]}"

            outs = as_arrays(leaves, lambda i: f"{what}: {where('result', i)}")
            avals = [x.aval.tangent for x in outs]
            arrays = as_arrays(
                [float0_zeros(t.aval.shape) if isinstance(t, Zero) else t for t in found],
                lambda i: f"{what}: {where('tangent', i)}",
            )
            given = [i for i, t in enumerate(found) if not isinstance(t, Zero)]
            for i, t in enumerate(found):
                if isinstance(t, Zero):
                    check_zero(what, t, avals[i], where("tangent", i))
            checked = check_types(
                what,
                [arrays[i] for i in given],
                [avals[i] for i in given],
                lambda i: where("tangent", given[i]),
                "that of tangents of the result",
            )
        results: list[Array | Zero] = [Zero(aval) for aval in avals]
        for i, array in zip(given, checked, strict=True):
            if has_tangent(avals[i]):
                results[i] = array
        return outs, results

    @override
    def make(self, captured: Sequence[Array]) -> tuple[Primitive, Sequence[Array]]:
        call = self.at
        avals = [array.aval for array in call.arrays]
        program = self.stage_function()
        out_avals = program[0].out_avals
        moving = tangent_avals(avals)

        def tangents_of(given: Sequence[bool], arrays: Sequence[Array]) -> list[Array | Zero]:
            """Of each argument: an array where it is given, and where it can be one if zeros aren't symbolic."""
            found = with_zeros(arrays, spread_marks(given, avals), avals)
            return found if self._symbolic_zeros else list(map(with_elements, found))

        what = f"the rule {function_name(self._rule)} of custom_jvp function {call.name}"

        def run_rule(given: Sequence[bool], arrays: list[Array]) -> tuple[list[Array], list[Array | Zero]]:
            """The results, and the tangents of those that can have one."""
            outs, derived = self._run_rule(arrays[: len(avals)], tangents_of(given, arrays[len(avals) :]))
            checked = check_types(what, outs, out_avals, lambda i: f"result {i}", f"that of the result of {call.name}")
            return checked, [t for t, aval in zip(derived, out_avals, strict=True) if has_tangent(aval)]

        if self.depth >= MAX_DEPTH:
            return CustomJvp(call.name, program[0], None, len(program[1])), program[1]
        progress = RuleInProgress(self, out_avals, captured)

        def stage_case(given: tuple[bool, ...]) -> _StagedCase:
            nonzero: list[bool] = []

            def run_case(arrays: list[Array]) -> Sequence[Array]:
                outs, derived = run_rule(given, arrays)
                nonzero.extend(all(given) or not isinstance(t, Zero) for t in derived)
                # Where nothing is known to be zero, all tangents are returned.
                return [*outs, *map(with_elements, compress(derived, nonzero))]

            chosen = [aval for aval, mark in zip(moving, given, strict=True) if mark]
            return _StagedCase(given, stage_rule(progress, [*avals, *chosen], run_case), tuple(nonzero))

        cases = ask(self._cases(len(moving)), stage_case)
        programs = [program, *(case.program for case in cases.found)]
        (jaxpr, *derived), captured = with_common_captures(programs, captured)
        outs, out_tangents = jaxpr.out_avals, tangent_avals(jaxpr.out_avals)
        staged = [
            JvpCase(case.given, with_types(found, [*outs, *compress(out_tangents, case.nonzero)]), case.nonzero)
            for case, found in zip(cases.found, derived, strict=True)
        ]
        whole = next((case.jaxpr for case in staged if all(case.given)), None)
        special = tuple(case for case in staged if not all(case.given))
        return CustomJvp(call.name, jaxpr, whole, len(captured), special or None, cases.refused or None), captured

    def _cases(self, count: int) -> list[tuple[bool, ...]]:
        """Which of so many tangents may be there: all of them, and fewer, if the rule cares."""
        return choices(count) if self._symbolic_zeros and 2**count <= MAX_CASES else [(True,) * count]


@final
@frozen(eq=False)
class _StagedCase:
    """The rule for those tangents that are given, with what it closes over, and which tangents it returns."""

    given: tuple[bool, ...]
    program: tuple[Jaxpr, tuple[Array, ...]]
    nonzero: tuple[bool, ...]
