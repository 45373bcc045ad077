"""From the functions that users give to a loop to programs whose carry keeps its type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, final

from attrs import evolve, frozen

from tinyjax.arrays.elementwise import astype
from tinyjax.arrays.promotion import result_type
from tinyjax.control.manual import OPEN, Scope
from tinyjax.errors import InputError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import FLOAT0
from tinyjax.ir.merging import completed
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.shapes import Axes
from tinyjax.ir.varying import without
from tinyjax.lax.explicit import Given, of_arguments
from tinyjax.lax.mesh_in_force import enter_mesh
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.functions import FlatFunction, argument_path, float0_zeros, located
from tinyjax.tracing.programs import Traced, trace

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef


def stage(
    what: str,
    f: Callable[..., object],
    treedef: PyTreeDef,
    avals: Sequence[ShapedArray],
    scope: Scope = OPEN,
    static: Mapping[int, object] | None = None,
    lies: Given | None = None,
    writes: bool = False,
) -> Traced:
    """Stages f on leaves of these types, which may lie on a mesh. Leaves of dtype float0 are no inputs of the program,
    nor outputs. `static` are leaves that f gets as they are, by their positions. With `writes`, f may change cells."""
    positions = [i for i in range(treedef.num_leaves) if i not in static] if static else range(len(avals))
    fixed = dict(static or {})
    fixed |= {i: float0_zeros(aval.shape) for i, aval in zip(positions, avals, strict=True) if aval.dtype == FLOAT0}
    function, kept = FlatFunction(f, what, treedef, fixed=fixed), [aval for aval in avals if aval.dtype != FLOAT0]
    if lies is None:
        return trace(function, kept, erase_float0=True, scope=scope, writes=writes)
    with enter_mesh(lies.mesh, lies.lies):
        return trace(function, kept, erase_float0=True, scope=scope, writes=writes)


def out_avals(traced: Traced) -> list[ShapedArray]:
    """The types of all leaves of the results."""
    avals = list(traced.jaxpr.out_avals)[: traced.treedef.num_leaves - len(traced.erased)]
    if not traced.erased:
        return avals
    erased = {i: array.aval for i, array in traced.erased.items()}
    return completed(erased, avals, traced.treedef.num_leaves)


def described(traced: Traced) -> str:
    """What a traced function returned, for messages: its types, in a tree."""
    types = list(map(str, out_avals(traced)))
    if traced.treedef.num_nodes == 1 and len(types) == 1:
        return types[0]
    return f"{tree.shown(traced.treedef)} of ({', '.join(types)})" if types else tree.shown(traced.treedef)


@final
@frozen(eq=False)
class Body:
    """A staged body, and the first carry, converted to the types that the body asks for."""

    traced: Traced
    carry: list[Array]

    @property
    def jaxpr(self) -> Jaxpr:
        return self.traced.jaxpr

    @property
    def captured(self) -> tuple[Array, ...]:
        return self.traced.captured


def stage_body(
    what: str,
    f: Callable[..., object],
    treedef: PyTreeDef,
    carry_tree: PyTreeDef,
    carry: Sequence[Array],
    slices: Sequence[ShapedArray] = (),
    *,
    returns_pair: bool = False,
    varying: Axes = (),
    scanned: Sequence[Array] = (),
) -> Body:
    """Stages the body of a loop, which takes a carry and slices, and returns a carry, or a pair of a carry and more.

    `treedef` is the structure of all its arguments, whose first leaves are the carry's, `carry_tree` that of the carry.
    A weakly typed carry that the body returns with another dtype is converted to what both promote to, and the body is
    staged again; so is a carry that the body returns varying along more axes of a mesh. A TreeError or an InputError if
    the carry doesn't keep its structure, shapes and dtypes.
    """
    lies, scope = of_arguments(carry, scanned), Scope(varying=varying)
    traced = stage(what, f, treedef, [*(x.aval for x in carry), *slices], scope, lies=lies, writes=True)
    returned = _carry_avals(what, f, traced, carry_tree, returns_pair)
    promoted = [_promoted(x, aval) for x, aval in zip(carry, returned, strict=True)]
    if any(new is not old for new, old in zip(promoted, carry, strict=True)):
        traced = stage(what, f, treedef, [*(x.aval for x in promoted), *slices], scope, lies=lies, writes=True)
        returned = _carry_avals(what, f, traced, carry_tree, returns_pair)
    _check_types(what, f, treedef, [x.aval for x in promoted], returned)
    from tinyjax.lax.binding import varied  # few are on meshes

    while any(without(new.axes, old.aval.axes) for new, old in zip(returned, promoted, strict=True)):
        promoted = [varied(x, aval.axes) for x, aval in zip(promoted, returned, strict=True)]
        traced = stage(what, f, treedef, [*(x.aval for x in promoted), *slices], scope, lies=lies, writes=True)
        returned = _carry_avals(what, f, traced, carry_tree, returns_pair)
    return Body(_varying_alike(traced, promoted), promoted)


def _varying_alike(traced: Traced, carry: Sequence[Array]) -> Traced:
    """The body, whose first results, the carry, vary along the axes of a mesh along which the carry does."""
    own = [x.aval.axes for x in carry if x.aval.dtype != FLOAT0]
    avals = list(traced.jaxpr.out_avals)
    if all(aval.axes == axes for aval, axes in zip(avals, own, strict=False)):
        return traced
    from tinyjax.control.branches import with_types

    avals[: len(own)] = [aval.varying_over(axes) for aval, axes in zip(avals, own, strict=False)]
    return evolve(traced, jaxpr=with_types(traced.jaxpr, avals).named_by(traced.jaxpr.names))


def _carry_avals(
    what: str, f: Callable[..., object], traced: Traced, carry_tree: PyTreeDef, returns_pair: bool
) -> list[ShapedArray]:
    """The types of the carry that a body returns."""
    found = tree.first_of_pair(traced.treedef) if returns_pair else traced.treedef
    if found is not None and found == carry_tree:
        return out_avals(traced)[: carry_tree.num_leaves]
    returned = tree.unflatten(traced.treedef, range(traced.treedef.num_leaves))
    if returns_pair:
        if not isinstance(returned, tuple | list) or len(returned) != 2:
            raise InputError(
                f"{what}: {located(f)} must return a pair (carry, y), got {described(traced)}. Return "
                "(carry, None) if there is nothing to stack."
            )
        returned = returned[0]
    found = tree.flatten(returned)[1]
    takes, returns = f"the carry that {located(f)} takes", "the carry that it returns"
    tree.check_same_structure(what, carry_tree, found, takes, returns)
    return out_avals(traced)[: carry_tree.num_leaves]


def _promoted(x: Array, returned: ShapedArray) -> Array:
    aval = x.aval
    if not aval.weak_type or aval.matches(returned):
        return x
    return astype(x, result_type([aval, returned])[0])


def _check_types(
    what: str,
    f: Callable[..., object],
    treedef: PyTreeDef,
    taken: Sequence[ShapedArray],
    returned: Sequence[ShapedArray],
) -> None:
    wrong = [
        f"  {argument_path(f, treedef, i)} is {before}, but {after} is returned for it: "
        f"the {_difference(before, after)} differ"
        for i, (before, after) in enumerate(zip(taken, returned, strict=True))
        if not before.matches(after)
    ]
    if wrong:
        lines = "\n".join(wrong)
        raise InputError(
            f"{what}: {located(f)} must return a carry of the types that it takes, but they differ:\n{lines}\n"
            "Change the function, or the carry that the loop starts with, for example with astype or reshape."
        )


def _difference(before: ShapedArray, after: ShapedArray) -> str:
    if before.shape == after.shape:
        return "dtypes"
    return "shapes" if before.dtype == after.dtype else "shapes and dtypes"
