"""A program that laws are tried on: with arguments, tangents and ways of running it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import compress
from typing import final

import numpy as np
from attrs import evolve, frozen

from tinyjax.contexts.evaluation import EvalContext
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import BOOL, COMPLEXES, FLOAT0, INEXACT, KEYS, HostArray
from tinyjax.ir.interpret import interpret
from tinyjax.ir.merging import sourced
from tinyjax.ir.program import ClosedJaxpr
from tinyjax.ir.text.registry import Registry
from tinyjax.ir.traverse import nested_programs
from tinyjax.ir.value import ConcreteValue
from tinyjax.testing.differences import precision
from tinyjax.transforms.residuals import Residual


def sample(aval: ShapedArray, rng: np.random.Generator) -> HostArray:
    """An array of a type: normal numbers, small integers that aren't negative, either boolean, any keys."""
    if aval.dtype == FLOAT0:
        return np.zeros(aval.shape, FLOAT0)
    if aval.dtype == BOOL:
        return np.asarray(rng.integers(0, 2, aval.shape) > 0)
    if aval.dtype in KEYS:
        words = rng.integers(0, 4, (*aval.shape, aval.dtype.itemsize // 4), np.uint32)
        return words.view(aval.dtype).reshape(aval.shape)
    if aval.dtype in COMPLEXES:
        return np.asarray(rng.normal(size=aval.shape) + 1j * rng.normal(size=aval.shape)).astype(aval.dtype)
    if aval.dtype in INEXACT:
        return np.asarray(rng.normal(size=aval.shape)).astype(aval.dtype)
    return np.asarray(rng.integers(0, 4, aval.shape)).astype(aval.dtype)


def run(program: ClosedJaxpr, args: Sequence[HostArray]) -> list[HostArray]:
    """The outputs of a program, computed equation by equation with NumPy."""
    values = [ConcreteValue(_frozen(arg), aval) for arg, aval in zip(args, program.in_avals, strict=True)]
    outs = interpret(EvalContext(), program.jaxpr, [*program.consts, *values])
    return [np.asarray(out) for out in outs]


def _frozen(array: HostArray) -> HostArray:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def chosen(items: Iterable[HostArray], marks: Sequence[bool]) -> list[HostArray]:
    """The items that are marked."""
    return list(compress(items, marks))


def residuals_of(
    residuals: Sequence[Residual], computed: Iterable[HostArray], args: Sequence[HostArray]
) -> list[HostArray]:
    """The arrays of all residuals: those that the first part computed, in order, and inputs of the whole."""
    return sourced([residual.input for residual in residuals], args, computed)


@final
@frozen(eq=False, slots=False)
class Subject:
    """A program, arguments, and what is random in what it is tried with."""

    program: ClosedJaxpr
    args: list[HostArray]
    seed: int
    registry: Registry | None = None

    def rng(self, salt: int) -> np.random.Generator:
        """Other random numbers for each law, the same each time."""
        return np.random.default_rng([self.seed, salt])

    def of(self, program: ClosedJaxpr) -> Subject:
        """The same with another program, whose inputs are of the same types."""
        return evolve(self, program=program)

    @cached_property
    def outs(self) -> list[HostArray]:
        """What evaluation gives."""
        return run(self.program, self.args)

    @cached_property
    def rounding(self) -> float:
        """How far apart results may be for the least precise numbers that the program computes with."""
        dtypes = {
            atom.aval.dtype
            for nested in nested_programs(self.program.jaxpr)
            for atoms in (nested.invars, *(eqn.outvars for eqn in nested.eqns))
            for atom in atoms
        }
        return max(map(precision, dtypes), default=0.0)

    @cached_property
    def moves(self) -> tuple[bool, ...]:
        """Which inputs have a tangent."""
        return tuple(aval.dtype in INEXACT for aval in self.program.in_avals)

    def tangents(self, salt: int) -> list[HostArray]:
        """A random tangent for each input that has one."""
        rng = self.rng(salt)
        return [
            sample(aval.tangent, rng) for aval, moves in zip(self.program.in_avals, self.moves, strict=True) if moves
        ]
