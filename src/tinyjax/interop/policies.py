"""The policies of `checkpoint`, which JAX has too, in both directions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias, final

import jax
from attrs import field, frozen
from jax.extend.core import JaxprEqn, primitives

from tinyjax.backend import jax_programs
from tinyjax.contexts.staging import StagingContext
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
from tinyjax.ir.dtypes import MOVABLE
from tinyjax.ir.program import Atom
from tinyjax.primitives.annotations import Name

JaxPolicy: TypeAlias = Callable[..., bool]
#: Whose programs JAX's partial evaluation goes into.
_OPENED: Final = frozenset({"jit", "pjit", "closed_call", "core_call", "scan", "while", "cond", "remat2", "shard_map"})
_JAX: Final = jax.checkpoint_policies


# JAX's own for these two are closures, which don't say which names they go by.


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


@final
@frozen
class Asked:
    """A policy of JAX that is none of ours: a function that is asked about equations of JAX. What it keeps of the
    program that it is for gets a name where that is imported, and so the policy that keeps what has this name says the
    same."""

    policy: JaxPolicy = field(eq=id)

    @property
    def label(self) -> str:
        """The name of what is kept."""
        return f"kept by {getattr(self.policy, '__qualname__', type(self.policy).__qualname__)}"

    def named(self, ctx: StagingContext, eqn: JaxprEqn, outs: Sequence[Atom]) -> Sequence[Atom]:
        """The results of an equation, with the name if the policy keeps them. Programs within are asked about
        themselves."""
        if eqn.primitive.name in _OPENED or not jax_programs.keeps(self.policy, eqn):
            return outs
        label = Name(self.label)
        return [ctx.bind(label, out)[0] if out.aval.dtype in MOVABLE else out for out in outs]


def asked(params: Mapping[str, object]) -> Asked | None:
    """What is to be asked about the equations of the program in these parameters."""
    policy = params.get("policy")
    return Asked(policy) if callable(policy) and _of_ours(policy) is None else None


def from_jax_policy(policy: object) -> Policy | None:
    """Our policy of the same meaning: for a function of the user's own, by what `Asked` names."""
    if policy is None:
        return None
    if not callable(policy):
        raise LookupError(f"the checkpoint policy {policy!r}")
    return _of_ours(policy) or SaveNames(frozenset({Asked(policy).label}))


def _of_ours(policy: JaxPolicy) -> Policy | None:
    for ours in (NothingSaveable(), EverythingSaveable(), DotsSaveable(), DotsSaveable(batch=False)):
        if policy is to_jax_policy(ours):
            return ours
    if isinstance(policy, _AllExceptNames):
        return SaveAnythingExceptNames(policy.names)
    if isinstance(policy, _Either):
        return SaveFromBoth(policy.first, policy.second)
    named = jax_programs.names_of_policy(policy)
    if named is None:
        return None
    kind, names = named
    return SaveNames(names) if kind == "only" else SaveNamesExcept(names)
