"""Programs of `shard_map` with sums yet to be made, and values whose cotangents are such: they run with JAX, too."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

import jax
import jax.numpy as jnp
from jax.sharding import AxisType as JaxAxisType
from jax.sharding import PartitionSpec as JaxSpec

import tinyjax as tj
from tests.control.shard_map_programs import NAMES, SIZES, Program
from tinyjax import lax
from tinyjax.sharding import AbstractMesh, AxisType
from tinyjax.sharding import PartitionSpec as P

MESH: Final = AbstractMesh(SIZES, NAMES, axis_types=(AxisType.Explicit, AxisType.Explicit))
#: JAX's, which is to be in force around the programs.
THEIRS: Final = jax.make_mesh(SIZES, NAMES, axis_types=(JaxAxisType.Explicit, JaxAxisType.Explicit))
PROGRAMS: Final[dict[str, Program]] = {}


def ours(mesh: Any = MESH) -> SimpleNamespace:
    """What programs are written with, of ours."""

    def shard_map(f: Any, in_specs: Any, out_specs: Any, **options: Any) -> Any:
        return tj.shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, **options)

    return SimpleNamespace(
        lax=lax, np=tj.numpy, grad=tj.grad, jit=tj.jit, checkpoint=tj.checkpoint, shard_map=shard_map
    )


def of_jax() -> SimpleNamespace:
    """The same of JAX, where operands have to lie as specifications say."""

    def theirs(spec: Any) -> Any:
        return JaxSpec(*spec.partitions, unreduced=spec.unreduced, reduced=spec.reduced)

    def specs(tree: Any) -> Any:
        return jax.tree.map(theirs, tree, is_leaf=lambda s: isinstance(s, P))

    def shard_map(f: Any, in_specs: Any, out_specs: Any, **options: Any) -> Any:
        mapped = jax.shard_map(f, in_specs=specs(in_specs), out_specs=specs(out_specs), **options)

        def lying(*args: Any) -> Any:
            said = in_specs if isinstance(in_specs, tuple) else (in_specs,)
            return mapped(*[jax.sharding.reshard(x, theirs(spec)) for x, spec in zip(args, said, strict=True)])

        return lying

    return SimpleNamespace(
        lax=jax.lax, np=jnp, grad=jax.grad, jit=jax.jit, checkpoint=jax.checkpoint, shard_map=shard_map
    )


def program(f: Program) -> Program:
    PROGRAMS[f.__name__] = f
    return f


@program
def terms_summed_outside(m: Any, x: Any, w: Any) -> Any:
    """A product whose contracted axis is divided, summed by another program."""

    def product(x: Any, w: Any) -> Any:
        return m.lax.pcast(x @ w, "y", to="unreduced")

    terms = m.shard_map(product, (P("x", "y"), P("y")), P("x", unreduced={"y"}))(x, w)
    return m.shard_map(lambda z: m.lax.psum(z, "y"), P("x", unreduced={"y"}), P("x"))(terms)


@program
def terms_scattered(m: Any, x: Any, w: Any) -> Any:
    def body(x: Any, w: Any) -> Any:
        z = m.lax.pcast(x @ w, "y", to="unreduced")
        return m.lax.psum_scatter(z + z, "y", scatter_dimension=1, tiled=True)

    return m.shard_map(body, (P("x", "y"), P("y")), P("x", "y"))(x, w)


@program
def weights_reduced(m: Any, x: Any, w: Any) -> Any:
    """Gradients of weights stay sums yet to be made."""

    def body(x: Any, w: Any) -> Any:
        return m.np.tanh(x @ w)

    return m.shard_map(body, (P("x"), P(reduced={"x"})), P("x"))(x, w)


@program
def weights_cast(m: Any, x: Any, w: Any) -> Any:
    def body(x: Any, w: Any) -> Any:
        w = m.lax.pcast(w, "x", to="reduced")
        return m.np.sin(x @ m.lax.pcast(w, "x", to="varying"))

    return m.shard_map(body, (P("x"), P()), P("x"))(x, w)


@program
def weights_gathered(m: Any, x: Any, w: Any) -> Any:
    """As where weights are divided among devices: their gradients are scattered."""

    def body(x: Any, w: Any) -> Any:
        return m.np.sin(x @ m.lax.all_gather(w, "x", tiled=True, to="reduced"))

    return m.shard_map(body, (P("x"), P("x")), P("x"))(x, w)


@program
def gathered_for_all(m: Any, x: Any, w: Any) -> Any:
    def body(x: Any, w: Any) -> Any:
        return m.lax.all_gather(m.np.sin(w), "x", axis=1, to="reduced")

    rows = m.shard_map(body, (P("x"), P("x")), P(reduced={"x"}))(x, w)
    return m.shard_map(lambda a, b: a * b.sum(), (P("x"), P(reduced={"x"})), P("x"))(x, rows)


@program
def in_a_scan(m: Any, x: Any, w: Any) -> Any:
    """Gradients of several steps, summed by devices before they are summed among them."""

    def body(x: Any, w: Any) -> Any:
        def step(c: Any, _: None) -> Any:
            return m.np.tanh(c @ w), None

        return m.lax.scan(step, x, None, length=3)[0]

    return m.shard_map(body, (P("x"), P(reduced={"x"})), P("x"))(x, w)


@program
def linear_in_terms(m: Any, x: Any, w: Any) -> Any:
    def body(x: Any) -> Any:
        z = m.lax.pcast(x, "x", to="unreduced")
        parts = m.np.concatenate([z.T, -z.T], axis=0).reshape(2, 4, 2)[:, 1:]
        return m.lax.psum(parts.sum(0) - z[:, :3].T, "x")

    return m.shard_map(body, P("x"), P())(x) * w.sum()


@program
def checkpointed(m: Any, x: Any, w: Any) -> Any:
    body = m.checkpoint(lambda x, w: m.np.sin(x @ w))
    return m.shard_map(body, (P("x"), P(None, "y", reduced={"x"})), P("x", "y"))(x, w)


@program
def types_that_say_nothing(m: Any, x: Any, w: Any) -> Any:
    def body(x: Any, w: Any) -> Any:
        return m.np.sin(x @ w)

    terms = m.shard_map(body, (P("x", "y"), P("y")), P("x", unreduced={"y"}), check_vma=False)(x, w)
    return m.shard_map(lambda z: m.lax.psum(z, "y"), P("x", unreduced={"y"}), P("x"), check_vma=False)(terms)
