"""Primitives of JAX that are classes of methods (`jax.experimental.hijax`), as ours: JAX's transformations say, when
they are needed, what their rules are, and what it says is imported."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import compress
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, final

import jax
from jax.extend.core import ClosedJaxpr as JaxClosedJaxpr
from jax.extend.core import JaxprEqn
from jax.typing import ArrayLike
from typing_extensions import override

from tinyjax.control.call import Call
from tinyjax.errors import UnsupportedError
from tinyjax.extend.by_methods.accumulators import GradAccum
from tinyjax.extend.by_methods.equations import Definition, HiCall
from tinyjax.extend.by_methods.primitives import HiPrim
from tinyjax.interop.jax_context import TO_JAX, Args, JaxContext, struct
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.primitive import BatchAxis
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.tangents import cotangent_avals, has_tangent, nonzero_marks, with_zeros, without_zeros
from tinyjax.tracing.array import Array
from tinyjax.tracing.core import bind
from tinyjax.transforms.dce import dce
from tinyjax.tree.nodes import register_static

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef

#: A function of JAX's arrays, flat.
Flat: TypeAlias = Callable[..., Any]


class Importing(Protocol):
    """How a program of JAX becomes ours, and where it is traced."""

    def program(self, closed: JaxClosedJaxpr) -> Jaxpr: ...
    def entered(self) -> AbstractContextManager[None]: ...
    @override
    def __hash__(self) -> int: ...


def imported(eqn: JaxprEqn, ins: Sequence[ShapedArray], outs: Sequence[ShapedArray], importing: Importing) -> HiCall:
    """What applies the primitive of an equation."""
    if eqn.effects:
        raise UnsupportedError("primitives by methods that have effects")
    return HiCall(Definition(OfJax(eqn.params["_prim"], ins, outs, importing)))


#: What its class is called in JAX 0.11 and before.
_BASES: Final = ("HiPrim", "VJPHiPrimitive")


@register_static
class _Kept(tuple[bool, ...]):
    """Which arguments residuals are for: no array."""

    __slots__ = ()


@final
class OfJax(HiPrim):
    """One of JAX's. Its arguments and results are flat."""

    in_avals: tuple[Any, ...]
    out_aval: Any
    params: Mapping[str, Hashable]
    prim: Any
    importing: Importing

    def __init__(
        self, prim: Any, ins: Sequence[ShapedArray], outs: Sequence[ShapedArray], importing: Importing
    ) -> None:
        self.in_avals, self.out_aval = tuple(ins), list(outs)
        self.prim, self.importing = prim, importing
        self.params = {"prim": prim, "importing": importing}
        #: What has been imported, by the rule and which derivatives are there.
        self._programs: dict[object, Jaxpr] = {}
        #: The structures of JAX's backward passes, by which arguments they are for.
        self._backward: dict[tuple[bool, ...], PyTreeDef] = {}
        super().__init__()

    @override
    def __repr__(self) -> str:
        return f"jax({type(self.prim).__name__})"

    @override
    def defines(self, rule: str) -> bool:
        return self._own("vjp_fwd") if rule == "vjp_fwd" else rule == "jvp" and (self._own("jvp") or self._own("lin"))

    def _own(self, name: str) -> bool:
        """Whether JAX's has a method of its own."""
        cls = type(self.prim)
        base = next(each for each in cls.__mro__ if each.__name__ in _BASES)
        return getattr(cls, name) is not getattr(base, name)

    def apply(self, *args: ArrayLike) -> list[ArrayLike]:
        """Applies JAX's."""
        found: list[ArrayLike] = jax.tree.leaves(self.prim(*self._given(args)))
        return found

    def _given(self, args: Sequence[ArrayLike]) -> Any:
        return jax.tree.unflatten(jax.tree.structure(tuple(self.prim.in_avals)), args)

    def _called(self, key: tuple[object, ...], function: Flat, args: Sequence[Array]) -> list[Array]:
        """What a function of JAX's arrays gives: it is imported once for each key."""
        if key not in self._programs:
            with self.importing.entered():
                closed = jax.make_jaxpr(function)(*[struct(x.aval) for x in args])
            self._programs[key] = dce(self.importing.program(closed))
        return list(bind(Call(str(key[0]), self._programs[key]), *args))

    @override
    def expand(self, *args: Any) -> Any:
        def run(*given: ArrayLike) -> list[ArrayLike]:
            found: list[ArrayLike] = jax.tree.leaves(self.prim.expand(*self._given(given)))
            return found

        return self._called(("expand",), run, args)

    @override
    def vjp_fwd(self, nzs_in: Any, /, *args: Any) -> Any:
        marks = tuple(nzs_in)

        def run(*given: ArrayLike) -> list[ArrayLike]:
            function, moving = self._at(marks, given)
            outs, backward, fixed = jax.vjp(function, *moving, has_aux=True)
            residuals, self._backward[marks] = jax.tree.flatten(backward)
            return [*outs, *fixed, *residuals]

        found = self._called(("vjp", marks), run, args)
        return self._results(found), (found[len(self.out_avals_flat) :], _Kept(marks))

    @override
    def vjp_bwd(self, res: Any, outgrad: Any, /, *arg_accums: Any) -> None:
        residuals, marks = res
        count = len(residuals)
        cts = [ct for ct, aval in zip(outgrad, self.out_avals_flat, strict=True) if has_tangent(aval)]
        nonzero, types = nonzero_marks(cts), cotangent_avals(self.out_avals_flat)

        def run(*given: ArrayLike) -> list[ArrayLike]:
            rest = iter(given[count:])
            filled = [next(rest) if mark else jax.numpy.zeros(aval.shape, aval.dtype)
                      for mark, aval in zip(nonzero, types, strict=True)]  # fmt: skip
            return list(jax.tree.unflatten(self._backward[marks], given[:count])(filled))

        found = self._called(("backward", marks, nonzero), run, [*residuals, *without_zeros(cts)])
        for accum, ct in zip(compress(arg_accums, marks), found, strict=True):
            if isinstance(accum, GradAccum):
                accum.accum(ct)

    @override
    def jvp(self, primals: Any, tangents: Any) -> Any:
        marks, n = nonzero_marks(tangents), len(primals)

        def run(*given: ArrayLike) -> list[ArrayLike]:
            function, moving = self._at(marks, given[:n])
            if self._own("jvp"):
                outs, derived, fixed = jax.jvp(function, tuple(moving), tuple(given[n:]), has_aux=True)
            else:
                outs, linear, fixed = jax.linearize(function, *moving, has_aux=True)
                derived = linear(*given[n:])
            return [*outs, *fixed, *derived]

        found = self._called(("jvp", marks), run, [*primals, *without_zeros(tangents)])
        derived = found[len(self.out_avals_flat) :]
        return self._results(found), with_zeros(derived, map(has_tangent, self.out_avals_flat), self.out_avals_flat)

    def _at(self, marks: Sequence[bool], args: Sequence[ArrayLike]) -> tuple[Flat, list[ArrayLike]]:
        """JAX's as a function of the marked arguments, where the others are fixed: to the results that can have a
        derivative, and the others. And the marked arguments."""
        ways = list(map(has_tangent, self.out_avals_flat))

        def of_moving(*given: ArrayLike) -> tuple[list[ArrayLike], list[ArrayLike]]:
            rest = iter(given)
            outs = self.apply(*[next(rest) if mark else x for mark, x in zip(marks, args, strict=True)])
            return list(compress(outs, ways)), [out for out, way in zip(outs, ways, strict=True) if not way]

        return of_moving, list(compress(args, marks))

    def _results(self, found: Sequence[Array]) -> list[Array]:
        """The results in their order: those that can have a derivative come first."""
        ways = list(map(has_tangent, self.out_avals_flat))
        moving, fixed = iter(found[: sum(ways)]), iter(found[sum(ways) :])
        return [next(moving) if way else next(fixed) for way in ways]

    @override
    def batch_dim_rule(self, axis_data: BatchAxis, in_dims: Any, /) -> Any:
        return [0] * len(self.out_avals_flat)


@TO_JAX.register(HiCall)
def _hi_call(primitive: HiCall, ctx: JaxContext, args: Args) -> Args:
    methods = primitive.definition.methods
    if isinstance(methods, OfJax):
        return methods.apply(*args)
    raise UnsupportedError(
        f"to_jax: {primitive.definition.name} is a class of methods that compute with arrays of tinyjax, so JAX can't "
        "have its derivative. Write it as a custom_vjp or custom_jvp function, or with `jax.experimental.hijax`."
    )
