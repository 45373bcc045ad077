"""Functions of JAX as functions of ours: trees, signatures, transformations, and what is said when it can't be."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pytest
from jax.extend.core import Primitive
from jax.extend.random import define_prng_impl

import tinyjax as tj
from tinyjax import Array, backend
from tinyjax.errors import StaticArgumentError, UnsupportedError, X64DisabledError
from tinyjax.interop.jax import from_jax, of_jax

Matrix = npt.NDArray[np.float64]
X: Final[Matrix] = np.random.default_rng(0).normal(size=(4, 3))
WEIGHTS: Final = jnp.asarray(np.random.default_rng(1).normal(size=(3, 2)))


class Pair(NamedTuple):
    x: Any
    y: Any


@jax.custom_jvp
def tripled(x: jax.Array) -> jax.Array:
    return jnp.sin(x)


@tripled.defjvp
def _tripled_jvp(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    return tripled(primals[0]), 3.0 * jnp.cos(primals[0]) * tangents[0]


def layer(x: jax.Array) -> jax.Array:
    """Closes over an array of JAX."""
    return jnp.tanh(x @ WEIGHTS)


FUNCTIONS: Final[dict[str, Callable[[jax.Array], jax.Array]]] = {
    "softmax": jax.nn.softmax,
    "gelu": jax.nn.gelu,
    "jitted": jax.jit(lambda x: jnp.cumsum(x, axis=-1) ** 2),
    "custom": tripled,
    "closing over": layer,
    "loop": lambda x: jax.lax.scan(lambda c, row: (c * 0.5 + row, c), x[0], x)[0],
    "norm": functools.partial(jnp.linalg.norm, axis=-1),
}
TRANSFORMATIONS: Final[dict[str, tuple[Callable[..., Any], Callable[..., Any]]]] = {
    "value": (lambda f: f, lambda f: f),
    "jit": (tj.jit, jax.jit),
    "grad": (lambda f: tj.grad(lambda x: f(x).sum()), lambda f: jax.grad(lambda x: f(x).sum())),
    "vmap of grad": (
        lambda f: tj.vmap(tj.grad(lambda x, y: (f(x) * y).sum()), in_axes=(None, 0)),
        lambda f: jax.vmap(jax.grad(lambda x, y: (f(x) * y).sum()), in_axes=(None, 0)),
    ),
    "hessian": (
        lambda f: tj.jit(tj.jacfwd(tj.jacrev(lambda x: f(x).sum()))),
        lambda f: jax.jit(jax.jacfwd(jax.jacrev(lambda x: f(x).sum()))),
    ),
}


QUICK: Final = ("custom", "closing over")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.sweep) for name in FUNCTIONS]
)
def test_every_transformation_applies(name: str) -> None:
    theirs = FUNCTIONS[name]
    ours = of_jax(theirs)
    scale = np.arange(1.0, 3.0)
    for transformation, (mine, jaxs) in TRANSFORMATIONS.items():
        args = (X, scale) if transformation == "vmap of grad" else (X,)
        found, expected = mine(ours)(*args), jaxs(theirs)(*args)
        assert isinstance(found, Array)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12, err_msg=transformation)


def test_trees_go_in_and_come_out() -> None:
    def f(pair: Pair, *, more: dict[str, jax.Array]) -> tuple[Pair, dict[str, jax.Array | str]]:
        return Pair(pair.y, None), {"sum": pair.x + more["z"], "name": "f"}

    ours: Callable[..., Any] = of_jax(f)
    swapped, rest = (
        tj.jit(lambda p, z: ours(p, more={"z": z})[0])(Pair(X, 2.0), X),
        ours(Pair(X, 2.0), more={"z": X})[1],
    )
    assert isinstance(swapped, Pair)
    assert (float(swapped.x), swapped.y, rest["name"]) == (2.0, None, "f")
    np.testing.assert_array_equal(rest["sum"], X + X)
    assert (ours.__name__, repr(ours)[:11]) == ("f", "<of_jax of ")


def test_it_is_one_equation_of_its_name() -> None:
    program = tj.make_jaxpr(of_jax(layer))(X)
    (eqn,) = [eqn for eqn in program.eqns if eqn.primitive.name == "call"]
    assert eqn.params["function_name"] == "layer"


def test_each_signature_is_imported_once() -> None:
    traced = []

    @functools.partial(of_jax, static_argnames="n")
    def f(x: jax.Array, n: int = 1, mode: str = "plain") -> jax.Array:
        traced.append((x.shape, x.dtype, n, mode))
        return x * n if mode == "plain" else -x

    for _ in range(2):
        f(X)
        f(X, n=2)
        f(X, 2)
        f(X.astype("float32"))
        f(X, mode="other")  # a string is static by itself
        tj.grad(lambda x: f(x).sum())(X)
    assert len(traced) == 4 + 1  # by position and by name are two signatures
    assert float(f(2.0, mode="other")) == -2.0
    with pytest.raises(
        StaticArgumentError, match=r"argument mode of f is no array, so it is static, and must be hashable"
    ):
        f(X, 1, {1, 2})


class Scaled:
    """A method that JAX jits, with itself and a number static."""

    @functools.partial(jax.jit, static_argnums=(0, 2))
    def times(self, x: jax.Array, n: int) -> jax.Array:
        return x * sum(range(n))


def test_what_is_static_in_a_jitted_function_is_static_of_itself() -> None:
    norm = of_jax(jnp.linalg.norm)
    np.testing.assert_allclose(norm(X, axis=0), np.linalg.norm(X, axis=0))
    np.testing.assert_allclose(tj.jit(tj.grad(lambda x: norm(x, 1, axis=0).sum()))(X), np.sign(X))
    for f, args in ((Scaled().times, ()), (Scaled.times, (Scaled(),))):
        np.testing.assert_allclose(tj.vmap(lambda x, f=f, args=args: of_jax(f)(*args, x, 4))(X), 6 * X)
    assert of_jax(jax.jit(lambda x, *, n: x * sum(range(n)), static_argnames="n"))(2.0, n=4) == 12.0
    ruled = jax.custom_vjp(lambda x, n: x * n, nondiff_argnums=(1,))
    ruled.defvjp(lambda x, n: (x * n, None), lambda n, _, y: (10 * n * y,))
    assert tj.grad(of_jax(ruled))(2.0, 4) == tj.grad(of_jax(ruled))(2.0, n=4) == 40.0
    assert len(from_jax(jnp.tril, X, 1).jaxpr.invars) == 1
    for within in (jax.nn.softmax, lambda x, axis: jnp.linalg.norm(x, axis=axis)):
        with pytest.raises((jax.errors.ConcretizationTypeError, ValueError)) as raised:
            of_jax(within)(X, axis=0)
        assert raised.value.__notes__[-1].endswith("are marked: of_jax(…, static_argnames=['axis']).")


def test_types_are_those_of_jax() -> None:
    f = of_jax(lambda x, y: (x + y, jnp.argmax(x), jnp.ones(2)))
    for dtype in ("float32", "float64", "int32", "bfloat16"):
        x = X.astype(dtype)
        expected = jax.eval_shape(lambda x, y: (x + y, jnp.argmax(x), jnp.ones(2)), x, 2.0)
        assert [out.dtype for out in f(x, 2.0)] == [out.dtype for out in expected]
    assert of_jax(jnp.sin)(1.0).aval.weak_type


def test_numbers_fit_in_where_64_bits_are_switched_off() -> None:
    with jax.enable_x64(False):
        f = of_jax(lambda x, n: x * n)
        out = f(X.astype("float32"), 2.0)
        assert out.dtype == np.float32
        assert of_jax(jnp.sin)(1).dtype == np.float32
        np.testing.assert_array_equal(out, X.astype("float32") * 2)
        gradient = tj.grad(lambda n: f(X.astype("float32"), n).sum())(2.0)
        assert gradient.aval.weak_type
        with pytest.raises(X64DisabledError, match=r"of_jax of sin .*: argument x has dtype float64, which JAX has "):
            of_jax(jnp.sin)(X)


def test_integers_fit_in_if_32_bits_are_enough_for_them() -> None:
    """As in JAX, to which all of NumPy's integers come; but what it would truncate is refused."""
    small, large = np.asarray([3, -(2**31)]), np.asarray([2**31])
    double = of_jax(lambda n: n + n)
    with jax.enable_x64(False):
        np.testing.assert_array_equal(double(np.asarray([3], np.uint64)), np.asarray([6], np.uint32))
        assert double(small).dtype == np.int32
        assert double(np.zeros(0, np.int64)).dtype == np.int32
        program = from_jax(lambda x, n: x[n], X.astype("float32"), small)
        assert str(program.in_avals[1]) == "i32[2]"
        for refused in (lambda: double(large), lambda: tj.jit(double)(small), lambda: from_jax(jnp.sin, large)):
            with pytest.raises(X64DisabledError, match="has dtype int64, which JAX has switched off"):
                refused()
    assert double(small).dtype == np.int64


