"""`tinyjax run`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tinyjax.api.jit import Jitted, jit
from tinyjax.api.make_jaxpr import make_jaxpr
from tinyjax.contexts.evaluation import EvalContext
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.interpret import interpret
from tinyjax.tools.cli.command import Command, add_program, color_of, natural, subject_of
from tinyjax.tools.cli.failure import CommandError
from tinyjax.tools.cli.functions import user_code
from tinyjax.tools.cli.streams import say
from tinyjax.tools.cli.subjects import Subject
from tinyjax.tools.cli.terminal import program_text
from tinyjax.tools.cli.values import (
    as_type,
    named_results,
    random_arguments,
    read_inputs,
    results_text,
    write_results,
)
from tinyjax.tracing import tree
from tinyjax.tracing.concrete import ConcreteArray, as_array


def _configure(parser: ArgumentParser) -> None:
    add_program(parser)
    parser.add_argument(
        "--inputs",
        nargs="+",
        metavar="INPUT",
        help="FILE.npy, FILE.npz (all its arrays, in order), FILE.npz:NAME, or a Python literal, for each argument; "
        "NAME=INPUT by name",
    )
    parser.add_argument("--seed", type=natural, default=0, metavar="N", help="of the random inputs, if none are given")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the results to an .npz or .npy file")
    parser.add_argument("--numpy", action="store_true", help="compute equation by equation, without compiling")


def _run(options: Namespace) -> int:
    subject = subject_of(options)
    args, kwargs = _arguments(subject, options.inputs, options.seed)
    results = _results(subject, args, kwargs, options.numpy)
    named = named_results(results)
    if options.output is not None:
        write_results(Path(options.output), named)
        say(options.output)
    else:
        say(program_text(results_text(named), color_of(options)))
    return 0


def _arguments(
    subject: Subject, inputs: Sequence[str] | None, seed: int
) -> tuple[Sequence[Any], Mapping[str, Any]]:  # the user's
    """What is given, in the types that the program takes if these are known; or random numbers of these types."""
    types = subject.args
    if inputs is None:
        if types is None:
            raise CommandError(f"{subject.name} needs --inputs, or --args for random ones")
        return random_arguments(types, seed), {}
    values, named = read_inputs(inputs)
    if types is None or (subject.closed is None and not types):
        return values, named
    if named and set(named) != set(subject.keywords):
        known = ", ".join(subject.keywords) or "none"
        raise CommandError(f"--inputs by name are {', '.join(named)}, but --args by name: {known}")
    values += [named[name] for name in subject.keywords if name in named]
    leaves, treedef = tree.flatten(types)
    avals = [leaf for leaf in leaves if isinstance(leaf, ShapedArray)]
    if len(values) != len(avals):
        raise CommandError(f"{subject.name} takes {len(avals)} arrays, got {len(values)}")
    arrays = [as_type(value, aval, i) for i, (value, aval) in enumerate(zip(values, avals, strict=True))]
    found: Sequence[Any] = tree.unflatten(treedef, arrays)  # the user's
    return found, {}


def _results(subject: Subject, args: Sequence[Any], kwargs: Mapping[str, Any], on_host: bool) -> Any:  # the user's
    with user_code(f"running {subject.name}"):
        if not on_host:
            function = subject.function
            return (function if isinstance(function, Jitted) else jit(function))(*args, **kwargs)
        closed, shape = make_jaxpr(subject.function, return_shape=True)(*args, **kwargs)
        leaves, _ = tree.flatten((tuple(args), dict(kwargs)))
        values = [array.value for leaf in leaves if isinstance(array := as_array(leaf), ConcreteArray)]
        outs = interpret(EvalContext(), closed.jaxpr, [*closed.consts, *values])
        _, treedef = tree.flatten(shape)
        return tree.unflatten(treedef, list(map(ConcreteArray, outs)))


COMMAND: Final = Command(
    summary="run a program or a function on arrays from files, literals, or random ones",
    details="Compiles a program and runs it once. Without --inputs, they are random, the same for the same --seed.",
    examples="""\
  tinyjax run program.tinyjax --inputs x.npy "[1.0, 2.0]" -o results.npz
  tinyjax run model.py:loss --inputs data.npz
  tinyjax run model.py:loss --args "f32[8,8]" --transform grad --seed 1
""",
    configure=_configure,
    run=_run,
)
