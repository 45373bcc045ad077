"""`tinyjax port`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Final

from tinyjax.tools.cli.command import Command
from tinyjax.tools.cli.failure import CommandError
from tinyjax.tools.cli.functions import call_at_definition, import_function, load_function, user_code
from tinyjax.tools.cli.streams import say
from tinyjax.tools.cli.subjects import function_subject, without_arguments


def _configure(parser: ArgumentParser) -> None:
    parser.add_argument("program", metavar="FUNCTION", help="MODULE:FUNC or FILE.py:FUNC, a function of JAX")
    parser.add_argument(
        "--args", metavar="TYPES", help='the types of FUNC\'s arguments, as for other commands: "f32[8,8], 2"'
    )


def _run(options: Namespace) -> int:
    spec: str = options.program
    home, separator, name = spec.rpartition(":")
    if not (separator and home and name):
        raise CommandError(f"{spec!r} names no function: MODULE:FUNC or FILE.py:FUNC")
    function = load_function(Path(home), name) if home.endswith(".py") else import_function(home, name)
    # Only here, since they import JAX: what the function's module says of JAX in os.environ is read by then.
    from tinyjax.interop.from_jax import imported, traced_by_jax
    from tinyjax.ir.traverse import nested_programs

    subject = function_subject(function, name, options.args)
    if subject.args is None:
        raise without_arguments(subject)
    args = subject.args
    with user_code(f"tracing {name}"):
        closed = call_at_definition(subject.function, lambda: traced_by_jax(subject.function, *args))
    program, lacks = imported(closed)
    if lacks:
        say(f"{spec}: tinyjax has nothing for these, with the number of equations, and their lines:")
        for lack in lacks:
            say(f"  {lack}")
        return 1
    count = sum(len(nested.eqns) for nested in nested_programs(program.jaxpr))
    say(f"{spec}: nothing is missing: {count} equation{'' if count == 1 else 's'}")
    return 0


COMMAND: Final = Command(
    summary="say what a function of JAX needs that tinyjax lacks",
    details="Traces a function with JAX, and lists all that from_jax and of_jax would miss, with the lines that have "
    "it. The exit code is 1 if there is anything.",
    examples="""\
  tinyjax port model.py:loss --args "f32[8,8]"
  tinyjax port package.model:loss --args "{'w': f32[3]}, f32[8,3], 'tanh'"
""",
    configure=_configure,
    run=_run,
)
