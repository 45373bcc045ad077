"""Static arguments, `argnums`, and other ways of picking arguments."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, final

import numpy as np
from attrs import frozen
from typing_extensions import override

from tinyjax.errors import InputError, StaticArgumentError
from tinyjax.ir.dtypes import INEXACT
from tinyjax.ir.merging import completed
from tinyjax.tracing.functions import Filled, function_name
from tinyjax.tracing.programs import Traced

if TYPE_CHECKING:
    from jax.tree_util import PyTreeDef


@final
class WithStatic(Filled):
    """A function with some arguments filled in: those which are part of its identity instead of being traced."""

    __slots__ = ("__name__", "__wrapped__", "_named", "_positional")

    def __init__(self, f: Callable[..., object], positional: Mapping[int, object], named: Mapping[str, object]) -> None:
        self.__wrapped__: Callable[..., object] = f
        self.__name__: str = function_name(f)
        self._positional = positional
        self._named = named

    @property
    def filled(self) -> dict[int | str, object]:
        """The arguments that are filled in, by position or name."""
        found: dict[int | str, object] = dict(self._positional.items())
        found.update(self._named)
        return found

    @property
    @override
    def filled_in(self) -> tuple[object, ...]:
        return (*self.filled, *self.filled.values())

    @override
    def position(self, index: int) -> int:
        for i in sorted(self._positional):
            index += i <= index
        return index

    @override
    def __call__(self, /, *args: object, **kwargs: object) -> object:
        full = completed(self._positional, args, len(args) + len(self._positional))
        return self.__wrapped__(*full, **self._named, **kwargs)


@final
@frozen(eq=False)
class StaticCall:
    """A call divided into what is traced and what is static. `key` identifies the static part, and `link` is applied to
    the function when it is staged out, however often it has been met."""

    function: Callable[..., object]
    args: tuple[object, ...]
    kwargs: dict[str, object]
    key: tuple[Hashable, ...]
    link: Callable[[Traced], Traced] | None = None


def as_tuple(numbers: int | Sequence[int] | None) -> tuple[int, ...]:
    """One position or several, or none, as a tuple of ints."""
    if numbers is None:
        return ()
    try:
        return (operator.index(numbers),) if not isinstance(numbers, Sequence) else tuple(map(operator.index, numbers))
    except TypeError:
        raise InputError(f"positions of arguments are integers, got {numbers!r}") from None


def names_tuple(names: str | Sequence[str] | None) -> tuple[str, ...]:
    """One name or several, or none, as a tuple of strings."""
    given: object = names
    if names is None or isinstance(names, str):
        return () if names is None else (names,)
    if isinstance(given, Iterable) and getattr(given, "shape", None) != ():
        listed = tuple(names)
        if all(isinstance(name, str) for name in listed):
            return listed
    raise InputError(f"names of arguments are strings, got {names!r}")


def resolve_position(number: int, count: int, what: str) -> int:
    """A position among `count` arguments, counted from the end if it is negative."""
    if not -count <= number < count:
        raise InputError(f"{what} {number} is out of range: the call has {count} positional arguments")
    return number % count


def resolve_argnums(what: str, argnums: int | Sequence[int], count: int) -> list[int]:
    """The positions among `count` arguments to differentiate with respect to."""
    given: object = argnums
    if given is None:
        raise InputError(f"{what}: argnums is the position of an argument, or a sequence of positions, got None")
    chosen = [resolve_position(number, count, f"{what}: argnums") for number in as_tuple(argnums)]
    if len(set(chosen)) < len(chosen):
        raise InputError(f"{what}: argnums {argnums} names an argument twice")
    return chosen


def resolve_static(
    f: Callable[..., object],
    numbers: int | Sequence[int] | None,
    names: str | Sequence[str] | None,
    kind: str = "static",
    together: bool = True,
    stand: bool = False,
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Positions and names of static (or donated) arguments, each completed by what the signature says of the other.

    Where both are given `together`, they stand: an argument may be static by name, and not by position. So they do if
    they are to `stand`, though one may be empty.
    """
    positions, named = as_tuple(numbers), names_tuple(names)
    if not positions and not named:
        return (), ()
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        return positions, named
    ordered = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    catch_all = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    known = {p.name: p for p in parameters}
    for name in named:
        found = known.get(name)
        if found is None:
            if not any(p.kind is p.VAR_KEYWORD for p in parameters):
                raise StaticArgumentError(f"{function_name(f)} has no argument {name!r}, which is marked {kind}")
        elif found.kind in (found.POSITIONAL_ONLY, found.VAR_POSITIONAL):
            raise StaticArgumentError(
                f"argument {name!r} of {function_name(f)}, which is marked {kind}, can't be given by name: mark its "
                "position"
            )
    for number in positions:
        if not catch_all and not -len(ordered) <= number < len(ordered):
            raise StaticArgumentError(
                f"{function_name(f)} has {len(ordered)} positional arguments; number {number} is marked {kind}"
            )
    absolute = {n % len(ordered) if n < 0 and not catch_all else n for n in positions}
    if stand or (positions and named and together):
        return tuple(sorted(absolute)), tuple(sorted(set(named)))
    absolute |= {i for i, p in enumerate(ordered) if p.name in named}
    also = {p.name for i, p in enumerate(ordered) if i in absolute and p.kind is p.POSITIONAL_OR_KEYWORD}
    return tuple(sorted(absolute)), tuple(sorted({*named, *also}))


