"""Primitives that are classes of Python methods: the form of `jax.experimental.hijax`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any, final

from typing_extensions import override

import tinyjax.numpy as tnp
from tinyjax.api.vectorize import vmap
from tinyjax.errors import InputError, MissingRuleError, RuleResultError
from tinyjax.extend.by_methods.accumulators import GradAccum, ValAccum
from tinyjax.extend.by_methods.equations import Definition, HiCall
from tinyjax.extend.by_methods.rules import call_rule, parts, spread
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.effects import NO_EFFECTS, Effect, Effects
from tinyjax.ir.primitive import BatchAxis, Zero
from tinyjax.ir.tangents import with_zeros
from tinyjax.tracing import tree
from tinyjax.tracing.core import bind
from tinyjax.tracing.functions import as_arrays
from tinyjax.transforms.batch import add_axis

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef


class HiPrim:
    """A primitive whose rules are methods that compute with arrays. Subclass it.

    `__init__` sets `in_avals`, a tuple with the type of each argument, or a tree of types; `out_aval`, the type of the
    result, or a tree; and `params`, a dictionary of what else there is to know, hashable, which become attributes; then
    it calls `super().__init__()`. Calling an instance applies it, as one equation. `expand` computes it; the other
    methods are rules for transformations, needed only for these:

    - reverse mode: `vjp_fwd(nzs_in, *args)` returns the result and residuals, a tree of arrays, and
      `vjp_bwd_retval(res, ct)` a cotangent for each argument, None for zero; or `vjp_bwd(res, ct, *accums)` adds them
      by `accum`. `nzs_in` says which arguments are differentiated with respect to.
    - forward mode: `jvp(primals, tangents)` returns the result and its tangent. `lin(nzs_in, *args)` and
      `linearized(res, *tangents)` say the same in two steps. They serve reverse mode, too, if there is no `vjp_fwd`.
    - `vmap`: `batch_dim_rule(axis_data, in_dims)` returns where the mapped axis of the result is, and the other rules
      are mapped; or `batch(axis_data, args, in_dims)` returns the result as well.
    - `transpose(ct, *accums_or_args)`, for what is linear in some arguments, which are accumulators there.

    Tangents and cotangents that are known to be zero are `Zero`: `instantiate_zeros` makes arrays of them.
    (`jax.experimental.hijax.VJPHiPrimitive`, in JAX 0.11 `HiPrim`.)

    >>> import tinyjax as tj
    >>> import tinyjax.numpy as tnp
    >>> class Clipped(HiPrim):
    ...     def __init__(self, aval, bound):
    ...         self.in_avals, self.out_aval, self.params = (aval,), aval, {"bound": bound}
    ...         super().__init__()
    ...
    ...     def expand(self, x):
    ...         return x
    ...
    ...     def vjp_fwd(self, nzs_in, x):
    ...         return self(x), None
    ...
    ...     def vjp_bwd_retval(self, res, ct):
    ...         return (tnp.clip(ct, -self.bound, self.bound),)
    >>> def clipped(x):
    ...     return Clipped(tj.typeof(x), 1.0)(x)
    >>> tj.grad(lambda x: 10.0 * clipped(x) + x)(3.0)
    Array(2., dtype=float64, weak_type=True)
    >>> print(tj.make_jaxpr(clipped)(3.0))
    { lambda ; a:~f64[]. let
        b:~f64[] = call_hi_primitive[definition=Clipped[bound=1.0]] a
      in (b,) }
    """

    in_avals: tuple[Any, ...]
    out_aval: Any
    params: Mapping[str, Hashable]
    effects: Effects = NO_EFFECTS
    in_avals_flat: tuple[ShapedArray, ...]
    out_avals_flat: tuple[ShapedArray, ...]
    in_tree: PyTreeDef
    out_tree: PyTreeDef

    def __init__(self) -> None:
        for name in ("in_avals", "out_aval", "params"):
            if not hasattr(self, name):
                raise InputError(f"{type(self).__name__}.__init__ has to set `self.{name}` before super().__init__()")
        if self.defines("vjp_bwd") and self.defines("vjp_bwd_retval"):
            raise InputError(f"{type(self).__name__} defines both `vjp_bwd` and `vjp_bwd_retval`: only one counts")
        self._check_fields()
        ins, self.in_tree = tree.flatten(tuple(self.in_avals))
        outs, self.out_tree = tree.flatten(self.out_aval)
        self.in_avals_flat = tuple([_type(self, "in_avals", x) for x in ins])
        self.out_avals_flat = tuple([_type(self, "out_aval", x) for x in outs])
        self.__dict__.update(self.params)
        call_rule(self, "check", *self.in_avals)

    def _check_fields(self) -> None:
        said = f"{type(self).__name__}.__init__: `self."
        if not isinstance(self.in_avals, tuple | list):
            raise InputError(f"{said}in_avals` is a tuple with the type of each argument, got {self.in_avals!r}")
        params: Any = self.params
        if not isinstance(params, Mapping) or not all(isinstance(name, str) for name in params):
            raise InputError(f"{said}params` is a dictionary of names, got {self.params!r}")
        effects: Any = self.effects
        if not isinstance(effects, frozenset) or not all(isinstance(effect, Effect) for effect in effects):
            raise InputError(f"{said}effects` is a frozenset of effects, got {self.effects!r}")

    def defines(self, rule: str) -> bool:
        """Whether the subclass has this rule."""
        return getattr(type(self), rule) is not getattr(HiPrim, rule)

    def __call__(self, *args: Any) -> Any:
        leaves, structure = tree.flatten(args)
        if structure != self.in_tree:
            tree.check_same_structure(f"the arguments of {type(self).__name__}", self.in_tree, structure, "in_avals",
                                      "the arguments")  # fmt: skip
        return tree.unflatten(
            self.out_tree,
            bind(
                HiCall(Definition(self)),
                *as_arrays(leaves, lambda i: f"{type(self).__name__}: argument{tree.paths(structure)[i]}"),
            ),
        )

    def check(self, *arg_tys: Any) -> None:
        """For a subclass that refuses some types: it is called when the primitive is made."""

    def expand(self, *args: Any) -> Any:
        """What it computes, by other functions."""
        raise self._lacks("Evaluation rule", "expand")

    def vjp_fwd(self, nzs_in: Any, /, *args: Any) -> Any:
        """The result and residuals, and, if there is a third, which tangents of the result aren't zero."""
        raise self._lacks("Differentiation rule", "vjp_fwd")

    def vjp_bwd(self, res: Any, outgrad: Any, /, *arg_accums: Any) -> None:
        """Adds the cotangent of each argument to what stands for it."""
        found = call_rule(self, "vjp_bwd_retval", res, outgrad)
        said = f"vjp_bwd_retval of {type(self).__name__}"
        if not isinstance(found, tuple | list) or len(found) != len(self.in_avals):
            raise RuleResultError(
                f"{said} must return a tuple of length {len(self.in_avals)}, with the cotangent of each argument (None "
                f"for zero); got {f'one of length {len(found)}' if isinstance(found, tuple | list) else repr(found)}"
            )
        for accum, ct in zip(arg_accums, found, strict=True):
            _add(said, accum, ct)

    def vjp_bwd_retval(self, res: Any, outgrad: Any, /) -> Any:
        """A cotangent for each argument."""
        raise self._lacks("Transpose rule (for reverse-mode differentiation)", "vjp_bwd_retval")

    def jvp(self, primals: Any, tangents: Any) -> Any:
        """The result and its tangent."""
        raise self._lacks("Differentiation rule", "jvp")

    def lin(self, nzs_in: Any, *primals: Any) -> Any:
        """The result, and residuals for `linearized`."""
        raise self._lacks("Differentiation rule", "lin")

    def linearized(self, residuals: Any, *tangents: Any) -> Any:
        """The tangent of the result."""
        raise self._lacks("Differentiation rule", "linearized")

    def transpose(self, out_ct: Any, *maybe_accums: Any) -> None:
        """Adds the cotangents of what it is linear in to the accumulators that stand for it."""
        raise self._lacks("Transpose rule (for reverse-mode differentiation)", "transpose")

    def batch(self, axis_data: BatchAxis, args: Any, dims: Any) -> tuple[Any, Any]:
        """The result, and where its mapped axis is."""
        out_dim = call_rule(self, "batch_dim_rule", axis_data, dims)
        return Mapped(self, axis_data, dims, out_dim)(*args), out_dim

    def batch_dim_rule(self, axis_data: BatchAxis, in_dims: Any, /) -> Any:
        """Where the mapped axis of the result is, for arguments that have it at `in_dims`, None if they haven't."""
        raise self._lacks("Batching rule", "batch_dim_rule")

    def _lacks(self, rule: str, method: str) -> MissingRuleError:
        return MissingRuleError.of(type(self).__name__, type(self), rule, method)

    @override
    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value}" for name, value in self.params.items())
        return f"{type(self).__name__}[{given}]"

    @override
    def __hash__(self) -> int:
        return hash((type(self), tuple(self.params.items()), self.effects))

    @override
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HiPrim) or type(self) is not type(other):
            return False
        return self.params == other.params and self.effects == other.effects