def test_keys_are_taken() -> None:
    draw = of_jax(lambda key, shape: jax.random.normal(jax.random.split(key)[0], shape), static_argnums=1)
    key = jax.random.key(3)
    expected = jax.random.normal(jax.random.split(key)[0], (2,))
    np.testing.assert_array_equal(draw(key, (2,)), expected)
    keys = of_jax(jax.random.split)(key)
    assert str(keys.aval) == "key<fry>[2]"
    np.testing.assert_array_equal(draw(of_jax(jax.random.clone)(key), (2,)), expected)


def test_keys_of_somebodys_generator_are_integers() -> None:
    impl = define_prng_impl(
        key_shape=(3,),
        seed=lambda seed: jnp.full(3, seed).astype("uint32"),
        split=lambda key, shape: key + jax.lax.broadcasted_iota(np.uint32, (*shape, 3), 0),
        random_bits=lambda key, width, shape: jnp.full(shape, key.sum()).astype(f"uint{width}"),
        fold_in=lambda key, data: key ^ data,
        name="somebodys",
        tag="smb",
    )
    key = jax.random.key(5, impl=impl)
    assert backend.from_jax(key) is None
    for f in (jax.random.clone, lambda key: jax.random.split(key)[1], lambda key: jax.random.fold_in(key, 3)):
        np.testing.assert_array_equal(of_jax(f)(key), jax.random.key_data(f(key)))
    np.testing.assert_array_equal(of_jax(jax.random.bits)(key), jax.random.bits(key))


