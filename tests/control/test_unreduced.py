"""Sums between devices that are yet to be made: on the host against devices and JAX, and what isn't linear in them."""

from __future__ import annotations

import pickle
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
from tests.control.unreduced_programs import MESH, PROGRAMS, THEIRS, of_jax, ours
from tinyjax import ir, lax, tools, transforms
from tinyjax.errors import AxisNameError, ChoiceError, ParseError, ShardingError, TypingError, VaryingError
from tinyjax.interop.jax import from_jax, to_jax
from tinyjax.sharding import AbstractMesh
from tinyjax.sharding import PartitionSpec as P
from tinyjax.testing import check_laws

RANDOM = np.random.default_rng(5)
X, W = RANDOM.normal(size=(8, 4)), RANDOM.normal(size=(4, 4))
DX, DW = RANDOM.normal(size=(8, 4)), RANDOM.normal(size=(4, 4))
TOLERANCE = 2**-40
#: Of a loop that reads what is reduced, JAX 0.10 has no gradient.
NO_GRADIENT = {"in_a_scan"}
every_program = pytest.mark.parametrize("name", PROGRAMS)


def agree(found: object, wanted: object) -> None:
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=TOLERANCE, atol=TOLERANCE)


def loss(name: str, m: Any) -> Any:
    """A number that all elements have a part in."""

    def total(x: Any, w: Any) -> Any:
        found = PROGRAMS[name](m, x, w)
        if m.lax is not lax:
            found = jax.sharding.reshard(found, jax.P())
        return (m.np.sin(found) * m.np.arange(1.0, found.size + 1.0).reshape(found.shape)).sum()

    return total


@every_program
def test_derivatives(name: str) -> None:
    """Against quotients of differences, forward and backward; and the programs of both are well typed."""
    f, eps = loss(name, ours()), 1e-6
    up, down = (float(f(X + sign * eps * DX, W + sign * eps * DW)) for sign in (1, -1))
    expected = (up - down) / (2 * eps)
    assert float(tj.jvp(f, (X, W), (DX, DW))[1]) == pytest.approx(expected, rel=1e-5, abs=1e-5)
    gx, gw = tj.grad(f, (0, 1))(X, W)
    assert float((gx * DX).sum() + (gw * DW).sum()) == pytest.approx(expected, rel=1e-5, abs=1e-5)
    program = tj.make_jaxpr(tj.grad(f, (0, 1)))(X, W)
    ir.typecheck(program)
    agree(tj.eval_jaxpr(program.jaxpr, program.consts, X, W)[1], gw)


@every_program
def test_read_saved_and_mapped(name: str) -> None:
    program = tj.make_jaxpr(tj.grad(loss(name, ours()), (0, 1)))(X, W)
    assert ir.parse(str(program.jaxpr)) == program.jaxpr
    assert pickle.loads(pickle.dumps(program)) == program
    assert ir.content_hash(pickle.loads(pickle.dumps(program.jaxpr))) == ir.content_hash(program.jaxpr)
    f = ours()
    mapped = tj.vmap(lambda x, w: PROGRAMS[name](f, x, w), (0, None))(np.stack([X, 2 * X]), W)
    agree(mapped, np.stack([PROGRAMS[name](f, X, W), PROGRAMS[name](f, 2 * X, W)]))


@pytest.mark.sweep
@every_program
def test_laws(name: str) -> None:
    check_laws(tj.make_jaxpr(lambda x, w: PROGRAMS[name](ours(), x, w))(X, W), [X, W])


@pytest.mark.sweep
@every_program
def test_on_devices(name: str) -> None:
    """Compiled for devices, in one program, and each call for itself."""
    on_devices = ours(tj.make_mesh((4, 2), ("x", "y")))
    wanted = PROGRAMS[name](ours(), X, W)
    agree(PROGRAMS[name](on_devices, X, W), wanted)
    agree(tj.jit(lambda x, w: PROGRAMS[name](on_devices, x, w))(X, W), wanted)
    derived = tj.grad(loss(name, ours()), (0, 1))(X, W)
    for found, each in zip(tj.jit(tj.grad(loss(name, on_devices), (0, 1)))(X, W), derived, strict=True):
        agree(found, each)


