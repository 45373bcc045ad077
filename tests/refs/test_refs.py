"""Refs: reading and writing, in every transformation, against jax and against programs without them."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinyjax as tj
from tinyjax import ad, lax, random
from tinyjax import numpy as tnp
from tinyjax.errors import IndexingError, InputError, NonFiniteError, RefError, TreeError

jax.config.update("jax_enable_x64", True)

#: The library without types, for what these don't allow.
lib: Any = tj
#: Where functions of Refs are run: as they are, and compiled.
MODES = pytest.mark.parametrize("mode", [lambda f: f, tj.jit], ids=["eager", "jit"])
Mode = Callable[[Callable[..., Any]], Callable[..., Any]]


def typed(transformation: Any) -> Callable[[Callable[..., Any]], Any]:
    """A transformation of either library, for type checkers."""
    found: Callable[[Callable[..., Any]], Any] = transformation
    return found


def same(found: object, expected: object) -> None:
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-12)


# One program for both libraries: `np_`, `lax_`, `lib` are jax's or ours.


def counting(lib: Any, np_: Any, lax_: Any) -> list[Any]:
    ref = lib.new_ref(np_.zeros(3))

    @typed(lib.jit)
    def step() -> None:
        ref[1] += 1.0

    step()
    step()
    return [ref[...]]


def of_arguments(lib: Any, np_: Any, lax_: Any) -> list[Any]:
    x, z = lib.new_ref(np_.zeros((1, 3))), lib.new_ref(np_.zeros((2, 3)))

    @typed(lib.jit)
    def f(x: Any, y: Any, z: Any, w: Any) -> Any:
        x[...] += 1
        z[...] += 1
        return x[...] + y + z[...] + w, y + w

    outs = f(x, np_.ones((2, 3)), z, np_.ones((2, 1)))
    return [*outs, x[...], *f(z=z, x=x, y=2.0, w=np_.ones((2, 1))), z[...]]


def indexing(lib: Any, np_: Any, lax_: Any) -> list[Any]:
    ref = lib.new_ref(np_.arange(12.0).reshape(3, 4))
    row = ref[0]
    ref[1] = row
    val = ref[1, 2]
    ref[2, 3] = val
    col = ref[:, 1]
    ref[0, :3] = col
    vals = ref[np_.array([0, 0, 1]), np_.array([1, 2, 3])]
    ref[np_.array([1, 2, 1]), np_.array([0, 0, 1])] = vals
    lib.ref.addupdate(ref, (np_.array([0, 0]), np_.array([1, 1])), np_.array([1.0, 2.0]))
    before = lib.ref.swap(ref, (2, slice(None)), np_.ones(4))
    lib.ref.set(ref, (0, 0), 7.0)
    return [row, val, col, vals, before, lib.ref.get(ref, (0,)), lib.ref.get(ref), lib.freeze(ref)]


def loops(lib: Any, np_: Any, lax_: Any) -> list[Any]:
    total, seen = lib.new_ref(0), lib.new_ref(np_.zeros(5))

    def body(carry: Any, x: Any) -> Any:
        total[...] += x
        seen[x] = np_.float64(carry)
        return carry + 1, total[...]

    outs = lax_.scan(body, 0, np_.arange(5), reverse=True)

    def step(i: Any) -> Any:
        total[...] = total[...] + 2
        return i + 1

    count = lax_.while_loop(lambda i: i < 5, step, 0)
    ahead = lax_.while_loop(lambda i: i < total[...], lambda i: i + 3, 0)
    known = lax_.fori_loop(0, 3, lambda i, x: x + total[...] * i, 0)
    asked = lax_.fori_loop(0, np_.int64(total[...]) - 20, lambda i, x: step(x), 0)
    mapped = lax_.map(lambda x: (total.__setitem__(..., total[...] + x), total[...])[1], np_.arange(3))
    return [*outs, count, ahead, known, asked, mapped, total[...], seen[...]]


def branches(lib: Any, np_: Any, lax_: Any) -> list[Any]:
    a, b = lib.new_ref(1.0), lib.new_ref(np_.arange(2.0))

    def f(which: Any, x: Any) -> Any:
        def first(x: Any) -> Any:
            a[...] = x
            return b[0]

        def second(x: Any) -> Any:
            b[...] = b[...] * x
            return a[...] + b[1]

        def third(x: Any) -> Any:
            return x

        y = lax_.cond(x > 2.0, first, second, x)
        return y + lax_.switch(which, [first, second, third], y)

    jitted = lib.jit(f)
    outs = [g(i, x) for g in (f, jitted) for i in range(3) for x in (1.5, 3.0)]
    return [*outs, a[...], b[...]]


def nested(lib: Any, np_: Any, lax_: Any) -> list[Any]:
    outer = lib.new_ref(np_.zeros(2))

    @typed(lib.jit)
    def f(x: Any) -> Any:
        own = lib.new_ref(x)

        def body(c: Any, x: Any) -> Any:
            @typed(lib.jit)
            def inner(y: Any) -> Any:
                outer[0] += y
                own[...] *= 1.5
                return y + own[...]

            lax_.cond(x > 1, lambda: outer.__setitem__(1, outer[1] + inner(x)), lambda: None)
            return c + own[...], outer[1]

        c, ys = lax_.scan(body, 0.0, np_.arange(4.0))
        return c, ys, lib.freeze(own)

    return [*f(1.0), *f(2.0), outer[...]]


def along_refs(lib: Any, np_: Any, lax_: Any) -> list[Any]:
    x = lib.new_ref(np_.arange(5))

    def body(_: Any, ix: Any) -> Any:
        i, x = ix
        x[...] += i
        return (), x[...]

    _, first = lax_.scan(body, (), (np_.arange(5), x))
    _, second = lib.jit(lambda: lax_.scan(body, (), (np_.arange(5), x)))()
    return [first, second, x[...]]


def mapped(lib: Any, np_: Any, lax_: Any) -> list[Any]:
    def dist(x: Any, y: Any, out: Any) -> None:
        out[...] = np_.sum((x - y) ** 2)

    vecs = np_.arange(12.0).reshape(3, 4)
    out = lib.new_ref(np_.zeros((3, 3)))
    lib.vmap(lib.vmap(dist, (0, None, 0)), (None, 0, 0))(vecs, vecs, out)
    y = lib.new_ref(2.0)
    read = lib.vmap(lambda x: x * y[...])(np_.arange(3.0))

    def pure(x: Any) -> Any:
        ref = lib.new_ref(1.0)
        ref[...] += x
        return ref[...]

    return [out[...], read, lib.vmap(lib.jit(pure))(np_.arange(4.0)), lib.vmap(pure)(np_.arange(4.0))]


def plumbing(lib: Any, np_: Any, lax_: Any) -> list[Any]:
    seen = lib.new_ref(0.0)

    def f(x: Any, seen: Any) -> Any:
        y = x + np_.sin(x)
        seen[...] += lax_.stop_gradient(y)
        return y

    return [lib.grad(f)(1.0, seen), lib.jit(lib.grad(f))(2.0, seen), lib.grad(lib.jit(f))(3.0, seen), seen[...]]


def gradients_in_refs(lib: Any, np_: Any, lax_: Any) -> list[Any]:
    def model(w: Any, i: Any, v: Any) -> Any:
        def body(c: Any, both: Any) -> Any:
            w, v = both
            return np_.tanh(np_.tanh(c @ w) @ v), None

        return lax_.scan(body, np_.ones(4) * i, (w, v))[0].sum()

    w, v = np_.ones((3, 4, 5)) * 0.1, np_.ones((3, 5, 4)) * 0.2
    into = lib.new_ref(np_.zeros_like(w))
    _, back = lib.vjp(model, w, 0.5, v)
    _, _, only = back.with_refs(into, lib.ad.DontWant(), lib.ad.GradValue())(1.0)

    def losses(ws: Any, xs: Any) -> Any:
        total = lib.new_ref(np_.zeros_like(ws))

        def one(_: Any, x: Any) -> Any:
            loss, pull = lib.vjp(lambda ws: np_.mean(lax_.scan(lambda x, w: (x @ w, None), x, ws)[0]), ws)
            pull.with_refs(total)(np_.ones_like(loss))
            return (), loss

        _, found = lax_.scan(one, (), xs)
        return lib.freeze(total), found

    return [
        into[...],
        only,
        *lib.jit(losses)(np_.ones((2, 3, 3)), np_.arange(18.0).reshape(3, 2, 3)),
    ]


PROGRAMS = [
    counting,
    of_arguments,
    indexing,
    loops,
    branches,
    nested,
    along_refs,
    mapped,
    plumbing,
    gradients_in_refs,
]


@pytest.mark.sweep
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_in_jax(program: Callable[..., list[Any]]) -> None:
    found, expected = program(tj, tnp, lax), program(jax, jnp, jax.lax)
    for i, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        assert ours.dtype == theirs.dtype, i
        same(ours, theirs)


# What jax 0.10 doesn't do.


def with_ref(x: Any) -> Any:
    ref = tj.new_ref(tnp.zeros(3))
    ref[1] = tnp.sin(x)

    def body(c: Any, y: Any) -> Any:
        ref[...] = ref[...] * c + tnp.cos(y * x)
        return c * x, None

    c, _ = lax.scan(body, x, tnp.arange(3.0))
    ref[0] = 2.0
    return tnp.sum(tj.freeze(ref)) * c


def without_ref(x: Any) -> Any:
    def body(carry: Any, y: Any) -> Any:
        c, held = carry
        return (c * x, held * c + jnp.cos(y * x)), None

    (c, held), _ = jax.lax.scan(body, (x, jnp.zeros(3).at[1].set(jnp.sin(x))), jnp.arange(3.0))
    return jnp.sum(held.at[0].set(2.0)) * c


@pytest.mark.sweep
def test_derivatives() -> None:
    """Of a function that makes a Ref and writes to it in a loop, against jax without one."""
    makes: list[Callable[[Any, Callable[..., Any]], Any]] = [
        lambda lib, f: lib.grad(f)(0.7),
        lambda lib, f: lib.jit(lib.grad(f))(0.7),
        lambda lib, f: lib.grad(lib.jit(f))(0.7),
        lambda lib, f: lib.grad(lib.grad(f))(0.7),
        lambda lib, f: lib.vmap(lib.grad(f))(np.arange(3.0)),
        lambda lib, f: lib.jvp(f, (0.3,), (1.0,)),
        lambda lib, f: lib.jacfwd(f)(0.3),
        lambda lib, f: lib.hessian(f)(0.3),
        lambda lib, f: lib.jit(lib.vmap(lib.hessian(f)))(np.arange(3.0)),
    ]
    for make in makes:
        same(make(tj, with_ref), make(jax, without_ref))


@MODES
def test_derivative_with_respect_to_a_ref(mode: Mode) -> None:
    """What it holds at first counts, and it is written to once."""

    @mode
    def f(x: Any) -> Any:
        x[...] = tnp.sin(x[...])
        return x[...] ** 2

    x, ct = tj.new_ref(2.0), tj.new_ref(100.0)
    y, f_vjp = tj.vjp(f, x)
    f_vjp.with_refs(ct)(1.0)
    f_vjp.with_refs(ct)(2.0)
    same(y, np.sin(2.0) ** 2)
    same(x[...], np.sin(2.0))
    same(ct[...], 100.0 + 3.0 * 2.0 * np.sin(2.0) * np.cos(2.0))
    out: Any = lib.vjp(lambda x: (f(x), x[...] + 1.0), x, has_aux=True)
    same(out[2], np.sin(np.sin(2.0)) + 1.0)


def test_a_condition_that_reads_what_the_body_writes() -> None:
    def f(x: Any) -> Any:
        ref = tj.new_ref(x)

        def step(i: tj.Array) -> tj.Array:
            ref[...] = ref[...] * 2.0
            return i + 1

        count = lax.while_loop(lambda i: (i < 20) & (ref[...] < 50.0), step, 0)
        return ref[...] + count

    for g in (f, tj.jit(f)):
        same(g(1.0), 64.0 + 6)
    same(tj.vmap(f)(np.array([1.0, 10.0, 3.0])), [64.0 + 6, 80.0 + 3, 96.0 + 5])


def test_axes_of_mapped_refs() -> None:
    def dist(x: Any, y: Any, out: Any) -> None:
        out[...] = tnp.sum((x - y) ** 2)

    x, y = np.arange(12.0).reshape(3, 4), np.arange(8.0).reshape(2, 4) * 0.5
    expected = ((x[:, None] - y[None]) ** 2).sum(-1)
    out = tj.new_ref(np.zeros((3, 2)))
    tj.vmap(tj.vmap(dist, (0, None, 0)), (None, 0, 1))(x, y, out)
    same(out[...], expected)
    lib.jit(lib.vmap(lib.vmap(dist, (0, None, -1)), (None, 0, -2)))(x, y, back := tj.new_ref(np.zeros((2, 3))))
    same(back[...], expected.T)


# Programs made at random, against NumPy.


@st.composite
def steps(draw: st.DrawFn, depth: int = 2) -> tuple[Any, ...]:
    """Something to do with two Refs and a number: a tree of operations."""
    kinds = ["set", "add", "swap", "sequence", "jit"] + (["scan", "cond", "while", "twice"] if depth else [])
    kind = draw(st.sampled_from(kinds))
    which, at = draw(st.integers(0, 1)), draw(st.integers(0, 2))
    if kind in ("set", "add"):
        return kind, which, at, draw(st.integers(-3, 3))
    if kind == "swap":
        return (kind, at)
    inner = [draw(steps(depth=max(depth - 1, 0))) if depth else ("add", which, at, 1.0) for _ in range(2)]
    return kind, draw(st.integers(1, 3)), *inner


def run(step: tuple[Any, ...], refs: list[Any], x: Any, control: Any) -> Any:
    """Does a step; the number afterwards."""
    kind, first, *rest = step
    if kind == "set":
        refs[first][rest[0]] = x * rest[1]
    elif kind == "add":
        refs[first][rest[0]] += refs[1 - first][rest[0]] * 0.5 + rest[1]
        return x * 0.5 + refs[first][rest[0]] * 0.25
    elif kind == "swap":
        kept = refs[0][first]
        refs[0][first] = refs[1][first]
        refs[1][first] = kept
    else:
        return control(kind, first, [lambda x, inner=inner: run(inner, refs, x, control) for inner in rest], x)
    return x


def in_python(kind: str, count: int, functions: list[Callable[[Any], Any]], x: Any) -> Any:
    first, second = functions
    if kind == "cond":
        return first(x) if x > 0.5 else second(x)
    for i in range(count if kind in ("scan", "while") else 1):
        x = first(x) + i
    return second(x) if kind in ("sequence", "twice") else x


def in_programs(kind: str, count: int, functions: list[Callable[[Any], Any]], x: Any) -> Any:
    first, second = functions
    if kind == "cond":
        return lax.cond(x > 0.5, first, second, x)
    if kind == "scan":
        return lax.scan(lambda x, i: (first(x) + i, None), x, tnp.arange(float(count)))[0]
    if kind == "while":
        return lax.while_loop(lambda v: v[0] < count, lambda v: (v[0] + 1, first(v[1]) + v[0]), (0, x))[1]
    if kind == "jit":
        return tj.jit(first)(x)
    return second(first(x))


@pytest.mark.sweep
@given(steps(), st.floats(-1, 1))
@settings(max_examples=25, deadline=None)
def test_random_programs(step: tuple[Any, ...], x: float) -> None:
    arrays = [np.arange(3.0), np.ones(3)]
    expected = run(step, arrays, x, in_python)

    def f(start: Any, x: Any) -> tuple[Any, ...]:
        refs = [tj.new_ref(a) for a in start]
        x = run(step, refs, x, in_programs)
        return x, *(ref[...] for ref in refs)

    starts, number = [tnp.arange(3.0), tnp.ones(3)], tnp.array(x)
    for g in (f, tj.jit(f)):
        for found, value in zip(g(starts, number), (expected, *arrays), strict=True):
            np.testing.assert_allclose(found, value, rtol=1e-9, atol=1e-9)
    refs = [tj.new_ref(a) for a in starts]
    tj.jit(lambda x: run(step, refs, x, in_programs))(number)
    for ref, value in zip(refs, arrays, strict=True):
        np.testing.assert_allclose(ref[...], value, rtol=1e-9, atol=1e-9)


# What a Ref is.


def test_what_it_holds() -> None:
    ref = tj.new_ref(np.arange(6.0).reshape(2, 3))
    assert (ref.shape, ref.ndim, ref.size, len(ref), ref.weak_type) == ((2, 3), 2, 6, 2, False)
    assert ref.dtype == np.float64
    assert isinstance(ref, lib.Ref)
    assert not isinstance(ref, lib.Array)
    assert repr(ref) == "Ref([[0., 1., 2.],\n     [3., 4., 5.]], dtype=float64)"
    assert ref != tj.new_ref(np.arange(6.0).reshape(2, 3))
    assert len({ref, ref}) == 1
    assert tj.tree.leaves({"a": ref}) == [ref]
    assert ref.aval == tj.ShapedArray((2, 3), "float64")
    empty = tj.empty_ref(tj.ShapeDtypeStruct((2,), "float32"))
    empty[...] = np.ones(2, np.float32)
    same(empty[...], np.ones(2))
    assert tj.free_ref(empty) is None


@MODES
def test_parts(mode: Mode) -> None:
    """A part is read and written as the whole is."""
    ref = tj.new_ref(np.arange(12.0).reshape(3, 4))
    expected = np.arange(12.0).reshape(3, 4)

    @mode
    def f(x: Any) -> Any:
        part = ref.at[1:, 1]
        part[...] += x
        part.at[1][...] = 5.0
        ref.at[0][2] = part[0]
        ref.addupdate(1.0)
        ref.addupdate(2.0, (0, 0))

    f(10.0)
    expected[1:, 1] += 10.0
    expected[2, 1] = 5.0
    expected[0, 2] = expected[1, 1]
    expected += 1.0
    expected[0, 0] += 2.0
    same(ref[...], expected)
    refused(lambda: ref.at[0].__setitem__(9, 1.0), "index 9 out of bounds", error=IndexingError)


def test_it_has_a_copy() -> None:
    """Nobody else's array changes, and arrays that were read don't either."""
    x = np.arange(3.0)
    ref = tj.new_ref(x)
    before = ref[...]
    ref[0] = 9.0
    x[1] = 7.0
    same(before, [0.0, 1.0, 2.0])
    same(ref[...], [9.0, 1.0, 2.0])


def test_dtypes() -> None:
    """What is written loses nothing: Python's numbers take the dtype, wider ones are refused."""
    half = tj.new_ref(tnp.array(0, dtype="bfloat16"))
    half[...] += 1.0
    assert half.dtype == "bfloat16"
    assert float(half[...]) == 1.0
    wide = tj.new_ref(np.zeros(2))
    wide[0] = np.float32(2.5)
    wide[1] = 3
    assert wide[...].dtype == np.float64
    whole = tj.new_ref(np.zeros(2, np.int32))
    whole[0] = 3
    for value in (1.5, np.int64(1), np.ones(2)):
        with pytest.raises(RefError, match=r"would lose something\. Convert it: value\.astype"):
            whole[...] = value
    key = tj.new_ref(random.key(0))
    key[...] = random.fold_in(key[...], 1)
    assert np.array_equal(random.key_data(key[...]), random.key_data(random.fold_in(random.key(0), 1)))


