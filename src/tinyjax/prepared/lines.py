"""Programs of kernels as functions of Python's: a line for each step, in place of a loop that looks up at each what is
done there, and with what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, final

import numpy as np
from attrs import frozen

from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import HostArray

#: What computes one array on the host, or a list of several.
StepFunction: TypeAlias = "Callable[..., HostArray | np.generic | list[HostArray]]"
#: From the operands to the results.
Run: TypeAlias = Callable[[Sequence[HostArray]], list[HostArray]]


@final
@frozen(eq=False)
class Step:
    """What is computed of the values in these places, and the types of the results.

    Values are counted from the constants, then the operands, then the results of the steps before.
    """

    function: StepFunction
    places: Sequence[int]
    results: Sequence[ShapedArray]
    #: Whether the results come in a list.
    several: bool = False
    #: Whether a result may have another dtype than is said, and has to be converted.
    inexact: bool = True


_COMMON: Final = {"array": np.array, "asarray": np.asarray, "kind": np.ndarray}


def run_of(constants: Sequence[HostArray], count: int, steps: Sequence[Step], outs: Sequence[int]) -> Run:
    """The function that takes `count` operands, does these steps, and returns the values in the places `outs`.

    A value that nothing reads any more is overwritten by the next one, so that its memory is free.
    """
    names: dict[str, object] = dict(_COMMON)
    values = [f"c{i}" for i in range(len(constants))]
    names.update(zip(values, constants, strict=True))
    operands = [f"v{i}" for i in range(count)]
    values += operands
    lines = [f"{', '.join(operands)}, = operands"] if operands else []
    last = {at: i for i, step in enumerate(steps) for at in step.places}
    last.update(dict.fromkeys(outs, len(steps)))
    free: list[str] = []
    made = count
    for i, step in enumerate(steps):
        names[f"f{i}"] = step.function
        given = [values[at] for at in step.places]
        free += {values[at] for at in step.places if last[at] == i and at >= len(constants)}
        results: list[str] = []
        for _ in step.results:
            if not free:
                free.append(f"v{made}")
                made += 1
            results.append(free.pop())
        place = len(values)
        values += results
        free += [name for j, name in enumerate(results) if place + j not in last]
        call = f"f{i}({', '.join(given)})"
        if step.several:
            lines.append(f"{', '.join(results)}, = {call}" if results else call)
            continue
        (result,), (aval,) = results, step.results
        names[f"d{i}"] = aval.dtype
        lines.append(f"{result} = {call}")
        if not aval.shape:  # where there are dimensions, NumPy returns no number
            lines.append(f"if type({result}) is not kind: {result} = array({result}, d{i})")
        if step.inexact:
            lines.append(f"if {result}.dtype is not d{i}: {result} = asarray({result}, d{i})")
    lines.append(f"return [{', '.join([values[at] for at in outs])}]")
    exec("\n    ".join(["def run(operands):", *lines]), names)  # noqa: S102 (no text of anybody's)
    run = names["run"]
    assert callable(run)
    return run


def may_differ(function: StepFunction, operands: Sequence[ShapedArray], result: ShapedArray) -> bool:
    """Whether a function may return another dtype than this, or another object for it: a ufunc can be asked."""
    if not isinstance(function, np.ufunc) or function.nin != len(operands) or function.nout != 1:
        return True
    try:
        found = function.resolve_dtypes((*[aval.dtype for aval in operands], None))
    except TypeError:
        return True
    return found[-1] is not result.dtype
