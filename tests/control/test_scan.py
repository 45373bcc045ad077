"""`scan`, `map`, and `fori_loop` with known bounds: against jax, and their programs."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax as jlax

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.api.families import TRANSFORMATIONS, Ours, Theirs
from tests.api.matching import assert_matches
from tests.control.loops import SCANS
from tests.golden import Golden
from tinyjax import Array, ArrayLike, hlo, ir, lax, transforms
from tinyjax.contexts.evaluation import EvalContext
from tinyjax.control.scan import Scan
from tinyjax.errors import ChoiceError, ConcretizationError, InputError, ShapeError, TreeError, TypingError

SINGLES = [(), *product(TRANSFORMATIONS, repeat=1)]
PAIRS = list(product(TRANSFORMATIONS, repeat=2))
TRIPLES = [("grad", "grad", "grad"), ("vmap", "grad", "jvp"), ("grad", "vmap", "linearize")]
POINT = 0.7


def check(name: str, names: tuple[str, ...], *, eager: bool) -> None:
    """Both libraries agree on f, transformed by the names from right to left; and the program of it is well typed."""
    ours, theirs = SCANS[name]
    for transformation in reversed(names):
        our, their = TRANSFORMATIONS[transformation]
        ours, theirs = our(ours), their(theirs)
    point = tnp.asarray(np.float64(POINT))
    ir.typecheck(tj.make_jaxpr(ours)(point))
    expected = jax.jit(theirs)(jnp.asarray(POINT))
    np.testing.assert_allclose((ours if eager else tj.jit(ours))(point), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("names", SINGLES, ids=".".join)
@pytest.mark.parametrize("name", SCANS)
def test_singles(name: str, names: tuple[str, ...]) -> None:
    check(name, names, eager=True)


@pytest.mark.parametrize("names", PAIRS, ids=".".join)
@pytest.mark.sweep
def test_pairs(names: tuple[str, ...]) -> None:
    check("rnn", names, eager=False)


@pytest.mark.sweep
@pytest.mark.parametrize(
    "names", [("grad", "grad"), ("vmap", "grad"), ("jvp", "vmap"), ("linearize", "vmap")], ids=".".join
)
def test_nested_scans(names: tuple[str, ...]) -> None:
    check("reversed", names, eager=True)


@pytest.mark.sweep
@pytest.mark.parametrize("names", TRIPLES, ids=".".join)
def test_triples(names: tuple[str, ...]) -> None:
    check("rnn", names, eager=False)


def check_interpreted(f: Callable[..., object], expected: object, *args: object) -> None:
    """The program of f, evaluated on the host, has these results."""
    closed = tj.make_jaxpr(f)(*args)
    leaves = [ir.ConcreteValue.of(np.asarray(leaf)) for leaf in tj.tree.leaves(args)]
    outs = ir.interpret(EvalContext(), closed.jaxpr, [*closed.consts, *leaves])
    assert [out.aval.shape for out in outs] == [aval.shape for aval in closed.out_avals]
    for out, leaf in zip(outs, jax.tree_util.tree_leaves(expected), strict=True):
        np.testing.assert_allclose(np.asarray(out).astype("float64"), np.asarray(leaf))


@pytest.mark.parametrize("length", [0, 1, 5])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("unroll", [1, 3])
def test_lengths(length: int, reverse: bool, unroll: int | bool) -> None:
    rng = np.random.default_rng(0)
    xs = {"a": rng.normal(size=(length, 2)), "b": rng.integers(0, 5, size=length)}

    def with_library(scan: Callable[..., object], numpy: ModuleType) -> Callable[..., object]:
        def step(c: dict[str, Array], x: dict[str, Array]) -> tuple[object, object]:
            new = {"n": c["n"] + x["b"], "s": c["s"] * 0.5 + x["a"]}
            return new, (new["n"] > 3, c["s"] * x["b"])

        return lambda init, xs: scan(step, {"n": 0, "s": numpy.full(2, init)}, xs, reverse=reverse, unroll=unroll)

    expected = with_library(jlax.scan, jnp)(0.25, jax.tree_util.tree_map(jnp.asarray, xs))
    ours = with_library(lax.scan, tnp)
    assert_matches(ours(0.25, xs), expected)
    check_interpreted(ours, expected, 0.25, xs)


def test_without_xs() -> None:
    ours = lax.scan(lambda c, x: (c * 2, (c, x)), 1, None, length=4)
    theirs: object = jlax.scan(lambda c, x: (c * 2, (c, x)), 1, None, length=4)
    assert_matches(ours, theirs)
    assert_matches(lax.scan(lambda c, x: (c, x), (), np.arange(3)), jlax.scan(lambda c, x: (c, x), (), jnp.arange(3)))


@pytest.mark.parametrize("init", [0, 0.0, True, np.float32(1)])
@pytest.mark.parametrize("step", [1, 1.5, 2j, np.float32(2), np.int16(2)])
def test_weak_carries(init: object, step: object) -> None:
    """What a weak carry is promoted to, and which carries are refused, is as jax has it."""

    def run(scan: Callable[..., object], add: Callable[..., object]) -> object:
        return scan(lambda c, _: (add(c, step), c), init, None, length=2)

    try:
        expected = run(jlax.scan, jnp.add)
    except TypeError:
        with pytest.raises(InputError, match="must return a carry of the types"):
            run(lax.scan, tnp.add)
        return
    assert_matches(run(lax.scan, tnp.add), expected)


@pytest.mark.sweep
@pytest.mark.parametrize(
    "names", [("grad",), ("vmap", "grad"), ("grad", "vmap"), ("jit", "grad", "grad")], ids=".".join
)
def test_closures(names: tuple[str, ...]) -> None:
    """The body closes over values that several transformations outside are tracing."""

    def ours(x: Array) -> Array:
        def middle(y: Array) -> Array:
            def step(c: Array, z: Array) -> tuple[Array, Array]:
                return c * x + z * y, c * y

            last, ys = lax.scan(step, y, x * np.arange(3.0))
            return last + tnp.sum(ys)

        return tj.grad(middle)(x * 2.0) + tj.jvp(tj.jit(middle), (x,), (x,))[1]

    def theirs(x: jax.Array) -> jax.Array:
        def middle(y: jax.Array) -> jax.Array:
            def step(c: jax.Array, z: jax.Array) -> tuple[jax.Array, jax.Array]:
                return c * x + z * y, c * y

            last, ys = jlax.scan(step, y, x * np.arange(3.0))
            return jnp.asarray(last + jnp.sum(ys))

        return jnp.asarray(jax.grad(middle)(x * 2.0) + jax.jvp(jax.jit(middle), (x,), (x,))[1])

    our: Ours = ours
    their: Theirs = theirs
    for name in reversed(names):
        our, their = TRANSFORMATIONS[name][0](our), TRANSFORMATIONS[name][1](their)
    np.testing.assert_allclose(our(tnp.asarray(0.7)), their(jnp.asarray(0.7)), rtol=1e-9)


def residual_shapes(f: Callable[..., object], *args: object, nonzero: tuple[bool, ...] | None = None) -> list[str]:
    stages = transforms.linearize(tj.make_jaxpr(f)(*args).jaxpr, nonzero)
    for program in (stages.primal, stages.linear):
        ir.typecheck(program)
    return sorted(str(residual.aval.strengthen()) for residual in stages.residuals)


def test_residuals_are_stacked() -> None:
    """What each iteration has to keep is stacked; what is the same in all of them is kept once."""
    xs, w = np.ones((5, 3)), np.ones((3, 3))

    def f(w: Array, xs: Array) -> Array:
        return lax.scan(lambda h, x: (tnp.sin(w @ h + x), None), w[0], xs)[0]

    # w itself, h, and cos of what sin is applied to.
    assert residual_shapes(f, w, xs, nonzero=(True, False)) == ["f64[3,3]", "f64[5,3]", "f64[5,3]"]

    def g(w: Array, xs: Array) -> Array:
        def step(h: Array, x: Array) -> tuple[Array, None]:
            return tnp.exp(w)[0] * h + x * tnp.sin(w[1]), None

        return lax.scan(step, w[0], xs)[0]

    # Nothing of what only depends on w is stacked: exp(w) twice (for its tangent, and for h's), cos(w).
    assert residual_shapes(g, w, xs, nonzero=(True, False)).count("f64[5,3]") == 2  # xs, h
    assert not [shape for shape in residual_shapes(g, w, xs, nonzero=(True, False)) if shape == "f64[5,3,3]"]

    def carried(w: Array, xs: Array) -> Array:
        def step(carry: tuple[Array, Array], x: Array) -> tuple[tuple[Array, Array], None]:
            w, h = carry
            return (w, tnp.sin(w @ h + x)), None

        return lax.scan(step, (w, w[0]), xs)[0][1]

    # A carry that never changes is no carry.
    assert residual_shapes(carried, w, xs, nonzero=(True, False)) == ["f64[3,3]", "f64[5,3]", "f64[5,3]"]


def step_of_two(c: Array, x: Array) -> tuple[Array, Array]:
    y = tnp.sin(c) * x
    return y, c


@pytest.mark.sweep
def test_deep_nesting() -> None:
    """Scans within scans, deeper than Python's stack allows for recursion."""
    program = tj.make_jaxpr(tnp.negative)(0.5).jaxpr  # which keeps nothing, of which there would be 2**400 rows

    def step(c: Array, _: None) -> tuple[Array, None]:
        return tj.eval_jaxpr(program, (), c)[0] * 2.0, None

    for _ in range(400):
        program = tj.make_jaxpr(lambda c: lax.scan(step, c, None, length=2)[0])(0.5).jaxpr
    ir.typecheck(program)
    stages = transforms.linearize(transforms.batch(program, ir.BatchAxis(3), (0,)).jaxpr)
    linear = [False] * len(stages.residuals) + [True]
    assert hlo.lower(transforms.transpose(stages.linear, linear).jaxpr).count("stablehlo.while") == 400


