"""Functions that nobody thought of, transformed in orders that nobody chose: `examples/mini.py` against tinyjax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias  # Any: of either library

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.test_mini import MINI, TINYJAX, TRANSFORMATIONS, Function, Library, same_program

#: What a function computes, as data: a name, and what it is applied to.
Expression: TypeAlias = tuple[Any, ...]

LEAVES: Final = st.one_of(
    st.tuples(st.just("input"), st.integers(0, 5)),
    st.tuples(st.just("number"), st.sampled_from([np.float64(0.5), np.float64(2.0)])),
)


def larger(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    return st.one_of(
        st.tuples(st.sampled_from(["sin", "cos", "neg", "scale", "total"]), inner),
        st.tuples(st.sampled_from(["add", "mul"]), inner, inner),
        st.tuples(st.sampled_from(["call", "grad", "jvp"]), inner, inner),
        st.tuples(st.just("cond"), inner, inner, inner),
    )


EXPRESSIONS: Final = st.recursive(LEAVES, larger, max_leaves=8)


def run(lib: Library, expression: Expression, inputs: Sequence[Any]) -> Any:
    """The value. Functions within take one more input, and close over the others."""
    name, *parts = expression

    def inner(y: Any) -> Any:
        return run(lib, parts[0], [y, *inputs])

    def other(y: Any) -> Any:
        return run(lib, parts[1], [y, *inputs])

    match name:
        case "input":
            return inputs[parts[0] % len(inputs)]
        case "number":
            return parts[0]
        case "sin":
            return lib.sin(run(lib, parts[0], inputs))
        case "cos":
            return lib.cos(run(lib, parts[0], inputs))
        case "neg":
            return -lib.sin(run(lib, parts[0], inputs))
        case "scale":
            return lib.sin(run(lib, parts[0], inputs)) * 0.5
        case "total":
            return (run(lib, parts[0], inputs) * lib.points).sum()
        case "add" | "mul":
            x, y = (run(lib, part, inputs) for part in parts)
            return lib.sin(x) + y if name == "add" else lib.cos(x) * y
        case "call":
            return lib.jit(inner)(other(inputs[0]))
        case "grad":
            return lib.grad(lambda y: lib.sin(inner(y)))(inputs[0] * 1.0)
        case "jvp":
            return lib.jvp(lambda y: lib.sin(inner(y)), (inputs[0] * 1.0,), (inputs[-1] * 1.0,))[1]
        case _:
            return lib.cond(lib.sin(np.float64(2.0)) > 0.5, inner, other, run(lib, parts[2], inputs))


def transformed(lib: Library, expression: Expression, order: Sequence[str]) -> Function:
    def whole(x: Any) -> Any:
        return lib.sin(run(lib, expression, [x])) * x

    f: Function = whole
    for name in reversed(order):
        f = TRANSFORMATIONS[name](lib, f)
    return f


@given(EXPRESSIONS, st.lists(st.sampled_from(list(TRANSFORMATIONS)), max_size=3))
def test_the_same_program(expression: Expression, order: Sequence[str]) -> None:
    same_program(transformed(MINI, expression, order), transformed(TINYJAX, expression, order))
