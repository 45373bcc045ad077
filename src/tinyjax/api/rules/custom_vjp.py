"""`custom_vjp`: functions whose derivative the user gives, for reverse mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar, final, overload

from typing_extensions import override

from tinyjax.api.bound import Bound
from tinyjax.api.rules.applications import apply, make_call, nondiff_positions
from tinyjax.api.rules.vjp_application import VjpApplication
from tinyjax.errors import UndefinedRuleError
from tinyjax.tracebacks import filter_class, filtered
from tinyjax.tracing.functions import check_callable, function_name
from tinyjax.wrapping import update_wrapper

P = ParamSpec("P")
R = TypeVar("R")


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
        call = make_call("custom_vjp", self._fun, self._nondiff_argnums, args, kwargs, refs=True)
        result: R = apply(VjpApplication(call, *self._rules, self._symbolic_zeros, self._optimize_remat))
        return result
