"""`while_loop`, `fori_loop` with bounds that are traced, and `associative_scan`: against jax, and their programs."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pytest
from jax import lax as jlax

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.api.families import TRANSFORMATIONS
from tests.api.matching import assert_matches
from tests.control.loops import WHILES
from tests.golden import Golden
from tinyjax import Array, ArrayLike, hlo, ir, lax, transforms
from tinyjax.contexts.evaluation import EvalContext
from tinyjax.control.loops import While
from tinyjax.errors import InputError, LinearityError, TreeError, TypingError

FORWARD = ["jit", "jvp", "vmap", "linearize"]
NESTED = [(), *product(FORWARD, repeat=1), *product(FORWARD, repeat=2), ("jvp", "vmap", "jvp")]


@pytest.mark.parametrize("names", NESTED, ids=".".join)
@pytest.mark.parametrize("name", WHILES)
def test_transformations(name: str, names: tuple[str, ...]) -> None:
    ours, theirs = WHILES[name]
    for transformation in reversed(names):
        our, their = TRANSFORMATIONS[transformation]
        ours, theirs = our(ours), their(theirs)
    expected = jax.jit(theirs)(jnp.asarray(1.3))
    point = tnp.asarray(np.float64(1.3))
    np.testing.assert_allclose(ours(point), expected, rtol=1e-9, atol=1e-9)
    ir.typecheck(tj.make_jaxpr(ours)(point))
    np.testing.assert_allclose(tj.jit(ours)(point), expected, rtol=1e-9, atol=1e-9)


def collatz(numpy: ModuleType, while_loop: Callable[..., object]) -> Callable[[object], object]:
    """How many steps it takes to get to 1, and the largest number on the way."""

    def f(n: object) -> object:
        return while_loop(
            lambda c: c["n"] != 1,
            lambda c: {
                "n": numpy.where(c["n"] % 2 == 0, c["n"] // 2, 3 * c["n"] + 1),
                "steps": c["steps"] + 1,
                "top": numpy.maximum(c["top"], c["n"]),
            },
            {"n": n, "steps": 0, "top": n},
        )

    return f


def test_batched_predicate() -> None:
    """Rows end at different times; finished ones don't change any more."""
    ours, theirs = collatz(tnp, lax.while_loop), collatz(jnp, jlax.while_loop)
    starts = np.arange(1, 12)
    assert_matches(tj.vmap(ours)(starts), jax.vmap(theirs)(jnp.asarray(starts)))
    assert_matches(tj.jit(tj.vmap(ours))(starts), jax.vmap(theirs)(jnp.asarray(starts)))
    assert_matches(
        tj.vmap(tj.vmap(ours))(starts[:10].reshape(2, 5)), jax.vmap(jax.vmap(theirs))(starts[:10].reshape(2, 5))
    )


def test_frozen_rows_stay_finite() -> None:
    """What a finished row would have become doesn't reach its result, or its tangent."""

    def ours(x: Array) -> Array:
        start = (x, tnp.astype(x, "int64"))
        out: Array = lax.while_loop(lambda c: c[1] > 0, lambda c: (c[0] / c[1], c[1] - 1), start)[0]
        return out

    def theirs(x: jax.Array) -> jax.Array:
        start = (x, x.astype("int64"))
        out: jax.Array = jlax.while_loop(lambda c: c[1] > 0, lambda c: (c[0] / c[1], c[1] - 1), start)[0]
        return out

    x = np.arange(4.0)
    expected = jax.jvp(jax.vmap(theirs), (x,), (x,))
    assert_matches(tj.jvp(tj.vmap(ours), (x,), (x,)), expected)
    assert np.isfinite(expected[1]).all()


@pytest.mark.parametrize(
    ("bound_axis", "start_axis", "factor_axis"),
    [(0, None, None), (None, 0, None), (None, 1, 0), (None, None, 0), (0, 1, 0)],
)
def test_vmap_axes(bound_axis: int | None, start_axis: int | None, factor_axis: int | None) -> None:
    """Whatever is mapped: the condition's constants, the carry, the body's constants."""
    axes = (bound_axis, start_axis, factor_axis)
    args = [np.array([5.0, 50.0, 0.5]), np.arange(1.0, 7.0).reshape(2, 3), np.array([2.0, 3.0, 4.0])]
    if start_axis == 0:
        args[1] = args[1].T
    picked = [x if axis is not None else x[..., 0] for x, axis in zip(args, axes, strict=True)]

    def ours(bound: Array, start: Array, factor: Array) -> object:
        return lax.while_loop(lambda c: c[0][0] < bound, lambda c: (c[0] * factor, c[1] + 1), (start, 0))

    def theirs(bound: jax.Array, start: jax.Array, factor: jax.Array) -> object:
        return jlax.while_loop(lambda c: c[0][0] < bound, lambda c: (c[0] * factor, c[1] + 1), (start, 0))

    assert_matches(tj.vmap(ours, axes)(*map(tnp.asarray, picked)), jax.vmap(theirs, axes)(*map(jnp.asarray, picked)))