@pytest.mark.sweep
@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - {"linear_in_terms"}))
def test_against_jax(name: str) -> None:
    """Values, derivatives, programs from JAX and for it."""
    theirs = of_jax()
    with jax.set_mesh(THEIRS):
        closed = jax.make_jaxpr(lambda x, w: PROGRAMS[name](theirs, x, w))(X, W)
        wanted = jax.block_until_ready(
            jax.jit(lambda x, w: jax.sharding.reshard(PROGRAMS[name](theirs, x, w), jax.P()))(X, W)
        )
        derived = () if name in NO_GRADIENT else jax.jit(jax.grad(loss(name, theirs), (0, 1)))(X, W)
        derived = [jax.block_until_ready(jax.sharding.reshard(each, jax.P())) for each in derived]
        wanted, derived = np.asarray(wanted), list(map(np.asarray, derived))
    agree(PROGRAMS[name](ours(), X, W), wanted)
    for found, each in zip(tj.grad(loss(name, ours()), (0, 1))(X, W), derived, strict=bool(derived)):
        agree(found, each)
    program = from_jax(closed)
    ir.typecheck(program)
    agree(tj.eval_jaxpr(program.jaxpr, program.consts, X, W)[0], wanted)
    own = tj.make_jaxpr(lambda x, w: PROGRAMS[name](ours(), x, w))(X, W)
    agree(jax.block_until_ready(jax.jit(to_jax(own))(X, W)), wanted)
    number = tj.make_jaxpr(loss(name, ours()))(X, W)
    gradient = jax.block_until_ready(jax.jit(jax.grad(to_jax(number), (0, 1)))(X, W))
    for found, each in zip(gradient, tj.grad(loss(name, ours()), (0, 1))(X, W), strict=True):
        agree(found, each)


def test_types() -> None:
    seen: list[str] = []

    def body(x: Any, w: Any) -> Any:
        term = lax.pcast(x @ w, "y", to="unreduced")
        seen.extend(str(each.aval) for each in (x, w, term, lax.psum(term, "y")))
        seen.append(str(lax.psum_scatter(term, "y", scatter_dimension=1, tiled=True).aval))
        seen.append(str(lax.all_gather(x, "x", tiled=True, to="reduced").aval))
        seen.append(str(lax.all_gather(x, "x", tiled=True, to="invarying").aval))
        return term

    tj.make_jaxpr(
        tj.shard_map(body, mesh=MESH, in_specs=(P("x", "y"), P("y", reduced={"x"})), out_specs=P("x", unreduced={"y"}))
    )(X, W)
    assert seen == [
        "f64[2,2]{V:(x,y)}", "f64[2,4]{V:y, R:x}", "f64[2,4]{V:x, U:y}", "f64[2,4]{V:x}", "f64[2,2]{V:(x,y)}",
        "f64[8,2]{V:y, R:x}", "f64[8,2]{V:y}",
    ]  # fmt: skip
    aval = ir.ShapedArray((4,), "f32", varying=("x",), unreduced=("y",), reduced=("z",))
    assert (str(aval), str(aval.cotangent)) == ("f32[4]{V:x, U:y, R:z}", "f32[4]{V:x, U:z, R:y}")
    assert aval.cotangent.cotangent == aval
    assert ir.parse(f"{{ lambda ; a:{aval}. let  in (a,) }}").in_avals == (aval,)
    with pytest.raises(TypingError, match="two along 'x'"):
        ir.ShapedArray((), "f32", varying=("x",), reduced=("x",))


def test_gradients_are_summed_where_somebody_asks() -> None:
    """Of a weight that is reduced no gradient is summed in the loop, or in the program at all."""

    def body(x: Any, w: Any) -> Any:
        return lax.scan(lambda c, _: (tj.numpy.tanh(c @ w), None), x, None, length=5)[0]

    def collectives(spec: P) -> list[str]:
        mapped = tj.shard_map(body, mesh=MESH, in_specs=(P("x"), spec), out_specs=P("x"))
        program = tj.make_jaxpr(tj.grad(lambda w: mapped(X, w).sum()))(W)
        report = tools.partition(program, AbstractMesh((4, 2), ("x", "y")), (P(),), compile=False)
        return [each.kind for each in report.written]

    assert collectives(P(reduced={"x"})) == []
    assert collectives(P()) == ["all-reduce"]


ROWS = P("x")


def run(f: Any, in_specs: Any = ROWS, out_specs: Any = ROWS, mesh: Any = MESH, **options: Any) -> Any:
    return tj.shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, **options)(X)


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (tj.numpy.sin, "sin: operand 0 is a value that is unreduced along 'x', .* but sin isn't linear.*lax.psum"),
        (lambda z: z * z, "mul: .* a product of sums is no sum of products"),
        (lambda z: z + 1.0, "meets a value that is unreduced along 'x', .* lax.pcast"),
        (lambda z: z + z.sum() * 0.0 + lax.axis_index("x"), "and another varies"),
        (lambda z: 1.0 / z, "div: operand 1 is a value that is unreduced"),
        (lambda z: z.max(), "reduce_max isn't linear|max isn't linear"),
        (lambda z: lax.pmax(z, "x"), "unreduced along 'x'"),
        (lambda z: lax.pmax(z, "y"), "pmax isn't linear"),
        (lambda z: lax.ppermute(z, "x", [(0, 1)]), "unreduced along 'x'"),
        (lambda z: lax.all_gather(z, "x"), "lax.psum_scatter make it"),
        (lambda z: lax.pcast(z, "x", to="varying"), r"not f64\[2,4\]{U:x}; lax.psum"),
        (lambda z: lax.pcast(z, "y", to="unreduced"), "takes what varies along them"),
        (lambda z: lax.pcast(z, ("x", "y"), to="reduced"), "is unreduced along 'x', invarying along 'y'"),
        (lambda z: lax.psum(z, ("x", "y")), "take them one by one"),
    ],
)
def test_what_isnt_linear(f: Any, message: str) -> None:
    with pytest.raises((TypingError, AxisNameError), match=message):
        run(lambda x: f(lax.pcast(x, "x", to="unreduced")), out_specs=P(unreduced={"x"}))


