"""What moves equations to where their operands are made doesn't go through all of them for each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

from typing_extensions import override

import tinyjax as tj
import tinyjax.numpy as tnp
from tinyjax import Array
from tinyjax.transforms.early import _Early
from tinyjax.transforms.rows import find_lazy

COUNT = 6


@final
class Watched(dict[int, int]):
    """Counts how often somebody goes through all of it."""

    times = 0

    @override
    def __iter__(self) -> Iterator[int]:
        Watched.times += 1
        return super().__iter__()


def converted_first(x: Array, weights: list[Array]) -> Array:
    """Weights are converted ahead of all layers, and each is read at two places."""
    for w in [w.astype("float32") for w in weights]:
        x = tnp.sin(x @ w) + tnp.cos(w)
    return tnp.sum(x)


def test_converted_weights_are_looked_up() -> None:
    x, w = tj.ShapeDtypeStruct((2, 2), "float32"), tj.ShapeDtypeStruct((2, 2), "float64")
    jaxpr = tj.make_jaxpr(converted_first)(x, [w] * COUNT).jaxpr
    early = _Early(jaxpr.eqns, find_lazy(jaxpr), jaxpr.outvars)
    assert any(map(early._of_a_tensor, range(COUNT)))
    early._maker = Watched(early._maker)
    ordered = early.ordered()
    assert Watched.times == 0
    # Each is converted where its layer reads it.
    names = [eqn.primitive.name for eqn in ordered]
    places = [i for i, name in enumerate(names) if name == "convert_element_type"]
    assert places[0] == 0
    assert places[-1] > len(names) - 8
