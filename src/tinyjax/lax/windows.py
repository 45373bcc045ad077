"""Reductions by any associative function, of axes and of windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, Final, TypeAlias, TypeVar, overload

import numpy as np

from tinyjax.arrays.elementwise import convert
from tinyjax.arrays.promotion import result_type
from tinyjax.arrays.shaping import integers
from tinyjax.control.reducing import Reduce, ReduceWindow, SelectAndScatter, monoid
from tinyjax.errors import InputError, ShapeError
from tinyjax.ir.aval import ShapedArray
from tinyjax.ir.dtypes import FLOAT32, NUMERIC, DType, Scalar
from tinyjax.ir.primitive import Primitive
from tinyjax.ir.program import Jaxpr
from tinyjax.ir.shared_types import array_type
from tinyjax.lax import binary
from tinyjax.lax.binding import axes_tuple, operands, padding_pairs
from tinyjax.lax.computations import scalar_function, scalar_program
from tinyjax.lax.layouts import OutSharding, laid_out
from tinyjax.lax.signatures import AnyTree
from tinyjax.primitives import arithmetic, elementwise
from tinyjax.primitives.arithmetic import Max, Min
from tinyjax.primitives.bitwise import And, Or, Xor
from tinyjax.primitives.elementwise import Add, Mul
from tinyjax.primitives.reduce_window import ReduceWindowMax, ReduceWindowMin, ReduceWindowSum, WindowReduction
from tinyjax.primitives.reductions import (
    ReduceAnd,
    ReduceMax,
    ReduceMin,
    ReduceOr,
    ReduceProd,
    ReduceXor,
    highest,
    lowest,
)
from tinyjax.primitives.structure import ReduceSum, Reduction
from tinyjax.primitives.window_choices import SelectAndGatherAdd, SelectAndScatterAdd
from tinyjax.primitives.window_shapes import Padding, dilated_shape, pads_of
from tinyjax.tracing import tree
from tinyjax.tracing.array import Array, ArrayLike
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind
from tinyjax.tracing.functions import as_arrays

_T = TypeVar("_T", bound=AnyTree)
_Sizes: TypeAlias = Sequence[int]
_PaddingLike: TypeAlias = str | Sequence[tuple[int, int]]


def _zero(_: DType) -> Scalar:
    return 0


def _one(_: DType) -> Scalar:
    return 1


def _ones(dtype: DType) -> Scalar:
    found: Scalar = np.asarray(-1).astype(dtype).item()
    return found


def _least(dtype: DType) -> Scalar:
    return lowest(dtype)


def _most(dtype: DType) -> Scalar:
    return highest(dtype)


#: What is a primitive of its own where the initial value changes nothing.
_REDUCTIONS: Final[dict[type[Primitive], tuple[type[Reduction], Callable[[DType], Scalar]]]] = {
    Add: (ReduceSum, _zero), Mul: (ReduceProd, _one), Max: (ReduceMax, _least), Min: (ReduceMin, _most),
    And: (ReduceAnd, _ones), Or: (ReduceOr, _zero), Xor: (ReduceXor, _zero),
}  # fmt: skip
_WINDOWS: Final[dict[type[Primitive], tuple[type[WindowReduction], Callable[[DType], Scalar]]]] = {
    Add: (ReduceWindowSum, _zero), Max: (ReduceWindowMax, _least), Min: (ReduceWindowMin, _most),
}  # fmt: skip


#: What functions of `lax` are known to do, by their names.
_FUNCTIONS: Final[Mapping[str, Primitive]] = {
    "add": elementwise.add, "mul": elementwise.mul, "max": arithmetic.max_, "min": arithmetic.min_,
}  # fmt: skip


def _known(computation: object, xs: Sequence[Array], treedef: Any) -> Primitive | None:
    """The primitive that a function is for one array of numbers, which is no tree, if it needn't be traced for that."""
    if not isinstance(computation, FunctionType) or treedef.num_nodes != 1 or xs[0].aval.dtype not in NUMERIC:
        return None
    name = computation.__name__
    return _FUNCTIONS[name] if name in _FUNCTIONS and getattr(binary, name) is computation else None


