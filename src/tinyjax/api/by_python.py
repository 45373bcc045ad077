"""Blocks in which nothing is compiled, in which nothing is staged, and in which products are computed as is said."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ContextDecorator
from typing import final

from typing_extensions import override

from tinyjax.arrays.products import DotPrecisionLike
from tinyjax.errors import UnsupportedError
from tinyjax.ir.dtypes import KEY_NAMES
from tinyjax.lax.within import AtOnce, Interpreted, Within, keyed, precise
from tinyjax.primitives.contractions import as_dot_precision
from tinyjax.tracebacks import filtered
from tinyjax.tracing.concrete import active_frame
from tinyjax.tracing.frames import Frame


@final
class Block(AbstractContextManager[None], ContextDecorator):
    """What is in force within `with` blocks, and within calls of functions that this decorates."""

    def __init__(self, within: Callable[[Frame], Within]) -> None:
        self._within = within
        self._entered: list[Within] = []

    @override
    def __enter__(self) -> None:
        self._entered.append(self._within(active_frame()).__enter__())

    @override
    def __exit__(self, *_: object) -> None:
        self._entered.pop().__exit__()


@filtered
def disable_jit(disable: bool = True) -> Block:
    """Has Python run functions that are given to `jit`, in a `with` block: so that `print` and debuggers see values.

    Loops (`while_loop`, `fori_loop`, `scan`, `map`) and conditionals (`cond`, `switch`) are Python's there, too, as
    long as what they decide by is known. It is in force in this thread or task only, and only in the block. With
    `disable=False`, a block within compiles again.

    >>> from tinyjax import jit
    >>> @jit
    ... def f(x):
    ...     print("x is", x)
    ...     return 2.0 * x
    >>> with disable_jit():
    ...     y = f(3.0)
    x is 3.0
    """
    by_python = bool(disable)
    return Block(lambda inner: Interpreted(inner, by_python))


@filtered
def ensure_compile_time_eval() -> Block:
    """Has what is known computed at once, in a `with` block within a function that is being traced.

    There, operations on arrays that have elements don't become equations, so that Python can decide by their results.
    Traced values stay traced.

    >>> import tinyjax.numpy as tnp
    >>> from tinyjax import jit
    >>> @jit
    ... def f(x):
    ...     with ensure_compile_time_eval():
    ...         steps = int(tnp.sum(tnp.arange(3)))
    ...     return x**steps
    >>> f(2.0)
    Array(8., dtype=float64, weak_type=True)
    """
    return Block(AtOnce)


@filtered
def default_matmul_precision(new_val: DotPrecisionLike) -> Block:
    """Has products of matrices and convolutions be computed with this precision, in a `with` block, if they don't say
    themselves: as if it were given to each as `precision=`.

    `new_val` is a precision or its name, a pair of these, one for each operand, or an algorithm, such as
    `lax.DotAlgorithmPreset.BF16_BF16_F32` or "F32_F32_F32", which products of matrices have; None: none is in force.
    Programs that are traced in the block hold it, so they mean the same elsewhere. A compiled function that is called
    in the block is traced for it once, apart from what it was traced to elsewhere. It is in force in this thread or
    task only, and only in the block.

    An UnsupportedError, a NotImplementedError, for what is neither.

    >>> import numpy as np
    >>> from tinyjax import make_jaxpr
    >>> x = np.ones((2, 2), "float32")
    >>> with default_matmul_precision("float32"):
    ...     print(make_jaxpr(lambda x: x @ x)(x).jaxpr.eqns[0].params["precision"])
    HIGHEST
    """
    chosen = as_dot_precision(new_val)
    return Block(lambda inner: precise(inner, chosen))


@filtered
def default_prng_impl(new_val: str | None) -> Block:
    """Has keys of random numbers be of this implementation, in a `with` block, if nobody says which: those that
    `random.key` and `random.PRNGKey` make, and words that `PRNGKey` made.

    `new_val` is one of the names that `random.key` takes; None: the one outside of all blocks,
    "threefry2x32". It is in force in this thread or task only, and only in the block. What is traced there is kept
    apart.

    An UnsupportedError, a NotImplementedError, for another name.

    >>> from tinyjax import random
    >>> with default_prng_impl("rbg"):
    ...     random.key_impl(random.key(3)), random.PRNGKey(3)
    ('rbg', Array([0, 3, 0, 3], dtype=uint32))
    """
    names = {name: dtype for dtype, name in KEY_NAMES.items()}
    if new_val is not None and new_val not in names:
        raise UnsupportedError(f"default_prng_impl: there is no {new_val!r}, but {', '.join(map(repr, names))}")
    chosen = None if new_val is None else names[new_val]
    return Block(lambda inner: keyed(inner, chosen))