#: The name in JAX 0.10.
VJPHiPrimitive = HiPrim


def _type(primitive: HiPrim, where: str, x: object) -> ShapedArray:
    if isinstance(x, ShapedArray):
        return x
    shape, dtype = getattr(x, "shape", None), getattr(x, "dtype", None)
    if shape is None or dtype is None:
        raise InputError(f"{type(primitive).__name__}: {where} has {x!r}, which is no type; `typeof(x)` gives one")
    return ShapedArray(shape, dtype)


def _add(said: str, accum: Any, ct: Any) -> None:
    """Adds the leaves of a cotangent to accumulators: None is zero for all of a subtree."""
    if ct is None or isinstance(ct, Zero):
        return
    leaves, structure = tree.flatten(accum)
    cts: list[Any] = tree.up_to(said, structure, ct)
    for x, found in zip(leaves, cts, strict=True):
        if isinstance(x, GradAccum):
            x.accum(found)


@final
class Mapped(HiPrim):
    """Another primitive over a batch: each of its rules is mapped."""

    in_avals: tuple[Any, ...]
    out_aval: Any
    params: Mapping[str, Hashable]
    prim: HiPrim
    axis: BatchAxis
    ins: tuple[int | None, ...]
    outs: tuple[int | None, ...]

    def __init__(self, prim: HiPrim, axis: BatchAxis, in_dims: Any, out_dim: Any) -> None:
        ins, outs = spread(prim.in_tree, in_dims), spread(prim.out_tree, out_dim)
        self.prim, self.axis, self.ins, self.outs = prim, axis, ins, outs
        self.in_avals = tree.unflatten(prim.in_tree, _with_axis(prim.in_avals_flat, ins, axis))
        self.out_aval = tree.unflatten(prim.out_tree, _with_axis(prim.out_avals_flat, outs, axis))
        self.params = {"prim": prim, "axis": axis, "ins": ins, "outs": outs}
        super().__init__()

    @override
    def defines(self, rule: str) -> bool:
        return self.prim.defines(rule) if rule in ("vjp_fwd", "jvp", "lin") else False

    def _map(self, function: Any, in_axes: Any, out_axes: Any) -> Any:
        axis = self.axis
        return vmap(function, in_axes, out_axes, axis.name, axis.size, axis.spmd or None, cond=axis.cond)

    @property
    def _in_dims(self) -> Any:
        return tree.unflatten(self.prim.in_tree, self.ins)

    @property
    def _out_dim(self) -> Any:
        return tree.unflatten(self.prim.out_tree, self.outs)

    @override
    def expand(self, *args: Any) -> Any:
        return self._map(self._rule("expand"), self._in_dims, self._out_dim)(*args)

    @override
    def vjp_fwd(self, nzs_in: Any, /, *args: Any) -> Any:
        return self._forward("vjp_fwd", nzs_in, args)

    @override
    def lin(self, nzs_in: Any, *primals: Any) -> Any:
        return self._forward("lin", nzs_in, primals)

    def _rule(self, name: str) -> Callable[..., Any]:
        return lambda *args: call_rule(self.prim, name, *args)

    def _pair(self, rule: str, what: str, *args: Any) -> tuple[Any, Any, list[Any]]:
        return parts(f"{rule} of {type(self.prim).__name__}", call_rule(self.prim, rule, *args), what)

    def _forward(self, rule: str, nzs_in: Any, args: Any) -> Any:
        """The results and residuals, which are mapped along their first axis, and what else a rule says."""
        said: list[Any] = []

        def one(*own: Any) -> Any:
            outs, residuals, said[:] = self._pair(rule, "the result and residuals", nzs_in, *own)
            return outs, residuals

        outs, residuals = self._map(one, self._in_dims, (self._out_dim, 0))(*args)
        return (outs, residuals, *said)

    @override
    def vjp_bwd(self, res: Any, outgrad: Any, /, *arg_accums: Any) -> None:
        cts, marks = _nonzero(self.prim.out_tree, outgrad)
        found: list[bool] = []

        def one(own: Any, given: Any) -> Any:
            sums = [ValAccum(aval.cotangent) for aval in self.prim.in_avals_flat]
            outs = _filled(self.prim.out_tree, self.prim.out_avals_flat, marks, given)
            _ = call_rule(self.prim, "vjp_bwd", own, outs, *tree.unflatten(self.prim.in_tree, sums))
            found[:] = [x.total is not None for x in sums]
            return [x.total for x in sums if x.total is not None]

        totals = self._map(one, (0, list(compress(self.outs, marks))), 0)(res, cts)
        accums = compress(tree.flatten(arg_accums)[0], found)
        for accum, at, total in zip(accums, compress(self.ins, found), totals, strict=True):
            if isinstance(accum, GradAccum):
                accum.accum(tnp.sum(total, 0) if at is None else tnp.moveaxis(total, 0, at))

    @override
    def jvp(self, primals: Any, tangents: Any) -> Any:
        moving, marks = _nonzero(self.prim.in_tree, tangents)
        found: list[bool] = []

        def one(own: Any, given: Any) -> Any:
            filled = _filled(self.prim.in_tree, self.prim.in_avals_flat, marks, given)
            outs, derived, _ = self._pair("jvp", "the result and its tangent", own, filled)
            present, found[:] = _nonzero(self.prim.out_tree, derived)
            return outs, present

        axes = (self._in_dims, list(compress(self.ins, marks)))
        outs, derived = self._map(one, axes, (self._out_dim, 0))(primals, moving)
        return outs, self._results(derived, found)

    @override
    def linearized(self, residuals: Any, *tangents: Any) -> Any:
        moving, marks = _nonzero(self.prim.in_tree, tangents)
        found: list[bool] = []

        def one(own: Any, given: Any) -> Any:
            filled = _filled(self.prim.in_tree, self.prim.in_avals_flat, marks, given)
            present, found[:] = _nonzero(self.prim.out_tree, call_rule(self.prim, "linearized", own, *filled))
            return present

        return self._results(self._map(one, (0, list(compress(self.ins, marks))), 0)(residuals, moving), found)

    def _results(self, derived: Sequence[Any], marks: Sequence[bool]) -> Any:
        """Tangents that are mapped along their first axis, where the results' axis is."""
        places = compress(self.outs, marks)
        moved = [tnp.moveaxis(t, 0, at or 0) for t, at in zip(derived, places, strict=True)]
        return _filled(self.out_tree, self.out_avals_flat, marks, moved)

    @override
    def batch_dim_rule(self, axis_data: BatchAxis, in_dims: Any, /) -> Any:
        dims = [
            at if at is None or own is None else at - (own < at)
            for at, own in zip(spread(self.in_tree, in_dims), self.ins, strict=True)
        ]
        found = spread(
            self.out_tree, call_rule(self.prim, "batch_dim_rule", axis_data, tree.unflatten(self.in_tree, dims))
        )
        outs = [at if at is None or own is None else at + (own <= at) for at, own in zip(found, self.outs, strict=True)]
        return tree.unflatten(self.out_tree, outs)


def _with_axis(avals: Sequence[ShapedArray], dims: Sequence[int | None], axis: BatchAxis) -> list[ShapedArray]:
    found: list[ShapedArray] = []
    for aval, at in zip(avals, dims, strict=True):
        if at is not None and not 0 <= at <= aval.ndim:
            raise RuleResultError(f"batch_dim_rule: a result of type {aval} can't have its mapped axis at {at}")
        found.append(aval if at is None else add_axis(aval, at, axis.size))
    return found


def _nonzero(structure: PyTreeDef, derivatives: Any) -> tuple[list[Any], list[bool]]:
    """The leaves that aren't Zero, and which these are."""
    leaves = tree.up_to("the tangents", structure, derivatives)
    marks = [x is not None and not isinstance(x, Zero) for x in leaves]
    return list(compress(leaves, marks)), marks


def _filled(structure: PyTreeDef, avals: Sequence[ShapedArray], marks: Sequence[bool], given: Sequence[Any]) -> Any:
    """The tree of these derivatives, and Zero elsewhere."""
    return tree.unflatten(structure, with_zeros(given, marks, avals))
