"""The interpreter of `sparsify`: a program of arrays, run on values of which some are sparse.

    a + b * c        with b sparse:    the stored elements of b times those of c in their places; then, as a is dense,
                                       these are added to a

A value is one of the parent's, or `Held`: the parts of a sparse array, and its layout, which is known when the program
is transformed. The rules (`SPARSE_RULES`) are functions of sparse arrays: each is traced for parts of these types, and
the program that comes of it is run on the parent. So `sparsify` works within all other
transformations, and they within it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeAlias, final

from attrs import frozen
from typing_extensions import override

from tinyjax.errors import InputError
from tinyjax.experimental.sparse.base import JAXSparse
from tinyjax.interpreters.base import RuleContext, Rules, rule_table
from tinyjax.interpreters.hidden import Hidden
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.interpret import interpret
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.roles import Origin
from tinyjax.ir.value import ConcreteValue
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.functions import FlatFunction
from tinyjax.tracing.programs import trace


@final
@frozen
class Layout:
    """What is known of a sparse array without its parts: its class, what else its node knows, shapes of the parts."""

    kind: type[JAXSparse]
    aux: Hashable
    shapes: tuple[tuple[int, ...], ...]

    def of(self, parts: Sequence[Any]) -> JAXSparse:
        """The sparse array with these parts, or with what stands for them."""
        return self.kind.tree_unflatten(self.aux, parts)


@final
@frozen
class Held:
    """The parts of a sparse array, as values of the parent."""

    parts: tuple[Hidden, ...]
    layout: Layout


Value: TypeAlias = Hidden | Held
#: What a rule does: a function of the primitive and of operands that are sparse or not.
Function: TypeAlias = Callable[..., "JAXSparse | Array | Sequence[JAXSparse | Array]"]
SparseRules: TypeAlias = Rules[Value, "Layout | None"]
SPARSE_RULES: SparseRules = rule_table("Sparse", name="tinyjax.experimental.sparse.SPARSE_RULES")
SPARSE_RULES.lacks(
    Primitive,
    "what it gives for zeros isn't zero, or it isn't known to be. If the result may be dense, write "
    "sparse.todense(x) of its operand",
)


@final
class SparseContext(RuleContext[Value, "Layout | None"]):
    """Runs programs on values that are sparse or not; on those that aren't as the parent does."""

    __slots__ = ()
    rules = SPARSE_RULES

    @override
    def bind(self, primitive: Primitive, *args: Value) -> tuple[Value, ...]:
        dense = [arg for arg in args if not isinstance(arg, Held)]
        if len(dense) == len(args):
            return self.parent.bind(primitive, *dense)
        return super().bind(primitive, *args)

    @override
    def pure(self, value: Hidden) -> Value:
        return value

    @override
    def primal(self, value: Value) -> Hidden:
        if not isinstance(value, Held):
            return value
        (dense,) = self.call(lambda x: x.todense(), [value])
        if isinstance(dense, Held):
            raise InputError(f"{value.layout.kind.__name__}.todense returns a sparse array")
        return dense

    @override
    def flatten(self, value: Value) -> tuple[Sequence[Hidden], Layout | None]:
        return (value.parts, value.layout) if isinstance(value, Held) else ([value], None)

    @override
    def unflatten(self, structure: Layout | None, parts: Sequence[Hidden]) -> Value:
        return parts[0] if structure is None else Held(tuple(parts), structure)

    @override
    def join(self, first: Layout | None, second: Layout | None) -> Layout | None:
        if first == second:
            return first
        shown = [layout_shown(layout) for layout in (first, second)]
        raise InputError(
            f"sparsify: a value is {shown[0]} in one branch or iteration and {shown[1]} in another. Both must be "
            "stored in the same way: write sparse.todense(x), or sum_duplicates(nse=), before."
        )

    @override
    def element(self, structure: Layout | None) -> Layout | None:
        if structure is None:
            return None
        lengths = {shape[:1] for shape in structure.shapes}
        if len(lengths) > 1 or getattr(structure.of([_Shaped(shape) for shape in structure.shapes]), "n_batch", 0) < 1:
            raise InputError(
                f"sparsify: a loop goes over {layout_shown(structure)} along a dimension that is no batch "
                "dimension; update_layout(n_batch=1) makes it one."
            )
        return Layout(structure.kind, structure.aux, tuple(shape[1:] for shape in structure.shapes))

    @override
    def stacked(self, structure: Layout | None, length: int) -> Layout | None:
        if structure is None:
            return None
        return Layout(structure.kind, structure.aux, tuple((length, *shape) for shape in structure.shapes))

    @override
    def aval(self, value: Value) -> ShapedArray:
        if not isinstance(value, Held):
            return self.parent.aval(value)
        avals = list(map(self.parent.aval, value.parts))
        return ShapedArray(value.layout.of(avals).shape, avals[0].dtype)

    @override
    def concrete(self, value: Value) -> ConcreteValue | None:
        return None if isinstance(value, Held) else self.parent.concrete(value)

    @override
    def carries_tangent(self, value: Value) -> bool:
        return self.parent.carries_tangent(value.parts[0] if isinstance(value, Held) else value)

    @override
    def origin(self, value: Value) -> Origin:
        return self.parent.origin(value.parts[0] if isinstance(value, Held) else value)

    def call(self, function: Function, args: Sequence[Value]) -> list[Value]:
        """Applies a function of sparse arrays and others. Parts that operands share are the same array there."""
        parts: dict[int, Hidden] = {id(part): part for part in self.parts(args)}
        places = {key: i for i, key in enumerate(parts)}

        made: list[Layout | None] = []

        def run(*arrays: Array) -> list[Array]:
            operands: list[object] = []
            for arg in args:
                found, layout = self.flatten(arg)
                own = [arrays[places[id(part)]] for part in found]
                operands.append(own[0] if layout is None else layout.of(own))
            outs = function(*operands)
            made.clear()
            flat: list[Array] = []
            for out in [outs] if isinstance(outs, Array | JAXSparse) else outs:
                flat += out.tree_flatten()[0] if isinstance(out, JAXSparse) else [out]
                made.append(layout_of(out) if isinstance(out, JAXSparse) else None)
            return flat

        values = list(parts.values())
        flat_function = FlatFunction(run, "sparsify", tree.flatten(((0,) * len(values), {}))[1])
        traced = trace(flat_function, list(map(self.parent.aval, values)))
        captured = [array.into(self.parent) for array in traced.captured]
        rest = iter(interpret(self.parent, traced.jaxpr, [*captured, *values]))
        counts = [1 if layout is None else len(layout.shapes) for layout in made]
        return [
            self.unflatten(layout, [next(rest) for _ in range(count)])
            for layout, count in zip(made, counts, strict=True)
        ]


def layout_of(mat: JAXSparse) -> Layout:
    """What is known of a sparse array without its parts."""
    parts, aux = mat.tree_flatten()
    return Layout(type(mat), aux, tuple(part.shape for part in parts))


@final
@frozen
class _Shaped:
    """What stands for an array of which only the shape is known."""

    shape: tuple[int, ...]

    @property
    def ndim(self) -> int:
        return len(self.shape)


def layout_shown(layout: Layout | None) -> str:
    """A layout in words."""
    if layout is None:
        return "an array"
    return f"a {layout.kind.__name__} whose parts have shapes {', '.join(map(str, layout.shapes))}, {layout.aux}"
