"""Programs over meshes from JAX and for JAX: they compute the same on the host, on devices, and with JAX, and so do
their derivatives and batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as JaxSpec

import tinyjax as tj
from tests.control.shard_map_programs import MESH, PROGRAMS, of_jax, ours
from tests.interop.mesh_functions import EXPLICIT, FUNCTIONS
from tinyjax import ClosedJaxpr, ir, lax
from tinyjax.errors import ParseError
from tinyjax.interop.jax import from_jax, to_jax
from tinyjax.interop.jax import of_jax as function_of_jax
from tinyjax.primitives.resharding import ShardingConstraint
from tinyjax.sharding import PartitionSpec as P

RANDOM = np.random.default_rng(5)
X, W = RANDOM.normal(size=(8, 4)), RANDOM.normal(size=(4, 4))
DX, DW = RANDOM.normal(size=(8, 4)), RANDOM.normal(size=(4, 4))
#: Reverse mode of a `while` is nobody's.
FORWARD_ONLY = {"loop_as_long_as_each_likes", "loop_of_each"}
#: They have rules for reverse mode.
BACKWARD_ONLY = {"rule_with_a_sum", "rules"}
#: Derivatives for which JAX waits for ever (a sum within what devices choose), or fails.
NOT_IN_JAX = {"choice_of_each", "untiled_all_to_all", "one_within_another", "rule_for_batches"}
#: What JAX's types don't say varies, though by ours it does: its text contradicts them.
NOT_AS_TEXT = {"loop_of_each", "solutions"}
Arrays = Sequence[npt.NDArray[Any]]
Function = Callable[..., Any]


def leaves(results: object) -> Arrays:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(results, is_leaf=lambda x: hasattr(x, "__array__"))]


def agree(found: object, wanted: object) -> None:
    for one, other in zip(leaves(found), leaves(wanted), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=2**-36, atol=2**-36)


def total(f: Function) -> Function:
    """A number that all results of a function of JAX have a part in."""

    def summed(x: Any, w: Any) -> Any:
        found = [jnp.asarray(leaf) for leaf in jax.tree.leaves(f(x, w))]
        return sum((jnp.sin(leaf) * jnp.arange(1.0, leaf.size + 1.0).reshape(leaf.shape)).sum() for leaf in found)

    return summed


def running(program: ClosedJaxpr) -> Function:
    return lambda *args: tj.eval_jaxpr(program, (), *args)


def of_program(name: str) -> Function:
    return lambda x, w: PROGRAMS[name](of_jax(), x, w)


CASES = [*((f"{name} ", of_program(name)) for name in PROGRAMS), *FUNCTIONS.items()]


@pytest.mark.sweep
@pytest.mark.parametrize(("name", "f"), CASES, ids=[name for name, _ in CASES])
def test_there_and_back(name: str, f: Function) -> None:
    """The values of a program from JAX, as it is and as text, on the host, on devices and with JAX again, and forward
    and backward derivatives and batches of it."""
    name = name.strip()
    mesh = jax.set_mesh(EXPLICIT) if name.startswith("explicit") else nullcontext()
    backward = name not in FORWARD_ONLY | NOT_IN_JAX
    forward = name not in BACKWARD_ONLY
    batches = np.stack([X, -X])
    with mesh:
        closed, summed = jax.make_jaxpr(f)(X, W), jax.make_jaxpr(total(f))(X, W)

        def everything(x: Any, w: Any, dx: Any, dw: Any) -> Any:
            found = f(x, w), jax.jvp(f, (x, w), (dx, dw))[1] if forward else ()
            return (*found, jax.grad(total(f), (0, 1))(x, w)) if backward else found

        expected = jax.block_until_ready(jax.jit(everything)(X, W, DX, DW))
        program, number = from_jax(closed), from_jax(summed)
        ir.typecheck(program)
        run = running(program)
        agree(run(X, W), expected[0])
        if forward:
            agree(tj.jvp(run, (X, W), (DX, DW))[1], expected[1])
        agree(tj.jit(run)(X, W), expected[0])
        if name not in NOT_AS_TEXT:
            parsed = ir.parse(str(closed))
            assert ir.parse(str(parsed)) == parsed
            agree(tj.eval_jaxpr(parsed, list(map(np.asarray, closed.consts)), X, W), expected[0])
        if backward:
            ir.typecheck(number)
            agree(tj.grad(lambda *args: running(number)(*args)[0], (0, 1))(X, W), expected[2])
        if name != "explicit_products":  # whose reshaping JAX can't map
            agree(
                tj.vmap(run, (0, None))(batches, W), jax.block_until_ready(jax.jit(jax.vmap(f, (0, None)))(batches, W))
            )
        again = to_jax(program)
        agree(jax.block_until_ready(jax.jit(again)(X, W)), expected[0])
        assert from_jax(again, X, W).in_avals == program.in_avals
        if backward:
            agree(jax.block_until_ready(jax.jit(jax.grad(to_jax(number), (0, 1)))(X, W)), expected[2])


@pytest.mark.sweep
@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - {"untiled_all_to_all"}))
def test_programs_of_ours_for_jax(name: str) -> None:
    """What is traced here runs on JAX's devices; and back here it is the same program."""
    f: Function = lambda x, w: PROGRAMS[name](ours(), x, w)  # noqa: E731
    program = tj.make_jaxpr(f)(X, W)
    agree(jax.block_until_ready(jax.jit(to_jax(program))(X, W)), f(X, W))
    assert [str(aval) for aval in from_jax(to_jax(program), X, W).out_avals] == [str(a) for a in program.out_avals]