def test_traced_once() -> None:
    """A compiled function is traced once for each type, and for every Ref of that type."""
    traces = []

    @tj.jit
    def f(ref: tj.Ref, x: Any) -> Any:
        traces.append(1)
        ref[...] += x
        return ref[...]

    for ref in (tj.new_ref(np.float64(0.0)), tj.new_ref(np.float64(5.0))):
        f(ref, np.float64(1.0))
        f(ref, np.float64(1.0))
    assert len(traces) == 1
    assert float(ref[...]) == 7.0
    f(tj.new_ref(np.zeros(2)), np.float64(1.0))
    assert len(traces) == 2


def test_shardings_are_those_of_arguments_and_results() -> None:
    """What is said of how these lie is silent about Refs, closed over or passed."""
    where = tj.NamedSharding(tj.make_mesh((1,), ("x",)), tj.P("x"))
    ref, other = tj.new_ref(np.zeros(2)), tj.new_ref(np.ones(2))

    def f(x: Any, other: Any) -> Any:
        ref[...] += x
        other[...] += ref[...]
        return x * 2.0

    jitted = lib.jit(f, in_shardings=(where, None), out_shardings=where)
    for i in range(1, 3):
        same(jitted(np.arange(2.0), other), [0.0, 2.0])
        same(ref[...], [0.0, i])
    same(other[...], [1.0, 4.0])


