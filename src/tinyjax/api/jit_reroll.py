"""Programs of jitted functions with loops in the place of layers that repeat themselves."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, final

from attrs import evolve, frozen

from tinyjax import backend
from tinyjax.api.devices import default_backend
from tinyjax.api.embedding import launched
from tinyjax.api.jit_traces import staged
from tinyjax.caching import remembered
from tinyjax.collecting import collecting_in_the_end
from tinyjax.errors import InputError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.program import Jaxpr
from tinyjax.lax.explicit import Given
from tinyjax.lax.within import Rewriting, rewriting_in_force
from tinyjax.prepared.runners import launch_of
from tinyjax.prepared.stacked import AnyLaunch, StackedLaunch, free, operands_in_stacks, results_of_stacks
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import ConcreteArray, active_frame
from tinyjax.tracing.programs import Traced

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef

    from tinyjax.transforms.border import Bordered

#: What `jit` takes as `reroll`.
Choice: TypeAlias = bool | Literal["auto"]
#: How many equations a loop must save when one asks for loops, so that a chain of three sums stays what it is; and how
#: many all of them must save for it to pay. A step on 6 layers of a transformer takes as long to compile with loops as
#: without, which save 770 equations there; on 4 layers it takes 1.4 times as long, and on 12 0.4 times.
ASKED: Final = 100
PAYS: Final = 1000
#: How many times as many equations a loop that is made before derivatives saves with what follows from it.
DERIVED: Final = 3
#: And how many it must save at least, to be of use to what must save so many times as much with its updates; at most
#: which part of these, or how many, may be left outside of it. Otherwise, and where there are many, loops are looked
#: for in the gradient, where there is more to be seen: a first layer that hands nothing back, say.
PART: Final = 10
LEFT: Final = 3
FEW: Final = 16
#: And how many loops there may be: an encoder's and a decoder's, say.
LOOPS: Final = 4
#: Smaller loops are looked for in programs of at most so many equations.
SHORT: Final = 4 * ASKED
#: With this, XLA sees on the CPU that a loop may write to the row that it has read; without, it copies whole stacks.
IN_PLACE: Final = ("xla_cpu_copy_insertion_use_region_analysis", True)
#: Functions of so many equations are spelled out where they are called, before repetitions are looked for.
SMALL: Final = 8


@final
@frozen
class Rerolling:
    """That programs are to have loops, if these save `in_all` so many equations. Each saves the first of `least`; the
    next will do where none is found before derivatives, or not for all that follows from it. Arrays up to the size of
    the `largest` are constants."""

    in_all: int
    least: tuple[int, ...]
    largest: int | None = None

    @staticmethod
    def of(choice: object, largest: int | None) -> Rerolling | None:
        """What a caller of `jit` says; None: programs stay as they are."""
        if choice == "auto" and isinstance(choice, str):
            return Rerolling(PAYS, (ASKED,), largest)
        if not isinstance(choice, bool):
            raise InputError(f"jit: reroll is True, False or 'auto', got {choice!r}")
        return Rerolling(ASKED, (ASKED, ASKED // DERIVED), largest) if choice else None

    @collecting_in_the_end
    def staged(
        self, function: Callable[..., object], treedef: PyTreeDef, avals: Sequence[ShapedArray], lies: Given | None
    ) -> Traced:
        """The function staged out, with such a program. What it differentiates has loops before: layers are gone
        through as often as there are only forwards, and the loops back follow from these. But not if that saves too
        little in all, or all gradients would have to be there together for what is computed of them."""
        from tinyjax.control.fused_loops import fused  # few ask for it
        from tinyjax.control.remade import remade
        from tinyjax.transforms.subtracted_maxima import subtracted_maxima

        before: list[int] = []
        loops: list[int] = []

        def first(traced: Traced) -> Traced:
            found, saved = self._with_any_loops(traced)
            count = _loops_of(found.jaxpr, max(saved // LEFT, FEW))
            if saved * PART < self.in_all or not 1 <= count <= LOOPS:
                return traced
            before.append(saved)
            loops.append(count)
            # What loops keep for the way back isn't seen to be nan there.
            return evolve(found, jaxpr=subtracted_maxima(found.jaxpr))

        with Rewriting(active_frame(), first) as frame, frame:
            traced = staged(function, treedef, avals, lies)
        best, enough = self._with_loops_before(traced, sum(before)) if before else (None, False)
        # What waits for several loops is in loops of its own, of which the gradient has fewer.
        waits = best is not None and max(loops) > 1 and _loops_of(best.jaxpr) > 2 * sum(loops)
        if best is None or not enough or waits:
            alone = staged_alone(function, treedef, avals, lies) if before else traced
            found, saved = self._with_loops(alone, ASKED)
            if found is not alone and saved >= self.in_all:
                if best is None or waits:  # otherwise, a gradient made of loops is the better one
                    best = evolve(found, jaxpr=fused(found.jaxpr))
            elif best is None or not enough:
                return alone
        return evolve(best, jaxpr=remade(best.jaxpr))

    def _with_loops_before(self, traced: Traced, saved_before: int) -> tuple[Traced | None, bool]:
        """The function whose parts had loops before they were differentiated, with loops in what is around them, too;
        and whether all of them save enough by estimate. None: all gradients would have to be there together."""
        from tinyjax.control.fused_loops import computes_of_rows, fused

        best: Traced | None = None
        for least in self.least:
            found, saved = self._with_loops(traced, least)
            joined = fused(_flat(found.jaxpr))
            if not computes_of_rows(joined):
                best = evolve(found, jaxpr=joined)
                if saved + DERIVED * saved_before >= self.in_all:
                    return best, True
        return best, False

    def _with_any_loops(self, traced: Traced) -> tuple[Traced, int]:
        """The function with loops, smaller ones if there are no others, and how many equations these save."""
        from tinyjax.transforms.sizes import Sizes

        for least in self.least:
            found, saved = self._with_loops(traced, least)
            if saved:
                return found, saved
            if Sizes().of_all(traced.jaxpr) > SHORT:  # of which a smaller loop would leave too much outside
                break
        return traced, 0

    def _with_loops(self, traced: Traced, least: int) -> tuple[Traced, int]:
        """The function, with loops in the place of layers, each of which saves at least so many equations, and how many
        all of them save."""
        from tinyjax.transforms.known_arrays import spelled_out
        from tinyjax.transforms.reroll import reroll
        from tinyjax.transforms.sizes import Sizes, of_rows

        # What is called once may be the model, as in a function of jax's: its weights are to be stacked out here. And
        # what is small is often part of an update, whose equations have to move to their layer.
        flat = _flat(traced.jaxpr)
        captured = [array.value if isinstance(array, ConcreteArray) else None for array in traced.captured]
        spelled, kept = spelled_out(flat, captured, self.largest)
        found = reroll(spelled, at_least=least, bordered=True)
        if found is spelled:
            return traced, 0
        size = Sizes()
        saved, added = size.of_all(flat) - size.of_all(found), of_rows(found.eqns) - of_rows(flat.eqns)
        return evolve(traced, jaxpr=found, captured=tuple([traced.captured[i] for i in kept])), saved - added


def _flat(jaxpr: Jaxpr) -> Jaxpr:
    """The program without calls of what is called once, or small: loops in it are seen by those around it."""
    from tinyjax.transforms.inline import inline, once_or_small

    return inline(jaxpr, once_or_small(jaxpr, SMALL))


def _loops_of(jaxpr: Jaxpr, most: int | None = None) -> int:
    """How many loops a program is, but for what makes rows for stacks, and at most so many other equations; otherwise,
    none."""
    from tinyjax.control.scan import Scan  # few ask for it
    from tinyjax.transforms.rows import expands

    others = [eqn for eqn in jaxpr.eqns if not eqn.invars or not expands(eqn)] if jaxpr.inner else []
    return 0 if most is not None and len(others) > most else sum(isinstance(eqn.primitive, Scan) for eqn in others)


def staged_alone(
    function: Callable[..., object], treedef: PyTreeDef, avals: Sequence[ShapedArray], lies: Given | None
) -> Traced:
    """A function staged out as it is, also where functions have loops: its program is for other calls, too."""
    if rewriting_in_force() is None:
        return staged(function, treedef, avals, lies)
    with Rewriting(active_frame(), None) as frame, frame:
        return staged(function, treedef, avals, lies)


@remembered
def _border(jaxpr: Jaxpr, first: int) -> tuple[Bordered | None]:
    from tinyjax.transforms.border import bordered  # few have loops

    return (bordered(jaxpr, first),)


def border_of(traced: Traced, asked: backend.Asked | None) -> Bordered | None:
    """The program for stacks, which is compiled in the place of one that has loops, if it is for one device."""
    jaxpr = traced.jaxpr
    if asked is not None or backend.lay_out(jaxpr, [None] * len(jaxpr.invars), asked, "") is not None:
        return None
    return _border(jaxpr, len(traced.captured))[0]


def on_cpu(platform: str | None = None) -> bool:
    """Whether this platform, or the default one, is the CPU: where calls put stacks together."""
    return (platform or default_backend()) == "cpu"


@final
@frozen
class Donation:
    """What is donated to a program for stacks: which inputs XLA may write results to; which operands, after the inputs
    that are closed over, are other stacks of nothing but donated rows; and the options with which it is compiled."""

    border: Bordered
    told: tuple[bool, ...] = ()
    freed: tuple[int, ...] = ()
    options: backend.Options = ()


def donated_in_stacks(border: Bordered, flags: Sequence[bool], first: int) -> Donation:
    """The program for stacks that is compiled, and what is donated to it, if that is said of the whole program's
    inputs, of which the `first` are closed over.

    Loops keep values for later ones in the memory of results, and write over the stacks of donated rows, as far as they
    can. Other donated stacks are freed by the caller: where XLA may write results to a stack that loops read, and isn't
    shown how, it copies the whole of it first.
    """
    from tinyjax.control.in_place import in_place  # few ask for it
    from tinyjax.control.shared_stacks import shared_stacks

    rows = enumerate(border.inputs if any(flags) else ())
    stacks = [i for i, place in rows if isinstance(place, tuple) and all(flags[at] for at in place)]
    border, written = in_place(border, stacks)
    program = shared_stacks(border.program)
    options = (IN_PLACE,) if written or program is not border.program else ()
    border = evolve(border, program=program)
    if not any(flags):
        return Donation(border, options=options)
    avals = program.in_avals
    # XLA gives memory to the first result of its type: those that are written over come first.
    types = {(avals[i].shape, avals[i].dtype) for i in written}
    told = [
        i in written
        or (not isinstance(place, tuple) and flags[place] and (avals[i].shape, avals[i].dtype) not in types)
        for i, place in enumerate(border.inputs)
    ]
    told = list(backend.usable(program, tuple(told)))
    return Donation(border, tuple(told), tuple([i - first for i in stacks if i not in written]), options)


def launched_first(
    traced: Traced,
    inputs: Sequence[Array],
    name: str,
    largest: int | None,
    donated: tuple[bool, ...],
    asked: backend.Asked | None,
    rolled: bool,
) -> tuple[Sequence[Array], Callable[[], AnyLaunch | None]]:
    """The results for what the function closes over and its arguments, none of which is traced; and what makes the
    launch for others like them. If it is `rolled`, in stacks, where they are all on the CPU."""
    n, avals = len(traced.captured), traced.jaxpr.out_avals
    arrays = [array for array in inputs if isinstance(array, ConcreteArray)]
    captured = [array.value for array in arrays[:n]]
    border = border_of(traced, asked) if rolled and on_cpu() else None
    values = None if border is None else operands_in_stacks(border, n, arrays[n:])
    if border is None or values is None:
        values = [array.value for array in arrays]
        executable, found = launched(traced.jaxpr, values, n, name, largest, donated, asked)
        passed = backend.passed(executable.constants, captured)
        return list(map(ConcreteArray, found)), lambda: launch_of(executable, passed, avals, name)
    given = donated_in_stacks(border, donated, n)
    border = given.border
    operands = [*captured, *values]
    executable, found = launched(border.program, operands, n, name, largest, given.told, options=given.options)
    free(values, given.freed)
    passed = backend.passed(executable.constants, captured)
    launch = StackedLaunch(executable, passed, border, n, avals, name, given.freed)
    return results_of_stacks(border, found, avals, ConcreteArray), lambda: launch


def remembered_by(signature: Hashable, rerolling: Rerolling | None) -> Hashable:
    """What the traced program for a signature is remembered by."""
    return signature if rerolling is None else (rerolling, signature)
