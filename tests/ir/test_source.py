"""Where in the user's code an equation came from."""

from __future__ import annotations

import inspect
import io
import pickle
from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar, final

import numpy as np
import pytest
from attrs import evolve, frozen
from typing_extensions import override

import tinyjax as tj
from tests.ir.examples import F64
from tinyjax import transforms
from tinyjax.contexts.jvp import Dual, JvpContext
from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.errors import VerificationError
from tinyjax.ir import (
    BatchAxis,
    ConcreteValue,
    Context,
    Eqn,
    Jaxpr,
    Literal,
    Primitive,
    ShapedArray,
    SourceInfo,
    Var,
    Zero,
    interpret,
    load,
    save,
    subjaxprs,
    typecheck,
)
from tinyjax.ir.primitive import Outputs
from tinyjax.ir.program import Atom
from tinyjax.ir.source import SourceCursor, is_internal, user_frame, user_source
from tinyjax.primitives import elementwise
from tinyjax.primitives.elementwise import neg
from tinyjax.primitives.trigonometric import sin
from tinyjax.tracing.core import bind

V = TypeVar("V")


@final
class Passing(Context[Dual[Atom]]):
    """Passes everything on to its parent, as an interpreter of a user's would."""

    def __init__(self, parent: JvpContext[Atom]) -> None:
        self.parent = parent
        self.cursor = parent.cursor

    @override
    def bind(self, primitive: Primitive, *args: Dual[Atom]) -> tuple[Dual[Atom], ...]:
        return self.parent.bind(primitive, *args)

    @override
    def constant(self, value: ConcreteValue | Literal) -> Dual[Atom]:
        return self.parent.constant(value)

    @override
    def aval(self, value: Dual[Atom]) -> ShapedArray:
        return self.parent.aval(value)


def here() -> int:
    """The line of the caller."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def test_the_line_that_is_being_run() -> None:
    source, line = user_source(), here()
    assert source == SourceInfo(__file__, line, "test_the_line_that_is_being_run")
    assert str(source) == f"{__file__}:{line} (test_the_line_that_is_being_run)"


def test_the_frames_of_the_library_are_skipped() -> None:
    assert is_internal(elementwise.scale.__code__)
    assert not is_internal(here.__code__)
    frame = user_frame()
    assert frame is not None
    assert frame.f_code.co_name == "test_the_frames_of_the_library_are_skipped"


def test_equations_know_the_line_that_made_them() -> None:
    ctx = StagingContext()
    x = ctx.argument(F64)
    y, first = neg(ctx, x), here()
    z, second = neg(ctx, y), here()
    eqns = ctx.finish([z]).jaxpr.eqns
    assert [eqn.source and eqn.source.line for eqn in eqns] == [first, second]
    assert {eqn.source and eqn.source.file for eqn in eqns} == {__file__}


def test_a_cursor_decides_if_it_is_set() -> None:
    ctx = StagingContext()
    elsewhere = SourceInfo("model.py", 3, "f")
    ctx.cursor.source = elsewhere
    y = neg(ctx, ctx.argument(F64))
    (eqn,) = ctx.finish([y]).jaxpr.eqns
    assert isinstance(eqn, Eqn)
    assert eqn.source == elsewhere


def test_a_line_is_looked_up_once() -> None:
    cursor = SourceCursor()
    found = [cursor.current() for _ in range(3)]
    assert found[0] is found[1] is found[2]
    assert found[0] is not None
    assert found[0].function.startswith("test_a_line_is_looked_up_once")


# Transformations.

LINE = SourceInfo("model.py", 12, "loss")


def sources(jaxpr: Jaxpr) -> list[str]:
    """What the equations say of themselves, within this file."""
    return [str(eqn.source).replace(f"{__file__}:", "line ") for eqn in jaxpr.eqns]


def marks(jaxpr: Jaxpr) -> set[tuple[str, ...]]:
    """By which transformations the equations were made; they all come from the first line of `loss`."""
    found = {eqn.source for eqn in jaxpr.eqns}
    assert {source and (source.file, source.line) for source in found} == {(__file__, loss.__code__.co_firstlineno + 1)}
    return {source.transformations for source in found if source is not None}


def loss(x: Any) -> Any:
    return tj.numpy.sin(x) * x


def test_what_a_source_says() -> None:
    assert str(LINE) == LINE.location == "model.py:12 (loss)"
    made = LINE.through(("vmap",)).through(("jvp",))
    assert made == SourceInfo("model.py", 12, "loss", ("jvp", "vmap"))
    assert str(made) == "jvp of vmap of model.py:12 (loss)"
    assert made.location == LINE.location
    assert made != LINE


def test_functions_that_are_transformed() -> None:
    xs = np.ones(3)
    assert marks(tj.make_jaxpr(loss)(1.0).jaxpr) == {()}
    assert marks(tj.make_jaxpr(tj.vmap(loss))(xs).jaxpr) == {("vmap",)}
    jvp_of_vmap = tj.make_jaxpr(lambda x: tj.jvp(tj.vmap(loss), (x,), (x,)))(xs).jaxpr
    assert marks(jvp_of_vmap) == {("jvp", "vmap")}
    line = loss.__code__.co_firstlineno + 1
    assert set(sources(jvp_of_vmap)) == {f"jvp of vmap of line {line} (loss)"}
    assert marks(tj.make_jaxpr(tj.grad(loss))(1.0).jaxpr) == {("jvp",), ("transpose", "jvp")}
    assert marks(tj.make_jaxpr(tj.vmap(tj.grad(loss)))(xs).jaxpr) == {("vmap", "jvp"), ("vmap", "transpose", "jvp")}


def test_derivatives_of_derivatives() -> None:
    """What the inner derivative stages hasn't been through the outer one yet: it is, where it is run backwards."""
    assert marks(tj.make_jaxpr(tj.grad(tj.grad(loss)))(1.0).jaxpr) == {
        ("jvp", "jvp"),
        ("jvp", "transpose", "jvp"),
        ("transpose", "jvp", "transpose", "jvp"),
        ("transpose", "jvp", "jvp"),
    }


