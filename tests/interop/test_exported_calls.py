"""Calls of functions that JAX has exported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
from tinyjax import ir
from tinyjax.control.exported import CallExported, ForeignModule
from tinyjax.errors import ForwardModeError, LoweringError, ParseError, TypingError, UnsupportedError
from tinyjax.hlo import lower
from tinyjax.interop.jax import from_jax, of_jax, to_jax
from tinyjax.ir.traverse import nested_programs
from tinyjax.tools.cost import program_cost

X = np.linspace(0.5, 2.0, 3, dtype=np.float32)
N = np.int32(2)


def struct(*shape: Any, dtype: str = "float32") -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def read_back(function: Callable[..., Any], *types: Any, order: int = 0, **options: Any) -> Callable[..., Any]:
    """The function, as another process has exported it."""
    exported = jax.export.export(jax.jit(function), **options)(*types)
    call: Callable[..., Any] = jax.export.deserialize(exported.serialize(vjp_order=order)).call
    return call


def affine(x: jax.Array, n: jax.Array) -> tuple[jax.Array, jax.Array]:
    return jnp.sin(x) @ jnp.ones((3, 3), x.dtype) + n, n + 1


AFFINE = read_back(affine, struct(3), struct(dtype="int32"), order=2)
KEY = jax.eval_shape(lambda: jax.random.key(0))


def dictionary(x: jax.Array, unused: jax.Array) -> Any:
    return {"a": x * 2, "b": (), "c": x}


def of_nothing() -> tuple[()]:
    return ()


def twice(x: jax.Array) -> Any:
    return AFFINE(x, N)[0] + jax.jit(lambda y: AFFINE(y * 2, N)[0])(x)


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "several results": (AFFINE, (X, N)),
    "a derivative": (jax.grad(lambda x: AFFINE(x, N)[0].sum()), (X,)),
    "calls within calls": (read_back(twice, struct(3)), (X,)),
    "a dictionary": (read_back(dictionary, struct(2, dtype="bfloat16"), struct(2)), (np.ones(2, jnp.bfloat16), X[:2])),
    "LAPACK": (read_back(jnp.linalg.cholesky, struct(2, 2)), (2 * np.eye(2, dtype=np.float32),)),
    "two platforms": (
        read_back(jnp.linalg.cholesky, struct(2, 2), platforms=["cpu", "cuda"]), (2 * np.eye(2, dtype=np.float32),)
    ),
    "open shapes": (
        read_back(lambda x: jnp.cumsum(jnp.sin(x).T, 0), struct(*jax.export.symbolic_shape("a, b"))),
        (np.ones((3, 2), np.float32),),
    ),
    "complex": (read_back(jnp.fft.fft, struct(4, dtype="complex64")), (np.arange(4, dtype=np.complex64),)),
    "float8": (read_back(lambda x: x * 2, struct(3, dtype="float8_e4m3fn")), (X.astype(jnp.float8_e4m3fn),)),
    "regions": (read_back(lambda x: jax.lax.fori_loop(0, 3, lambda i, x: jnp.sort(x * i), x), struct(3)), (X,)),
    "no operands": (read_back(lambda: jnp.arange(3)), ()),
    "nothing": (read_back(of_nothing), ()),
}  # fmt: skip


def close(found: Any, wanted: Any) -> None:
    found, wanted = tj.tree.leaves(found), jax.tree.leaves(wanted)
    assert [(x.shape, np.dtype(x.dtype)) for x in found] == [(x.shape, x.dtype) for x in wanted]
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(x, np.complex64), np.asarray(y, np.complex64), rtol=1e-5, atol=1e-6)


@pytest.mark.sweep
@pytest.mark.parametrize("case", CASES)
def test_they_compute_what_they_do_in_jax(case: str) -> None:
    function, args = CASES[case]
    wanted = function(*args)
    ours = of_jax(function)
    close(ours(*args), wanted)
    close(tj.jit(ours)(*args), wanted)
    program = from_jax(function, *args)
    assert any(isinstance(eqn.primitive, CallExported) for each in nested_programs(program.jaxpr) for eqn in each.eqns)
    assert ir.parse(str(program)) == program.jaxpr
    found = to_jax(program)(*args)
    close(found if isinstance(found, tuple) else (found,), wanted)
    if args:
        stacked = [np.stack([arg, arg + np.ones_like(arg)]) for arg in args]
        rows = [function(*(arg[i] for arg in stacked)) for i in range(2)]
        close(tj.jit(tj.vmap(ours))(*stacked), jax.tree.map(lambda *each: np.stack(each), *rows))


@pytest.mark.sweep
def test_keys() -> None:
    split = read_back(lambda k: (jax.random.split(k), jax.random.normal(k, (2,))), KEY)
    wanted, numbers = split(jax.random.key(3))
    for run in (of_jax(split), tj.jit(of_jax(split)), tj.jit(of_jax(to_jax(from_jax(split, KEY))))):
        keys, found = run(tj.random.key(3))
        np.testing.assert_array_equal(tj.random.key_data(keys), jax.random.key_data(wanted))
        close(found, numbers)


@pytest.mark.sweep
def test_derivatives_are_the_exported_ones() -> None:
    def f(x: jax.Array) -> Any:
        return AFFINE(x, N)[0].sum()

    def slope(x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.sin(jax.grad(f)(x)))

    ours = of_jax(f)
    close(tj.grad(ours)(X), jax.grad(f)(X))
    close(tj.jit(tj.grad(ours))(X), jax.grad(f)(X))
    close(tj.grad(lambda x: tj.numpy.sum(tj.numpy.sin(tj.grad(ours)(x))))(X), jax.grad(slope)(X))
    with pytest.raises(ForwardModeError):
        tj.jvp(ours, (X,), (X,))
    first = read_back(affine, struct(3), struct(dtype="int32"))
    with pytest.raises(ValueError, match="No VJP is available"):
        tj.grad(of_jax(lambda x: first(x, N)[0].sum()))(X)


def test_functions_that_were_not_written_down_have_derivatives_of_every_order_asked_for() -> None:
    here = jax.export.export(jax.jit(lambda x: x**3))(struct())
    ours: Callable[[Any], Any] = of_jax(here.call)
    assert float(tj.grad(tj.grad(ours))(np.float32(2.0))) == 12.0


PRIMITIVE = CallExported(
    "f",
    (ForeignModule(("cuda",), "exported$0$f", "func.func private @exported$0$f() { return }"),),
    (tj.ShapedArray((2,), "float32"),),
    (),
)


def test_what_they_refuse() -> None:
    two = tj.ShapedArray((2,), "float32")
    program = ir.Jaxpr((ir.Var(0, two),), (ir.Eqn(PRIMITIVE, (ir.Var(0, two),), ()),), ())
    with pytest.raises(LoweringError, match="'f' was exported for cuda, but is compiled for cpu"):
        lower(program)
    assert "func.call @exported$0$f(%arg0) : (tensor<2xf32>) -> ()" in lower(program, platform="cuda")
    with pytest.raises(TypingError, match=r"'f' takes \(f32\[2\]\), got \(f32\[3\]\)"):
        PRIMITIVE.type_of(tj.ShapedArray((3,), "float32"))
    with pytest.raises(UnsupportedError, match="Export it with its derivative"):
        tj.transforms.jvp(program)
    assert [each.reason for each in program_cost(program).unknown] == [
        "it calls a function of which only the StableHLO is known"
    ]


def test_text_of_jax_lacks_the_function() -> None:
    with pytest.raises(ParseError, match="doesn't say what exported functions compute"):
        ir.parse(str(jax.make_jaxpr(AFFINE)(X, N)))


def test_what_from_jax_refuses() -> None:
    kernel = jax.ffi.ffi_call("kernel", struct(2), has_side_effect=True)
    allowed = jax.export.DisabledSafetyCheck.custom_call("kernel")
    outside: Any = jax.export.export(jax.jit(kernel), disabled_checks=[allowed])(struct(2))
    with pytest.raises(UnsupportedError, match=r"call_exported: the exported function .* has effects"):
        from_jax(outside.call, struct(2))
    mesh = jax.sharding.Mesh(np.asarray(jax.devices()[:2]), ("a",))
    place = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("a"))
    over = jax.export.export(jax.jit(lambda x: x * 2, in_shardings=place))(struct(2))
    with pytest.raises(UnsupportedError, match="'<lambda>' is for 2 devices; export it for one"):
        from_jax(over.call, struct(2))
