"""What importing a program asks for: other programs, which are imported before it goes on."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, TypeAlias, TypeVar, final

from attrs import field, frozen
from jax.extend.core import ClosedJaxpr as JaxClosedJaxpr
from jax.extend.core import Jaxpr as JaxJaxpr
from jax.extend.core import JaxprEqn
from jax.extend.core import Var as JaxVar

from tinyjax.ir.program import Jaxpr

T = TypeVar("T")


@final
@frozen(eq=False)
class OpenRule:
    """A rule that is being imported. `key` and `body` tell whose it is; `seen` collects the equations in it that apply
    the function itself, which `recursive` allows to stand for it."""

    key: tuple[object, ...]
    body: Jaxpr
    recursive: bool = True
    seen: list[JaxprEqn] = field(factory=list)


@final
@frozen(eq=False)
class Given:
    """Stands for a constant that is an input of the program instead: of the value of a variable around the program."""

    variable: JaxVar | None = None


#: Of which no more is known.
GIVEN: Final = Given()


@final
@frozen(eq=False)
class Request:
    """A program to import. Its constants are values, or the next of its first inputs; without `consts`, all of them are
    inputs. `rules` are those it is a part of, innermost first."""

    jaxpr: JaxJaxpr
    consts: tuple[object, ...]
    rules: tuple[OpenRule, ...]

    @property
    def key(self) -> tuple[object, ...]:
        """What requests for the same have in common, as long as they live."""
        return id(self.jaxpr), tuple(map(id, self.consts)), tuple(map(id, self.rules))


#: A computation that asks for programs within the one that it imports.
Step: TypeAlias = Generator[Request, Jaxpr, T]


def request(program: JaxJaxpr | JaxClosedJaxpr, rules: tuple[OpenRule, ...]) -> Request:
    """For a program within another one."""
    if isinstance(program, JaxClosedJaxpr):
        return Request(program.jaxpr, tuple(program.consts), rules)
    return Request(program, (GIVEN,) * len(program.constvars), rules)
