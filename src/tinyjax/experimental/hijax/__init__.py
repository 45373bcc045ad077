"""Primitives that are classes of Python methods: the names of `jax.experimental.hijax`."""

from tinyjax.experimental.hijax.accumulators import GradAccum as GradAccum
from tinyjax.experimental.hijax.accumulators import NullAccum as NullAccum
from tinyjax.experimental.hijax.accumulators import ValAccum as ValAccum
from tinyjax.experimental.hijax.derived import jvp_from_lin as jvp_from_lin
from tinyjax.experimental.hijax.derived import linearize_from_jvp as linearize_from_jvp
from tinyjax.experimental.hijax.derived import vjp_from_jvp as vjp_from_jvp
from tinyjax.experimental.hijax.derived import vjp_from_lin as vjp_from_lin
from tinyjax.experimental.hijax.primitives import HiPrim as HiPrim
from tinyjax.experimental.hijax.primitives import VJPHiPrimitive as VJPHiPrimitive
from tinyjax.interpreters.ad import instantiate_zeros as instantiate_zeros
from tinyjax.interpreters.ad import is_undefined_primal as is_undefined_primal
from tinyjax.ir.aval import ShapedArray as ShapedArray
from tinyjax.ir.primitive import Zero as Zero

__all__ = [
    "GradAccum", "HiPrim", "NullAccum", "ShapedArray", "VJPHiPrimitive", "ValAccum", "Zero", "instantiate_zeros",
    "is_undefined_primal", "jvp_from_lin", "linearize_from_jvp", "vjp_from_jvp", "vjp_from_lin",
]  # fmt: skip


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
