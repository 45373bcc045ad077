"""Arguments of the wrong kind, of every function of `transforms`: accepted, or a clear error."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import ir, transforms
from tinyjax.errors import InputError, TinyjaxError
from tinyjax.ir import BatchAxis, Jaxpr
from tinyjax.primitives.checks import FailedCheck

X = np.ones(3)
PROGRAM = tj.make_jaxpr(lambda x: tj.jit(tnp.sin)(x) * 2.0)(X)
LINEAR = tj.make_jaxpr(lambda x: 2.0 * x)(X)
SIN = type(PROGRAM.eqns[0].primitive)

#: Arguments that are right, of all of them.
RIGHT: dict[str, dict[str, Any]] = {
    "batch": {"jaxpr": PROGRAM, "axis": BatchAxis(2), "in_axes": [0], "out_axes": [0]},
    "checkify": {"program": PROGRAM, "kinds": [FailedCheck]},
    "count_primitives": {"program": PROGRAM},
    "cse": {"program": PROGRAM},
    "dce": {"program": PROGRAM},
    "fold_constants": {"program": PROGRAM, "max_size": 3},
    "hoist_constants": {"program": PROGRAM},
    "inline": {"program": PROGRAM, "where": lambda eqn: True},
    "jvp": {"jaxpr": PROGRAM, "nonzero": [True], "force": [True]},
    "linearize": {"jaxpr": PROGRAM, "nonzero": [True]},
    "once_or_small": {"program": PROGRAM, "size": 4},
    "optimize": {"program": PROGRAM},
    "partial_eval": {"jaxpr": PROGRAM, "unknown": [True], "force_unknown": [True]},
    "prune": {"jaxpr": PROGRAM, "used_outputs": [True], "keep_inputs": [True]},
    "reroll": {"program": PROGRAM, "at_least": 2, "bordered": True},
    "repeats": {"program": PROGRAM, "at_least": 2, "bordered": True},
    "rewrite": {"program": PROGRAM, "rules": []},
    "simplify": {"program": PROGRAM, "fast_math": True},
    "transpose": {"jaxpr": LINEAR, "linear": [True], "nonzero": [True], "force": True, "check": True},
    "unroll": {"program": PROGRAM, "factor": 2},
    "variables": {"names": "x y"},
}
WRONG: list[Any] = [
    *(3, 2.5, "x", b"x", None, True, int, object(), {}, {"a": 1}, {True}, BatchAxis(3), lambda: 0),
    *([True], (True,), [0], [1, 2], ["a"], [[True]], [None], [2.0], np.array([True]), np.array([[0]]), iter([True])),
]


def public() -> list[str]:
    return [name for name in dir(transforms) if inspect.isfunction(getattr(transforms, name)) and name != "pattern"]


@pytest.mark.parametrize("name", public())
def test_wrong_arguments(name: str) -> None:
    function = getattr(transforms, name)
    right = RIGHT[name]
    assert {*inspect.signature(function).parameters} == {*right}
    expected = function(**right)
    for parameter, value in right.items():
        for wrong in WRONG:
            if parameter == "where" and callable(wrong):
                continue  # whose errors are the user's
            with suppress(TinyjaxError):
                function(**{**right, parameter: wrong})
        for same in (tuple(value), np.array(value)) if isinstance(value, list) and value else ():
            assert function(**{**right, parameter: same}) == expected


MESSAGES: dict[str, tuple[Callable[[], object], str]] = {
    "axis": (
        lambda: transforms.batch(PROGRAM, wrong([True]), [0]),
        r"axis is a BatchAxis, such as `tinyjax.ir.BatchAxis\(3\)",
    ),
    "size": (lambda: transforms.batch(PROGRAM, BatchAxis(-1), [0]), "is a number of elements, not -1"),
    "name": (lambda: transforms.batch(PROGRAM, BatchAxis(2, wrong([1])), [0]), "is a string, or None, not"),
    "in_axes": (
        lambda: transforms.batch(PROGRAM, BatchAxis(2), wrong(0)),
        "a tuple or list with an entry for each of the 1",
    ),
    "bool": (lambda: transforms.batch(PROGRAM, BatchAxis(2), [True]), r"in_axes\[0\] is True; write the number"),
    "float": (
        lambda: transforms.batch(PROGRAM, BatchAxis(2), wrong([0.0])),
        r"the number of an axis, or None, not 0\.0",
    ),
    "marks": (lambda: transforms.jvp(PROGRAM, wrong([1])), r"jvp: nonzero\[0\] is True or False, not 1"),
    "flag": (lambda: transforms.transpose(LINEAR, [True], force=wrong([1])), r"force is True or False, not \[1\]"),
    "where": (lambda: transforms.inline(PROGRAM, wrong(3)), "inline: where is a function, not 3"),
    "rules": (lambda: transforms.rewrite(PROGRAM, wrong([3])), "a tuple or list of `tinyjax.transforms.Rewrite`"),
    "passes": (lambda: transforms.Pipeline(wrong(3)), "takes a tuple or list of passes, not 3"),
    "pass": (lambda: transforms.Pipeline(wrong([("a", 3)])), "maybe in a pair with a name, got"),
    "three": (lambda: transforms.Pipeline(wrong([("a", transforms.dce, 3)])), "maybe in a pair with a name, got"),
    "no program": (
        lambda: transforms.Pipeline([wrong(lambda jaxpr: 3)])(PROGRAM),
        "must return a Jaxpr, but returned a int, 3",
    ),
    "no function": (lambda: transforms.Pass("p", wrong(3))(PROGRAM), "the pass 'p' is a function, not 3"),
    "report": (lambda: transforms.OPTIMIZATION.report(wrong(3)), "takes a program"),
    "primitive": (lambda: transforms.pattern(wrong(3)), "pattern takes the class of a primitive"),
    "class": (lambda: transforms.pattern(wrong(int)), "pattern takes the class of a primitive"),
    "operand": (lambda: transforms.pattern(SIN, wrong("x")), "a pattern, a variable or a number, not 'x'"),
}


def wrong(value: object) -> Any:
    """A value of a type that mypy would refuse."""
    return value


@pytest.mark.parametrize("name", MESSAGES)
def test_messages(name: str) -> None:
    call, message = MESSAGES[name]
    with pytest.raises(InputError, match=message):
        call()


def test_which_names_are_listed() -> None:
    """Those that there are, unless there are too many of them to help."""

    def message(program: Jaxpr | tj.ClosedJaxpr) -> str:
        with pytest.raises(InputError) as caught:
            transforms.jvp(program, [])
        return str(caught.value)

    two = tj.make_jaxpr(lambda x, y: x * y)(1.0, 2.0)
    assert message(two).endswith("but the program has 2 inputs (x, y)")
    unnamed = ir.parse(str(two.jaxpr))
    assert message(unnamed).endswith("but the program has 2 inputs")
    many = tj.make_jaxpr(lambda *xs: xs)(*[1.0] * 20)
    assert message(many).endswith("but the program has 20 inputs")


def test_numpy_bools_are_bools() -> None:
    found = transforms.jvp(PROGRAM, wrong([np.bool_(True)]))
    assert found.nonzero_in == (True,)
    assert type(found.nonzero_in[0]) is bool
    assert isinstance(transforms.jvp(PROGRAM.jaxpr, wrong(np.array([True]))).jaxpr, Jaxpr)
