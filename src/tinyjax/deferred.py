"""What lower layers need of higher ones, which hand it down when they are imported."""

from collections.abc import Callable
from types import ModuleType
from typing import Final, Generic, TypeVar, final

T = TypeVar("T")


@final
class Deferred(Generic[T]):
    """Something that a higher layer has, for a lower one to `use`."""

    __slots__ = ("use",)

    #: Not there before it has been handed down.
    use: T

    def hand(self, value: T) -> None:
        """Says what it is."""
        self.use = value


#: Fills the registry of all primitives that come with the library.
FILL_REGISTRY: Final = Deferred[Callable[[], ModuleType]]()
#: The functions that do for arrays what NumPy's do, for messages.
NUMPY_FUNCTIONS: Final = Deferred[Callable[[], ModuleType]]()
#: `vmap`, for functions that are defined by it: of a function, and of the axes of its arguments.
VMAP: Final = Deferred[Callable[[Callable[..., object], tuple[int | None, ...]], Callable[..., object]]]()
