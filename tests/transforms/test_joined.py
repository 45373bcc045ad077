"""What is joined in several steps, and parts of arrays of one number: as one equation, and as numbers."""

from __future__ import annotations

import numpy as np

import tinyjax.numpy as tnp
from tests.transforms.checks import numbers, program, run
from tinyjax import Array, ShapedArray
from tinyjax.ir import Jaxpr, typecheck
from tinyjax.transforms.joined import joined_at_once
from tinyjax.transforms.one_number import parts_of_one_number

ONE: ShapedArray = ShapedArray((1,), "float64")


def names(j: Jaxpr) -> list[str]:
    return [eqn.primitive.name for eqn in j.eqns]


def same(j: Jaxpr, other: Jaxpr) -> None:
    typecheck(other)
    args = numbers(j.in_avals)
    for a, b in zip(run(other, args), run(j, args), strict=True):
        np.testing.assert_array_equal(a, b)


def test_once() -> None:
    def f(a: Array, b: Array, c: Array) -> Array:
        return tnp.concatenate([tnp.concatenate([a, tnp.concatenate([b, c])]), a])

    j = program(f, ONE, ONE, ONE)
    found = joined_at_once(j)
    assert [len(eqn.invars) for eqn in found.eqns] == [4]
    same(j, found)


def test_what_is_read_elsewhere_or_joined_otherwise_stays() -> None:
    def f(a: Array, b: Array) -> tuple[Array, Array]:
        both = tnp.concatenate([a, b])
        return tnp.concatenate([both, a]), both

    def across(a: Array, b: Array) -> Array:
        rows = tnp.concatenate([a[None], b[None]])
        return tnp.concatenate([rows, rows[:, :1]], axis=1)

    for j in (program(f, ONE, ONE), program(across, ONE, ONE)):
        assert joined_at_once(j) == j


def test_parts_of_one_number() -> None:
    def f(a: Array) -> tuple[Array, Array, Array]:
        many = tnp.broadcast_to(a, (3, 4))
        return many[1, 2], many[:2, 1:], many.reshape(12)[3:5]

    j = program(f, ShapedArray((), "float64"))
    found = parts_of_one_number(j)
    same(j, found)
    assert set(names(found)) == {"broadcast_in_dim"}
    assert found.outvars[0] == found.invars[0]


def test_parts_of_rows_stay() -> None:
    j = program(lambda a: tnp.broadcast_to(a, (3, 1))[1:], ONE)
    assert parts_of_one_number(j) == j
