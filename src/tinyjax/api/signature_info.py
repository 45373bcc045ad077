"""What stages of compilation say of the arguments and results of a function: trees of their types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

from attrs import frozen

from tinyjax.api.structs import ShapeDtypeStruct, lying_type
from tinyjax.backend import Asked
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import DType
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.shapes import Shape
from tinyjax.lax.explicit import along_explicit
from tinyjax.meshes import NamedSharding, PartitionSpec, Sharding
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
    program, nor outputs. `lie` says how its inputs lie, as far as that is known.
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
        lie: Sequence[Sharding | None],
    ) -> None:
        self.in_tree: Final = in_tree
        self.out_tree: Final = out_tree
        self._ins = list(in_avals)
        self._donated = tuple(donated)
        self._outs = list(out_avals)
        self._without_inputs = without_inputs
        self._without_outputs = without_outputs
        self._lie = lie or [None] * len(in_avals)

    @property
    def args_info(self) -> Any:  # the user's trees
        """`(args, kwargs)`, with an ArgInfo for each leaf."""
        infos = [ArgInfo(aval, given) for aval, given in zip(self._ins, self._donated, strict=True)]
        return self.arguments(infos, lambda aval: ArgInfo(aval, False))

    @property
    def in_avals(self) -> Any:  # the user's trees
        """`(args, kwargs)`, with the type of each leaf, which says how it lies along Explicit axes of a mesh."""
        pairs = zip(self._ins, self._lie, strict=True)
        return self.arguments([type_where(aval, sharding) for aval, sharding in pairs], lambda aval: aval)

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

    def out_avals(self, jaxpr: Jaxpr, lie: Sequence[Sharding | None], asked: Asked | None) -> Any:  # the user's tree
        """The tree of the results' types, which say how these lie along Explicit axes of a mesh."""
        from tinyjax.backend.explicit import explicit_types  # few programs need it

        ins, said = lying_inputs(len(jaxpr.invars), lie, asked), () if asked is None else asked.outs
        found: Sequence[Sharding | None] = explicit_types(jaxpr, ins, said)
        if not found:
            mesh = next((each.mesh for each in (*ins, *said) if isinstance(each, NamedSharding)), None)
            somewhere = None if mesh is None else NamedSharding(mesh, PartitionSpec())
            found = [each or somewhere for each in said or [None] * len(self._outs)]
        types = [type_where(aval, sharding) for aval, sharding in zip(self._outs, found, strict=False)]
        return self.results(types, lambda aval: aval)

    def out_info(self, shardings: Sequence[Sharding | None] = ()) -> Any:  # the user's tree
        """The tree of the results' types, which say how these lie, as far as that is known."""
        lie = shardings or [None] * len(self._outs)
        structs = [
            ShapeDtypeStruct.like(aval).update(sharding=found) for aval, found in zip(self._outs, lie, strict=True)
        ]
        return self.results(structs, lambda aval: ShapeDtypeStruct(aval.shape, aval.dtype))


def lying_inputs(count: int, lie: Sequence[Sharding | None], asked: Asked | None) -> tuple[Sharding | None, ...]:
    """How the last `count` inputs of a program lie: as is asked, or as arguments do, or on the mesh in force."""
    force = None if asked is None or asked.mesh is None else NamedSharding(asked.mesh, PartitionSpec())
    own, said = (
        (*[None] * count, *each)[-count:] if count else () for each in (lie, () if asked is None else asked.ins)
    )
    return tuple([one or other or force for one, other in zip(said, own, strict=True)])


def type_where(aval: ShapedArray, sharding: Sharding | None) -> ShapedArray | ShapeDtypeStruct:
    """The type of an array that lies so: it says along which Explicit axes of a mesh."""
    if not isinstance(sharding, NamedSharding) or sharding.mesh.empty:
        return aval
    return lying_type(aval, along_explicit(sharding, aval.ndim))


def _inserted(
    found: Sequence[T], without: Sequence[tuple[int, ShapedArray]], make: Callable[[ShapedArray], T]
) -> list[T]:
    leaves = list(found)
    for i, aval in without:
        leaves.insert(i, make(aval))
    return leaves
