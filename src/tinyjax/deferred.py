"""What lower layers need of higher ones, which hand it down when they are imported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Final, Generic, TypeVar, final

if TYPE_CHECKING:
    from tinyjax.ir.aval import ShapedArray
    from tinyjax.ir.program import ClosedJaxpr, Jaxpr
    from tinyjax.meshes import Device, Mesh
    from tinyjax.meshes.device import Physical
    from tinyjax.meshes.named import NamedSharding
    from tinyjax.tracing.array import Array

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


#: A device as XLA has it, for what is to be known of it; a ChoiceError if this process has none such.
PHYSICAL: Final[Deferred[Callable[[Device], Physical]]] = Deferred()
#: How an array with so many axes lies that is on no mesh.
ON_NO_MESH: Final[Deferred[Callable[[int], NamedSharding]]] = Deferred()
#: The number of this process among those that work together.
PROCESS_INDEX: Final = Deferred[Callable[[], int]]()
#: How products are computed that don't say so themselves.
PRECISION: Final = Deferred[Callable[[], object]]()
#: Puts a mesh in force, and takes it back.
ENTER_MESH: Final = Deferred[Callable[["Mesh"], object]]()
LEAVE_MESH: Final = Deferred[Callable[[], None]]()
#: Fills the registry of all primitives that come with the library.
FILL_REGISTRY: Final = Deferred[Callable[[], ModuleType]]()
#: The classes of programs that `experimental` makes.
EXPERIMENTAL: Final[Deferred[Callable[[], Sequence[type]]]] = Deferred()
#: Brings the rule by which a run of equal blocks becomes a loop.
FILL_LOOPING: Final = Deferred[Callable[[], ModuleType]]()
#: The functions that do for arrays what NumPy's do, for messages.
NUMPY_FUNCTIONS: Final = Deferred[Callable[[], ModuleType]]()
#: `fori_loop`, for what is done a number of times that isn't known.
FORI_LOOP: Final[Deferred[Callable[[int, Array, Callable[[Array, Array], Array], Array], Array]]] = Deferred()
#: The result of a function of arrays, which lies on a mesh as is said.
LAID_OUT: Final[Deferred[Callable[[Callable[..., Array], Sequence[Array], object], Array]]] = Deferred()
#: The program of samples of gamma distributions, for operands of these types, or of their logarithms.
RANDOM_GAMMA: Final[Deferred[Callable[[bool, Sequence[ShapedArray]], ClosedJaxpr]]] = Deferred()
#: The program of what JAX's `get`, `swap` or `addupdate` do with what a Ref holds, at an index that was written.
AT_REF: Final[Deferred[Callable[[str, object, Sequence[ShapedArray]], Jaxpr]]] = Deferred()
#: `vmap`, for functions that are defined by it: of a function, and of the axes of its arguments.
VMAP: Final = Deferred[Callable[[Callable[..., object], tuple[int | None, ...]], Callable[..., object]]]()
