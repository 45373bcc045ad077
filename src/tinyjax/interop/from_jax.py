"""`from_jax`: a program of JAX as one of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr as JaxClosedJaxpr
from jax.extend.core import Jaxpr as JaxJaxpr

from tinyjax.backend import jax_programs
from tinyjax.collecting import collecting_seldom
from tinyjax.errors import InputError, X64DisabledError
from tinyjax.interop.importing import Importer
from tinyjax.interop.jax_context import WIDE, struct
from tinyjax.interop.missing import Lack, lacks_of, refuse
from tinyjax.interop.requests import Region, open_request
from tinyjax.interop.types import constant_of, fitting, type_of
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.program import ClosedJaxpr
from tinyjax.ir.value import ConcreteValue
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array

_NAME: Final = "from_jax"


def from_jax(function: Callable[..., object] | JaxClosedJaxpr | JaxJaxpr, *args: Any) -> ClosedJaxpr:
    """The program of a function of JAX for given arguments, or a program that JAX has traced already, as ours.

    Every equation becomes one of the same meaning (a few of JAX's primitives become several), with its type, weak or
    not, and the line of user code that it came from. The rules of custom_jvp and custom_vjp functions are traced and
    become programs. Typed keys of random numbers become arrays of the integers that they consist of.

    Args:
      args: the function's arguments, for a function: trees of arrays, or of their types (ShapedArray,
        jax.ShapeDtypeStruct). The program takes their leaves, without those of arguments that are static as `jax.jit`
        made the function.

    Raises:
      UnsupportedError: the program has primitives that we lack. The error lists all of them, how many equations apply
        each, and their lines.
      X64DisabledError: an argument has a 64-bit dtype, and JAX has these switched off. (NumPy's integers that 32 bits
        are enough for have 32, as in JAX.)

    >>> import jax.numpy as jnp
    >>> from_jax(lambda x: jnp.tanh(x) * 2.0, ShapedArray((3,), "float32"))
    { lambda ; a:f32[3]. let
        b:f32[3] = tanh a
        c:f32[3] = mul b 2.0:f32[]
      in (c,) }
    """
    program, lacks = imported(traced_by_jax(function, *args))
    refuse(_NAME, lacks)
    return program


def traced_by_jax(function: Callable[..., object] | JaxClosedJaxpr | JaxJaxpr, *args: Any) -> JaxClosedJaxpr | JaxJaxpr:
    """JAX's program of a function for arguments, which may be types of ours or arrays; or a program of JAX as it is."""
    if isinstance(function, JaxClosedJaxpr | JaxJaxpr):
        if args:
            raise InputError(
                f"{_NAME}: a program that has been traced already takes no arguments here; got {len(args)}"
            )
        return function
    if not callable(function):
        raise InputError(f"{_NAME} needs a function or a program of JAX, got {function!r}")
    leaves, treedef = tree.flatten(args, _is_leaf)
    static = [number for number in jax_programs.static_arguments(function)[0] if number < len(args)]
    return jax.make_jaxpr(function, static_argnums=static)(*tree.unflatten(treedef, list(map(_argument, leaves))))


@collecting_seldom
def imported(closed: JaxClosedJaxpr | JaxJaxpr, region: Region | None = None) -> tuple[ClosedJaxpr, tuple[Lack, ...]]:
    """A program that JAX has traced, within a region of a mesh or not, as ours, and what is missing in it. If that is
    anything, it can't be run, and has its constants as inputs."""
    wanted = open_request(closed, region)
    importer = Importer()
    program = importer.run(wanted)
    lacks = lacks_of(program, importer.types)
    if lacks:
        return ClosedJaxpr(program), lacks
    consts = tuple(getattr(closed, "consts", ()))
    values = [constant_of(const, type_of(var.aval)) for const, var in zip(consts, wanted.jaxpr.constvars, strict=True)]
    return ClosedJaxpr(program, tuple(values)), ()


def _is_leaf(x: object) -> bool:
    return isinstance(x, Array | ConcreteValue | ShapedArray)


def _argument(x: Any) -> Any:  # a leaf of the user's arguments, in and out
    """An argument as JAX takes it."""
    if isinstance(x, np.ndarray):
        x = fitting(x)
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
