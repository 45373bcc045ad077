"""tinyjax: the core of JAX as a strictly typed, functional library.

A Python function is traced to a jaxpr: an immutable, typed program. Every transformation is a pure function on such
programs, and the same rules also run on the fly over Python code. `jit` turns a jaxpr into StableHLO, for XLA to run.
"""

from tinyjax import debug, extend, ir, lax, numpy, transforms, tree
from tinyjax.api import checkpoint_policies
from tinyjax.api.autodiff import grad, jvp, linear_transpose, linearize, value_and_grad, vjp
from tinyjax.api.caches import cache_info, clear_caches
from tinyjax.api.callbacks import io_callback, pure_callback
from tinyjax.api.checkpointing import checkpoint, checkpoint_name, remat, saved_residuals
from tinyjax.api.compilation_cache import disable_compilation_cache, enable_compilation_cache
from tinyjax.api.custom_jvp import SymbolicZero, custom_jvp
from tinyjax.api.custom_vjp import custom_vjp
from tinyjax.api.jacobians import hessian, jacfwd, jacrev
from tinyjax.api.jit import jit
from tinyjax.api.staging import eval_jaxpr, eval_shape, make_jaxpr
from tinyjax.api.transfer import block_until_ready, device_get, device_put
from tinyjax.api.vectorize import vmap
from tinyjax.api.watching import watch
from tinyjax.errors import TinyjaxError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import float0
from tinyjax.ir.program import ClosedJaxpr, Jaxpr
from tinyjax.tracing.core import Array, ArrayLike

__version__ = "0.1.0"

__all__ = [
    "Array",
    "ArrayLike",
    "ClosedJaxpr",
    "Jaxpr",
    "ShapedArray",
    "SymbolicZero",
    "TinyjaxError",
    "block_until_ready",
    "cache_info",
    "checkpoint",
    "checkpoint_name",
    "checkpoint_policies",
    "clear_caches",
    "custom_jvp",
    "custom_vjp",
    "debug",
    "device_get",
    "device_put",
    "disable_compilation_cache",
    "enable_compilation_cache",
    "eval_jaxpr",
    "eval_shape",
    "extend",
    "float0",
    "grad",
    "hessian",
    "io_callback",
    "ir",
    "jacfwd",
    "jacrev",
    "jit",
    "jvp",
    "lax",
    "linear_transpose",
    "linearize",
    "make_jaxpr",
    "numpy",
    "pure_callback",
    "remat",
    "saved_residuals",
    "transforms",
    "tree",
    "value_and_grad",
    "vjp",
    "vmap",
    "watch",
]
