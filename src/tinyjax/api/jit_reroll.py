"""Programs of jitted functions with loops in the place of layers that repeat themselves."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Literal, TypeAlias, final

from attrs import evolve, frozen

from tinyjax.errors import InputError
from tinyjax.tracing.programs import Traced
from tinyjax.transforms.reroll import reroll

#: What `jit` takes as `reroll`.
Choice: TypeAlias = bool | Literal["auto"]
#: How many equations a loop must save: when one asks for loops, so that a chain of three sums stays what it is; and for
#: it to pay, as a loop and its stacks take about as long to compile as so many equations.
ASKED: Final = 100
PAYS: Final = 1000


@final
@frozen
class Rerolling:
    """That programs are to have loops which save `at_least` so many equations each."""

    at_least: int

    @staticmethod
    def of(choice: object) -> Rerolling | None:
        """What a caller of `jit` says; None: programs stay as they are."""
        if choice == "auto" and isinstance(choice, str):
            return Rerolling(PAYS)
        if not isinstance(choice, bool):
            raise InputError(f"jit: reroll is True, False or 'auto', got {choice!r}")
        return Rerolling(ASKED) if choice else None

    def rolled(self, traced: Traced) -> Traced:
        """The function, with such a program."""
        return evolve(traced, jaxpr=reroll(traced.jaxpr, at_least=self.at_least))


def remembered_by(signature: Hashable, rerolling: Rerolling | None) -> Hashable:
    """What the traced program for a signature is remembered by."""
    return signature if rerolling is None else (rerolling, signature)
