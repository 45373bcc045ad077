"""Programs of all of the library's primitives, and all that transformations make of them, are read back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.api.families import FUNCTIONS, TRANSFORMATIONS, Ours
from tests.control.loops import SCANS, WHILES
from tests.primitives.array_catalog import CASES, Case
from tests.primitives.catalog import ELEMENTWISE, Entry
from tests.strategies import programs
from tinyjax import Array, ir, lax
from tinyjax.contexts.staging import stage
from tinyjax.control.cond import Cond
from tinyjax.control.loops import While
from tinyjax.control.scan import Scan
from tinyjax.ir import Jaxpr, Literal, Primitive, ShapedArray, Var
from tinyjax.ir.dtypes import BOOL
from tinyjax.testing import check_laws

F32 = ShapedArray((3,), "float32")
SCALAR = ShapedArray((), "float64")
ALL_FUNCTIONS = {**FUNCTIONS, **SCANS, **WHILES}


def applying(primitive: Primitive, *avals: ShapedArray) -> Jaxpr:
    """The program that applies a primitive to its inputs."""
    return stage(avals, lambda ctx, ins: ctx.bind(primitive, *ins))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_primitives_on_arrays(case: Case) -> None:
    check_laws(applying(case.primitive, *case.avals), laws=["text"])


@pytest.mark.parametrize("entry", ELEMENTWISE, ids=lambda entry: entry.primitive.name)
def test_elementwise_primitives(entry: Entry) -> None:
    for dtype in entry.dtypes:
        check_laws(
            applying(entry.primitive, *[ShapedArray((2,), dtype) for dtype in entry.operands(dtype)]), laws=["text"]
        )


@pytest.mark.parametrize("name", ALL_FUNCTIONS)
def test_programs_of_functions(name: str) -> None:
    check_laws(tj.make_jaxpr(ALL_FUNCTIONS[name][0])(SCALAR), laws=["text"])


_PAIRS = [("grad", "vmap"), ("jit", "grad"), ("vmap", "jvp"), ("linearize", "jit")]


@pytest.mark.parametrize("name", ALL_FUNCTIONS)
@pytest.mark.parametrize("outer", _PAIRS, ids="-".join)
def test_transformed_programs(name: str, outer: tuple[str, str]) -> None:
    if name in WHILES and outer != ("vmap", "jvp"):
        pytest.skip("while has forward mode only")
    f: Ours = ALL_FUNCTIONS[name][0]
    for transformation in reversed(outer):
        f = TRANSFORMATIONS[transformation][0](f)
    check_laws(tj.make_jaxpr(f)(SCALAR), laws=["text"])


@tj.custom_jvp
def halved(x: Array, n: Array) -> Array:
    return tnp.sin(x) / n


halved.defjvp(lambda primals, tangents: (halved(*primals), tangents[0] * tnp.cos(primals[0]) + halved(*primals)))


@tj.custom_vjp
def clipped(x: Array) -> Array:
    return x * 2.0


clipped.defvjp(lambda x: (clipped(x), (x, 3.0)), lambda residuals, ct: (tnp.clip(ct, -1, residuals[1]),))


def _indexing(x: Array) -> Array:
    found = x.at[tnp.asarray([0, 2])].add(x[:2], mode="drop").at[1].multiply(3.0)
    return tnp.take_along_axis(found, tnp.argsort(x), axis=0) + tnp.take(x, 5, mode="fill", fill_value=float("nan"))


_LIBRARY: Final[dict[str, Callable[[Array], object]]] = {
    "custom_jvp": lambda x: halved(x, tnp.asarray(2.0)),
    "custom_jvp within scan": lambda x: lax.scan(lambda c, y: (halved(c, y), c), x[0], x)[1],
    "grad of custom_jvp": tj.grad(lambda x: tnp.sum(halved(x, tnp.asarray(2.0)))),
    "vmap of custom_jvp": tj.vmap(lambda x: halved(x, tnp.asarray(2.0))),
    "custom_vjp": clipped,
    "vmap of custom_vjp": tj.vmap(clipped),
    "linearized custom_vjp": lambda x: tj.linearize(clipped, x)[1](x),
    "checkpoint": tj.checkpoint(lambda x: tnp.sin(tnp.sin(x))),
    "grad of checkpoint": tj.grad(
        tj.checkpoint(
            lambda x: tnp.sum(tj.checkpoint_name(tnp.sin(x), "s") ** 3),
            policy=tj.checkpoint_policies.save_only_these_names("s", "two words"),
        )
    ),
    "dots": tj.checkpoint(lambda x: x @ x, policy=tj.checkpoint_policies.dots_with_no_batch_dims_saveable),
    "collectives": tj.vmap(lambda x: lax.psum(x, "i") * lax.axis_index("i"), axis_name="i"),
    "indexing": _indexing,
    "grad of indexing": tj.grad(lambda x: tnp.sum(_indexing(x) ** 2)),
    "casts": lambda x: (x.astype(tnp.bfloat16), tnp.round(x), x.astype(bool), 1j * x, x > 0.5),
    "windows": lambda x: (tnp.pad(x, 1), tnp.concatenate([x, x]), x[::-1], tnp.cumsum(x), tnp.sort(x)),
}


@pytest.mark.parametrize("name", _LIBRARY)
def test_programs_of_the_library(name: str) -> None:
    check_laws(tj.make_jaxpr(_LIBRARY[name])(F32), laws=["text"])


def test_named_axes() -> None:
    from tinyjax.primitives.collectives import PMax

    jaxpr = applying(PMax("rows"), F32)
    check_laws(jaxpr, laws=["text"])
    assert ir.parse(str(jaxpr)).effects == jaxpr.effects != frozenset()


def test_what_calls_python_cannot_be_read() -> None:
    program = tj.make_jaxpr(lambda x: tj.pure_callback(lambda y: y, F32, x))(F32)
    with pytest.raises(ir.ParseError, match="pure_callback calls a Python function, which text can't hold"):
        ir.parse(str(program))
    shown = tj.make_jaxpr(lambda x: tj.debug.print("{} [a=b]", x))(F32)
    with pytest.raises(ir.ParseError, match="debug_callback calls a Python function, which text can't hold"):
        ir.parse(str(shown))


@st.composite
def controlled(draw: st.DrawFn, depth: int = 2) -> Jaxpr:
    """Programs that apply random programs within control flow within control flow."""
    if depth == 0:
        return draw(programs(max_eqns=3, depth=1))
    inner = draw(controlled(depth - 1))
    kind = draw(st.sampled_from(["cond", "scan", "while"]))
    carry = inner.in_avals
    primitive: Primitive
    if kind == "cond":
        other = draw(st.sampled_from([inner, Jaxpr(inner.invars, (), tuple(map(_some, inner.out_avals)))]))
        if other.out_avals != inner.out_avals:
            other = inner
        primitive = Cond((inner, other, inner))
        return applying(primitive, ShapedArray((), "int32"), *carry)
    if kind == "scan":
        length = draw(st.integers(0, 3))
        stacked = [ShapedArray((length, *aval.shape), aval.dtype, aval.weak_type) for aval in carry]
        primitive = Scan(inner, length, draw(st.booleans()), 0, 0, draw(st.integers(1, 2)))
        return applying(primitive, *stacked)
    constants = len(carry)
    test = Jaxpr((Var(0, ShapedArray((), BOOL)),), (), (Var(0, ShapedArray((), BOOL)),))
    body = stage(
        [*carry, ShapedArray((), BOOL)],
        lambda ctx, ins: [ir.interpret(ctx, inner, ins[:-1]), ins[-1:]][-1],
    )
    primitive = While(test, 0, body, constants)
    return applying(primitive, *carry, ShapedArray((), BOOL))


def _some(aval: ShapedArray) -> Literal:
    return Literal.of(0.0) if aval.shape else Literal.of(1, aval.dtype)


@given(controlled())
@settings(max_examples=30, deadline=None)
def test_random_control_flow(jaxpr: Jaxpr) -> None:
    ir.typecheck(jaxpr)
    check_laws(jaxpr, laws=["text"])
