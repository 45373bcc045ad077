"""What programs of JAX have and we lack, with the lines that have it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, final

from attrs import frozen
from typing_extensions import override

from tinyjax.errors import UnsupportedError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.source import SourceInfo
from tinyjax.ir.traverse import nested_programs, subjaxprs

#: How many lines are listed for each thing that is missing.
_SHOWN: Final = 5


@final
@frozen
class Lack:
    """A primitive, a parameter or a type that is missing: how many equations have it, and their lines."""

    what: str
    count: int
    lines: tuple[SourceInfo, ...]

    @override
    def __str__(self) -> str:
        shown = [line.location for line in self.lines[:_SHOWN]]
        more = len(self.lines) - len(shown)
        places = ", ".join([*shown, f"{more} more" if more else ""]).removesuffix(", ")
        return f"{self.what} ({self.count})" + (f" at {places}" if places else "")


@final
@frozen
class _Missing(Primitive):
    """Stands for an equation that can't be imported, until the error that says so is raised."""

    what: str
    results: tuple[ShapedArray, ...]
    line: SourceInfo | None
    name: ClassVar[str] = "missing"

    @override
    def type_of(self, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return self.results


def missing(what: str, results: Sequence[ShapedArray], line: SourceInfo | None) -> Primitive:
    """What takes the place of an equation."""
    return _Missing(what, tuple(results), line)


def lacks_of(program: Jaxpr, types: Mapping[str, int]) -> tuple[Lack, ...]:
    """Everything that is missing in a program, by name, besides the `types` that are known to be.

    What is within a function of JAX's own has no line of the user's: it gets those of the equations that apply it.
    """
    programs = nested_programs(program)
    if not types and not any(type(eqn.primitive) is _Missing for nested in programs for eqn in nested.eqns):
        return ()
    counts = Counter(types)
    lines: defaultdict[str, dict[SourceInfo, None]] = defaultdict(dict)
    without: dict[Jaxpr, set[str]] = {}  # what of each program has no line in it
    for nested in programs:
        own: set[str] = set()
        for eqn in nested.eqns:
            primitive = eqn.primitive
            if isinstance(primitive, _Missing):
                counts[primitive.what] += 1
                found, line = {primitive.what}, primitive.line
            else:
                found = {what for inner in subjaxprs(primitive) for what in without[inner]}
                line = eqn.source
            for what in found:
                if line is None:
                    own.add(what)
                else:
                    lines[what][line.untransformed] = None
        without[nested] = own
    return tuple(Lack(what, count, tuple(lines[what])) for what, count in sorted(counts.items()))


def refuse(what: str, lacks: Sequence[Lack]) -> None:
    """An UnsupportedError that lists all of it, if there is anything. `what` is refused."""
    if lacks:
        listed = "\n".join(f"  {lack}" for lack in lacks)
        raise UnsupportedError(
            f"{what}: tinyjax has nothing for these primitives of JAX, with the number of equations:\n{listed}\n"
            "Programs within the program count once, however often they are applied."
        )
