"""Policies for `checkpoint`: which values the derivative may keep, under JAX's names.

A policy is an immutable value, since it becomes part of programs. For one of your own, subclass `Policy` as a frozen
attrs class; or pass a function, which keeps the program in this process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from tinyjax.control.checkpoint import (
    DotsSaveable,
    EverythingSaveable,
    NothingSaveable,
    Policy,
    PolicyOfFunction,
    SaveAnythingExceptNames,
    SaveFromBoth,
    SaveNames,
    SaveNamesExcept,
)
from tinyjax.errors import InputError

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

#: A policy, or a function that says the same: JAX's are `(primitive, *avals, **params) -> bool`.
AnyPolicy: TypeAlias = Policy | Callable[..., bool]
_HERE: Final = "tinyjax.checkpoint_policies"

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


def save_from_both_policies(first: AnyPolicy, second: AnyPolicy) -> Policy:
    """Keeps what at least one of the two keeps."""
    return SaveFromBoth(as_policy(first), as_policy(second))


def as_policy(policy: AnyPolicy) -> Policy:
    """A policy, or a function that says the same, as a value; an InputError for what is none."""
    if isinstance(policy, Policy):
        return policy
    makers = {
        save_only_these_names: "'name'",
        save_any_names_but_these: "'name'",
        save_anything_except_these_names: "'name'",
        save_from_both_policies: f"{_HERE}.dots_saveable, {_HERE}.save_only_these_names('name')",
    }
    given: object = policy
    for maker, arguments in makers.items():
        if given is maker:
            name = f"{_HERE}.{maker.__name__}"
            raise InputError(f"checkpoint: a policy is what {name} returns, not that function: `{name}({arguments})`")
    if not callable(given):
        raise InputError(
            f"checkpoint: policy must be one of {_HERE}, a frozen attrs subclass of {_HERE}.Policy, or a function of a "
            f"primitive, the types of its operands and, by name, its parameters; got {policy!r}"
        )
    if str(getattr(policy, "__module__", "")).partition(".")[0] in ("jax", "jaxlib"):
        raise InputError(
            f"checkpoint: {policy!r} is a policy of JAX's, which asks about primitives of JAX. Those of {_HERE} have "
            "the same names."
        )
    return PolicyOfFunction(policy)
