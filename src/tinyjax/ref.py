"""Refs, cells that hold an array: made, read, written and frozen by functions, as `jax.ref` has them."""

from __future__ import annotations

from typing import Final

from tinyjax.api.make_jaxpr import abstractify
from tinyjax.arrays.basic_indexing import Index
from tinyjax.errors import RefError, UnsupportedError
from tinyjax.numpy.creation import zeros
from tinyjax.refs.ref import AnyRef, Part, Ref
from tinyjax.tracebacks import filtered
from tinyjax.tracing.array import Array, ArrayLike

__all__ = ["Ref", "addupdate", "empty_ref", "free_ref", "freeze", "get", "new_ref", "set", "swap"]

#: The kind of Ref that takes no part in derivatives.
_DETACHED: Final = "no_grad_no_remat"


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)


@filtered
def new_ref(init_val: ArrayLike, *, memory_space: object = None, kind: str | None = None, pin: bool = False) -> Ref:
    """A Ref that holds an array, which is a copy if it may be written to. See `Ref`.

    With the `kind` "no_grad_no_remat", what is written to it is cut off from derivatives, as by `lax.stop_gradient`.
    `memory_space` and `pin` are for kernels, which aren't written here. Name and signature: `jax.new_ref`.

    >>> import numpy as np
    >>> x_ref = new_ref(np.array([1.0, 2.0, 3.0]))
    >>> x_ref[0] += 10.0
    >>> x_ref
    Ref([11.,  2.,  3.], dtype=float64)
    """
    if memory_space is not None or pin:
        raise UnsupportedError("new_ref: a Ref is where its array is; leave out memory_space and pin")
    if kind not in (None, _DETACHED):
        raise UnsupportedError(f"new_ref: kind is None or {_DETACHED!r}, got {kind!r}")
    return Ref(init_val, detached=kind is not None)


@filtered
def empty_ref(ty: object, memory_space: object = None, pin: bool = False) -> Ref:
    """A Ref for an array of this type (ShapeDtypeStruct, ShapedArray, or anything with a shape and a dtype), to be
    written before it is read. It holds zeros until then.

    >>> from tinyjax import ShapeDtypeStruct
    >>> empty_ref(ShapeDtypeStruct((2,), "float32"))
    Ref([0., 0.], dtype=float32)
    """
    if memory_space is not None or pin:
        raise UnsupportedError("empty_ref: a Ref is where its array is; leave out memory_space and pin")
    aval = abstractify(ty)
    return Ref(zeros(aval.shape, aval.dtype))


@filtered
def freeze(ref: Ref) -> Array:
    """What a Ref holds at last: it can't be used from then on. A RefError in another function than that which made it.

    >>> total = new_ref(0.0)
    >>> total[...] += 1.0
    >>> freeze(total)
    Array(1., dtype=float64, weak_type=True)
    """
    return _whole("freeze", ref).free("frozen")


@filtered
def free_ref(ref: Ref) -> None:
    """Ends the use of a Ref. A RefError in another function than the one that made it.

    >>> x_ref = new_ref(1.0)
    >>> free_ref(x_ref)
    >>> x_ref
    Ref(~f64[], freed before)
    """
    _whole("free_ref", ref).free("freed")


@filtered
def get(ref: AnyRef, idx: Index | None = None) -> Array:
    """`ref[idx]`; all of it without an index.

    >>> get(new_ref(1.0))
    Array(1., dtype=float64, weak_type=True)
    """
    return _checked("get", ref)[... if idx is None else idx]


@filtered
def set(  # noqa: A001 (its name in jax)
    ref: AnyRef, idx: Index | None, value: ArrayLike
) -> None:
    """`ref[idx] = value`; all of it where the index is None.

    >>> x_ref = new_ref(1.0)
    >>> set(x_ref, None, 2.0)
    >>> x_ref
    Ref(2., dtype=float64, weak_type=True)
    """
    _checked("set", ref)[... if idx is None else idx] = value


@filtered
def swap(ref: AnyRef, idx: Index | None, value: ArrayLike) -> Array:
    """`ref[idx]`, which is `value` afterwards.

    >>> import numpy as np
    >>> x_ref = new_ref(np.array([1.0, 2.0]))
    >>> swap(x_ref, 0, 5.0), x_ref
    (Array(1., dtype=float64), Ref([5., 2.], dtype=float64))
    """
    index = ... if idx is None else idx
    before = _checked("swap", ref)[index]
    ref[index] = value
    return before


@filtered
def addupdate(ref: AnyRef, idx: Index | None, x: ArrayLike) -> None:
    """Adds to `ref[idx]`: where an index has a position twice, both are added.

    >>> import numpy as np
    >>> x_ref = new_ref(np.array([1.0, 2.0]))
    >>> addupdate(x_ref, (np.array([0, 0]),), 1.0)
    >>> x_ref
    Ref([3., 2.], dtype=float64)
    """
    _checked("addupdate", ref).addupdate(x, ... if idx is None else idx)


def _checked(what: str, ref: object) -> AnyRef:
    """Or a part of one, `ref.at[index]`."""
    if not isinstance(ref, AnyRef):
        raise RefError(f"{what} takes a Ref, as tinyjax.new_ref makes them, got {ref!r}")
    return ref


def _whole(what: str, ref: object) -> Ref:
    if isinstance(ref, Part):
        raise RefError(f"{what} takes a whole Ref, not a part of one: {ref!r}")
    return _checked(what, ref).whole