def test_programs_that_are_transformed() -> None:
    jaxpr = tj.make_jaxpr(loss)(1.0).jaxpr
    derived = transforms.jvp(jaxpr).jaxpr
    assert marks(derived) == {("jvp",)}
    assert marks(transforms.batch(derived, BatchAxis(3, None), (0, 0)).jaxpr) == {("vmap", "jvp")}
    parts = transforms.linearize(jaxpr)
    assert marks(parts.primal) == marks(parts.linear) == {("jvp",)}
    linear = [False] * len(parts.residuals) + [True]
    assert marks(transforms.transpose(parts.linear, linear).jaxpr) == {("transpose", "jvp")}
    assert marks(transforms.dce(derived)) == {("jvp",)}


def test_programs_within_programs() -> None:
    (call,) = tj.make_jaxpr(tj.vmap(tj.jit(loss)))(np.ones(3)).jaxpr.eqns
    (inner,) = subjaxprs(call.primitive)
    assert marks(inner) == {("vmap",)}
    assert call.source is not None
    assert (call.source.function, call.source.transformations) == ("test_programs_within_programs", ("vmap",))
    (_, backward) = tj.make_jaxpr(tj.grad(tj.checkpoint(loss)))(1.0).jaxpr.eqns
    (inner,) = subjaxprs(backward.primitive)
    assert marks(inner) == {("checkpoint", "jvp"), ("transpose", "jvp")}


def test_what_transformations_add_of_their_own() -> None:
    """Axes that are moved, tangents that are zero."""
    moved = tj.make_jaxpr(tj.vmap(lambda x: tj.numpy.stack([x, x]), out_axes=1))(np.ones(3)).jaxpr
    assert {eqn.source and eqn.source.transformations for eqn in moved.eqns} == {("vmap",)}
    zero = tj.make_jaxpr(lambda x: tj.jvp(lambda x: np.ones(3), (x,), (x,)))(1.0).jaxpr
    assert {eqn.source and eqn.source.transformations for eqn in zero.eqns} == {("jvp",)}
    jaxpr = tj.make_jaxpr(lambda x: 1.0)(np.ones(3)).jaxpr
    batched = transforms.batch(jaxpr, BatchAxis(3, None), (0,), (0,)).jaxpr
    assert {eqn.source and eqn.source.transformations for eqn in batched.eqns} == {("vmap",)}


