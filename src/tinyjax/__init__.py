"""tinyjax: the core of JAX as a strictly typed, functional library.

A Python function is traced to a jaxpr: an immutable, typed program. Every transformation is a pure function on such
programs, and the same rules also run on the fly over Python code. `jit` turns a jaxpr into StableHLO, for XLA to run.

Importing it loads next to nothing: a name is loaded, with the part of the library that it needs, when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

from tinyjax.deferred import FILL_REGISTRY

if TYPE_CHECKING:
    from tinyjax import (
        custom_derivatives,
        debug,
        errors,
        extend,
        flatten_util,
        hlo,
        interop,
        interpreters,
        ir,
        lax,
        numpy,
        testing,
        tools,
        transforms,
        tree,
    )
    from tinyjax.api import checkpoint_policies
    from tinyjax.api.autodiff import jvp, linear_transpose, linearize, vjp
    from tinyjax.api.caches import cache_info, clear_caches
    from tinyjax.api.checkpointing import checkpoint, checkpoint_name, remat, saved_residuals
    from tinyjax.api.closures import closure_convert
    from tinyjax.api.compilation_cache import disable_compilation_cache, enable_compilation_cache
    from tinyjax.api.gradients import grad, value_and_grad
    from tinyjax.api.host_callbacks import io_callback, pure_callback
    from tinyjax.api.jacobians import hessian, jacfwd, jacrev
    from tinyjax.api.jit import jit
    from tinyjax.api.make_jaxpr import eval_jaxpr, eval_shape, make_jaxpr
    from tinyjax.api.rules.custom_gradient import custom_gradient
    from tinyjax.api.rules.custom_jvp import SymbolicZero, custom_jvp
    from tinyjax.api.rules.custom_vjp import CustomVJPPrimal, custom_vjp
    from tinyjax.api.traced import Traced, trace
    from tinyjax.api.transfer import block_until_ready, device_get, device_put
    from tinyjax.api.vectorize import vmap
    from tinyjax.api.watch import watch
    from tinyjax.errors import TinyjaxError
    from tinyjax.ir.aval import ShapedArray
    from tinyjax.ir.dtypes import float0
    from tinyjax.ir.program import ClosedJaxpr, Jaxpr
    from tinyjax.tracing.array import Array, ArrayLike

__version__ = "0.2.0"

FILL_REGISTRY.hand(lambda: import_module("tinyjax.registered"))

__all__ = [
    "Array",
    "ArrayLike",
    "ClosedJaxpr",
    "CustomVJPPrimal",
    "Jaxpr",
    "ShapedArray",
    "SymbolicZero",
    "TinyjaxError",
    "Traced",
    "block_until_ready",
    "cache_info",
    "checkpoint",
    "checkpoint_name",
    "checkpoint_policies",
    "clear_caches",
    "closure_convert",
    "custom_derivatives",
    "custom_gradient",
    "custom_jvp",
    "custom_vjp",
    "debug",
    "device_get",
    "device_put",
    "disable_compilation_cache",
    "enable_compilation_cache",
    "errors",
    "eval_jaxpr",
    "eval_shape",
    "extend",
    "flatten_util",
    "float0",
    "grad",
    "hessian",
    "hlo",
    "interop",
    "interpreters",
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
    "testing",
    "tools",
    "trace",
    "transforms",
    "tree",
    "value_and_grad",
    "vjp",
    "vmap",
    "watch",
]

#: Where the names are defined that are no modules of this package.
_HOMES: Final = {
    name: module
    for module, names in {
        "tinyjax.api.autodiff": "jvp linear_transpose linearize vjp",
        "tinyjax.api.gradients": "grad value_and_grad",
        "tinyjax.api.caches": "cache_info clear_caches",
        "tinyjax.api.host_callbacks": "io_callback pure_callback",
        "tinyjax.api.checkpointing": "checkpoint checkpoint_name remat saved_residuals",
        "tinyjax.api.closures": "closure_convert",
        "tinyjax.api.compilation_cache": "disable_compilation_cache enable_compilation_cache",
        "tinyjax.api.rules.custom_gradient": "custom_gradient",
        "tinyjax.api.rules.custom_jvp": "SymbolicZero custom_jvp",
        "tinyjax.api.rules.custom_vjp": "CustomVJPPrimal custom_vjp",
        "tinyjax.api.jacobians": "hessian jacfwd jacrev",
        "tinyjax.api.jit": "jit",
        "tinyjax.api.make_jaxpr": "eval_jaxpr eval_shape make_jaxpr",
        "tinyjax.api.traced": "Traced trace",
        "tinyjax.api.transfer": "block_until_ready device_get device_put",
        "tinyjax.api.vectorize": "vmap",
        "tinyjax.api.watch": "watch",
        "tinyjax.errors": "TinyjaxError",
        "tinyjax.ir.aval": "ShapedArray",
        "tinyjax.ir.dtypes": "float0",
        "tinyjax.ir.program": "ClosedJaxpr Jaxpr",
        "tinyjax.tracing.array": "Array ArrayLike",
    }.items()
    for name in names.split()
}
_PACKAGES: Final = (
    *("custom_derivatives", "debug", "errors", "extend", "flatten_util", "hlo", "interop", "interpreters", "ir", "lax"),
    *("numpy", "testing", "tools", "transforms", "tree"),
)
_MODULES: Final = {"checkpoint_policies": "tinyjax.api.checkpoint_policies"} | {
    name: f"tinyjax.{name}" for name in _PACKAGES
}

if not TYPE_CHECKING:  # or every name would seem to exist

    def __getattr__(name: str) -> object:
        """A name of `__all__`, loaded when it is used for the first time."""
        if name in _MODULES:
            found = import_module(_MODULES[name])
        elif name in _HOMES:
            found = getattr(import_module(_HOMES[name]), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        """The public names."""
        return sorted(__all__)
