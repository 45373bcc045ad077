"""What commands work on: a function of a user's file, or a program from a file, with arguments and transformations."""

from __future__ import annotations

import inspect
import io
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Final, final

from attrs import evolve, frozen

from tinyjax.api.arguments import WithStatic
from tinyjax.api.make_jaxpr import eval_jaxpr, make_jaxpr
from tinyjax.errors import InputError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.files.program_files import load
from tinyjax.ir.program import ClosedJaxpr, Jaxpr
from tinyjax.ir.text.parser import parse, parse_closed
from tinyjax.ir.text.registry import Registry
from tinyjax.ir.typecheck import typecheck
from tinyjax.tools.cli.arguments import Argument, Fixed, filled, is_fixed, parse_arguments, traced_part
from tinyjax.tools.cli.failure import CommandError
from tinyjax.tools.cli.functions import call_at_definition, load_function, load_module, load_object, user_code
from tinyjax.tools.cli.passes import parse_passes
from tinyjax.tools.cli.streams import read_all
from tinyjax.tools.cli.transformations import Function, parse_transformations

_ZIP: Final = b"PK"


@final
@frozen(eq=False)
class Subject:
    """A function of trees of arrays, with the types of its arguments where they are known.

    `closed` is the program that it is, if it comes from a file and nothing was done to it. `keywords` are the names of
    the last arguments, where they were given by name.
    """

    name: str
    function: Function
    args: tuple[Any, ...] | None  # trees of types
    closed: ClosedJaxpr | None = None
    keywords: tuple[str, ...] = ()

    def program(self) -> ClosedJaxpr:
        """The program, verified."""
        if self.closed is not None:
            typecheck(self.closed)
            return self.closed
        if self.args is None:
            raise without_arguments(self)
        args = self.args
        with user_code(f"tracing {self.name}"):
            closed = call_at_definition(self.function, lambda: make_jaxpr(self.function)(*args))
        typecheck(closed)
        return closed


def without_arguments(subject: Subject) -> CommandError:
    """What to say of a function whose arguments nobody told."""
    return CommandError(f"{subject.name} needs --args{_wanted(subject.function)}")


def load_subject(
    spec: str, *, args: str | None = None, transform: str = "", passes: str = "", registry: str | None = None
) -> Subject:
    """The subject that a command's arguments describe."""
    path, separator, name = spec.rpartition(":")
    if separator and path.endswith(".py"):
        subject = function_subject(load_function(Path(path), name), name, args)
    elif spec.endswith(".py"):
        raise CommandError(f"{spec} needs a function: {spec}:NAME{_available(Path(spec))}")
    else:
        subject = _program(spec, args, registry)
    for transformation in parse_transformations(transform):
        with user_code(f"{transformation} of {subject.name}"):
            function = transformation(subject.function)
        subject = evolve(subject, function=function, closed=None, name=f"{transformation.name} of {subject.name}")
    return _after_passes(subject, passes)


def function_subject(function: Function, name: str, args: str | None) -> Subject:
    """A function with the arguments that a text describes."""
    if args is None:
        return Subject(name, function, None if _parameters(function) else ())
    arguments = parse_arguments(args)
    fixed = {i: filled(arg, None) for i, arg in enumerate(arguments.positional) if is_fixed(arg)}
    named = {key: filled(arg, None) for key, arg in arguments.named.items() if is_fixed(arg)}
    keywords = tuple(key for key in arguments.named if key not in named)
    traced = [arg for arg in arguments.positional if not is_fixed(arg)] + [arguments.named[key] for key in keywords]
    rest = WithStatic(function, fixed, named) if fixed or named else function
    types = tuple(traced_part(arg, lambda aval: aval) for arg in traced)
    names = _positional_names(function, len(arguments.positional))
    called = _by_position(rest, [name for i, name in enumerate(names) if i not in fixed], keywords)
    return Subject(name, _with_literals(called, traced), types, keywords=keywords)


def _by_position(function: Function, positional: Sequence[str], keywords: Sequence[str]) -> Function:
    """The function with these keyword arguments as its last positional ones, for transformations to number them."""
    if not keywords:
        return function

    @wraps(function)
    def call(*args: Any) -> Any:  # the user's
        count = len(args) - len(keywords)
        return function(*args[:count], **dict(zip(keywords, args[count:], strict=True)))

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    vars(call)["__signature__"] = inspect.Signature(
        [inspect.Parameter(name, kind) for name in (*positional, *keywords)]
    )
    return call


