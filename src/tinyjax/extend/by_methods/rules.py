"""Calls of the methods by which a user's primitive says its rules, and what they return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinyjax.errors import InputError, RuleResultError
from tinyjax.tracing import tree

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef


def call_rule(primitive: object, rule: str, *args: Any) -> Any:
    """What the method of this name returns: an InputError if it is none, or takes other arguments."""
    name = f"{type(primitive).__name__}.{rule}"
    method = getattr(primitive, rule)
    if not callable(method):
        raise InputError(f"{name} has to be a method, and is {method!r}")
    try:
        return method(*args)
    except TypeError as error:
        trace = error.__traceback__
        if trace is None or trace.tb_next is not None:  # raised within the method
            raise
        raise InputError(f"{name} doesn't take the arguments that such a rule is called with: {error}") from None


def parts(said: str, found: Any, what: str) -> tuple[Any, Any, list[Any]]:
    """The two things that a rule returns, and what else it says: a RuleResultError if these are fewer."""
    if not isinstance(found, tuple | list) or len(found) < 2:
        raise RuleResultError(f"{said} has to return a pair, {what}; got {found!r}")
    first, second, *rest = found
    return first, second, rest


def spread(structure: PyTreeDef, dims: Any) -> tuple[int | None, ...]:
    """An axis for each leaf: one for all, or a tree."""
    if dims is None or type(dims) is int:
        return (dims,) * structure.num_leaves
    found: list[Any] = tree.up_to("the mapped axes", structure, dims)
    if not all(at is None or (isinstance(at, int) and not isinstance(at, bool)) for at in found):
        raise RuleResultError(f"the mapped axes are said by integers, and None where there is none; got {dims!r}")
    return tuple(found)
