"""`from_jax`: a program of JAX as one of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr as JaxClosedJaxpr
from jax.extend.core import Jaxpr as JaxJaxpr

from tinyjax.backend import jax_programs
from tinyjax.errors import InputError, UnsupportedError, X64DisabledError
from tinyjax.interop.importing import Importer
from tinyjax.interop.jax_context import WIDE, struct
from tinyjax.interop.types import constant_of, type_of
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.program import ClosedJaxpr
from tinyjax.ir.value import ConcreteValue
from tinyjax.tracing.array import Array

_NAME: Final = "from_jax"


def from_jax(function: Callable[..., object] | JaxClosedJaxpr | JaxJaxpr, *args: Any) -> ClosedJaxpr:
    """The program of a function of JAX for given arguments, or a program that JAX has traced already, as ours.

    Every equation becomes one of the same meaning (a few of JAX's primitives become several), with its type, weak or
    not, and the line of user code that it came from. The rules of custom_jvp and custom_vjp functions are traced and
    become programs. Typed keys of random numbers become arrays of the integers that they consist of.

    Args:
      args: the function's arguments, for a function: trees of arrays, or of their types (ShapedArray,
        jax.ShapeDtypeStruct). The program takes their leaves.

    Raises:
      UnsupportedError: the program has primitives that we lack. The error lists all of them, and how many equations
        apply each.
      X64DisabledError: an argument has a 64-bit dtype, and JAX has these switched off.

    >>> import jax.numpy as jnp
    >>> from_jax(lambda x: jnp.tanh(x) * 2.0, ShapedArray((3,), "float32"))
    { lambda ; a:f32[3]. let
        b:f32[3] = tanh a
        c:f32[3] = mul b 2.0:f32[]
      in (c,) }
    """
    closed: JaxClosedJaxpr | JaxJaxpr
    if isinstance(function, JaxClosedJaxpr | JaxJaxpr):
        if args:
            raise InputError(
                f"{_NAME}: a program that has been traced already takes no arguments here; got {len(args)}"
            )
        closed = function
    elif callable(function):
        closed = jax.make_jaxpr(function)(*jax.tree_util.tree_map(_argument, args, is_leaf=_is_leaf))
    else:
        raise InputError(f"{_NAME} needs a function or a program of JAX, got {function!r}")
    jaxpr = closed.jaxpr if isinstance(closed, JaxClosedJaxpr) else closed
    importer = Importer()
    program = importer.run(jaxpr)
    if importer.missing:
        listed = "\n".join(f"  {what} ({count})" for what, count in sorted(importer.missing.items()))
        raise UnsupportedError(
            f"{_NAME}: tinyjax has nothing for these primitives of JAX, with the number of equations:\n{listed}\n"
            "Programs within the program count once, however often they are applied."
        )
    consts = tuple(getattr(closed, "consts", ()))
    values = [constant_of(const, type_of(var.aval)) for const, var in zip(consts, jaxpr.constvars, strict=True)]
    return ClosedJaxpr(program, tuple(values))


def _is_leaf(x: object) -> bool:
    return isinstance(x, Array | ConcreteValue | ShapedArray)


def _argument(x: Any) -> Any:  # a leaf of the user's arguments, in and out
    """An argument as JAX takes it."""
    if isinstance(x, Array | ConcreteValue):
        x = x.aval
    if isinstance(x, ShapedArray):
        x = struct(x)
    dtype = getattr(x, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype in WIDE and not jax_programs.x64_enabled():
        raise X64DisabledError(
            f"{_NAME}: an argument has dtype {dtype}, which JAX has switched off: it would truncate it silently. "
            'Switch it on with `jax.config.update("jax_enable_x64", True)` or within `with jax.enable_x64(True):`, or '
            "convert the argument."
        )
    return x
