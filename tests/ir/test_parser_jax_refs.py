"""What JAX prints of programs with Refs is read as programs of values, and computes what JAX computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax._src.state.discharge import run_state
from jax.sharding import PartitionSpec as P

import tinyjax as tj
from tests.ir.parsing import refusal
from tinyjax import ir
from tinyjax.interop.jax import from_jax
from tinyjax.testing import check_laws
from tinyjax.typing import ArrayLike

F: TypeAlias = Callable[..., Any]

V: Final = np.linspace(-1.0, 2.0, 3, dtype=np.float32)
M: Final = np.linspace(-1.5, 2.0, 12, dtype=np.float32).reshape(3, 4)
I: Final = np.int32(1)
J: Final = np.asarray([0, 2], np.int32)
TWICE: Final = np.asarray([0, 0, 1, 0], np.int32)
OUT: Final = np.asarray([0, 5, -1, -7], np.int32)


def set_at(ref: Any, at: Any, value: object) -> None:
    ref[at] = value


def _whole(x: jax.Array) -> Any:
    ref = jax.new_ref(x)
    ref[0] = ref[1] * 2.0
    ref[...] = ref[...] + 1.0
    ref[1:] = ref[0:2]
    jax.ref.addupdate(ref, ..., x)
    jax.ref.addupdate(ref, 0, np.float32(1.0))
    old = jax.ref.swap(ref, ..., x * 2.0)
    return jax.ref.freeze(ref), old


def _indices(x: jax.Array, i: jax.Array, j: jax.Array) -> Any:
    ref = jax.new_ref(x)
    ref[i] = ref[0] * 2.0
    ref[i, 1] = 3.0
    ref[j] = x[:2]
    ref[:, j] = x[:, :2]
    found = ref[j, j]
    jax.ref.addupdate(ref, (j, 1), found)
    jax.ref.addupdate(ref, (i, slice(1, 3)), found)
    ref[0:2, 1] = ref[1:3, 0:2][0]
    ref[1, j] = found
    ref[-1] = ref[-2]
    return ref[...], ref[:, i], ref[j, 1], ref[-2, -1], found


def _parts(x: jax.Array) -> Any:
    ref = jax.new_ref(x)
    ref.at[1:].at[0:2][0] = ref.at[1:][0] * 2.0
    return ref[...]


def _outside(x: jax.Array, i: jax.Array) -> Any:
    ref = jax.new_ref(x)
    ref[i + 5] = ref[0] * 2.0
    ref[i - 7, i + 9] = 7.0
    return ref[...], ref[i - 3], ref[i + 8, i - 20]


def _outside_arrays(x: jax.Array, at: jax.Array) -> Any:
    ref = jax.new_ref(x)
    found = ref[at]
    ref[at] = found * 3.0
    jax.ref.addupdate(ref, (at, 0), jnp.ones(4, np.float32))
    return ref[...], found


def _twice(x: jax.Array, at: jax.Array) -> Any:
    ref = jax.new_ref(x)
    jax.ref.addupdate(ref, at, jnp.ones((4, 4), np.float32))
    return ref[...]


def _fori(x: jax.Array) -> Any:
    ref, total = jax.new_ref(x), jax.new_ref(np.float32(0.0))

    def body(i: jax.Array, c: jax.Array) -> jax.Array:
        ref[i] = ref[i] * c
        total[...] += c
        return c + 1.0

    return lax.fori_loop(0, 3, body, jnp.float32(1.0)), ref[...], total[...]


def _scan(x: jax.Array) -> Any:
    first, second, k = jax.new_ref(x), jax.new_ref(x * 2.0), jnp.sin(x)

    def body(c: jax.Array, y: jax.Array) -> Any:
        first[0] += y + k[1]
        second[1] = first[0] * k[0]
        return c * y + k[2], (first[1], c)

    return lax.scan(body, jnp.float32(1.0), x, reverse=True), first[...], second[...]


def _slices(xs: jax.Array) -> Any:
    ref, other = jax.new_ref(jnp.zeros_like(xs)), jax.new_ref(jnp.zeros(2, np.float32))

    def body(c: jax.Array, each: Any) -> Any:
        x, out = each
        out[...] = x * 2.0
        other[1] += x[0]
        return c + x.sum(), out[1]

    return lax.scan(body, jnp.float32(0.0), (xs, ref)), ref[...], other[...]


def _switch(x: jax.Array, i: jax.Array) -> Any:
    first, second = jax.new_ref(x), jax.new_ref(x)

    def both() -> Any:
        first[0] = second[2]
        second[1] = first[2]
        return second[0]

    return lax.switch(i, [lambda: first[0], both, lambda: second[1]]), first[...], second[...]


def _while(x: jax.Array) -> Any:
    ref, other, k = jax.new_ref(x), jax.new_ref(x), jnp.cos(x)

    def body(c: Any) -> Any:
        ref[0] = ref[0] + k[1]
        return c[0] + 1, c[1] * 2.0

    return lax.while_loop(lambda c: c[0] < 10 + k[0] + other[1], body, (jnp.float32(0.0), k)), ref[...]


def _nested(x: jax.Array) -> Any:
    ref = jax.new_ref(x)

    def inner(i: jax.Array, d: jax.Array) -> Any:
        ref[i] = ref[i] + d

        def then() -> jax.Array:
            ref[2] = d
            return d

        return lax.cond(d > 1.0, then, lambda: d + ref[0])

    def body(c: jax.Array, y: jax.Array) -> Any:
        return lax.fori_loop(0, 2, inner, c), y

    return lax.scan(jax.jit(body), jnp.float32(1.0), x), ref[...]


def _passed(x: jax.Array) -> Any:
    @jax.jit
    def f(ref: Any, y: jax.Array) -> Any:
        ref[1] = y
        return ref[0] + y

    ref = jax.new_ref(x)
    found = f(ref, jnp.float32(2.0))
    return found, f(ref, found), ref[...], jax.jit(lambda y: jax.freeze(jax.new_ref(y)))(x)


def _checkpoint(x: jax.Array) -> Any:
    ref = jax.new_ref(x)
    return jax.checkpoint(lambda y: jnp.sin(y) * ref[0])(x)


def _sum(x: jax.Array) -> Any:
    ref = jax.new_ref(x)
    ref[0] = ref[1] * 3.0
    jax.ref.addupdate(ref, 1, x[0])

    def body(c: jax.Array, y: jax.Array) -> Any:
        ref[0] = ref[0] * y + jnp.sin(ref[1])
        return c * y, ref[1]

    last, found = lax.scan(body, jnp.float32(1.0), x + 1.0)
    return (ref[...] ** 2).sum() + last + found.sum()


def _rows(x: jax.Array, y: jax.Array) -> Any:
    ref = jax.new_ref(x)
    ref[0] = y
    jax.ref.addupdate(ref, y.astype(int), x[1])
    return ref[...]


def _empty(x: jax.Array) -> Any:
    ref: Any = jax.empty_ref(jax.ShapeDtypeStruct((3,), np.float32))
    ref[0] = x[0]
    ref[1:] = x[1:]
    return ref[...]


def _run_state(x: jax.Array) -> Any:
    around = jax.new_ref(x)

    def body(refs: Any) -> None:
        a, b = refs

        def step(i: jax.Array, carry: int) -> int:
            a[i] += b[i] * 2.0
            around[i] += 1.0
            return carry

        lax.fori_loop(0, 2, step, 0)

    return run_state(body)((x, x * 2.0)), run_state(lambda ref: set_at(ref, 0, 5.0))(x), around[...]


MESH: Final = jax.make_mesh((2,), ("a",), axis_types=(jax.sharding.AxisType.Auto,))


def _divided(x: jax.Array) -> Any:
    ref = jax.new_ref(x)

    @jax.shard_map(mesh=MESH, in_specs=(P("a"), P("a"), P()), out_specs=(P("a"), P()))
    def each(ref: Any, x: jax.Array, all_of_it: jax.Array) -> Any:
        own = jax.new_ref(x)
        own[0] = own[1] * lax.axis_index("a")
        ref[...] = ref[...] * 2.0 + x
        return own[...], lax.psum(ref[0], "a") + all_of_it[0]

    return each(ref, x, x), ref[...]


@jax.custom_batching.custom_vmap
def _own_batches(x: jax.Array) -> Any:
    ref = jax.new_ref(x)
    ref[0] += 1.0
    return ref[...] * 2.0


_own_batches.def_vmap(lambda size, batched, x: (x, True))

CASES: Final[list[tuple[F, tuple[np.ndarray | np.generic, ...]]]] = [
    (_whole, (V,)),
    (_indices, (M, I, J)),
    (_parts, (M,)),
    (_outside, (M, I)),
    (_outside_arrays, (M, OUT)),
    (_twice, (M, TWICE)),
    (_fori, (V,)),
    (_scan, (V,)),
    (_slices, (M,)),
    (_switch, (V, I)),
    (_while, (V,)),
    (_nested, (V,)),
    (_passed, (V,)),
    (_checkpoint, (V,)),
    (_sum, (V,)),
    (jax.grad(_sum), (V,)),
    (lambda x: jax.jvp(_sum, (x,), (x,)), (V,)),
    (jax.vmap(_rows), (M, V)),
    (_empty, (V,)),
    (_run_state, (V,)),
    (_divided, (np.linspace(0.5, 2.0, 4, dtype=np.float32),)),
]


@pytest.mark.parametrize(("f", "args"), CASES)
def test_the_text_computes_what_jax_computes(f: F, args: tuple[np.ndarray | np.generic, ...]) -> None:
    text = str(jax.make_jaxpr(f)(*args))
    assert "Ref{" in text
    program = ir.parse(text)
    check_laws(program, laws=["text"])
    expected = jax.tree.leaves(jax.jit(f)(*args))

    def run(*xs: ArrayLike) -> list[tj.Array]:
        return tj.eval_jaxpr(program, [], *xs)

    for found in (run(*args), tj.jit(run)(*args)):
        assert len(found) == len(expected)
        for ours, theirs in zip(found, map(np.asarray, expected), strict=True):
            assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
            np.testing.assert_allclose(np.asarray(ours), theirs, rtol=2e-5, atol=2e-6)


def test_functions_with_batching_rules() -> None:
    """JAX can print them, but runs them eagerly only."""
    (found,) = tj.eval_jaxpr(ir.parse(str(jax.make_jaxpr(_own_batches)(V))), [], V)
    np.testing.assert_array_equal(found, (V + np.asarray([1, 0, 0], np.float32)) * 2)
    text = """
    { lambda ; a:f32[3]. let
        b:Ref{f32[3]} = new_ref[kind=None memory_space=None] a
        c:f32[3] = custom_vmap_call[
          call={ lambda ; d:Ref{f32[3]} e:f32[3]. let
              f:f32[], d[0] <- d[0], 7.0:f32[]
            in (e,) }
          in_tree=PyTreeDef((*, *))
          out_tree=PyTreeDef(*)
          rule=rule
        ] b a
        g:f32[3] <- b[...]
      in (c, g) }
    """
    same, written = tj.eval_jaxpr(ir.parse(text), [], V)
    np.testing.assert_array_equal(same, V)
    np.testing.assert_array_equal(written, [7.0, *V[1:]])


def test_tokens_are_arrays_without_elements() -> None:
    def f(x: jax.Array) -> Any:
        return lax.after_all(lax.create_token(x), lax.create_token()), x * 2.0

    program = ir.parse(str(jax.make_jaxpr(f)(V)))
    assert program == from_jax(f, V).jaxpr
    token, doubled = tj.eval_jaxpr(program, [], V)
    assert (token.shape, token.dtype) == ((0,), np.dtype(bool))
    np.testing.assert_array_equal(doubled, V * 2)
    outside = lax.create_token()
    closed = from_jax(lambda x: (lax.after_all(outside), x), V)
    assert list(map(str, closed.out_avals)) == ["bool[0]", "f32[3]"]


def test_what_the_refs_of_a_function_hold_goes_in_and_comes_out() -> None:
    """As in our own programs of such functions; those that it closes over are constants."""

    def f(ref: Any, y: jax.Array) -> Any:
        ref[0] = y
        return ref[1] * y

    program = ir.parse(str(jax.make_jaxpr(f)(jax.new_ref(V), V[0])))
    assert [x.aval.shape for x in program.outvars] == [(), (3,)]
    y = np.float32(5.0)
    found, last = tj.eval_jaxpr(program, [], V, y)
    np.testing.assert_array_equal(found, V[1] * y)
    np.testing.assert_array_equal(last, [5.0, *V[1:]])

    closed_over = jax.new_ref(V)
    text = str(jax.make_jaxpr(lambda y: jax.jit(f)(closed_over, y))(V[0]))
    found, last = tj.eval_jaxpr(ir.parse(text), [], V, y)
    np.testing.assert_array_equal(last, [5.0, *V[1:]])


def test_the_condition_of_a_loop_reads_what_the_body_writes() -> None:
    """JAX's keeps on reading what the Ref held before the loop."""

    def f(x: jax.Array) -> Any:
        ref = jax.new_ref(x)

        def body(c: jax.Array) -> jax.Array:
            ref[0] += 1.0
            return c + 1.0

        return lax.while_loop(lambda c: ref[0] + c < 10.0, body, jnp.float32(0.0)), ref[...]

    count, last = tj.eval_jaxpr(ir.parse(str(jax.make_jaxpr(f)(np.zeros(2, np.float32)))), [], np.zeros(2, np.float32))
    assert (float(count), float(last[0])) == (5.0, 5.0)


