"""Special functions and distributions are made of several primitives, which are one program from the second call on."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Final

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tests.prepared.test_functions import described
from tinyjax.prepared.runners import Kernel, Kernels
from tinyjax.prepared.table import TABLE
from tinyjax.scipy import special, stats

#: Compiled as a whole: what has loops in it; and what takes something else than arrays of one shape.
OTHERS: Final = {
    "exp1", "expn", "expi", "hyp1f1", "hyp2f1", "sici", "zeta", "logsumexp", "multigammaln", "bernoulli",
    "bessel_jn", "sph_harm_y", "mode", "rankdata", "sem",
    "dirichlet.logpdf", "dirichlet.pdf", "multinomial.logpmf", "multinomial.pmf", "multivariate_normal.logpdf",
    "multivariate_normal.pdf",
}  # fmt: skip


def _functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in dir(special):
        found: object = getattr(special, name)
        if inspect.isfunction(found) and not name.startswith("_"):
            yield name, found
    for each in pkgutil.iter_modules(stats.__path__):
        module = import_module(f"tinyjax.scipy.stats.{each.name}")
        for name, found in list(vars(module).items()):
            if inspect.isfunction(found) and found.__module__ == module.__name__ and not name.startswith("_"):
                yield name if each.name == "descriptive" else f"{each.name}.{name}", found


FUNCTIONS: Final = {
    name: found for name, found in _functions() if name not in OTHERS and not name.startswith("arguments.")
}
NUMBERS: Final = np.array([0.25, 0.75, 2.0, 0.5])


def arguments(function: Callable[..., Any]) -> int:
    """How many arrays it takes."""
    parameters = inspect.signature(function).parameters.values()
    return sum(parameter.default is inspect.Parameter.empty for parameter in parameters)


def arrays(function: Callable[..., Any], dtype: str, k: float) -> list[tj.Array]:
    return [tnp.asarray((NUMBERS * (k + i)).astype(dtype) + np.asarray(i, dtype)) for i in range(arguments(function))]


def steps_of(function: Callable[..., Any]) -> bool:
    """Whether a function has been met whose steps are the host's."""
    own = inspect.unwrap(function)
    return any(
        isinstance(entry.host, Kernel | Kernels) and inspect.isfunction(entry.kept[0])
        and inspect.unwrap(entry.kept[0]) is own for entry in TABLE.entries.values()
    )  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_later_calls_give_what_the_first_one_does(name: str, dtype: str) -> None:
    function = FUNCTIONS[name]
    given = [arrays(function, dtype, k) for k in (1.0, 2.0, 3.0)]
    cold = []
    for args in given:
        tj.clear_caches()
        cold.append(described(function(*args)))
    assert [described(function(*args)) for args in given] == cold
    assert steps_of(function)
    inside = str(tj.make_jaxpr(function)(*given[0]))
    tj.clear_caches()
    assert str(tj.make_jaxpr(function)(*given[0])) == inside


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name.startswith("norm.")])
def test_numbers_are_arguments_like_arrays(name: str) -> None:
    """Of each, whatever it is, there is one entry."""
    function = FUNCTIONS[name]
    x = tnp.asarray(np.array([0.25, 0.75], np.float32))
    tj.clear_caches()
    function(x, 0.0, scale=1.0)
    function(x, 0.0, scale=1.0)
    before = len(TABLE.entries)
    for loc in (0.125, 0.5, 0.75):
        found = function(x, loc, scale=2.0 + loc)
        tj.clear_caches()
        assert described(found) == described(function(x, loc, scale=2.0 + loc))
        function(x, 0.0, scale=1.0)
        function(x, 0.0, scale=1.0)
        assert len(TABLE.entries) == before
    assert described(function(0.25)) == described(function(0.25)) == described(function(tnp.asarray(0.25)))


@pytest.mark.parametrize("name", ["xlogy", "ndtri", "log_ndtr", "norm.logpdf", "truncnorm.cdf", "gamma.pdf"])
def test_on_a_device(name: str) -> None:
    function = FUNCTIONS[name]
    args = arrays(function, "float64", 0.5)
    expected = np.asarray(function(*args))
    for _ in range(3):
        found = function(*map(tj.device_put, args))
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("name", ["xlogy", "entr", "log_ndtr", "norm.logcdf", "norm.ppf", "spence"])
def test_derivatives_are_as_before(name: str) -> None:
    """Rules of one's own are left out where nobody differentiates, and only there."""
    function = FUNCTIONS[name]
    args = arrays(function, "float64", 0.5)

    def total(*args: tj.Array) -> Any:  # the function's own
        return function(*args).sum()

    tj.clear_caches()
    before = described(tj.grad(total)(*args))
    for _ in range(3):
        function(*args)
    for _ in range(3):
        assert described(tj.grad(total)(*args)) == before
    assert "custom_jvp" in str(tj.make_jaxpr(function)(*args))