def test_printed(golden: Golden) -> None:
    c, xs = tj.ShapedArray((), "float64"), tj.ShapedArray((4,), "float64")
    program = tj.make_jaxpr(lambda c, xs: lax.scan(step_of_two, c, xs))(c, xs).jaxpr
    stages = transforms.linearize(program, (True, False))
    linear = [False] * len(stages.residuals) + [True]
    backward = transforms.transpose(stages.linear, linear).jaxpr
    batched = transforms.batch(program, ir.BatchAxis(3), (0, None)).jaxpr
    parts = {"program": program, "primal": stages.primal, "linear": stages.linear, "backward": backward}
    for part in (*parts.values(), batched):
        ir.typecheck(part)
    golden("scan", "\n\n".join(f"{name}\n{part}" for name, part in {**parts, "batched": batched}.items()))
    golden("scan_lowered", hlo.lower(program))
    unrolled = tj.make_jaxpr(lambda c, xs: lax.scan(step_of_two, c, xs, reverse=True, unroll=3))(c, xs).jaxpr
    golden("scan_unrolled", hlo.lower(unrolled))


def test_program_is_linear_in_size() -> None:
    """Transforming again and again adds a constant factor, and the equations of a body are never repeated."""

    def f(x: Array) -> Array:
        def step(c: Array, x: Array) -> tuple[Array, None]:
            for _ in range(50):
                c = tnp.sin(c) * x
            return c, None

        return lax.scan(step, x, np.arange(3.0))[0]

    def count(jaxpr: ir.Jaxpr) -> int:
        return sum(len(program.eqns) for program in ir.nested_programs(jaxpr))

    assert count(tj.make_jaxpr(f)(1.0).jaxpr) < 110
    assert count(tj.make_jaxpr(tj.grad(f))(1.0).jaxpr) < 110 * 5
    unrolled = tj.make_jaxpr(lambda x: lax.scan(lambda c, x: (tnp.sin(c) * x, c), x, np.arange(64.0), unroll=True))(1.0)
    assert hlo.lower(unrolled).count("stablehlo.sine") == 1