def _operands(name: str, given: object, initial: object) -> tuple[list[Array], list[Array], Any]:
    """The leaves of operands and of initial values, of which weak ones take the operands' dtype; and their tree."""
    leaves, treedef = tree.flatten(given)
    starts, start_tree = tree.flatten(initial)
    tree.check_same_structure(name, treedef, start_tree, "the operands", "the initial values")
    if not leaves:
        raise InputError(f"{name} needs at least one operand")
    xs = as_arrays(leaves, lambda i: f"{name}: operand {i}")
    inits = as_arrays(starts, lambda i: f"{name}: initial value {i}")
    for i, (x, start) in enumerate(zip(xs, inits, strict=True)):
        if start.aval.dtype != x.aval.dtype and start.aval.shape == ():
            inits[i] = _begun(x, start)
    return xs, inits, treedef


def _begun(x: Array, start: Array) -> Array:
    """An initial value. A weak one takes the operand's dtype, also from an integer to a float."""
    dtype = x.aval.dtype
    fits = start.aval.weak_type and result_type([x.aval, start.aval])[0] == dtype
    return convert(start, dtype) if fits else start


def _scalars(xs: Sequence[Array]) -> list[ShapedArray]:
    return [array_type((), x.aval.dtype) for x in xs]


def _neutral(start: Array, identity: Callable[[DType], Scalar]) -> bool:
    """Whether an initial value is known, and changes nothing."""
    known = start.concrete()
    return known is not None and start.aval.shape == () and bool(np.asarray(known.data) == identity(start.aval.dtype))


@overload
def reduce(
    operands: ArrayLike,
    init_values: ArrayLike,
    computation: Callable[[Array, Array], ArrayLike],
    dimensions: Sequence[int],
    out_sharding: OutSharding = None,
) -> Array: ...
@overload
def reduce(
    operands: _T,
    init_values: AnyTree,
    computation: Callable[[Any, Any], object],
    dimensions: Sequence[int],
    out_sharding: OutSharding = None,
) -> _T: ...
def reduce(
    operands: object,
    init_values: object,
    computation: Callable[[Any, Any], object],
    dimensions: Sequence[int],
    out_sharding: OutSharding = None,
) -> object:
    """Arrays reduced together over axes by an associative function.

    `operands` is a tree of arrays of one shape, `init_values` the same tree of scalars. `computation` takes two such
    trees of scalars and returns one, in whose form the results are. In which order elements are combined isn't said,
    and the initial values are combined with what was found once. `out_sharding` says how the results lie on a mesh.

    Raises:
      TreeError: the trees of operands and initial values differ.
      TypingError: the function returns other types; an initial value has another dtype than its operand.

    >>> reduce(np.arange(1.0, 5.0), 1.0, lambda x, y: x * y, (0,))
    Array(24., dtype=float64)
    """
    xs, inits, treedef = _operands("reduce", operands, init_values)
    axes = axes_tuple(dimensions, xs[0].aval.ndim)
    found = _as_primitive(_known(computation, xs, treedef), xs[0], inits[0], axes)
    if found is not None:
        return laid_out(found, out_sharding)
    program, treedef = scalar_function("reduce", computation, _scalars(xs), treedef, _scalars(xs))
    found = _as_primitive(monoid(program), xs[0], inits[0], axes)
    outs = bind(Reduce(program, axes), *xs, *inits) if found is None else (found,)
    return tree.unflatten(treedef, [laid_out(out, out_sharding) for out in outs])


def _as_primitive(known: Primitive | None, x: Array, start: Array, axes: tuple[int, ...]) -> Array | None:
    """A reduction by a function that is one primitive, if the initial value changes nothing."""
    if known is None:
        return None
    cls, identity = _REDUCTIONS[type(known)]
    alike = start.aval.dtype == x.aval.dtype and start.aval.weak_type >= x.aval.weak_type
    return bind(cls(axes), x)[0] if alike and _neutral(start, identity) else None