def _program(equation: str) -> str:
    return (
        "{ lambda ; a:f32[3] p:i32[]. let\n    b:Ref{f32[3]} = new_ref[kind=None memory_space=None] a\n"
        f"    {equation}\n    c:f32[3] <- b[...]\n  in (c,) }}"
    )


def test_windows_at_computed_places() -> None:
    x, at = np.arange(12.0, dtype=np.float32).reshape(3, 4), np.asarray([2, 0], np.int32)
    text = """{ lambda ; a:f32[3,4] d:f32[2,2] p:i32[] q:i32[2]. let
        b:Ref{f32[3,4]} = new_ref a
        c:f32[2] <- b[p:p+2,1]
        b[p:p+2,q] += d
        e:f32[3,4] <- b[...]
      in (c, e) }"""
    ones = np.ones((2, 2), np.float32)
    found, last = tj.eval_jaxpr(ir.parse(text), [], x, ones, np.int32(1), at)
    np.testing.assert_array_equal(found, x[1:3, 1])
    expected = x.copy()
    expected[1:3, at] += 1.0
    np.testing.assert_array_equal(last, expected)


@pytest.mark.parametrize(
    ("equation", "problem"),
    [
        ("d:f32[] <- a[0]", "a is no Ref, of which"),
        ("d:f32[2] <- b[0]", "get gives (f32[]) for operands (f32[3]), but its results are declared as (f32[2])"),
        ("b[0] <- a", "a value of type f32[3] is written to a place of a Ref that holds f32[]"),
        ("b[0] += p", "a value of type i32[] is written"),
        ("d:f32[] <- b[0,0]", "an index of a Ref has one entry for each axis: 2 for f32[3]"),
        ("d:f32[5] <- b[:5]", "0:5 is no part of an axis of size 3"),
        ("d:f32[3] = sin b", "sin is applied to the Ref b, which it can't be"),
        ("d:f32[] <- b[x]", "x is not bound"),
        ("d:f32[] <- b[!]", "expected a position, got '!'"),
        ("d:f32[2] <- b[p:p+]", "expected a number"),
        ("d:f32[] <- b + 1", "expected an index after b"),
    ],
)
def test_what_is_wrong_with_a_ref_is_said(equation: str, problem: str) -> None:
    error = refusal(_program(equation))
    assert problem in error.problem, error.problem
    assert error.line == 3
