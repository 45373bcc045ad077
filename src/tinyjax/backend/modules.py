"""Compiling StableHLO text that doesn't come from one of our programs. jax is imported when something is compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from tinyjax.errors import InputError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import HostArray
from tinyjax.ir.shapes import Shape
from tinyjax.ir.type_lists import expect_types
from tinyjax.ir.value import ConcreteValue


def compile_module(
    text: str,
    in_types: Sequence[tuple[Shape, npt.DTypeLike]],
    out_types: Sequence[tuple[Shape, npt.DTypeLike]],
    name: str = "main",
) -> Callable[[Sequence[HostArray]], list[HostArray]]:
    """The function that a StableHLO module's `@main` is, on NumPy arrays, compiled for jax's default device.

    `in_types` and `out_types` are the shapes and dtypes of its inputs and outputs. An XlaError if the text can't be
    compiled or the run fails; an InputError for arguments of other types.

    >>> double = compile_module(
    ...     '''
    ...     func.func public @main(%x: tensor<2xf64>) -> (tensor<2xf64>) {
    ...       %0 = stablehlo.add %x, %x : tensor<2xf64>
    ...       return %0 : tensor<2xf64>
    ...     }''',
    ...     [((2,), "float64")],
    ...     [((2,), "float64")],
    ... )
    >>> double([np.asarray([1.0, 2.0])])
    [array([2., 4.])]
    """
    from tinyjax.backend.devices import default_device
    from tinyjax.backend.executable import compile_text

    expected = [ShapedArray(shape, dtype) for shape, dtype in in_types]
    out_avals = [ShapedArray(shape, dtype) for shape, dtype in out_types]
    executable = compile_text(text, name, expected, out_avals, default_device())

    def run(args: Sequence[HostArray]) -> list[HostArray]:
        values = [ConcreteValue.of(np.asarray(arg)) for arg in args]
        expect_types(f"{name!r} was compiled for", expected, [value.aval for value in values], InputError)
        return [np.asarray(out.data) for out in executable(values, name)]

    return run
