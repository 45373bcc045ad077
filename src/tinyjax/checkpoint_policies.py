"""Policies for `checkpoint`: which values the derivative may keep, under JAX's names.

A policy is an immutable value, since it becomes part of programs. For one of your own, subclass `Policy` as a frozen
attrs class; or pass a function, which keeps the program in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from tinyjax.errors import ChoiceError, InputError
from tinyjax.tracebacks import filter_package

__all__ = [
    "Policy",
    "checkpoint_dots",
    "checkpoint_dots_with_no_batch_dims",
    "dots_saveable",
    "dots_with_no_batch_dims_saveable",
    "everything_saveable",
    "nothing_saveable",
    "offload_dot_with_no_batch_dims",
    "save_and_offload_only_these_names",
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


def offload_dot_with_no_batch_dims(offload_src: str, offload_dst: str) -> Policy:
    """`dots_with_no_batch_dims_saveable`: what JAX moves from one memory, "device", to another, "pinned_host", to wait
    for the derivative, is kept where it is.

    >>> offload_dot_with_no_batch_dims("device", "pinned_host") == dots_with_no_batch_dims_saveable
    True
    """
    return dots_with_no_batch_dims_saveable


def save_and_offload_only_these_names(
    *,
    names_which_can_be_saved: Sequence[str],
    names_which_can_be_offloaded: Sequence[str],
    offload_src: str,
    offload_dst: str,
) -> Policy:
    """`save_only_these_names` of both: what JAX moves from one memory, "device", to another, "pinned_host", to wait for
    the derivative, is kept where it is.

    Raises:
      ChoiceError: a name is among both.

    >>> save_and_offload_only_these_names(
    ...     names_which_can_be_saved=["a"],
    ...     names_which_can_be_offloaded=[],
    ...     offload_src="device",
    ...     offload_dst="pinned_host",
    ... )
    SaveNames(names=frozenset({'a'}))
    """
    saved, offloaded = frozenset(names_which_can_be_saved), frozenset(names_which_can_be_offloaded)
    if saved & offloaded:
        raise ChoiceError(
            f"save_and_offload_only_these_names: {sorted(saved & offloaded)} are among names_which_can_be_saved and "
            "among names_which_can_be_offloaded: each name goes to one of them"
        )
    return SaveNames(saved | offloaded)


def as_policy(policy: AnyPolicy) -> Policy:
    """A policy, or a function that says the same, as a value; an InputError for what is none."""
    if isinstance(policy, Policy):
        return policy
    makers = {
        save_only_these_names: "'name'",
        save_any_names_but_these: "'name'",
        save_anything_except_these_names: "'name'",
        offload_dot_with_no_batch_dims: "'device', 'pinned_host'",
        save_and_offload_only_these_names: "names_which_can_be_saved=['name'], ...",
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


filter_package(__name__, __all__)
