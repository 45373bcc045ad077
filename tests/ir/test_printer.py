"""Printed programs: their layout, in golden files, and that nothing of them is lost."""

from __future__ import annotations

import base64
import pickle

import jax
import numpy as np
import pytest
from hypothesis import given, settings

from tests.golden import Golden
from tests.ir.examples import (
    F64,
    VEC,
    WEAK,
    Apply,
    Assorted,
    Choose,
    Custom,
    Emit,
    Flags,
    Mode,
    Rules,
    Window,
    affine,
    applied,
    array,
    bits,
    chain,
    double,
    nested,
    program,
    twice_each,
)
from tests.strategies import programs
from tinyjax.ir import (
    ClosedJaxpr,
    ConcreteValue,
    Eqn,
    Jaxpr,
    Literal,
    ShapedArray,
    Var,
    format_eqn,
    typecheck,
    variable_names,
)
from tinyjax.ir.printing.printer import variable_name
from tinyjax.primitives.elementwise import add, mul, neg
from tinyjax.primitives.structure import BroadcastInDim, ReduceSum, permute

_ARANGE = np.arange(33, dtype=np.int8)


def test_one_equation_shares_the_line_of_its_program() -> None:
    assert str(double()) == "{ lambda ; a:f64[]. let b:f64[] = mul 2.0 a in (b,) }"
    assert repr(double()) == str(double())


def test_each_of_several_equations_has_a_line() -> None:
    assert str(affine()) == (
        "{ lambda ; a:f64[3]. let\n"
        "    b:f64[3] = mul 2.0 a\n"
        "    c:f64[3] = add b 1.0\n"
        "  in (c,) }"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("jaxpr", "text"),
    [
        (Jaxpr((), (), ()), "{ lambda ; . let  in () }"),
        (Jaxpr((Var(0, VEC),), (), (Var(0, VEC),)), "{ lambda ; a:f64[3]. let  in (a,) }"),
        (Jaxpr((), (), (Literal.of(1), Literal.of(1))), "{ lambda ; . let  in (1, 1) }"),
        (program([F64, WEAK], lambda ctx, x, y: [y]), "{ lambda ; a:f64[] b:~f64[]. let  in (b,) }"),
        (program([F64], lambda ctx, x: ctx.bind(Emit(), x)), "{ lambda ; a:f64[]. let emit a in () }"),
        (program([F64], lambda ctx, x: [neg(ctx, x), x][1:]), "{ lambda ; a:f64[]. let _:f64[] = neg a in (a,) }"),
    ],
)
def test_small_programs(jaxpr: Jaxpr, text: str) -> None:
    typecheck(jaxpr)
    assert str(jaxpr) == text


def test_constants_are_bound_before_the_semicolon() -> None:
    jaxpr = program([VEC, VEC], lambda ctx, x, y: [mul(ctx, y, x)])
    const = array([1, 2, 3], np.dtype(np.float64))
    assert str(ClosedJaxpr(jaxpr, (const,))) == "{ lambda a:f64[3]; b:f64[3]. let c:f64[3] = mul b a in (c,) }"
    assert str(ClosedJaxpr(jaxpr, (const, const))) == "{ lambda a:f64[3] b:f64[3]; . let c:f64[3] = mul b a in (c,) }"
    assert repr(ClosedJaxpr(jaxpr)) == str(jaxpr)


def test_outputs_that_nothing_reads_take_no_name(golden: Golden) -> None:
    two = program([F64], lambda ctx, x: [x, neg(ctx, x)])
    jaxpr = program([F64], lambda ctx, x: [neg(ctx, ctx.bind(Apply("f", two), x)[1]), neg(ctx, x)][:1])
    golden("unused", str(jaxpr))


def test_programs_within_programs(golden: Golden) -> None:
    inner = program([F64], lambda ctx, x: ctx.bind(Apply("inner", double()), neg(ctx, x)))
    golden("nested", str(applied(inner, "outer")))


def test_programs_in_tuples_and_records(golden: Golden) -> None:
    rules = Rules(affine(), (double(), double()), symbolic=True)
    jaxpr = program(
        [F64, VEC], lambda ctx, x, v: [*ctx.bind(Choose((double(), applied(double()))), x), *ctx.bind(Custom(rules), v)]
    )
    golden("records", str(jaxpr))


