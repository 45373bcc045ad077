"""Forward mode through custom_vjp functions fails where something reads the result, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.api.matching import assert_matches
from tinyjax.errors import ForwardModeError

X: Final = np.array([0.5, -1.0])
Function = Callable[..., Any]


def backward_only() -> Function:
    def rule(x: tj.Array, ct: tj.Array) -> tuple[tj.Array]:
        return (ct * tnp.cos(x),)

    f = tj.custom_vjp(tnp.sin)
    f.defvjp(lambda x: (tnp.sin(x), x), rule)
    return f


def within(place: str, lib: ModuleType, xp: ModuleType, f: Function, read: bool) -> Function:
    """A function that applies f, and reads the result or doesn't."""

    def plain(x: Any) -> Any:
        y = f(x)
        return 2.0 * (y if read else x)

    def carried(x: Any) -> Any:
        outs = lib.lax.scan(lambda c, _: ((plain(c[0]), f(c[1])), None), (x, x), None, length=2)
        return outs[0][0]

    places: dict[str, Function] = {
        "plain": plain,
        "jit": lib.jit(plain),
        "jit of pair": lambda x: lib.jit(lambda x: (f(x), plain(x)))(x)[1],
        "checkpoint": lib.checkpoint(plain),
        "scan": carried,
        "cond": lambda x: lib.lax.cond(x[0] > 0.0, plain, lambda x: 3.0 * x, x),
        "while": lambda x: lib.lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, plain(c[1])), (0, x))[1],
        "vmap": lambda x: lib.vmap(plain)(xp.stack([x, x])),
    }
    return places[place]


ROUTES: Final[dict[str, Callable[[ModuleType, Function], Any]]] = {
    "linearize": lambda lib, f: lib.linearize(f, X)[1](X),
    "jitted linearize": lambda lib, f: lib.jit(lambda x: lib.linearize(f, x)[1](x))(X),
    "jitted jvp": lambda lib, f: lib.jit(lambda x: lib.jvp(f, (x,), (x,)))(X),
    "mapped and jitted": lambda lib, f: lib.jit(lib.vmap(lambda t: lib.jvp(f, (X,), (t,))[1]))(np.stack([X, 2.0 * X])),
    "jvp": lambda lib, f: lib.jvp(f, (X,), (X,)),
}
PLACES: Final = ("plain", "jit", "jit of pair", "checkpoint", "scan", "cond", "while", "vmap")
#: Here jvp computes at once, or returns, what nobody reads later.
AT_ONCE: Final = ("plain", "vmap", "jit of pair", "scan")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("route", ROUTES)
def test_what_is_not_read(route: str, place: str) -> None:
    apply = ROUTES[route]
    ours = within(place, tj, tnp, backward_only(), read=False)
    if route == "jvp" and place in AT_ONCE:
        with pytest.raises(ForwardModeError, match="forward-mode"):
            apply(tj, ours)
    else:
        assert_matches(apply(tj, ours), apply(jax, within(place, jax, jnp, jnp.sin, read=False)))
    with pytest.raises(ForwardModeError, match="'sin' is for reverse mode"):
        apply(tj, within(place, tj, tnp, backward_only(), read=True))


def test_effects_are_not_repeated() -> None:
    seen: list[float] = []

    def f(x: tj.Array) -> tj.Array:
        tj.debug.callback(lambda x: seen.append(float(x[0])), x)
        backward_only()(x)
        return 2.0 * x

    with pytest.raises(ForwardModeError):
        tj.jvp(lambda x: tj.lax.cond(x[0] > 0.0, f, lambda x: x, x), (X,), (X,))
    assert seen == [0.5]
