"""Programs of functions of scalars, for what applies them to the elements of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.errors import InputError, TypingError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.interpret import interpret
from tinyjax.ir.program import Atom, Jaxpr
from tinyjax.lax.bodies import stage as stage_function
from tinyjax.primitives.constant import Constant
from tinyjax.tracing import tree
from tinyjax.tracing.concrete import ConcreteArray
from tinyjax.tracing.functions import check_callable, function_name


def scalar_program(
    name: str,
    computation: Callable[..., object],
    avals: Sequence[ShapedArray],
    treedef: Any,
    out_avals: Sequence[ShapedArray],
) -> Jaxpr:
    """The program of a function of two trees of scalars of these types, which returns such a tree, of `out_avals`."""
    program, found = scalar_function(name, computation, avals, treedef, out_avals)
    tree.check_same_structure(name, treedef, found, "the operands", f"the result of {function_name(computation)}")
    return program


def scalar_function(
    name: str,
    computation: Callable[..., object],
    avals: Sequence[ShapedArray],
    treedef: Any,
    out_avals: Sequence[ShapedArray],
) -> tuple[Jaxpr, Any]:
    """The program of a function of two trees of scalars, whose results may be another tree; and that tree."""
    check_callable(name, computation)
    one = tree.unflatten(treedef, range(len(avals)))
    _, pair = tree.flatten(((one, one), {}))
    traced = stage_function(name, computation, pair, [*avals, *avals])
    label = function_name(computation)
    if not all(isinstance(array, ConcreteArray) for array in traced.captured):
        raise InputError(
            f"{name}: {label} closes over a value that is traced, which a reduction can't hold. Reduce it together "
            "with the operands, or write the reduction with associative_scan."
        )
    found = traced.jaxpr.out_avals
    if [(a.shape, a.dtype) for a in found] != [(a.shape, a.dtype) for a in out_avals]:
        expected, given = (", ".join(map(str, types)) for types in (out_avals, found))
        raise TypingError(f"{name}: {label} must return ({expected}), got ({given})")
    if not traced.captured:
        return traced.jaxpr, traced.treedef
    consts = [array.value for array in traced.captured if isinstance(array, ConcreteArray)]

    def closed(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        return interpret(ctx, traced.jaxpr, [*(ctx.bind(Constant(const))[0] for const in consts), *ins])

    return stage([*avals, *avals], closed), traced.treedef