def test_a_choice_between_sums() -> None:
    def body(x: Any) -> Any:
        z = lax.pcast(x, "x", to="unreduced")
        return lax.psum(lax.cond(tj.numpy.ones(()) > 0, lambda z: 2.0 * z, lambda z: -z, z), "x")

    np.testing.assert_allclose(run(body, out_specs=P()), 2 * X.reshape(4, 2, 4).sum(0))


def test_specifications() -> None:
    with pytest.raises(VaryingError, match=r"unreduced along axis 'x' .* Write P\(..., unreduced={'x'}\)"):
        run(lambda x: lax.pcast(x, "x", to="unreduced"), out_specs=P())
    with pytest.raises(VaryingError, match=r"must be unreduced along axis 'y'.*lax.pcast\(y, 'y', to='unreduced'\)"):
        run(lambda x: x, out_specs=P("x", unreduced={"y"}))
    with pytest.raises(VaryingError, match="reduced along axis 'y'"):
        run(lambda x: lax.pcast(x, "y", to="reduced"))
    with pytest.raises(ShardingError, match="Explicit axes"):
        run(lambda x: x, P(unreduced={"x"}), P(unreduced={"x"}), AbstractMesh((4, 2), ("x", "y")))
    with pytest.raises(ShardingError, match="Leave axis_names out"):
        run(lambda x: x, P(unreduced={"x"}), P(unreduced={"x"}), axis_names={"x"})
    with pytest.raises(ShardingError, match="its axes of the mesh are"):
        run(lambda x: x, P(unreduced={"z"}), P())
    with pytest.raises(ChoiceError, match="'varying', 'unreduced' or 'reduced'"):
        run(lambda x: lax.pcast(x, "x", to="invarying"))
    with pytest.raises(ChoiceError, match="all_gather: to"):
        run(lambda x: lax.all_gather(x, "x", to="unreduced"))
    np.testing.assert_allclose(run(lambda x: x, out_specs=P(unreduced={"x"})), X.reshape(4, 2, 4).sum(0))


def test_types_are_checked() -> None:
    """The verifier refuses what the rules do."""
    for text in (
        "{ lambda ; a:f32[4]{U:x}. let b:f32[4]{U:x} = sin a in (b,) }",
        "{ lambda ; a:f32[4]{U:x} b:f32[4]. let c:f32[4]{U:x} = add a b in (c,) }",
        "{ lambda ; a:f32[4]{U:x} b:f32[4]{U:x}. let c:f32[4]{U:x} = mul a b in (c,) }",
        "{ lambda ; a:f32[4]{R:x}. let b:f32[4] = psum[axis_name=x] a in (b,) }",
        "{ lambda ; a:f32[4]{V:x}. let b:f32[4] = unreduced_psum[axis_name=x] a in (b,) }",
        "{ lambda ; a:f32[4]. let b:f32[4]{U:x} = vary_unreduced_cast[axes=(x,)] a in (b,) }",
        "{ lambda ; a:f32[4]{V:x}. let b:f32[4]{R:x} = preduced[axes=(x,)] a in (b,) }",
    ):
        with pytest.raises(ParseError):
            ir.parse(text)


def test_passes_keep_types() -> None:
    program = tj.make_jaxpr(tj.grad(loss("in_a_scan", ours()), (0, 1)))(X, W)
    wanted = tj.eval_jaxpr(program.jaxpr, program.consts, X, W)
    for change in (transforms.simplify, transforms.cse, transforms.dce, transforms.inline, transforms.fold_constants):
        changed = change(program)
        ir.typecheck(changed)
        for found, each in zip(tj.eval_jaxpr(changed.jaxpr, changed.consts, X, W), wanted, strict=True):
            agree(found, each)


@pytest.mark.parametrize("spec", [P("x", unreduced={"y"}), P(None, "x", reduced={"y"})], ids=str)
def test_arrays_on_devices_are_their_sums(spec: P) -> None:
    """However an array gets there: a specification of terms is one of what they come to."""
    sharding = tj.NamedSharding(tj.make_mesh((4, 2), ("x", "y")), spec)
    for placed in (
        tj.device_put(X, sharding),
        tj.make_array_from_callback(X.shape, sharding, lambda index: X[index]),
        tj.jit(lambda x: x, in_shardings=sharding)(X),
        tj.jit(lambda x: x, out_shardings=sharding)(X),
        tj.jit(lambda x: lax.with_sharding_constraint(x, sharding))(X),
    ):
        np.testing.assert_array_equal(placed, X)
        assert repr(placed) == repr(tj.numpy.asarray(X))
        assert len(placed.sharding.device_set) == 8
        piece = placed.addressable_shards[0].data
        assert piece is not None
        assert piece.shape == sharding.shard_shape(X.shape)
        np.testing.assert_array_equal(placed + placed, X + X)