def _parameters(
    name: str,
    shape: Sequence[int],
    window_dimensions: _Sizes,
    window_strides: _Sizes | None,
    padding: _PaddingLike,
    base_dilation: _Sizes | None = None,
    window_dilation: _Sizes | None = None,
) -> tuple[tuple[int, ...], tuple[int, ...], Padding, tuple[int, ...], tuple[int, ...]]:
    """The parameters of windows, as primitives have them."""
    window = integers(window_dimensions, f"{name}: a size of window_dimensions")
    ones = (1,) * len(window)
    strides = ones if window_strides is None else integers(window_strides, f"{name}: a stride")
    base = ones if base_dilation is None else integers(base_dilation, f"{name}: base_dilation")
    holes = ones if window_dilation is None else integers(window_dilation, f"{name}: window_dilation")
    if not isinstance(padding, str):
        return window, strides, padding_pairs(name, padding), base, holes
    if not len(window) == len(holes) == len(base) == len(shape):
        raise ShapeError(
            f"{name}: window_dimensions {window} and the dilations {base} and {holes} need a number for each of the "
            f"{len(shape)} axes"
        )
    return window, strides, pads_of(shape, dilated_shape(window, holes), strides, padding), base, holes


@overload
def reduce_window(
    operand: ArrayLike,
    init_value: ArrayLike,
    computation: Callable[[Array, Array], ArrayLike],
    window_dimensions: _Sizes,
    window_strides: _Sizes | None = None,
    padding: _PaddingLike = "VALID",
    base_dilation: _Sizes | None = None,
    window_dilation: _Sizes | None = None,
) -> Array: ...
@overload
def reduce_window(
    operand: _T,
    init_value: AnyTree,
    computation: Callable[[Any, Any], object],
    window_dimensions: _Sizes,
    window_strides: _Sizes | None = None,
    padding: _PaddingLike = "VALID",
    base_dilation: _Sizes | None = None,
    window_dilation: _Sizes | None = None,
) -> _T: ...
def reduce_window(
    operand: object,
    init_value: object,
    computation: Callable[[Any, Any], object],
    window_dimensions: _Sizes,
    window_strides: _Sizes | None = None,
    padding: _PaddingLike = "VALID",
    base_dilation: _Sizes | None = None,
    window_dilation: _Sizes | None = None,
) -> object:
    """The windows that slide over arrays, each reduced by an associative function.

    There is a window size, a stride and so on for each axis. `operand` and `init_value` may be trees, see `reduce`; the
    initial values are combined with each window once. `padding` is "VALID", "SAME", "SAME_LOWER" or for each axis how
    far windows reach beyond it at both ends; there, nothing is added to them. The dilations put gaps between the
    elements of the operand, or between those of a window.

    >>> x = np.arange(12.0).reshape(3, 4)
    >>> reduce_window(x, 0.0, lambda x, y: x + y, (2, 2), (1, 2))
    Array([[10., 18.],
           [26., 34.]], dtype=float64)
    """
    xs, inits, treedef = _operands("reduce_window", operand, init_value)
    made = _parameters(
        "reduce_window", xs[0].aval.shape, window_dimensions, window_strides, padding, base_dilation, window_dilation
    )
    program: Jaxpr | None = None
    known = _known(computation, xs, treedef)
    if known is None:
        program = scalar_program("reduce_window", computation, _scalars(xs), treedef, _scalars(xs))
        known = monoid(program)
    if known is not None and type(known) in _WINDOWS:
        cls, identity = _WINDOWS[type(known)]
        if _neutral(inits[0], identity) and inits[0].aval.dtype == xs[0].aval.dtype:
            return tree.unflatten(treedef, bind(cls(*made), xs[0]))
    if program is None:
        program = scalar_program("reduce_window", computation, _scalars(xs), treedef, _scalars(xs))
    return tree.unflatten(treedef, bind(ReduceWindow(*made, program), *xs, *inits))


