"""`sparsify`: functions of arrays, applied to sparse ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any  # the user's trees

from tinyjax.experimental.sparse.base import JAXSparse
from tinyjax.experimental.sparse.context import Held, SparseContext, Value, layout_of
from tinyjax.experimental.sparse.derivatives import is_sparse
from tinyjax.interpreters.hidden import Hidden, open_frame
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.interpret import interpret
from tinyjax.tracebacks import filtered
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.frames import OpenFrame
from tinyjax.tracing.functions import FlatFunction, check_callable
from tinyjax.tracing.programs import trace
from tinyjax.wrapping import wraps


def sparsify(f: Callable[..., Any], use_tracer: bool = False) -> Callable[..., Any]:
    """The function, applied to sparse arrays where it is given some: one of `tinyjax.numpy`, or made of these.

    It is traced as for arrays, and its program is run by an interpreter whose values are sparse or not. What can't be
    sparse is an error, which says what to do: `sparse.todense(x)` within the function makes x dense. Works within
    `jit`, `grad` and `vmap`, and with calls, branches and loops within the function. Positions that a sparse array is
    indexed at are moved into it. Keyword arguments are handed on as they are. `use_tracer` is JAX's, and makes no
    difference.

    >>> import numpy as np
    >>> import tinyjax.numpy as tnp
    >>> from tinyjax.experimental.sparse import BCOO
    >>> mat = BCOO.fromdense(np.array([[0.0, 2.0], [3.0, 0.0]]))
    >>> sparsify(lambda m, v: 2.0 * tnp.sin(m).T @ v)(mat, np.ones(2))
    Array([0.28224002, 1.81859485], dtype=float64)
    >>> sparsify(tnp.sqrt)(mat)
    BCOO(float64[2, 2], nse=2)
    """
    del use_tracer
    check_callable("sparsify", f)

    @wraps(f)
    @filtered
    def sparsified(*args: Any, **kwargs: Any) -> Any:
        leaves, treedef = tree.flatten((args, {}), is_sparse)
        operands = [leaf if isinstance(leaf, JAXSparse) else as_array(leaf) for leaf in leaves]
        avals = [ShapedArray(x.shape, x.dtype) if isinstance(x, JAXSparse) else x.aval for x in operands]
        traced = trace(FlatFunction(partial(f, **kwargs) if kwargs else f, "sparsify", treedef), avals)
        arrays = [part for x in operands for part in _parts(x)]

        def run(frame: OpenFrame[Hidden]) -> list[object]:
            context = SparseContext(frame.context)

            def read(x: Array | JAXSparse) -> Value:
                parts = list(map(frame.read, _parts(x)))
                return Held(tuple(parts), layout_of(x)) if isinstance(x, JAXSparse) else parts[0]

            def wrapped(value: Value) -> object:
                if isinstance(value, Held):
                    return value.layout.of(list(map(frame.wrap, value.parts)))
                return frame.wrap(value)

            ins = [*map(frame.read, traced.captured), *map(read, operands)]
            return list(map(wrapped, interpret(context, traced.jaxpr, ins)))

        outs = open_frame([*traced.captured, *arrays], run, traced.jaxpr.effects)
        return tree.unflatten(traced.treedef, outs)

    return sparsified


def _parts(x: Array | JAXSparse) -> tuple[Array, ...]:
    return x.tree_flatten()[0] if isinstance(x, JAXSparse) else (x,)