def test_on_the_host() -> None:
    """Without a compiler, loops run in Python."""
    closed = tj.make_jaxpr(collatz(tnp, lax.while_loop))(7)
    outs = ir.interpret(EvalContext(), closed.jaxpr, [*closed.consts, ir.ConcreteValue.of(7)])
    assert [int(np.asarray(out)) for out in outs] == [1, 16, 52]
    assert tuple(out.aval for out in outs) == closed.out_avals


def test_carries() -> None:
    """Trees, none at all, and weak ones, which take the dtype of what the body returns."""
    assert_matches(lax.while_loop(lambda c: False, lambda c: c, ()), ())

    def run(while_loop: Callable[..., object]) -> object:
        return while_loop(lambda c: c["a"][0] < 3, lambda c: {"a": (c["a"][0] + 1.5,)}, {"a": (0,)})

    assert_matches(run(lax.while_loop), run(jlax.while_loop))
    half = lax.while_loop(lambda x: x < 3.0, lambda x: x + np.float32(1.0), 0)
    assert half.aval == tj.ShapedArray((), "float32")


@pytest.mark.parametrize(("lower", "upper"), [(0, 4), (2, 2), (5, 1), (-2, 1)])
def test_fori_loop(lower: int, upper: int) -> None:
    def with_library(fori_loop: Callable[..., object]) -> Callable[[object, object], object]:
        return lambda lower, upper: fori_loop(lower, upper, lambda i, c: (c[0] * i + 1.0, c[1] + i), (2.0, 0))

    ours, theirs = with_library(lax.fori_loop), with_library(jlax.fori_loop)
    assert_matches(ours(lower, upper), theirs(lower, upper))
    assert_matches(tj.jit(ours)(lower, upper), jax.jit(theirs)(lower, upper))
    assert_matches(ours(np.int32(lower), upper), theirs(np.int32(lower), upper))
    assert_matches(tj.jit(ours)(np.int32(lower), upper), jax.jit(theirs)(np.int32(lower), upper))


def test_reverse_mode() -> None:
    """Known bounds can be differentiated in reverse mode, also inside jit; others say why not, and what to do."""

    def power(n: ArrayLike) -> Callable[[Array], Array]:
        def f(x: Array) -> Array:
            out: Array = lax.fori_loop(0, n, lambda _, y: y * x, 1.0)
            return out

        return f

    two = tnp.asarray(2.0)
    assert float(tj.grad(power(3))(two)) == 12.0
    assert float(tj.jit(tj.grad(power(np.int64(3))))(two)) == 12.0
    assert float(tj.grad(tj.jit(power(3)))(two)) == 12.0
    message = "reverse-mode differentiation does not work for lax.while_loop.*Use lax.scan"
    with pytest.raises(LinearityError, match=message):
        tj.jit(lambda n: tj.grad(power(n))(two))(3)
    with pytest.raises(LinearityError, match=message):
        tj.grad(lambda x: lax.while_loop(lambda y: y < 10.0, lambda y: y * x, x))(2.0)
    assert float(tj.jit(lambda n: tj.jvp(power(n), (2.0,), (1.0,))[1])(3)) == 12.0
    # A loop on the way that no derivative goes through is no obstacle.
    assert float(tj.grad(lambda x: x * lax.while_loop(lambda n: n < 10, lambda n: n * 2, 1))(2.0)) == 16.0


def test_linearize_keeps_no_iterations() -> None:
    """The known part has the carries that don't depend on tangents; the linear program runs the loop again."""

    def f(x: Array) -> Array:
        return lax.while_loop(lambda c: c[1] < 9, lambda c: (tnp.sin(c[0]), c[1] + 1), (x, 0))[0]

    stages = transforms.linearize(tj.make_jaxpr(f)(np.float64(1.0)).jaxpr)
    ir.typecheck(stages.primal)
    ir.typecheck(stages.linear)
    assert [str(residual.aval) for residual in stages.residuals] == ["f64[]"]


