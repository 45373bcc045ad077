"""Calls of routines of cuSOLVER and its like are those that JAX makes, which needs no GPU to be seen."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Final

import jax
import numpy as np
import pytest
from jax.lax import linalg

from tinyjax import hlo
from tinyjax.interop.jax import from_jax

_DTYPES: Final = (np.float32, np.float64, np.complex64, np.complex128)
_BATCHES: Final[tuple[tuple[int, ...], ...]] = ((), (2,), (2, 3))
_ALL: Final = tuple(((m, n),) for m, n in ((4, 4), (5, 3), (3, 5)))
_SQUARE: Final = (((4, 4),),)
_LARGE: Final = (((40, 36),), ((36, 40),), ((1030, 1026),), ((1026, 1030),))

#: Per case: a function of JAX, and the shapes of its operands without what goes before them in a batch.
_CASES: Final[dict[str, tuple[Callable[..., object], tuple[tuple[tuple[int, ...], ...], ...]]]] = {
    "cholesky": (linalg.cholesky, _SQUARE),
    "lu": (linalg.lu, _ALL),
    "qr": (partial(linalg.qr, full_matrices=False), _ALL),
    "qr_full": (partial(linalg.qr, full_matrices=True), _ALL),
    "householder": (linalg.householder_product, (((5, 3), (3,)),)),
    "eigh": (linalg.eigh, _SQUARE),
    "eigh_upper": (partial(linalg.eigh, lower=False), _SQUARE),
    "svd": (partial(linalg.svd, full_matrices=False), _ALL + _LARGE),
    "svd_full": (linalg.svd, _ALL + _LARGE),
    "svd_values": (partial(linalg.svd, compute_uv=False), _ALL + _LARGE),
    "svd_qr": (partial(linalg.svd, algorithm=linalg.SvdAlgorithm.QR), _ALL),
    "svd_polar": (partial(linalg.svd, algorithm=linalg.SvdAlgorithm.POLAR, full_matrices=False), _ALL),
    "tridiagonal": (linalg.tridiagonal, _SQUARE),
    "tridiagonal_solve": (linalg.tridiagonal_solve, (((4,), (4,), (4,), (4, 2)),)),
}


def _calls(text: str) -> list[str]:
    """What is called, with everything but the names of values, what tells devices how to divide it, and spelling."""
    found: list[str] = []
    for line in text.splitlines():
        if "stablehlo.custom_call" not in line or "@Sharding" in line:
            continue
        called = re.sub(r"%[\w#:]+", "%", line).strip()
        called = called.replace('backend_config = "", mhlo.backend_config', "backend_config")
        called = re.sub(r"mhlo\.frontend_attributes = \{num_batch_dims[^}]*\}, ", "", called)
        called = re.sub(r", sdy\.sharding_rule = .*?custom>", "", called)
        called = called.replace("api_version = 4 : i32, ", "").replace(", output_operand_aliases = []", "")
        called = re.sub(r"-> \((tensor<[^(),]*(?:\([^()]*\))?>)\)$", r"-> \1", called)
        found.append(called)
    return sorted(found)


@pytest.mark.parametrize("name", _CASES)
def test_calls_on_gpus_are_those_of_jax(name: str) -> None:
    function, all_shapes = _CASES[name]
    for shapes in all_shapes:
        for batch in _BATCHES if shapes not in _LARGE else ((), (2,)):
            for dtype in _DTYPES if shapes not in _LARGE else _DTYPES[:1]:
                avals = [jax.ShapeDtypeStruct((*batch, *shape), dtype) for shape in shapes]
                traced = jax.jit(function).trace(*avals)
                theirs = _calls(traced.lower(lowering_platforms=("cuda",)).as_text())
                ours = _calls(hlo.lower(from_jax(traced.jaxpr), platform="cuda"))
                assert theirs, "JAX calls something"
                assert ours == theirs, (shapes, batch, dtype)
