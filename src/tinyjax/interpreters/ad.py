"""Derivatives of primitives that are defined by name, as JAX has them: `jax.interpreters.ad`."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, Final

import tinyjax.numpy as tnp
from tinyjax.errors import InputError
from tinyjax.extend.by_name import Primitive, Rule, Rules
from tinyjax.ir.primitive import UndefPrimal as UndefinedPrimal
from tinyjax.ir.primitive import Zero
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import as_array

__all__ = [
    "UndefinedPrimal",
    "Zero",
    "add_tangents",
    "defbilinear",
    "defjvp",
    "defjvp2",
    "deflinear",
    "deflinear2",
    "instantiate_zeros",
    "is_undefined_primal",
    "primitive_jvps",
    "primitive_transposes",
]

#: `rule(primals, tangents, **params)` returns the result and its tangent, or a list of each. A tangent may be `Zero`.
primitive_jvps: Final = Rules("jvp")
#: `rule(cotangent, *operands, **params)`, with UndefinedPrimal for the operands that it is linear in, returns a list of
#: cotangents, None for the other operands.
primitive_transposes: Final = Rules("transpose")


def defjvp(primitive: Primitive, *rules: Rule | None) -> None:
    """Says what each operand contributes to the tangent: `rule(tangent, *primals, **params)`, None for nothing.

    >>> import numpy as np
    >>> import tinyjax as tj
    >>> import tinyjax.numpy as tnp
    >>> sine_p = Primitive("sine")
    >>> _ = sine_p.def_impl(np.sin)
    >>> _ = sine_p.def_abstract_eval(lambda x: tj.ShapedArray(x.shape, x.dtype))
    >>> defjvp(sine_p, lambda t, x: t * tnp.cos(x))
    >>> tj.grad(tj.grad(sine_p.bind))(0.5).round(6)
    Array(-0.479426, dtype=float64, weak_type=True)
    """
    defjvp2(primitive, *(None if rule is None else _without_result(rule) for rule in rules))


def _without_result(rule: Rule) -> Rule:
    return lambda tangent, result, *primals, **params: rule(tangent, *primals, **params)


def defjvp2(primitive: Primitive, *rules: Rule | None) -> None:
    """The same for rules that get the result, too: `rule(tangent, result, *primals, **params)`."""
    if primitive.multiple_results:
        raise InputError(f"defjvp is for one result; set `primitive_jvps[{primitive}]`")

    def jvp(
        primals: tuple[Array, ...], tangents: tuple[Array | Zero, ...], **params: Any
    ) -> tuple[Array, Array | Zero]:
        result = primitive.bind(*primals, **params)
        parts = [
            rule(tangent, result, *primals, **params)
            for rule, tangent in zip(rules, tangents, strict=True)
            if rule is not None and not isinstance(tangent, Zero)
        ]
        return result, reduce(add_tangents, parts, Zero(as_array(result).aval.tangent))

    primitive_jvps[primitive] = jvp


def deflinear2(primitive: Primitive, transpose_rule: Callable[..., list[Any]]) -> None:
    """Says that it is linear in all operands together, and its transpose: `rule(cotangent, *operands, **params)`."""

    def jvp(primals: tuple[Array, ...], tangents: tuple[Array | Zero, ...], **params: Any) -> tuple[Any, Any]:
        given = map(instantiate_zeros, tangents)
        return primitive.bind(*primals, **params), primitive.bind(*given, **params)

    primitive_jvps[primitive] = jvp
    primitive_transposes[primitive] = transpose_rule


def deflinear(primitive: Primitive, transpose_rule: Callable[..., list[Any]]) -> None:
    """The same for a rule that gets the cotangent only: `rule(cotangent, **params)`."""
    deflinear2(primitive, lambda cotangent, *operands, **params: transpose_rule(cotangent, **params))


def defbilinear(primitive: Primitive, lhs_rule: Callable[..., Any], rhs_rule: Callable[..., Any]) -> None:
    """Says that it is linear in each of two operands: `lhs_rule(cotangent, x, y, **params)` is the cotangent of x, for
    an x that is UndefinedPrimal, and `rhs_rule` that of y."""
    defjvp(
        primitive,
        lambda tangent, x, y, **params: primitive.bind(tangent, y, **params),
        lambda tangent, x, y, **params: primitive.bind(x, tangent, **params),
    )

    def transpose(cotangent: Any, x: Any, y: Any, **params: Any) -> list[Any]:
        if is_undefined_primal(x):
            return [lhs_rule(cotangent, x, y, **params), None]
        return [None, rhs_rule(cotangent, x, y, **params)]

    primitive_transposes[primitive] = transpose


def is_undefined_primal(x: object) -> bool:
    """Whether a rule of transposition gets this for an operand that the primitive is linear in."""
    return isinstance(x, UndefinedPrimal)


def instantiate_zeros(tangent: Any) -> Any:  # whatever a rule gets
    """An array of zeros in the place of `Zero`; anything else as it is."""
    return tnp.zeros(tangent.aval.shape, tangent.aval.dtype) if isinstance(tangent, Zero) else tangent


def add_tangents(x: Any, y: Any) -> Any:
    """The sum of two tangents, either of which may be `Zero`."""
    return y if isinstance(x, Zero) else x if isinstance(y, Zero) else x + y


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
