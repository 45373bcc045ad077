"""Primitives that are defined by name, run as compiled programs, as JAX has it: `jax.interpreters.xla`."""

from __future__ import annotations

from typing import Any

from tinyjax.api.jit import jit
from tinyjax.extend.by_name import Primitive
from tinyjax.tracing.array import ArrayLike

__all__ = ["apply_primitive"]


def apply_primitive(prim: Primitive, *args: ArrayLike, **params: Any) -> Any:  # an array, or a list
    """The results of a program that applies the primitive alone: what `def_impl(partial(apply_primitive, f_p))` says.

    >>> from functools import partial
    >>> import tinyjax as tj
    >>> from tinyjax.interpreters import mlir
    >>> half_p = Primitive("half")
    >>> _ = half_p.def_impl(partial(apply_primitive, half_p))
    >>> _ = half_p.def_abstract_eval(lambda x: tj.ShapedArray(x.shape, x.dtype))
    >>> mlir.register_lowering(half_p, mlir.lower_fun(lambda x: x / 2.0, multiple_results=False))
    >>> half_p.bind(3.0)
    Array(1.5, dtype=float64)
    """
    return jit(lambda *given: prim.bind(*given, **params))(*args)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
