"""Python branches on what all devices have, in the function of a `shard_map` whose arguments are known, as in JAX."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import numpy as np
import pytest

import tinyjax as tj
from tinyjax.errors import ConcretizationError

X = 1.0 + np.arange(8.0).reshape(4, 2)


def mesh_of(lib: ModuleType) -> Any:
    return lib.make_mesh((2, 2), ("x", "y"), (lib.sharding.AxisType.Auto,) * 2, devices=lib.devices("cpu")[:4])


def mapped(lib: ModuleType, f: Callable[[Any, Any], Any], *names: str, **options: Any) -> Callable[[Any], Any]:
    """Of a function that is also given the library, the arguments divided along these axes."""
    spec = lib.P(*names)
    found: Callable[[Any], Any] = lib.shard_map(
        lambda x: f(lib, x), mesh=mesh_of(lib), in_specs=spec, out_specs=spec, **options
    )
    return found


def of_argument(lib: ModuleType, x: Any) -> Any:
    return 2.0 * x if x.sum() > 3.0 else x


def of_sum(lib: ModuleType, x: Any) -> Any:
    total = lib.lax.psum(x.sum(), ("x", "y"))
    return -x if total > 100.0 else 3.0 * x


def of_steps(lib: ModuleType, x: Any) -> Any:
    while lib.lax.psum(x.sum(), ("x", "y")) < 100.0:
        x = 2.0 * x
    return x


def of_integers(lib: ModuleType, x: Any) -> Any:
    return x * int(lib.lax.psum(x.sum(), "x")) + [1.0, 2.0, 3.0][lib.lax.psum(1, "x")] + x.size


def of_outside(lib: ModuleType, x: Any) -> Any:
    return x if lib.numpy.ones(()) > 0.0 else -x


def of_item(lib: ModuleType, x: Any) -> Any:
    return x * lib.lax.psum(x.sum(), "x").item()


WORK: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (of_argument, ()),
    (of_sum, ("x", "y")),
    (of_steps, ("x", "y")),
    (of_integers, ("x",)),
    (of_outside, ("x",)),
    (of_item, ("x",)),
)


@pytest.mark.parametrize(("f", "names"), WORK)
def test_as_in_jax(f: Any, names: tuple[str, ...]) -> None:
    np.testing.assert_allclose(mapped(tj, f, *names)(X), mapped(jax, f, *names)(X))


@pytest.mark.sweep
@pytest.mark.parametrize(("f", "names"), [(of_argument, ()), (of_sum, ("x", "y")), (of_steps, ("x", "y"))])
def test_within_derivatives(f: Any, names: tuple[str, ...]) -> None:
    slope = (np.asarray(mapped(tj, f, *names)(X)) / X)[-1, -1]
    for lib in (tj, jax):
        gradient, tangent = (
            lib.grad(lambda x: mapped(lib, f, *names)(x).sum())(X),  # noqa: B023
            lib.jvp(mapped(lib, f, *names), (X,), (np.ones_like(X),))[1],
        )
        np.testing.assert_allclose(gradient, np.full_like(X, slope))
        np.testing.assert_allclose(tangent, np.full_like(X, slope))

    def inside(x: Any) -> Any:
        return tj.grad(lambda y: f(tj, y).sum())(x)

    np.testing.assert_allclose(
        tj.shard_map(inside, mesh=mesh_of(tj), in_specs=tj.P(*names), out_specs=tj.P(*names))(X),
        np.full_like(X, slope),
    )


def test_partly_manual() -> None:
    rows = tj.device_put(X, tj.NamedSharding(mesh_of(tj), tj.P("y")))
    np.testing.assert_array_equal(mapped(tj, of_argument, axis_names={"x"})(rows), 2.0 * X)


def of_part(lib: ModuleType, x: Any) -> Any:
    return x if x.sum() > 3.0 else -x


def of_place(lib: ModuleType, x: Any) -> Any:
    return x if lib.lax.axis_index("x") == 0 else -x


def refused(lib: ModuleType) -> list[Callable[[], Any]]:
    return [
        lambda: mapped(lib, of_part, "x")(X),
        lambda: mapped(lib, of_place, "x")(X),
        lambda: mapped(lib, of_part, check_vma=False)(X),
        lambda: lib.jit(mapped(lib, of_part))(X),
        lambda: lib.vmap(mapped(lib, of_part))(X[None]),
    ]


@pytest.mark.parametrize("i", range(5))
def test_what_differs_or_isnt_known(i: int) -> None:
    with pytest.raises(jax.errors.TracerBoolConversionError):
        refused(jax)[i]()
    with pytest.raises(ConcretizationError, match="decide a branch"):
        refused(tj)[i]()
