"""The text of a structural diff: both programs in one, in the names of the first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias, final

import numpy as np

from tinyjax.ir.printing.printer import format_eqn, names_from, variable_names
from tinyjax.ir.printing.spelling import format_literal, format_parameter
from tinyjax.ir.program import Atom, Eqn, Jaxpr, Var
from tinyjax.ir.value import ConcreteValue
from tinyjax.tools.diff_programs import Added, Changed, Diff, Entry, ParameterChange, ProgramDiff, Removed, Same

Names: TypeAlias = Mapping[int, str]
#: A line: its mark, how deep it is indented, its text.
Line: TypeAlias = tuple[str, int, str]
#: Lines, and programs to go into before the next line: the number of the diff, and the indentation.
_Lines: TypeAlias = Iterator[Line | tuple[int, int]]

_COLORS: Final = {"-": "31", "+": "32", "~": "33", "*": "1", ".": "2"}
#: Programs deeper than this are indented no further, so that the text grows no faster than the depth.
_DEEPEST: Final = 12
#: Longer spellings of parameters are cut.
_SHORT: Final = 60
#: Arrays of so many elements are spelled out.
_SMALL: Final = 8
#: Where the printer breaks the line of an equation, and what stands there if it doesn't.
_BREAKS: Final = [(re.compile(r"\[\n +"), "["), (re.compile(r"\n *\]"), "]"), (re.compile(r"\n +"), " ")]


def format_diff(diff: Diff, color: bool = False, context: int = 2) -> str:
    """The lines of a diff; nothing if it is empty."""
    if diff.empty:
        return ""
    counts = ((diff.added, "added"), (diff.removed, "removed"), (diff.changed, "changed"))
    summary = ", ".join(f"{number} {what}" for number, what in counts if number)
    lines: list[Line] = [("*", 0, f"{summary or 'no equation differs'}, {diff.equal} unchanged")]
    lines += _Text(diff, context).lines()
    return "\n".join(_colored(*line) if color else _plain(*line) for line in lines)


def _plain(mark: str, indent: int, text: str) -> str:
    if mark == "*":
        return text
    start = f"{' ' if mark == '.' else mark} {' ' * indent}"
    return "\n".join(start + row for row in text.split("\n")).rstrip()


def _colored(mark: str, indent: int, text: str) -> str:
    plain = _plain(mark, indent, text)
    return f"\x1b[{_COLORS[mark]}m{plain}\x1b[0m" if mark in _COLORS else plain


@final
class _Text:
    """Makes the lines of one diff. Programs within are gone into by one loop, each once."""

    def __init__(self, diff: Diff, context: int) -> None:
        self._diff = diff
        self._context = max(context, 0)

    def lines(self) -> Iterator[Line]:
        shown = {0}
        stack: list[_Lines] = [self._program(0, 0)]
        while stack:
            for item in stack[-1]:
                if len(item) == 3:
                    yield item
                    continue
                number, indent = item
                if number in shown:
                    yield " ", indent, "as above, where this program differs in the same way"
                    continue
                shown.add(number)
                stack.append(self._program(number, indent))
                break
            else:
                stack.pop()

    def _program(self, number: int, indent: int) -> _Lines:
        program = self._diff.programs[number]
        indent = min(indent, 4 * _DEEPEST)
        names, renamed = _names(program)
        yield from self._binders(program, names, renamed, indent, number == 0)
        for entries in _folded(program.entries, self._context):
            if isinstance(entries, int):
                yield ".", indent + 4, f"... {entries} equation{'s' if entries > 1 else ''} unchanged"
            else:
                yield from self._entry(program, entries, names, renamed, indent + 4)
        yield from _outputs(program, names, renamed, indent)

    def _binders(self, program: ProgramDiff, names: Names, renamed: Names, indent: int, outermost: bool) -> _Lines:
        consts = (len(self._diff.before_consts), len(self._diff.after_consts)) if outermost else (0, 0)
        before = _header(program.before, names, consts[0])
        after = _header(program.after, renamed, consts[1])
        if before == after:
            yield " ", indent, after
        else:
            yield "-", indent, before
            yield "+", indent, after
        if outermost:
            for i, j in self._diff.consts:
                yield from self._const(program, i, j, names, renamed, indent + 4)

    def _const(
        self, program: ProgramDiff, i: int | None, j: int | None, names: Names, renamed: Names, indent: int
    ) -> Iterator[Line]:
        old = None if i is None else self._diff.before_consts[i]
        new = None if j is None else self._diff.after_consts[j]
        if i is not None and j is not None:
            name = names[program.before.invars[i].index]
            yield "~", indent, f"constant {name}: {_values(old, new)}"
        elif i is not None:
            yield "-", indent, f"constant {names[program.before.invars[i].index]}: {_value(old)}"
        elif j is not None:
            yield "+", indent, f"constant {renamed[program.after.invars[j].index]}: {_value(new)}"

    def _entry(self, program: ProgramDiff, entry: Entry, names: Names, renamed: Names, indent: int) -> _Lines:
        if isinstance(entry, Removed):
            yield "-", indent, _eqn(program.before.eqns[entry.before], names)
        elif isinstance(entry, Added):
            yield "+", indent, _eqn(program.after.eqns[entry.after], renamed)
        elif isinstance(entry, Same):
            for eqn in program.after.eqns[entry.after : entry.after + entry.count]:
                yield " ", indent, _eqn(eqn, renamed)
        else:
            yield from self._change(program, entry, names, renamed, indent)

    def _change(self, program: ProgramDiff, change: Changed, names: Names, renamed: Names, indent: int) -> _Lines:
        before, after = program.before.eqns[change.before], program.after.eqns[change.after]
        if change.primitive:
            yield "-", indent, _eqn(before, names)
            yield "+", indent, _eqn(after, renamed)
            if before.primitive.name == after.primitive.name:
                yield " ", indent + 4, f"primitive: {_class(before.primitive)} -> {_class(after.primitive)}"
            return
        yield "~" if change.itself else " ", indent, _eqn(after, renamed)
        for operand in change.operands:
            old, new = _atom(operand.before, names), _atom(operand.after, renamed)
            yield " ", indent + 4, f"operand {operand.position}: {old} -> {new}"
        for kind in change.types:
            name = renamed[after.outvars[kind.position].index]
            yield " ", indent + 4, f"type of {name}: {kind.before} -> {kind.after}"
        for parameter in change.parameters:
            yield " ", indent + 4, f"{parameter.path}: {_parameters(parameter)}"
        for inner in change.programs:
            yield " ", indent + 4, f"{inner.path}:"
            yield inner.number, indent + 6


def _names(program: ProgramDiff) -> tuple[Names, Names]:
    """The names of the first program's variables, and of the second's: those of the variables that they correspond to,
    and further ones."""
    before, after = variable_names(program.before), variable_names(program.after)
    matched: dict[int, int] = {}
    for i, j in program.inputs:
        if i is not None and j is not None:
            matched[program.after.invars[j].index] = program.before.invars[i].index
    for entry in program.entries:
        if not isinstance(entry, Same | Changed):
            continue
        i, j, length = entry.before, entry.after, entry.count if isinstance(entry, Same) else 1
        for e, f in zip(program.before.eqns[i : i + length], program.after.eqns[j : j + length], strict=True):
            for old, new in zip(e.outvars, f.outvars, strict=True):
                matched[new.index] = old.index
    letters = names_from(sum(name != "_" for name in before.values()))
    renamed: dict[int, str] = {}
    for index, name in after.items():
        old_name = before.get(matched.get(index, -1), "_")
        renamed[index] = "_" if name == "_" else next(letters) if old_name == "_" else old_name
    return before, renamed


def _folded(entries: tuple[Entry, ...], context: int) -> Iterator[Entry | int]:
    """The entries; of long stretches that are the same only the ends, and between them how many were left out."""
    for number, entry in enumerate(entries):
        if not isinstance(entry, Same):
            yield entry
            continue
        head = context if number else 0
        tail = context if number + 1 < len(entries) else 0
        left_out = entry.count - head - tail
        if left_out < 2:
            yield entry
            continue
        if head:
            yield Same(entry.before, entry.after, head)
        yield left_out
        if tail:
            skipped = entry.count - tail
            yield Same(entry.before + skipped, entry.after + skipped, tail)


def _eqn(eqn: Eqn, names: Names) -> str:
    """An equation on one line, without the programs that it holds."""
    text = format_eqn(eqn, names, short=True)
    for pattern, replacement in _BREAKS:
        text = pattern.sub(replacement, text)
    return text


def _header(jaxpr: Jaxpr, names: Names, consts: int) -> str:
    binders = [f"{names[var.index]}:{var.aval}" for var in jaxpr.invars]
    first = f"{' '.join(binders[:consts])}; " if consts else "; "
    return f"{{ lambda {first}{' '.join(binders[consts:])}. let"


def _outputs(program: ProgramDiff, names: Names, renamed: Names, indent: int) -> Iterator[Line]:
    before = _tuple(_atom(atom, names) for atom in program.before.outvars)
    after = _tuple(_atom(atom, renamed) for atom in program.after.outvars)
    if not program.changed_outputs:
        yield " ", indent + 2, f"in {after} }}"
    else:
        yield "-", indent + 2, f"in {before} }}"
        yield "+", indent + 2, f"in {after} }}"


def _tuple(items: Iterable[str]) -> str:
    words = list(items)
    return f"({words[0]},)" if len(words) == 1 else f"({', '.join(words)})"


def _atom(atom: Atom | None, names: Names) -> str:
    if atom is None:
        return "none"
    return names[atom.index] if isinstance(atom, Var) else format_literal(atom)


def _class(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _parameters(change: ParameterChange) -> str:
    return _values(change.before, change.after)


def _values(old: object, new: object) -> str:
    """Both values; in words what differs, if they are spelled alike."""
    before, after = _value(old), _value(new)
    if before != after:
        return f"{before} -> {after}"
    if isinstance(old, ConcreteValue) and isinstance(new, ConcreteValue):
        return f"{before}: {_different_elements(old, new)}"
    long_before, long_after = (format_parameter(value, {}, short=True) for value in (old, new))
    if long_before != long_after:
        start = next(i for i, (v, w) in enumerate(zip(long_before, long_after, strict=False)) if v != w)
        start = max(start - 20, 0)
        return f"...{_cut(long_before[start:])} -> ...{_cut(long_after[start:])}"
    return f"{before}, which differs although it is printed alike"


def _different_elements(old: ConcreteValue, new: ConcreteValue) -> str:
    x, y = (np.ascontiguousarray(value.data) for value in (old, new))
    width = x.dtype.itemsize
    different = (x.reshape(-1).view(np.uint8) != y.reshape(-1).view(np.uint8)).reshape(-1, max(width, 1)).any(axis=1)
    total = int(different.sum())
    return f"{total} of {different.size} elements differ, the first at {int(different.argmax())}"


def _value(value: object) -> str:
    short = not isinstance(value, ConcreteValue) or value.aval.size > _SMALL
    return _cut(format_parameter(value, {}, short)) if value is not None else "none"


def _cut(text: str) -> str:
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}..."
