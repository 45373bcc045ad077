"""Laws of a program as a value: it is valid, and what it is written as is read as the same program again."""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence

from tinyjax.contexts.staging import StagingContext, stage
from tinyjax.ir.files.content import content_hash
from tinyjax.ir.files.program_files import load, save
from tinyjax.ir.holding import AnyProgram
from tinyjax.ir.interpret import interpret
from tinyjax.ir.printing.printer import format_closed
from tinyjax.ir.program import Atom, ClosedJaxpr, Jaxpr
from tinyjax.ir.text.parser import parse, parse_closed
from tinyjax.ir.typecheck import typecheck
from tinyjax.testing.differences import BrokenError
from tinyjax.testing.subjects import Subject
from tinyjax.tools.diff_programs import diff


def valid(program: ClosedJaxpr, what: str) -> None:
    """It typechecks."""
    try:
        typecheck(program)
    except Exception as error:
        raise BrokenError(f"{what} is not valid: {error}\n{program}") from error


def same_program(found: AnyProgram, expected: AnyProgram, what: str) -> None:
    """The same program, with the same hash."""
    if found != expected:
        raise BrokenError(f"{what} is another program:\n{diff(expected, found)}")
    if hash(found) != hash(expected):
        raise BrokenError(f"{what} is equal to it, but has another hash")


def same_content(found: Jaxpr | ClosedJaxpr, expected: Jaxpr | ClosedJaxpr, what: str) -> None:
    """The same program, also by the hash that says so in any process."""
    same_program(found, expected, what)
    one, other = content_hash(found), content_hash(expected)
    if one != other:
        raise BrokenError(f"{what} is equal to it, but its content hash is {one}, not {other}")


def typechecks(subject: Subject) -> None:
    valid(subject.program, "the program")


def text(subject: Subject) -> None:
    """Printed and read again."""
    program, registry = subject.program, subject.registry
    shown = str(program.jaxpr)
    found = parse(shown, registry)
    same_content(found, program.jaxpr, "what its text is read as")
    if str(found) != shown:
        raise BrokenError(f"what its text is read as has another text:\n{found}")
    closed = parse_closed(format_closed(program), registry)
    same_content(closed, program, "what its text with its constants is read as")
    given = parse_closed(str(program), registry, consts=program.consts)
    same_content(given, program, "what its text is read as, given its constants,")


def files(subject: Subject) -> None:
    """Saved and loaded."""
    for program in (subject.program, subject.program.jaxpr):
        file = io.BytesIO()
        save(file, program)
        file.seek(0)
        found = load(file, subject.registry)
        same_content(found, program, "what its file is loaded as")
        again = io.BytesIO()
        save(again, found)
        if again.getvalue() != file.getvalue():
            raise BrokenError("what its file is loaded as has another file")


def pickled(subject: Subject) -> None:
    loaded: ClosedJaxpr = pickle.loads(pickle.dumps(subject.program))
    same_content(loaded, subject.program, "what its pickle is loaded as")


def staging(subject: Subject) -> None:
    """Interpreted in the staging context, a program is recorded as it is."""
    jaxpr = subject.program.jaxpr

    def again(ctx: StagingContext, ins: list[Atom]) -> Sequence[Atom]:
        return interpret(ctx, jaxpr, ins)

    same_program(stage(jaxpr.in_avals, again), jaxpr, "what it is staged as")


def evaluation(subject: Subject) -> None:
    """The outputs are of the types that the program says."""
    found = subject.outs
    for number, (out, aval) in enumerate(zip(found, subject.program.out_avals, strict=True)):
        if (out.shape, out.dtype) != (aval.shape, aval.dtype):
            raise BrokenError(f"output {number} is {out.dtype}{list(out.shape)}, and the program says {aval}")