@pytest.mark.parametrize(
    ("init_axis", "x_axis", "const_axis"),
    [(0, None, None), (None, 0, None), (None, None, 0), (1, 1, 0), (0, 2, None), (None, 1, 0)],
)
def test_vmap_axes(init_axis: int | None, x_axis: int | None, const_axis: int | None) -> None:
    rng = np.random.default_rng(0)
    shapes = [((2,), init_axis), ((4, 2), x_axis), ((), const_axis)]
    args = [rng.normal(size=shape if axis is None else (*shape[:axis], 3, *shape[axis:])) for shape, axis in shapes]
    axes = (init_axis, x_axis, const_axis)

    def ours(init: Array, xs: Array, w: Array) -> object:
        return lax.scan(lambda c, x: ((c[0] * w + x, x), (c[0] * x, w)), (init, tnp.zeros(2)), xs)

    def theirs(init: jax.Array, xs: jax.Array, w: jax.Array) -> object:
        return jlax.scan(lambda c, x: ((c[0] * w + x, x), (c[0] * x, w)), (init, jnp.zeros(2)), xs)

    assert_matches(tj.vmap(ours, axes)(*map(tnp.asarray, args)), jax.vmap(theirs, axes)(*map(jnp.asarray, args)))


def test_named_axis() -> None:
    def ours(x: Array) -> object:
        return lax.scan(lambda c, y: (c + lax.psum(y * x, "i"), c * x), 0.0, tnp.arange(3.0))

    def theirs(x: jax.Array) -> object:
        return jlax.scan(lambda c, y: (c + jlax.psum(y * x, "i"), c * x), 0.0, jnp.arange(3.0))

    expected = jax.vmap(theirs, axis_name="i")(jnp.arange(4.0))
    assert_matches(tj.vmap(ours, axis_name="i")(tnp.arange(4.0)), expected)
    assert_matches(tj.jit(tj.vmap(ours, axis_name="i"))(tnp.arange(4.0)), expected)


