"""Programs in files: a zip archive with a table, the columns of equations, and the elements of arrays.

    header.json      which format this is, and its version
    names.json       what the inputs of programs are called, if they have names
    program.json     types, literals, source lines, parameters and programs, as tables (`tinyjax.ir.files.schema`)
    columns/NAME     equations, as little-endian integers (`tinyjax.ir.files.columns`)
    arrays/N         the elements of an array, row by row, little-endian

Nothing in a file is run or imported: it names primitives and the classes of parameters, and a registry says what they
are. What was read is verified like any other program.
"""

from __future__ import annotations

import os
from typing import IO, TypeAlias

from tinyjax.collecting import collecting_seldom
from tinyjax.errors import InputError
from tinyjax.ir.holding import AnyProgram, HoldsProgram
from tinyjax.ir.program import ClosedJaxpr, Jaxpr
from tinyjax.ir.text.registry import STANDARD, Registry

# What it takes to read and write files is imported at first need.

#: A path, or a file that is open in binary mode.
File: TypeAlias = "str | os.PathLike[str] | IO[bytes]"


@collecting_seldom
def save(file: File, program: AnyProgram) -> None:
    """Writes a program and its arrays to a file, which `load` reads on any machine, with the names of its inputs.

    A path is replaced when the new file is complete. A ParameterError if a parameter is a Python function, or anything
    else that only this process knows.

    >>> import io
    >>> from tinyjax.ir import ShapedArray, Var
    >>> x = Var(0, ShapedArray((3,), "float32"))
    >>> save(file := io.BytesIO(), Jaxpr((x,), (), (x,)))
    >>> load(io.BytesIO(file.getvalue()))
    { lambda ; a:f32[3]. let  in (a,) }
    """
    from tinyjax.ir.files.archive import write_archive
    from tinyjax.ir.files.saving import members_of

    if isinstance(program, HoldsProgram):
        program = program.closed_jaxpr
    if not isinstance(program, ClosedJaxpr | Jaxpr):
        raise InputError(f"only a Jaxpr or ClosedJaxpr can be saved, got {type(program).__name__}: {program!r}")
    write_archive(file, members_of(program))


@collecting_seldom
def load(file: File, registry: Registry | None = None) -> ClosedJaxpr | Jaxpr:
    """The program in a file that `save` has written; a FileFormatError if the file isn't that, or isn't intact.

    `registry` says which primitives, records and enumerations the names in the file are: those of the library, unless
    it is given. No code is run for what a file says, so a file from anyone may be loaded.
    """
    from tinyjax.ir.files.archive import opened
    from tinyjax.ir.files.loading import program_in

    with opened(file) as archive:
        return program_in(archive, STANDARD if registry is None else registry)