def test_named_axes_are_there() -> None:
    centred = of_jax(lambda x: x - jax.lax.pmean(x, "rows"))
    found = tj.vmap(centred, axis_name="rows")(X)
    np.testing.assert_allclose(found, X - X.mean(axis=0), atol=1e-15)
    np.testing.assert_array_equal(of_jax(lambda x: x)(X), X)


def test_what_is_missing_is_said_with_its_line() -> None:
    kernel = Primitive("kernel")
    kernel.def_abstract_eval(lambda x: x)

    def model(x: jax.Array) -> jax.Array:
        return jnp.asarray(kernel.bind(x))

    line = model.__code__.co_firstlineno
    with pytest.raises(UnsupportedError) as caught:
        of_jax(model)(X)
    message = str(caught.value)
    assert message.startswith(f"of_jax of model ({__file__}:{line}): tinyjax has nothing for these")
    assert f"\n  kernel (1) at {__file__}:{line + 1} (" in message


def test_forward_mode_of_a_custom_vjp_function_is_refused_as_in_jax() -> None:
    f = jax.custom_vjp(jnp.sin)
    f.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (g * jnp.cos(x),))
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(f, (1.0,), (1.0,))
    with pytest.raises(UnsupportedError, match="custom_lin: forward mode of a custom_vjp function"):
        of_jax(lambda x: jax.jvp(f, (x,), (x,)))(1.0)