def test_partial_eval() -> None:
    def f(a: Array, b: Array, n: Array) -> object:
        def step(c: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            return tnp.sin(c[0]), c[1] * c[0] + b, c[2] + 1

        return lax.while_loop(lambda c: c[2] < n, step, (a, a, 0))

    args: list[ArrayLike] = [np.float64(0.3), np.float64(0.7), np.int64(4)]
    closed = tj.make_jaxpr(f)(*args)
    expected = tj.eval_jaxpr(closed, (), *args)
    for unknown in product([False, True], repeat=3):
        parts = transforms.partial_eval(closed.jaxpr, unknown)
        ir.typecheck(parts.known)
        ir.typecheck(parts.staged)
        known = tj.eval_jaxpr(parts.known, (), *[x for x, mark in zip(args, unknown, strict=True) if not mark])
        made = iter(known[parts.unknown_out.count(False) :])
        residuals = [next(made) if r.input is None else args[r.input] for r in parts.residuals]
        given = [x for x, mark in zip(args, unknown, strict=True) if mark]
        late, early = iter(tj.eval_jaxpr(parts.staged, (), *residuals, *given)), iter(known)
        for value, mark in zip(expected, parts.unknown_out, strict=True):
            np.testing.assert_allclose(next(late) if mark else next(early), value, rtol=1e-12)
        if unknown == (False, True, False):
            assert parts.unknown_out == (False, True, False)
        if unknown[2]:  # the condition is unknown, and so is everything
            assert all(parts.unknown_out)


def test_printed(golden: Golden) -> None:
    def f(x: Array, n: Array) -> Array:
        return lax.while_loop(lambda c: c[1] < n, lambda c: (tnp.sin(c[0]) * x, c[1] + 1), (x, 0))[0]

    program = tj.make_jaxpr(f)(np.float64(1.0), np.int64(3)).jaxpr
    batched = transforms.batch(program, ir.BatchAxis(3), (None, 0)).jaxpr
    derived = transforms.jvp(program, (True, False)).jaxpr
    parts = {"program": program, "jvp": derived, "batched": batched}
    for part in parts.values():
        ir.typecheck(part)
    golden("while", "\n\n".join(f"{name}\n{part}" for name, part in parts.items()))
    golden("while_lowered", hlo.lower(batched))


def test_unchanged_carries_are_constants() -> None:
    program = tj.make_jaxpr(lambda x, n: lax.while_loop(lambda c: c[0] < c[1], lambda c: (c[0] * 2, c[1]), (x, n)))(
        1, 9
    )
    (eqn,) = program.jaxpr.eqns
    assert isinstance(eqn.primitive, While)
    assert (eqn.primitive.cond_nconsts, eqn.primitive.body_nconsts, len(eqn.outvars)) == (1, 1, 1)
    assert [int(np.asarray(x)) for x in tj.eval_jaxpr(program, (), 1, 9)] == [16, 9]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("low", "high"), [(0.0, 3.0), (0.1, 3.1), (0.7, 40.7), (2.0, 1.0), (-1.5, 1.5), (0.0, np.nan)])
def test_bounds_may_be_floats(dtype: str, low: float, high: float) -> None:
    """Known bounds are counted as the loop counts, rounding included."""

    def f(low: Array, high: Array) -> Array:
        total: Array = lax.fori_loop(low, high, lambda i, c: c + i, low * 0)
        return total

    bounds = tnp.asarray(low, dtype), tnp.asarray(high, dtype)
    np.testing.assert_array_equal(f(*bounds), tj.jit(f)(*bounds))
    assert f(*bounds).dtype == dtype


def test_loops_over_floats_have_derivatives() -> None:
    def f(x: Array) -> Array:
        product: Array = lax.fori_loop(x, x + 2.0, lambda _, c: c * x, x)
        return product

    assert float(tj.grad(f)(tnp.asarray(1.5))) == 3 * 1.5**2
    with pytest.raises(ValueError, match="reverse-mode differentiation"):
        tj.jit(tj.grad(f))(tnp.asarray(1.5))


