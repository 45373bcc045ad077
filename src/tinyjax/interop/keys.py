"""Typed keys of somebody's own generator, in a program without them: as arrays of integers, along the last axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from tinyjax.ir.shapes import Shape

Params: TypeAlias = Mapping[str, object]


def _extended(value: object, extra: tuple[int, ...]) -> tuple[object, ...]:
    return (*value, *extra) if isinstance(value, tuple) else extra


def _slice(params: Params, ndim: int, key: Shape) -> Params:
    strides = params.get("strides")
    return {
        "start_indices": _extended(params["start_indices"], (0,) * len(key)),
        "limit_indices": _extended(params["limit_indices"], key),
        "strides": None if strides is None else _extended(strides, (1,) * len(key)),
    }


def _broadcast_in_dim(params: Params, ndim: int, key: Shape) -> Params:
    shape = _extended(params["shape"], key)
    at = len(shape) - len(key)
    dims = _extended(params["broadcast_dimensions"], tuple(range(at, len(shape))))
    return {**params, "shape": shape, "broadcast_dimensions": dims}


def _reshape(params: Params, ndim: int, key: Shape) -> Params:
    return {**params, "new_sizes": _extended(params["new_sizes"], key)}


def _transpose(params: Params, ndim: int, key: Shape) -> Params:
    return {"permutation": _extended(params["permutation"], tuple(range(ndim, ndim + len(key))))}


def _same(params: Params, ndim: int, key: Shape) -> Params:
    return params


#: For primitives that move elements: the parameters for keys of a shape, instead of those for an array of keys with
#: `ndim` axes.
ON_KEYS: Final[Mapping[str, Callable[[Params, int, Shape], Params]]] = {
    "broadcast_in_dim": _broadcast_in_dim,
    "concatenate": _same,
    "copy": _same,
    "reshape": _reshape,
    "rev": _same,
    "slice": _slice,
    "squeeze": _same,
    "stack": _same,
    "transpose": _transpose,
    "unstack": _same,
}
#: Primitives that hold programs, which see keys as these do.
HOLDING: Final = frozenset(
    {"jit", "pjit", "closed_call", "core_call", "core_closed_call", "cond", "while", "scan", "checkpoint", "remat"}
    | {"remat2", "custom_jvp_call", "custom_vjp_call"}
)