OPTIONS: list[dict[str, Any]] = [
    {"donate_argnums": 0},
    {"donate_argnums": (0, 1)},
    {"inline": True},
    {"reroll": True},
    {"reroll": "auto"},
    {"debug_nans": True},
    {"keep_unused": True},
    {"embedded_constants_max_bytes": 0},
    {"warn_replicated": 1 << 30},
    {"static_argnums": 2},
    {"static_argnames": "power"},
    {"compiler_options": {"xla_embed_ir_in_executable": True}},
    {"backend": "cpu"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options_of_jit(options: dict[str, Any]) -> None:
    """Each works with Refs that are closed over and that are passed, called again and within another function."""
    ref, other, weights = tj.new_ref(np.zeros(2)), tj.new_ref(np.ones(2)), np.arange(2.0)

    def f(x: Any, other: Any, power: int = 2) -> Any:
        ref[...] += x**power
        other[...] += ref[...] * weights
        return x * weights

    jitted, expected, summed = lib.jit(f, **options), np.zeros(2), np.ones(2)
    within = lib.jit(lambda x, other: jitted(x, other, power=2))
    if "compiler_options" in options:  # which are the outermost function's
        within = jitted
    for call in (jitted, jitted, within, jitted):
        same(call(tnp.full(2, 3.0), other), 3.0 * weights)
        expected += 9.0
        summed += expected * weights
        same(ref[...], expected)
        same(other[...], summed)


def test_nans_are_found_where_refs_are_written() -> None:
    """What is run once more begins with what the Refs held before."""
    ref = tj.new_ref(np.zeros(2))

    def f(x: Any, other: Any) -> Any:
        other[...] += 1.0
        ref[...] = ref[...] + 1.0
        return tnp.log(x - ref[...] * other[...])

    jitted = lib.jit(f, debug_nans=True)
    jitted(tnp.full(2, 3.0), tj.new_ref(1.0))
    with pytest.raises(NonFiniteError, match="log"):
        jitted(tnp.full(2, 3.0), tj.new_ref(1.0))


def test_a_closed_over_ref_of_another_transformation_isnt_remembered() -> None:
    held: list[tj.Ref] = []

    @tj.jit
    def inner() -> None:
        held[-1][...] += 1.0

    @tj.jit
    def outer(x: Any) -> Any:
        held.append(tj.new_ref(x))
        inner()
        inner()
        return held[-1][...]

    assert float(outer(1.0)) == 3.0
    assert outer(np.arange(2.0)).tolist() == [2.0, 3.0]


def test_programs_have_no_refs() -> None:
    ref = tj.new_ref(np.zeros(2))

    def f(x: Any, other: tj.Ref) -> Any:
        ref[0] = x
        other[...] += ref[...]
        return x

    closed = tj.make_jaxpr(f)(1.0, tj.new_ref(np.ones(2)))
    assert [str(aval) for aval in closed.in_avals] == ["~f64[]", "f64[2]", "f64[2]"]
    assert [str(aval) for aval in closed.out_avals] == ["~f64[]", "f64[2]", "f64[2]"]
    same(ref[...], np.zeros(2))  # tracing writes nothing
    assert tj.eval_shape(f, 1.0, tj.new_ref(np.ones(2))) == tj.ShapedArray((), "float64", True)
    same(ref[...], np.zeros(2))


@MODES
def test_a_failed_function_leaves_refs_as_they_were_outside(mode: Mode) -> None:
    ref = tj.new_ref(np.zeros(2))

    def f(x: Any) -> Any:
        ref[0] = x
        raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        tj.jit(f)(1.0)
    same(ref[...], np.zeros(2))

    @mode
    def g(other: tj.Ref) -> None:
        other[0] = 1.0
        raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        tj.jit(g)(ref)
    same(ref[...], np.zeros(2))
    ref[1] = 1.0  # it isn't lent any more


# Errors.


PARTS: dict[str, Callable[[Any, Callable[..., Any]], Callable[..., Any]]] = {
    "jit": lambda m, f: m.jit(f),
    "checkpoint": lambda m, f: m.checkpoint(f),
    "cond": lambda m, f: lambda v: m.lax.cond(True, f, f, v),
    "shard_map": lambda m, f: m.shard_map(f, mesh=m.make_mesh((1,), "x"), in_specs=m.P(), out_specs=m.P()),
}


@pytest.mark.parametrize("within", PARTS)
def test_parts_as_arguments(within: str) -> None:
    """JAX takes parts of Refs where it traces, so both do it in a jitted function, but its `shard_map` doesn't."""

    def run(m: Any, jit: Callable[..., Any], within: str) -> Any:
        def body(part: Any) -> Any:
            part[...] += 17.0 * m.numpy.ones(part.shape)
            part[0] = 1.0
            return part[1]

        def f() -> Any:
            ref = m.new_ref(m.numpy.zeros((2, 7)))
            return PARTS[within](m, body)(ref.at[1].at[1:6]), ref[...]

        return jit(f)()

    expected = [np.asarray(x) for x in run(jax, jax.jit, "jit" if within == "shard_map" else within)]
    for found in (run(tj, lambda f: f, within), run(tj, tj.jit, within)):
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_allclose(x, y)


def test_parts_and_what_else_takes_refs() -> None:
    rows = lib.new_ref(np.arange(6.0).reshape(3, 2))
    lib.vmap(lambda row: row.addupdate(row[1] * 10.0, 0))(rows.at[1:])
    np.testing.assert_array_equal(rows[...], [[0.0, 1.0], [32.0, 3.0], [54.0, 5.0]])
    assert str(tj.typeof(rows.at[1])) == str(tj.typeof(lib.new_ref(np.zeros(2))))

    def loss(w: Any) -> Any:
        ref = tj.new_ref(np.zeros(4))
        tj.jit(lambda part, w: part.addupdate(w * w))(ref.at[1:3], w)
        return tnp.sum(2.0 * ref[...])

    np.testing.assert_array_equal(tj.grad(loss)(np.array([1.0, 2.0])), [4.0, 8.0])
    total = tj.new_ref(np.zeros(2))
    tj.vjp(lambda x: x * x, 3.0)[1].with_refs(total.at[1])(1.0)
    np.testing.assert_array_equal(total[...], [0.0, 6.0])
    assert tj.ref.swap(total.at[1:], 0, 5.0) == tj.ref.get(total.at[1:], 0) + 1.0 == 6.0
    refused(lambda: tj.jit(lambda a, b: None)(total, total.at[0]), "a and b", "one Ref", "Pass it once")
    refused(lambda: tj.freeze(cast("tj.Ref", total.at[0])), "whole Ref")
    kept = tj.custom_vjp(lambda ref, w: w)
    kept.defvjp(lambda ref, w: (w, ref), lambda ref, g: (ref.__setitem__(..., g), (None, g))[1])
    tj.grad(lambda w: 3.0 * kept(total.at[0], w))(1.0)
    np.testing.assert_array_equal(total[...], [3.0, 5.0])
    refused(lambda: tj.grad(lambda w: tj.jit(kept)(total.at[0], w))(1.0), "take the part in the rule")
    refused(lambda: tnp.sin(cast("tj.Array", total.at[0])), "stands where an array is needed")


def refused(call: Callable[[], object], *words: str, error: type[Exception] = RefError) -> None:
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value), str(caught.value)


def test_no_array() -> None:
    ref = lib.new_ref(np.ones(2))
    for call in (
        lambda: lib.numpy.sin(ref),
        lib.jit(lambda: ref),
        lambda: lib.lax.while_loop(lambda c: True, lambda c: c, ref),
        lambda: lib.grad(lambda r: r[0])(ref),
        lambda: lib.jvp(lambda r: r[0], (ref,), (1.0,)),
        lambda: lib.linear_transpose(lambda r: r, ref),
    ):
        refused(call, "stands where an array is needed", "ref[...]")
    refused(lambda: lib.lax.scan(lambda c, x: (c, x), ref, None, length=2), "can't be carried")
    refused(lambda: lib.new_ref(ref), "stands where an array is needed")
    refused(lambda: ref.__setitem__(0, ref), "Write what that holds")
    unknown = (tj.errors.ConcretizationError, "what a Ref holds", "it has no elements yet")
    number = lib.new_ref(1.0)
    refused(lib.jit(lambda: float(number[...])), *unknown[1:], error=unknown[0])
    refused(lambda: ref[5], "index 5 out of bounds", error=IndexingError)
    refused(lambda: ref.__setitem__(-3, 1.0), "index -3 out of bounds", error=IndexingError)
    refused(lambda: lib.freeze(np.ones(2)), "freeze takes a Ref")
    assert issubclass(RefError, InputError)
    assert issubclass(RefError, ValueError)


def test_twice() -> None:
    ref = lib.new_ref(0.0)
    refused(lambda: lib.jit(lambda x, y: None)(ref, ref), "x and y of <lambda> are one Ref")

    @typed(lib.jit)
    def f(other: tj.Ref) -> None:
        other[...] = ref[...]

    refused(lambda: f(ref), "passed to a function that closes over it")
    ref[...] = 1.0
    f(other := lib.new_ref(0.0))
    assert float(other[...]) == 1.0


def test_where_it_ends() -> None:
    ref = lib.new_ref(0.0)
    refused(lib.jit(lambda: lib.freeze(ref)), "is frozen in another function")
    lib.freeze(ref)
    refused(lambda: ref[...], "frozen before")
    refused(lambda: lib.freeze(ref), "frozen before")
    assert repr(ref) == "Ref(~f64[], frozen before)"
    out: list[tj.Ref] = []
    lib.jit(lambda x: out.extend([lib.new_ref(x)]))(1.0)
    refused(lambda: out[0][...], "whose transformation has ended")
    lib.grad(lambda x: (out.__iadd__([lib.new_ref(x)]), x)[1])(1.0)
    refused(lambda: out[1].__setitem__(..., 1.0), "whose transformation has ended")


def test_who_cant_write() -> None:
    ref = lib.new_ref(0.0)

    def f(x: Any) -> Any:
        ref[...] = x + 0.0 * ref[...]
        return x

    refused(lambda: lib.vmap(f)(np.arange(3.0)), "vmap of f", "same place", "argument that is mapped")
    refused(lambda: lib.vmap(lib.jit(f))(np.arange(3.0)), "vmap of", "same place")
    refused(lambda: lib.grad(f)(1.0), "grad of f", "stop_gradient(value)", "pass it to vjp")
    refused(lambda: lib.jvp(lib.jit(f), (1.0,), (1.0,)), "jvp of", "stop_gradient(value)")
    refused(lambda: lib.linear_transpose(f, 1.0)(1.0), "linear_transpose of f")
    refused(lambda: lib.lax.map(f, np.arange(4.0), batch_size=2), "map of f")
    refused(
        lambda: lib.lax.while_loop(lambda i: f(i) < 3.0, lambda i: i + 1.0, 0.0), "the condition of while_loop writes"
    )
    mesh = lib.make_mesh((1,), ("x",))
    mapped = lib.shard_map(f, mesh=mesh, in_specs=lib.P("x"), out_specs=lib.P("x"))
    ref = lib.new_ref(np.zeros(2))
    refused(lambda: mapped(np.ones(2)), "shard_map of f")

    @typed(lib.custom_jvp)
    def g(x: Any) -> Any:
        return x

    g.defjvp(lambda primals, tangents: (f(primals[0]), tangents[0]))
    refused(lambda: lib.jvp(lib.jit(g), (np.ones(2),), (np.ones(2),)), "custom_jvp", "Return the value")
    assert float(ref[0]) == 0.0


def test_places_of_gradients() -> None:
    _, f_vjp = lib.vjp(lambda p: p["a"] * p["b"], {"a": 2.0, "b": 3.0})
    total = lib.new_ref(0.0)
    (found,) = f_vjp.with_refs({"a": total, "b": ad.DontWant()})(1.0)
    assert found == {"a": ad.GradRef(), "b": ad.DidntWant()}
    assert float(total[...]) == 3.0
    (found,) = f_vjp.with_refs(ad.DontWant())(1.0)
    assert found == {"a": ad.DidntWant(), "b": ad.DidntWant()}
    refused(lambda: f_vjp.with_refs(total)(1.0), "one Ref for 2 arrays", error=TreeError)
    refused(lambda: f_vjp.with_refs(total, total)(1.0), "with_refs", error=TreeError)
    refused(lambda: f_vjp.with_refs(3.0), "tinyjax.ad.GradValue()")
    _, of_ref = lib.vjp(lambda r: r[...] * 2.0, lib.new_ref(1.0))
    refused(lambda: of_ref(1.0), "is a Ref", "with_refs")
    (nothing,) = of_ref.with_refs(ad.DontWant())(1.0)
    assert nothing == ad.DidntWant()


def test_what_isnt_wanted_isnt_computed() -> None:
    w, x = np.ones((4, 4)), np.ones(4)
    _, f_vjp = lib.vjp(lambda w, x: w @ x, w, x)
    only = f_vjp.with_refs(ad.GradValue(), ad.DontWant())
    assert str(lib.make_jaxpr(f_vjp)(np.ones(4))).count("dot_general") == 2
    assert str(lib.make_jaxpr(lambda ct: only(ct)[0])(np.ones(4))).count("dot_general") == 1
    same(only(np.ones(4))[0], np.ones((4, 4)))


def test_another_thread() -> None:
    """A Ref of a function that is being staged can't be used by who isn't part of it."""
    held: list[tj.Ref] = []

    def outer(x: Any) -> Any:
        held.append(lib.new_ref(x))
        errors: list[Exception] = []

        def other() -> None:
            try:
                held[0][...] = 1.0
            except RefError as error:
                errors.append(error)

        thread = Thread(target=other)
        thread.start()
        thread.join()
        assert "outside of the function that made it" in str(errors[0])
        return held[0][...]

    assert float(lib.jit(outer)(2.0)) == 2.0
