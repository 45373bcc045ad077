"""What the tests of the IR are about: primitives with parameters of every kind, and programs that use them."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import ClassVar, final

import numpy as np
import numpy.typing as npt
from attrs import field, frozen
from typing_extensions import override

from tinyjax.contexts.staging import StagingContext
from tinyjax.errors import TypingError
from tinyjax.ir import (
    Atom,
    ClosedJaxpr,
    ConcreteValue,
    DType,
    Effects,
    Eqn,
    Jaxpr,
    Literal,
    NamedAxisEffect,
    Primitive,
    ShapedArray,
    SourceInfo,
    Var,
)
from tinyjax.ir.dtypes import FLOAT32, FLOAT64
from tinyjax.primitives.elementwise import add, mul

F64 = ShapedArray((), np.float64)
WEAK = ShapedArray((), np.float64, weak_type=True)
F32 = ShapedArray((), np.float32)
VEC = ShapedArray((3,), np.float64)
HERE = SourceInfo("model.py", 12, "loss")


def program(avals: Sequence[ShapedArray], body: Callable[..., Sequence[Atom]]) -> Jaxpr:
    """The program that `body(ctx, *inputs)` stages."""
    ctx = StagingContext()
    inputs = [ctx.argument(aval) for aval in avals]
    ctx.cursor.source = HERE
    return ctx.finish(body(ctx, *inputs)).jaxpr


@final
@frozen
class Apply(Primitive):
    """Applies a program: a call, without anything else."""

    label: str
    jaxpr: Jaxpr
    name: ClassVar[str] = "apply"

    @property
    @override
    def effects(self) -> Effects:
        return self.jaxpr.effects

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        if avals != self.jaxpr.in_avals:
            raise TypingError(f"{self.label} takes {self.jaxpr.type}")
        return self.jaxpr.out_avals


@final
@frozen
class Choose(Primitive):
    """Applies one of several programs."""

    branches: tuple[Jaxpr, ...]
    name: ClassVar[str] = "choose"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return self.branches[0].out_avals


class Mode(enum.Enum):
    CLIP = 1
    FILL = 2


class Flags(enum.Flag):
    LEFT = 1
    RIGHT = 2


@final
@frozen
class Window:
    """A parameter that is a record."""

    sizes: tuple[int, ...]
    mode: Mode = Mode.CLIP
    note: str = field(default="", eq=False)


@final
@frozen
class Rules:
    """A record that holds programs."""

    forward: Jaxpr
    backward: tuple[Jaxpr, ...]
    symbolic: bool = False


@final
@frozen
class Custom(Primitive):
    """A primitive whose programs are within a record."""

    rules: Rules
    name: ClassVar[str] = "custom"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return self.rules.forward.out_avals


@final
@frozen
class Assorted(Primitive):
    """The identity, with a parameter of any kind."""

    parameter: object
    name: ClassVar[str] = "assorted"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return avals


@final
@frozen
class Emit(Primitive):
    """Has no outputs."""

    axis: str | None = None
    name: ClassVar[str] = "emit"

    @property
    @override
    def effects(self) -> Effects:
        return frozenset() if self.axis is None else frozenset({NamedAxisEffect(self.axis)})

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return ()


def double() -> Jaxpr:
    """{ lambda ; a:f64[]. let b:f64[] = mul 2.0 a in (b,) }"""
    return program([F64], lambda ctx, x: [mul(ctx, Literal.of(2.0), x)])


def affine() -> Jaxpr:
    """2 * a + 1, for vectors: two equations."""
    return program([VEC], lambda ctx, x: [add(ctx, mul(ctx, Literal.of(2.0), x), Literal.of(1.0))])


def applied(jaxpr: Jaxpr, label: str = "f") -> Jaxpr:
    """The program that applies another one."""
    return program(jaxpr.in_avals, lambda ctx, *xs: ctx.bind(Apply(label, jaxpr), *xs))


def nested(depth: int) -> Jaxpr:
    """Calls within calls."""
    jaxpr = double()
    for _ in range(depth):
        jaxpr = applied(jaxpr)
    return jaxpr


def twice_each(depth: int) -> Jaxpr:
    """Each program applies the one before twice: 2**depth calls of the first."""
    jaxpr = affine()
    for level in range(depth):
        call = Apply(f"level{level}", jaxpr)
        jaxpr = program([VEC], lambda ctx, x, call=call: ctx.bind(call, ctx.bind(call, x)[0]))
    return jaxpr


def chain(length: int) -> Jaxpr:
    """A long program: each equation reads the one before."""
    two = Literal.of(2.0)
    eqns = tuple(Eqn((mul, add)[i % 2], (two, Var(i, F64)), (Var(i + 1, F64),)) for i in range(length))
    return Jaxpr((Var(0, F64),), eqns, (Var(length, F64),))


def bits(pattern: int) -> float:
    """The float with these bits."""
    return float(np.asarray(pattern, np.uint64).view(np.float64))


def array(values: npt.ArrayLike, dtype: DType) -> ConcreteValue:
    return ConcreteValue.of(np.asarray(values, dtype))


def everything() -> ClosedJaxpr:
    """A program with something of every kind in it."""
    rules = Rules(affine(), (double(), applied(double())), symbolic=True)
    window = Window((2, 3), Mode.FILL, note="no part of its value")
    plain = (None, True, -3, 0.1, 1j, "x", b"y", frozenset({"b", "a", "c"}))
    assorted = Assorted((plain, Mode.CLIP, Flags.LEFT, window, np.dtype("f4"), VEC, array([0.5, -0.0], FLOAT32)))

    def body(ctx: StagingContext, v: Atom, x: Atom) -> list[Atom]:
        (w,) = ctx.bind(Custom(rules), v)
        (y,) = ctx.bind(Choose((double(), applied(double()))), Literal.of(2.0))
        return [*ctx.bind(assorted, w, add(ctx, x, y)), Literal.of(0.1, FLOAT32), Literal.of(float("nan"))]

    return ClosedJaxpr(program([VEC, WEAK], body), (array([1, 2, 3], FLOAT64),))
