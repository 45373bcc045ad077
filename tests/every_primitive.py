"""Every primitive of the standard registry in random programs: applications of those that take arrays, and programs
that hold the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import numpy as np
from hypothesis import strategies as st

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.control.unreduced_programs import MESH, PROGRAMS, ours
from tests.hlo.every_type import GRIDS, Application, accepted
from tinyjax import Array, lax
from tinyjax.ad_checkpoint import checkpoint_name
from tinyjax.contexts.staging import StagingContext
from tinyjax.control.exported import CallExported, ForeignModule
from tinyjax.experimental import checkify, io_callback
from tinyjax.extend import bind
from tinyjax.ir import Atom, Jaxpr, ShapedArray
from tinyjax.ir.interpret import interpret
from tinyjax.ir.traverse import subjaxprs
from tinyjax.sharding import PartitionSpec as P

V: Final = np.linspace(0.5, 2.0, 3)
M: Final = np.linspace(0.5, 2.0, 12).reshape(3, 4)


@cache
def applications() -> Mapping[str, tuple[Application, ...]]:
    """Applications by the names of primitives."""
    found: defaultdict[str, list[Application]] = defaultdict(list)
    for grid in GRIDS:
        for application in accepted(grid):
            found[application[0].name].append(application)
    return {name: tuple(each) for name, each in found.items()}


def _control(x: Array) -> Any:
    looped = lax.while_loop(lambda c: tnp.sum(c) < 9.0, lambda c: c * 2.0, x)
    chosen = lax.cond(x[0] > 1.0, lambda: looped * 2.0, lambda: x)
    total = lax.scan(lambda c, y: (c + y, c * y), 0.0, chosen)
    placed = lax.platform_dependent(x, cpu=lambda x: x * 2.0, default=lambda x: x)
    named = lax.composite(tnp.sin, "my.op")(lax.optimization_barrier(placed))
    return total, tj.jit(tnp.cos)(tj.checkpoint(tnp.sin)(checkpoint_name(named, "n")))


@tj.custom_jvp
def _by_jvp(x: Array) -> Array:
    return x * 2.0


_by_jvp.defjvp(lambda primals, tangents: (_by_jvp(*primals), tangents[0] * 2.0))


@tj.custom_vjp
def _by_vjp(x: Array) -> Array:
    return x * 2.0


_by_vjp.defvjp(lambda x: (_by_vjp(x), x), lambda x, ct: (ct * x,))


@tj.custom_batching.custom_vmap
def _by_vmap(x: Array) -> Array:
    return x * 2.0


@_by_vmap.def_vmap
def _(size: int, batched: Any, x: Array) -> tuple[Array, bool]:
    return _by_vmap(x), batched[0]


def _rules(x: Array) -> Any:
    root = lax.custom_root(lambda y: y**3 - x, x, lambda f, y: y, lambda g, y: y / g(tnp.ones_like(y)))
    solved = lax.custom_linear_solve(lambda v: v * 2.0, x, lambda mv, b: b / 2.0, lambda vm, b: b / 2.0)
    linear = tj.custom_derivatives.linear_call(lambda r, x: r * x, lambda r, ct: r * ct, x, x)
    return _by_jvp(x), _by_vjp(x), _by_vmap(x), root, solved, linear


def _mapped(x: Array) -> Any:
    return tj.vmap(_rules)(x)


def _derivative(x: Array) -> Any:
    return tj.jvp(_rules, (x,), (x,))


@tj.custom_vjp
def _remade(x: Array) -> Array:
    return x * 2.0


_remade.defvjp(lambda x: (_remade(x), x), lambda x, ct: (ct * x,), optimize_remat=True)


def _pulled_back(x: Array) -> Any:
    return tj.linearize(_by_vjp, x)[1](x), tj.grad(lambda x: tnp.sum(tj.jit(_remade)(x)))(x)


def _on_host(x: Array) -> Any:
    tj.debug.print("{}", x)
    like = tj.ShapeDtypeStruct((3,), np.float64)
    return tj.pure_callback(np.sin, like, x), io_callback(np.sin, like, x)


def _windows(x: Array) -> Any:
    return (
        lax.reduce(x, np.float64(1.0), lambda a, b: a * b + 0.0 * a, (0,)),
        lax.reduce_window(x, np.float64(1.0), lambda a, b: a * b + 0.0 * a, (2, 2), (1, 1), "VALID"),
        lax.select_and_scatter(x, lax.ge, (2, 2), (1, 1), "VALID", x[1:, 1:], np.float64(0.0), lax.mul),
    )  # fmt: skip


def _checked(x: Array) -> Any:
    checkify.check(x[0] > 0.0, "no")
    return x


def _foreign(x: Array) -> Any:
    return tj.ffi.ffi_call("kernel", tj.ShapeDtypeStruct((3,), np.float64))(x, power=2)


def _exported(x: Array) -> Any:
    text = "func.func private @exported$0$f(%x: tensor<3xf64>) -> tensor<3xf64> { return %x : tensor<3xf64> }"
    module, types = ForeignModule(("cpu",), "exported$0$f", text), (ShapedArray((3,), "float64"),)
    return bind(CallExported("f", (module,), types, types), x)


def _along_x(x: Array) -> Any:
    gathered = lax.all_gather(x, "x", tiled=True)
    ring = [(i, (i + 1) % 4) for i in range(4)]
    own = (lax.psum(x, "x"), lax.pmax(x, "x"), lax.pmin(x, "x"), lax.psum(lax.pcast(1.0, "x", to="varying"), "x"))
    return *own, lax.ppermute(x, "x", ring), gathered, lax.all_to_all(x, "x", 0, 0, tiled=True), (
        lax.psum_scatter(gathered, "x", tiled=True), x + lax.axis_index("x")
    )  # fmt: skip


def _over_mesh(x: Array) -> Any:
    specs = (P(), P(), P(), P(), P("x"), P("x"), P("x"), (P("x"), P("x")))
    return tj.shard_map(_along_x, mesh=MESH, in_specs=P("x"), out_specs=specs)(x)


def _laid_out(x: Array) -> Any:
    return lax.with_sharding_constraint(x, tj.sharding.NamedSharding(MESH, P("x")))


HOLDING: Final[Mapping[str, tuple[Callable[..., Any], tuple[Any, ...]]]] = {
    f.__name__: (f, (x,))
    for f, x in [
        (_control, V), (_rules, V), (_mapped, M), (_derivative, V), (_pulled_back, V), (_on_host, V), (_windows, M),
        (_checked, V), (_foreign, V), (_exported, V), (_over_mesh, np.ones(16)), (_laid_out, np.ones(8)),
    ]
}  # fmt: skip


@cache
def holding() -> Mapping[str, Jaxpr]:
    """Programs by name that hold primitives which hold programs, and those that need an axis, a mesh or a host."""
    found = {name: tj.make_jaxpr(f)(*args).jaxpr for name, (f, args) in HOLDING.items()}
    for name, f in PROGRAMS.items():
        found[name] = tj.make_jaxpr(lambda x, w, f=f: f(ours(), x, w))(np.ones((8, 4)), np.ones((4, 4))).jaxpr
    return found


def classes_in(jaxpr: Jaxpr) -> Iterator[str]:
    """The names of the primitives in a program, and in those within it."""
    for eqn in jaxpr.eqns:
        yield eqn.primitive.name
        for inner in subjaxprs(eqn.primitive):
            yield from classes_in(inner)


@st.composite
def programs(draw: st.DrawFn, max_parts: int = 4) -> Jaxpr:
    """Programs of several applications and programs side by side, of which some read the results of others."""
    ctx = StagingContext()
    known: defaultdict[ShapedArray, list[Atom]] = defaultdict(list)

    def operand(aval: ShapedArray) -> Atom:
        again: bool = bool(known[aval]) and draw(st.booleans())
        if again:
            return draw(st.sampled_from(known[aval]))
        known[aval].append(ctx.argument(aval))
        return known[aval][-1]

    outs: list[Atom] = []
    for _ in range(draw(st.integers(1, max_parts))):
        name = draw(st.sampled_from([*applications(), *holding()]))
        if name in holding():
            program = holding()[name]
            results: Sequence[Atom] = interpret(ctx, program, [operand(aval) for aval in program.in_avals])
        else:
            primitive, avals = draw(st.sampled_from(applications()[name]))
            results = ctx.bind(primitive, *[operand(aval) for aval in avals])
        for atom in results:
            known[atom.aval].append(atom)
        outs += results
    return ctx.finish(outs).jaxpr
