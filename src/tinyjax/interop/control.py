"""How JAX applies the primitives that hold programs or functions: calls, control flow, derivatives, callbacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import compress
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import linear_call
from jax.experimental import io_callback
from jax.extend.core import primitives as p
from jax.typing import ArrayLike

from tinyjax.backend import jax_programs
from tinyjax.control.call import Call
from tinyjax.control.callbacks import Callback, DebugCallback, IOCallback, PureCallback
from tinyjax.control.carry import groups
from tinyjax.control.checkpoint import Checkpoint
from tinyjax.control.composite_call import CompositeCall, plain
from tinyjax.control.cond import Cond
from tinyjax.control.custom_derivatives import CustomCall, CustomJvp, CustomVjp, MappedCustom
from tinyjax.control.foreign import FfiCall
from tinyjax.control.forward_pass import ForwardPass
from tinyjax.control.implicit import CustomRoot, LinearSolve
from tinyjax.control.linear_call import LinearCall
from tinyjax.control.loops import While
from tinyjax.control.reducing import Reduce, ReduceWindow, SelectAndScatter
from tinyjax.control.scan import Scan
from tinyjax.errors import InputError, MissingRuleError
from tinyjax.interop.first_order import apply
from tinyjax.interop.jax_context import TO_JAX, Args, Function, JaxContext, struct
from tinyjax.interop.policies import to_jax_policy
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import FLOAT0
from tinyjax.ir.interpret import interpret
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.tangents import has_tangent

Tree: TypeAlias = tuple[ArrayLike, ...]


@TO_JAX.register(Call)
def _call(primitive: Call, ctx: JaxContext, args: Args) -> Args:
    name, jaxpr = primitive.function_name, primitive.jaxpr
    function = ctx.function(primitive, "", lambda: jax.jit(ctx.runner(jaxpr, name)))
    if all(ctx.aval(arg) == aval for arg, aval in zip(args, jaxpr.in_avals, strict=True)):
        return function(*args)
    # JAX would trace the function again for what is weak here and isn't there, or the other way round.
    exact = jax.make_jaxpr(function)(*map(struct, jaxpr.in_avals))
    (eqn,) = exact.eqns
    return apply(p.jit_p, *exact.consts, *args, **eqn.params)


@TO_JAX.register(ForwardPass)
def _forward_pass(primitive: ForwardPass, ctx: JaxContext, args: Args) -> Args:
    return _call(Call(primitive.function_name, primitive.jaxpr), ctx, args)


@TO_JAX.register(CompositeCall)
def _composite(primitive: CompositeCall, ctx: JaxContext, args: Args) -> Args:
    name, jaxpr = primitive.function_name, primitive.jaxpr

    def decomposition(*ins: ArrayLike, **_: object) -> Sequence[ArrayLike]:
        return ctx.runner(jaxpr, name)(*ins)

    attributes = {key: plain(value) for key, value in primitive.attributes}
    found: Sequence[ArrayLike] = lax.composite(decomposition, name, primitive.version)(*args, **attributes)
    return found


@TO_JAX.register(FfiCall)
def _ffi_call(primitive: FfiCall, ctx: JaxContext, args: Args) -> Args:
    call = jax.ffi.ffi_call(
        primitive.target_name,
        [struct(aval) for aval in primitive.result_avals],
        has_side_effect=primitive.has_side_effect,
        vmap_method=primitive.vmap_method,
        input_layouts=[order[::-1] for order in primitive.input_layouts],
        output_layouts=[order[::-1] for order in primitive.output_layouts],
        input_output_aliases=dict(primitive.input_output_aliases),
        custom_call_api_version=primitive.custom_call_api_version,
        legacy_backend_config=primitive.legacy_backend_config,
    )
    attributes = {key: plain(value) for key, value in primitive.attributes.entries}
    found: Sequence[ArrayLike] = call(*args, **attributes)
    return found


@TO_JAX.register(Cond)
def _cond(primitive: Cond, ctx: JaxContext, args: Args) -> Args:
    index, *operands = args
    if len(primitive.branches) == 1:
        return interpret(ctx, primitive.branches[0], operands)
    branches = tuple(ctx.staged(branch, "branch") for branch in primitive.branches)
    return apply(p.cond_p, index, *operands, branches=branches)


@TO_JAX.register(While)
def _while(primitive: While, ctx: JaxContext, args: Args) -> Args:
    return apply(
        p.while_p, *args,
        cond_jaxpr=ctx.staged(primitive.cond_jaxpr, "cond"), cond_nconsts=primitive.cond_nconsts,
        body_jaxpr=ctx.staged(primitive.body_jaxpr, "body"), body_nconsts=primitive.body_nconsts,
    )  # fmt: skip


@TO_JAX.register(Scan)
def _scan(primitive: Scan, ctx: JaxContext, args: Args) -> Args:
    return jax_programs.bind_scan(
        args, ctx.staged(primitive.jaxpr, "body"), length=primitive.length, reverse=primitive.reverse,
        num_consts=primitive.num_consts, num_carry=primitive.num_carry, num_ys=primitive.num_ys,
        unroll=primitive.unroll,
    )  # fmt: skip


@TO_JAX.register(Reduce)
def _reduce(primitive: Reduce, ctx: JaxContext, args: Args) -> Args:
    closed = ctx.staged(primitive.jaxpr, "computation")
    run = ctx.runner(primitive.jaxpr, "computation")
    return apply(p.reduce_p, *args, computation=run, jaxpr=closed, dimensions=primitive.dimensions)


@TO_JAX.register(ReduceWindow)
def _reduce_window(primitive: ReduceWindow, ctx: JaxContext, args: Args) -> Args:
    closed = ctx.staged(primitive.jaxpr, "computation")
    params = {**primitive.params, "jaxpr": closed.jaxpr, "consts": tuple(closed.consts)}
    return apply(p.reduce_window_p, *args, **params)


@TO_JAX.register(SelectAndScatter)
def _select_and_scatter(primitive: SelectAndScatter, ctx: JaxContext, args: Args) -> Args:
    select, scatter = (ctx.staged(each, "computation") for each in (primitive.select_jaxpr, primitive.scatter_jaxpr))
    params = {
        **primitive.params, "select_jaxpr": select.jaxpr, "select_consts": tuple(select.consts),
        "scatter_jaxpr": scatter.jaxpr, "scatter_consts": tuple(scatter.consts),
    }  # fmt: skip
    return apply(lax.select_and_scatter_p, *args, **params)


@TO_JAX.register(Checkpoint)
def _checkpoint(primitive: Checkpoint, ctx: JaxContext, args: Args) -> Args:
    name, policy = primitive.function_name, to_jax_policy(primitive.policy)
    closed = ctx.staged(primitive.jaxpr, name)
    if closed.consts:  # JAX's primitive takes them as operands
        made = lambda: jax.checkpoint(  # noqa: E731
            ctx.runner(primitive.jaxpr, name), prevent_cse=primitive.prevent_cse, policy=policy
        )
        return ctx.function(primitive, "", made)(*args)
    return apply(
        p.remat_p, *args, jaxpr=closed.jaxpr, prevent_cse=primitive.prevent_cse, policy=policy,
        differentiated=primitive.differentiated,
    )  # fmt: skip


# Solutions of equations.


@TO_JAX.register(LinearSolve)
def _linear_solve(primitive: LinearSolve, ctx: JaxContext, args: Args) -> Args:
    matvec, _, solve, transposed, right = groups(args, primitive.const_lengths)
    n = len(right)

    def applying(jaxpr: Jaxpr, consts: Args) -> Callable[..., Tree]:
        run = ctx.runner(jaxpr, primitive.name)
        return lambda *ys: tuple(run(*consts, *ys[-1]))

    def solving(jaxpr: Jaxpr, consts: Args) -> Callable[..., tuple[Tree, Tree]]:
        run = applying(jaxpr, consts)
        return lambda apply, y: (run(y)[:n], run(y)[n:])

    back = primitive.transpose_solve
    x, aux = lax.custom_linear_solve(
        applying(primitive.matvec, matvec), tuple(right), solving(primitive.solve, solve),
        None if back is None else solving(back, transposed), has_aux=True,
    )  # fmt: skip
    return [*x, *aux]


@TO_JAX.register(LinearCall)
def _linear_call(primitive: LinearCall, ctx: JaxContext, args: Args) -> Args:
    forward, back, linear = map(tuple, groups(args, primitive.const_lengths))

    def run(residuals: tuple[Tree, Tree], ins: Tree) -> Tree:
        return tuple(ctx.runner(primitive.jaxpr, primitive.name)(*residuals[0], *ins))

    def transposed(residuals: tuple[Tree, Tree], cts: Tree) -> Tree:
        if primitive.transposed is None:
            raise MissingRuleError.of(primitive.name, LinearCall, "Transposition", "transposed")
        return tuple(ctx.runner(primitive.transposed, primitive.name)(*residuals[1], *cts))

    found: Args = linear_call(run, transposed, (forward, back), linear)
    return found


@TO_JAX.register(CustomRoot)
def _root(primitive: CustomRoot, ctx: JaxContext, args: Args) -> Args:
    made = lambda: _with_root(primitive, ctx)  # noqa: E731
    return ctx.function(primitive, "", made)(*args)


def _with_root(primitive: CustomRoot, ctx: JaxContext) -> Function:
    lengths, name = primitive.const_lengths, primitive.name
    f, solve, tangent_solve = (
        ctx.runner(jaxpr, name) for jaxpr in (primitive.f, primitive.solve, primitive.tangent_solve)
    )

    def own(*args: ArrayLike) -> Tree:
        _, consts, _, guess = groups(args, lengths)
        return tuple(solve(*consts, *guess))

    function = jax.custom_jvp(own)

    def rule(primals: Tree, tangents: Tree) -> tuple[Tree, Tree]:
        outs = tuple(function(*primals))
        consts, _, others, guess = groups(primals, lengths)
        x, aux = outs[: len(guess)], outs[len(guess) :]
        _, moved = jax.jvp(lambda *cs: tuple(f(*cs, *x)), tuple(consts), tuple(groups(tangents, lengths)[0]))
        found = tangent_solve(*others, *x, *moved)
        return outs, (*(-jnp.asarray(t) for t in found), *(_zero_tangent(ctx.aval(y)) for y in aux))

    function.defjvp(rule)
    return function


def _zero_tangent(aval: ShapedArray) -> ArrayLike:
    return np.zeros(aval.shape, FLOAT0 if not has_tangent(aval) else aval.dtype)


# Custom derivatives. JAX gets one function for each primitive, whose rules run the programs of the rules when they are
# needed: so a rule that applies the function itself finds the same function again.


@TO_JAX.register(CustomJvp)
def _custom_jvp(primitive: CustomJvp, ctx: JaxContext, args: Args) -> Args:
    made = lambda: _with_jvp(primitive, ctx)  # noqa: E731
    return ctx.function(primitive, "", made)(*_guarded(primitive, ctx, args))


def _with_jvp(primitive: CustomJvp, ctx: JaxContext) -> Function:
    name, avals = primitive.function_name, primitive.jaxpr.out_avals
    function = jax.custom_jvp(ctx.runner(primitive.jaxpr, name))

    def rule(primals: Tree, tangents: Tree) -> tuple[Tree, Tree]:
        own = zip(primals[primitive.num_captured :], tangents[primitive.num_captured :], strict=True)
        given = [t for primal, t in own if has_tangent(ctx.aval(primal))]
        outs = interpret(ctx, primitive.rule("jvp_jaxpr"), [*primals, *given])
        return tuple(outs[: len(avals)]), _filled(outs[len(avals) :], avals)

    rule.__name__ = rule.__qualname__ = f"{name}_jvp"
    function.defjvp(rule)
    return function


def _filled(tangents: Args, avals: Sequence[ShapedArray]) -> Tree:
    """Tangents or cotangents, with JAX's zeros for those that have none."""
    found = iter(tangents)
    return tuple(next(found) if has_tangent(aval) else np.zeros(aval.shape, FLOAT0) for aval in avals)


