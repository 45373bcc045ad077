"""What importing a program asks for: other programs, which are imported before it goes on."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager
from typing import Final, Generic, TypeAlias, TypeVar, final

import jax
from attrs import frozen
from jax.extend.core import ClosedJaxpr as JaxClosedJaxpr
from jax.extend.core import Jaxpr as JaxJaxpr
from jax.extend.core import JaxprEqn
from jax.extend.core import Var as JaxVar

from tinyjax.backend import jax_equations
from tinyjax.interop.open_rules import OpenRules
from tinyjax.interop.policies import Asked
from tinyjax.ir.program import Jaxpr

T = TypeVar("T")


@final
@frozen(eq=False)
class Given:
    """Stands for a constant that is an input of the program instead: of the value of a variable around the program."""

    variable: JaxVar | None = None


#: Of which no more is known.
GIVEN: Final = Given()


@final
@frozen(eq=False)
class Region:
    """What is within a `shard_map` of JAX: where its functions, such as rules of derivatives, are traced."""

    mesh: jax.sharding.Mesh | jax.sharding.AbstractMesh
    names: tuple[str, ...]
    tracked: bool

    def entered(self) -> AbstractContextManager[None]:
        return jax_equations.within_mesh(self.mesh, self.names, self.tracked)


@final
@frozen(eq=False)
class Request:
    """A program to import. Its constants are values, or the next of its first inputs; without `consts`, all of them are
    inputs. `rules` are those it is a part of. `region` is what it is within, if that is another one
    than of the program that asks for it. `passed` are variables around it that it doesn't read, but what it applies
    may: inputs as well, after the constants. `asked` is the policy that is asked about its equations, if that is
    another one than of the program that asks for it."""

    jaxpr: JaxJaxpr
    consts: tuple[object, ...]
    rules: OpenRules
    region: Region | None = None
    passed: tuple[JaxVar, ...] = ()
    asked: Asked | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """What requests for the same have in common, as long as they live, but for the rules."""
        return id(self.jaxpr), tuple(map(id, self.consts)), id(self.region), self.passed, self.asked


@final
@frozen
class Done(Generic[T]):
    """What a computation has come to."""

    value: T


#: A computation that asks for programs within the one that it imports.
Step: TypeAlias = Generator[Request, Jaxpr, T]


def request(program: JaxJaxpr | JaxClosedJaxpr, rules: OpenRules, region: Region | None = None) -> Request:
    """For a program within another one."""
    # From JAX 0.11 on both are of one class, and what isn't closed has no constants.
    consts: Sequence[object] | None = getattr(program, "consts", None)
    if consts is None:
        return open_request(program, region, rules)
    return Request(jax_equations.program_of(program), tuple(consts), rules, region)


def open_request(
    program: JaxJaxpr | JaxClosedJaxpr, region: Region | None = None, rules: OpenRules | None = None
) -> Request:
    """For a program whose constants feed the first inputs."""
    jaxpr = jax_equations.program_of(program)
    return Request(jaxpr, (GIVEN,) * len(jaxpr.constvars), rules or OpenRules(), region)


def resumed(step: Step[T], found: Jaxpr | None, region: Region | None) -> Request | Done[T]:
    """What a computation asks for next, given what it asked for last; or what it has come to."""
    try:
        if region is None:
            return next(step) if found is None else step.send(found)
        with region.entered():
            return next(step) if found is None else step.send(found)
    except StopIteration as stop:
        return Done(stop.value)


def region_of(eqn: JaxprEqn) -> Region | None:
    """Within what the program of a `shard_map` is; None for other equations."""
    if eqn.primitive.name != "shard_map":
        return None
    params = eqn.params
    mesh = params["mesh"]
    names = params.get("newly_manual_axes", params.get("manual_axes", ()))  # the latter in 0.10.0
    own = tuple([name for name in mesh.axis_names if name in names and name not in mesh.manual_axes])
    return Region(mesh, own, bool(params["check_vma"]))