def test_types_of_jax_say_how_arrays_lie() -> None:
    text = """{ lambda ; a:f32[8@x,4@(y,z)]. let
        b:f32[8@x,4] = reshard a
        c:f32[8,4]{V:(y,x)} = pvary[axes=('y', 'x')] b
      in (c,) }"""
    assert str(ir.parse(text)) == "{ lambda ; a:f32[8,4]. let b:f32[8,4]{V:(x,y)} = pvary[axes=(x, y)] a in (b,) }"
    for marks in ("{U:x}", "{V:x, U:y}", "{R:x}", "{V:x, U:(y,z), R:w}"):
        assert str(ir.parse(f"{{ lambda ; a:f32[8]{marks}. let  in (a,) }}").in_avals[0]) == f"f32[8]{marks}"
    for marks in ("{W:x}", "{V:x, U:x}"):
        with pytest.raises(ParseError):
            ir.parse(f"{{ lambda ; a:f32[8]{marks}. let  in (a,) }}")


def test_how_values_lie_is_kept() -> None:
    program = from_jax(FUNCTIONS["compiled"], X, W)
    constraints = [eqn.primitive for eqn in program.eqns if isinstance(eqn.primitive, ShardingConstraint)]
    specs = [str(constraint.sharding.spec) for constraint in constraints]
    assert specs == [
        "P('x',)",
        "P(None, 'y')",
        "P('x', 'y')",
        "P('x',)",
    ]
    assert ir.content_hash(program.jaxpr) == ir.content_hash(ir.parse(str(program.jaxpr)))


def test_sums_yet_to_be_made() -> None:
    """What JAX leaves to be summed later is its sum here."""

    def f(x: Any) -> Any:
        y = jnp.einsum("ij->i", x, out_sharding=NamedSharding(EXPLICIT, JaxSpec(unreduced={"y"})))
        return jax.reshard(y, NamedSharding(EXPLICIT, JaxSpec()))

    with jax.set_mesh(EXPLICIT):
        program = from_jax(f, jax.device_put(jnp.ones((8, 4)), NamedSharding(EXPLICIT, JaxSpec(None, "y"))))
    agree(tj.eval_jaxpr(program, (), X)[0], X.sum(1))


def test_functions_within_the_other_library() -> None:
    """A function of JAX within a `shard_map` of ours, and the other way round, knows the axes."""
    theirs = function_of_jax(lambda x: jax.lax.psum(jnp.sin(x), "x") * jax.lax.axis_index("y"))
    found = tj.shard_map(lambda x: theirs(x) * 2.0, mesh=MESH, in_specs=P("x"), out_specs=P("y"))(X)
    sums = np.sin(X).reshape(4, 2, 4).sum(0)
    np.testing.assert_allclose(np.asarray(found), np.concatenate([0 * sums, 2 * sums]))

    own = to_jax(lambda x: lax.psum(tj.numpy.sin(x), "x"))
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    mapped = jax.jit(jax.shard_map(own, mesh=mesh, in_specs=JaxSpec("x"), out_specs=JaxSpec()))
    np.testing.assert_allclose(jax.block_until_ready(mapped(X)), sums)
    np.testing.assert_allclose(jax.vmap(own, axis_name="x")(X), np.broadcast_to(np.sin(X).sum(0), X.shape))