def _positional_names(function: Callable[..., Any], count: int) -> list[str]:  # the user's
    """What a function calls its first positional arguments."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [names[i] if i < len(names) else f"argument_{i}" for i in range(count)]


def _with_literals(function: Function, arguments: Sequence[Argument]) -> Function:
    """The function of what is traced in trees that have literals too."""
    if not any(map(_has_literals, arguments)):
        return function

    @wraps(function)
    def call(*args: Any) -> Any:  # the user's
        return function(*map(filled, arguments, args))

    return call


def _has_literals(argument: Argument) -> bool:
    if isinstance(argument, dict):
        return any(map(_has_literals, argument.values()))
    return isinstance(argument, Fixed) or (isinstance(argument, list | tuple) and any(map(_has_literals, argument)))


def _program(spec: str, args: str | None, registry: str | None) -> Subject:
    closed = load_program(spec, registry)
    name = "program" if spec == "-" else Path(spec).stem
    types: tuple[Any, ...] = closed.in_avals
    if args is not None:
        arguments = parse_arguments(args)
        if arguments.named:
            raise CommandError(f"--args: the arguments of {spec} have no names")
        if not all(isinstance(arg, ShapedArray) for arg in arguments.positional):
            raise CommandError(f"--args: {spec} takes arrays only")
        types = arguments.positional

    def run(*values: Any) -> Any:  # arrays of any kind
        outs = eval_jaxpr(closed, (), *values)
        return outs[0] if len(outs) == 1 else tuple(outs)

    run.__name__ = name
    return Subject(name, run, types, closed)


def load_program(spec: str, registry: str | None = None) -> ClosedJaxpr:
    """The program in a file: one that `ir.save` wrote, or a text of one (`-`: from standard input)."""
    known = None if registry is None else load_registry(registry)
    name = "<stdin>" if spec == "-" else spec
    content = read_all() if spec == "-" else _content(spec)
    if spec == "-" and not content:
        raise CommandError("standard input is empty: it can be read once")
    if content.startswith(_ZIP):
        found = load(io.BytesIO(content), known)
        return found if isinstance(found, ClosedJaxpr) else ClosedJaxpr(found)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise CommandError(f"{name} is neither the text of a program nor one that was saved") from None
    return read_program(text, name, known)


def _content(spec: str) -> bytes:
    path = Path(spec)
    if path.is_dir():
        raise CommandError(f"{spec} is a directory")
    if not (path.is_file() or path.is_fifo()):
        raise CommandError(f"there is no file {spec}")
    return path.read_bytes()


def read_program(text: str, file: str, registry: Registry | None) -> ClosedJaxpr:
    """The program in a text. Constants that it has only the types of become inputs."""
    try:
        return parse_closed(text, registry, file=file)
    except InputError:
        jaxpr: Jaxpr = parse(text, registry, file=file)
        return ClosedJaxpr(jaxpr)


def load_registry(spec: str) -> Registry:
    path, separator, name = spec.rpartition(":")
    if not separator:
        raise CommandError(f"--registry: expected FILE.py:NAME, got {spec!r}")
    found = load_object(Path(path), name)
    if not isinstance(found, Registry):
        raise CommandError(f"--registry: {name} in {path} is a {type(found).__name__}, not an ir.Registry")
    return found


def _after_passes(subject: Subject, passes: str) -> Subject:
    pipeline = parse_passes(passes)
    if pipeline is None:
        return subject
    program = pipeline(subject.program())

    def run(*values: Any) -> Any:  # arrays of any kind
        return tuple(eval_jaxpr(program, (), *values))

    run.__name__ = subject.name
    return Subject(subject.name, run, program.in_avals, program)


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:  # the user's
    """The parameters that have no default."""
    try:
        found = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {name: p for name, p in found.items() if p.default is p.empty and p.kind not in kinds}


def _wanted(function: Callable[..., Any]) -> str:  # the user's
    found = _parameters(function)
    names = [f"{name}=" if p.kind is p.KEYWORD_ONLY else name for name, p in found.items()]
    return f": a type for each of {', '.join(names)}, such as f32[8,8]" if names else ""


def _available(path: Path) -> str:
    from tinyjax.tools.cli.functions import function_names

    names = function_names(load_module(path))
    return f", one of {', '.join(names)}" if names else ", but it has none"