def split_static(
    f: Callable[..., object],
    args: Sequence[object],
    kwargs: Mapping[str, object],
    numbers: int | Sequence[int],
    names: str | Sequence[str],
) -> StaticCall:
    """Divides the arguments of a call; a StaticArgumentError for static ones that can't be hashed."""
    positions, named = resolve_static(f, numbers, names)
    return split_resolved(f, args, kwargs, positions, named)


def split_resolved(
    f: Callable[..., object],
    args: Sequence[object],
    kwargs: Mapping[str, object],
    positions: tuple[int, ...],
    names: tuple[str, ...],
) -> StaticCall:
    if not positions and not names:
        return StaticCall(f, tuple(args), dict(kwargs), ())
    chosen = {n % len(args) for n in positions if -len(args) <= n < len(args)}
    positional = {i: args[i] for i in chosen}
    named = {name: kwargs[name] for name in names if name in kwargs}
    for what, value in (*positional.items(), *named.items()):
        try:
            hash(value)
        except TypeError:
            raise StaticArgumentError(
                f"argument {what!r} of {function_name(f)} is static, so it must be hashable; got a "
                f"{type(value).__name__}: {value!r}. Pass a tuple or another immutable value, or don't mark it static."
            ) from None
    key = (
        tuple((i, static_key(v)) for i, v in sorted(positional.items())),
        tuple((name, static_key(v)) for name, v in sorted(named.items())),
    )
    rest = {name: value for name, value in kwargs.items() if name not in named}
    dynamic = tuple(arg for i, arg in enumerate(args) if i not in chosen)
    return StaticCall(WithStatic(f, positional, named), dynamic, rest, key)


def static_key(value: object) -> Hashable:
    """A key under which static arguments are equal only if they are of equal types too: 1, 1.0 and True are three
    values, also within tuples and frozensets; so are zeros of either sign, Python's and NumPy's; and nan is itself."""
    if isinstance(value, tuple):
        return type(value), tuple(map(static_key, value))
    if isinstance(value, frozenset):
        return type(value), frozenset(map(static_key, value))
    if isinstance(value, float):
        return type(value), value.hex()
    if isinstance(value, complex):
        return type(value), value.real.hex(), value.imag.hex()
    if isinstance(value, np.generic) and value.dtype in INEXACT:
        return type(value), value.tobytes()
    return type(value), value


def arranged(
    signature: inspect.Signature | None, in_tree: PyTreeDef, call: StaticCall
) -> tuple[tuple[object, ...], dict[str, object]]:
    """The arguments by position or by name, as those were which a function of this signature was traced for, if they
    can be."""
    if signature is None:
        return call.args, call.kwargs
    positional, named = in_tree.children()
    node = named.node_data()
    names: Sequence[str] = [] if node is None else list(node[1])
    try:
        bound = signature.bind(*call.args, **call.kwargs)
    except TypeError:
        return call.args, call.kwargs
    values: dict[str, object] = {}
    for parameter in signature.parameters.values():
        if parameter.name not in bound.arguments:
            continue
        value = bound.arguments[parameter.name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            return call.args, call.kwargs
        values.update(value if parameter.kind is parameter.VAR_KEYWORD else {parameter.name: value})
    count = len(positional.children())
    if any(name not in values for name in names) or len(values) != count + len(names):
        return call.args, call.kwargs
    kwargs = {name: values.pop(name) for name in names}
    return tuple(values.values()), kwargs
