"""What lower layers need of higher ones, and the top of the library hands them when it is imported."""

from collections.abc import Callable
from typing import Final, final


@final
class Deferred:
    """Something that is done once, when it is first needed."""

    __slots__ = ("_action",)

    def __init__(self) -> None:
        self._action: Callable[[], object] | None = None

    def hand(self, action: Callable[[], object]) -> None:
        """Says what is to be done. It may be done twice if several threads need it at the same time."""
        self._action = action

    def __call__(self) -> None:
        action = self._action
        if action is not None:
            action()
            self._action = None


#: Fills the registry of all primitives that come with the library.
FILL_REGISTRY: Final = Deferred()