def test_linear_transpose() -> None:
    """Of loops with carries that aren't linear: a counter, and values that only depend on it."""
    weights = np.arange(1.0, 5.0)

    def ours(x: Array) -> object:
        def step(c: tuple[Array, Array], w: Array) -> tuple[tuple[Array, Array], Array]:
            n, y = c
            return (n + 1, y * n * w + x), y * w

        return lax.scan(step, (1, x), weights)[0][1], lax.fori_loop(0, 3, lambda i, y: y * i + x, x)

    def theirs(x: jax.Array) -> object:
        first, second = x, x
        for n in range(4):
            first = first * (n + 1) * weights[n] + x
        for n in range(3):
            second = second * n + x
        return first, second

    x = np.float64(2.0)
    assert_matches(tj.linear_transpose(ours, x)((1.0, 2.0)), jax.linear_transpose(theirs, x)((1.0, 2.0)))
    assert_matches(tj.jit(tj.linear_transpose(ours, x))((1.0, 2.0)), jax.linear_transpose(theirs, x)((1.0, 2.0)))


def test_partial_eval() -> None:
    """A known program and a staged one, which together compute what the whole program does."""

    def f(a: Array, b: Array, xs: Array, w: Array) -> object:
        def step(c: tuple[Array, Array, Array], x: Array) -> tuple[tuple[Array, Array, Array], Array]:
            known, mixed, late = c
            new = (tnp.sin(known) * x + tnp.exp(w), mixed + known, late * mixed * x + tnp.cos(w))
            return new, known * mixed

        return lax.scan(step, (a, a, b), xs)

    args: list[ArrayLike] = [np.float64(0.1), np.float64(0.2), np.arange(3.0), np.float64(0.3)]
    closed = tj.make_jaxpr(f)(*args)
    expected = tj.eval_jaxpr(closed, (), *args)
    for unknown in product([False, True], repeat=4):
        parts = transforms.partial_eval(closed.jaxpr, unknown)
        ir.typecheck(parts.known)
        ir.typecheck(parts.staged)
        known = tj.eval_jaxpr(parts.known, (), *[x for x, mark in zip(args, unknown, strict=True) if not mark])
        num_known = parts.unknown_out.count(False)
        made = iter(known[num_known:])
        residuals = [next(made) if r.input is None else args[r.input] for r in parts.residuals]
        late = iter(
            tj.eval_jaxpr(parts.staged, (), *residuals, *[x for x, mark in zip(args, unknown, strict=True) if mark])
        )
        early = iter(known[:num_known])
        found = [next(late) if mark else next(early) for mark in parts.unknown_out]
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12)
        if unknown == (False, True, False, False):  # only the last carry waits for b
            assert parts.unknown_out == (False, False, True, False)


