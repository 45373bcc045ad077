"""From functions of lists of arrays to programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any, final

from attrs import frozen

from tinyjax.collecting import FewCollections
from tinyjax.contexts.cells import Cell, Staged, written
from tinyjax.contexts.staging import StagingContext
from tinyjax.control.manual import OPEN, Scope
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import FLOAT0
from tinyjax.ir.merging import completed
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.value import ConcreteValue
from tinyjax.stack import with_room
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import ConcreteArray
from tinyjax.tracing.core import activate
from tinyjax.tracing.functions import FlatFunction, float0_zeros
from tinyjax.tracing.nesting import check_nesting

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef


@final
@frozen(eq=False)
class Traced:
    """A function staged out: its program, the arrays that feed the program's first inputs, the tree of its results.

    `erased` are the results of dtype float0, by their positions, where the program returns the others only. The last
    inputs and results are what `cells` hold before and after.
    """

    jaxpr: Jaxpr
    captured: tuple[Array, ...]
    treedef: PyTreeDef
    erased: Mapping[int, Array]
    cells: tuple[Cell[Array], ...] = ()

    @property
    def closed(self) -> bool:
        """Whether the function closed over nothing that another transformation is tracing."""
        mine = (isinstance(array, ConcreteArray) for array in self.captured)
        return all(mine) and all(cell.lasting for cell in self.cells)

    @property
    def single(self) -> bool:
        """Whether the function returns one array, and nothing around it."""
        return not self.erased and not self.cells and tree.is_leaf(self.treedef)

    @property
    def assemble(self) -> Callable[[Sequence[Any]], Any] | None:
        """What makes the same of them as `results`, without a step between; None if the function is `single`."""
        if self.single:
            return None
        return self.results if self.erased or self.cells else self.treedef.unflatten

    def results(self, outs: Sequence[Array], stored: Sequence[bool] | None = None) -> Any:  # the user's own tree
        """The tree of the function's results, for the results of the program. Cells hold theirs from now on, where they
        are written to, or those that are to be `stored`."""
        if self.cells:
            outs, last = outs[: -len(self.cells)], outs[-len(self.cells) :]
            for cell, value in compress(zip(self.cells, last, strict=True), stored or written(self.jaxpr, len(last))):
                cell.store(value)
        if self.erased:
            outs = completed(self.erased, outs, self.treedef.num_leaves)
        return tree.unflatten(self.treedef, outs)


def trace(
    f: FlatFunction,
    avals: Sequence[ShapedArray],
    *,
    erase_float0: bool = False,
    scope: Scope = OPEN,
    writes: bool = False,
) -> Traced:
    """Stages a function on inputs of these types. `erase_float0` leaves results of dtype float0 out of the program.
    With `writes`, it may write to cells outside; otherwise what it reads of them is closed over.

    Functions that call each other may nest as deep as they like: each is traced with room on the stack. A
    RecursiveTracingError if there is no end.
    """
    check_nesting(f, avals)
    with FewCollections():
        return with_room(lambda: _trace(f, avals, erase_float0, scope, writes))


def _trace(f: FlatFunction, avals: Sequence[ShapedArray], erase_float0: bool, scope: Scope, writes: bool) -> Traced:
    context = StagingContext(varying=scope.varying, values=scope.values)
    with activate(context, f, scope.axes) as frame, frame:
        cells = Staged[Array](lambda aval: frame.wrap(context.argument(aval)))
        frame.cells = cells if writes else None
        results = f([frame.wrap(context.argument(aval)) for aval in avals])
        numbered = enumerate(results.arrays if erase_float0 else ())
        erased = {i: float0_zeros(array.aval.shape) for i, array in numbered if array.aval.dtype == FLOAT0}
        outs = [frame.read(array) for i, array in enumerate(results.arrays) if i not in erased]
        outs += map(frame.read, cells.values.values())
    staged = context.finish(outs, f.input_names())
    captured = [ConcreteArray(value) if isinstance(value, ConcreteValue) else value for value in staged.captured]
    known = tuple(value for value in captured if isinstance(value, Array))
    return Traced(staged.jaxpr, known, results.treedef, erased, tuple(cells.values))
