"""What the signatures of derivatives say of functions. Nothing here runs: it is for type checkers.

A derivative with respect to an argument has the argument's type: a tree stays that tree, and an array that array. But a
function that takes numbers as well as arrays (ArrayLike) has an Array as its derivative, whatever it is given. Such a
function must be told apart from a lambda, which takes anything, and whose body a type checker would read with the types
of the first signature that may fit. So signatures for functions of anything come first, and name no argument's type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, Literal, ParamSpec, TypeAlias, TypeVar, final


@final
class Anything:
    """What no function takes that says what it takes."""


A = TypeVar("A", bound=Any)  # any: a lambda computes with it
P = ParamSpec("P")
R = TypeVar("R")
Aux = TypeVar("Aux")
B = TypeVar("B", bound=Any)
C = TypeVar("C", bound=Any)
# Functions of at least so many arguments; and what chooses among them.
One: TypeAlias = Callable[Concatenate[A, P], R]
Two: TypeAlias = Callable[Concatenate[A, B, P], R]
Three: TypeAlias = Callable[Concatenate[A, B, C, P], R]
JustFirst: TypeAlias = tuple[Literal[0]]
FirstTwo: TypeAlias = tuple[Literal[0], Literal[1]]
FirstAndThird: TypeAlias = tuple[Literal[0], Literal[2]]
LastTwo: TypeAlias = tuple[Literal[1], Literal[2]]
FirstThree: TypeAlias = tuple[Literal[0], Literal[1], Literal[2]]
Other: TypeAlias = Literal[-3, -2, -1, 3, 4, 5, 6, 7]
WithAux: TypeAlias = Literal[True]
NoAux: TypeAlias = Literal[False]

#: A function of anything, such as a lambda. Type checkers don't ask a bound for the types of its arguments.
Untyped = TypeVar("Untyped", bound=Callable[Concatenate[Anything, ...], Any])
Untyped2 = TypeVar("Untyped2", bound=Callable[Concatenate[Anything, Anything, ...], Any])
