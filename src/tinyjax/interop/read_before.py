"""Equations of JAX's that say the same as one that was read before, as those of a model's layers do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final, final

import numpy as np
from attrs import frozen
from jax.extend.core import ClosedJaxpr as JaxClosedJaxpr
from jax.extend.core import Jaxpr as JaxJaxpr
from jax.extend.core import JaxprEqn
from jax.extend.core import Literal as JaxLiteral

from tinyjax.backend import jax_programs
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.equality import same_value
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Atom, Jaxpr, Literal
from tinyjax.ir.source import SourceInfo
from tinyjax.ir.traverse import subjaxprs

#: The type of an atom, JAX's or ours.
_TYPE: Final[Callable[[object], object]] = attrgetter("aval")
#: Programs with more equations aren't compared with others.
_LONG: Final = 1000


@final
@frozen
class Reading:
    """What an equation of JAX's is here: the primitive, and what its operands are converted by, in order. It keeps
    the types of operands that it is known by, and what its program was, if it holds one."""

    steps: tuple[tuple[int, Primitive], ...]
    primitive: Primitive
    types: tuple[ShapedArray, ...] = ()
    program: Jaxpr | None = None


@final
class ReadBefore:
    """What has been read of programs that somebody keeps, by what equations, lines and numbers have in common.

    JAX has one object for each type, so types are told apart by identity, which an import of a deep model does more
    often than anything else.
    """

    __slots__ = ("_lines", "_literals", "_primitives", "_programs", "_readings")

    def __init__(self) -> None:
        self._readings: dict[object, Reading] = {}
        self._lines: dict[object, tuple[SourceInfo | None]] = {}
        self._literals: dict[object, Literal] = {}
        self._programs: dict[tuple[int, Jaxpr], Jaxpr] = {}
        self._primitives: dict[Primitive, Primitive] = {}

    def get(self, key: object) -> Reading | None:
        """What equations with this key have been read as."""
        try:
            return self._readings.get(key)
        except TypeError:  # a parameter that isn't hashable
            return None

    def note(self, key: object, eqn: JaxprEqn, reading: Reading) -> None:
        """Says what equations are that have this key, as this one, unless there are keys of somebody's own in it."""
        if all(map(_is_plain, (*eqn.invars, *eqn.outvars))):
            try:
                self._readings[key] = reading
            except TypeError:
                return

    def line(self, eqn: JaxprEqn) -> SourceInfo | None:
        """The line of user code that an equation comes from."""
        traceback: Any = eqn.source_info.traceback  # equal for what the same calls have made
        found = self._lines.get(traceback)
        if found is None:
            found = self._lines[traceback] = (jax_programs.line_of(eqn),)
        return found[0]

    def literal(self, atom: JaxLiteral) -> tuple[object, Literal | None]:
        """A key for the same numbers, to the bit, of one type; and the literal for them that has been noted."""
        key = id(atom.aval), np.asarray(atom.val).tobytes() if _is_plain(atom) else id(atom)
        return key, self._literals.get(key)

    def note_literal(self, key: object, found: Literal) -> None:
        """Says what the literal for a number is."""
        self._literals[key] = found

    def shared(self, program: Jaxpr) -> Jaxpr:
        """A program within others; if it equals one that there was before, and comes from the same lines, that one:
        JAX traces a function that a layer calls anew for each of them."""
        if len(program.eqns) > _LONG:
            return program
        return self._programs.setdefault((program.lines, program), program)

    def shared_primitive(self, primitive: Primitive) -> Primitive:
        """A primitive; if it is the same, with the same programs, as one that there was before, that one."""
        before = self._primitives.setdefault(primitive, primitive)
        if before is primitive or not same_value(before, primitive):
            return primitive
        pairs = zip(subjaxprs(before), subjaxprs(primitive), strict=True)
        return before if all(one is other for one, other in pairs) else primitive


def only_program(eqn: JaxprEqn) -> JaxJaxpr | JaxClosedJaxpr | None:
    """The program of an equation that has one as `jaxpr`, and says nothing else of it."""
    params = eqn.params
    program = params.get("jaxpr")
    if not isinstance(program, JaxJaxpr | JaxClosedJaxpr) or "policy" in params or eqn.primitive.name == "shard_map":
        return None
    return program


def key_of(eqn: JaxprEqn, args: Sequence[Atom]) -> object:
    """What equations have in common that are the same here, if their programs are. It may not be hashable."""
    params, ins = eqn.params, eqn.invars
    types = (len(ins), *map(id, map(_TYPE, ins)), *map(id, map(_TYPE, args)), *map(id, map(_TYPE, eqn.outvars)))
    if not params:
        return eqn.primitive, types
    return eqn.primitive, types, *params.items(), *map(type, params.values())  # 1 is True to a dictionary


def _is_plain(atom: Any) -> bool:  # an atom of JAX
    """Whether it isn't of keys of somebody's own, say."""
    return isinstance(getattr(atom.aval, "dtype", None), np.dtype)