@TO_JAX.register(CustomVjp)
def _custom_vjp(primitive: CustomVjp, ctx: JaxContext, args: Args) -> Args:
    made = lambda: _with_vjp(primitive, ctx)  # noqa: E731
    return ctx.function(primitive, "", made)(*_guarded(primitive, ctx, args))


def _with_vjp(primitive: CustomVjp, ctx: JaxContext) -> Function:
    name, avals, n = primitive.function_name, primitive.jaxpr.out_avals, primitive.num_captured
    function = jax.custom_vjp(ctx.runner(primitive.jaxpr, name))

    def forward(*args: ArrayLike) -> tuple[Tree, Tree]:
        outs = interpret(ctx, primitive.rule("fwd_jaxpr"), args)
        return tuple(outs[: len(avals)]), (*args[:n], *outs[len(avals) :])

    def backward(residuals: Tree, cotangents: Tree) -> tuple[ArrayLike | None, ...]:
        given = [ct for ct, aval in zip(cotangents, avals, strict=True) if has_tangent(aval)]
        found = iter(interpret(ctx, primitive.rule("bwd_jaxpr"), [*residuals, *given]))
        return (*[None] * n, *(next(found) if mark else None for mark in primitive.returned))

    forward.__name__ = forward.__qualname__ = f"{name}_fwd"
    backward.__name__ = backward.__qualname__ = f"{name}_bwd"
    function.defvjp(forward, backward)
    return function


