"""Policies for `checkpoint`: which values the derivative may keep, under JAX's names.

A policy is an immutable value, since it becomes part of programs. For one of your own, subclass `Policy` as a frozen
attrs class.
"""

from __future__ import annotations

from typing import Final

from tinyjax.control.checkpoint import (
    DotsSaveable,
    EverythingSaveable,
    NothingSaveable,
    Policy,
    SaveAnythingExceptNames,
    SaveFromBoth,
    SaveNames,
    SaveNamesExcept,
)

__all__ = [
    "Policy",
    "checkpoint_dots",
    "checkpoint_dots_with_no_batch_dims",
    "dots_saveable",
    "dots_with_no_batch_dims_saveable",
    "everything_saveable",
    "nothing_saveable",
    "save_any_names_but_these",
    "save_anything_except_these_names",
    "save_from_both_policies",
    "save_only_these_names",
]

everything_saveable: Final = EverythingSaveable()
nothing_saveable: Final = NothingSaveable()
dots_saveable: Final = DotsSaveable()
dots_with_no_batch_dims_saveable: Final = DotsSaveable(batch=False)
checkpoint_dots: Final = dots_saveable
checkpoint_dots_with_no_batch_dims: Final = dots_with_no_batch_dims_saveable


def save_only_these_names(*names: str) -> Policy:
    """Keeps the values that `checkpoint_name` gave one of these names, and nothing else."""
    return SaveNames(frozenset(names))


def save_any_names_but_these(*names: str) -> Policy:
    """Keeps the values that `checkpoint_name` gave any other name, and nothing else."""
    return SaveNamesExcept(frozenset(names))


def save_anything_except_these_names(*names: str) -> Policy:
    """Keeps everything but the values that `checkpoint_name` gave one of these names."""
    return SaveAnythingExceptNames(frozenset(names))


def save_from_both_policies(first: Policy, second: Policy) -> Policy:
    """Keeps what at least one of the two keeps."""
    return SaveFromBoth(first, second)
