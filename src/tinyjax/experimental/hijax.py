"""Primitives that are classes of Python methods: the names of `jax.experimental.hijax`."""

from tinyjax.extend.by_methods.accumulators import GradAccum, NullAccum, ValAccum
from tinyjax.extend.by_methods.derived import jvp_from_lin, linearize_from_jvp, vjp_from_jvp, vjp_from_lin
from tinyjax.extend.by_methods.primitives import HiPrim, VJPHiPrimitive
from tinyjax.interpreters.ad import instantiate_zeros, is_undefined_primal
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.primitive import Zero

__all__ = [
    "GradAccum", "HiPrim", "NullAccum", "ShapedArray", "VJPHiPrimitive", "ValAccum", "Zero", "instantiate_zeros",
    "is_undefined_primal", "jvp_from_lin", "linearize_from_jvp", "vjp_from_jvp", "vjp_from_lin",
]  # fmt: skip


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
