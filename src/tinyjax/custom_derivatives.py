"""Functions with derivatives of their own, under JAX's names: `jax.custom_derivatives`."""

from tinyjax.api.closures import closure_convert
from tinyjax.api.rules.custom_gradient import custom_gradient
from tinyjax.api.rules.custom_jvp import SymbolicZero, custom_jvp
from tinyjax.api.rules.custom_vjp import custom_vjp
from tinyjax.api.rules.linear_call import linear_call
from tinyjax.api.rules.vjp_application import CustomVJPPrimal
from tinyjax.api.rules.zeros import custom_vjp_primal_tree_values, zero_from_primal

__all__ = [
    "CustomVJPPrimal",
    "SymbolicZero",
    "closure_convert",
    "custom_gradient",
    "custom_jvp",
    "custom_vjp",
    "custom_vjp_primal_tree_values",
    "linear_call",
    "zero_from_primal",
]


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
