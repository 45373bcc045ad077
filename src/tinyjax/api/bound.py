"""Callables that are methods when they are attributes of a class, as functions are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from types import MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, Self, TypeVar, overload

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")
#: By which rules of a function are set, also where it is wrapped in others.
_SETTING: Final = frozenset({"defjvp", "defjvps", "defvjp", "def_vmap"})


class Bound(ABC, Generic[P, R]):
    """What wraps a function: in a class, the instance becomes the first argument."""

    @abstractmethod
    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R: ...

    @overload  # of a class method
    def __get__(self: Callable[Concatenate[S, Q], R], instance: object, owner: S) -> Callable[Q, R]: ...
    @overload
    def __get__(self: Callable[Concatenate[S, Q], R], instance: S, owner: type | None = None) -> Callable[Q, R]: ...
    @overload  # of the class, or of a static method
    def __get__(self, instance: object, owner: type | None = None) -> Self: ...
    def __get__(self, instance: object, owner: object = None) -> object:
        """As a method: the instance becomes the first argument."""
        return self if instance is None else MethodType(self, instance)

    if not TYPE_CHECKING:  # it is for those that wrap others, whose types don't say so

        def __getattr__(self, name: str) -> Any:
            if name in _SETTING:
                return getattr(self.__wrapped__, name)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
