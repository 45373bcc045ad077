"""What programs are made of, under JAX's names: `jax.extend.core`.

`Primitive(name)` defines a primitive by functions. Programs hold classes of `tinyjax.extend.Primitive`, of which one is
made for it; to `isinstance` they are all primitives.
"""

from __future__ import annotations

from collections.abc import Callable

from tinyjax.api.make_jaxpr import eval_jaxpr
from tinyjax.errors import InputError
from tinyjax.extend.by_name import Primitive
from tinyjax.ir.program import ClosedJaxpr, Jaxpr, Literal, Var
from tinyjax.ir.program import Eqn as JaxprEqn
from tinyjax.tracebacks import filtered
from tinyjax.tracing.array import Array, ArrayLike

__all__ = ["ClosedJaxpr", "Jaxpr", "JaxprEqn", "Literal", "Primitive", "Var", "jaxpr_as_fun"]


@filtered
def jaxpr_as_fun(closed_jaxpr: ClosedJaxpr) -> Callable[..., list[Array]]:
    """The program as a function of its inputs, whose results are a list.

    >>> import tinyjax as tj
    >>> from tinyjax.extend.core import jaxpr_as_fun
    >>> program = tj.make_jaxpr(lambda x: (x + 1.0, x * 2.0))(0.0)
    >>> [float(y) for y in jaxpr_as_fun(program)(3.0)]
    [4.0, 6.0]
    """

    if not isinstance(closed_jaxpr, ClosedJaxpr):
        raise InputError(
            f"jaxpr_as_fun: closed_jaxpr is a ClosedJaxpr, as make_jaxpr(f)(*args) gives, got {closed_jaxpr!r}"
        )

    def function(*args: ArrayLike) -> list[Array]:
        return eval_jaxpr(closed_jaxpr.jaxpr, closed_jaxpr.consts, *args)

    return filtered(function)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
