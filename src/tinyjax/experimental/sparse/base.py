"""What all sparse arrays have in common, and what may be said against using them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import NoReturn, Self

from typing_extensions import override

from tinyjax.errors import InputError, UnsupportedError
from tinyjax.ir.dtypes import DType
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tree.nodes import is_node, register_pytree_node_class


class SparseEfficiencyError(InputError, ValueError):
    """What is asked for can be done, but would store many zeros."""


class SparseEfficiencyWarning(UserWarning):
    """The same, where it was said that a warning is enough."""


class CuSparseEfficiencyWarning(SparseEfficiencyWarning):
    """JAX's, where cuSPARSE isn't used; nothing here gives it."""


class JAXSparse(ABC):  # noqa: PLW1641 (== is refused)
    """An array of which the elements that may be other than zero are stored, and where they are.

    It is a node of trees, whose leaves are the arrays that it consists of: `jit`, `vmap`, `scan` and their like take
    and return it. What is known without them, such as the sizes of sparse dimensions, belongs to the structure.
    """

    __slots__ = ("__weakref__", "data")

    #: The stored elements.
    data: Array
    # NumPy arrays on the left of an operator leave it to us.
    __array_priority__ = 2000

    def __init__(self) -> None:
        if not is_node(type(self)):  # at the first one, so that importing this imports nothing of JAX
            register_pytree_node_class(type(self))

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The shape of the array that this stands for."""

    @property
    @abstractmethod
    def nse(self) -> int:
        """The number of stored elements; in each batch, if there are batches."""

    @abstractmethod
    def tree_flatten(self) -> tuple[tuple[Array, ...], Hashable]:
        """Its arrays, and what else there is to know."""

    @classmethod
    @abstractmethod
    def tree_unflatten(cls, aux_data: Hashable, children: Iterable[Array]) -> Self:
        """One with these arrays, or with what a tree has in their place."""

    @abstractmethod
    def todense(self) -> Array:
        """The array itself."""

    @abstractmethod
    def transpose(self, axes: Sequence[int] | None = None) -> JAXSparse:
        """The axes in another order; reversed by default."""

    @property
    def dtype(self) -> DType:
        return self.data.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def T(self) -> JAXSparse:  # noqa: N802
        """The axes in reverse order."""
        return self.transpose()

    def block_until_ready(self) -> Self:
        """Waits until its arrays are there. Returns itself."""
        for array in self.tree_flatten()[0]:
            array.block_until_ready()
        return self

    def _extra(self) -> Iterator[str]:
        """What is said of it besides its type and `nse`."""
        yield from ()

    @override
    def __eq__(self, other: object) -> bool:
        raise self._lacking("==")

    def __len__(self) -> int:
        return self.shape[0]

    @override
    def __repr__(self) -> str:
        name = type(self).__name__
        try:
            extra = "".join(f", {word}" for word in self._extra())
            shown = f"{name}({self.dtype}{list(self.shape)}, nse={self.nse}{extra})"
            known = self.data.concrete() is not None
        except Exception:  # noqa: BLE001 (a tree may have anything in the place of arrays)
            return f"{name}(<invalid>)"
        return shown if known else f"Tracer[{shown}]"

    def __array__(self, dtype: object = None, copy: object = None) -> NoReturn:
        raise InputError(
            f"{self!r} isn't made an array of unasked. Write .todense() if it is to be dense, or apply "
            "`tinyjax.experimental.sparse.sparsify` to the function that takes it."
        )

    # What isn't defined for all of them says so.

    def __matmul__(self, other: ArrayLike | JAXSparse) -> Array | JAXSparse:
        raise self._lacking("@")

    def __rmatmul__(self, other: ArrayLike | JAXSparse) -> Array | JAXSparse:
        raise self._lacking("@")

    def _lacking(self, what: str) -> UnsupportedError:
        return UnsupportedError(
            f"{what} isn't defined for {self!r}. A BCOO has more operations: see `BCOO` and `sparsify`; or write "
            ".todense() if the result may be dense."
        )
