"""What nothing reads can't fail: forward mode through a custom_vjp function, or lowering without a rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tinyjax.errors import ForwardModeError, MissingRuleError
from tinyjax.ir.effects import must_stay
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.roles import Evaluator
from tinyjax.ir.value import ConcreteValue
from tinyjax.transforms.dce import dce

R = TypeVar("R")


def but_for_unread(run: Callable[[Jaxpr], R], jaxpr: Jaxpr) -> R:
    """`run(jaxpr)`. If that ends in a ForwardModeError, another try without what no output depends on, provided that
    nobody can see that there were two."""
    try:
        return run(jaxpr)
    except ForwardModeError:
        cleaned = jaxpr if must_stay(jaxpr.effects) else dce(jaxpr)
        if cleaned == jaxpr:
            raise
    return run(cleaned)


def lowered_but_for_unread(run: Callable[[Jaxpr], R], jaxpr: Jaxpr) -> R:
    """The same where nobody sees what `run` does, so effects don't matter; for primitives without a rule, too."""
    try:
        return run(jaxpr)
    except (ForwardModeError, MissingRuleError):
        cleaned = dce(jaxpr)
        if cleaned == jaxpr:
            raise
    return run(cleaned)


def evaluate(evaluator: Evaluator, jaxpr: Jaxpr, args: Sequence[ConcreteValue], name: str) -> Sequence[ConcreteValue]:
    """The results of a program within a program: equation by equation where its arguments are on the host."""
    if not all(arg.on_host for arg in args):
        return evaluator.execute(jaxpr, args, name)
    return but_for_unread(lambda program: evaluator.interpret(program, args), jaxpr)
