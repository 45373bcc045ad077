"""What programs look at values and types by, under JAX's names: `jax.core`."""

from tinyjax.api.by_python import ensure_compile_time_eval
from tinyjax.api.make_jaxpr import eval_jaxpr
from tinyjax.ir.aval import ShapedArray
from tinyjax.tracing.core import Tracer

__all__ = ["ShapedArray", "Tracer", "ensure_compile_time_eval", "eval_jaxpr"]


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
