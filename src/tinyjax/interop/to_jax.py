"""`to_jax`: a program, or a function, as a function that JAX can run and transform."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import numpy as np
from jax.typing import ArrayLike

from tinyjax.backend import jax_programs
from tinyjax.errors import InputError, UnsupportedError, X64DisabledError
from tinyjax.interop import collectives, control, first_order, meshes
from tinyjax.interop.function_to_jax import function_to_jax
from tinyjax.interop.jax_context import TO_JAX, Function, JaxContext, Prepared, ToJaxRules, check_rules, wide_place
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.interpret import interpret
from tinyjax.ir.program import ClosedJaxpr, Jaxpr
from tinyjax.ir.traverse import nested_programs
from tinyjax.ir.type_lists import listed
from tinyjax.ir.value import ConcreteValue
from tinyjax.tracing.array import Array
from tinyjax.tracing.functions import check_callable

__all__ = ["collectives", "control", "first_order", "meshes", "to_jax"]  # the first four fill the table of rules

#: What a program's function returns: its result, or a tuple of them if it has none or several.
Results: TypeAlias = ArrayLike | tuple[ArrayLike, ...]


def to_jax(
    program: Jaxpr | ClosedJaxpr | Callable[..., Any],
    *,
    rules: ToJaxRules | None = None,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
) -> Callable[..., Any]:
    """A function of JAX that computes what a program or a function does: JAX's transformations apply to it.

    Of a program, it takes the inputs (those that no constant feeds) by position, and returns the result, or a tuple if
    there is not exactly one. Of a Python function it has the name and the signature, and takes and returns the same
    trees, of JAX's arrays; it is traced for each signature, as by `tinyjax.jit`. Each equation is one of JAX with the
    same meaning, and each program within becomes a program of JAX, with custom derivatives and checkpoints as JAX has
    them.

    Args:
      rules: a table with rules for primitives of your own, whose parent is `TO_JAX`.
      static_argnums: arguments of a function that aren't traced, by position. Leaves that are no arrays never are, nor
        what is static as `tinyjax.jit` made the function.
      static_argnames: the same, by name.

    Raises:
      UnsupportedError: JAX has nothing for some primitives. The error lists all of them. For a function, when it is
        called.
      X64DisabledError: when it is called, if the program needs 64-bit types and JAX has them switched off.
      InputError: when it is called with arguments of other types than the program's.

    >>> import jax
    >>> import tinyjax as tj
    >>> f = to_jax(tj.make_jaxpr(lambda x: tj.numpy.sin(x) * x)(tj.ShapedArray((), "float32")))
    >>> jax.make_jaxpr(jax.grad(f))(jax.numpy.float32(2.0))
    { lambda ; a:f32[]. let
        b:f32[] = sin a
        c:f32[] = cos a
        _:f32[] = mul b a
        d:f32[] = mul b 1.0:f32[]
        e:f32[] = mul 1.0:f32[] a
        f:f32[] = mul e c
        g:f32[] = add_any d f
      in (g,) }
    """
    if isinstance(program, Jaxpr | ClosedJaxpr):
        if static_argnums is not None or static_argnames is not None:
            raise InputError("to_jax: a program has no static arguments; a function may have some")
        run = _function_of(program, rules, "tinyjax")

        def tinyjax(*args: ArrayLike) -> Results:
            results = run(*args)
            return results[0] if len(results) == 1 else results

        return tinyjax
    check_callable("to_jax", program)
    return function_to_jax(
        program, static_argnums, static_argnames, lambda closed, name: _function_of(closed, rules, name)
    )


def _function_of(
    program: Jaxpr | ClosedJaxpr, rules: ToJaxRules | None, name: str
) -> Callable[..., tuple[ArrayLike, ...]]:
    """A function of JAX of the inputs of a program, which returns all its results."""
    jaxpr, consts = (program.jaxpr, program.consts) if isinstance(program, ClosedJaxpr) else (program, ())
    nested = nested_programs(jaxpr)
    table = TO_JAX if rules is None else rules
    check_rules(nested, table)
    wide = wide_place(nested, consts)
    context = JaxContext(Prepared(), table)
    held = [context.constant(const) for const in consts]
    avals = jaxpr.in_avals[len(consts) :]

    def run(*args: ArrayLike) -> tuple[ArrayLike, ...]:
        if wide is not None and not jax_programs.x64_enabled():
            raise X64DisabledError(
                f"the program computes with 64-bit numbers ({wide}), which JAX has switched off: it would truncate "
                'them silently. Switch them on with `jax.config.update("jax_enable_x64", True)` or within `with '
                "jax.enable_x64(True):`, or convert the program's inputs to 32 bits before it is traced."
            )
        operands = _checked(args, avals)
        try:
            outs = _left_to_xla(lambda *ins: tuple(interpret(context, jaxpr, [*held, *ins])))(*operands)
        except RecursionError:
            raise UnsupportedError(
                "to_jax: programs within programs are nested more deeply here than JAX, which traces them by "
                "recursion, can go. Inline calls first, with tinyjax.transforms.inline."
            ) from None
        return tuple(map(jax_programs.as_jax, outs))

    run.__name__ = run.__qualname__ = name
    return run


def _left_to_xla(function: Function) -> Function:
    """The function, with nothing said by types about how arrays lie: where JAX's mesh has axes along which they say it,
    its results are the same on all devices."""
    if not jax.sharding.get_abstract_mesh().explicit_axes:
        return function
    found: Function = jax.sharding.auto_axes(function, out_sharding=jax.sharding.PartitionSpec())
    return found


def _checked(args: Sequence[object], avals: Sequence[ShapedArray]) -> list[ArrayLike]:
    """The arguments as values of JAX; an InputError if they aren't what the program takes."""
    found: list[Any] = [
        jax_programs.operand(np.asarray(arg)) if isinstance(arg, Array | ConcreteValue) else arg for arg in args
    ]  # the user's
    operands: list[ArrayLike] = []
    fits = len(args) == len(avals)
    for arg, aval in zip(found, avals, strict=False):
        if isinstance(arg, bool | int | float | complex):
            operands.append(jax_programs.as_typed(arg, aval))
        else:
            operands.append(arg)
        given = jax.typeof(operands[-1])
        fits = fits and given.shape == aval.shape and jax_programs.dtype_of(given) == aval.dtype
    if not fits:
        shown = ", ".join(str(jax.typeof(arg)) for arg in found)
        raise InputError(f"the program takes {listed(avals)}, got ({shown})")
    return operands