def reduce_window_shape_tuple(
    operand_shape: _Sizes,
    window_dimensions: _Sizes,
    window_strides: _Sizes,
    padding: Sequence[tuple[int, int]],
    base_dilation: _Sizes | None = None,
    window_dilation: _Sizes | None = None,
) -> tuple[int, ...]:
    """How many windows there are along each axis.

    >>> reduce_window_shape_tuple((5, 6), (2, 3), (1, 2), ((0, 0), (1, 0)))
    (4, 3)
    """
    name, shape = "reduce_window_shape_tuple", integers(operand_shape, "reduce_window_shape_tuple: a size")
    made = _parameters(name, shape, window_dimensions, window_strides, padding, base_dilation, window_dilation)
    (found,) = ReduceWindowSum(*made).type_of(array_type(shape, FLOAT32))
    return found.shape


def select_and_gather_add(
    tangents: ArrayLike,
    operand: ArrayLike,
    select_prim: str,
    window_dimensions: _Sizes,
    window_strides: _Sizes | None = None,
    padding: _PaddingLike = "VALID",
    base_dilation: _Sizes | None = None,
    window_dilation: _Sizes | None = None,
) -> Array:
    """Of each window, the element of `tangents` where the largest one of `operand` is, or with `select_prim` "le" the
    smallest: the derivative of a maximum of windows. Of equal elements the first is taken.

    >>> select_and_gather_add(np.arange(4.0), np.array([3.0, 1.0, 2.0, 2.0]), "ge", (2,))
    Array([0., 2., 2.], dtype=float64)
    """
    t, x = map(as_array, (tangents, operand))
    made = _parameters(
        "select_and_gather_add",
        x.aval.shape,
        window_dimensions,
        window_strides,
        padding,
        base_dilation,
        window_dilation,
    )
    return bind(SelectAndGatherAdd(*made, select_prim), t, x)[0]


def select_and_scatter_add(
    source: ArrayLike,
    operand: ArrayLike,
    select_prim: str,
    window_dimensions: _Sizes,
    window_strides: _Sizes | None = None,
    padding: _PaddingLike = "VALID",
) -> Array:
    """Zeros to which each element of `source` is added where the largest element of a window of `operand` is, or with
    `select_prim` "le" the smallest: the transpose of `select_and_gather_add`.

    >>> select_and_scatter_add(np.array([1.0, 10.0, 100.0]), np.array([3.0, 1.0, 2.0, 2.0]), "ge", (2,))
    Array([  1.,   0., 110.,   0.], dtype=float64)
    """
    s, x = map(as_array, (source, operand))
    window, strides, pads, _, _ = _parameters(
        "select_and_scatter_add", x.aval.shape, window_dimensions, window_strides, padding
    )
    return bind(SelectAndScatterAdd(window, strides, pads, select_prim), s, x)[0]


def select_and_scatter(
    operand: ArrayLike,
    select: Callable[[Any, Any], object],
    window_dimensions: _Sizes,
    window_strides: _Sizes | None,
    padding: _PaddingLike,
    source: ArrayLike,
    init_value: ArrayLike,
    scatter: Callable[[Any, Any], object],
) -> Array:
    """An array filled with `init_value`, in which each element of `source` is combined by `scatter` with what is where
    the chosen element of a window of `operand` is. `select` says of two elements whether the first is chosen.

    >>> x, source = np.array([3.0, 1.0, 2.0, 2.0]), np.array([1.0, 10.0, 100.0])
    >>> select_and_scatter(x, lambda x, y: x <= y, (2,), None, "VALID", source, 0.5, lambda x, y: x + y)
    Array([  0.5,  11.5, 100.5,   0.5], dtype=float64)
    """
    name = "select_and_scatter"
    x, s = operands(operand, source)
    start = _begun(x, as_array(init_value))
    window, strides, pads, _, _ = _parameters(name, x.aval.shape, window_dimensions, window_strides, padding)
    scalar = array_type((), x.aval.dtype)
    leaf = tree.flatten(0)[1]
    chooser = scalar_program(name, select, [scalar], leaf, [array_type((), np.dtype(np.bool_))])
    scatterer = scalar_program(name, scatter, [scalar], leaf, [scalar])
    return bind(SelectAndScatter(chooser, scatterer, window, strides, pads), x, s, start)[0]
