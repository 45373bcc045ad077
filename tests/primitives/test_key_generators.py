"""Keys of every implementation that JAX has: the same words and bits as there, on the host, compiled and mapped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
import tinyjax.random as tr
from tests.primitives.test_keys import MOVES, of, same, sampled
from tinyjax import lax
from tinyjax.interop.jax import from_jax, of_jax, to_jax
from tinyjax.ir.dtypes import KEY_NAMES
from tinyjax.primitives.keys import KeyImpl
from tinyjax.testing import check_laws

NAMES = {name: str(jax.random.key_dtype(name)) for name in KEY_NAMES.values()}
OTHERS = [name for name in NAMES if name != "threefry2x32"]
#: Words that are nans, signalling and quiet, infinities and zeros of either sign, if they are taken for numbers.
ODD = np.array(
    [
        [1, 0x7FF00000, 0x80000000, 0xFFF00001],
        [0, 0x80000000, 0, 0],
        [0, 0, 0, 0],
        [7, 0xFFF80000, 0, 0x7FF80000],
        [0, 0x7FF00000, 1, 0],
    ],
    np.uint32,
)


def both(f: Callable[..., Any], ours: Any, theirs: Any, *args: Any) -> None:
    """A function of `random` of both, on the host and compiled."""
    expected = jax.tree.leaves(f(jax.random, theirs, *args))

    def g(key: Any, *args: Any) -> Any:
        return f(tr, key, *args)

    for run in (g, tj.jit(g)):
        for found, want in zip(tj.tree.leaves(run(ours, *args)), expected, strict=True):
            same(found, want)


@pytest.mark.sweep
@pytest.mark.parametrize("name", sampled(NAMES, "philox2x32"))
def test_every_function_of_keys(name: str) -> None:
    ours, theirs = tr.key(-3, impl=name), jax.random.key(-3, impl=name)
    assert str(ours.aval) == f"{NAMES[name]}[]"
    assert repr(ours) == f"Array((), dtype={NAMES[name]}) overlaying:\n{np.asarray(jax.random.key_data(theirs))}"
    same(ours, theirs)
    same(tr.PRNGKey(5, impl=name), jax.random.PRNGKey(5, impl=name))
    same(tr.wrap_key_data(tr.key_data(ours), impl=name), theirs)
    assert tr.key_impl(ours) == jax.random.key_impl(theirs) == name
    assert tr.key_dtype(name) == ours.dtype
    same(tr.key(2, dtype=ours.dtype), jax.random.key(2, impl=name))
    both(lambda random, key: (random.split(key), random.split(key, (2, 3)), random.fold_in(key, 9)), ours, theirs)
    widths = [f"uint{width}" for width in (8, 16, 32, 64)]
    both(lambda random, key: [random.bits(key, (3, 5), dtype) for dtype in widths], ours, theirs)
    both(lambda random, key: [random.bits(key, (), dtype) for dtype in widths], ours, theirs)
    both(lambda random, key: random.uniform(random.clone(key), (3,), "float32"), ours, theirs)


def mapped(random: Any, vmap: Any, keys: Any, data: Any) -> Any:
    """Under `vmap`, where the bits of some come from the first key alone."""

    def each(key: Any, number: Any) -> Any:
        return random.bits(key, (3,)), random.split(key), random.fold_in(key, number), random.fold_in(key, 7)

    return (
        vmap(each)(keys[:, 0], data),
        vmap(each, in_axes=(None, 0))(keys[1, 1], data),
        vmap(each, in_axes=(0, None))(keys[:, 0], data[1]),
        vmap(vmap(each, in_axes=(None, 0)), in_axes=(0, None))(keys[:, 1], data),
        vmap(vmap(each, in_axes=(0, None)), in_axes=(0, 0))(keys, data),
        vmap(lambda keys: vmap(each, in_axes=(0, None))(keys, data[0]), in_axes=1)(keys),
        vmap(random.key_data, in_axes=1)(keys),
    )


@pytest.mark.sweep
@pytest.mark.parametrize("name", sampled(NAMES, "unsafe_rbg"))
def test_mapped_keys(name: str) -> None:
    theirs = jax.random.split(jax.random.key(8, impl=name), (3, 2))
    data = np.array([5, 1, 4], np.uint32)
    expected = jax.tree.leaves(mapped(jax.random, jax.vmap, theirs, data))
    ours = tnp.asarray(theirs)
    for run in (mapped, lambda random, vmap, *args: tj.jit(lambda *args: mapped(random, vmap, *args))(*args)):
        for found, want in zip(tj.tree.leaves(run(tr, tj.vmap, ours, data)), expected, strict=True):
            same(found, want)


@pytest.mark.parametrize(
    ("name", "move"),
    [
        *(pytest.param("rbg", move, marks=() if move in ("outside", "equal") else pytest.mark.sweep) for move in MOVES),
        *(pytest.param(name, "outside", marks=pytest.mark.sweep) for name in OTHERS),
    ],
)
def test_keys_are_moved_about_bit_by_bit(name: str, move: str) -> None:
    count = jax.random.key_data(jax.random.key(0, impl=name)).shape[-1]
    words = ODD[np.arange(12).reshape(3, 4) * 3 % 5, :count]
    theirs = jax.random.wrap_key_data(jnp.asarray(words), impl=name)
    expected = MOVES[move](jnp, jax.lax, theirs)
    ours = tr.wrap_key_data(words, impl=name)

    def f(keys: Any) -> Any:
        return MOVES[move](tnp, lax, keys)

    same(f(ours), expected)
    same(tj.jit(f)(ours), expected)
    if move == "equal":
        same(tj.jit(lambda: MOVES[move](tnp, lax, ours))(), expected)  # the keys are constants of the program


USUAL = ("keys", "gather")
PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "normal": lambda key: jax.random.normal(key, (3,), "float32"),
    "keys": lambda key: (
        jax.random.fold_in(key, 3),
        jax.random.wrap_key_data(jax.random.key_data(key), impl=jax.random.key_impl(key)),
    ),
    "scan": lambda key: jax.lax.scan(
        lambda key, _: (jax.random.split(key)[0], jax.random.randint(key, (2,), 0, 9)), key, None, length=3
    ),
    "mapped": lambda key: jax.vmap(lambda key: jax.random.uniform(key, (2,)))(jax.random.split(key, 4)),
    "gather": lambda key: jax.random.split(key, 5)[jnp.array([1, 7])],
    "seed": lambda key: jax.random.key(3, impl=jax.random.key_impl(key)) == key,
}


@pytest.mark.parametrize(
    ("name", "program"),
    [
        *(
            pytest.param("rbg", name, marks=() if name in ("keys", "gather") else pytest.mark.sweep)
            for name in PROGRAMS
        ),
        *(pytest.param(name, "keys", marks=pytest.mark.sweep) for name in OTHERS[1:]),
    ],
)
def test_programs_with_keys_go_to_and_from_jax(name: str, program: str) -> None:
    f, key = PROGRAMS[program], jax.random.key(2, impl=name)
    traced = jax.make_jaxpr(f)(key)
    ours = from_jax(traced)
    assert str(ours.in_avals[0]) == f"{NAMES[name]}[]"
    assert [str(aval) for aval in ours.out_avals] == [str(jax.typeof(x)).replace("float", "f").replace(
        "uint", "u").replace("int", "i") for x in jax.tree.leaves(f(key))]  # fmt: skip
    expected = jax.tree.leaves(f(key))
    back = to_jax(ours)
    runs = (tj.eval_jaxpr(ours.jaxpr, ours.consts, tnp.asarray(key)), jax.tree.leaves(jax.jit(back)(key)),
            jax.tree.leaves(tj.jit(of_jax(f))(tnp.asarray(key))))  # fmt: skip
    for found in runs:
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_allclose(of(x).astype(float), of(y).astype(float), rtol=2**-13)
    assert tj.ir.parse(str(ours.jaxpr)) == ours.jaxpr
    if program in ("keys", "seed"):
        tj.ir.parse(str(traced))


@pytest.mark.sweep
@pytest.mark.parametrize("name", OTHERS)
def test_laws(name: str) -> None:
    """All of them, but that bits of XLA's generator come from the first of several keys."""
    impl = next(impl for impl in KeyImpl if NAMES[name] == f"key<{impl.value}>")

    def f(seed: Any) -> Any:
        keys = tr.split(tr.key(seed, impl=name), 3)
        folded = tj.vmap(tr.fold_in)(keys, np.arange(3, dtype=np.uint32))
        return keys == folded[0], keys[1] if name == "rbg" else (tr.bits(keys[0], (2,)), tr.key_data(folded))

    program = tj.make_jaxpr(f)(np.int64(3))
    if name != "unsafe_rbg":
        check_laws(program, [np.int64(3)])
    assert tj.ir.parse(str(program.jaxpr)) == program.jaxpr
    closed = tj.make_jaxpr(lambda: tnp.stack([tr.key(3, impl=name)] * 2))()
    assert tj.ir.parse(str(closed.jaxpr)) == closed.jaxpr
    assert impl.dtype == tr.key(3, impl=name).dtype


def test_keys_that_are_none() -> None:
    with pytest.raises(ValueError, match="unrecognized PRNG implementation 'mt19937': there are 'threefry2x32', 'rbg'"):
        tr.key(0, impl="mt19937")
    with pytest.raises(ValueError, match="a key of dtype key<rbg> consists of 4 words, along the last axis, got u32"):
        tr.wrap_key_data(np.zeros(2, np.uint32), impl="rbg")
    with pytest.raises(ValueError, match=r"a key of dtype key<phx2> consists of 1 word, along the last axis"):
        tr.wrap_key_data(np.zeros(2, np.uint32), impl="philox2x32")
    words = tr.PRNGKey(0, impl="rbg")
    with pytest.raises(TypeError, match=r"split takes words of a key .*wrap_key_data\(words, impl='rbg'\)"):
        tr.split(words)
    assert tr.split(tr.wrap_key_data(words, impl="rbg")).shape == (2,)
    with pytest.raises(TypeError, match="requires arguments to have the same dtypes"):
        lax.eq(tr.key(0), tr.key(0, impl="rbg"))
