"""What JAX refuses is refused here by an error of the same class, and what it lets pass is let pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj


class Holder:
    @staticmethod
    def method(x: Any) -> Any:
        return x


def of_generator(m: Any) -> Any:
    def numbers(x: Any) -> Any:
        yield x

    return m.jit(numbers)


#: What raises an error of the class, with these words, in both libraries `m`.
REFUSED: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {  # Any: two libraries
    "a tree as in_axes": (
        lambda m: m.vmap(lambda x: x["a"], in_axes={"a": 0}),
        TypeError,
        "must be an int, None, or a",
    ),
    "a generator": (of_generator, TypeError, "generator"),
    "a static method": (lambda m: m.jit(Holder.__dict__["method"]), TypeError, "staticmethod"),
    "an array as a float": (lambda m: float(m.numpy.ones(1)), TypeError, "(?i)only scalar arrays can be converted"),
    "an array as an int": (lambda m: int(m.numpy.ones((1, 1))), TypeError, "(?i)only scalar arrays can be converted"),
    "how a traced value lies": (lambda m: m.jit(lambda x: x.sharding)(1.0), AttributeError, "typeof"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    f, error, words = REFUSED[case]
    for m in (jax, tj):
        with pytest.raises(error, match=words):
            f(m)


def test_what_is_traced_has_no_sharding() -> None:
    for m in (jax, tj):
        seen: list[Any] = []
        typed: Any = m.jit(lambda x, seen=seen: seen.append((hasattr(x, "sharding"), getattr(x, "sharding", None))))
        typed(1.0)
        assert seen == [(False, None)]


def test_numbers_stay_numbers() -> None:
    for m in (jax, tj):
        found = m.device_get((m.numpy.ones(2), 2, 1.5, None, np.float32(3)))
        assert [type(each) for each in found] == [np.ndarray, int, float, type(None), np.ndarray]


def test_arguments_are_static_as_both_options_say() -> None:
    for m, tracer in ((jax, jax.core.Tracer), (tj, tj.tracing.core.Tracer)):
        seen: list[tuple[bool, bool]] = []

        def recording(seen: Any = seen, tracer: Any = tracer) -> Callable[..., int]:
            def f(x: Any, y: Any) -> int:
                seen.append((isinstance(x, tracer), isinstance(y, tracer)))
                return 1

            return f

        by_position = m.jit(recording(), static_argnums=1, static_argnames=())
        by_position(2, "foo")
        by_position(1, y=2)
        by_name = m.jit(recording(), static_argnums=(), static_argnames="y")
        by_name(2, 3)
        by_name(1, y="foo")
        mixed = m.jit(recording(), static_argnums=(1,), static_argnames="x")
        mixed(2, "foo")
        mixed(1, y=3)
        mixed(x="foo", y=3)
        traced = {"by position": seen[:2], "by name": seen[2:4], "mixed": seen[4:]}
        assert traced == {
            "by position": [(True, False), (True, True)],
            "by name": [(True, True), (True, False)],
            "mixed": [(True, False), (True, True), (False, True)],
        }


def test_opaque_residuals() -> None:
    for m in (jax, tj):
        _, pull = m.vjp(lambda x, y, m=m: x * m.numpy.sin(y), np.float64(2.0), np.float64(3.0))
        np.testing.assert_allclose(sorted(map(float, pull.opaque_residuals)), sorted([np.sin(3.0), np.cos(3.0)]))
        assert (str(pull.in_tree), str(pull.out_tree)) == ("PyTreeDef((*, *))", "PyTreeDef(*)")
        assert len(pull.jaxpr.eqns) >= 3
        assert len(pull.jaxpr.outvars) == 1
