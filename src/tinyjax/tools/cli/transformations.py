"""What `--transform` says: transformations in the order in which they are applied, with their options."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Final, TypeAlias, final

from attrs import frozen
from typing_extensions import override

from tinyjax.api import autodiff, gradients, hessians, jacobians, values_and_gradients
from tinyjax.api.checkpointing import checkpoint
from tinyjax.api.jit import jit
from tinyjax.api.vectorize import vmap
from tinyjax.errors import InputError
from tinyjax.tools.cli.failure import CommandError

Function: TypeAlias = Callable[..., Any]  # the user's, of the user's arguments


def _jvp(f: Function) -> Function:
    @wraps(f)
    def jvp(*args: Any) -> Any:  # the user's
        half, odd = divmod(len(args), 2)
        if odd:
            raise InputError(f"jvp takes the arguments, and then a tangent for each; got {len(args)}")
        return autodiff.jvp(f, args[:half], args[half:])

    return jvp


def _vjp(f: Function) -> Function:
    @wraps(f)
    def vjp(*args: Any) -> Any:  # the user's
        if not args:
            raise InputError("vjp takes the arguments, and then a cotangent of the result; got nothing")
        _, pull_back = autodiff.vjp(f, *args[:-1])
        return pull_back(args[-1])

    return vjp


#: The transformations by name, each with its options.
TRANSFORMATIONS: Final[Mapping[str, tuple[Callable[..., Function], tuple[str, ...]]]] = {
    "checkpoint": (checkpoint, ("prevent_cse",)),
    "grad": (gradients.grad, ("argnums", "has_aux", "holomorphic", "allow_int")),
    "hessian": (hessians.hessian, ("argnums", "has_aux", "holomorphic")),
    "jacfwd": (jacobians.jacfwd, ("argnums", "has_aux", "holomorphic")),
    "jacrev": (jacobians.jacrev, ("argnums", "has_aux", "holomorphic", "allow_int")),
    "jit": (jit, ()),
    "jvp": (_jvp, ()),
    "value_and_grad": (values_and_gradients.value_and_grad, ("argnums", "has_aux", "holomorphic", "allow_int")),
    "vjp": (_vjp, ()),
    "vmap": (vmap, ("in_axes", "out_axes", "axis_name", "axis_size", "cond")),
}


@final
@frozen
class Transformation:
    """A transformation and its options."""

    name: str
    options: tuple[tuple[str, object], ...] = ()

    def __call__(self, f: Function) -> Function:
        function, _ = TRANSFORMATIONS[self.name]
        return function(f, **dict(self.options))

    @override
    def __str__(self) -> str:
        inside = ", ".join(f"{name}={value!r}" for name, value in self.options)
        return f"{self.name}({inside})" if inside else self.name


def parse_transformations(text: str) -> list[Transformation]:
    """The transformations that a text names, in the order in which they are applied; a CommandError for others.

    >>> [str(t) for t in parse_transformations("grad(argnums=(0, 1)), vmap, jit")]
    ['grad(argnums=(0, 1))', 'vmap', 'jit']
    """
    if not text.strip():
        return []
    try:
        tree = ast.parse(f"({text}\n,)", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _not_understood(text) from None
    if not isinstance(tree, ast.Tuple):
        raise _not_understood(text)
    return [_transformation(text, node) for node in tree.elts]


def _transformation(text: str, node: ast.expr) -> Transformation:
    call = node if isinstance(node, ast.Call) else None
    name = call.func if call is not None else node
    if not isinstance(name, ast.Name) or (call is not None and call.args):
        raise _not_understood(text)
    if name.id not in TRANSFORMATIONS:
        raise CommandError(f"--transform: there is no {name.id!r}; there are {', '.join(TRANSFORMATIONS)}")
    _, known = TRANSFORMATIONS[name.id]
    options: list[tuple[str, object]] = []
    for option in call.keywords if call is not None else ():
        if option.arg not in known:
            given = option.arg or "**"
            raise CommandError(f"--transform: {name.id} has no option {given!r}; it has {', '.join(known) or 'none'}")
        try:
            options.append((option.arg, ast.literal_eval(option.value)))
        except ValueError:
            raise CommandError(f"--transform: {option.arg} of {name.id} must be a Python literal") from None
    return Transformation(name.id, tuple(options))


def _not_understood(text: str) -> CommandError:
    return CommandError(f"--transform: expected names such as grad,vmap(in_axes=1),jit; got {text!r}")
