"""What lower layers need of higher ones, and the top of the library hands them when it is imported."""

from collections.abc import Callable
from types import ModuleType
from typing import Final, Generic, TypeVar, final

T = TypeVar("T")


@final
class Deferred(Generic[T]):
    """Something that is made once, when it is first needed."""

    __slots__ = ("_made", "_make")

    def __init__(self) -> None:
        self._make: Callable[[], T] | None = None
        self._made: T | None = None

    def hand(self, make: Callable[[], T]) -> None:
        """Says how it is made. It may be made twice if several threads need it at the same time."""
        self._make = make

    def __call__(self) -> T | None:
        """None as long as nothing has been handed down."""
        if self._made is None and self._make is not None:
            self._made = self._make()
        return self._made


#: Fills the registry of all primitives that come with the library.
FILL_REGISTRY: Final = Deferred[ModuleType]()
#: The functions that do for arrays what NumPy's do, for messages.
NUMPY_FUNCTIONS: Final = Deferred[ModuleType]()
