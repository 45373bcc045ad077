"""Prints programs in JAX's style, and so that nothing of their value is lost.

The layout depends on the program only. One equation goes on one line with its program if it fits; otherwise each
equation has its own line, which its operands end. Names restart at `a` in every program; an equation's output that
nothing reads is `_`. A program that occurs several times and doesn't fit on a line is printed once, before the others:
`let @f = {...} in`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count, islice, product
from string import ascii_lowercase
from typing import Final, final

import attrs

from tinyjax.ir.primitive import Primitive
from tinyjax.ir.printing.pieces import Pieces, joined
from tinyjax.ir.printing.spelling import format_array, format_literal, format_parameter, format_string
from tinyjax.ir.program import Atom, ClosedJaxpr, Eqn, Jaxpr, Var
from tinyjax.ir.traverse import items_of, nested_programs, programs_of, shown_values, subjaxprs
from tinyjax.ir.value import ConcreteValue

#: Words that mean something else than a variable.
_WORDS: Final = frozenset({"in", "inf", "lambda", "let", "nan", "infj", "nanj"})
#: Lines are broken beyond this column, as JAX breaks them.
_WIDTH: Final = 80
#: Text in pieces; a piece that is itself in pieces is printed by one loop, so that nesting costs no recursion.


def text_of(program: object) -> str:
    """The text of an equation, a program or a closed program."""
    if isinstance(program, Eqn):
        return format_eqn(program)
    if isinstance(program, ClosedJaxpr):
        return format_closed_jaxpr(program)
    if isinstance(program, Jaxpr):
        return format_jaxpr(program)
    raise TypeError(f"no program: {type(program).__name__}")


def format_jaxpr(jaxpr: Jaxpr) -> str:
    """The text of a program.

    >>> from tinyjax.ir.aval import ShapedArray
    >>> x = Var(0, ShapedArray((3,), "float32"))
    >>> format_jaxpr(Jaxpr((x,), (), (x,)))
    '{ lambda ; a:f32[3]. let  in (a,) }'
    """
    printer = _Printer(nested_programs(jaxpr))
    return printer.definitions() + joined(printer.program(jaxpr, 0, 0))


def format_closed_jaxpr(closed: ClosedJaxpr) -> str:
    """The text of a program whose first inputs are constants: their binders come before the semicolon."""
    printer = _Printer(nested_programs(closed.jaxpr))
    # One that doesn't typecheck is printed too: it may have more constants than inputs.
    count = min(len(closed.consts), len(closed.jaxpr.invars))
    return printer.definitions() + joined(printer.program(closed.jaxpr, 0, 0, count))


def format_closed(closed: ClosedJaxpr) -> str:
    """The text of a program with the arrays of its constants, from which `parse_closed` gives the program back.

    >>> import numpy as np
    >>> from tinyjax.ir.value import ConcreteValue
    >>> const = ConcreteValue.of(np.asarray([1, 2], np.int8))
    >>> x = Var(0, const.aval)
    >>> print(format_closed(ClosedJaxpr(Jaxpr((x,), (), (x,)), (const,))))
    let @c0 = array(i8[2], [1, 2]) in
    { lambda a:i8[2]=@c0; . let  in (a,) }
    """
    names: dict[ConcreteValue, str] = {}
    for const in closed.consts:
        names.setdefault(const, f"@c{len(names)}")
    arrays = "".join(f"let {name} = {format_array(const)} in\n" for const, name in names.items())
    printer = _Printer(nested_programs(closed.jaxpr), arrays=[names[const] for const in closed.consts])
    count = len(closed.consts)
    return arrays + printer.definitions() + joined(printer.program(closed.jaxpr, 0, 0, count))


def format_eqn(eqn: Eqn, names: Mapping[int, str] | None = None, short: bool = False) -> str:
    """The text of one equation, with names for its variables as `variable_names` gives them for the whole program.

    Without names, variables are called after their indices. `short` leaves out the programs and the elements of arrays
    among the parameters.
    """
    if names is None:
        atoms = (*eqn.invars, *eqn.outvars)
        names = {atom.index: variable_name(atom.index) for atom in atoms if isinstance(atom, Var)}
    printer = _Printer([] if short else nested_programs(Jaxpr((), (eqn,), ())), short)
    return printer.definitions() + joined(printer.equation(eqn, names, 0))


def variable_name(number: int) -> str:
    """The names of variables: a to z, then aa, ab, and so on.

    >>> [variable_name(i) for i in (0, 25, 26, 27, 702)]
    ['a', 'z', 'aa', 'ab', 'aab']
    """
    for taken in _RESERVED:
        number += number >= taken
    return _letters(number)


def names_from(number: int) -> Iterator[str]:
    """The names of variables from this one on: quicker than one by one."""
    words = ("".join(letters) for length in count(1) for letters in product(ascii_lowercase, repeat=length))
    return islice((word for word in words if word not in _WORDS), number, None)


def _letters(number: int) -> str:
    letters = ""
    while number >= 0:
        number, last = divmod(number, 26)
        letters = ascii_lowercase[last] + letters
        number -= 1
    return letters


def _number(letters: str) -> int:
    number = -1
    for letter in letters:
        number = (number + 1) * 26 + ascii_lowercase.index(letter)
    return number


#: Their places, in order.
_RESERVED: Final = sorted(map(_number, _WORDS))


def variable_names(jaxpr: Jaxpr) -> dict[int, str]:
    """The names that variables are printed with, by their index. Malformed programs have names too."""
    used = {atom.index for eqn in jaxpr.eqns for atom in eqn.invars if isinstance(atom, Var)}
    used.update(atom.index for atom in jaxpr.outvars if isinstance(atom, Var))
    letters = names_from(0)
    names: dict[int, str] = {}
    for var in jaxpr.invars:
        if var.index not in names:
            names[var.index] = next(letters)
    for eqn in jaxpr.eqns:
        for var in eqn.outvars:
            index = var.index
            if index not in names:
                names[index] = next(letters) if index in used else "_"
    for index in sorted(used - names.keys()):
        names[index] = next(letters)
    return names


def _fill(words: Iterable[str], column: int, indent: int) -> str:
    """The words with single spaces between them, broken into lines at the width, as a line's end from `column` on."""
    lines: list[str] = []
    line: list[str] = []
    for word in words:
        if line and column + len(word) > _WIDTH:
            lines.append(" ".join(line))
            line, column = [], indent
        line.append(word)
        column += len(word) + 1
    return ("\n" + " " * indent).join([*lines, " ".join(line)])


