"""What a command consists of, and the options that several have."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from typing import Final, final

from attrs import frozen

from tinyjax.tools.cli.subjects import Subject, load_subject
from tinyjax.tools.cli.terminal import When, wants_color

#: Python reads no longer integers.
_DIGITS: Final = 4000


@final
@frozen
class Command:
    """A command: what `--help` says, with examples; its options; and what it does, which returns the exit code."""

    summary: str
    details: str
    examples: str
    configure: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], int]


def natural(text: str) -> int:
    """A number of things that an option says, for its `type`."""
    if text.isascii() and text.isdigit() and len(text) < _DIGITS:
        return int(text)
    raise ArgumentTypeError(f"expected an integer, 0 or more, got {text!r}")


def add_program(parser: ArgumentParser, what: str = "FILE.py:FUNC, or a file with a program, or - for a text") -> None:
    """The options that say which program."""
    parser.add_argument("program", metavar="PROGRAM", help=what)
    add_preparation(parser)


def add_preparation(parser: ArgumentParser) -> None:
    """The options that say what is done to a program first."""
    group = parser.add_argument_group("program")
    group.add_argument(
        "--args",
        metavar="TYPES",
        help="the types of FUNC's arguments, trees of them, and Python literals, which aren't traced: "
        "\"f32[8,8], {'w': f32[3]}, 2, scale=f32[]\"",
    )
    group.add_argument(
        "--transform",
        metavar="NAMES",
        default="",
        help="transformations in the order in which they are applied, maybe with options: grad(argnums=1),vmap,jit. "
        "--args are the arguments of the result",
    )
    group.add_argument(
        "--passes",
        metavar="NAMES",
        default="",
        help="passes over the program that results: cse,dce,inline,..., or all",
    )
    group.add_argument(
        "--registry", metavar="FILE.py:NAME", help="an ir.Registry with primitives of your own, for programs from files"
    )


def subject_of(options: Namespace, spec: str | None = None) -> Subject:
    """The subject that these options describe."""
    return load_subject(
        options.program if spec is None else spec,
        args=options.args,
        transform=options.transform,
        passes=options.passes,
        registry=options.registry,
    )


def color_of(options: Namespace) -> bool:
    """Whether standard output is coloured."""
    when: When = options.color
    return wants_color(sys.stdout, when)
