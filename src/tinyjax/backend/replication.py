"""What every device has all of: a warning for who asks for it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence

from tinyjax.backend.embedding import Constants, passed
from tinyjax.backend.layouts import Asked, input_labels
from tinyjax.errors import ReplicationWarning
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.program import Jaxpr
from tinyjax.meshes import Sharding


def warn_of_replicated(
    jaxpr: Jaxpr,
    constants: Constants,
    ins: Sequence[Sharding],
    outs: Sequence[Sharding],
    name: str,
    asked: Asked | None,
) -> None:
    """Warns of inputs (but for those that are `constants`) and results of a program for several devices that aren't
    divided, if they are as large as it was asked for."""
    if asked is None or asked.warn_from is None:
        return
    for label, aval, sharding in _labelled(jaxpr, constants, ins, outs, name):
        if sharding.num_devices > 1 and sharding.is_fully_replicated and aval.nbytes >= asked.warn_from:
            warnings.warn(
                f"{label}, {aval}, is replicated: each of {sharding.num_devices} devices has all of its "
                f"{aval.nbytes:,} bytes. Say how it is divided by in_shardings, out_shardings or device_put.",
                ReplicationWarning,
                stacklevel=2,
            )


def _labelled(
    jaxpr: Jaxpr, constants: Constants, ins: Sequence[Sharding], outs: Sequence[Sharding], name: str
) -> Iterator[tuple[str, ShapedArray, Sharding]]:
    for label, aval, sharding in zip(
        passed(constants, input_labels(jaxpr, name)), passed(constants, jaxpr.in_avals), ins, strict=True
    ):
        yield label, aval, sharding
    for i, (aval, sharding) in enumerate(zip(jaxpr.out_avals, outs, strict=True)):
        yield f"result {i} of {name!r}", aval, sharding
