"""`test_util`: right derivatives pass, in every mode and order, and wrong ones don't."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax.errors import DerivativeError, InputError
from tinyjax.test_util import check_grads, check_jvp, check_vjp


def model(params: Any, x: Any, n: Any) -> Any:
    return {"y": tnp.tanh(x @ params["w"] + params["b"]) ** 2, "n": n + 1}


@pytest.mark.parametrize("modes", ["fwd", "rev", ("fwd", "rev")])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_right_derivatives_pass(dtype: str, modes: Any) -> None:
    rng = np.random.default_rng(0)
    params = {"w": rng.normal(size=(3, 2)).astype(dtype), "b": np.ones(2, dtype)}
    x = rng.normal(size=(4, 3)).astype(dtype)
    tolerance = 1e-2 if dtype == "float32" else 1e-4
    check_grads(model, (params, x, 3), order=2, modes=modes, atol=tolerance, rtol=tolerance)


def wrong(factor: float) -> Any:
    f: Any = tj.custom_jvp(tnp.sin)
    f.defjvp(lambda primals, tangents: (f(*primals), factor * tnp.cos(primals[0]) * tangents[0]))
    return f


@pytest.mark.parametrize("modes", ["fwd", "rev"])
def test_wrong_derivatives_do_not(modes: str) -> None:
    check_grads(wrong(1.0), (0.5,), order=3, modes=modes)
    with pytest.raises(DerivativeError, match=r"(jvp|vjp) of .*the .*tangent.* is .*expected"):
        check_grads(wrong(1.01), (0.5,), order=1, modes=modes)
    check_grads(wrong(1.01), (0.5,), order=1, modes=modes, atol=0.1)
    check_grads(wrong(1.01), (0.5,), order=1, modes=modes, rtol={"float64": 0.1})
    # A rule that is right for the first derivative, but not for its own.
    f: Any = tj.custom_jvp(tnp.sin)
    f.defjvp(lambda primals, tangents: (f(*primals), tj.lax.stop_gradient(tnp.cos(primals[0])) * tangents[0]))
    check_grads(f, (0.5,), order=1, modes=modes)
    with pytest.raises(AssertionError, match=f"{'jvp' if modes == 'fwd' else 'vjp'} of"):
        check_grads(f, (0.5,), order=2, modes=modes)


def test_tolerances_by_dtype_are_those_of_what_is_compared() -> None:
    """Of float32 that of float32, also where products are added up in float64."""
    x = np.array([0.5, 1.0], "float32")
    wide: dict[Any, float] = {np.dtype("float32"): 0.1, np.dtype("float64"): 1e-12}
    check_grads(wrong(1.01), (x,), order=1, atol=wide, rtol=wide)
    narrow: dict[Any, float] = {"float32": 1e-4, "float64": 0.1}
    for modes in ("fwd", "rev"):
        with pytest.raises(DerivativeError, match=r"is .*expected"):
            check_grads(wrong(1.01), (x,), order=1, modes=modes, atol=narrow, rtol=narrow)
    complexes: dict[Any, float] = {"complex64": 0.1, "float64": 1e-12, "float32": 1e-12}
    check_grads(wrong(1.01), (x + np.complex64(0.5j),), order=1, atol=complexes, rtol=complexes)


def test_functions_given_by_hand() -> None:
    check_jvp(tnp.exp, partial(tj.jvp, tnp.exp), (np.array([1.0, 2.0]),), eps=1e-4)
    check_vjp(tnp.exp, partial(tj.vjp, tnp.exp), (np.array([1.0, 2.0]),))
    with pytest.raises(DerivativeError, match=r"mine: the primal at \[0\] is 1.0, expected 2.7"):
        check_jvp(tnp.exp, partial(tj.jvp, lambda x: x), (np.array([1.0, 2.0]),), err_msg="mine")
    with pytest.raises(DerivativeError, match="the primal is float32"):
        check_vjp(tnp.exp, partial(tj.vjp, lambda x: x.astype("float32")), (np.array([1.0, 2.0]),))
    with pytest.raises(InputError, match="modes"):
        check_grads(tnp.exp, (1.0,), 1, modes="reverse")


@pytest.mark.parametrize("x", [0.5, 0.5 + 0.25j])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numbers_of_python_take_the_dtype_of_others(x: complex, dtype: str) -> None:
    other = np.linspace(0.5, 1.5, 4, dtype=dtype)
    check_grads(lambda x, y: tnp.sin(x * y), (x, other), order=2, atol=1e-2, rtol=1e-2)
    check_grads(lambda x, y: tnp.sin(x * y), (tnp.asarray(x), other), order=1, atol=1e-2, rtol=1e-2)


def test_steps_do_not_reach_far() -> None:
    """The mantissa jumps at powers of two: these numbers are 0.003 and more from the next."""
    x = np.array([0.0241, -0.0432, 0.08, 0.1, 0.19, -0.3, 0.55, 0.9], "float32")
    check_grads(lambda x: tnp.frexp(x)[0], (x,), order=1)
