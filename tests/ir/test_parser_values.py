"""Parameters, literals and types are read back to the bit."""

from __future__ import annotations

import enum
import os
import subprocess
import sys
from collections.abc import Iterable
from typing import ClassVar, final

import ml_dtypes
import numpy as np
import pytest
from attrs import field, frozen
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import override

from tests.ir.examples import (
    F64,
    VEC,
    Assorted,
    Flags,
    Mode,
    Rules,
    Window,
    affine,
    applied,
    array,
    bits,
    double,
    nested,
)
from tests.ir.parsing import EXAMPLES, refusal
from tests.strategies import avals, dtypes, literals, scalars
from tinyjax import ir
from tinyjax.ir import ConcreteValue, DType, Eqn, Jaxpr, Literal, Primitive, ShapedArray, Var
from tinyjax.ir.dtypes import COMPLEX64, COMPLEX128, FLOAT0, FLOAT32, FLOAT64, SUPPORTED
from tinyjax.ir.literals import python_scalar
from tinyjax.primitives.elementwise import add
from tinyjax.testing import check_laws

BFLOAT16: DType = np.dtype(ml_dtypes.bfloat16)


def holding(parameter: object) -> Jaxpr:
    """A program with this parameter."""
    return Jaxpr((Var(0, F64),), (Eqn(Assorted(parameter), (Var(0, F64),), (Var(1, F64),)),), (Var(1, F64),))


def read_back(parameter: object) -> object:
    """The parameter after printing and reading."""
    check_laws(holding(parameter), laws=["text"], registry=EXAMPLES)
    (eqn,) = ir.parse(str(holding(parameter)), EXAMPLES).eqns
    assert isinstance(eqn.primitive, Assorted)
    return eqn.primitive.parameter


@pytest.mark.parametrize(
    "parameter",
    [
        None, True, -3, 0, 2**80, -(2**64), 0.1, -0.0, 1e300, 5e-324, float("inf"), float("-inf"),
        bits(0x7FF8000000000000), bits(0xFFF8000000000001), bits(0x7FF0000000000001),
        1j, -2j, complex(-0.0, -1), complex(float("nan"), -0.0), complex(bits(0xFFF8000000000001), float("-inf")),
        "", "x", "in", "let", "lambda", "array", "type", "nan", "nanj", "inf", "None", "float32", "<lambda>", "<a b>",
        "two words", "it's", '"', "\n\t\\", "é", "\U0001f600", "\udc80", "f32[3]", "@c0", "a=b", "Mode.CLIP", "-", "{",
        b"", b"\x00'\"y",
        (), (1,), ((), ((),)), (1, (2.0, "x")), frozenset(), frozenset({"b", "a"}), frozenset({frozenset(), (1,)}),
        Mode.CLIP, Flags.LEFT, Flags.LEFT | Flags.RIGHT, Flags(0), Window((2, 3), Mode.FILL), (Window(()),),
        int, str, type(None), float, np.float32, np.bool_, ml_dtypes.bfloat16, Mode, Window,
        *sorted(SUPPORTED, key=str), FLOAT0, np.dtype("S3"), np.dtype(">f4"), np.dtype("M8[ns]"),
        np.dtype([("a", "<f4"), ("b", "<i4")]), np.dtype(ml_dtypes.float8_e4m3fn),
        VEC, ShapedArray((), FLOAT32, weak_type=True), ShapedArray((0, 10), FLOAT0),
        ShapedArray((2,), ml_dtypes.float8_e4m3fn),
        array([0.5, -0.0, np.nan], FLOAT32), array([[1, 2], [3, 4]], np.dtype("i8")), ConcreteValue.of(1.0),
        ConcreteValue.of(np.zeros((0, 3))), ConcreteValue.of(np.arange(50)), array([0.1, 3.3895e38, np.inf], BFLOAT16),
        array([True, False], np.dtype(bool)), array([1e-40 + 1j * np.nan], COMPLEX64), array([1 - 0j], COMPLEX128),
        ConcreteValue.of(np.asarray([0x7F800001], np.uint32).view(np.float32)),
        ConcreteValue.of(np.arange(5).astype(ml_dtypes.float8_e4m3fn)),
        double(), (double(), "f", nested(2)), frozenset({double()}), frozenset({affine(), applied(affine())}),
        Rules(affine(), (double(), affine()), symbolic=True), Rules(double(), ()), add,
    ],
    # The order in which a set is shown differs between processes, which must agree on the names of tests.
    ids=lambda value: "set" if isinstance(value, frozenset) else ascii(str(value)[:30]).strip("'"),
)  # fmt: skip
def test_parameters_of_every_type(parameter: object) -> None:
    found = read_back(parameter)
    assert type(found) is type(parameter)


@st.composite
def arrays(draw: st.DrawFn) -> ConcreteValue:
    """Arrays with few elements or many."""
    aval = draw(avals(dtypes))
    elements = draw(st.lists(scalars(aval.dtype), min_size=aval.size, max_size=aval.size))
    return ConcreteValue(np.asarray(elements, aval.dtype).reshape(aval.shape), aval)


def _floats() -> st.SearchStrategy[float]:
    return st.integers(0, 2**64 - 1).map(bits)


