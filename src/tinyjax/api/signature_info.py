"""What stages of compilation say of the arguments and results of a function: trees of their types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

from attrs import frozen

from tinyjax.api.structs import ShapeDtypeStruct
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import DType
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.shapes import Shape
from tinyjax.meshes import NamedSharding, Sharding
from tinyjax.tracing import tree

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef

T = TypeVar("T")


@final
@frozen
class ArgInfo:
    """The type of a leaf of the arguments, and whether its memory may be reused. Source: JAX."""

    aval: ShapedArray
    donated: bool

    @property
    def shape(self) -> Shape:
        return self.aval.shape

    @property
    def dtype(self) -> DType:
        return self.aval.dtype


@final
class Signature:
    """The trees of arguments, without static ones, and of results, with what a program says of their leaves.

    `without_inputs` and `without_outputs` are the leaves of dtype float0, by their numbers: these are no inputs of the
    program, nor outputs.
    """

    def __init__(
        self,
        in_tree: PyTreeDef,
        out_tree: PyTreeDef,
        in_avals: Sequence[ShapedArray],
        out_avals: Sequence[ShapedArray],
        donated: Sequence[bool],
        without_inputs: Sequence[tuple[int, ShapedArray]],
        without_outputs: Sequence[tuple[int, ShapedArray]],
    ) -> None:
        self.in_tree: Final = in_tree
        self.out_tree: Final = out_tree
        self._ins = [ArgInfo(aval, given) for aval, given in zip(in_avals, donated, strict=True)]
        self._outs = list(out_avals)
        self._without_inputs = without_inputs
        self._without_outputs = without_outputs

    @property
    def args_info(self) -> Any:  # the user's trees
        """`(args, kwargs)`, with an ArgInfo for each leaf."""
        return self.arguments(self._ins, lambda aval: ArgInfo(aval, False))

    @property
    def in_avals(self) -> Any:  # the user's trees
        """`(args, kwargs)`, with the type of each leaf."""
        return self.arguments([info.aval for info in self._ins], lambda aval: aval)

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """Which leaves of the arguments are donated."""
        leaves = tree.flatten(self.args_info)[0]
        return tuple([i for i, leaf in enumerate(leaves) if isinstance(leaf, ArgInfo) and leaf.donated])

    def arguments(self, found: Sequence[T], make: Callable[[ShapedArray], T]) -> Any:  # the user's trees
        """The trees of the arguments, with this for each input of the program, and what is made for other leaves."""
        return tree.unflatten(self.in_tree, _inserted(found, self._without_inputs, make))

    def results(self, found: Sequence[T], make: Callable[[ShapedArray], T]) -> Any:  # the user's tree
        """The same for the results."""
        return tree.unflatten(self.out_tree, _inserted(found, self._without_outputs, make))

    def out_types(
        self, jaxpr: Jaxpr, lie: Sequence[Sharding | None], asked: Sequence[Sharding | None]
    ) -> Any:  # the user's tree
        """The tree of the results' types. They say how the results lie where that is `asked`, and where inputs of the
        program lie along Explicit axes of a mesh."""
        if any(isinstance(each, NamedSharding) and each.mesh.explicit_axes for each in lie):
            from tinyjax.backend.explicit import explicit_types  # few programs need it

            return self.out_info(explicit_types(jaxpr, lie, asked)[: len(self._outs)])
        if any(asked) and len(asked) == len(self._outs):
            return self.out_info(asked)
        return self.results(self._outs, lambda aval: aval)

    def out_info(self, shardings: Sequence[Sharding | None] = ()) -> Any:  # the user's tree
        """The tree of the results' types, which say how these lie, as far as that is known."""
        lie = shardings or [None] * len(self._outs)
        structs = [
            ShapeDtypeStruct.like(aval).update(sharding=found) for aval, found in zip(self._outs, lie, strict=True)
        ]
        return self.results(structs, lambda aval: ShapeDtypeStruct(aval.shape, aval.dtype))


def _inserted(
    found: Sequence[T], without: Sequence[tuple[int, ShapedArray]], make: Callable[[ShapedArray], T]
) -> list[T]:
    leaves = list(found)
    for i, aval in without:
        leaves.insert(i, make(aval))
    return leaves
