"""Arrays as they are: kept in place in the compiled program, or made part of it, or kept from being left out."""

from __future__ import annotations

from typing import TypeVar

from tinyjax.primitives import annotations as identities
from tinyjax.primitives.conversion import Copy
from tinyjax.primitives.sinks import DceSink
from tinyjax.refs.ref import AnyRef
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind

_T = TypeVar("_T")


def optimization_barrier(operand: _T) -> _T:
    """A tree of arrays as it is. The compiler computes all of them before what uses one, and merges nothing across.
    A Ref may be among them: then what it holds is one of the arrays.

    >>> optimization_barrier((1.0, 2.0))
    (Array(1., dtype=float64, weak_type=True), Array(2., dtype=float64, weak_type=True))
    """
    leaves, treedef = tree.flatten(operand)
    arrays = [leaf.current() if isinstance(leaf, AnyRef) else as_array(leaf) for leaf in leaves]
    outs: list[object] = list(bind(identities.optimization_barrier, *arrays))
    for i, (leaf, out) in enumerate(zip(leaves, outs, strict=True)):
        if isinstance(leaf, AnyRef) and isinstance(out, Array):
            leaf.store(out)
            outs[i] = leaf
    result: _T = tree.unflatten(treedef, outs)
    return result


def dce_sink(val: object, *, prevent_mlir_dce: bool = False) -> None:
    """Has what a tree of arrays is computed by stay in the program, though nothing reads it. XLA leaves it out all the
    same, unless `prevent_mlir_dce` keeps it there, too.

    >>> import tinyjax as tj
    >>> def kept(x):
    ...     dce_sink(x + 1.0)
    ...     return x
    >>> tj.transforms.dce(tj.make_jaxpr(kept)(2.0).jaxpr)
    { lambda ; a:~f64[]. let
        b:~f64[] = add a 1.0
        dce_sink[prevent_mlir_dce=False] b
      in (a,) }
    """
    for leaf in tree.flatten(val)[0]:
        bind(DceSink(prevent_mlir_dce), as_array(leaf))


def stage(x: ArrayLike, /) -> Array:
    """The value as an array that is traced, where something is: a part of the program, not known any more.

    >>> import tinyjax as tj
    >>> tj.make_jaxpr(lambda: stage(2.0))().jaxpr
    { lambda ; . let a:~f64[] = copy 2.0 in (a,) }
    """
    return bind(Copy(), as_array(x))[0]