def test_programs_that_occur_several_times_are_printed_once(golden: Golden) -> None:
    golden("shared", str(twice_each(2)))
    small = program([F64], lambda ctx, x: ctx.bind(Apply("g", double()), ctx.bind(Apply("f", double()), x)[0]))
    golden("small_shared", str(small))
    closed = ClosedJaxpr(twice_each(1), (array([1, 2, 3], np.dtype(np.float64)),))
    golden("shared_closed", str(closed))


def test_long_lines_are_filled(golden: Golden) -> None:
    many = [F64] * 30
    identity = program(many, lambda ctx, *xs: xs)
    golden("wide", str(applied(identity)))


def test_many_parameters_have_a_line_each(golden: Golden) -> None:
    long = Assorted(tuple(range(40)))
    jaxpr = program([F64], lambda ctx, x: ctx.bind(long, *ctx.bind(BroadcastInDim((2, 3), ()), x)))
    golden("parameters", str(jaxpr))


@pytest.mark.parametrize(
    ("parameter", "text"),
    [
        (None, "None"),
        (True, "True"),
        (-3, "-3"),
        (0.1, "0.1"),
        (-0.0, "-0.0"),
        (1e22, "1e+22"),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
        (bits(0x7FF8000000000001), "nan(0x7ff8000000000001)"),
        (1 + 2j, "(1+2j)"),
        (complex(-0.0, -0.0), "(-0-0j)"),
        ((), "()"),
        ((1,), "(1,)"),
        ((1, (2, None)), "(1, (2, None))"),
        (frozenset({"b", "a"}), "{a, b}"),
        ("relu", "relu"),
        ("<lambda>", "<lambda>"),
        ("two words", "'two words'"),
        ("", "''"),
        ("it's", '"it\'s"'),
        ("None", "'None'"),
        ("nan", "'nan'"),
        ("float32", "'float32'"),
        ("é", "'é'"),
        (b"\x00", "b'\\x00'"),
        (np.dtype(np.float32), "float32"),
        (np.dtype("bfloat16"), "bfloat16"),
        (np.dtype([("float0", np.void, 0)]), "float0"),
        (np.dtype(">f4"), "dtype('>f4')"),
        (Mode.FILL, "Mode.FILL"),
        (Flags.LEFT | Flags.RIGHT, "Flags.LEFT|RIGHT"),
        (Flags(0), "Flags(0)"),
        (Window((2, 3), note="no part of its value"), "Window(sizes=(2, 3), mode=Mode.CLIP)"),
        (ShapedArray((2,), np.float32, weak_type=True), "~f32[2]"),
        (Window, "type(tests.ir.examples.Window)"),
        (array([1, -0.0, np.nan], np.dtype(np.float32)), "array(f32[3], [1.0, -0.0, nan])"),
        (ConcreteValue.of(np.asarray([[True], [False]])), "array(bool[2,1], [True, False])"),
        (array([-np.nan], np.dtype(np.float64)), "array(f64[1], [nan(0xfff8000000000000)])"),
        (array([-np.nan], np.dtype(np.float32)), "array(f32[1], [nan(0xfff8000000000000)])"),
        (
            ConcreteValue.of(np.asarray([1 << 23], np.uint32).view(np.float32)),
            "array(f32[1], [1.1754944e-38])",
        ),
        (ConcreteValue.of(np.asarray([0x7F800001], np.uint32).view(np.float32)), 'array(f32[1], "AQCAfw==")'),
        (ConcreteValue.of(_ARANGE), f'array(i8[33], "{base64.b64encode(bytes(range(33))).decode()}")'),
        (array([], np.dtype(np.int8)), "array(i8[0], [])"),
    ],
)
def test_parameters(parameter: object, text: str) -> None:
    lines = str(Eqn(Assorted(parameter), (), ())).splitlines()
    assert "".join(line.strip() for line in lines) == f"assorted[parameter={text}]"


def test_parameters_that_cannot_be_told_apart_by_equality_are_printed_apart() -> None:
    texts = {str(Eqn(Assorted(value), (), ())) for value in (1, 1.0, True, 1 + 0j, "1", (1,), (1.0,), 0.0, -0.0, 0)}
    assert len(texts) == 10


def test_an_equation_by_itself() -> None:
    eqn = Eqn(mul, (Var(0, F64), Literal.of(2.0)), (Var(27, F64),))
    assert str(eqn) == "ab:f64[] = mul a 2.0"
    assert format_eqn(eqn, {0: "x", 27: "y"}) == "y:f64[] = mul x 2.0"
    assert str(Eqn(Emit("i"), (), ())) == "emit[axis=i]"


