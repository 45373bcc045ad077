"""What differs between two programs, as a value.

    before: { lambda ; a:f64[3]. let                after: { lambda ; a:f64[3]. let
                b:f64[3] = sin a                               b:f64[3] = neg a
                c:f64[] = reduce_sum[axes=(0,)] b              c:f64[3] = sin b
              in (c,) }                                        d:f64[] = reduce_sum[axes=(0,)] c
                                                             in (d,) }

    diff(before, after):    { lambda ; a:f64[3]. let
                          +     d:f64[3] = neg a
                          ~     b:f64[3] = sin d
                                  operand 0: a -> d
                                c:f64[] = reduce_sum[axes=(0,)] b
                              in (c,) }

Equations are matched by what they compute and by what becomes of it, not by number or name; see `diff_match`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TypeAlias, TypeVar, final

from attrs import frozen
from typing_extensions import override

from tinyjax.collecting import collecting_seldom
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.equality import same_value
from tinyjax.ir.holding import AnyProgram, as_closed
from tinyjax.ir.printing.display import difference_html
from tinyjax.ir.printing.outline import holds_programs
from tinyjax.ir.program import Atom, Eqn, Jaxpr
from tinyjax.ir.traverse import record_values
from tinyjax.ir.value import ConcreteValue
from tinyjax.tools.diff_match import Matching, Slots, match_programs, same_atom

T = TypeVar("T")


@final
@frozen
class Same:
    """`count` equations, from number `before` of the one program and `after` of the other, that are the same."""

    before: int
    after: int
    count: int


@final
@frozen
class Removed:
    """Equation number `before` of the first program, which nothing in the second corresponds to."""

    before: int


@final
@frozen
class Added:
    """Equation number `after` of the second program, which nothing in the first corresponds to."""

    after: int


@final
@frozen
class ParameterChange:
    """A parameter, or a part of it such as `branches[1]`, with its two values. None also stands for its absence."""

    path: str
    before: object
    after: object


@final
@frozen
class ProgramChange:
    """A parameter, or a part of it, that holds a program which changed: how, says `Diff.programs[number]`."""

    path: str
    number: int


@final
@frozen
class OperandChange:
    """An operand that doesn't correspond to the one it had; None: one program's equation has fewer."""

    position: int
    before: Atom | None
    after: Atom | None


@final
@frozen
class TypeChange:
    """The type of an output, with its two values."""

    position: int
    before: ShapedArray
    after: ShapedArray


@final
@frozen
class Changed:
    """Two corresponding equations that differ. `primitive`: they apply different ones."""

    before: int
    after: int
    primitive: bool
    parameters: tuple[ParameterChange, ...]
    programs: tuple[ProgramChange, ...]
    operands: tuple[OperandChange, ...]
    types: tuple[TypeChange, ...]

    @property
    def itself(self) -> bool:
        """Whether the equation differs itself, and not only in the programs that it holds."""
        return self.primitive or bool(self.parameters or self.operands or self.types)


Entry: TypeAlias = Same | Removed | Added | Changed


@final
@frozen
class ProgramDiff:
    """Two programs, and what became of the inputs, equations and outputs of the first in the second.

    `inputs` and `outputs` are pairs of positions, None where there is none; `changed_inputs` and `changed_outputs` are
    those among them that aren't the same.
    """

    before: Jaxpr
    after: Jaxpr
    inputs: Slots
    entries: tuple[Entry, ...]
    outputs: Slots
    changed_inputs: Slots
    changed_outputs: Slots

    @property
    def empty(self) -> bool:
        """Whether the programs are equal."""
        same = all(isinstance(entry, Same) for entry in self.entries)
        return same and not self.changed_inputs and not self.changed_outputs


@final
@frozen(repr=False)
class Diff:
    """What differs between two programs. Empty, and false, if they are equal.

    `programs` has the diff of the two programs, and those of the programs within them that changed, each pair once.
    `consts` has the constants that differ: pairs of positions among the constants, None where there is none.
    """

    programs: tuple[ProgramDiff, ...]
    consts: Slots
    before_consts: tuple[ConcreteValue, ...]
    after_consts: tuple[ConcreteValue, ...]

    @property
    def empty(self) -> bool:
        return self.programs[0].empty and not self.consts

    def __bool__(self) -> bool:
        return not self.empty

    @property
    def added(self) -> int:
        """How many equations only the second program has. Like the other counts, with those of programs within."""
        return sum(isinstance(entry, Added) for entry in self._entries())

    @property
    def removed(self) -> int:
        """How many equations only the first program has."""
        return sum(isinstance(entry, Removed) for entry in self._entries())

    @property
    def changed(self) -> int:
        """How many equations differ in primitive, parameters, operands or types; not those that only hold a program
        with differences."""
        return sum(isinstance(entry, Changed) and entry.itself for entry in self._entries())

    @property
    def equal(self) -> int:
        """How many equations are the same, in the program and in those within it that have differences."""
        return sum(entry.count for entry in self._entries() if isinstance(entry, Same))

    def _entries(self) -> Iterator[Entry]:
        for program in self.programs:
            yield from program.entries

    def text(self, *, color: bool = False, context: int = 2) -> str:
        """Lines for a terminal: `-` removed, `+` added, `~` changed; longer stretches without a change are left out but
        for `context` equations around them. The second program's variables have the names of those in the first that
        they correspond to. `color`: with escape sequences."""
        from tinyjax.tools.diff_text import format_diff

        if self.empty:
            count = len(self.programs[0].before.eqns)
            return f"no difference: both programs have the same {count} equation{'' if count == 1 else 's'}"
        return format_diff(self, color, context)

    @override
    def __str__(self) -> str:
        return self.text()

    @override
    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return difference_html(self.text())


@collecting_seldom
def diff(before: AnyProgram, after: AnyProgram) -> Diff:
    """What differs between two programs; a program without constants may be closed or not.

    Types, weak ones included, parameters and literals are compared to the bit. Takes time nearly linear in the sizes.

    >>> import tinyjax as tj
    >>> import tinyjax.numpy as tnp
    >>> from tinyjax.tools import diff
    >>> x = tj.ShapedArray((3,), "float64")
    >>> found = diff(
    ...     tj.make_jaxpr(lambda x: tnp.sin(x) * 2.0)(x), tj.make_jaxpr(lambda x: tnp.sin(x) * 3.0)(x)
    ... )
    >>> print(found)
    1 changed, 1 unchanged
      { lambda ; a:f64[3]. let
          b:f64[3] = sin a
    ~     c:f64[3] = mul b 3.0
            operand 1: 2.0 -> 3.0
        in (c,) }
    """
    x, y = as_closed(before, "diff"), as_closed(after, "diff")
    builder = _Builder()
    builder.number(x.jaxpr, y.jaxpr)
    programs = tuple(builder.run())
    consts: list[tuple[int | None, int | None]] = []
    for old, new in programs[0].inputs:
        i = old if old is not None and old < len(x.consts) else None
        j = new if new is not None and new < len(y.consts) else None
        if i is None or j is None:
            consts += [] if i is j else [(i, j)]
        elif x.consts[i] != y.consts[j]:
            consts.append((i, j))
    return Diff(programs, tuple(consts), x.consts, y.consts)


@final
class _Builder:
    """Compares pairs of programs, one after another: those within are added while the ones around them are compared."""

    def __init__(self) -> None:
        self._pairs: list[tuple[Jaxpr, Jaxpr]] = []
        self._numbers: dict[tuple[Jaxpr, Jaxpr], int] = {}

    def number(self, before: Jaxpr, after: Jaxpr) -> int:
        """The number of this pair's diff."""
        number = self._numbers.setdefault((before, after), len(self._pairs))
        if number == len(self._pairs):
            self._pairs.append((before, after))
        return number

    def run(self) -> Iterator[ProgramDiff]:
        for before, after in self._pairs:  # grows meanwhile
            yield self._compare(before, after)

    def _compare(self, x: Jaxpr, y: Jaxpr) -> ProgramDiff:
        matching = match_programs(x, y)
        corresponding = matching.correspondence(x, y)
        entries: list[Entry] = []
        same, following = 0, (0, 0)  # how many equations up to these are the same, and not among the entries yet
        for i, j in (*matching.equations, (None, None)):
            change: Entry | None = None
            if i is not None and j is not None:
                change = self._change(i, j, x.eqns[i], y.eqns[j], corresponding)
                if change is None and same and following == (i, j):
                    same, following = same + 1, (i + 1, j + 1)
                    continue
            elif i is not None:
                change = Removed(i)
            elif j is not None:
                change = Added(j)
            if same:
                entries.append(Same(following[0] - same, following[1] - same, same))
                same = 0
            if change is not None:
                entries.append(change)
            elif i is not None and j is not None:
                same, following = 1, (i + 1, j + 1)
        return ProgramDiff(
            x, y, matching.inputs, tuple(entries), matching.outputs, *_changed_slots(matching, x, y, corresponding)
        )

    def _change(self, i: int, j: int, e: Eqn, f: Eqn, corresponding: dict[int, int]) -> Changed | None:
        operands = tuple(
            [
                OperandChange(position, old, new)
                for position, (old, new) in enumerate(_padded(e.invars, f.invars))
                if old is None or new is None or not same_atom(old, new, corresponding)
            ]
        )
        types = tuple(
            [
                TypeChange(position, old.aval, new.aval)
                for position, (old, new) in enumerate(zip(e.outvars, f.outvars, strict=True))
                if old.aval is not new.aval and old.aval != new.aval
            ]
        )
        p, q = e.primitive, f.primitive
        if p is q or same_value(p, q):
            return Changed(i, j, False, (), (), operands, types) if operands or types else None
        parameters: list[ParameterChange] = []
        programs: list[ProgramChange] = []
        if type(p) is type(q):
            for (name, old), (_, new) in zip(record_values(p), record_values(q), strict=True):
                self._parameter(name, old, new, parameters, programs)
        return Changed(i, j, type(p) is not type(q), tuple(parameters), tuple(programs), operands, types)

    def _parameter(
        self, path: str, old: object, new: object, parameters: list[ParameterChange], programs: list[ProgramChange]
    ) -> None:
        """Adds what differs. Goes into tuples and records that hold programs."""
        if same_value(old, new):
            return
        if isinstance(old, Jaxpr) and isinstance(new, Jaxpr):
            programs.append(ProgramChange(path, self.number(old, new)))
        elif type(old) is not type(new) or not (holds_programs(old) or holds_programs(new)):
            parameters.append(ParameterChange(path, old, new))
        elif isinstance(old, tuple) and isinstance(new, tuple):
            for number, (v, w) in enumerate(_padded(old, new)):
                self._parameter(f"{path}[{number}]", v, w, parameters, programs)
        elif isinstance(old, frozenset):
            parameters.append(ParameterChange(path, old, new))
        else:
            for (name, v), (_, w) in zip(record_values(old), record_values(new), strict=True):
                self._parameter(f"{path}.{name}", v, w, parameters, programs)


def _changed_slots(matching: Matching, x: Jaxpr, y: Jaxpr, corresponding: dict[int, int]) -> tuple[Slots, Slots]:
    inputs = tuple((i, j) for i, j in matching.inputs if i is None or j is None or x.invars[i].aval != y.invars[j].aval)
    outputs = tuple(
        (i, j)
        for i, j in matching.outputs
        if i is None or j is None or not same_atom(x.outvars[i], y.outvars[j], corresponding)
    )
    return inputs, outputs


def _padded(a: Sequence[T], b: Sequence[T]) -> Iterator[tuple[T | None, T | None]]:
    """Pairs of what is in the same place; None where one is shorter."""
    return zip_longest(a, b)
