"""Objects that can be called may have anything for a name, as modules of Equinox within others do in `jit`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

import tinyjax as tj
from tinyjax import lax
from tinyjax import numpy as tnp
from tinyjax.custom_batching import custom_vmap
from tinyjax.experimental import checkify
from tinyjax.sharding import Mesh
from tinyjax.sharding import PartitionSpec as P


class Missing:
    """What stands for an attribute that isn't there."""


class Doubled:
    """Something to be called, whose attributes aren't what functions want theirs to be."""

    def __init__(self) -> None:
        for name in ("__name__", "__qualname__", "__annotations__", "__type_params__"):
            setattr(self, name, Missing)

    def __call__(self, x: Any) -> Any:
        return 2.0 * x


X = np.float64(3.0)
ROW = np.array([1.0, 2.0, 3.0])


def _by_rule(made: Any) -> Any:
    made.defjvp(lambda primals, tangents: (2.0 * primals[0], 2.0 * tangents[0]))
    return made


def _by_rules(made: Any) -> Any:
    made.defvjp(lambda x: (2.0 * x, None), lambda _, ct: (2.0 * ct,))
    return made


def _mapped(made: Any) -> Any:
    made.def_vmap(lambda size, batched, x: (2.0 * x, True))
    return made


CASES: dict[str, tuple[Callable[[Doubled], Any], object]] = {
    "jit": (lambda f: tj.jit(f)(X), 6.0),
    "vmap": (lambda f: tj.vmap(f)(ROW), 2.0 * ROW),
    "vmap in jit": (lambda f: tj.jit(lambda x: tj.vmap(f)(x + 0.0))(ROW), 2.0 * ROW),
    "grad": (lambda f: tj.grad(f)(X), 2.0),
    "value_and_grad": (lambda f: tj.value_and_grad(f)(X)[1], 2.0),
    "jacfwd": (lambda f: tj.jacfwd(f)(X), 2.0),
    "jacrev": (lambda f: tj.jacrev(f)(X), 2.0),
    "hessian": (lambda f: tj.hessian(f)(X), 0.0),
    "jvp": (lambda f: tj.jvp(f, (X,), (X,))[1], 6.0),
    "vjp": (lambda f: tj.vjp(f, X)[1](X)[0], 6.0),
    "linearize": (lambda f: tj.linearize(f, X)[1](X), 6.0),
    "checkpoint": (lambda f: tj.grad(tj.checkpoint(f))(X), 2.0),
    "custom_jvp": (lambda f: tj.grad(_by_rule(tj.custom_jvp(f)))(X), 2.0),
    "custom_vjp": (lambda f: tj.grad(_by_rules(tj.custom_vjp(f)))(X), 2.0),
    "custom_vmap": (lambda f: tj.vmap(_mapped(custom_vmap(f)))(ROW), 2.0 * ROW),
    "custom_gradient": (lambda f: tj.custom_gradient(_WithGradient())(X), 6.0),
    "named_call": (lambda f: tj.named_call(f)(X), 6.0),
    "vectorize": (lambda f: tnp.vectorize(f)(ROW), 2.0 * ROW),
    "frompyfunc": (lambda f: tnp.frompyfunc(f, 1, 1)(ROW), 2.0 * ROW),
    "pmap": (lambda f: tj.pmap(f)(ROW[:1]), 2.0 * ROW[:1]),
    "shard_map": (lambda f: tj.shard_map(f, mesh=Mesh((1,), "x"), in_specs=P("x"), out_specs=P("x"))(ROW), 2.0 * ROW),
    "checkify": (lambda f: checkify.checkify(f)(X)[1], 6.0),
    "composite": (lambda f: lax.composite(f, "test.doubled")(X), 6.0),
    "scan": (lambda f: lax.map(f, ROW), 2.0 * ROW),
    "while_loop": (lambda f: lax.while_loop(lambda x: x < 10.0, f, X), 12.0),
    "cond": (lambda f: tj.jit(lambda p: lax.cond(p, f, f, X))(True), 6.0),
}


class _WithGradient(Doubled):
    @override
    def __call__(self, x: Any) -> Any:
        return 2.0 * x, lambda ct: 2.0 * ct


@pytest.mark.parametrize("case", CASES)
def test_names_may_be_anything(case: str) -> None:
    apply, expected = CASES[case]
    np.testing.assert_allclose(np.asarray(apply(Doubled())), np.asarray(expected))


def test_their_class_is_their_name() -> None:
    with pytest.raises(TypeError, match="Doubled"):
        tj.jit(Doubled())(object())