def test_errors(golden: Golden) -> None:
    def never(_: object) -> bool:
        return False

    any_while: Callable[..., object] = lax.while_loop

    cases: dict[str, tuple[type[Exception], Callable[[], object]]] = {
        "types": (InputError, lambda: lax.while_loop(never, lambda c: (c[0] > 0, c[1]), (np.ones(2), 1))),
        "tree": (TreeError, lambda: any_while(never, lambda c: (c[0], (c[1], c[1])), (np.ones(2), 1))),
        "vector condition": (InputError, lambda: lax.while_loop(lambda c: c > 0, lambda c: c, np.ones(2))),
        "integer condition": (InputError, lambda: lax.while_loop(lambda c: c, lambda c: c, 1)),
        "tree condition": (InputError, lambda: any_while(lambda c: (c > 0, c > 1), lambda c: c, 1)),
        "no function": (InputError, lambda: any_while(True, lambda c: c, 1)),
        "float bounds": (InputError, lambda: lax.fori_loop(0, 3.0, lambda i, c: c, 1.0)),
        "vector bounds": (InputError, lambda: lax.fori_loop(0, np.arange(3), lambda i, c: c, 1.0)),
        "two dtypes": (InputError, lambda: lax.fori_loop(np.int32(0), np.int64(1), lambda i, c: c, 1.0)),
        "unroll": (InputError, lambda: tj.jit(lambda n: lax.fori_loop(0, n, lambda i, c: c, 1.0, unroll=2))(3)),
        "associative shape": (InputError, lambda: lax.associative_scan(lambda x, y: x[0], np.ones((4, 2)))),
        "associative tree": (TreeError, lambda: lax.associative_scan(lambda x, y: (x, y), np.ones(4))),
        "associative sizes": (InputError, lambda: lax.associative_scan(tnp.add, (np.ones(4), np.ones(3)))),
        "associative axis": (InputError, lambda: lax.associative_scan(tnp.add, np.ones(4), axis=1)),
    }
    lines = []
    for name, (error, run) in cases.items():
        with pytest.raises(error) as caught:
            run()
        message = re.sub(r" \(\S+/(\w+.py):\d+\)", r" (\1)", str(caught.value))
        lines.append(f"{name}: {type(caught.value).__name__}\n{message}\n")
    golden("loop_errors", "\n".join(lines))


def test_typing() -> None:
    x, n, flag = tj.ShapedArray((), "float64"), tj.ShapedArray((), "int64"), tj.ShapedArray((2,), "bool")
    cond = tj.make_jaxpr(lambda x: x < 3.0)(x).jaxpr
    body = tj.make_jaxpr(lambda x: x * 2.0)(x).jaxpr
    assert While(cond, 0, body, 0).type_of(x) == (x,)
    refused = [
        (While(cond, 0, body, 0), (n,)),
        (While(cond, 0, body, 0), (x, x)),
        (While(tj.make_jaxpr(lambda x: x)(x).jaxpr, 0, body, 0), (x,)),
        (While(cond, 0, tj.make_jaxpr(lambda x: x > 0)(x).jaxpr, 0), (x,)),
        (While(tj.make_jaxpr(lambda b: b[0])(flag).jaxpr, 0, body, 0), (x,)),
    ]
    for primitive, avals in refused:
        with pytest.raises(TypingError):
            primitive.type_of(*avals)


def cumulative(x: npt.NDArray[np.float64], reverse: bool) -> npt.NDArray[np.float64]:
    return np.cumsum(x[::-1])[::-1] if reverse else np.cumsum(x)


@pytest.mark.sweep
@pytest.mark.parametrize("size", [0, 1, 2, 3, 5, 8])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan(size: int, reverse: bool) -> None:
    rng = np.random.default_rng(size)
    numbers, matrices = rng.normal(size=size), rng.normal(size=(size, 2, 2))
    np.testing.assert_allclose(lax.associative_scan(tnp.add, numbers, reverse), cumulative(numbers, reverse))
    expected = jlax.associative_scan(jnp.matmul, jnp.asarray(matrices), reverse)
    assert_matches(lax.associative_scan(tnp.matmul, matrices, reverse), expected)
    flags = {"a": rng.normal(size=(2, size)), "b": (rng.integers(0, 2, size=(3, size)) > 0,)}

    def ours(x: dict[str, object], y: dict[str, object]) -> object:
        return tj.tree.map(tnp.maximum, x, y)

    def theirs(x: dict[str, object], y: dict[str, object]) -> object:
        return jax.tree_util.tree_map(jnp.maximum, x, y)

    extremes = jlax.associative_scan(theirs, jax.tree_util.tree_map(jnp.asarray, flags), reverse, axis=1)
    assert_matches(lax.associative_scan(ours, flags, reverse, axis=-1), extremes)


def test_associative_scan_applies_few_times() -> None:
    calls: list[int] = []

    def add(x: Array, y: Array) -> Array:
        calls.append(x.shape[0])
        return x + y

    assert [float(x) for x in lax.associative_scan(add, np.arange(16.0))] == list(np.cumsum(np.arange(16.0)))
    assert len(calls) == 7
    assert sum(calls) < 2 * 16
