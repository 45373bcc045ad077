"""What passes make of functions with rules of their own, some of whose results nobody reads: nothing changes by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import lax, transforms
from tinyjax.testing import check_laws

Function = Callable[..., Any]
LAWS: Final = [
    *("typecheck", "text", "evaluation", "linearize", "transpose"),
    *("dce", "cse", "inline", "simplify", "hoist_constants", "optimize", "optimized_derivatives"),
]


def backward(
    scale: Any = None, *, fwd_again: bool = False, bwd_again: bool = False, constant: bool = False, lean: bool = False
) -> Function:
    """A function of two numbers with four results, one of which is an integer, and a custom_vjp rule that may apply the
    function, and close over a value that is being traced. If it is lean, it needs all that it keeps."""

    def results(x: Any, y: Any) -> tuple[Any, Any, Any, Any]:
        factor = 1.0 if scale is None else scale
        return tnp.sin(x) * y * factor, x * y, tnp.cos(y) + x, tnp.astype(x * 3.0, np.int32)

    f = tj.custom_vjp(results)

    def fwd(x: Any, y: Any) -> tuple[Any, Any]:
        outs = f(x, y) if fwd_again else results(x, y)
        return outs, (x, y, tnp.cos(x)) if lean else (x, y, tnp.cos(x), tnp.exp(x) * y)

    def bwd(residuals: Any, cts: Any) -> tuple[Any, Any]:
        x, y, cosine = residuals[:3]
        first, second, third, _ = cts
        product = f(x, y)[1] / x if bwd_again else y
        factor = 1.0 if scale is None else scale
        along_y = None if constant else first * tnp.sin(x) * factor + second * x - third * tnp.sin(y)
        return first * cosine * product * factor + second * y + third, along_y

    f.defvjp(fwd, bwd)
    return f


def forward(scale: Any = None, *, again: bool = False) -> Function:
    """Such a function of three results, with a custom_jvp rule."""

    def results(x: Any, y: Any) -> tuple[Any, Any, Any]:
        factor = 1.0 if scale is None else scale
        return tnp.sin(x) * y * factor, x * y, tnp.cos(y) + x

    f = tj.custom_jvp(results)

    def rule(primals: Any, tangents: Any) -> tuple[Any, Any]:
        (x, y), (tx, ty) = primals, tangents
        outs = f(x, y) if again else results(x, y)
        product = f(x, y)[1] / x if again else y
        factor = 1.0 if scale is None else scale
        return outs, (
            (tx * tnp.cos(x) * y + ty * tnp.sin(x)) * factor,
            tx * product + x * ty,
            tx - ty * tnp.sin(y),
        )

    f.defjvp(rule)
    return f


MAKERS: Final[dict[str, Callable[[Any], Function]]] = {
    "vjp": lambda scale: backward(),
    "vjp, captured": backward,
    "vjp, an argument without cotangent": lambda scale: backward(constant=True),
    "vjp, captured, an argument without cotangent": lambda scale: backward(scale, constant=True),
    "vjp, lean": lambda scale: backward(lean=True),
    "vjp, fwd applies it": lambda scale: backward(fwd_again=True),
    "vjp, bwd applies it": lambda scale: backward(bwd_again=True),
    "vjp, both apply it, captured": lambda scale: backward(scale, fwd_again=True, bwd_again=True),
    "jvp": lambda scale: forward(),
    "jvp, captured": forward,
    "jvp, the rule applies it": lambda scale: forward(again=True),
    "jvp, the rule applies it, captured": lambda scale: forward(scale, again=True),
}


@pytest.mark.parametrize("read", [(0,), (0, 2), (0, 1, 2), ()], ids=str)
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_laws(make: Callable[[Any], Function], read: tuple[int, ...]) -> None:
    def f(x: Any, y: Any, scale: Any) -> Any:
        outs = make(lax.stop_gradient(scale))(x, y)
        return [outs[i] for i in read], x * 2.0

    program = tj.make_jaxpr(f)(0.7, 1.3, 2.0)
    pruned = transforms.dce(program)
    for each in (program, pruned, transforms.optimize(program)):
        report = check_laws(
            each, [0.7, 1.3, 2.0], laws=["typecheck", "text", "evaluation", *LAWS, "linearize", "transpose"]
        )
        assert "dce" in report.checked
    before, after = (tj.make_jaxpr(gradient)(0.7, 1.3, 2.0) for gradient in map(total, (program, pruned)))
    for one, other in zip(values(before), values(after), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def total(program: tj.ClosedJaxpr) -> Function:
    """The gradient of the sum of a program's results, and that of the sum of the gradient."""

    def summed(x: Any, y: Any, scale: Any) -> Any:
        return sum(tj.eval_jaxpr(program.jaxpr, program.consts, x, y, scale))

    def twice(x: Any, y: Any, scale: Any) -> Any:
        return sum(tj.grad(summed, argnums=(0, 1))(x, y, scale))

    return lambda *args: (tj.grad(summed, argnums=(0, 1))(*args), tj.grad(twice, argnums=(0, 1))(*args))


def values(program: tj.ClosedJaxpr) -> list[Any]:
    return tj.eval_jaxpr(program.jaxpr, program.consts, 0.7, 1.3, 2.0)
