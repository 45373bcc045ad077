"""Routines that are in no program itself, for those that call them. Needs no jax at import."""

from __future__ import annotations


def prepare_libraries(text: str) -> None:
    """Has XLA find what the StableHLO text calls. jax tells it what that is called, when it is imported; LAPACK itself
    comes with SciPy."""
    if "custom_call" not in text:
        return
    import jax  # noqa: F401

    if "@lapack_" in text:
        from jaxlib.cpu import _lapack

        _lapack.initialize()
