"""The verifier: whether a program is well formed and well typed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NoReturn, final

import numpy as np

from tinyjax.collecting import collecting_seldom
from tinyjax.errors import MissingRuleError, ParameterError, TinyjaxError, VerificationError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.declared import refuse_misfits
from tinyjax.ir.dtypes import BOOL, FLOAT64, FLOATS, INTEGERS, SUPPORTED, DType, short_name
from tinyjax.ir.literals import python_scalar
from tinyjax.ir.parameters import is_value
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.printing.printer import format_eqn, format_jaxpr, variable_names
from tinyjax.ir.printing.spelling import format_literal
from tinyjax.ir.program import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from tinyjax.ir.program_type import JaxprType
from tinyjax.ir.program_value import well_typed
from tinyjax.ir.result_types import result_types
from tinyjax.ir.traverse import nested_programs, record_values, subjaxprs
from tinyjax.ir.type_lists import listed

#: Errors show programs of at most so many equations, those of nested programs included.
_SHOWN: Final = 24
#: What typing rules raise for operands that they don't accept, wrong numbers of them included.
_REFUSALS: Final = (TinyjaxError, TypeError, ValueError, LookupError)


@collecting_seldom
def typecheck(program: Jaxpr | ClosedJaxpr) -> JaxprType:
    """The type of a program; a VerificationError if it, or a program within it, is malformed or ill-typed.

    Every variable must be bound once, before it is read, with the type that it is read with; bindings must be numbered
    in order from 0; literals must be scalars that their dtypes represent; parameters must be values; and the outputs of
    every equation must have the types that the primitive gives. For a ClosedJaxpr, the constants must be of the types
    of the inputs that they feed; the result is the type of what remains.
    """
    jaxpr = program.jaxpr if isinstance(program, ClosedJaxpr) else program
    accepted: set[int] = set()
    programs = nested_programs(jaxpr)
    for nested in programs:
        _Checker(nested, jaxpr, accepted).check()
    for nested in programs:
        well_typed(nested)
    if isinstance(program, ClosedJaxpr):
        check_constants(program)
        return JaxprType(program.in_avals, program.out_avals)
    return jaxpr.type


def check_constants(program: ClosedJaxpr) -> None:
    """A VerificationError unless the constants are of the types of the inputs that they feed."""
    invars = program.jaxpr.invars
    if len(program.consts) > len(invars):
        raise VerificationError(f"{len(program.consts)} constants for a program with {len(invars)} inputs")
    for number, (const, var) in enumerate(zip(program.consts, invars, strict=False)):
        if not const.aval.matches(var.aval):
            raise VerificationError(
                f"constant {number} of the program is {const.aval}, but the input that it feeds is {var.aval}"
            )
        if const.data.shape != const.aval.shape or const.data.dtype != const.aval.dtype:
            held = ShapedArray(const.data.shape, const.data.dtype)
            raise VerificationError(f"constant {number} of the program says that it is {const.aval}, but holds {held}")


@final
class _Checker:
    """Checks one program, without those within it, of the whole program `root`.

    `accepted` has the ids of literals and primitives that have been found right.
    """

    def __init__(self, jaxpr: Jaxpr, root: Jaxpr, accepted: set[int]) -> None:
        self._jaxpr = jaxpr
        self._root = root
        self._accepted = accepted
        self._bound: list[ShapedArray] = []
        self._part = "the inputs"
        self._number = 0
        self._eqn: Eqn | None = None

    def check(self) -> None:
        jaxpr, accepted = self._jaxpr, self._accepted
        self._check_tuples(jaxpr, ("invars", "eqns", "outvars"))
        self._bind(jaxpr.invars)
        for number, eqn in enumerate(jaxpr.eqns):
            self._number, self._eqn = number, eqn
            if type(eqn.invars) is not tuple or type(eqn.outvars) is not tuple:
                self._check_tuples(eqn, ("invars", "outvars"))
            operands = self._read(eqn.invars)
            primitive = eqn.primitive
            if id(primitive) not in accepted:
                self._check_primitive(primitive)
                accepted.add(id(primitive))
            expected = self._out_types(primitive, operands)
            found = self._bind(eqn.outvars)
            if len(found) != len(expected):
                self._fail(
                    f"{primitive.name} gives {len(expected)} outputs {listed(expected)}, but {len(found)} are bound"
                )
            for aval, wanted in zip(found, expected, strict=True):
                if aval is not wanted and aval != wanted:
                    self._fail(
                        f"{primitive.name} gives {listed(expected)}, but its outputs are bound as {listed(found)}"
                    )
        self._part, self._eqn = "the outputs", None
        self._read(jaxpr.outvars)

    def _check_tuples(self, part: object, fields: Sequence[str]) -> None:
        for name in fields:
            value = getattr(part, name)
            if type(value) is not tuple:
                self._fail(f"{name} is a {type(value).__name__}, not a tuple", show=False)

    def _bind(self, variables: Sequence[object]) -> list[ShapedArray]:
        """Binds these variables, and gives their types."""
        bound = self._bound
        first = len(bound)
        for var in variables:
            if not isinstance(var, Var):
                self._fail(f"binds {var!r}, which is not a Var", show=False)
            if var.index != len(bound):
                if 0 <= var.index < len(bound):
                    self._fail(f"binds {self._name(var)}, variable number {var.index}, which is bound already")
                self._fail(
                    f"binds variable number {var.index}, but bindings are numbered in order, "
                    f"and the next one is number {len(bound)}"
                )
            bound.append(var.aval)
        return bound[first:]

    def _read(self, atoms: Sequence[Atom]) -> list[ShapedArray]:
        """Reads these atoms, and gives their types."""
        bound = self._bound
        found = []
        for atom in atoms:
            if not isinstance(atom, Var):
                if id(atom) not in self._accepted:
                    self._check_literal(atom)
                    self._accepted.add(id(atom))
            elif not 0 <= atom.index < len(bound):
                self._fail(f"reads {self._name(atom)}:{atom.aval}, which {self._binder_of(atom)}")
            else:
                aval = bound[atom.index]
                if aval is not atom.aval and aval != atom.aval:
                    name = self._name(atom)
                    self._fail(f"reads {name} as {atom.aval}, but {name} is bound as {aval}")
            found.append(atom.aval)
        return found

    def _binder_of(self, var: Var) -> str:
        for number, eqn in enumerate(self._jaxpr.eqns):
            if any(out.index == var.index for out in eqn.outvars):
                return "is only bound by this equation itself" if eqn is self._eqn else f"equation {number} binds later"
        return "nothing binds"

    def _check_literal(self, literal: object) -> None:
        if not isinstance(literal, Literal):
            self._fail(f"reads {literal!r}, which is neither a Var nor a Literal", show=False)
        aval = literal.aval
        if aval.shape != ():
            self._fail(f"the literal {format_literal(literal)} is not a scalar; only scalars can be literals")
        if not _is_exact(literal):
            self._fail(
                f"the literal {literal.value!r} of type {aval} is not a Python number that {short_name(aval.dtype)} "
                "represents exactly; `Literal.of` makes one that is"
            )

    def _check_primitive(self, primitive: object) -> None:
        if not isinstance(primitive, Primitive):
            self._fail(f"{primitive!r} is not a primitive: an instance of a subclass of Primitive", show=False)
        for name, value in record_values(primitive):
            if not is_value(value):
                self._fail(f"parameter {name!r} is not an immutable, hashable value: {value!r}", show=False)
        try:
            refuse_misfits(primitive)
        except ParameterError as error:
            self._fail(str(error), error, show=False)

    def _out_types(self, primitive: Primitive, operands: Sequence[ShapedArray]) -> Sequence[ShapedArray]:
        try:
            return result_types(primitive, operands)
        except MissingRuleError:
            raise
        except _REFUSALS as error:
            self._fail(f"{primitive.name} does not accept operands of types {listed(operands)}: {error}", error)

    def _name(self, var: Var) -> str:
        """The variable as it is printed, and an input as the traced function calls it."""
        name, called = variable_names(self._jaxpr)[var.index], self._jaxpr.input_names
        named = called[var.index] if 0 <= var.index < len(called) else ""
        return f"{name} (argument {named})" if named else name

    def _fail(self, problem: str, cause: Exception | None = None, show: bool = True) -> NoReturn:
        """Raises the error. `show=False`: something in the program isn't what it must be, and can't be printed."""
        place = _place(self._root, self._jaxpr)
        eqn = self._eqn
        part = self._part if eqn is None else f"equation {self._number}"
        lines = [f"{part} of {place}: {problem}"]
        if eqn is not None and show:
            lines += ["", _indented(format_eqn(eqn, variable_names(self._jaxpr), short=True)), ""]
        if eqn is not None and eqn.source is not None:
            lines.append(f"The equation comes from {eqn.source}.")
        if show and sum(len(program.eqns) for program in nested_programs(self._jaxpr)) <= _SHOWN:
            lines += [f"This is {place}:", "", _indented(format_jaxpr(self._jaxpr))]
        raise VerificationError("\n".join(lines).rstrip()) from cause


def _indented(text: str) -> str:
    return "    " + text.replace("\n", "\n    ")


def _place(root: Jaxpr, jaxpr: Jaxpr) -> str:
    """Which program this is: the whole, or one that some equation holds."""
    if jaxpr is root:
        return "the program"
    for holder in nested_programs(root):
        for number, eqn in enumerate(holder.eqns):
            if any(program is jaxpr for program in subjaxprs(eqn.primitive)):
                where = "the program" if holder is root else "another program within it"
                return f"the program within {eqn.primitive.name}, equation {number} of {where}"
    return "the program"


def _is_exact(literal: Literal) -> bool:
    """Whether the value is a Python number of the dtype's kind, which rounding doesn't change."""
    value, dtype = literal.value, literal.aval.dtype
    if dtype not in SUPPORTED or type(value) is not _kind(dtype):
        return False
    if dtype in (FLOAT64, BOOL):
        return True  # Python's own
    with np.errstate(all="ignore"):
        try:
            rounded = python_scalar(value, dtype)
        except OverflowError:
            return False
    parts = ((value.real, rounded.real), (value.imag, rounded.imag))
    return all(x == y or (math.isnan(x) and math.isnan(y)) for x, y in parts)


def _kind(dtype: DType) -> type:
    """The Python type of scalars of this dtype."""
    if dtype in FLOATS:
        return float
    if dtype in INTEGERS:
        return int
    return bool if dtype == BOOL else complex
