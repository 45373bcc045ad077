"""LAPACK, for compiled programs that call its routines. Imports jax: to be imported at first need."""

from __future__ import annotations

from jaxlib.cpu import _lapack


def prepare_libraries(text: str) -> None:
    """Finds LAPACK, which SciPy brings along, if the StableHLO text calls a routine of it. jax has told XLA what they
    are called, when it was imported."""
    if "@lapack_" in text:
        _lapack.initialize()
