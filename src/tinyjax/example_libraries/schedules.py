"""How large the steps of optimizers are."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeAlias

import tinyjax.numpy as tnp
from tinyjax.errors import InputError, ShapeError
from tinyjax.example_libraries.arguments import checked, number
from tinyjax.tracebacks import filtered
from tinyjax.tracing.array import Array

P = ParamSpec("P")
#: From the number of a step to its size.
Schedule: TypeAlias = Callable[[Any], Any]
Number: TypeAlias = float | Array
#: A number, or one for each step.
StepSize: TypeAlias = Number | Schedule


def schedule(make: Callable[P, Schedule]) -> Callable[P, Schedule]:
    """The maker of a schedule, whose arguments are checked, and which takes a number of a step. A decorator."""
    checking = checked(make)

    @wraps(make)
    def entry(*args: P.args, **kwargs: P.kwargs) -> Schedule:
        size = checking(*args, **kwargs)

        def of_step(i: Any) -> Any:
            number("i, the number of the step,", i)
            return size(i)

        return filtered(of_step, says=True)

    return entry


@schedule
def constant(step_size: Number) -> Schedule:
    """The same size for each step.

    >>> constant(0.1)(7)
    0.1
    """
    return lambda i: step_size


@schedule
def exponential_decay(step_size: Number, decay_steps: Number, decay_rate: Number) -> Schedule:
    """Sizes of which `decay_rate` is left after every `decay_steps`.

    >>> exponential_decay(1.0, 10, 0.5)(20)
    0.25
    """
    step: Any = step_size
    return lambda i: step * decay_rate ** (i / decay_steps)


@schedule
def inverse_time_decay(step_size: Number, decay_steps: Number, decay_rate: Number, staircase: bool = False) -> Schedule:
    """Sizes divided by a number that grows by `decay_rate` in every `decay_steps`; all at once with `staircase`.

    >>> inverse_time_decay(1.0, 10, 2.0)(5)
    0.5
    """
    step: Any = step_size
    if staircase:
        return lambda i: step / (1 + decay_rate * tnp.floor(i / decay_steps))
    return lambda i: step / (1 + decay_rate * i / decay_steps)


@schedule
def polynomial_decay(step_size: Number, decay_steps: Number, final_step_size: Number, power: Number = 1.0) -> Schedule:
    """Sizes that get to `final_step_size` in `decay_steps`, and stay there.

    >>> polynomial_decay(1.0, 10, 0.5)(5)
    Array(0.75, dtype=float64, weak_type=True)
    """
    first: Any = step_size

    def size(i: Any) -> Any:
        left = (1 - tnp.minimum(i, decay_steps) / decay_steps) ** power
        return left * (first - final_step_size) + final_step_size

    return size


@schedule
def piecewise_constant(boundaries: Any, values: Any) -> Schedule:
    """Sizes that change after the steps of these numbers. A ShapeError unless there is one value more.

    >>> piecewise_constant([10, 20], [1.0, 0.5, 0.1])(15)
    Array(0.5, dtype=float64)
    """
    steps, sizes = tnp.asarray(boundaries), tnp.asarray(values)
    if not steps.ndim == sizes.ndim == 1 or steps.shape[0] != sizes.shape[0] - 1:
        raise ShapeError(
            "piecewise_constant: values are a sequence with one element more than boundaries, got shapes "
            f"{sizes.shape} and {steps.shape}"
        )
    return lambda i: sizes[tnp.sum(i > steps)]


def make_schedule(scalar_or_schedule: StepSize) -> Schedule:
    """A schedule as it is; of a number that for all steps. An InputError for other arrays.

    >>> make_schedule(0.1)(3)
    0.1
    """
    if callable(scalar_or_schedule):
        return scalar_or_schedule
    if tnp.ndim(scalar_or_schedule) != 0:
        raise InputError(
            f"a step size is a number or a function of the step, got shape {tnp.shape(scalar_or_schedule)}"
        )
    return constant(scalar_or_schedule)
