"""What elements along a named axis give each other, under batching and derivatives, against jax.vmap."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, Final

import jax
import numpy as np
import numpy.typing as npt
import pytest

import tinyjax as tj
from tinyjax import lax
from tinyjax.errors import AxisNameError, ShapeError, TypingError
from tinyjax.interop.jax import from_jax, to_jax
from tinyjax.ir import ClosedJaxpr, parse, parse_closed
from tinyjax.primitives.exchanges import AllGather, AllToAll, PPermute, ReduceScatter

#: Of `jax.lax` or `tinyjax.lax`, a function of an element.
Make = Callable[[Any], Callable[[Any], Any]]
Host = npt.NDArray[np.float64]


def exchanging(split: int, concat: int, tiled: bool) -> Make:
    return lambda m: lambda x: m.all_to_all(x, "i", split, concat, tiled=tiled)


_ROUND: Final = [(i, (i + 1) % 4) for i in range(4)]
CASES: Final[dict[str, tuple[Make, tuple[int, ...]]]] = {
    "all_gather": (lambda m: lambda x: m.all_gather(x, "i"), (3, 2)),
    "all_gather in the middle": (lambda m: lambda x: m.all_gather(x, "i", axis=1), (3, 2)),
    "all_gather at the end": (lambda m: lambda x: m.all_gather(x, "i", axis=-1), (3, 2)),
    "all_gather, tiled": (lambda m: lambda x: m.all_gather(x, "i", axis=1, tiled=True), (3, 2)),
    "psum_scatter": (lambda m: lambda x: m.psum_scatter(x, "i"), (4, 2)),
    "psum_scatter, tiled": (lambda m: lambda x: m.psum_scatter(x, "i", scatter_dimension=1, tiled=True), (3, 8)),
    "ppermute": (lambda m: lambda x: m.ppermute(x, "i", _ROUND), (3,)),
    "pshuffle": (lambda m: lambda x: m.pshuffle(x, "i", [2, 0, 3, 1]), (3,)),
    "pswapaxes": (lambda m: lambda x: m.pswapaxes(x, "i", 1), (3, 4)),
    **{
        f"all_to_all {split} {concat}{', tiled' * tiled}": (
            exchanging(split, concat, tiled),
            (8, 4, 12) if tiled else (4, 4, 4),
        )
        for (split, concat), tiled in product(((0, 0), (0, 1), (1, 0), (2, 1)), (False, True))
    },
}
parametrized = pytest.mark.parametrize(("make", "shape"), CASES.values(), ids=CASES)


def values(*shape: int) -> Host:
    return np.random.default_rng(0).normal(size=shape)


def agree(ours: object, theirs: object) -> None:
    np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-6)


@parametrized
def test_values(make: Make, shape: tuple[int, ...]) -> None:
    x = values(4, *shape)
    for at in (0, 1):
        moved = np.moveaxis(x, 0, at)
        expected = jax.vmap(make(jax.lax), in_axes=at, axis_name="i")(moved)
        mapped = tj.vmap(make(lax), in_axes=at, axis_name="i")
        agree(mapped(moved), expected)
        if at == 0:
            agree(tj.jvp(mapped, (moved,), (moved,))[1], expected)


@parametrized
def test_of_what_is_the_same_for_all_and_over_another_axis(make: Make, shape: tuple[int, ...]) -> None:
    x = values(3, *shape)
    same = jax.vmap(make(jax.lax), axis_name="i")(np.stack([x[0]] * 4))
    agree(tj.vmap(lambda _: make(lax)(x[0]), axis_name="i")(np.arange(4.0)), same)
    # All of x are the elements of an inner axis without a name.
    rows = np.stack([x + i for i in range(4)])
    expected = np.stack([jax.vmap(make(jax.lax), axis_name="i")(rows[:, k]) for k in range(3)], axis=1)
    for at in (0, 1):
        inner = tj.vmap(make(lax), in_axes=at)
        agree(tj.vmap(inner, axis_name="i")(np.moveaxis(rows, 1, at + 1)), expected)


@parametrized
@pytest.mark.sweep
def test_gradients(make: Make, shape: tuple[int, ...]) -> None:
    x = values(4, *shape)
    mapped = tj.vmap(make(lax), axis_name="i")
    expected = jax.grad(lambda v: (jax.vmap(make(jax.lax), axis_name="i")(v) ** 2).sum())(x)
    agree(tj.grad(lambda v: (mapped(v) ** 2).sum())(x), expected)
    # Within: cotangents are exchanged too, so each element has the derivative of the sum over all of them.
    agree(tj.vmap(tj.grad(lambda v: (make(lax)(v) ** 2).sum()), axis_name="i")(x), expected)
    doubled = tj.vmap(tj.grad(lambda v: tj.grad(lambda w: (make(lax)(w) ** 2).sum())(v).sum()), axis_name="i")(x)
    agree(doubled, tj.grad(lambda v: tj.grad(lambda w: (mapped(w) ** 2).sum())(v).sum())(x))


@parametrized
def test_programs(make: Make, shape: tuple[int, ...]) -> None:
    """Of JAX, by values and by text, and back; ours by text."""
    x = values(4, *shape)
    theirs = jax.make_jaxpr(make(jax.lax), axis_env=[("i", 4)])(x[0])
    imported = from_jax(theirs)
    assert isinstance(imported, ClosedJaxpr)
    assert parse_closed(str(theirs)).jaxpr == imported.jaxpr
    assert parse(str(imported.jaxpr)) == imported.jaxpr
    expected = jax.vmap(make(jax.lax), axis_name="i")(x)
    agree(tj.vmap(lambda v: tj.eval_jaxpr(imported.jaxpr, imported.consts, v)[0], axis_name="i")(x), expected)
    agree(jax.tree.leaves(jax.vmap(to_jax(imported), axis_name="i")(x))[0], expected)


def test_over_two_axes() -> None:
    """The last name counts fastest."""
    x = values(6, 6, 6)

    def over(f: Callable[[Any], Any]) -> Host:
        out = np.asarray(tj.vmap(tj.vmap(f, axis_name="j"), axis_name="i")(x.reshape(2, 3, 6, 6)))
        return out.reshape(6, *out.shape[2:])

    names = ("i", "j")
    agree(over(lambda v: lax.all_gather(v, names)), [x] * 6)
    agree(over(lambda v: lax.all_gather(v, names, axis=1, tiled=True)), [np.concatenate(list(x), 1)] * 6)
    agree(over(lambda v: lax.psum_scatter(v, names)), x.sum(0))
    agree(over(lambda v: lax.all_to_all(v, names, 0, 0)), np.swapaxes(x, 0, 1))
    agree(over(lambda v: lax.all_to_all(v, names, 1, 0)), np.moveaxis(x, (2, 0, 1), (0, 1, 2)))
    moved = np.zeros_like(x)
    moved[5], moved[1] = x[0], x[2]
    agree(over(lambda v: lax.ppermute(v, names, [(0, 5), (2, 1)])), moved)


def test_compiled() -> None:
    """All in one program."""
    makes = [(make, values(4, *shape)) for make, shape in CASES.values()]
    mapped = [tj.vmap(make(lax), axis_name="i") for make, _ in makes]
    compiled = tj.jit(lambda xs: [f(x) for f, x in zip(mapped, xs, strict=True)])([x for _, x in makes])
    for f, (_, x), out in zip(mapped, makes, compiled, strict=True):
        agree(out, f(x))


def test_elements_that_get_nothing_have_zeros() -> None:
    x = np.arange(1.0, 6.0)
    assert tj.vmap(lambda v: lax.ppermute(v, "i", [(0, 4), (3, 1), (2, 0)]), axis_name="i")(x).tolist() == [
        *(3.0, 4.0, 0.0, 0.0, 1.0)
    ]
    assert tj.vmap(lambda v: lax.pbroadcast(v, "i", 3), axis_name="i")(x).tolist() == [4.0] * 5


@pytest.mark.parametrize(
    ("f", "error", "message"),
    [
        (
            lambda x: lax.psum_scatter(x, "i"),
            ShapeError,
            r"psum_scatter: axis 0 of f64\[3\] must have .* named axis, 2",
        ),
        (lambda x: lax.all_to_all(x, "i", 0, 0, tiled=True), ShapeError, "all_to_all: .*divided into 2 equal parts"),
        (lambda x: lax.ppermute(x, "i", [(0, 1), (0, 0)]), AxisNameError, "sources and destinations must be unique"),
        (lambda x: lax.ppermute(x, "i", [(0, 2)]), AxisNameError, r"axis 'i' has 2 elements, and perm has .*\(0, 2\)"),
        (lambda x: lax.pshuffle(x, "i", [0, 0]), AxisNameError, r"a permutation of the 2 elements; got \[0, 0\]"),
        (lambda x: lax.pbroadcast(x, "i", 2), AxisNameError, "there is no element 2 among the 2 along 'i'"),
        (lambda x: lax.all_gather(x, "j"), AxisNameError, "unbound axis name: 'j'"),
        (lambda x: lax.psum_scatter(x > 0, "i", tiled=True), TypingError, "reduce_scatter .*bool"),
    ],
)
def test_errors(f: Callable[[Any], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        tj.vmap(f, axis_name="i")(values(2, 3))


def test_programs_are_for_one_size() -> None:
    staged: list[ClosedJaxpr] = []

    def f(x: Any) -> Any:
        staged.append(tj.make_jaxpr(lambda v: lax.all_gather(v, "i"))(x))
        return x

    tj.vmap(f, axis_name="i")(values(2, 3))
    program = staged[0]
    with pytest.raises(AxisNameError, match="all_gather was staged for axis 'i' with 2 elements; here it has 5"):
        tj.vmap(lambda v: tj.eval_jaxpr(program.jaxpr, program.consts, v), axis_name="i")(values(5, 3))


def test_transposes_of_transposes() -> None:
    for primitive in (
        AllGather("i", 4, 1), ReduceScatter("i", 4, 0), AllToAll("i", 4, 0, 1), PPermute("i", ((0, 2), (3, 1))),
    ):  # fmt: skip
        assert primitive.transposed().transposed() == primitive
