"""The branches of a cond are of one type: operands and results, each for itself."""

from __future__ import annotations

import re

import pytest

from tests.transforms.checks import F64, VECTOR
from tinyjax import ShapedArray
from tinyjax.control.cond import Cond
from tinyjax.errors import TypingError
from tinyjax.ir import Jaxpr, Literal, Var

INDEX = ShapedArray((), "int32")


def branch(takes: ShapedArray, returns: ShapedArray) -> Jaxpr:
    x = Var(0, takes)
    return Jaxpr((x,), (), (x,) if takes == returns else (Literal(1.0, returns),))


@pytest.mark.parametrize(
    ("takes", "returns"),
    [(F64, ShapedArray((), "float32")), (VECTOR, F64)],
)
@pytest.mark.parametrize("wrong", [1, 2])
def test_branches_of_other_types(takes: ShapedArray, returns: ShapedArray, wrong: int) -> None:
    """Only the results differ, or only the operands do."""
    good = branch(F64, F64)
    branches = [good, good, good]
    branches[wrong] = branch(takes, returns)
    said = f"branch 0 is {good.type} and branch {wrong} is {branches[wrong].type}"
    with pytest.raises(TypingError, match=re.escape(said)):
        Cond(tuple(branches)).type_of(INDEX, F64)
    assert Cond((good, good)).type_of(INDEX, F64) == (F64,)