def _tuple(items: Sequence[str]) -> list[str]:
    """The words of a tuple."""
    if len(items) < 2:
        return [f"({items[0]},)" if items else "()"]
    return [f"({items[0]},", *(f"{item}," for item in items[1:-1]), f"{items[-1]})"]


@final
class _Printer:
    """What stays the same while one text is made: the programs printed ahead, and texts already known."""

    def __init__(self, programs: Sequence[Jaxpr], short: bool = False, arrays: Sequence[str] = ()) -> None:
        self._short = short
        self._arrays = arrays
        self._avals: dict[int, str] = {}
        self._literals: dict[int, str] = {}
        self._heads: dict[int, str] = {}
        occurrences: dict[Jaxpr, int] = {}
        for program in programs:
            for eqn in program.eqns:
                for child in subjaxprs(eqn.primitive):
                    occurrences[child] = occurrences.get(child, 0) + 1
        # The whole program comes last, and inner ones before outer ones, so a definition uses earlier ones only.
        self._defined: dict[Jaxpr, str] = {}
        for program in programs[:-1]:
            if occurrences[program] > 1 and self._on_one_line(program, 0, 0) is None:
                self._defined[program] = f"@f{len(self._defined)}"

    def definitions(self) -> str:
        """The programs that occur several times, each once."""
        return "".join(
            f"let {name} = {joined(self.program(program, 0, len(name) + 7))} in\n"
            for program, name in self._defined.items()
        )

    def program(self, jaxpr: Jaxpr, indent: int, column: int, constants: int = 0) -> Pieces:
        """A program that begins at `column` of a line which is indented by `indent`."""
        line = self._on_one_line(jaxpr, column, constants)
        if line is not None:
            yield line
            return
        names = variable_names(jaxpr)
        head = ["{ lambda", *self._binders(jaxpr, names, constants)]
        yield _fill(head, column, indent + 4)
        start = "\n" + " " * (indent + 4)
        for eqn in jaxpr.eqns:
            yield start
            line = self._equation_on_one_line(eqn, names)
            if line is not None and len(line) + indent + 4 <= _WIDTH:
                yield line
            else:
                yield self.equation(eqn, names, indent + 4)
        yield "\n" + " " * (indent + 2)
        yield _fill(["in", *_tuple([self._atom(atom, names) for atom in jaxpr.outvars]), "}"], indent + 2, indent + 4)

    def equation(self, eqn: Eqn, names: Mapping[int, str], indent: int) -> Pieces:
        """An equation that begins at the indentation of its line, and may need more of them."""
        if eqn.outvars:
            binders = [*(self._binder(var, names) for var in eqn.outvars), "="]
            yield _fill(binders, indent, indent + 2) + " "
        head = self._head(eqn.primitive)
        used = sum(len(self._binder(var, names)) + 1 for var in eqn.outvars) + indent + 2
        if head is not None and used + len(head) <= _WIDTH:
            yield head
        else:
            yield format_string(eqn.primitive.name) + "["
            for name, value in shown_values(eqn.primitive):
                yield f"\n{' ' * (indent + 2)}{name}="
                yield self._parameter(value, indent + 2, indent + 3 + len(name))
            yield f"\n{' ' * indent}]"
        for atom in eqn.invars:
            yield " " + self._atom(atom, names)

    def _parameter(self, value: object, indent: int, column: int) -> Pieces:
        """A parameter, on several lines if it holds programs that haven't been printed ahead."""
        if self._known(programs_of(value)):
            yield format_parameter(value, self._defined, self._short)
        elif isinstance(value, Jaxpr):
            yield self.program(value, indent, column)
        else:
            record = attrs.has(type(value))
            yield f"{type(value).__name__}(" if record else "{" if isinstance(value, frozenset) else "("
            start = "\n" + " " * (indent + 2)
            items = shown_values(value) if record else (("", item) for item in _items(value))
            for name, item in items:
                label = f"{name}=" if name else ""
                yield start + label
                yield self._parameter(item, indent + 2, indent + 2 + len(label))
            yield f"\n{' ' * indent}{'}' if isinstance(value, frozenset) else ')'}"

    def _on_one_line(self, jaxpr: Jaxpr, column: int, constants: int) -> str | None:
        """The program in one line, if it has at most one equation and fits."""
        if len(jaxpr.eqns) > 1:
            return None
        names = variable_names(jaxpr)
        middle = ""
        for eqn in jaxpr.eqns:
            line = self._equation_on_one_line(eqn, names)
            if line is None:
                return None
            middle = line
        binders = " ".join(self._binders(jaxpr, names, constants))
        outs = " ".join(_tuple([self._atom(atom, names) for atom in jaxpr.outvars]))
        text = f"{{ lambda {binders} {middle} in {outs} }}"
        return text if column + len(text) <= _WIDTH else None

    def _equation_on_one_line(self, eqn: Eqn, names: Mapping[int, str]) -> str | None:
        head = self._head(eqn.primitive)
        if head is None:
            return None
        words = [self._binder(var, names) for var in eqn.outvars]
        if words:
            words.append("=")
        words.append(head)
        words += [self._atom(atom, names) for atom in eqn.invars]
        return " ".join(words)

    def _head(self, primitive: Primitive) -> str | None:
        """A primitive with its parameters, if there are no programs to print among them."""
        known = self._heads.get(id(primitive))
        if known is None and self._known(subjaxprs(primitive)):
            values = shown_values(primitive)
            fields = " ".join(f"{name}={format_parameter(value, self._defined, self._short)}" for name, value in values)
            known = format_string(primitive.name) + (f"[{fields}]" if fields else "")
            self._heads[id(primitive)] = known
        return known

    def _known(self, programs: Iterable[Jaxpr]) -> bool:
        """Whether these programs need not be printed here."""
        return self._short or all(program in self._defined for program in programs)

    def _binders(self, jaxpr: Jaxpr, names: Mapping[int, str], constants: int) -> list[str]:
        """The words between `lambda` and the equations."""
        binders = [self._binder(var, names) for var in jaxpr.invars]
        if constants and self._arrays:
            binders[:constants] = [f"{binder}={array}" for binder, array in zip(binders, self._arrays, strict=False)]
        first = [*binders[: constants - 1], f"{binders[constants - 1]};"] if constants else [";"]
        rest = binders[constants:]
        return [*first, *rest[:-1], f"{rest[-1]}. let"] if rest else [*first, ". let"]

    def _binder(self, var: Var, names: Mapping[int, str]) -> str:
        aval = var.aval
        text = self._avals.get(id(aval))
        if text is None:
            text = self._avals[id(aval)] = str(aval)
        return f"{names[var.index]}:{text}"

    def _atom(self, atom: Atom, names: Mapping[int, str]) -> str:
        if isinstance(atom, Var):
            return names[atom.index]
        text = self._literals.get(id(atom))
        if text is None:
            text = self._literals[id(atom)] = format_literal(atom)
        return text


def _items(value: object) -> Iterator[object]:
    if isinstance(value, tuple | frozenset):
        yield from items_of(value)
