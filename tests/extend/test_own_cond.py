"""A conditional as a user would make it, with public names only: every rule, in every nesting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
import pytest
from attrs import frozen
from typing_extensions import override

import tinyjax as tj
from tinyjax import Jaxpr, ShapedArray, ir, lax, transforms
from tinyjax import numpy as tnp
from tinyjax.extend import (
    BatchAxis,
    Context,
    Effects,
    Evaluator,
    Outputs,
    Primitive,
    Split,
    UndefPrimal,
    Zero,
    bind,
    instantiate,
)
from tinyjax.extend.primitives import broadcast_in_dim, full, select
from tinyjax.hlo import RULES, SSA, LoweringContext
from tinyjax.interpreters import StagingContext, stage, stage_call

V = TypeVar("V")
Function = Callable[..., Any]


@frozen
class Either(Primitive):
    """One of two programs, by a predicate."""

    on_true: Jaxpr
    on_false: Jaxpr
    name: ClassVar[str] = "either"

    @property
    @override
    def effects(self) -> Effects:
        return self.on_true.effects | self.on_false.effects

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        _, *operands = avals
        for branch in (self.on_true, self.on_false):
            if not all(map(ShapedArray.matches, operands, branch.in_avals)):
                raise tj.TinyjaxError(f"either takes {branch.in_avals}, got {operands}")
        return self.on_true.out_avals

    @override
    def evaluate_with(self, evaluator: Evaluator, args: Sequence[ir.ConcreteValue]) -> Sequence[ir.ConcreteValue]:
        which, *operands = args
        return evaluator.execute(self.on_true if np.asarray(which.data) else self.on_false, operands, self.name)

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        moving = [not isinstance(t, Zero) for t in tangents[1:]]
        n = len(self.on_true.outvars)
        both = [transforms.jvp(branch, moving, force=[True] * n).jaxpr for branch in (self.on_true, self.on_false)]
        outs = ctx.bind(Either(*both), *primals, *[t for t in tangents[1:] if not isinstance(t, Zero)])
        return outs[:n], outs[n:]

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        zeros = [0] * len(self.on_true.outvars)
        both = [transforms.batch(branch, axis, axes[1:], zeros).jaxpr for branch in (self.on_true, self.on_false)]
        which, *operands = args
        if axes[0] is None:
            return ctx.bind(Either(*both), *args), zeros
        first, second = (ir.interpret(ctx, branch, operands) for branch in both)
        found: list[V] = []
        for x, y in zip(first, second, strict=True):
            mask = broadcast_in_dim(ctx, which, ctx.aval(x).shape, (0,))
            found.append(select(ctx, mask, x, y))
        return found, zeros

    @override
    def partial_eval(self, unknown: tuple[bool, ...]) -> Split | None:
        which, *rest = unknown
        if which:
            return None
        branches = self.on_true, self.on_false
        first = [transforms.partial_eval(branch, rest) for branch in branches]
        out = [a or b for a, b in zip(first[0].unknown_out, first[1].unknown_out, strict=True)]
        parts = [transforms.partial_eval(branch, rest, force_unknown=out) for branch in branches]
        known_out = out.count(False)
        made = [[r.aval for r in part.residuals if r.input is None] for part in parts]
        inputs = [i + 1 for i, mark in enumerate(rest) if not mark]  # all known operands are handed on
        avals = [branches[0].in_avals[i - 1] for i in inputs]
        later = [branches[0].in_avals[i] for i, mark in enumerate(rest) if mark]

        def known(branch: int) -> Jaxpr:
            """Returns the residuals of both branches: zeros for those of the other one."""

            def run(ctx: StagingContext, ins: list[ir.Atom]) -> Sequence[ir.Atom]:
                outs = ir.interpret(ctx, parts[branch].known, ins)
                zeros: list[ir.Atom] = [full(ctx, aval, 0) for aval in made[1 - branch]]
                own = list(outs[known_out:])
                return [*outs[:known_out], *(zeros + own if branch else own + zeros)]

            return stage(avals, run)

        def staged(branch: int) -> Jaxpr:
            def run(ctx: StagingContext, ins: list[ir.Atom]) -> Sequence[ir.Atom]:
                handed, rest_ins = dict(zip(inputs, ins, strict=False)), ins[len(inputs) :]
                start = 0 if branch == 0 else len(made[0])
                own = iter(rest_ins[start : start + len(made[branch])])
                residuals = [next(own) if r.input is None else handed[r.input + 1] for r in parts[branch].residuals]
                unknown_ins = rest_ins[len(made[0]) + len(made[1]) :]
                return ir.interpret(ctx, parts[branch].staged, [*residuals, *unknown_ins])

            return stage([*avals, *made[0], *made[1], *later], run)

        residuals = (0, *inputs, *[None] * (len(made[0]) + len(made[1])))
        return Split(Either(known(0), known(1)), Either(staged(0), staged(1)), tuple(out), residuals)

    @override
    def transpose(
        self, ctx: Context[V], cotangents: Sequence[V | Zero], args: Sequence[V | UndefPrimal]
    ) -> Sequence[V | Zero | None]:
        linear = [isinstance(x, UndefPrimal) for x in args[1:]]
        both = [transforms.transpose(branch, linear, check=False).jaxpr for branch in (self.on_true, self.on_false)]
        known = [x for x in args if not isinstance(x, UndefPrimal)]
        found = iter(ctx.bind(Either(*both), *known, *[instantiate(ctx, ct) for ct in cotangents]))
        return [None, *(next(found) if mark else None for mark in linear)]


@RULES.register(Either)
def _lower(primitive: Either, ctx: LoweringContext, args: Sequence[SSA], types: Sequence[ShapedArray]) -> Sequence[SSA]:
    """Both, and a selection: enough for a test."""
    which, *operands = args
    first, second = (
        ctx.call(branch, name, operands) for branch, name in ((primitive.on_true, "yes"), (primitive.on_false, "no"))
    )
    masks = [broadcast_in_dim(ctx, which, aval.shape, ()) for aval in types]
    return [select(ctx, mask, x, y) for mask, x, y in zip(masks, first, second, strict=True)]


def either(which: Any, on_true: Function, on_false: Function, *args: Any) -> Any:
    """What both functions close over becomes operands of both programs."""
    calls = [stage_call("either", f, args, {}) for f in (on_true, on_false)]
    captured = [x for call in calls for x in call.captured]
    avals = [x.aval for x in (*captured, *calls[0].arrays)]

    def joined(branch: int) -> Jaxpr:
        start = branch * len(calls[0].captured)

        def run(ctx: StagingContext, ins: list[ir.Atom]) -> Sequence[ir.Atom]:
            own = ins[start : start + len(calls[branch].captured)]
            return ir.interpret(ctx, calls[branch].jaxpr, [*own, *ins[len(captured) :]])

        return stage(avals, run)

    outs = bind(Either(joined(0), joined(1)), tnp.asarray(which), *captured, *calls[0].arrays)
    return calls[0].results(outs)


def mine(x: Any, y: Any) -> Any:
    return either(y > 1.0, lambda x, y: tnp.sin(x) * y, lambda x, y: tnp.exp(x) + x * y * y, x, y)


def plain(x: Any, y: Any) -> Any:
    return lax.cond(y > 1.0, lambda x, y: tnp.sin(x) * y, lambda x, y: tnp.exp(x) + x * y * y, x, y)


NESTINGS: dict[str, Callable[[Function], Function]] = {
    "plain": lambda f: f,
    "jit": tj.jit,
    "jvp": lambda f: lambda x, y: tj.jvp(f, (x, y), (y, x)),
    "grad": lambda f: tj.grad(f, argnums=(0, 1)),
    "grad of one": lambda f: tj.grad(lambda x, y: f(x, y) * x),
    "grad of grad": lambda f: tj.jit(tj.grad(tj.grad(f), argnums=1)),
    "vmap of one": lambda f: lambda x, y: tj.vmap(f, in_axes=(0, None))(np.array([x, y]), y),
    "vmap": lambda f: lambda x, y: tj.vmap(f)(np.array([x, y, 0.5]), np.array([y, x, 2.0])),
    "jit of vmap of grad": lambda f: lambda x, y: tj.jit(tj.vmap(tj.grad(f)))(np.array([x, y]), np.array([y, x])),
    "linearize": lambda f: lambda x, y: tj.linearize(f, x, y)[1](y, x),
    "checkpoint": lambda f: tj.grad(tj.checkpoint(f)),
    "scan": lambda f: tj.grad(lambda x, y: lax.scan(lambda c, v: (f(c, v), c), x, tnp.stack([y, x]))[0]),
}


def test_closing_over_what_is_traced() -> None:
    matrix = np.arange(4.0).reshape(2, 2)

    def f(cond: Function, x: Any) -> Any:
        return cond(x > 1.0, lambda y: (matrix @ (y * x)).sum(), lambda y: y.sum() * x * x, np.ones(2))

    for x in (0.5, 2.0):
        for transform in (tj.grad, tj.hessian, lambda g: tj.jit(tj.grad(g))):
            np.testing.assert_allclose(transform(lambda x: f(either, x))(x), transform(lambda x: f(lax.cond, x))(x))
    points = np.array([0.5, 2.0])
    np.testing.assert_allclose(
        tj.vmap(tj.grad(lambda x: f(either, x)))(points), tj.vmap(tj.grad(lambda x: f(lax.cond, x)))(points)
    )


@pytest.mark.parametrize("name", NESTINGS)
@pytest.mark.parametrize("y", [0.7, 1.3])
def test_nestings(name: str, y: float) -> None:
    nest = NESTINGS[name]
    found, expected = nest(mine)(np.float64(0.4), np.float64(y)), nest(plain)(np.float64(0.4), np.float64(y))
    tj.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), found, expected)