def test_errors_of_jax_say_which_function_was_traced() -> None:
    def branches(x: jax.Array) -> jax.Array:
        return x if x > 0 else -x

    with pytest.raises(jax.errors.TracerBoolConversionError) as caught:
        of_jax(branches)(1.0)
    assert any(note.startswith("of_jax of branches (") for note in caught.value.__notes__)


def doubled(x: jax.Array, end: jax.Array) -> tuple[jax.Array, jax.Array]:
    return jax.lax.while_loop(lambda c: c[1] < end, lambda c: (c[0] * 2.0, c[1] + c[0]), (x, x))


BATCHED_LOOPS: Final[dict[str, Callable[..., Any]]] = {
    "carry": jax.vmap(doubled, (0, None)),
    "constant": jax.vmap(doubled, (None, 0)),
    "twice": jax.vmap(jax.vmap(doubled, (0, None)), (None, 0)),
    "bounds": jax.vmap(lambda x, n: jax.lax.fori_loop(0, jnp.int32(n), lambda i, c: c * x, 1.0)),
    "of arrays": jax.vmap(lambda x, n: jax.lax.while_loop(lambda c: c.sum() < n, lambda c: 2 * c, x * jnp.ones(2))),
}


@pytest.mark.parametrize("name", BATCHED_LOOPS)
def test_loops_that_jax_has_batched_end_row_by_row(name: str) -> None:
    f = BATCHED_LOOPS[name]
    x, y = np.array([0.5, 1.0, 3.0]), np.array([2.0, 9.0, 1.0])
    x, y = (np.asarray(0.5), y) if name == "constant" else (x, np.asarray(7.0)) if name == "carry" else (x, y)
    ours: Callable[..., Any] = of_jax(f)
    for got, want in (
        (ours(x, y), f(x, y)),
        (tj.jit(ours)(x, y), f(x, y)),
        (tj.jvp(lambda x: ours(x, y), (x,), (x + 1,)), jax.jvp(lambda x: f(x, y), (x,), (x + 1,))),
        (tj.vmap(ours, (0, None))(np.stack([x, x + 1]), y), jax.vmap(f, (0, None))(np.stack([x, x + 1]), y)),
    ):
        for a, b in zip(
            jax.tree.leaves(jax.tree.map(np.asarray, tj.tree.leaves(got))), jax.tree.leaves(want), strict=True
        ):
            np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.sweep
@pytest.mark.parametrize("mode", ["drop", "clip"])
def test_functions_that_are_applied_at_positions(mode: str) -> None:
    """Once for each time that a position is there."""
    places = np.array([[1, 1, 9, 2], [0, 1, 3, -1]])

    def f(x: jax.Array, places: jax.Array) -> jax.Array:
        return x.at[places].apply(lambda v: 2.0 * v + 1.0, mode=mode)

    def of_rows(x: jax.Array, places: jax.Array) -> jax.Array:
        return x.at[places].apply(jnp.sin, mode=mode, unique_indices=True)

    x, row, matrix = np.arange(5.0), np.array([2, 0]), np.arange(6.0).reshape(3, 2)
    for function, args in ((f, (x, places)), (f, (matrix, row)), (of_rows, (matrix, row))):
        ours: Callable[..., Any] = of_jax(function)
        want = function(jnp.asarray(args[0]), jnp.asarray(args[1]))
        np.testing.assert_allclose(np.asarray(ours(*args)), want, rtol=1e-12)
        np.testing.assert_allclose(np.asarray(tj.jit(ours)(*args)), want, rtol=1e-12)
    rows: Callable[..., Any] = of_jax(of_rows)
    found = tj.grad(lambda x: (rows(x, row) ** 2).sum())(matrix)
    expected = np.where(np.array([1, 0, 1])[:, None], np.sin(2 * matrix), 2 * matrix)
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-12)


