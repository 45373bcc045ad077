"""`out_sharding`: how results of functions lie on a mesh."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import NamedSharding, P, lax, random
from tinyjax.nn import initializers

MODULES = ["numpy", "lax", "random", "numpy.linalg", "nn.initializers"]
X = np.arange(32.0).reshape(8, 4)
KEY = random.key(7)
#: Calls of each function whose results have 8 rows.
CALLS: dict[str, tuple[Any, ...]] = {
    "numpy.arange": (8,),
    "numpy.array": (X,),
    "numpy.asarray": (X,),
    "numpy.bincount": (np.array([7, 1, 1]),),
    "numpy.broadcast_to": (X[0], (8, 4)),
    "numpy.dot": (X, X.T),
    "numpy.einsum": ("ij,kj->ik", X, X),
    "numpy.empty": ((8, 2),),
    "numpy.full": ((8, 2), 3.0),
    "numpy.full_like": (X, 3.0),
    "numpy.matmul": (X, X.T),
    "numpy.ones": ((8,),),
    "numpy.ones_like": (X,),
    "numpy.ravel": (X,),
    "numpy.repeat": (X[:4], 2, 0),
    "numpy.reshape": (X, (8, 2, 2)),
    "numpy.tensordot": (X, X.T, 1),
    "numpy.zeros": ((8,),),
    "numpy.zeros_like": (X,),
    "numpy.linalg.tensordot": (X.reshape(8, 2, 2), np.ones((2, 2))),
    "lax.broadcast": (X[0], (8,)),
    "lax.broadcast_in_dim": (X[0], (8, 4), (1,)),
    "lax.broadcasted_iota": ("int32", (8, 2), 0),
    "lax.conv_general_dilated": (X[:, None], X[:2, None], (1,), "SAME"),
    "lax.dot": (X, X.T),
    "lax.dot_general": (X, X, (((1,), (1,)), ((), ()))),
    "lax.full": ((8,), 2.0),
    "lax.full_like": (X, 2.0),
    "lax.ragged_dot": (X, np.ones((2, 4, 3)), np.array([3, 5], "int32")),
    "lax.reduce_max": (X, (1,)),
    "lax.reduce_min": (X, (1,)),
    "lax.reduce_sum": (X, (1,)),
    "lax.reshape": (X, (8, 2, 2)),
    "lax.rng_bit_generator": (np.arange(4, dtype="uint32"), (8,)),
    "random.multivariate_normal": (KEY, np.zeros(2), np.eye(2), (8,)),
    "random.orthogonal": (KEY, 2, (8,)),
    "random.permutation": (KEY, X),
    "random.categorical": (KEY, np.zeros((8, 3))),
    "random.dirichlet": (KEY, np.ones(2), (8,)),
    "random.ball": (KEY, 2, 2.0, (8,)),
    "random.randint": (KEY, (8,), 0, 10),
    "random.lognormal": (KEY, 1.0, (8,)),
    "nn.initializers.zeros": (KEY, (8,)),
    "nn.initializers.ones": (KEY, (8,)),
}
#: Samplers of one, two and three parameters.
_ONE = "bernoulli chisquare gamma generalized_normal geometric loggamma pareto poisson rayleigh t wald"
PARAMETERS = dict.fromkeys(_ONE.split(), 1)
PARAMETERS |= {"beta": 2, "f": 2, "truncated_normal": 2, "triangular": 3}


def word(function: Any) -> str | None:
    """What the function of JAX calls it."""
    try:
        found = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None
    return next((name for name in ("out_sharding", "sharding") if name in found), None)


def functions() -> list[str]:
    """The functions of JAX that have such an argument."""
    found: list[str] = []
    for module in MODULES:
        theirs, ours = import_module(f"jax.{module}"), import_module(f"tinyjax.{module}")
        found += [
            f"{module}.{name}"
            for name in dir(ours)
            if not isinstance(getattr(ours, name), type) and word(getattr(theirs, name, None)) is not None
        ]
    return found


#: Not those of which no result has a shape that a user chooses, or that take a program; nor that which has two results
#: of different lengths, which jax 0.11 has lie alike: here it has no such argument.
LEFT_OUT = {"numpy.percentile", "lax.reduce", "lax.empty", "lax.ragged_dot_general", "numpy.histogram"}


def arguments(name: str) -> tuple[Any, ...]:
    if name in CALLS:
        return CALLS[name]
    last = name.rpartition(".")[2]
    values = (0.2, 0.6, 0.4)[: PARAMETERS.get(last, 0)]
    return (KEY, *values, (8,))


def last_of(found: Any) -> tj.Array:
    result: tj.Array = found[-1] if isinstance(found, tuple) else found
    return result


@pytest.mark.sweep
@pytest.mark.parametrize("name", sorted({*functions()} - LEFT_OUT))
def test_results_lie_as_they_are_to(name: str) -> None:
    module, _, last = name.rpartition(".")
    function = getattr(import_module(f"tinyjax.{module}"), last)
    given = word(getattr(import_module(f"jax.{module}"), last))
    assert given is not None
    mesh = tj.make_mesh((8,), ("x",))
    rows = NamedSharding(mesh, P("x"))
    args = arguments(name)
    expected = last_of(function(*args))
    found = last_of(function(*args, **{given: rows}))
    assert found.sharding == rows.padded(found.ndim)
    # Samples are exponentials, which XLA rounds in another way for another number of them.
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=2.0**-40)
    with tj.set_mesh(mesh):
        again = last_of(function(*args, **{given: P("x")}))
        assert again.sharding == rows.padded(again.ndim)  # on a mesh of the same kinds of axes
        program = tj.make_jaxpr(lambda: function(*args, **{given: P("x")}))()
    assert any(eqn.primitive.name == "sharding_constraint" for eqn in program.jaxpr.eqns)


def test_a_specification_is_on_the_mesh_of_the_result() -> None:
    """As in JAX, whose types say on which mesh arrays lie."""
    mesh = tj.make_mesh((4, 2), ("x", "y"))
    x = tj.device_put(X, NamedSharding(mesh, P("x", "y")))
    found = tnp.dot(x, x.T, out_sharding=P("y"))
    assert found.sharding == NamedSharding(mesh, P("y", None))
    np.testing.assert_allclose(np.asarray(found), X @ X.T)


def test_the_kinds_of_axes_are_those_of_the_mesh_in_force() -> None:
    """Of arrays that lie nowhere yet, too, so that what is computed of the result is known to lie so."""
    mesh = tj.make_mesh((8,), ("x",))
    with tj.set_mesh(mesh):
        found = tnp.reshape(X, (8, 2, 2), out_sharding=P("x"))
        assert found.sharding == NamedSharding(mesh, P("x", None, None))
        assert tj.jit(lambda: found * 2.0)().sharding == found.sharding


def test_errors() -> None:
    mesh = tj.make_mesh((8,), ("x",))
    with pytest.raises(tj.errors.ShardingError, match="axis 0 of size 6 can't be divided equally by 8"):
        tnp.zeros(6, out_sharding=NamedSharding(mesh, P("x")))
    with pytest.raises(tj.errors.ShardingError, match="set_mesh"):
        lax.full((8,), 1.0, sharding=P("x"))
    wrong: Any = "x"
    with pytest.raises(tj.errors.InputError, match=r"a sharding is NamedSharding\(mesh, P\('x', None\)\), got 'x'"):
        tnp.zeros(8, out_sharding=wrong)


def test_initializers_and_derivatives() -> None:
    rows = NamedSharding(tj.make_mesh((8,), ("x",)), P("x"))
    assert initializers.zeros(None, (8,), out_sharding=rows).sharding == rows
    gradient = tj.grad(lambda w: tnp.matmul(X, w, out_sharding=rows).sum())(np.ones((4, 2)))
    theirs = jax.grad(lambda w: (X @ w).sum())(np.ones((4, 2)))
    np.testing.assert_allclose(np.asarray(gradient), theirs)
