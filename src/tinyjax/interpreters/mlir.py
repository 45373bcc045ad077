"""How primitives that are defined by name are compiled, as JAX has it: `jax.interpreters.mlir`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from attrs import frozen

from tinyjax.errors import InputError, UnsupportedError
from tinyjax.extend.by_name import Primitive
from tinyjax.tracing.functions import check_callable

__all__ = ["LoweredFunction", "lower_fun", "register_lowering"]


@final
@frozen
class LoweredFunction:
    """What `lower_fun` returns: the function that a primitive is compiled as, and whether it has several results."""

    function: Callable[..., Any]
    multiple_results: bool


def lower_fun(fun: Callable[..., Any], multiple_results: bool = True) -> LoweredFunction:
    """A rule for `register_lowering`: the primitive is compiled as this function of its operands and parameters is.

    The function returns a list, or with `multiple_results=False` the one result.
    """
    check_callable("lower_fun", fun)
    return LoweredFunction(fun, multiple_results)


def register_lowering(primitive: Primitive, rule: LoweredFunction, platform: str | None = None) -> None:
    """Says how a primitive is compiled: by another function. For one platform only, if it is named: "cpu" or "cuda".

    Also for what runs outside of compiled programs, if the primitive has no `def_impl`.

    Raises:
      UnsupportedError: the rule isn't of `lower_fun`. Rules that make operations of MLIR are for JAX; here a rule that
        writes StableHLO belongs to a class, in `tinyjax.hlo.RULES`.
    """
    if not isinstance(rule, LoweredFunction):
        raise UnsupportedError(
            f"register_lowering: the rule of {primitive} makes operations of MLIR, which are JAX's. Say by "
            "`mlir.lower_fun(function)` what it computes; or write a class, and a rule of `tinyjax.hlo.RULES` for it, "
            "which emits StableHLO"
        )
    if type(primitive) is not Primitive:
        raise InputError(f"register_lowering is for what `Primitive(name)` has made, and {primitive!r} is a class's")
    primitive.lowerings["" if platform is None else platform] = rule.function


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