@pytest.mark.parametrize("batch_size", [None, 0, 1, 2, 3, 7, 20])
def test_map(batch_size: int | None) -> None:
    xs = (np.arange(14.0).reshape(7, 2), np.arange(7))
    ours = lax.map(lambda x: {"y": tnp.sum(x[0]) * x[1], "z": x[0] > 3.0}, xs, batch_size=batch_size)
    jxs = (jnp.asarray(xs[0]), jnp.asarray(xs[1]))
    theirs = jlax.map(lambda x: {"y": jnp.sum(x[0]) * x[1], "z": x[0] > 3.0}, jxs, batch_size=batch_size)
    assert_matches(ours, theirs)


def test_float0_carries() -> None:
    """Tangents of integers can be carried, and stacked."""
    zeros = np.zeros((3,), tj.float0)
    (c, n), (ys, ts) = lax.scan(lambda c, t: ((c[0] + 1.0, c[1]), (c[0], t)), (0.0, zeros), np.zeros((2, 3), tj.float0))
    assert (float(c), n.aval.dtype, ys.aval.shape, ts.aval.shape) == (2.0, tj.float0, (2,), (2, 3))


def test_mismatches(golden: Golden) -> None:
    def grows(carry: Any, x: Array) -> tuple[Any, None]:
        return {"a": tnp.concatenate([carry["a"], carry["a"]]), "b": carry["b"] > 0, "c": carry["c"] + x}, None

    def other_tree(carry: Any, x: Any) -> tuple[Any, None]:
        return {"a": carry["a"], "b": (x, x), "c": x}, None

    any_scan: Callable[..., object] = lax.scan
    init = {"a": np.ones(2), "b": np.int32(1), "c": 0.0}
    xs = np.arange(3.0)
    cases: dict[str, tuple[type[Exception], Callable[[], object]]] = {
        "types": (InputError, lambda: lax.scan(grows, init, xs)),
        "tree": (TreeError, lambda: lax.scan(other_tree, init, xs)),
        "no pair": (InputError, lambda: any_scan(lambda c, x: c, 0.0, xs)),
        "fori": (InputError, lambda: lax.fori_loop(0, 3, lambda i, val: {"u": val["u"] > i}, {"u": np.ones(2)})),
        "lengths": (ShapeError, lambda: lax.scan(other_tree, init, {"u": xs, "v": np.ones((2, 1))})),
        "length": (ShapeError, lambda: lax.scan(other_tree, init, xs, length=4)),
        "scalar": (ShapeError, lambda: any_scan(other_tree, init, 1.0)),
        "nothing": (InputError, lambda: lax.scan(other_tree, init)),
        "negative": (InputError, lambda: lax.scan(other_tree, init, length=-1)),
        "unroll": (ChoiceError, lambda: lax.scan(lambda c, x: (c, x), 0.0, xs, unroll=-1)),
        "traced length": (ConcretizationError, lambda: tj.jit(lambda n: any_scan(grows, init, None, n))(3)),
        "no function": (InputError, lambda: any_scan(None, init, xs)),
        "batch size": (InputError, lambda: lax.map(lambda x: x, xs, batch_size=-1)),
    }
    lines = []
    for name, (error, run) in cases.items():
        with pytest.raises(error) as caught:
            run()
        message = re.sub(r" \(\S+/(\w+.py):\d+\)", r" (\1)", str(caught.value).split(", traced by")[0])
        lines.append(f"{name}: {type(caught.value).__name__}\n{message}\n")
    golden("scan_errors", "\n".join(lines))


def test_typing() -> None:
    aval, xs = tj.ShapedArray((), "float64"), tj.ShapedArray((4,), "float64")
    body = tj.make_jaxpr(step_of_two)(aval, aval).jaxpr
    scan = Scan(body, 4, False, 0, 1)
    assert scan.type_of(aval, xs) == (aval, xs)
    refused = [
        (scan, (aval,)),
        (scan, (aval, tj.ShapedArray((3,), "float64"))),
        (scan, (tj.ShapedArray((), "float32"), xs)),
        (Scan(body, -1, False, 0, 1), (aval, xs)),
        (Scan(body, 4, False, 0, 1, 0), (aval, xs)),
        (Scan(tj.make_jaxpr(lambda c, x: (c > x, c))(aval, aval).jaxpr, 4, False, 0, 1), (aval, xs)),
    ]
    for primitive, avals in refused:
        with pytest.raises(TypingError):
            primitive.type_of(*avals)
