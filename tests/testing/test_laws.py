"""`tinyjax.testing.check_laws`: it lets good programs pass, and finds what is wrong with bad ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Final, TypeVar, final

import numpy as np
import pytest
from attrs import frozen
from hypothesis import given, settings
from typing_extensions import override

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.api.families import FUNCTIONS
from tests.transforms.checks import any_programs
from tests.transforms.pass_programs import FORWARD, REVERSIBLE
from tinyjax import ShapedArray, extend, ir, lax
from tinyjax.contexts.devices import single_equation
from tinyjax.errors import InputError, LawError
from tinyjax.extend import BatchAxis, Context, Outputs, Primitive, Zero
from tinyjax.extend.primitives import Cos, Mul, Neg, Sin
from tinyjax.ir import HostArray, Jaxpr
from tinyjax.testing import LAWS, check_laws
from tinyjax.testing.meaning import PASSES

V = TypeVar("V")
F64: Final = ShapedArray((), "float64")
VECTOR: Final = ShapedArray((3,), "float64")
UNCOMPILED: Final = ["compilation"]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    report = check_laws(tj.trace(FUNCTIONS[name][0])(0.7), [0.7])
    assert report.checked == LAWS


@given(any_programs)
@settings(max_examples=12, deadline=None)
def test_programs_of_all_dtypes(j: Jaxpr) -> None:
    check_laws(j, skip=UNCOMPILED)


@given(REVERSIBLE)
@settings(max_examples=12, deadline=None)
def test_programs_with_branches_and_scans(j: Jaxpr) -> None:
    # Their literals are so large that differences say nothing.
    assert not check_laws(j, skip=[*UNCOMPILED, "finite_differences", "second_derivatives"]).skipped


@given(FORWARD)
@settings(max_examples=8, deadline=None)
def test_programs_with_loops(j: Jaxpr) -> None:
    check_laws(j, skip=[*UNCOMPILED, "finite_differences", "second_derivatives"])


def test_what_does_not_apply() -> None:
    loop = tj.make_jaxpr(lambda x: lax.while_loop(lambda c: c < 9.0, lambda c: c * 2.0, x))(1.0)
    report = check_laws(loop, [3.0])
    assert [name for name, _ in report.skipped] == ["transpose"]
    assert str(report).splitlines()[-1].startswith("skipped: transpose: ")
    seen: list[float] = []

    def noted(x: tj.Array) -> tj.Array:
        tj.debug.callback(lambda y: seen.append(float(y)), x)
        return x * 2.0

    printing = tj.make_jaxpr(noted)(1.0)
    found = dict(check_laws(printing).skipped)
    assert "evaluation" in found
    assert found["evaluation"].startswith("it has effects")
    assert "<lambda>" in found["files"]
    assert not seen


def test_arguments_are_checked() -> None:
    program = tj.make_jaxpr(lambda x: x * 2.0)(np.ones(3))
    with pytest.raises(InputError, match="there is no law 'speed'; they are typecheck, text"):
        check_laws(program, laws=["speed"])
    with pytest.raises(InputError, match="there is no law 'speed'"):
        check_laws(program, skip=["speed"])
    with pytest.raises(InputError, match="the program takes 1 inputs, got 2"):
        check_laws(program, [1.0, 2.0])
    with pytest.raises(InputError, match=r"input 0 is f64\[3\], got an array of shape \(2,\)"):
        check_laws(program, [np.ones(2)])


def test_the_same_is_checked_each_time() -> None:
    program = tj.make_jaxpr(lambda x, n: tnp.sin(x) * n)(np.ones(3), 2)
    assert check_laws(program) == check_laws(program) == check_laws(program, seed=1)


# Primitives with one rule that is wrong.


@frozen
class Wave(Primitive):
    """The sine, until a subclass gets something wrong."""

    name: ClassVar[str] = "wave"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return (avals[0].strengthen(),)

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        return (np.asarray(np.sin(args[0])),)

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        outs = ctx.bind(self, *primals)
        tangent = tangents[0]
        if isinstance(tangent, Zero):
            return outs, (Zero(ctx.aval(outs[0]).tangent),)
        return outs, (self.slope(ctx, primals[0], tangent),)

    def slope(self, ctx: Context[V], x: V, tangent: V) -> V:
        return ctx.bind(Mul(), tangent, *ctx.bind(Cos(), x))[0]

    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        return ctx.bind(self, *args), axes


@final
@frozen
class WrongSlope(Wave):
    @override
    def slope(self, ctx: Context[V], x: V, tangent: V) -> V:
        return ctx.bind(Mul(), tangent, *ctx.bind(Sin(), x))[0]


@final
@frozen
class NonlinearSlope(Wave):
    @override
    def slope(self, ctx: Context[V], x: V, tangent: V) -> V:
        return ctx.bind(Mul(), tangent, tangent)[0]


@final
@frozen
class WrongBatch(Wave):
    @override
    def batch(
        self, ctx: Context[V], axis: BatchAxis, args: Sequence[V], axes: Sequence[int | None]
    ) -> tuple[Sequence[V], Sequence[int | None]]:
        return ctx.bind(Neg(), args[0]), axes


@final
@frozen
class WrongPrimal(Wave):
    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        outs, derived = super().jvp(ctx, primals, tangents)
        return ctx.bind(Neg(), *outs), derived


@final
@frozen
class Unsteady(Wave):
    """It isn't the same again when it is pickled: a parameter that doesn't count."""

    @override
    def evaluate(self, *args: HostArray) -> tuple[HostArray, ...]:
        return (np.asarray(np.sin(args[0]), np.float32),)


LOCAL: Final = ["text", "files", "pickle", "compilation"]  # of classes that no registry knows


@pytest.mark.parametrize(
    ("primitive", "law", "difference"),
    [
        (WrongSlope(), "finite_differences", "the tangent of output 0"),
        (NonlinearSlope(), "jvp", "the tangents of a sum"),
        (WrongBatch(), "batch", "the outputs mapped over (0,)"),
        (WrongPrimal(), "jvp", "the outputs of the differentiated program"),
        (Unsteady(), "evaluation", "float32"),
    ],
)
def test_wrong_rules(primitive: Primitive, law: str, difference: str) -> None:
    def f(x: tj.Array) -> tj.Array:
        (y,) = extend.bind(primitive, tnp.exp(x))
        return tnp.exp(y) * x

    with pytest.raises(LawError) as caught:
        check_laws(tj.make_jaxpr(f)(0.3), [0.3], skip=LOCAL)
    error = caught.value
    assert error.law == law
    assert difference in error.difference
    assert isinstance(error.equation, ir.Eqn)
    assert error.equation.primitive == primitive
    assert isinstance(error, AssertionError)
    # The program that is shown ends there: exp and this one.
    assert isinstance(error.program, ir.ClosedJaxpr)
    assert [eqn.primitive.name for eqn in error.program.jaxpr.eqns] == ["exp", "wave"]
    assert "test_laws.py:" in str(error)
    assert "The first equation with which it does: c:f64[] = wave b\nat " in str(error)
    assert check_laws(single_equation(Wave(), (F64,)), skip=LOCAL).skipped == ()


# Passes and transformations that are wrong.


def with_another_output(program: ir.ClosedJaxpr) -> ir.ClosedJaxpr:
    jaxpr = program.jaxpr
    return ir.ClosedJaxpr(Jaxpr(jaxpr.invars, jaxpr.eqns, (jaxpr.invars[0], *jaxpr.outvars[1:])), program.consts)


def without_outputs(program: ir.ClosedJaxpr) -> ir.ClosedJaxpr:
    return ir.ClosedJaxpr(Jaxpr(program.jaxpr.invars, (), ()), program.consts)


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (with_another_output, "the outputs after dce: number 0 is 0.5, expected"),
        (without_outputs, "dce changes its type from (~f64[]) -> (~f64[]) to (~f64[]) -> ()"),
        (lambda program: ir.ClosedJaxpr(Jaxpr((), (), program.jaxpr.invars)), "is not valid"),
    ],
)
def test_wrong_passes(
    change: Callable[[ir.ClosedJaxpr], ir.ClosedJaxpr], difference: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PASSES, "dce", change)
    program = tj.make_jaxpr(lambda x: tnp.sin(x) * x)(0.5)
    with pytest.raises(LawError, match="the program breaks the law 'dce'") as caught:
        check_laws(program, [0.5])
    assert difference in caught.value.difference
    others = tuple(name for name in LAWS if name not in ("dce", "optimized_derivatives"))
    assert check_laws(program, [0.5], laws=others).checked == others


def test_programs_that_are_not_valid() -> None:
    x, y = (ir.Var(i, F64) for i in range(2))
    with pytest.raises(LawError, match="law 'typecheck'"):
        check_laws(Jaxpr((x,), (), (y,)))
