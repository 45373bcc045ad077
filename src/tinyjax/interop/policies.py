"""The policies of `checkpoint`, which JAX has too, in both directions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias, final

import jax
from attrs import frozen
from jax.extend.core import primitives

from tinyjax.backend import jax_programs
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
from tinyjax.errors import UnsupportedError

JaxPolicy: TypeAlias = Callable[..., bool]
_JAX: Final = jax.checkpoint_policies


# JAX's own for these two are closures, so a program of JAX doesn't say which names they go by.


@final
@frozen
class _AllExceptNames:
    names: frozenset[str]

    def __call__(self, primitive: object, *_: object, **params: object) -> bool:
        return not (primitive is primitives.name_p and params["name"] in self.names)


@final
@frozen
class _Either:
    first: Policy
    second: Policy

    def __call__(self, primitive: object, *avals: object, **params: object) -> bool:
        policies = map(to_jax_policy, (self.first, self.second))
        return any(policy is not None and bool(policy(primitive, *avals, **params)) for policy in policies)


def to_jax_policy(policy: Policy | None) -> JaxPolicy | None:
    """JAX's policy of the same meaning; an UnsupportedError for one of the user's own."""
    found: JaxPolicy | None
    if policy is None:
        found = None
    elif isinstance(policy, NothingSaveable):
        found = _JAX.nothing_saveable
    elif isinstance(policy, EverythingSaveable):
        found = _JAX.everything_saveable
    elif isinstance(policy, DotsSaveable):
        found = _JAX.dots_saveable if policy.batch else _JAX.dots_with_no_batch_dims_saveable
    elif isinstance(policy, SaveNames):
        found = _JAX.save_only_these_names(*sorted(policy.names))
    elif isinstance(policy, SaveNamesExcept):
        found = _JAX.save_any_names_but_these(*sorted(policy.names))
    elif isinstance(policy, SaveAnythingExceptNames):
        found = _AllExceptNames(policy.names)
    elif isinstance(policy, SaveFromBoth):
        found = _Either(policy.first, policy.second)
    else:
        raise UnsupportedError(
            f"to_jax: the checkpoint policy {policy} is none of JAX's, which would ask it about primitives of JAX. Use "
            "one of tinyjax.checkpoint_policies."
        )
    return found


def from_jax_policy(policy: object) -> Policy | None:
    """Our policy of the same meaning. A LookupError for a function of the user's own."""
    if policy is None:
        return None
    for ours in (NothingSaveable(), EverythingSaveable(), DotsSaveable(), DotsSaveable(batch=False)):
        if policy is to_jax_policy(ours):
            return ours
    if isinstance(policy, _AllExceptNames):
        return SaveAnythingExceptNames(policy.names)
    if isinstance(policy, _Either):
        return SaveFromBoth(policy.first, policy.second)
    named = jax_programs.names_of_policy(policy)
    if named is None:
        raise LookupError(f"the checkpoint policy {policy!r}")
    kind, names = named
    return SaveNames(names) if kind == "only" else SaveNamesExcept(names)
