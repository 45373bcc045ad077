"""Every first-order primitive of the standard registry, on operands of every type and with many parameters: those
applications that its type rule accepts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

import attrs
import numpy as np

from tests.primitives.catalog import ALL, I, U
from tinyjax.errors import TinyjaxError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import (
    BFLOAT16,
    BOOL,
    COMPLEX64,
    FLOAT64,
    INT8,
    INT32,
    INT64,
    KEY,
    UINT32,
    UINT64,
    DType,
    real_dtype,
)
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.shapes import Shape
from tinyjax.ir.text.registry import STANDARD
from tinyjax.ir.value import ConcreteValue
from tinyjax.primitives import (
    arithmetic,
    comparison,
    constant,
    contractions,
    conversion,
    convolution,
    determinants,
    dynamic,
    factorizations,
    fourier,
    gather,
    generators,
    hidden_state,
    key_generators,
    keys,
    reduce_window,
    rounding,
    scatter,
    shaping,
    sinks,
    slicing,
    solutions,
    sorting,
    spectral,
    stacking,
    structure,
    threefry,
    triangular,
    tridiagonal,
    window_choices,
)
from tinyjax.primitives.annotations import Name, OptimizationBarrier
from tinyjax.primitives.cumulative import Cumulative
from tinyjax.primitives.elementwise import Elementwise
from tinyjax.primitives.reductions import ArgMax, ArgMin
from tinyjax.primitives.structure import Reduction
from tinyjax.primitives.windows import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers

Application: TypeAlias = tuple[Primitive, tuple[ShapedArray, ...]]
#: Ways to make primitives of a class with other parameters than none, and the shapes of their operands.
Grid: TypeAlias = Callable[[], Iterator[Application]]

FEW: Final = (BOOL, INT8, UINT64, BFLOAT16, FLOAT64, COMPLEX64)
SHAPES: Final[tuple[Shape, ...]] = ((), (2, 3), (0, 3))


def _avals(dtypes: Sequence[DType], *shapes: Shape) -> tuple[ShapedArray, ...]:
    return tuple(map(ShapedArray, shapes, dtypes))


def _each(primitives: Sequence[Primitive], *shapes: Shape, dtypes: Sequence[DType] = ALL) -> Iterator[Application]:
    """On operands of these shapes, all of one dtype."""
    for primitive, dtype in itertools.product(primitives, dtypes):
        yield primitive, _avals([dtype] * len(shapes), *shapes)


def _conversions() -> Iterator[Application]:
    for new, old in itertools.product(ALL, ALL):
        yield conversion.ConvertElementType(new), _avals([old], (2, 3))
        ratio = new.itemsize // old.itemsize
        yield conversion.BitcastConvertType(new), _avals([old], (3, ratio) if ratio > 1 else (3,))
        yield conversion.BitcastConvertType(new), _avals([old], (ratio,) if ratio > 1 else ())
    bits = (1, 0), (5, 10), (8, 23), (11, 52), (30, 100), (2, 7)
    yield from _each([conversion.ReducePrecision(*pair) for pair in bits], (2, 3))


def _contractions() -> Iterator[Application]:
    sums = ((1,), (0,)), ((), ())
    for x, y, out in itertools.product(ALL, ALL, (None, *ALL)):
        yield contractions.DotGeneral(sums, None, out), _avals([x, y], (2, 3), (3, 2))
    levels = [None, *contractions.Precision, *itertools.permutations(contractions.Precision, 2)]
    batched = ((2,), (1,)), ((0,), (0,))
    yield from _each([contractions.DotGeneral(batched, level) for level in levels], (2, 1, 3), (2, 3))
    yield from _each([contractions.DotGeneral((((), ()), ((), ())))], (), (2,))


def _windows() -> Iterator[Application]:
    sizes, strides, padding, gaps = (2, 2), (1, 2), ((1, 0), (-1, 2)), (1, 2)
    over = (sizes, strides, padding, gaps, gaps)
    choices = [cls(*over) for cls in (reduce_window.ReduceWindowMax, reduce_window.ReduceWindowMin)]
    yield from _each([reduce_window.ReduceWindowSum(*over), *choices], (2, 3))
    yield from _each([window_choices.SelectAndGatherAdd(*over, choice) for choice in ("ge", "le")], (2, 3), (2, 3))
    scattered = [window_choices.SelectAndScatterAdd(sizes, strides, padding, choice) for choice in ("ge", "le")]
    yield from _each(scattered, (2, 2), (2, 3))
    numbers = convolution.ConvDimensionNumbers((0, 1, 2), (0, 1, 2), (0, 1, 2))
    for out in (None, *ALL):
        made = convolution.ConvGeneralDilated((1,), ((1, 0),), (2,), (1,), numbers, 2, 1, None, out)
        yield from _each([made], (1, 4, 3), (2, 2, 2))


def _random() -> Iterator[Application]:
    yield from _each([threefry.Threefry2x32()], (2, 3), (), (2, 3), (2, 3))
    for impl in keys.KeyImpl:
        yield from _each([keys.RandomWrap(impl)], (3, impl.dtype.itemsize // 4))
        yield from _each([keys.RandomSeed(impl)], (2, 3))
    for dtype, algorithm in itertools.product(key_generators.WIDTHS.values(), generators.RandomAlgorithm):
        yield from _each([generators.RngBitGenerator((3, 2), dtype, algorithm)], (4,))
        yield from _each([generators.RngBitGenerator((3,), dtype, algorithm)], (2,))
    yield from _each([hidden_state.RngUniform((3, 2))], (), ())
    yield from _each([sinks.DceSink(), sinks.DceSink(True)], (3, 2))
    made = [keys.RandomBits(width, (4,)) for width in key_generators.WIDTHS]
    moved = [
        keys.RandomUnwrap(),
        keys.RandomClone(),
        keys.RandomSplit((2,)),
        comparison.eq,
        structure.Transpose((1, 0)),
    ]
    for shape in ((2, 3), (0, 3)):
        for primitive in (*made, *moved):
            yield primitive, (ShapedArray(shape, KEY),) * (2 if primitive is comparison.eq else 1)
        yield keys.RandomFoldIn(), (ShapedArray(shape, KEY), ShapedArray(shape, UINT32))


def _gathers() -> Iterator[Application]:
    dims = GatherDimensionNumbers((0,), (1,), (1,))
    updating = ScatterDimensionNumbers.of(dims)
    fills = None, 0, 1.5, math.nan, -math.inf, -1, 2**70, 1j, True
    for index, mode in itertools.product((*I, *U), GatherScatterMode):
        for dtype in FEW:
            taken = _avals([dtype, index], (2, 3), (4, 1))
            yield gather.Gather(dims, (2, 1), mode), taken
            for cls in (gather.ScatterAdd, scatter.Scatter, scatter.ScatterMul, scatter.ScatterMin, scatter.ScatterMax):
                yield cls(updating, mode), (*taken, ShapedArray((2, 4), dtype))
    for dtype, fill in itertools.product(ALL, fills):
        mode = GatherScatterMode.FILL_OR_DROP
        yield gather.Gather(dims, (2, 1), mode, fill), _avals([dtype, INT32], (2, 3), (4, 1))
    for dtype in ALL:
        for cls in (gather.ScatterAdd, scatter.Scatter, scatter.ScatterMul, scatter.ScatterMin, scatter.ScatterMax):
            yield cls(updating, unique_indices=True), _avals([dtype, INT64, dtype], (2, 3), (4, 1), (2, 4))
    for dtype, index in itertools.product(FEW, (*I, *U)):
        starts = (ShapedArray((), index),) * 2
        yield dynamic.DynamicSlice((1, 2)), (ShapedArray((2, 3), dtype), *starts)
        yield dynamic.DynamicUpdateSlice(), (*_avals([dtype] * 2, (2, 3), (1, 2)), *starts)
        yield dynamic.DynamicSlice(()), _avals([dtype], ())


def _shapes() -> Iterator[Application]:
    yield from _each([shaping.Reshape((3, 2)), shaping.Rev((0, 1)), structure.Transpose((1, 0))], (2, 3))
    yield from _each([shaping.Squeeze((0,))], (1, 3))
    yield from _each([structure.BroadcastInDim((2, 3), (1,))], (3,))
    yield from _each([slicing.Slice((0, 1), (2, 3), (1, 2)), slicing.Split((1, 2, 0), 1)], (2, 3))
    yield from _each([slicing.Concatenate(1)], (2, 3), (2, 0), (2, 1))
    yield from _each([stacking.Stack(1)], (2, 3), (2, 3))
    yield from _each([stacking.Unstack(1)], (2, 3))
    for config in (((1, 2, 0), (0, 0, 3)), ((-1, 0, 1), (-5, 7, 2)), ((0, 0, 0), (-1, -1, 0))):
        yield from _each([slicing.Pad(config)], (2, 3), ())
    for dtype, shape in itertools.product(ALL, SHAPES[1:]):
        yield shaping.Iota(dtype, shape, 1), ()
    for dtype, shape in itertools.product(ALL, SHAPES):
        yield constant.Constant(ConcreteValue.of(np.zeros(shape, dtype))), ()


def _along_axes() -> Iterator[Application]:
    classes = _classes()
    reducing = [cls for cls in classes if issubclass(cls, Reduction)]
    yield from _each([cls(axes) for cls in reducing for axes in ((), (0,), (0, 1))], (2, 3))
    yield from _each([cls((1,)) for cls in reducing], (2, 0))
    scanning = [cls for cls in classes if issubclass(cls, Cumulative)]
    yield from _each([cls(1, reverse) for cls in scanning for reverse in (False, True)], (2, 3))
    yield from _each([cls(0) for cls in scanning], (0,))
    for dtype in (*I, *U):
        yield from _each([ArgMax((1,), dtype), ArgMin((0,), dtype)], (2, 3))
    sorts = [sorting.Sort(0, stable, keys) for stable in (False, True) for keys in (1, 2)]
    yield from _each(sorts, (4,), (4,))
    yield from _each([sorting.Sort(1), sorting.TopK(1, 0)], (2, 0))
    yield from _each([sorting.TopK(axis, 2) for axis in (0, 1)], (3, 4))


def _parameters() -> Iterator[Application]:
    powers = [arithmetic.IntegerPow(y) for y in (0, 1, 2, 7, -1, -3, 2**31, -(2**40))]
    rounds = [rounding.Round(method) for method in rounding.RoundingMethod]
    yield from _each([*powers, *rounds], (2, 3))
    others = Name('a"b'), OptimizationBarrier()
    yield from _each(others, (2, 3))
    yield from _each(others[1:], (), (0, 2))


def _elementwise() -> Iterator[Application]:
    for cls in _classes():
        if not issubclass(cls, Elementwise) or any(f.default is attrs.NOTHING for f in attrs.fields(cls)):
            continue
        for x, y in itertools.product(ALL, ALL):
            yield cls(), _avals([x, y], (2, 3), ())
            yield cls(), _avals([x, y, y], (), (2, 3), (2, 3))
        yield from _each([cls()], (2, 3))


def _transforms() -> Iterator[Application]:
    for kind in fourier.FftType:
        last = 2 if kind is fourier.FftType.IRFFT else 3
        yield from _each([fourier.Fft(kind, (3,)), fourier.Fft(kind, (2, 3))], (2, last))


def _matrices() -> Iterator[Application]:
    whole = [
        triangular.Cholesky(), factorizations.Lu(), determinants.Det(), determinants.Slogdet(), factorizations.Geqrf(),
        spectral.Eigh(), spectral.Svd(), spectral.Svd(False, False), spectral.Eig(), spectral.Schur(),
        spectral.Hessenberg(), spectral.Tridiagonal(),
        *(factorizations.Qr(pivoting, full) for pivoting in (False, True) for full in (False, True)),
    ]  # fmt: skip
    for shape in ((2, 2), (3, 1, 1), (2, 0, 0), (2, 3), (3, 0)):
        yield from _each(whole, shape)
    for flags in itertools.product((False, True), repeat=5):
        yield from _each([triangular.TriangularSolve(*flags)], (2, 2), (2, 2))
    yield from _each([solutions.Solve()], (2, 3, 3), (2, 3, 1))
    yield from _each([solutions.Stein()], (2, 3), (2, 3), (3, 2), (2, 2), (2, 2), (3, 2))
    for dtype in ALL:
        yield solutions.Pinv(), _avals([dtype, real_dtype(dtype)], (2, 3), ())
    yield from _each([factorizations.HouseholderProduct()], (3, 2), (2,))
    yield from _each([factorizations.Ormqr()], (3, 2), (2,), (3, 1))
    yield from _each([factorizations.LuPivotsToPermutation(3)], (2, 2))
    yield from _each([triangular.CholeskyUpdate()], (2, 2), (2,))
    yield from _each([triangular.SymmetricProduct()], (2, 3), (2, 2))
    yield from _each([tridiagonal.TridiagonalSolve()], *[(4, 3)] * 3, (4, 3, 2))
    for dtype in ALL:
        yield factorizations.Geqp3(), _avals([dtype, INT32], (3, 2), (2,))


GRIDS: Final[tuple[Grid, ...]] = (
    _elementwise, _parameters, _conversions, _contractions, _windows, _random, _gathers, _shapes, _along_axes,
    _transforms, _matrices,
)  # fmt: skip


def _classes() -> list[type[Primitive]]:
    return [cls for cls in STANDARD if issubclass(cls, Primitive)]


def accepted(grid: Grid) -> list[Application]:
    """The applications of a grid that the type rules accept; what they refuse is one of our errors."""
    found: list[Application] = []
    for application in grid():
        primitive, avals = application
        try:
            primitive.type_of(*avals)
        except TinyjaxError:
            continue
        found.append(application)
    return found
