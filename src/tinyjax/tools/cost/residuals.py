"""What reverse mode keeps in memory between a function's value and its derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from attrs import evolve, frozen
from typing_extensions import override

from tinyjax.api.checkpointing import saved_residuals
from tinyjax.errors import InputError
from tinyjax.ir.holding import HoldsProgram, checked
from tinyjax.ir.printing.display import Note, page, table
from tinyjax.ir.program import ClosedJaxpr, Jaxpr
from tinyjax.ir.source import SourceInfo
from tinyjax.transforms.arguments import differentiable
from tinyjax.transforms.linearize import linearize
from tinyjax.transforms.residuals import Residual


@final
@frozen(repr=False)
class ResidualMemory:
    """The values that `grad` keeps until the derivative is computed."""

    residuals: tuple[Residual, ...]

    @property
    def total(self) -> int:
        """The bytes of all."""
        return sum(residual.nbytes for residual in self.residuals)

    @property
    def computed(self) -> int:
        """The bytes of those that aren't inputs, which are in memory anyway."""
        return sum(residual.nbytes for residual in self.residuals if residual.input is None)

    @property
    def lines(self) -> tuple[tuple[SourceInfo | None, int], ...]:
        """The bytes of those that are computed, by line of user code, most first."""
        found: dict[SourceInfo | None, int] = {}
        for residual in self.residuals:
            if residual.input is None:
                line = residual.source and residual.source.untransformed
                found[line] = found.get(line, 0) + residual.nbytes
        return tuple(sorted(found.items(), key=lambda item: item[1], reverse=True))

    @property
    def _head(self) -> str:
        return f"{self.total:,} bytes in {len(self.residuals)} residuals, {self.computed:,} of them computed"

    @property
    def _largest_first(self) -> list[Residual]:
        return sorted(self.residuals, key=lambda residual: residual.nbytes, reverse=True)

    @override
    def __str__(self) -> str:
        return "\n".join([self._head, *(f"  {residual.describe()}" for residual in self._largest_first)])

    @override
    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        rows = ((r.describe().partition(": ")[2], str(r.aval), f"{r.nbytes:,}") for r in self._largest_first)
        blocks = [Note(self._head), *table(("residual", "type", "bytes"), rows, numbers=2)]
        return page(block.html for block in blocks)


def residual_memory(
    fun: Callable[..., Any] | Jaxpr | ClosedJaxpr | HoldsProgram, /, *args: Any, **kwargs: Any
) -> ResidualMemory:
    """What `grad` or `vjp` of a function keeps in memory, for arguments like these: arrays, or types (ShapedArray).

    For a program instead of a function, there are no arguments.

    >>> from tinyjax import ShapedArray, checkpoint, numpy as tnp
    >>> f = lambda x: tnp.sum(tnp.sin(tnp.sin(x)))
    >>> x = ShapedArray((100,), "float32")
    >>> residual_memory(f, x).computed, residual_memory(checkpoint(f), x).computed
    (800, 0)
    """
    if isinstance(fun, Jaxpr | ClosedJaxpr) or (isinstance(fun, HoldsProgram) and not args and not kwargs):
        return _of_program(checked(fun, "residual_memory"))
    if isinstance(fun, HoldsProgram) and not callable(fun):
        raise InputError("residual_memory: a program comes without arguments, which are for a function")
    return ResidualMemory(saved_residuals(fun, *args, **kwargs))


def _of_program(closed: ClosedJaxpr) -> ResidualMemory:
    """The residuals, with the names of inputs."""
    jaxpr, constants = closed.jaxpr, len(closed.consts)
    possible = differentiable(jaxpr)
    found = linearize(jaxpr, [mark and i >= constants for i, mark in enumerate(possible)]).residuals
    names = jaxpr.input_names

    def named(residual: Residual) -> Residual:
        at = residual.input
        if at is None or (at >= constants and not names[at]):
            return residual
        label = "a value that the function closes over" if at < constants else f"argument {names[at]}"
        return evolve(residual, label=label)

    return ResidualMemory(tuple(map(named, found)))
