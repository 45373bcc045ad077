"""Computed positions that are out of range, in Refs: as in JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
from tinyjax import numpy as tnp

jax.config.update("jax_enable_x64", True)

# One program for both libraries: `lib` and `np_` are jax's or ours.


def _set(lib: Any, np_: Any, ref: Any, i: Any) -> Any:
    ref[i] = np_.asarray([7.0, 8.0])


def _column(lib: Any, np_: Any, ref: Any, i: Any) -> Any:
    ref[:, i] = np_.asarray([7.0, 8.0, 9.0])


def _element(lib: Any, np_: Any, ref: Any, i: Any) -> Any:
    ref[1, i] = 7.0


def _both(lib: Any, np_: Any, ref: Any, i: Any) -> Any:
    ref[i, i + 1] = 7.0


def _add(lib: Any, np_: Any, ref: Any, i: Any) -> Any:
    lib.ref.addupdate(ref, i, np_.asarray([7.0, 8.0]))


def _swap(lib: Any, np_: Any, ref: Any, i: Any) -> Any:
    return lib.ref.swap(ref, i, np_.asarray([7.0, 8.0]))


def _get(lib: Any, np_: Any, ref: Any, i: Any) -> Any:
    return ref[i]


def _part(lib: Any, np_: Any, ref: Any, i: Any) -> Any:
    ref.at[1:][i] = np_.asarray([7.0, 8.0])


def _at_arrays(lib: Any, np_: Any, ref: Any, i: Any) -> Any:
    ref[np_.stack([i, i - 1])] = np_.asarray([[7.0, 8.0], [1.0, 2.0]])


PROGRAMS = [_set, _column, _element, _both, _add, _swap, _get, _part, _at_arrays]


def _function(lib: Any, np_: Any, program: Callable[..., Any]) -> Callable[..., list[Any]]:
    def f(i: Any) -> list[Any]:
        ref = lib.new_ref(np_.arange(6.0).reshape(3, 2))
        out = program(lib, np_, ref, i)
        return [ref[...]] if out is None else [out, ref[...]]

    compiled: Callable[..., list[Any]] = lib.jit(f)
    return compiled


@pytest.mark.parametrize("i", [10, 4, 3, 2, 0, -1, -3, -4, -10])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__.strip("_"))
def test_positions_out_of_range_are_as_in_jax(program: Callable[..., Any], i: int) -> None:
    f, their = _function(tj, tnp, program), _function(jax, jnp, program)
    expected = [np.asarray(out) for out in their(np.asarray(i))]
    for one, other in zip(f(np.asarray(i)), expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__.strip("_"))
def test_mapped_positions_are_as_one_after_the_other(program: Callable[..., Any]) -> None:
    """In JAX, where they are mapped, what is out of range isn't written."""
    f, positions = _function(tj, tnp, program), np.array([10, 3, 0, -4, -10])
    for i, one in enumerate(zip(*tj.vmap(f)(positions), strict=True)):
        for found, expected in zip(one, f(positions[i]), strict=True):
            np.testing.assert_array_equal(found, expected)
