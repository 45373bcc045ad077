"""Rules of a primitive that are made of its others: `lin, linearized = linearize_from_jvp` in the body of a class."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any, Final, NamedTuple

from tinyjax.api.autodiff import linear_transpose
from tinyjax.errors import InputError
from tinyjax.extend.by_methods.primitives import HiPrim
from tinyjax.interpreters.ad import instantiate_zeros
from tinyjax.ir.primitive import Zero
from tinyjax.ir.tangents import with_zeros
from tinyjax.tracing import tree
from tinyjax.tree.nodes import register_static
from tinyjax.tree.operations import map as map_tree


class Linearizing(NamedTuple):
    """Two methods: `lin, linearized = ...`."""

    lin: Any
    linearized: Any


class Reversing(NamedTuple):
    """Two methods: `vjp_fwd, vjp_bwd_retval = ...`."""

    vjp_fwd: Any
    vjp_bwd_retval: Any


@register_static
class _Marks(tuple[bool, ...]):
    """Which arguments are differentiated with respect to, among residuals."""

    __slots__ = ()


def _marks(nzs_in: Any) -> _Marks:
    found: list[Any] = tree.flatten(nzs_in)[0]
    return _Marks(found)


def _lin(self: HiPrim, nzs_in: Any, *primals: Any) -> Any:
    return self(*primals), primals


def _linearized(self: HiPrim, residuals: Any, *tangents: Any) -> Any:
    return self.jvp(residuals, tangents)[1]


def _forward_of_jvp(self: HiPrim, nzs_in: Any, /, *args: Any) -> Any:
    return self(*args), (args, _marks(nzs_in))


def _backward_of_jvp(self: HiPrim, res: Any, outgrad: Any, /) -> Any:
    primals, marks = res
    return _transposed(self, lambda tangents: self.jvp(primals, tangents)[1], marks, outgrad)


def _forward_of_lin(self: HiPrim, nzs_in: Any, /, *args: Any) -> Any:
    out, residuals, *rest = self.lin(nzs_in, *args)
    return (out, (residuals, _marks(nzs_in)), *rest)


def _backward_of_lin(self: HiPrim, res: Any, outgrad: Any, /) -> Any:
    residuals, marks = res
    return _transposed(self, lambda tangents: self.linearized(residuals, *tangents), marks, outgrad)


def _transposed(self: HiPrim, linear: Any, marks: Sequence[bool], outgrad: Any) -> Any:
    """The cotangents of the marked arguments."""
    avals = self.in_avals_flat

    def of_moving(*given: Any) -> Any:
        tangents = tree.unflatten(self.in_tree, with_zeros(given, marks, avals))
        found = tree.up_to("the tangents", self.out_tree, linear(tangents))
        zeros = [Zero(aval.tangent) if t is None else t for t, aval in zip(found, self.out_avals_flat, strict=True)]
        return list(map(instantiate_zeros, zeros))

    moving = [aval.tangent for aval in compress(avals, marks)]
    cts = list(map(instantiate_zeros, tree.flatten(outgrad)[0]))
    found = iter(linear_transpose(of_moving, *moving)(cts))
    return tree.unflatten(self.in_tree, [next(found) if mark else Zero(aval.cotangent) for mark, aval in
                                         zip(marks, avals, strict=True)])  # fmt: skip


#: `lin, linearized = linearize_from_jvp`: the derivative by `jvp`, which is applied to the arguments, kept for it.
linearize_from_jvp: Final = Linearizing(_lin, _linearized)
#: `vjp_fwd, vjp_bwd_retval = vjp_from_jvp`: `jvp` transposed, at the arguments.
vjp_from_jvp: Final = Reversing(_forward_of_jvp, _backward_of_jvp)
#: `vjp_fwd, vjp_bwd_retval = vjp_from_lin`: `linearized` transposed.
vjp_from_lin: Final = Reversing(_forward_of_lin, _backward_of_lin)


def jvp_from_lin(self: HiPrim, primals: Any, tangents: Any) -> Any:
    """`jvp = jvp_from_lin`, in the body of a class: forward mode by `lin` and `linearized`.

    >>> import tinyjax as tj
    >>> class Double(HiPrim):
    ...     def __init__(self, aval):
    ...         self.in_avals, self.out_aval, self.params = (aval,), aval, {}
    ...         super().__init__()
    ...
    ...     def expand(self, x):
    ...         return 2.0 * x
    ...
    ...     def lin(self, nzs_in, x):
    ...         return self(x), None
    ...
    ...     def linearized(self, residuals, t):
    ...         return 2.0 * t
    ...
    ...     jvp = jvp_from_lin
    >>> tj.jvp(lambda x: Double(tj.typeof(x))(x), (3.0,), (1.0,))
    (Array(6., dtype=float64, weak_type=True), Array(2., dtype=float64, weak_type=True))
    """
    if type(self).lin is _lin:
        raise InputError(
            f"{type(self).__name__}: `jvp = jvp_from_lin` and `lin, linearized = linearize_from_jvp` define each other"
        )
    nonzero = map_tree(lambda t: not isinstance(t, Zero), tuple(tangents))
    out, residuals, *_ = self.lin(nonzero, *primals)
    return out, self.linearized(residuals, *tangents)