@TO_JAX.register(MappedCustom)
def _mapped_custom(primitive: MappedCustom, ctx: JaxContext, args: Args) -> Args:
    axis, original = primitive.axis, primitive.original

    def one(*elements: ArrayLike) -> Sequence[ArrayLike]:
        return list(ctx.bind(original, *elements))

    mapped = jax.vmap(one, in_axes=primitive.in_axes, axis_size=axis.size, axis_name=axis.name)
    found: Args = mapped(*args)
    return found


def _guarded(primitive: CustomCall, ctx: JaxContext, args: Args) -> Args:
    """The operands; those that the function closes over are kept from being differentiated with respect to. On those
    that only its rule reads, its value doesn't depend."""
    if not primitive.captured:
        return args
    name = primitive.function_name
    guard = ctx.function(primitive, "captured", lambda: _guard(name))
    captured = args[: primitive.captured]
    read = primitive.reads_captured()
    guarded = iter(guard(*compress(captured, read)) if any(read) else ())
    rest = [next(guarded) if mark else x for x, mark in zip(captured, read, strict=True)]
    return [*rest, *args[primitive.captured :]]


def _guard(name: str) -> Function:
    def identity(*captured: ArrayLike) -> Sequence[ArrayLike]:
        return captured

    def rule(primals: Tree, tangents: Tree) -> tuple[Tree, Tree]:
        raise InputError(
            f"{name!r}, which has a derivative of its own, closes over a value of type {_listed(primals)} that "
            "is being differentiated with respect to, but its rule only says how to differentiate with respect to its "
            f"arguments. Pass the value to {name!r} as an argument and adapt the rule."
        )

    identity.__name__ = identity.__qualname__ = f"{name}_captured"
    guard: jax.custom_jvp[Sequence[ArrayLike]] = jax.custom_jvp(identity)
    guard.defjvp(rule)
    return guard


