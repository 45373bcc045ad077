"""`optimize_remat` of `custom_vjp`: which of its two programs computes the results, everywhere and against jax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax.testing import check_laws

Function: TypeAlias = Callable[..., Any]
X: Final = np.array([0.5, 1.0, 2.0], "float32")


def told_apart(library: Any, xnp: Any, optimize: bool) -> Function:
    """A function whose forward rule computes something else, so that results say which of them ran."""

    f = library.custom_vjp(lambda x, y: xnp.tan(x) * y)
    f.defvjp(
        lambda x, y: (xnp.sin(x) * y, (xnp.cos(x) * y, xnp.sin(x))),
        lambda kept, ct: (kept[0] * ct, xnp.sum(kept[1] * ct)),
        optimize_remat=optimize,
    )
    return lambda x: xnp.sum(f(x, x[0] * 2.0) ** 2)


#: By transformations that both libraries have.
AROUND: Final[dict[str, Callable[[Any, Function], Function]]] = {
    "value": lambda lib, f: f,
    "jit": lambda lib, f: lib.jit(f),
    "value_and_grad": lambda lib, f: lib.value_and_grad(f),
    "jit of it": lambda lib, f: lib.jit(lib.value_and_grad(f)),
    "checkpoint": lambda lib, f: lib.value_and_grad(lib.checkpoint(f)),
    "jit of checkpoint": lambda lib, f: lib.jit(lib.value_and_grad(lib.checkpoint(f))),
    "vmap of checkpoint": lambda lib, f: lambda x: lib.vmap(lib.value_and_grad(lib.checkpoint(f)))(x[:, None]),
    "checkpoint of vmap": lambda lib, f: lib.value_and_grad(lib.checkpoint(lambda x: lib.vmap(f)(x[:, None]).sum())),
    "checkpoint of jit": lambda lib, f: lib.value_and_grad(lib.checkpoint(lib.jit(f))),
    "second order": lambda lib, f: lambda x: lib.jvp(lib.grad(lib.checkpoint(f)), (x,), (x,)),
}


@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.parametrize("name", AROUND)
def test_which_program_runs(name: str, optimize: bool) -> None:
    ours = AROUND[name](tj, told_apart(tj, tnp, optimize))(X)
    expected = AROUND[name](jax, told_apart(jax, jnp, optimize))(X)
    for x, y in zip(tj.tree.leaves(ours), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(x, y, rtol=3e-4, atol=1e-4)


def test_laws() -> None:
    f = told_apart(tj, tnp, optimize=False)
    kept = told_apart(tj, tnp, optimize=True)
    staged = tj.make_jaxpr(tj.value_and_grad(tj.checkpoint(kept)))(X)
    assert "forward_pass[" in str(staged)
    assert staged != tj.make_jaxpr(tj.value_and_grad(tj.checkpoint(f)))(X)
    (primitive,) = [eqn.primitive for eqn in tj.make_jaxpr(kept)(X).eqns if eqn.primitive.name == "custom_vjp"]
    assert "optimize_remat=True" in repr(primitive)


def test_it_keeps_its_laws() -> None:
    """Of one that means the same as the function, as it should."""

    @tj.custom_vjp
    def f(x: Any) -> Any:
        return tnp.sin(x)

    f.defvjp(lambda x: (tnp.sin(x), tnp.cos(x)), lambda kept, ct: (kept * ct,), optimize_remat=True)
    check_laws(tj.make_jaxpr(lambda x: tj.jvp(tj.checkpoint(lambda x: f(x) * x), (x,), (x,)))(X))
