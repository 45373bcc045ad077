"""Reading programs: `parse(str(j)) == j`, what else the grammar allows, and what errors say."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from tests.golden import Golden
from tests.ir.examples import (
    F64,
    VEC,
    WEAK,
    Emit,
    affine,
    applied,
    array,
    chain,
    double,
    everything,
    nested,
    program,
    twice_each,
)
from tests.ir.parsing import EXAMPLES, refusal
from tests.strategies import programs
from tinyjax import ir
from tinyjax.errors import InputError
from tinyjax.ir import ClosedJaxpr, Eqn, Jaxpr, Literal, ParseError, Primitive, ShapedArray, Var
from tinyjax.ir.dtypes import FLOAT64
from tinyjax.primitives.elementwise import mul, neg
from tinyjax.testing import check_laws

_TESTS = Path(__file__).parent.parent


@pytest.mark.parametrize(
    "jaxpr",
    [
        Jaxpr((), (), ()),
        Jaxpr((Var(0, VEC),), (), (Var(0, VEC), Var(0, VEC))),
        Jaxpr((), (), (Literal.of(1), Literal.of(-0.0), Literal.of(True))),
        program([F64, WEAK], lambda ctx, x, y: [y]),
        program([F64], lambda ctx, x: ctx.bind(Emit(), x)),
        program([F64], lambda ctx, x: [*ctx.bind(Emit("i"), x), *ctx.bind(Emit()), neg(ctx, x), *ctx.bind(Emit(), x)]),
        program([F64], lambda ctx, x: [neg(ctx, x), x][1:]),
        double(),
        affine(),
        applied(applied(affine())),
        nested(6),
        twice_each(3),
        everything().jaxpr,
    ],
    ids=lambda jaxpr: f"{len(jaxpr.eqns)} equations",
)
def test_programs_are_read_back(jaxpr: Jaxpr) -> None:
    check_laws(jaxpr, laws=["text"], registry=EXAMPLES)


@given(programs(depth=2))
@settings(max_examples=40, deadline=None)
def test_random_programs_are_read_back(jaxpr: Jaxpr) -> None:
    check_laws(jaxpr, laws=["text"])


@given(programs(depth=1))
@settings(max_examples=10, deadline=None)
def test_layout_within_a_line_does_not_matter(jaxpr: Jaxpr) -> None:
    text = str(jaxpr).replace("'two words'", "h")
    expected = ir.parse(text)
    assert ir.parse(text.replace(" ", "  ")) == expected
    assert ir.parse("\n\n" + text.replace("\n", "\n\n") + "\n") == expected


def test_closed_programs_are_read_back_with_their_arrays() -> None:
    closed = everything()
    check_laws(closed, laws=["text"], registry=EXAMPLES)
    jaxpr = program([VEC, VEC, F64], lambda ctx, x, y, z: [mul(ctx, y, x)])
    const = array([1, -0.0, np.nan], FLOAT64)
    both = ClosedJaxpr(jaxpr, (const, const))
    check_laws(both, laws=["text"])
    assert ir.format_closed(both) == (
        "let @c0 = array(f64[3], [1.0, -0.0, nan]) in\n"
        "{ lambda a:f64[3]=@c0 b:f64[3]=@c0; c:f64[]. let d:f64[3] = mul b a in (d,) }"
    )
    inline = "{ lambda k:i8[2]=array(i8[2], [1, 2]); . let in (k,) }"
    assert np.array_equal(ir.parse_closed(inline).consts[0], [1, 2])


def test_a_program_without_constants_is_its_own_closed_form() -> None:
    closed = ClosedJaxpr(affine())
    assert ir.format_closed(closed) == str(closed) == str(affine())
    assert ir.parse_closed(str(closed)) == closed


def test_constants_without_their_arrays_are_inputs() -> None:
    closed = everything()
    assert ir.parse(str(closed), EXAMPLES) == closed.jaxpr
    with pytest.raises(InputError, match=r"needs constants of types \(f64\[3\]\), got \(\)"):
        ir.parse_closed(str(closed), EXAMPLES)
    with pytest.raises(InputError, match="no `consts` are needed"):
        ir.parse_closed(ir.format_closed(closed), EXAMPLES, consts=closed.consts)
    with pytest.raises(ParseError, match=r"ir\.parse_closed reads them"):
        ir.parse(ir.format_closed(closed), EXAMPLES)


def test_names_may_be_anything() -> None:
    text = """
    let unused = array(i8[1], [1]) in
    let twice = { lambda ; größe:f64[]. let y1:f64[] = add größe größe in (y1,) } in
    { lambda ; in_0:f64[] Array:f64[]. let
        emit_:f64[] = call[
            function_name=f
            jaxpr=twice]
          in_0
        _:f64[] = mul emit_
          emit_
        _:f64[] = neg Array; z:f64[]=neg emit_
      in (z,
          2.5) }
    """
    jaxpr = ir.parse(text)
    check_laws(jaxpr, laws=["text"])
    assert str(jaxpr) == (
        "{ lambda ; a:f64[] b:f64[]. let\n"
        "    c:f64[] = call[\n"
        "      function_name=f\n"
        "      jaxpr={ lambda ; a:f64[]. let b:f64[] = add a a in (b,) }\n"
        "    ] a\n"
        "    _:f64[] = mul c c\n"
        "    _:f64[] = neg b\n"
        "    d:f64[] = neg c\n"
        "  in (d, 2.5) }"
    )


def test_equations_without_results_begin_on_their_own_line() -> None:
    text = "{ lambda ; a:f64[] emit:f64[]. let\n    emit a emit\n    emit a\n      a\n  in (a,) }"
    jaxpr = ir.parse(text, EXAMPLES)
    a, emit = jaxpr.invars
    assert [eqn.invars for eqn in jaxpr.eqns] == [(a, emit), (a, a)]


def test_definitions_may_come_in_any_order_and_are_shared() -> None:
    text = (
        "let @f1 = { lambda ; a:f64[]. let b:f64[] = apply[label=x jaxpr=@f0] a in (b,) } in\n"
        "let @f0 = { lambda ; a:f64[]. let b:f64[] = neg a in (b,) } in\n"
        "{ lambda ; a:f64[]. let\n"
        "    b:f64[] = apply[label=x jaxpr=@f1] a\n"
        "    c:f64[] = apply[label=y jaxpr=@f1] b\n"
        "  in (c,) }"
    )
    jaxpr = ir.parse(text, EXAMPLES)
    first, second = (ir.subjaxprs(eqn.primitive)[0] for eqn in jaxpr.eqns)
    assert first is second
    assert ir.subjaxprs(first.eqns[0].primitive)[0] == program([F64], lambda ctx, x: [neg(ctx, x)])


def test_equations_know_their_lines() -> None:
    jaxpr = ir.parse(str(affine()), file="model.jaxpr")
    assert [(eqn.source.file, eqn.source.line) for eqn in jaxpr.eqns if eqn.source] == [
        ("model.jaxpr", 2),
        ("model.jaxpr", 3),
    ]
    assert all(eqn.source is None for eqn in ir.parse(str(affine())).eqns)


def test_deep_nesting_is_no_recursion() -> None:
    jaxpr = nested(1000)
    assert ir.parse(str(jaxpr), EXAMPLES) == jaxpr


def test_sharing_costs_no_more_than_its_definition() -> None:
    jaxpr = twice_each(200)
    assert ir.parse(str(jaxpr), EXAMPLES) == jaxpr


def test_long_programs() -> None:
    jaxpr = chain(5_000)
    assert ir.parse(str(jaxpr)) == jaxpr


def test_deeply_nested_tuples_are_no_recursion_for_the_reader() -> None:
    start = "{ lambda ; . let _:f64[] = neg[x=" + "(" * 5_000
    assert refusal(start + "$").problem == "expected ',' or ')', got the end of the text"
    assert refusal(start + ")" * 5_000 + "] in () }").problem == "parameters are nested too deeply"


def _first_line(text: str) -> str:
    return "{ lambda ; a:f32[3] b:f64[]. let " + text + " in (a,) }"


_BROKEN = {
    "nothing": "",
    "no program": "mul a b",
    "cut off": "{ lambda ; a:f32[3]. let b:f32[3] = mul a",
    "no lambda": "{ a:f32[3]. let in () }",
    "no semicolon": "{ lambda a:f32[3]. let in () }",
    "no let": "{ lambda ; a:f32[3]. in (a,) }",
    "untyped input": "{ lambda ; a. let in (a,) }",
    "unknown dtype": "{ lambda ; a:f33[3]. let in (a,) }",
    "more": "{ lambda ; . let in () } }",
    "untyped result": _first_line("c = neg a"),
    "no primitive": _first_line("c:f32[3] = 2.0"),
    "unknown primitive": _first_line("c:f32[3] = mull a a"),
    "unbound operand": _first_line("c:f32[3] = mul a x"),
    "read before": _first_line("c:f32[3] = mul a c"),
    "underscore": _first_line("_:f32[3] = neg a\n    c:f32[3] = neg _"),
    "bound twice": _first_line("a:f32[3] = neg a"),
    "unbound output": "{ lambda ; a:f32[3]. let in (b,) }",
    "literal array": _first_line("c:f32[3] = mul a 2.0:f32[3]"),
    "literal of another kind": _first_line("c:i32[] = add 2.5:i32[] 1:i32[]"),
    "literal too large": _first_line("c:i8[] = add 200:i8[] 1:i8[]"),
    "int too large": _first_line("c:~i64[] = neg 9223372036854775808"),
    "float too large": _first_line("c:f32[] = neg 1e39:f32[]"),
    "wrong result": _first_line("c:f32[4] = neg a"),
    "wrong weak type": _first_line("c:~f32[3] = neg a"),
    "wrong number of results": _first_line("c:f32[3] d:f32[3] = neg a"),
    "wrong operands": _first_line("c:f32[3] = mul a b"),
    "too few operands": _first_line("c:f32[3] = mul a"),
    "missing parameter": _first_line("c:f32[] = reduce_sum a"),
    "unknown parameter": _first_line("c:f32[3] = rev[dimensions=(0,) axis=1] a"),
    "unknown parameter of a reader": _first_line("c:f32[] = reduce_sum[axis=0] a"),
    "wrong parameter of a reader": _first_line("c:f32[] = reduce_sum[axes=0] a"),
    "parameter twice": _first_line("c:f32[3] = rev[dimensions=(0,) dimensions=(0,)] a"),
    "parameter of another type": _first_line("c:f32[3] = rev[dimensions=(0, x)] a"),
    "parameter out of range": _first_line("c:f32[3] = rev[dimensions=(5,)] a"),
    "no parameter": _first_line("c:f32[3] = rev[(0,)] a"),
    "no value": _first_line("c:f32[3] = rev[dimensions=] a"),
    "no comma": _first_line("c:f32[3] = rev[dimensions=(0 1)] a"),
    "unknown record": _first_line("c:f32[3] = assorted[parameter=Windows(sizes=(1,))] a"),
    "unknown field": _first_line("c:f32[3] = assorted[parameter=Window(size=(1,))] a"),
    "missing field": _first_line("c:f32[3] = assorted[parameter=Window()] a"),
    "unknown member": _first_line("c:f32[3] = assorted[parameter=Mode.DROP] a"),
    "no flags": _first_line("c:f32[3] = assorted[parameter=Mode.CLIP|FILL] a"),
    "no such value": _first_line("c:f32[3] = assorted[parameter=Mode(7)] a"),
    "unknown enumeration": _first_line("c:f32[3] = assorted[parameter=Modes.CLIP] a"),
    "unknown type": _first_line("c:f32[3] = assorted[parameter=type(os.system)] a"),
    "a function": _first_line("c:f32[3] = assorted[parameter=<function f at 0x7f0011223344>] a"),
    "junk": _first_line("c:f32[3] = assorted[parameter=$%&] a"),
    "an open string": _first_line("c:f32[3] = assorted[parameter='abc] a"),
    "a bad escape": _first_line(r"c:f32[3] = assorted[parameter='\q'] a"),
    "too few elements": _first_line("c:f32[3] = assorted[parameter=array(f32[2], [1.0])] a"),
    "too few bytes": _first_line('c:f32[3] = assorted[parameter=array(f32[2], "AAAA")] a'),
    "no base 64": _first_line('c:f32[3] = assorted[parameter=array(f32[2], "$$$")] a'),
    "an array of words": _first_line("c:f32[3] = assorted[parameter=array(f32[2], [a, b])] a"),
    "no array": _first_line("c:f32[3] = assorted[parameter=array(1, 2, 3)] a"),
    "no nan": _first_line("c:f32[3] = assorted[parameter=nan(0x1)] a"),
    "no dtype": _first_line("c:f32[3] = assorted[parameter=dtype('nonsense')] a"),
    "undefined": _first_line("c:f64[] = apply[label=f jaxpr=@f0] b"),
    "defined by itself": "let @f = { lambda ; a:f64[]. let b:f64[] = apply[label=f jaxpr=@f] a in (b,) } in\n"
    + _first_line("c:f64[] = apply[label=f jaxpr=@f] b"),
    "defined twice": "let @f = 1 in let @f = 2 in { lambda ; . let in () }",
    "definition without end": "let @f = { lambda ; . let in () }",
    "a wrong definition that nothing uses": "let @f = { lambda ; . let in (x,) } in { lambda ; . let in () }",
    "inner constants": _first_line("c:f64[] = apply[label=f jaxpr={ lambda a:f64[]; . let in (a,) }] b"),
    "not a program": _first_line("c:f64[] = call[function_name=f jaxpr=3] b"),
    "wrong inner type": _first_line("c:f64[] = call[function_name=f jaxpr={ lambda ; a:f64[2]. let in (a,) }] b"),
    "wrong array": "{ lambda a:f32[3]=array(i8[1], [1]); . let in (a,) }",
    "one array missing": "{ lambda a:i8[1]=array(i8[1], [1]) b:f32[]; . let in (a,) }",
    "a long line": _first_line(" ".join(f"x{i}:f32[3] = neg a;" for i in range(30)) + " y:f32[2] = neg a"),
}


def test_errors_show_the_place(golden: Golden) -> None:
    golden("parse_errors", "\n\n".join(f"# {name}\n{refusal(text)}" for name, text in _BROKEN.items()))


@pytest.mark.parametrize("name", sorted(_BROKEN))
def test_errors_are_data(name: str) -> None:
    error = refusal(_BROKEN[name])
    assert isinstance(error, ValueError)
    line = (_BROKEN[name].splitlines() or [""])[error.line - 1]
    shown, caret = error.shown.splitlines()
    if len(line) <= 100:
        assert shown == "    " + line
        assert caret.index("^") - 4 == error.column - 1 <= len(line)
    else:
        assert shown[caret.index("^") :][:5] == line[error.column - 1 :][:5]
    again: ParseError = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)


def test_errors_name_the_file() -> None:
    with pytest.raises(ParseError, match=r"^model\.jaxpr, line 1, column 1: expected a program"):
        ir.parse("x", file="model.jaxpr")


@given(programs(depth=1))
@settings(max_examples=10, deadline=None)
def test_a_text_that_ends_early_is_refused(jaxpr: Jaxpr) -> None:
    text = str(jaxpr)
    for end in range(0, len(text), max(1, len(text) // 12)):
        error = refusal(text[:end])
        assert error.line <= text[:end].count("\n") + 1


def test_a_primitive_without_a_typing_rule_is_no_error_of_the_text() -> None:
    class Nameless(Primitive):
        name = "nameless"

    text = str(Jaxpr((), (Eqn(Nameless(), (), ()),), ()))
    with pytest.raises(ParseError, match="Abstract evaluation for 'nameless' not implemented"):
        ir.parse(text, ir.STANDARD.extended(Nameless))


def _golden_programs() -> list[str]:
    """The programs that golden files and docs show."""
    found = []
    for path in sorted(_TESTS.rglob("golden/*.txt")):
        if path.name.startswith(("parse_", "typecheck")):
            continue
        block: list[str] = []
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith(("{ lambda", "let @")) or block:
                block.append(line)
            if block and line.endswith("}") and line.startswith(("{ lambda", "  in")):
                found.append("\n".join(block))
                block = []
    return found


def test_golden_programs_are_read_back() -> None:
    texts = _golden_programs()
    read = 0
    for text in texts:
        try:
            jaxpr = ir.parse(text, EXAMPLES)
        except ParseError as error:
            # Some show primitives that tests define, or callbacks.
            problem = error.problem
        else:
            problem = ""
            assert str(jaxpr) == text or "\n{ lambda a" in f"\n{text}"  # constants have become inputs
            read += 1
        assert not problem or any(word in problem for word in ("no primitive", "no class", "text can't hold")), text
    assert read > 40
    assert read > 0.8 * len(texts)


def test_weak_and_extended_types_of_inputs() -> None:
    avals = [ShapedArray((2,), "bfloat16"), ShapedArray((), "complex64", weak_type=True), ShapedArray((0, 3), "uint8")]
    check_laws(program(avals, lambda ctx, *xs: list(reversed(xs))), laws=["text"])
    check_laws(
        Jaxpr((), (Eqn(mul, (Literal.of(2.0), Literal.of(3.0)), (Var(0, WEAK),)),), (Var(0, WEAK),)), laws=["text"]
    )
