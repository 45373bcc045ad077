"""`ffi_call`: functions of other languages, called by compiled programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, get_args, overload

from tinyjax.api.make_jaxpr import abstractify
from tinyjax.arrays.shaping import integers
from tinyjax.control.callbacks import VmapMethod
from tinyjax.control.composite_call import Dictionary, entries
from tinyjax.control.foreign import FfiCall, Order
from tinyjax.errors import ChoiceError, InputError
from tinyjax.ir.aval import ShapedArray
from tinyjax.tracebacks import filtered
from tinyjax.tracing.array import Array
from tinyjax.tracing.concrete import as_array
from tinyjax.tracing.core import bind
from tinyjax.transforms.arguments import flag, whole

#: The axes of an array in memory, the slowest first, or what has them as `major_to_minor`. None: row by row.
Layout: TypeAlias = Any
#: Layouts of several arrays.
Layouts: TypeAlias = Sequence[Layout] | None


class Described(Protocol):
    """What has the type of an array."""

    @property
    def shape(self) -> Sequence[int]: ...

    @property
    def dtype(self) -> object: ...


@overload
def ffi_call(
    target_name: str,
    result_shape_dtypes: Sequence[Any],  # types
    *,
    has_side_effect: bool = False,
    vmap_method: VmapMethod | None = None,
    input_layouts: Layouts = None,
    output_layouts: Layout = None,
    input_output_aliases: Mapping[int, int] | None = None,
    custom_call_api_version: int = 4,
    legacy_backend_config: str | None = None,
) -> Callable[..., Sequence[Array]]: ...
@overload
def ffi_call(
    target_name: str,
    result_shape_dtypes: ShapedArray | Described,
    *,
    has_side_effect: bool = False,
    vmap_method: VmapMethod | None = None,
    input_layouts: Layouts = None,
    output_layouts: Layout = None,
    input_output_aliases: Mapping[int, int] | None = None,
    custom_call_api_version: int = 4,
    legacy_backend_config: str | None = None,
) -> Callable[..., Array]: ...
@filtered
def ffi_call(
    target_name: str,
    result_shape_dtypes: ShapedArray | Described | Sequence[Any],
    *,
    has_side_effect: bool = False,
    vmap_method: VmapMethod | None = None,
    input_layouts: Layouts = None,
    output_layouts: Layout = None,
    input_output_aliases: Mapping[int, int] | None = None,
    custom_call_api_version: int = 4,
    legacy_backend_config: str | None = None,
) -> Callable[..., Array | Sequence[Array]]:
    """A function of arrays, which calls what `register_ffi_target` has registered with XLA under a name.

    `result_shape_dtypes` is the type of its result, or a sequence of types: anything with a shape and a dtype. Named
    arguments of the function are attributes of the call: numbers (an int has 64 bits, `np.int32(3)` has 32), strings,
    dtypes, arrays of NumPy's, and lists and dictionaries of them. It has no derivative: give it one with `custom_jvp`
    or `custom_vjp`. Outside of `jit`, too, it is compiled code that calls.

    Args:
      has_side_effect: it is called even where nothing reads the results.
      vmap_method: how `vmap` maps the call, as for `pure_callback`. None: it can't be mapped.
      input_layouts: how the function wants matrices: for each array None for row by row, or its axes, the slowest
        first; `(1, 0)` is column by column.
      output_layouts: how it writes the results; of one result, its layout.
      input_output_aliases: results, by their positions, that may be written to where operands are.
      custom_call_api_version: 4 is XLA's typed FFI. Versions before take no attributes but one string,
        `legacy_backend_config`.

    Raises:
      ChoiceError: the arguments don't fit together.
      CallbackError: the call is differentiated, or mapped without a method.

    See the interface of XLA's foreign functions, https://openxla.org/xla/custom_call.

    >>> import numpy as np
    >>> from tinyjax import ShapedArray
    >>> factor = ffi_call(  # jaxlib's own, of LAPACK, which wants columns, and says whether it could
    ...     "lapack_dpotrf_ffi",
    ...     (ShapedArray((2, 2), "float64"), ShapedArray((), "int32")),
    ...     input_layouts=[(1, 0)],
    ...     output_layouts=[(1, 0), None],
    ... )
    >>> lower, status = factor(np.array([[4.0, 2.0], [2.0, 5.0]]), uplo=np.uint8(ord("L")))
    >>> float(lower[1, 0]), int(status)
    (1.0, 0)
    """
    if not isinstance(target_name, str):
        raise InputError(f"ffi_call: target_name is a string, got {target_name!r}")
    side_effect = flag("ffi_call: has_side_effect", has_side_effect)
    _ = whole("ffi_call: custom_call_api_version", custom_call_api_version)
    if vmap_method is not None and repr(vmap_method) not in map(repr, get_args(VmapMethod)):
        allowed = ", ".join(map(repr, get_args(VmapMethod)))
        raise ChoiceError(f"ffi_call: vmap_method must be one of {allowed} or None, got {vmap_method!r}")
    several = isinstance(result_shape_dtypes, Sequence)
    results = _result_types(result_shape_dtypes if isinstance(result_shape_dtypes, Sequence) else [result_shape_dtypes])
    if custom_call_api_version >= 4 and legacy_backend_config is not None:
        raise ChoiceError(
            "The use of the legacy_backend_config parameter requires custom_call_api_version < 4; got "
            f"{custom_call_api_version}. Pass attributes by name instead, where the function is called."
        )
    out_orders = _orders("output", output_layouts if several or output_layouts is None else [output_layouts], results)

    def call(*args: Any, **kwargs: Any) -> Array | Sequence[Array]:  # the function's own arguments
        arrays = list(map(as_array, args))
        avals = [array.aval for array in arrays]
        in_orders = _orders("input", input_layouts, avals)
        if kwargs and custom_call_api_version < 4:
            raise ChoiceError(
                "The use of ffi_call attributes requires a custom call API version of at least 4; got "
                f"custom_call_api_version={custom_call_api_version}."
            )
        attributes: dict[object, object] = {}
        attributes.update(kwargs)
        primitive = FfiCall(
            target_name,
            tuple(results),
            Dictionary(entries("ffi_call: attributes", attributes)),
            vmap_method,
            side_effect,
            tuple(in_orders),
            tuple(out_orders),
            tuple(_aliases(input_output_aliases, avals, results, in_orders, out_orders)),
            custom_call_api_version,
            legacy_backend_config,
        )
        outs = bind(primitive, *arrays)
        if not several:
            return outs[0]
        return outs if isinstance(result_shape_dtypes, tuple) else list(outs)

    return filtered(call)


def _result_types(given: Sequence[object]) -> list[ShapedArray]:
    for i, described in enumerate(given):
        if not hasattr(described, "shape") or not hasattr(described, "dtype"):
            raise ChoiceError(
                "All elements of result_shape_dtypes must have 'shape' and 'dtype' attributes, as "
                f"tinyjax.ShapedArray((2,), 'float32') has. Got {described!r} at position {i}."
            )
    return [ShapedArray(aval.shape, aval.dtype) for aval in map(abstractify, given)]


def _orders(what: str, layouts: object, avals: Sequence[ShapedArray]) -> list[Order]:
    """The layouts as XLA has them."""
    if layouts is None:
        return [tuple(range(aval.ndim))[::-1] for aval in avals]
    if not isinstance(layouts, Sequence) or isinstance(layouts, str):
        raise InputError(f"ffi_call: {what}_layouts has a layout, or None, for each array, got {layouts!r}")
    if len(layouts) != len(avals):
        kind = "input arguments" if what == "input" else "outputs"
        raise ChoiceError(
            f"The number of {kind} ({len(avals)}) must equal the number of {what} layouts ({len(layouts)}), one for "
            "each. None is the layout row by row."
        )
    found: list[Order] = []
    for i, (layout, aval) in enumerate(zip(layouts, avals, strict=True)):
        axes = getattr(layout, "major_to_minor", layout)
        given = range(aval.ndim) if axes is None else integers(axes, f"ffi_call: an axis of {what}_layouts[{i}]")
        order = tuple(given)[::-1]
        if sorted(order) != list(range(aval.ndim)):
            raise ChoiceError(
                f"ffi_call: {what}_layouts[{i}] is {layout!r}, but the array has shape {aval.shape}: a layout names "
                f"each of its {aval.ndim} axes once, the slowest first"
            )
        found.append(order)
    return found


def _aliases(
    aliases: object,
    ins: Sequence[ShapedArray],
    outs: Sequence[ShapedArray],
    in_orders: Sequence[Order],
    out_orders: Sequence[Order],
) -> list[tuple[int, int]]:
    if aliases is None:
        return []
    if not isinstance(aliases, Mapping):
        raise InputError(f"ffi_call: input_output_aliases is a dictionary, got {aliases!r}")
    what = "ffi_call: a position in input_output_aliases"
    found = sorted((whole(what, i), whole(what, o)) for i, o in aliases.items())
    for i, o in found:
        what = f"input_output_aliases contains the mapping '{i}:{o}'"
        if not 0 <= i < len(ins):
            raise ChoiceError(f"{what} with input index {i} outside the range [0, {len(ins)}).")
        if not 0 <= o < len(outs):
            raise ChoiceError(f"{what} with output index {o} outside the range [0, {len(outs)}).")
        if not ins[i].strengthen().matches(outs[o]):
            raise ChoiceError(
                f"{what} referring to an input with abstract value {ins[i]} and an output with a different abstract "
                f"value {outs[o]}."
            )
        if in_orders[i] != out_orders[o]:
            raise ChoiceError(
                f"{what} referring to an input with layout {in_orders[i][::-1]} and an output with a different layout "
                f"{out_orders[o][::-1]}."
            )
    return found