def _listed(values: Tree) -> str:
    return ", ".join(str(jax.typeof(value)) for value in values)


# Callbacks.


def _host_function(primitive: Callback) -> Callable[..., tuple[np.ndarray[tuple[int, ...], np.dtype[np.generic]], ...]]:
    def call(*args: ArrayLike) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.generic]], ...]:
        return primitive.evaluate(*map(np.asarray, args))

    return call


@TO_JAX.register(PureCallback)
def _pure_callback(primitive: PureCallback, ctx: JaxContext, args: Args) -> Args:
    def call(*args: ArrayLike) -> Sequence[object]:
        # Mapped, JAX asks for more elements than the equation says, so only the function itself can be called.
        return [np.asarray(out) for out in primitive.function(*map(np.asarray, args))]

    results = tuple(map(struct, primitive.results))
    found: Sequence[ArrayLike] = jax.pure_callback(call, results, *args, vmap_method=primitive.vmap_method)
    return found


@TO_JAX.register(IOCallback)
def _io_callback(primitive: IOCallback, ctx: JaxContext, args: Args) -> Args:
    results = tuple(map(struct, primitive.results))
    found: Sequence[ArrayLike] = io_callback(_host_function(primitive), results, *args, ordered=primitive.ordered)
    return found


@TO_JAX.register(DebugCallback)
def _debug_callback(primitive: DebugCallback, ctx: JaxContext, args: Args) -> Args:
    function = _host_function(primitive)

    def look(*args: ArrayLike) -> None:
        function(*args)

    jax.debug.callback(look, *args)
    return []
