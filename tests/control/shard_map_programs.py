"""Programs of `shard_map` that run as they are with JAX, too: each takes the modules that it is written with."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final, TypeAlias

import jax
import jax.numpy as jnp
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as JaxSpec

import tinyjax as tj
from tinyjax import lax
from tinyjax.sharding import AbstractMesh
from tinyjax.sharding import PartitionSpec as P

#: Functions of the modules, of an array of 8 by 4 and one of 4 by 4.
Program: TypeAlias = Callable[[Any, Any, Any], Any]  # Any: arrays of ours or of JAX's
SIZES: Final = (4, 2)
NAMES: Final = ("x", "y")
MESH: Final = AbstractMesh(SIZES, NAMES)
PROGRAMS: Final[dict[str, Program]] = {}
ROWS: Final = P(("x", "y"))


def ours() -> SimpleNamespace:
    """What programs are written with, of ours."""

    def shard_map(f: Any, in_specs: Any, out_specs: Any, **options: Any) -> Any:
        return tj.shard_map(f, mesh=MESH, in_specs=in_specs, out_specs=out_specs, **options)

    return SimpleNamespace(
        lax=lax, np=tj.numpy, grad=tj.grad, jit=tj.jit, vmap=tj.vmap, checkpoint=tj.checkpoint,
        custom_jvp=tj.custom_jvp, custom_vjp=tj.custom_vjp, shard_map=shard_map, within=shard_map,
        varying=lambda x, *axes: x, gathered=lambda x, *axes: x,
    )  # fmt: skip


def of_jax() -> SimpleNamespace:
    """The same of JAX. Where its types ask for a cast, `varying` is one, and `gathered` the sum of a rule."""
    mesh = jax.make_mesh(SIZES, NAMES, axis_types=(AxisType.Auto, AxisType.Auto))

    def specs(tree: Any) -> Any:
        return jax.tree.map(lambda s: JaxSpec(*s.partitions), tree, is_leaf=lambda s: isinstance(s, P))

    def shard_map(f: Any, in_specs: Any, out_specs: Any, **options: Any) -> Any:
        return jax.shard_map(f, mesh=mesh, in_specs=specs(in_specs), out_specs=specs(out_specs), **options)

    def within(f: Any, in_specs: Any, out_specs: Any, **options: Any) -> Any:
        return jax.shard_map(f, in_specs=specs(in_specs), out_specs=specs(out_specs), **options)

    return SimpleNamespace(
        lax=jax.lax, np=jnp, grad=jax.grad, jit=jax.jit, vmap=jax.vmap, checkpoint=jax.checkpoint,
        custom_jvp=jax.custom_jvp, custom_vjp=jax.custom_vjp, shard_map=shard_map, within=within,
        varying=lambda x, *axes: jax.lax.pcast(jnp.asarray(x), axes, to="varying"), gathered=jax.lax.psum,
    )  # fmt: skip


def program(f: Program) -> Program:
    PROGRAMS[f.__name__] = f
    return f


@program
def sums_in_a_scan(m: Any, x: Any, w: Any) -> Any:
    def body(x: Any, w: Any) -> Any:
        def step(c: Any, _: None) -> Any:
            c = m.np.tanh(c @ w) + m.lax.psum(c.sum(), "x") * 0.1
            return c, c.sum()

        c, ys = m.lax.scan(step, x, None, length=3)
        return c, m.lax.psum(ys, ("x", "y"))

    return m.shard_map(body, (ROWS, P()), (ROWS, P()))(x, w)


@program
def carry_that_comes_to_vary(m: Any, x: Any, w: Any) -> Any:
    def body(x: Any, w: Any) -> Any:
        total, _ = m.lax.scan(lambda c, r: (c + (r * w[0]).sum(), None), m.varying(m.np.zeros(()), "x"), x)
        return total[None]

    return m.shard_map(body, (P("x"), P()), P("x"))(x, w)


@program
def untiled_all_to_all(m: Any, x: Any, w: Any) -> Any:
    def body(x: Any, w: Any) -> Any:
        return m.np.sin(m.lax.all_to_all((x.T @ x @ w)[:, :1] * (m.lax.axis_index("x") + 1.0), "x", 0, 1))

    return m.shard_map(body, (P("x"), P()), P("x"))(x, w)


@program
def closes_over_an_array(m: Any, x: Any, w: Any) -> Any:
    return m.shard_map(lambda x: m.lax.psum(m.np.sin(x @ w).sum(), "x"), P("x"), P())(x)


@program
def the_same_operand_everywhere(m: Any, x: Any, w: Any) -> Any:
    return m.shard_map(lambda x, w: (x @ w, m.lax.pmean((x * w[0]).sum(), "x")), (P("x"), P()), (P("x"), P()))(x, w)


@program
def ring(m: Any, x: Any, w: Any) -> Any:
    def body(x: Any, w: Any) -> Any:
        total = x @ w
        for i in range(3):
            x = m.lax.ppermute(x, "x", [(j, (j + 1) % 4) for j in range(4)])
            total = total + m.np.sin(x @ w) * (i + 1)
        return total

    return m.shard_map(body, (P("x"), P()), P("x"))(x, w)


@program
def gathered_and_scattered(m: Any, x: Any, w: Any) -> Any:
    def body(x: Any, w: Any) -> Any:
        whole = m.lax.all_gather(x @ w, ("x", "y"), axis=1, tiled=True)
        return m.lax.psum_scatter(m.np.sin(whole), "x", scatter_dimension=1, tiled=True)

    return m.shard_map(body, (ROWS, P()), ROWS)(x, w)


@program
def types_that_say_nothing(m: Any, x: Any, w: Any) -> Any:
    def body(x: Any, w: Any) -> Any:
        return m.lax.psum(m.np.sin(x @ w).sum(), "x"), x @ w

    return m.shard_map(body, (P("x"), P()), (P(), P("x")), check_vma=False)(x, w)


@program
def gathered_though_types_say_nothing(m: Any, x: Any, w: Any) -> Any:
    def body(x: Any, w: Any) -> Any:
        return m.lax.all_gather(m.np.sin(x @ w), "x", tiled=True) * 2

    return m.shard_map(body, (P("x"), P()), P(), check_vma=False)(x, w)


@program
def compiled_within(m: Any, x: Any, w: Any) -> Any:
    summed = m.jit(lambda x, w: m.lax.psum(m.np.sin(x @ w), "x"))
    return m.shard_map(lambda x, w: summed(x, w) + summed(x * 2, w), (P("x"), P()), P())(x, w)


@program
def checkpoint_within(m: Any, x: Any, w: Any) -> Any:
    summed = m.checkpoint(lambda x, w: m.np.sin(m.lax.psum(m.np.sin(x @ w), "x")))
    return m.shard_map(lambda x, w: summed(x, w) * x, (P("x"), P()), P("x"))(x, w)


@program
def checkpoint_around(m: Any, x: Any, w: Any) -> Any:
    def body(x: Any, w: Any) -> Any:
        return m.np.sin(m.lax.psum(m.np.sin(x @ w), "x"))

    return m.checkpoint(m.shard_map(body, (P("x"), P()), P()))(x, w)


@program
def mapped_within(m: Any, x: Any, w: Any) -> Any:
    def body(x: Any, w: Any) -> Any:
        return m.vmap(lambda row: m.lax.psum(m.np.sin(row @ w), "x"))(x)

    return m.shard_map(body, (P("x"), P()), P())(x, w)


@program
def mapped_around(m: Any, x: Any, w: Any) -> Any:
    each = m.shard_map(lambda x, w: m.lax.psum(m.np.sin(x * w), "x"), (P("x"), P()), P())
    return m.vmap(lambda w: each(x, w))(w)


@program
def derivative_within(m: Any, x: Any, w: Any) -> Any:
    def body(x: Any, w: Any) -> Any:
        return m.grad(lambda w: m.np.sin(x @ w).sum())(w)

    return m.shard_map(body, (ROWS, P()), P())(x, w)


@program
def derivative_of_a_sum_within(m: Any, x: Any, w: Any) -> Any:
    def body(x: Any, w: Any) -> Any:
        return m.grad(lambda w: m.lax.psum(m.np.sin(x @ w).sum(), ("x", "y")))(w)

    return m.shard_map(body, (ROWS, P()), P())(x, w)


@program
def choice_that_all_make(m: Any, x: Any, w: Any) -> Any:
    def body(x: Any, w: Any) -> Any:
        chosen = m.lax.psum(x.sum(), "x") > 0
        return m.lax.cond(chosen, lambda: m.lax.psum(x @ w, "x"), lambda: m.lax.psum(x, "x"))

    return m.shard_map(body, (P("x"), P()), P())(x, w)


@program
def choice_of_each(m: Any, x: Any, w: Any) -> Any:
    def body(x: Any, w: Any) -> Any:
        return m.lax.cond(m.lax.axis_index("x") > 1, lambda x: m.np.sin(x @ w), lambda x: x * 2.0, x)

    return m.shard_map(body, (P("x"), P()), P("x"))(x, w)


@program
def loop_as_long_as_each_likes(m: Any, x: Any, w: Any) -> Any:
    def body(x: Any, w: Any) -> Any:
        first = m.varying(m.np.zeros(()), "x")
        unfinished = lambda c: c[0] < 5.0 + m.lax.axis_index("x")  # noqa: E731
        return m.lax.while_loop(unfinished, lambda c: (c[0] + 1.0, c[1] * 1.5), (first, x))[1]

    return m.shard_map(body, (P("x"), P()), P("x"))(x, w)


@program
def counted_loop(m: Any, x: Any, w: Any) -> Any:
    def body(x: Any, w: Any) -> Any:
        return m.lax.fori_loop(0, 3, lambda i, c: m.np.sin(c @ w) + m.lax.pmean(c, "y"), x)

    return m.shard_map(body, (P("x"), P()), P("x"))(x, w)


@program
def rule_for_the_derivative(m: Any, x: Any, w: Any) -> Any:
    f = m.custom_jvp(lambda x, w: m.np.sin(x @ w))

    def rule(primals: Any, tangents: Any) -> Any:
        (x, w), (dx, dw) = primals, tangents
        return f(x, w), m.np.cos(x @ w) * (dx @ w + x @ dw)

    f.defjvp(rule)
    return m.shard_map(lambda x, w: m.lax.psum(f(x, w), "y"), (ROWS, P()), P("x"))(x, w)


@program
def along_one_axis_only(m: Any, x: Any, w: Any) -> Any:
    return m.shard_map(lambda x, w: m.lax.psum(m.np.sin(x @ w), "x"), (P("x"), P()), P(), axis_names={"x"})(x, w)


@program
def trees(m: Any, x: Any, w: Any) -> Any:
    def body(d: Any) -> Any:
        return {"a": m.lax.psum(d["x"] @ d["w"], ("y", "x")), "b": (d["x"],)}

    ins = ({"x": ROWS, "w": P()},)
    return m.shard_map(body, ins, {"a": P(), "b": (ROWS,)})({"x": x, "w": w})


@program
def one_within_another(m: Any, x: Any, w: Any) -> Any:
    def outer(x: Any, w: Any) -> Any:
        def inner(x: Any, w: Any) -> Any:
            return m.lax.psum(m.np.sin(x @ w).sum(), "y")

        found = m.within(inner, (P("y"), P()), P(), axis_names={"y"})(x, w)
        return m.lax.psum(found * x.sum(), "x")

    return m.shard_map(outer, (P("x"), P()), P(), axis_names={"x"})(x, w)