def test_an_equation_in_short(golden: Golden) -> None:
    eqn = Eqn(Apply("f", affine()), (Var(0, VEC),), (Var(1, VEC),))
    assert format_eqn(eqn, short=True) == "b:f64[3] = apply[label=f jaxpr={ ... }] a"
    constant = Eqn(Assorted(array([1, 2], np.dtype(np.int32))), (), ())
    assert format_eqn(constant, short=True) == "assorted[parameter=array(i32[2], ...)]"
    custom = Eqn(Custom(Rules(affine(), ())), (Var(0, VEC),), (Var(1, VEC),))
    assert "Rules(forward={ ... }, backward=(), symbolic=False)" in format_eqn(custom, short=True)
    golden("equation", f"{eqn}\n{twice_each(1).eqns[0]}\n{Eqn(Choose((affine(), affine())), (), ())}")


def test_names_skip_the_words_of_the_language() -> None:
    names = [variable_name(i) for i in range(26**3)]
    assert len(set(names)) == len(names)
    assert not {"in", "let", "nan", "inf", "lambda"} & set(names)
    assert names[:3] == ["a", "b", "c"]
    assert names[25:28] == ["z", "aa", "ab"]
    assert names[names.index("im") + 1] == "io"


def test_malformed_programs_are_printed_too() -> None:
    jaxpr = Jaxpr((Var(3, F64),), (Eqn(add, (Var(3, F64), Var(9, F64)), (Var(3, F64),)),), (Var(5, F64),))
    assert str(jaxpr) == "{ lambda ; a:f64[]. let a:f64[] = add a c in (b,) }"
    assert variable_names(jaxpr) == {3: "a", 5: "b", 9: "c"}


def test_deep_nesting_is_no_recursion() -> None:
    text = str(nested(1000))
    assert text.count("apply") == 1000
    assert text.count("{") == text.count("}") == 1001


def test_sharing_costs_no_more_than_its_definition() -> None:
    text = str(twice_each(200))
    assert text.count("\n") < 200 * 6


def test_long_programs() -> None:
    lines = str(chain(20_000)).splitlines()
    assert len(lines) == 20_002
    assert lines[-2].endswith(f"= add 2.0 {variable_name(19_999)}")


@given(programs(depth=2))
@settings(max_examples=30, deadline=None)
def test_equal_programs_have_equal_texts(jaxpr: Jaxpr) -> None:
    copy: Jaxpr = pickle.loads(pickle.dumps(jaxpr))
    assert copy is not jaxpr
    assert str(copy) == str(jaxpr)


@given(programs(depth=2), programs(depth=2))
@settings(max_examples=30, deadline=None)
def test_texts_are_equal_only_for_equal_programs(a: Jaxpr, b: Jaxpr) -> None:
    assert (str(a) == str(b)) == (a == b)


def test_weak_types_are_printed() -> None:
    jaxpr = program([WEAK], lambda ctx, x: [neg(ctx, x)])
    assert str(jaxpr) == "{ lambda ; a:~f64[]. let b:~f64[] = neg a in (b,) }"


def test_primitives_whose_fields_are_alike_are_told_apart() -> None:
    assert str(Eqn(ReduceSum((0,)), (), ())) != str(Eqn(ReduceSum((1,)), (), ()))
    assert str(Eqn(neg, (), ())) == "neg"


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (program([F64], lambda ctx, x: [neg(ctx, x)]), jax.make_jaxpr(jax.lax.neg)(1.0)),
        (
            program([ShapedArray((2, 3), np.float32)], lambda ctx, x: [permute(ctx, x, (1, 0))]),
            jax.make_jaxpr(lambda x: jax.lax.transpose(x, (1, 0)))(np.ones((2, 3), np.float32)),
        ),
        (program([F64, F64], lambda ctx, x, y: []), jax.make_jaxpr(lambda x, y: ())(1.0, 1.0)),
    ],
)
def test_programs_look_as_in_jax(ours: Jaxpr, theirs: object) -> None:
    assert str(ours) == str(theirs)


def test_pretty_print_is_the_text() -> None:
    printed = program([VEC], lambda ctx, x: [neg(ctx, x)])
    for shown in (printed, *printed.eqns):
        assert shown.pretty_print(use_color=False) == shown.pretty_print() == str(shown)