def test_rules_in_python() -> None:
    @tj.custom_jvp
    def f(x: Any) -> Any:
        return tj.numpy.sin(x)

    @f.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        return f(*primals), tj.numpy.cos(primals[0]) * tangents[0]

    jaxpr = tj.make_jaxpr(tj.vmap(lambda x: tj.jvp(f, (x,), (x,))))(np.ones(3)).jaxpr
    assert {eqn.source and eqn.source.transformations for eqn in jaxpr.eqns} == {("vmap", "jvp")}
    assert {eqn.source and eqn.source.function.rpartition(".")[2] for eqn in jaxpr.eqns} == {"rule"}


@final
@frozen
class Twice(Primitive):
    """A primitive of a user's, with a rule in the user's file."""

    name: ClassVar[str] = "twice"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return avals

    @override
    def jvp(self, ctx: Context[V], primals: Sequence[V], tangents: Sequence[V | Zero]) -> Outputs[V]:
        (x,), (t,) = primals, tangents
        assert not isinstance(t, Zero)
        return ctx.bind(self, x), ctx.bind(self, t)


def test_rules_of_a_user_have_lines_of_their_own() -> None:
    def f(x: Any) -> Any:
        (y,) = bind(Twice(), tj.numpy.asarray(x))
        return tj.numpy.sin(y)

    jaxpr = tj.make_jaxpr(lambda x: tj.jvp(f, (x,), (x,)))(1.0).jaxpr
    where = [(eqn.primitive.name, eqn.source.function.rpartition(".")[2]) for eqn in jaxpr.eqns if eqn.source]
    assert where == [("twice", "jvp"), ("twice", "jvp"), ("sin", "f"), ("cos", "f"), ("mul", "f")]
    assert {eqn.source and eqn.source.transformations for eqn in jaxpr.eqns} == {("jvp",)}


def test_errors_leave_nothing_behind() -> None:
    def outer(x: Any) -> Any:
        with pytest.raises(TypeError):
            tj.jvp(lambda y: tj.numpy.sin(tj.numpy.matmul(y, np.ones((7, 2)))), (x,), (x,))
        return loss(x)

    assert marks(tj.make_jaxpr(outer)(np.ones(3)).jaxpr) == {()}


def test_interpreters_need_not_know() -> None:
    """A context that takes over its parent's cursor is attributed to its parents' transformations."""
    jaxpr = tj.make_jaxpr(loss)(1.0).jaxpr

    def run(ctx: StagingContext, ins: list[Atom]) -> list[Atom]:
        outer = JvpContext(ctx)
        (out,) = interpret(Passing(outer), jaxpr, [Dual(x, Zero(x.aval)) for x in ins])
        return [out.primal]

    assert marks(stage(jaxpr.in_avals, run)) == {("jvp",)}


def test_equal_programs_of_different_provenance_are_told_apart() -> None:
    jaxpr = tj.make_jaxpr(tj.numpy.sin)(1.0).jaxpr
    (eqn,) = jaxpr.eqns
    assert eqn.source is not None
    other = evolve(jaxpr, eqns=(evolve(eqn, source=eqn.source.through(("jvp",))),))
    assert jaxpr == other
    assert jaxpr.lines != other.lines
    first, second = transforms.jvp(jaxpr).jaxpr, transforms.jvp(other).jaxpr
    assert [e.source and e.source.transformations for e in first.eqns] == [("jvp",)] * 3
    assert [e.source and e.source.transformations for e in second.eqns] == [("jvp", "jvp")] * 3


def test_errors_name_the_line_and_what_was_done_to_it() -> None:
    x, y = Var(0, F64), Var(1, ShapedArray((2,), "float64"))
    eqn = Eqn(sin, (x,), (y,), LINE.through(("jvp", "vmap")))
    with pytest.raises(VerificationError, match=r"The equation comes from jvp of vmap of model\.py:12 \(loss\)\."):
        typecheck(Jaxpr((x,), (eqn,), (y,)))


def test_files_and_pickles_keep_it() -> None:
    jaxpr = transforms.jvp(tj.make_jaxpr(loss)(1.0).jaxpr).jaxpr
    save(file := io.BytesIO(), jaxpr)
    loaded = load(io.BytesIO(file.getvalue()))
    assert isinstance(loaded, Jaxpr)
    for other in (loaded, pickle.loads(pickle.dumps(jaxpr))):
        assert [eqn.source for eqn in other.eqns] == [eqn.source for eqn in jaxpr.eqns]
        assert marks(other) == {("jvp",)}
