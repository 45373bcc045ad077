"""Primitives: which parameters they take, and what they say when a rule is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, final

import attrs
import numpy as np
import pytest
from attrs import define, field, frozen
from attrs.exceptions import FrozenInstanceError

from tests.ir.examples import F64, Apply, Assorted, Mode, Rules, Window, affine, array, double
from tinyjax.contexts.evaluation import EvalContext
from tinyjax.errors import MissingRuleError, ParameterError
from tinyjax.ir import BatchAxis, ClosedJaxpr, ConcreteValue, Primitive, UndefPrimal, Zero
from tinyjax.primitives.structure import BroadcastInDim


@frozen
class Holder:
    """A record that may hold anything."""

    content: object
    note: object = field(default=None, eq=False)


@define
class Mutable:
    size: int = 0


@define(eq=False)
class Identical:
    """Compared by identity."""

    size: int = 0


@frozen(eq=False)
class FrozenIdentical:
    size: int = 0


@pytest.mark.parametrize(
    "parameter",
    [
        None,
        True,
        1,
        2.5,
        1j,
        "text",
        b"bytes",
        (),
        (1, (2, "x"), None),
        frozenset({1, 2}),
        np.dtype(np.float32),
        Mode.CLIP,
        Window((1,)),
        Holder(Holder((1, Mode.FILL))),
        Holder(1, note=[1]),
        F64,
        int,
        double(),
        (double(), affine()),
        Rules(double(), (affine(),)),
        ClosedJaxpr(affine(), (array([1, 2, 3], np.dtype(np.float64)),)),
        ConcreteValue.of(1.0),
        Assorted(1),
    ],
)
def test_values_are_accepted(parameter: object) -> None:
    primitive = Assorted(parameter)
    assert primitive.params["parameter"] is parameter
    assert primitive == Assorted(parameter)
    assert hash(primitive) == hash(Assorted(parameter))


@pytest.mark.parametrize(
    ("parameter", "kind"),
    [
        ([1], "list"),
        ({"a": 1}, "dict"),
        ({1}, "set"),
        (np.ones(2), "ndarray"),
        (np.float64(1.0), "float64"),
        (len, "builtin_function_or_method"),
        (lambda: None, "function"),
        (object(), "object"),
        ((1, [2]), "tuple"),
        (Mutable(), "Mutable"),
        (Identical(), "Identical"),
        (FrozenIdentical(), "FrozenIdentical"),
        (Holder([1]), "Holder"),
        (Holder(Holder(np.ones(2))), "Holder"),
        (Holder(test_values_are_accepted), "Holder"),
    ],
)
def test_anything_else_is_refused_and_the_field_named(parameter: object, kind: str) -> None:
    expected = rf"parameter 'parameter' of primitive 'assorted' is a {kind}: .*immutable, hashable values"
    with pytest.raises(ParameterError, match=expected):
        Assorted(parameter)
    with pytest.raises(TypeError):
        Assorted(parameter)


def test_primitives_are_values() -> None:
    assert BroadcastInDim((2, 3), (1,)) == BroadcastInDim((2, 3), (1,))
    assert BroadcastInDim((2, 3), (1,)) != BroadcastInDim((2, 3), (0,))
    assert Apply("f", double()) == Apply("f", double())
    assert Apply("f", double()) != Apply("f", affine())
    with pytest.raises(FrozenInstanceError):
        setattr(Assorted(1), "parameter", 2)  # noqa: B010
    assert attrs.evolve(Assorted(1), parameter=2) == Assorted(2)


def test_parameters_by_name() -> None:
    params = BroadcastInDim((2, 3), (1,)).params
    assert dict(params) == {"shape": (2, 3), "broadcast_dimensions": (1,)}
    assert list(params) == ["shape", "broadcast_dimensions"]
    assert not hasattr(params, "__setitem__")


@final
@frozen
class Bare(Primitive):
    """A primitive without any rule."""

    name: ClassVar[str] = "bare"


ONE = ConcreteValue.of(1.0)
AXIS = BatchAxis(2)


@pytest.mark.parametrize(
    ("use", "rule", "method"),
    [
        (lambda: Bare().type_of(F64), "Abstract evaluation", "type_of"),
        (lambda: Bare().evaluate(np.ones(())), "Evaluation rule", "evaluate"),
        (lambda: Bare().jvp(EvalContext(), [ONE], [ONE]), "Differentiation rule", "jvp"),
        (lambda: Bare().batch(EvalContext(), AXIS, [ONE], [0]), "Batching rule", "batch"),
        (
            lambda: Bare().transpose(EvalContext(), [ONE], [UndefPrimal(F64)]),
            "Transpose rule (for reverse-mode differentiation)",
            "transpose",
        ),
    ],
)
def test_a_missing_rule(use: Callable[[], object], rule: str, method: str) -> None:
    expected = f"{rule} for 'bare' not implemented. To add it, define the method `{method}` of Bare."
    with pytest.raises(MissingRuleError) as info:
        use()
    assert str(info.value) == expected
    assert isinstance(info.value, NotImplementedError)


def test_what_a_primitive_need_not_say() -> None:
    assert Bare().partial_eval((True,)) is None
    assert Bare().evaluate_with(EvalContext(), [ONE]) is None
    assert Bare().expand(EvalContext(), [ONE]) is None
    assert Bare().effects == frozenset()


def test_symbolic_values_are_values() -> None:
    assert Zero(F64) == Zero(F64)
    assert UndefPrimal(F64) == UndefPrimal(F64)
    assert BatchAxis(3, "i") != BatchAxis(3)


def test_a_primitive_is_printed_by_its_name() -> None:
    """As in JAX; `repr` has the parameters, too."""
    primitive = BroadcastInDim((2, 3), (1,))
    assert f"{primitive}" == "broadcast_in_dim"
    assert "shape=(2, 3)" in repr(primitive)
