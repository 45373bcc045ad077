"""Trees of arrays as one vector, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar, final

from attrs import frozen

from tinyjax.arrays.arithmetic import real
from tinyjax.arrays.elementwise import astype
from tinyjax.arrays.promotion import result_type
from tinyjax.arrays.shaping import concatenate, reshape
from tinyjax.arrays.shaping import ravel as raveled
from tinyjax.errors import InputError, ShapeError
from tinyjax.ir.dtypes import COMPLEXES, FLOAT32, DType
from tinyjax.ir.shapes import Shape
from tinyjax.ir.shared_types import array_type
from tinyjax.ir.value import ConcreteValue
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import ConcreteArray, as_array
from tinyjax.tracing.functions import as_arrays

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef

T = TypeVar("T")


@final
@frozen
class Unravel(Generic[T]):
    """A function from vectors to trees: what `ravel` returns besides the vector. Compared by value.

    The vector is of dtype `dtype`; None, if all leaves are of one: then any will do, and the leaves are of that.
    """

    treedef: PyTreeDef
    shapes: tuple[Shape, ...]
    dtypes: tuple[DType, ...]
    dtype: DType | None

    @property
    def size(self) -> int:
        """How many elements the tree has in all."""
        return sum(array_type(shape, FLOAT32).size for shape in self.shapes)

    def __call__(self, flat: ArrayLike, /) -> T:
        """The tree with the elements of a vector."""
        vector = as_array(flat)
        if vector.aval.shape != (self.size,):
            raise ShapeError(
                f"unravel: the tree has {self.size} elements: it takes a vector of so many, not {vector.aval}"
            )
        if self.dtype is not None and vector.aval.dtype != self.dtype:
            raise InputError(
                f"unravel: the vector must have dtype {self.dtype.name}, that of the one which was made of the tree, "
                f"as its leaves are of several; got {vector.aval.dtype.name}. Convert it: astype('{self.dtype.name}')."
            )
        leaves: list[Array] = []
        start = 0
        for shape, dtype in zip(self.shapes, self.dtypes, strict=True):
            stop = start + array_type(shape, dtype).size
            part = reshape(vector[start:stop], shape)
            if self.dtype in COMPLEXES and dtype not in COMPLEXES:
                part = real(part)  # it was real before
            leaves.append(part if self.dtype is None else astype(part, dtype))
            start = stop
        found: T = tree.unflatten(self.treedef, leaves)
        return found


def ravel(pytree: T) -> tuple[Array, Unravel[T]]:
    """All elements of a tree of arrays as one vector, and the function that makes a tree of such a vector.

    The vector is of the dtype that all leaves are promoted to; of a tree without leaves, an empty one of float32.

    >>> vector, unravel = ravel({"w": [1.0, 2.0], "b": 3.0})
    >>> vector
    Array([3., 1., 2.], dtype=float64)
    >>> unravel(2 * vector)
    {'b': Array(6., dtype=float64), 'w': [Array(2., dtype=float64), Array(4., dtype=float64)]}
    """
    leaves, treedef = tree.flatten(pytree)
    arrays = as_arrays(leaves, lambda i: f"ravel: the leaf{tree.paths(treedef)[i]}")
    if not arrays:
        empty = ConcreteArray(ConcreteValue.of(FLOAT32.type(0).reshape(1)[:0]))
        return empty, Unravel(treedef, (), (), None)
    avals = [array.aval.strengthen() for array in arrays]
    dtype, _ = result_type(avals)
    shapes, dtypes = tuple(aval.shape for aval in avals), tuple(aval.dtype for aval in avals)
    vector = concatenate([raveled(astype(array, dtype)) for array in arrays], 0)
    return vector, Unravel(treedef, shapes, dtypes, None if set(dtypes) == {dtype} else dtype)
