"""Which rules a program that is imported is a part of, and when it is the same within others."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final, Generic, TypeAlias, TypeVar, final

from attrs import field, frozen
from jax.extend.core import JaxprEqn
from jax.extend.core import Var as JaxVar

from tinyjax.ir.program import Jaxpr

T = TypeVar("T")
#: What two calls of one function with derivatives of its own have in common; None stands for any function.
Key: TypeAlias = tuple[object, ...]
#: On what of the rules around it a program depends.
_Dependence: TypeAlias = tuple[bool, tuple[tuple[int, int], ...]]
_ANY: Final = ("any",)


@final
@frozen(eq=False)
class OpenRule:
    """A rule that is being imported. `key` and `body` tell whose it is; `seen` collects the equations in it that apply
    the function itself, which `recursive` allows to stand for it. `closed_over` is what is known so far that the rules
    of the function close over: theirs, where they apply it, close over the same."""

    key: Key
    body: Jaxpr
    recursive: bool = True
    closed_over: Sequence[JaxVar] = ()
    seen: list[JaxprEqn] = field(factory=list)


@final
@frozen(eq=False)
class OpenRules:
    """The rules that a program is a part of, innermost first. `met` are the functions that have been looked for among
    them: where none of these has an open rule, the program is the same."""

    rules: tuple[OpenRule, ...] = ()
    met: set[Key] = field(factory=set)

    def within(self, rule: OpenRule) -> OpenRules:
        """Of what is a part of one more rule. What that meets, these have met."""
        return OpenRules((rule, *self.rules), self.met)

    def apart(self) -> OpenRules:
        """The same for a part of the program, of which it is to be known what that meets."""
        return OpenRules(self.rules)

    def of(self, key: Key) -> list[tuple[int, OpenRule]]:
        """Those of one function, with how far out they are."""
        self.met.add(key)
        return [(level, rule) for level, rule in enumerate(self.rules) if rule.key == key]

    def any(self) -> bool:
        """Whether there are any."""
        self.met.add(_ANY)
        return bool(self.rules)

    def dependence(self, met: frozenset[Key]) -> _Dependence:
        """What of these a program depends on that has met so many."""
        found = tuple([(level, id(rule)) for level, rule in enumerate(self.rules) if rule.key in met])
        return _ANY in met and bool(self.rules), found


@final
class Shared(Generic[T]):
    """What has been found, by a key, and by those of the rules around it that it depends on. Rules are known by
    identity, so they are kept."""

    __slots__ = ("_found", "_kept")

    def __init__(self) -> None:
        self._found: dict[Hashable, dict[frozenset[Key], dict[_Dependence, T]]] = {}
        self._kept: list[OpenRules] = []

    def get(self, key: Hashable, rules: OpenRules) -> T | None:
        """The value within these rules, which meet what it has met."""
        for met, values in self._found.get(key, {}).items():
            found = values.get(rules.dependence(met))
            if found is not None:
                rules.met.update(met)
                return found
        return None

    def put(self, key: Hashable, rules: OpenRules, value: T) -> None:
        """For what has met all that these have."""
        met = frozenset(rules.met)
        self._kept.append(rules)
        self._found.setdefault(key, {}).setdefault(met, {})[rules.dependence(met)] = value