def test_what_changes_no_value_is_left_out() -> None:
    def f(x: jax.Array) -> jax.Array:
        if hasattr(jax.lax, "dce_sink"):
            jax.lax.dce_sink(x * 2.0)
        return (jax.lax.stage(x) if hasattr(jax.lax, "stage") else x) + 1.0

    ours: Callable[..., Any] = of_jax(f)
    assert np.asarray(tj.jit(ours)(np.arange(3.0))).tolist() == [1.0, 2.0, 3.0]


def test_residuals_that_are_numbers_decide() -> None:
    @jax.custom_vjp
    def f(x: Any) -> Any:
        return jnp.sin(x)

    def forward(x: Any) -> Any:
        return f(x), (x, True, 3, np.float64(2.0))

    def backward(kept: Any, ct: Any) -> Any:
        x, yes, count, factor = kept
        return (sum(ct * jnp.cos(x) for _ in range(count)) * (factor if yes else 0.0),)

    f.defvjp(forward, backward)
    x, ours = np.float64(0.5), of_jax(f)
    found = [tj.grad(ours)(x), tj.grad(tj.jit(ours))(x), tj.vmap(tj.grad(ours))(np.array([x]))[0]]
    np.testing.assert_allclose(found, [np.asarray(jax.grad(f)(x))] * 3)


@jax.custom_jvp
def with_count(x: jax.Array, n: jax.Array) -> tuple[jax.Array, jax.Array]:
    return jnp.sin(x), n + 1


@with_count.defjvp
def _with_count_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    return with_count(*primals), (3.0 * tangents[0] * jnp.cos(primals[0]), tangents[1])


def _within_a_loop(x: jax.Array, t: jax.Array, n: jax.Array) -> jax.Array:
    def step(carry: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        return with_count(carry, n)

    moved: jax.Array = jax.jvp(lambda x: jax.lax.scan(step, x, None, length=2), (x,), (t,))[1][0]
    return moved


TANGENTS_WITHOUT_BITS: Final[dict[str, Callable[..., jax.Array]]] = {
    "of a result": lambda x, t, n: jax.jvp(lambda x: jax.vmap(with_count)(x, n), (x,), (t,))[1][0],
    "of a jitted function": lambda x, t, n: jax.jit(lambda x, t: jax.jvp(
        lambda x, n: (jnp.sin(x), n + 1), (x, n), (t, np.zeros(n.shape, jax.dtypes.float0))
    )[1])(x, t)[0],
    "of an integer argument": lambda x, t, n: jax.jit(lambda x: jax.vjp(lambda x, n: x[n] * t, x, n)[1](t))(x)[0],
    "within a loop": _within_a_loop,
}  # fmt: skip


@pytest.mark.parametrize("name", TANGENTS_WITHOUT_BITS)
def test_tangents_without_bits_within_programs_are_compiled(name: str) -> None:
    f = TANGENTS_WITHOUT_BITS[name]
    x, t, n = np.linspace(0.1, 0.7, 3), np.array([1.0, 2.0, 3.0]), jnp.array([0, 2, 1])
    ours: Callable[..., Any] = of_jax(lambda x, t: f(x, t, n))
    expected = jax.jit(lambda x, t: f(x, t, n))(x, t)
    np.testing.assert_allclose(tj.jit(ours)(x, t), expected)
    np.testing.assert_allclose(tj.jit(tj.vmap(ours))(x[None], t[None])[0], expected)
    np.testing.assert_allclose(
        tj.jit(tj.grad(lambda x: ours(x, t).sum()))(x), jax.jit(jax.grad(lambda x: f(x, t, n).sum()))(x)
    )