parameters: st.SearchStrategy[object] = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), _floats(), st.complex_numbers(), st.text(max_size=5),
        st.binary(max_size=5), st.sampled_from(list(Mode)), st.sampled_from(list(Flags)), dtypes, avals(dtypes),
        arrays(), st.builds(complex, _floats(), _floats()), st.just(double()), st.just(affine()),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(tuple),
        st.frozensets(st.text(max_size=3) | st.integers(), max_size=3),
        st.builds(Window, st.lists(st.integers(), max_size=2).map(tuple), st.sampled_from(list(Mode))),
    ),
    max_leaves=5,
)  # fmt: skip


@pytest.mark.sweep
@given(parameters)
@settings(max_examples=150, deadline=None)
def test_random_parameters(parameter: object) -> None:
    check_laws(holding(parameter), laws=["text"], registry=EXAMPLES)


@given(dtypes.flatmap(literals))
@settings(max_examples=100, deadline=None)
def test_literals_of_every_dtype(literal: Literal) -> None:
    check_laws(Jaxpr((), (), (literal,)), laws=["text"])


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
@settings(max_examples=50, deadline=None)
def test_literals_to_the_bit(first: int, second: int) -> None:
    for weak in (False, True):
        real = Literal(bits(first), ShapedArray((), FLOAT64, weak))
        both = Literal(complex(bits(first), bits(second)), ShapedArray((), COMPLEX128, weak))
        check_laws(Jaxpr((), (), (real, both)), laws=["text"])


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BFLOAT16], ids=str)
def test_every_short_float(dtype: DType) -> None:
    patterns = np.arange(0, 2**16, 61, dtype=np.uint16).view(dtype)
    found = [Literal(python_scalar(x, dtype), ShapedArray((), dtype)) for x in patterns if float(x) == float(x)]
    assert ir.parse(str(Jaxpr((), (), tuple(found)))).outvars == tuple(found)


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("1:f32[]", Literal.of(1.0, FLOAT32)),  # how JAX spells a bfloat16
        ("1:c64[]", Literal.of(1.0 + 0j, COMPLEX64)),
        ("0.1:f32[]", Literal.of(0.1, FLOAT32)),
        ("0.10000000149011612:f32[]", Literal.of(0.1, FLOAT32)),
        (".5", Literal.of(0.5)),
        ("1.", Literal.of(1.0)),
        ("1e3", Literal.of(1000.0)),
        ("-nan", Literal.of(bits(0xFFF8000000000000))),
        ("True:bool[]", Literal.of(True)),
        ("18446744073709551615:u64[]", Literal.of(2**64 - 1, np.dtype(np.uint64))),
    ],
)
def test_other_spellings_of_literals(text: str, literal: Literal) -> None:
    assert ir.parse(f"{{ lambda ; . let in ({text},) }}").outvars == (literal,)


def _whole(sizes: Iterable[int]) -> tuple[int, ...]:
    return tuple(sizes)


class Shade(enum.IntEnum):
    LIGHT = 1
    DARK = 2


@final
@frozen
class Paint(Primitive):
    """A user's primitive: fields with defaults, converters, private names and names of their own for `__init__`."""

    color: str
    shade: Shade = Shade.DARK
    _layers: tuple[int, ...] = field(default=(), converter=_whole)
    thickness: float = field(default=1.0, alias="how_thick")
    note: str = field(default="", eq=False)
    under: Jaxpr | None = None
    name: ClassVar[str] = "paint-all"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return avals


def test_primitives_of_a_user() -> None:
    registry = ir.STANDARD.extended(Paint, Shade)
    for paint in (Paint("red"), Paint("dark red", Shade.LIGHT, (1, 2), how_thick=2.5), Paint("r", under=affine())):
        check_laws(
            Jaxpr((Var(0, F64),), (Eqn(paint, (Var(0, F64),), (Var(1, F64),)),), (Var(1, F64),)),
            laws=["text"],
            registry=registry,
        )
    assert "no primitive 'paint-all'" in refusal("{ lambda ; . let paint-all[color=r] in () }").problem
    text = "{ lambda ; . let paint-all[color=red] in () }"
    assert ir.parse(text, registry).eqns[0].primitive == Paint("red")
    assert "must be str, got 3" in refusal("{ lambda ; . let paint-all[color=3] in () }", registry).problem
    text = "{ lambda ; . let paint-all[color=r shade=Shade.MEDIUM] in () }"
    assert "no member MEDIUM" in refusal(text, registry).problem


def test_nothing_is_run() -> None:
    for value in ("type(os.system)", "os.system('true')", "__import__('os')", "eval('1')", "(lambda: 1)()"):
        error = refusal(f"{{ lambda ; . let assorted[parameter={value}] in () }}")
        assert "registry" in error.problem or "expected" in error.problem or "can't be read" in error.problem


@pytest.mark.sweep
def test_sets_of_programs_print_alike_in_every_process() -> None:
    """Their order is not that of hashes, which differ from one process to the next; nor are the names of programs."""
    code = (
        "from tests.ir.test_parser_values import *\n"
        "program = holding(frozenset({affine(), applied(affine()), double(), applied(double()), nested(2)}))\n"
        "print(program, ir.content_hash(program))"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in "012"
    }
    assert len(texts) == 1
